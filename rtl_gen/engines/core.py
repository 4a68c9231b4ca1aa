"""What all engines have in common: two streams, and a program that is read in order."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Core", "later", "layout_of"]


def layout_of(shape, scores):
    """Return what a result holds: the class, and the scores if they are asked for."""
    layout = {"index": shape.index_bits}
    if scores:
        layout["scores"] = data.ArrayLayout(signed(shape.score_bits), shape.classes)
    return data.StructLayout(layout)


class Core(wiring.Component):
    """An engine without its program's memory.

    Members
    -------
    i : :py:`In(stream.Signature(value_bits))`
        The values of an image, one after the other.
    o : :py:`Out(stream.Signature(data.StructLayout))`
        The number of the class, and the scores where they are asked for.
    word : :py:`In(word_bits)`
        A word of the program.
    advance, restart : :py:`Out(1)`
        Read the next word; begin again with the first.
    """

    def __init__(self, shape, scores):
        self._shape, self._scores = shape, scores
        super().__init__({
            "i": In(stream.Signature(shape.value_bits)),
            "o": Out(stream.Signature(layout_of(shape, scores))),
            "word": In(shape.word_bits),
            "advance": Out(1),
            "restart": Out(1),
        })

    def _give(self, m, ranking):
        """Offer what was ranked until it is taken."""
        m.d.comb += self.o.payload.index.eq(ranking.index)
        if self._scores:
            m.d.comb += self.o.payload.scores.as_value().eq(ranking.scores)
        with m.If(ranking.done):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)


def later(m, value, cycles, name):
    """Return a bit as it was some cycles before."""
    for n in range(cycles):
        kept = Signal(name=f"{name}{n + 1}")
        m.d.sync += kept.eq(value)
        value = kept
    return value
