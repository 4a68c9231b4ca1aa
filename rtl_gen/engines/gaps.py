"""The engine of gap codes: lanes in lockstep, layers in turn, by a program in block RAM."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.engines.control import Control
from sbnn_hw.rtl_gen.engines.feeder import Feeder
from sbnn_hw.rtl_gen.engines.lane import Lane
from sbnn_hw.rtl_gen.engines.ranking import Ranking
from sbnn_hw.rtl_gen.engines.store import LOADING, Store

__all__ = ["GapsEngine"]


class GapsEngine(wiring.Component):
    """A chain of layers between two streams, computed in turn.

    An image comes in value by value while the one before it is computed. Timing depends on the
    program alone, not on what an image holds.

    Members
    -------
    i : :py:`In(stream.Signature(value_bits))`
        The values of an image, one after the other.
    o : :py:`Out(stream.Signature(data.StructLayout))`
        The number of the class, and the scores where they are asked for.
    program : :py:`In(LOADING)`
        A program to write, where it is loadable. From ``reset`` until the last word was written,
        nothing is taken and nothing given.
    """

    # An engine that is only asked for its ports is no oversight.
    _MustUse__silence = True

    def __init__(self, shape, words, family, scores=True):
        self._shape, self._words, self._family = shape, words, family
        self._scores = scores
        layout = {"index": shape.index_bits}
        if scores:
            layout["scores"] = data.ArrayLayout(signed(shape.score_bits), shape.classes)
        super().__init__({
            "i": In(stream.Signature(shape.value_bits)),
            "o": Out(stream.Signature(data.StructLayout(layout))),
            **({"program": In(LOADING)} if shape.loadable else {}),
        })

    def elaborate(self, platform):
        m = Module()

        self._store = m.submodules.store = Store(self._words, self._shape, self._family)
        inner = self._inner()
        if self._shape.loadable:
            wiring.connect(m, wiring.flipped(self.program), self._store.program)
            # A reset stops whatever is under way.
            stopped = Signal()
            m.d.comb += stopped.eq(self._store.busy | self.program.reset)
            inner = ResetInserter(stopped)(inner)
            for port in (self._ready, self._valid):
                port[1] &= ~stopped
        m.submodules.core = inner
        m.d.comb += [self.i.ready.eq(self._ready[1]), self.o.valid.eq(self._valid[1])]

        return m

    def _inner(self):
        """Return all but the program's memory."""
        m = Module()
        shape = self._shape
        feeder = m.submodules.feeder = Feeder(shape)
        ranking = m.submodules.ranking = Ranking(shape, self._scores)
        lanes = [Lane(shape) for _ in range(shape.lanes)]
        for number, lane in enumerate(lanes):
            m.submodules[f"lane{number}"] = lane
            m.d.comb += lane.slot.eq(self._store.word.word_select(number, shape.slot_bits))
        ready, valid = Signal(), Signal()
        self._ready, self._valid = [None, ready], [None, valid]
        m.d.comb += [
            feeder.i.payload.eq(self.i.payload), feeder.i.valid.eq(self.i.valid),
            ready.eq(feeder.i.ready), self.o.payload.index.eq(ranking.index),
        ]
        if self._scores:
            m.d.comb += self.o.payload.scores.as_value().eq(ranking.scores)
        control = m.submodules.control = Control(shape)
        # Which halves of the input are full, and which one is computed.
        full, half = Signal(2), Signal()
        m.d.sync += full.eq((full | feeder.filled) & ~Mux(control.frees, 1 << half, 0))
        with m.If(control.frees):
            m.d.sync += half.eq(~half)
        count = Cat(lane.head[shape.sum_bits + 1 :][: shape.spare_bits] for lane in lanes)
        m.d.comb += [
            control.count.eq(count), control.full.eq(full.bit_select(half, 1)),
            feeder.full.eq(full),
            self._store.advance.eq(control.advance), self._store.restart.eq(control.restart),
        ]
        self._lanes(m, lanes, control, feeder, half)
        self._results(m, lanes, control, feeder, ranking, half, valid)
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
        first = _later(m, control.layer == 0, 3, "first") if shape.integers else Const(0)
        negative = Const(0)
        if shape.negative:
            negative = _later(m, control.layer == len(numbers) - 1, 3, "negative")
        begins = _later(m, control.loads, 4, "begins")
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

    def _results(self, m, lanes, control, feeder, ranking, half, valid):
        """Write what a group gives, or rank it; count what is written."""
        shape = self._shape
        begin0, begin1, even, odd = shape.regions
        ends = _later(m, control.ends, 5, "ends")
        layer_ends = _later(m, control.layer_ends, 5, "layer_ends")
        layer, group = Signal.like(control.layer), Signal.like(control.group)
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
            address, written = Signal(len(lanes[0].address)), Signal(shape.lanes)
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
            self._count(m, lanes, control, feeder, writes, layer_ends, word, half)
        # What is ranked stays until it is taken; the scores' turn waits for that.
        m.d.comb += [
            ranking.go.eq(ends & scores),
            ranking.sums.eq(Cat(
                lane.sum[shape.score_drop :][: shape.score_bits] for lane in lanes)),
        ]
        with m.If(ranking.done):
            m.d.sync += valid.eq(1)
        with m.Elif(valid & self.o.ready):
            m.d.sync += valid.eq(0)
        m.d.comb += control.taken.eq(valid & self.o.ready)
        gives = Signal(name=f"gives{len(shape.layers) - 1}")
        m.d.comb += gives.eq(ranking.done)

    def _count(self, m, lanes, control, feeder, writes, layer_ends, word, half):
        """Count what layers hand on, and multiply by Ξ, which the first lane's header holds."""
        shape = self._shape
        q = Signal(shape.sum_bits)
        left = Signal(shape.q_bits, reset_less=True)
        with m.If(control.clears):
            m.d.sync += q.eq(0)
        with m.If(control.multiplies):
            m.d.sync += [
                q.eq((q << 1) + Mux(left[-1], lanes[0].head[: shape.sum_bits], 0)),
                left.eq(left << 1),
            ]
        if any(layer.counts for layer in shape.layers[1:]):
            ones, new, final = Signal(range(shape.lanes + 1)), Signal(), Signal()
            total, more = Signal(shape.q_bits), Signal(shape.q_bits)
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
        for lane in lanes:
            m.d.comb += lane.q.eq(q)


def _later(m, value, cycles, name):
    """Return a bit as it was some cycles before."""
    for n in range(cycles):
        later = Signal(name=f"{name}{n + 1}")
        m.d.sync += later.eq(value)
        value = later
    return value
