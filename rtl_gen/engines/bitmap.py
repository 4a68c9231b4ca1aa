"""The engine of bitmaps: a neuron at a time, many of its inputs a clock."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from sbnn_hw.engine.schedule import deep
from sbnn_hw.engine.shape import bits_for
from sbnn_hw.rtl_gen.engines.control import Control
from sbnn_hw.rtl_gen.engines.core import Core, later
from sbnn_hw.rtl_gen.engines.feeder import Feeder
from sbnn_hw.rtl_gen.engines.ranking import Ranking
from sbnn_hw.rtl_gen.engines.store import IN_BLOCKS

__all__ = ["BitmapCore"]


class BitmapCore(Core):
    """A memory of activations, a tree that counts what a word of weights taps, and one sum.

    An image comes in value by value while the one before it is computed. Timing depends on the
    shape alone.
    """

    def elaborate(self, platform):
        m = Module()

        shape = self._shape
        feeder = m.submodules.feeder = Feeder(shape)
        ranking = m.submodules.ranking = Ranking(shape, self._scores)
        control = m.submodules.control = Control(shape)
        wiring.connect(m, wiring.flipped(self.i), feeder.i)
        half = self._halves(m, control, feeder)
        m.d.comb += [self.advance.eq(control.advance), self.restart.eq(control.restart)]
        with m.Switch(control.layer):
            for n, layer in enumerate(shape.layers):
                with m.Case(n):
                    m.d.comb += control.count.eq(shape.steps(layer) - 2)
        head = Signal(shape.header_words * shape.lanes, reset_less=True)
        with m.If(control.heads):
            m.d.sync += head.eq(Cat(self.word, head))
        memory = m.submodules.activations = Memory(
            shape=shape.lanes, depth=max(2, shape.activation_words), init=[], attrs=IN_BLOCKS)
        masked = self._read(m, control, memory, half)
        total, flip, q = self._add(m, control, head, masked)
        self._results(m, control, feeder, ranking, memory, half, head, total, flip, q)

        return m

    def _kinds(self, kind):
        """Return the numbers of the layers whose weights are told in a way."""
        return [n for n, layer in enumerate(self._shape.layers) if layer.weights == kind]

    def _read(self, m, control, memory, half):
        """Return what a word of weights taps, two cycles after it."""
        shape, lanes = self._shape, self._shape.lanes
        begin0, begin1, even, odd = shape.regions
        read = memory.read_port()
        base = Signal(len(read.addr), reset_less=True)
        with m.Switch(control.layer):
            with m.Case(0):
                m.d.sync += base.eq(Mux(half, begin1, begin0))
            for n in range(1, len(shape.layers)):
                with m.Case(n):
                    m.d.sync += base.eq(even if n % 2 else odd)
        pairs = Signal()
        full = Signal()
        for flag, kind in ((pairs, "masked"), (full, "full")):
            with m.Switch(control.layer):
                with m.Case(*self._kinds(kind)):
                    m.d.sync += flag.eq(1)
                with m.Default():
                    m.d.sync += flag.eq(0)
        # The second word of a pair tells which inputs of the first one's are inverted.
        step = Signal(range(max(shape.steps(layer) for layer in shape.layers)), reset_less=True)
        second = Signal(reset_less=True)
        counts = Signal()
        m.d.comb += [
            counts.eq(control.codes & (second | ~pairs)),
            read.addr.eq(base | step), read.en.eq(1),
        ]
        with m.If(control.heads):
            m.d.sync += [step.eq(0), second.eq(0)]
        with m.Elif(control.codes):
            m.d.sync += [second.eq(~second), step.eq(step + counts)]
        word = Signal(lanes, reset_less=True)
        mask = Signal(lanes, reset_less=True)
        counted = Signal()
        full1 = Signal(reset_less=True)
        pairs1 = Signal(reset_less=True)
        m.d.sync += [word.eq(self.word), counted.eq(counts), full1.eq(full), pairs1.eq(pairs)]
        tapped, turned = word, Const(0, lanes)
        if self._kinds("full"):
            tapped, turned = word | full1.replicate(lanes), ~word & full1.replicate(lanes)
        if self._kinds("masked"):
            m.d.sync += mask.eq(word)
            tapped = Mux(pairs1, mask, tapped)
            turned = Mux(pairs1, word, turned)
        found = Signal(lanes, reset_less=True)
        m.d.sync += found.eq((read.data ^ turned) & tapped & counted.replicate(lanes))
        self._probe(m, control, counted, tapped, step)
        return found

    def _probe(self, m, control, counted, tapped, step):
        """Tell which lanes evaluate a connection; nothing but simulation looks at it."""
        shape, lanes = self._shape, self._shape.lanes
        # Where all inputs are tapped, some places of a word hold none.
        held = Signal(lanes)
        m.d.sync += held.eq(~0)
        for n in self._kinds("full"):
            layer = shape.layers[n]
            rest = layer.places % lanes
            if rest:
                some = (1 << rest) - 1 if not n else (1 << lanes) - (1 << lanes - rest)
                with m.If((control.layer == n) & (step == shape.steps(layer) - 1)):
                    m.d.sync += held.eq(some)
        for lane in range(lanes):
            taps = Signal(name=f"taps{lane}")
            m.d.comb += taps.eq(counted & tapped[lane] & held[lane])
        for n in range(len(shape.layers)):
            at = Signal(name=f"at{n}")
            m.d.sync += at.eq(control.layer == n)

    def _add(self, m, control, head, masked):
        """Count bits and add counts up; return the sum, the flip, and what sums begin with."""
        shape = self._shape
        counts = self._sums(m, [masked[n : n + 8] for n in range(0, shape.lanes, 8)], "count")
        while len(counts) > 1:
            counts = self._sums(m, [counts[n : n + 4] for n in range(0, len(counts), 4)], "sum")
        # A header may follow before the one in front of it has been added.
        held = Signal(shape.sum_bits + 1, reset_less=True)
        with m.If(later(m, control.loads, 3, "loads")):
            m.d.sync += held.eq(head)
        begins = later(m, control.loads, deep(shape) - 1, "begins")
        total = Signal(shape.sum_bits, name="sum")
        flip = Signal()
        q = Const(0)
        if shape.counts:
            q = Signal(shape.sum_bits)
        m.d.sync += total.eq(
            Mux(begins, held[: shape.sum_bits], total) + Mux(begins, q, counts[0] << shape.unit))
        with m.If(begins):
            m.d.sync += flip.eq(held[shape.sum_bits])
        return total, flip, q

    @staticmethod
    def _sums(m, parts, name):
        """Return registers with the sum of each part."""
        found = []
        for n, part in enumerate(parts):
            terms = list(part)
            while len(terms) > 1:
                terms = [sum(terms[k : k + 2][1:], terms[k]) for k in range(0, len(terms), 2)]
            most = sum((1 << len(term)) - 1 for term in part)
            kept = Signal(range(most + 1), name=f"{name}{len(parts)}_{n}", reset_less=True)
            m.d.sync += kept.eq(terms[0])
            found.append(kept)
        return found

    def _results(self, m, control, feeder, ranking, memory, half, head, total, flip, q):
        """Write what neurons give, a word at a time, or rank it; count what they give."""
        shape, lanes = self._shape, self._shape.lanes
        begin0, begin1, even, odd = shape.regions
        ends = later(m, control.ends, deep(shape), "ends")
        layer_ends = later(m, control.layer_ends, deep(shape), "layer_ends")
        layer = Signal.like(control.layer)
        place = Signal(bits_for(lanes))
        number = Signal(range(max(2, shape.activation_words)))
        scores = Signal()
        gives = Signal()
        writes = Signal()
        fires = Signal()
        m.d.comb += [
            scores.eq(layer == len(shape.layers) - 1), gives.eq(ends & ~scores),
            fires.eq(~total[-1] ^ flip), writes.eq(gives & (layer_ends | place.all())),
        ]
        # Bits come in from above; a word that ends early has its first places empty.
        packed = Signal(lanes)
        results = Signal(lanes, name="results")
        m.d.comb += results.eq(Cat(packed[1:], fires))
        with m.If(gives):
            m.d.sync += [packed.eq(results), place.eq(place + 1)]
        with m.If(writes):
            m.d.sync += [packed.eq(0), place.eq(0), number.eq(Mux(layer_ends, 0, number + 1))]
        with m.If(ends & layer_ends):
            m.d.sync += layer.eq(Mux(scores, 0, layer + 1))
        for n in range(len(shape.layers) - 1):
            given = Signal(name=f"gives{n}")
            m.d.comb += given.eq(writes & (layer == n))
        write = memory.write_port()
        base = even if len(shape.layers) < 3 else Mux(layer[0], odd, even)
        m.d.comb += [
            feeder.busy.eq(writes), write.en.eq(writes | feeder.write),
            write.data.eq(Mux(writes, results, feeder.data)),
            write.addr.eq(Mux(
                writes, base | number,
                Mux(feeder.write_half, begin1, begin0) | feeder.address)),
        ]
        if shape.counts:
            self._count(m, control, feeder, gives, layer_ends, fires, half, head, q)
        m.d.comb += [
            ranking.go.eq(ends & scores),
            ranking.sums.eq(total[shape.score_drop :][: shape.score_bits]),
        ]
        self._give(m, ranking)
        m.d.comb += control.taken.eq(self.o.valid & self.o.ready)
        given = Signal(name=f"gives{len(shape.layers) - 1}")
        m.d.comb += given.eq(ranking.done)
