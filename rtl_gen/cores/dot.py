"""Weighted sums of a vector's values, whose bits come one after the other."""

from amaranth import *
from amaranth.lib.memory import Memory

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.parts.dot import Dot

__all__ = ["DotCore"]


@builds(Dot)
class DotCore(Core):
    """A memory of weights for each lane, weights that move up, and an adder for each sum."""

    def elaborate(self, platform):
        m = Module()

        part = self.part
        place = Signal(range(part.bits))
        # The value whose weights come next.
        following = Signal(range(part.values), init=1 % part.values)
        valid = Signal(name="o_valid")
        taken = Signal()
        top = Signal()
        m.d.comb += [taken.eq(self.enable & self.i.valid), top.eq(place == part.bits - 1)]
        with m.If(self.enable):
            # The next value is the first again.
            m.d.sync += valid.eq(self.i.valid & top & (following == 0))
        with m.If(taken):
            m.d.sync += place.eq(Mux(top, 0, place + 1))
            with m.If(top):
                m.d.sync += following.eq(Mux(following == part.values - 1, 0, following + 1))
        if part.values == 1:
            with m.If(self.enable):
                m.d.sync += valid.eq(self.i.valid & top)

        terms = [[] for _ in part.offsets]
        for lane, rows in enumerate(part.weights.tolist()):
            row = self._row(m, lane, rows, following)
            bit = self.i.payload[lane]
            for number, first in enumerate(rows[0]):
                weight = Signal(part.sum_bits, name=f"lane{lane}_n{number}",
                                init=first % (1 << part.sum_bits))
                later = row[number * part.weight_bits : (number + 1) * part.weight_bits]
                with m.If(taken):
                    m.d.sync += weight.eq(Mux(top, later.as_signed(), weight << 1))
                terms[number].append((weight, bit))
        sums = []
        for number, offset in enumerate(part.offsets.tolist()):
            start = offset % (1 << part.sum_bits)
            total = Signal(part.sum_bits, name=f"n{number}_sum", init=start)
            with m.If(self.enable & valid):
                m.d.sync += total.eq(start)
            if part.lanes == 1:
                # A register that stays as it is takes no table.
                ((weight, bit),) = terms[number]
                with m.Elif(taken & bit):
                    m.d.sync += total.eq(total + weight)
            else:
                with m.Elif(taken):
                    m.d.sync += total.eq(sum((Mux(bit, weight, 0) for weight, bit
                                              in terms[number]), total))
            sums.append(total)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(*sums))]

        return m

    def _row(self, m, lane, rows, following):
        """Return the weights of a value in all sums."""
        size = self.part.weight_bits
        words = [sum(weight % (1 << size) << n * size for n, weight in enumerate(row))
                 for row in rows]
        if len(words) == 1:
            return Const(words[0], len(rows[0]) * size)
        memory = Memory(shape=len(rows[0]) * size, depth=len(words), init=words)
        m.submodules[f"lane{lane}"] = memory
        read = memory.read_port(domain="comb")
        m.d.comb += read.addr.eq(following)
        return read.data
