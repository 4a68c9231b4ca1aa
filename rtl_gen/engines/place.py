"""An engine in its place: behind what is unrolled, or by itself."""

from amaranth import *
from amaranth.lib import wiring

from sbnn_hw.families import find_family
from sbnn_hw.rtl_gen.engines.engine import Engine

__all__ = ["ENGINE", "join_engine"]

#: The name of the engine's instance.
ENGINE = "engine"


def join_engine(component, lowered, options):
    """Return a module with an engine between a component's streams."""
    m = Module()

    folded = lowered.engine
    engine = Engine(folded, find_family(options.family), options.scores)
    m.submodules[ENGINE] = engine
    wiring.connect(m, wiring.flipped(component.i), engine.i)
    m.d.comb += [
        component.o.valid.eq(engine.o.valid),
        Value.cast(component.o.payload).eq(Value.cast(engine.o.payload)),
        engine.o.ready.eq(component.o.ready),
    ]
    if folded.shape.loadable:
        wiring.connect(m, wiring.flipped(component.program), engine.program)

    return m
