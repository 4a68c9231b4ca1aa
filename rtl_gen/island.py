"""Islands: cores between two streams, stopped and started together."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.graph import OUTSIDE, Graph
from sbnn_hw.rtl_gen.lower import lower_stage
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Island", "Single", "connect_cores", "join"]


class Island(wiring.Component):
    """Parts between two streams.

    An input is taken in every cycle in which no output waits to be taken.

    Parameters
    ----------
    graph : Graph
        What it is made of, and what each part reads.

    Members
    -------
    i : :py:`In(stream.Signature(width_in))`
        What the first part takes.
    o : :py:`Out(stream.Signature(width_out))`
        What the last part gives.
    """

    # An island that is refused is no oversight.
    _MustUse__silence = True

    def __init__(self, graph):
        self._graph = graph
        super().__init__({
            "i": In(stream.Signature(graph.width_in)),
            "o": Out(stream.Signature(graph.width_out)),
        })

    def elaborate(self, platform):
        return connect_cores(self, self._graph)


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
        super().__init__(Graph.chain(lower_stage(stage, edge, options or Options())))


def join(component, islands):
    """Return a module of islands between a component's streams, each read by the next."""
    if len(islands) == 1:
        return connect_cores(component, islands[0])
    m = Module()

    before = wiring.flipped(component.i)
    for number, graph in enumerate(islands):
        island = m.submodules[f"island{number}"] = Island(graph)
        wiring.connect(m, before, island.i)
        before = island.o
    wiring.connect(m, before, wiring.flipped(component.o))

    return m


def connect_cores(component, graph):
    """Return a module of cores between a component's streams, all stopped together."""
    widths = {OUTSIDE: len(Value.cast(component.i.payload))}
    for name, part in graph.parts.items():
        for read, width in zip(graph.reads[name], part.widths, strict=True):
            if widths[read] != width:
                raise ValueError(f"Core {name} must take {widths[read]} bits, not {width}")
        widths[name] = part.width_out
    m = Module()

    # A result must not change until it is taken.
    enable = Signal()
    m.d.comb += [
        enable.eq(~component.o.valid | component.o.ready),
        component.i.ready.eq(enable),
    ]
    given = {OUTSIDE: (component.i.valid, Value.cast(component.i.payload))}
    for name, part in graph.parts.items():
        core = m.submodules[name] = core_of(part)
        m.d.comb += core.enable.eq(enable)
        for read, taken in zip(graph.reads[name], core.inputs, strict=True):
            valid, payload = given[read]
            m.d.comb += [taken.valid.eq(valid), taken.payload.eq(payload)]
        given[name] = core.o.valid, core.o.payload
    valid, payload = given[name]
    m.d.comb += [component.o.valid.eq(valid), Value.cast(component.o.payload).eq(payload)]

    return m
