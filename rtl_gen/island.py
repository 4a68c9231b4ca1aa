"""Islands: cores in a chain between two streams, stopped and started together."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.lower import lower_stage
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Island", "Single", "join"]


class Island(wiring.Component):
    """Parts between two streams.

    An input is taken in every cycle in which no output waits to be taken.

    Parameters
    ----------
    parts : mapping of str to Part
        What it is made of, by name, in order.

    Members
    -------
    i : :py:`In(stream.Signature(width_in))`
        What the first part takes.
    o : :py:`Out(stream.Signature(width_out))`
        What the last part gives.
    """

    # An island that is refused is no oversight.
    _MustUse__silence = True

    def __init__(self, parts):
        self._parts = dict(parts)
        first, *_, last = [*self._parts.values()] * 2
        super().__init__({
            "i": In(stream.Signature(first.width_in)),
            "o": Out(stream.Signature(last.width_out)),
        })

    def elaborate(self, platform):
        return _chain(self, self._parts)


class Single(Island):
    """One stage by itself.

    Parameters
    ----------
    stage : Stage
        What to compute: anything but :class:`Flatten`, and not the scores.
    edge : Edge
        What it receives: a map comes a pixel at a time, a vector at once.
    """

    def __init__(self, stage, edge, options=None):
        super().__init__(lower_stage(stage, edge, options or Options()))


def join(component, islands):
    """Return a module of islands between a component's streams, each read by the next."""
    if len(islands) == 1:
        return _chain(component, islands[0])
    m = Module()

    before = wiring.flipped(component.i)
    for number, parts in enumerate(islands):
        island = m.submodules[f"island{number}"] = Island(parts)
        wiring.connect(m, before, island.i)
        before = island.o
    wiring.connect(m, before, wiring.flipped(component.o))

    return m


def _chain(component, parts):
    """Return a module of cores between a component's streams, all stopped together."""
    width = len(Value.cast(component.i.payload))
    for name, part in parts.items():
        if part.width_in != width:
            raise ValueError(f"Core {name} must take {width} bits, not {part.width_in}")
        width = part.width_out
    m = Module()

    # A result must not change until it is taken.
    enable = Signal()
    m.d.comb += [
        enable.eq(~component.o.valid | component.o.ready),
        component.i.ready.eq(enable),
    ]
    valid, payload = component.i.valid, Value.cast(component.i.payload)
    for name, part in parts.items():
        core = m.submodules[name] = core_of(part)
        m.d.comb += [core.enable.eq(enable), core.i.valid.eq(valid), core.i.payload.eq(payload)]
        valid, payload = core.o.valid, core.o.payload
    m.d.comb += [component.o.valid.eq(valid), Value.cast(component.o.payload).eq(payload)]

    return m
