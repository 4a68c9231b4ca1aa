"""Scores one after the other: the first largest, and all of them where they are asked for."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Ranking"]


class Ranking(wiring.Component):
    """The scores of a group's lanes, one a clock, and the first largest of all.

    Members
    -------
    go : :py:`In(1)`
        The lanes hold scores from this cycle on, as long as they are looked at.
    sums : :py:`In(lanes × score_bits)`
        Those scores.
    done : :py:`Out(1)`
        In the next cycle the result is there.
    index, scores : :py:`Out`
        The result, until the first score of another image.
    """

    def __init__(self, shape, scores):
        self._shape, self._scores = shape, scores
        super().__init__({
            "go": In(1),
            "sums": In(shape.at_once * shape.score_bits),
            "done": Out(1),
            "index": Out(shape.index_bits),
            **({"scores": Out(shape.classes * shape.score_bits)} if scores else {}),
        })

    def elaborate(self, platform):
        m = Module()

        classes, bits, lanes = self._shape.classes, self._shape.score_bits, self._shape.at_once
        goes_on = Signal()
        active = Signal()
        number = Signal(range(max(2, classes)))
        ends = Signal()
        m.d.comb += active.eq(self.go | goes_on)
        end_of_group = Const(1)
        chosen = Signal(signed(bits), reset_less=True)
        if lanes > 1:
            lane = Signal(range(lanes))
            end_of_group = lane == lanes - 1
            with m.If(active):
                m.d.sync += lane.eq(Mux(ends, 0, lane + 1))
            m.d.sync += chosen.eq(self.sums.word_select(lane, bits))
        else:
            m.d.sync += chosen.eq(self.sums)
        final = number == classes - 1
        m.d.comb += ends.eq(end_of_group | final)
        m.d.sync += goes_on.eq(active & ~ends)
        with m.If(active):
            m.d.sync += number.eq(Mux(final, 0, number + 1))
        looks = Signal()
        first = Signal(reset_less=True)
        last = Signal(reset_less=True)
        which = Signal(self._shape.index_bits, reset_less=True)
        m.d.sync += [
            looks.eq(active), first.eq(number == 0), last.eq(final), which.eq(number),
        ]
        best = Signal(signed(bits), reset_less=True)
        m.d.comb += self.done.eq(looks & last)
        with m.If(looks):
            if self._scores:
                m.d.sync += self.scores.eq(Cat(self.scores[bits:], chosen))
            # The first of several that are largest stays.
            with m.If(first | (chosen > best)):
                m.d.sync += [best.eq(chosen), self.index.eq(which)]

        return m
