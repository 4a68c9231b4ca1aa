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

    def _halves(self, m, control, feeder):
        """Tell which halves of the input are full; return which one is computed."""
        full = Signal(2)
        half = Signal()
        m.d.sync += full.eq((full | feeder.filled) & ~Mux(control.frees, 1 << half, 0))
        with m.If(control.frees):
            m.d.sync += half.eq(~half)
        m.d.comb += [control.full.eq(full.bit_select(half, 1)), feeder.full.eq(full)]
        return half

    def _count(self, m, control, feeder, writes, layer_ends, word, half, head, q):
        """Count what layers hand on, and multiply by Ξ, which a header holds: that is q."""
        shape = self._shape
        left = Signal(shape.q_bits, reset_less=True)
        with m.If(control.clears):
            m.d.sync += q.eq(0)
        with m.If(control.multiplies):
            m.d.sync += [
                q.eq((q << 1) + Mux(left[-1], head[: shape.sum_bits], 0)),
                left.eq(left << 1),
            ]
        if any(layer.counts for layer in shape.layers[1:]):
            ones = Signal(range(len(word) + 1))
            new = Signal()
            final = Signal()
            total = Signal(shape.q_bits)
            more = Signal(shape.q_bits)
            m.d.sync += [ones.eq(sum(bit for bit in word)), new.eq(writes), final.eq(layer_ends)]
            m.d.comb += more.eq(total + ones)
            with m.If(new):
                m.d.sync += total.eq(Mux(final, 0, more))
                with m.If(final):
                    m.d.sync += left.eq(more)
        if shape.layers[0].counts:
            # An image's count is there before its turn comes.
            kept = [Signal(shape.q_bits, name=f"kept{n}", reset_less=True) for n in range(2)]
            for n in range(2):
                with m.If(feeder.closes[n]):
                    m.d.sync += kept[n].eq(feeder.count)
            with m.If(control.counts):
                m.d.sync += left.eq(Mux(half, kept[1], kept[0]))

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
