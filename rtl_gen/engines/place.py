"""An engine in its place: behind what is unrolled, or by itself."""

from types import SimpleNamespace

from amaranth import *
from amaranth.lib import stream, wiring

from sbnn_hw.families import find_family
from sbnn_hw.rtl_gen.engines.engine import Engine
from sbnn_hw.rtl_gen.engines.spread import Spread
from sbnn_hw.rtl_gen.island import connect_cores

__all__ = ["ENGINE", "SPREAD", "join_engine"]

#: The names of the engine's instance, and of that which brings it what is unrolled in front.
ENGINE, SPREAD = "engine", "spread"


def join_engine(component, lowered, options):
    """Return a module with an engine between a component's streams, behind parts if there are."""
    folded = lowered.engine
    engine = Engine(folded, find_family(options.family), options.scores)
    if lowered.chosen:
        bits, width = folded.shape.value_bits, lowered.graph.width_out
        words = stream.Signature(width).create()
        m = connect_cores(SimpleNamespace(i=component.i, o=words), lowered.graph)
        spread = m.submodules[SPREAD] = Spread(width // bits, bits)
        m.d.comb += [
            spread.i.payload.eq(words.payload), spread.i.valid.eq(words.valid),
            words.ready.eq(spread.i.ready),
        ]
        wiring.connect(m, spread.o, engine.i)
    else:
        m = Module()
        wiring.connect(m, wiring.flipped(component.i), engine.i)
    m.submodules[ENGINE] = engine
    m.d.comb += [
        component.o.valid.eq(engine.o.valid),
        Value.cast(component.o.payload).eq(Value.cast(engine.o.payload)),
        engine.o.ready.eq(component.o.ready),
    ]
    if folded.shape.loadable:
        wiring.connect(m, wiring.flipped(component.program), engine.program)

    return m
