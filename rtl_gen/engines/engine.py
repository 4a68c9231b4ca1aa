"""An engine: a core, and the memory of its program."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.engines.core import layout_of
from sbnn_hw.rtl_gen.engines.gaps import GapsCore
from sbnn_hw.rtl_gen.engines.store import LOADING, Store

__all__ = ["Engine"]

_CORES = {"gaps": GapsCore}


class Engine(wiring.Component):
    """A chain of layers between two streams, computed in turn.

    Parameters
    ----------
    folded : Folded
        The layers' shape and program.
    family : Family
        Decides how the program's memory is cut.
    scores : bool
        Whether scores are given with the class.

    Members
    -------
    i : :py:`In(stream.Signature(value_bits))`
        The values of an image, one after the other.
    o : :py:`Out(stream.Signature(data.StructLayout))`
        The number of the class, and the scores where they are asked for.
    program : :py:`In(LOADING)`
        A program to write, where it is loadable. From ``reset`` until the last word was written,
        nothing is taken and nothing given, and what was under way is forgotten.
    """

    # An engine that is only asked for its ports is no oversight.
    _MustUse__silence = True

    def __init__(self, folded, family, scores=True):
        self._shape, self._words, self._family = folded.shape, folded.program.words, family
        self._scores = scores
        super().__init__({
            "i": In(stream.Signature(self._shape.value_bits)),
            "o": Out(stream.Signature(layout_of(self._shape, scores))),
            **({"program": In(LOADING)} if self._shape.loadable else {}),
        })

    def elaborate(self, platform):
        m = Module()

        store = m.submodules.store = Store(self._words, self._shape, self._family)
        core = _CORES[self._shape.form](self._shape, self._scores)
        stopped = Const(0)
        if self._shape.loadable:
            wiring.connect(m, wiring.flipped(self.program), store.program)
            stopped = Signal()
            m.d.comb += stopped.eq(store.busy | self.program.reset)
            m.submodules.core = ResetInserter(stopped)(core)
        else:
            m.submodules.core = core
        m.d.comb += [
            core.word.eq(store.word), store.advance.eq(core.advance),
            store.restart.eq(core.restart | stopped),
            core.i.payload.eq(self.i.payload), core.i.valid.eq(self.i.valid & ~stopped),
            self.i.ready.eq(core.i.ready & ~stopped),
            Value.cast(self.o.payload).eq(Value.cast(core.o.payload)),
            self.o.valid.eq(core.o.valid & ~stopped), core.o.ready.eq(self.o.ready),
        ]

        return m
