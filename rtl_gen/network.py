"""The whole network: cores in a chain between two streams, stopped and started together."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.lower import Options, lower, lower_stage

__all__ = ["Network", "Single"]


class Network(wiring.Component):
    """A whole network between two streams.

    An input is taken in every cycle in which no result waits to be taken. From an image's first
    input to its result it takes :py:`latency` cycles, if inputs come in every cycle.

    Members
    -------
    i : :py:`In(stream.Signature(width_in))`
        An image, or one pixel after the other: the first pixel, and of it the first channel, least
        significant.
    o : :py:`Out(stream.Signature(data.StructLayout))`
        The number of the class, and the scores in two's complement.
    """

    # A network that is refused, or only asked what it would cost, is no oversight.
    _MustUse__silence = True

    def __init__(self, network, options=None):
        self.options = options or Options()
        self.lowered = lower(network, self.options)
        self.beats, self.latency = self.lowered.beats, self.lowered.latency
        shape = {"index": self.lowered.index_bits}
        if self.options.scores:
            shape["scores"] = data.ArrayLayout(signed(self.lowered.score_bits), network.classes)
        cores = list(self.lowered.cores.values())
        super().__init__({
            "i": In(stream.Signature(len(cores[0].i.payload))),
            "o": Out(stream.Signature(data.StructLayout(shape))),
        })

    def elaborate(self, platform):
        return chain(self, self.lowered.cores)


class Single(wiring.Component):
    """One stage by itself, between two streams.

    An input is taken in every cycle in which no output waits to be taken.

    Parameters
    ----------
    stage : Stage
        What to compute: anything but :class:`Flatten`, and not the scores.
    edge : Edge
        What it receives: a map comes a pixel at a time, a vector at once.

    Members
    -------
    i : :py:`In(stream.Signature(width_in))`
        What the stage takes.
    o : :py:`Out(stream.Signature(width_out))`
        What it gives.
    """

    _MustUse__silence = True

    def __init__(self, stage, edge, options=None):
        self._cores = lower_stage(stage, edge, options or Options())
        first, *_, last = [*self._cores.values(), *self._cores.values()]
        super().__init__({
            "i": In(stream.Signature(len(first.i.payload))),
            "o": Out(stream.Signature(len(last.o.payload))),
        })

    def elaborate(self, platform):
        return chain(self, self._cores)


def chain(component, cores):
    """Return a module of cores between a component's streams, all stopped together."""
    m = Module()

    # A result must not change until it is taken.
    enable = Signal()
    m.d.comb += [
        enable.eq(~component.o.valid | component.o.ready),
        component.i.ready.eq(enable),
    ]
    valid, payload = component.i.valid, Value.cast(component.i.payload)
    for name, core in cores.items():
        if len(core.i.payload) != len(payload):
            width = len(core.i.payload)
            raise ValueError(f"Core {name} must take {len(payload)} bits, not {width}")
        m.submodules[name] = core
        m.d.comb += [core.enable.eq(enable), core.i.valid.eq(valid), core.i.payload.eq(payload)]
        valid, payload = core.o.valid, core.o.payload
    m.d.comb += [component.o.valid.eq(valid), Value.cast(component.o.payload).eq(payload)]

    return m
