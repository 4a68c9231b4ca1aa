"""The engine of gap codes: lanes in lockstep, layers in turn, by a program in block RAM."""

from amaranth import *
from amaranth.lib import wiring

from sbnn_hw.rtl_gen.engines.control import Control
from sbnn_hw.rtl_gen.engines.core import Core, later
from sbnn_hw.rtl_gen.engines.feeder import Feeder
from sbnn_hw.rtl_gen.engines.lane import Lane
from sbnn_hw.rtl_gen.engines.ranking import Ranking

__all__ = ["GapsCore"]


class GapsCore(Core):
    """Lanes in lockstep, each with its own copy of all activations, and what tells them what to do.

    An image comes in value by value while the one before it is computed. Timing depends on the
    program alone, not on what an image holds.
    """

    def elaborate(self, platform):
        m = Module()

        shape = self._shape
        feeder = m.submodules.feeder = Feeder(shape)
        ranking = m.submodules.ranking = Ranking(shape, self._scores)
        control = m.submodules.control = Control(shape)
        lanes = [Lane(shape) for _ in range(shape.lanes)]
        for number, lane in enumerate(lanes):
            m.submodules[f"lane{number}"] = lane
            m.d.comb += lane.slot.eq(self.word.word_select(number, shape.slot_bits))
        wiring.connect(m, wiring.flipped(self.i), feeder.i)
        half = self._halves(m, control, feeder)
        count = Cat(lane.head[shape.sum_bits + 1 :][: shape.spare_bits] for lane in lanes)
        m.d.comb += [
            control.count.eq(count),
            self.advance.eq(control.advance), self.restart.eq(control.restart),
        ]
        self._lanes(m, lanes, control, feeder, half)
        self._results(m, lanes, control, feeder, ranking, half)

        return m

    def _lanes(self, m, lanes, control, feeder, half):
        """Tell all lanes what to do."""
        shape = self._shape
        begin0, begin1, even, odd = shape.regions
        base = Signal(len(lanes[0].base), reset_less=True)
        numbers = range(len(shape.layers))
        with m.Switch(control.layer):
            with m.Case(0):
                m.d.sync += base.eq(Mux(half, begin1, begin0))
            for n in numbers[1:]:
                with m.Case(n):
                    m.d.sync += base.eq(even if n % 2 else odd)
        first = later(m, control.layer == 0, 3, "first") if shape.integers else Const(0)
        negative = Const(0)
        if shape.negative:
            negative = later(m, control.layer == len(numbers) - 1, 3, "negative")
        begins = later(m, control.loads, 4, "begins")
        for lane in lanes:
            m.d.comb += [
                lane.heads.eq(control.heads), lane.loads.eq(control.loads),
                lane.codes.eq(control.codes), lane.base.eq(base), lane.first.eq(first),
                lane.negative.eq(negative), lane.adds.eq(begins),
            ]
            if shape.integers:
                value_half = Signal(name="value_half", reset_less=True)
                m.d.sync += value_half.eq(half)
                m.d.comb += [
                    lane.value_write.eq(feeder.write), lane.value.eq(feeder.data),
                    lane.value_address.eq(Cat(
                        feeder.address, Const(0, len(lane.value_address) - 1 - len(feeder.address)),
                        feeder.write_half)),
                    lane.value_half.eq(value_half),
                ]
        # A probe for each layer: a tap of a lane counts for the layer in whose turn it comes.
        for n in numbers:
            at = Signal(name=f"at{n}")
            m.d.sync += at.eq(control.layer == n)

    def _results(self, m, lanes, control, feeder, ranking, half):
        """Write what a group gives, or rank it; count what is written."""
        shape = self._shape
        begin0, begin1, even, odd = shape.regions
        ends = later(m, control.ends, 5, "ends")
        layer_ends = later(m, control.layer_ends, 5, "layer_ends")
        layer = Signal.like(control.layer)
        group = Signal.like(control.group)
        scores = Signal()
        m.d.comb += scores.eq(layer == len(shape.layers) - 1)
        with m.If(ends):
            m.d.sync += group.eq(Mux(layer_ends, 0, group + 1))
            with m.If(layer_ends):
                m.d.sync += layer.eq(Mux(scores, 0, layer + 1))
        word = Signal(shape.lanes, name="results")
        m.d.comb += word.eq(Cat(~lane.sum[-1] ^ lane.flip for lane in lanes))
        writes = Signal()
        m.d.comb += writes.eq(ends & ~scores)
        for n in range(len(shape.layers) - 1):
            gives = Signal(name=f"gives{n}")
            m.d.comb += gives.eq(writes & (layer == n))
        if shape.activation_words:
            base = even if len(shape.layers) < 3 else Mux(layer[0], odd, even)
            address = Signal(len(lanes[0].address))
            written = Signal(shape.lanes)
            enable = Signal()
            m.d.comb += [enable.eq(writes), address.eq(base | group), written.eq(word)]
            if not shape.integers:
                m.d.comb += feeder.busy.eq(writes)
                with m.If(~writes):
                    m.d.comb += [
                        enable.eq(feeder.write), written.eq(feeder.data),
                        address.eq(Mux(feeder.write_half, begin1, begin0) | feeder.address),
                    ]
            for lane in lanes:
                m.d.comb += [
                    lane.write.eq(enable), lane.address.eq(address), lane.data.eq(written),
                ]
        if shape.counts:
            q = Signal(shape.sum_bits)
            self._count(m, control, feeder, writes, layer_ends, word, half, lanes[0].head, q)
            for lane in lanes:
                m.d.comb += lane.q.eq(q)
        # What is ranked stays until it is taken; the scores' turn waits for that.
        m.d.comb += [
            ranking.go.eq(ends & scores),
            ranking.sums.eq(Cat(
                lane.sum[shape.score_drop :][: shape.score_bits] for lane in lanes)),
        ]
        self._give(m, ranking)
        m.d.comb += control.taken.eq(self.o.valid & self.o.ready)
        gives = Signal(name=f"gives{len(shape.layers) - 1}")
        m.d.comb += gives.eq(ranking.done)
