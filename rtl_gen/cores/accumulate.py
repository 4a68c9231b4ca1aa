"""Pixels with their numbers, and sums of what they count."""

from amaranth import *

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.parts.accumulate import OVERFLOW, Accumulate, Number, Repeat

__all__ = ["AccumulateCore", "NumberCore", "RepeatCore"]


@builds(Number)
class NumberCore(Core):
    """A counter beside the pixels."""

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self.part.pixels))
        with m.If(self.enable & self.i.valid):
            m.d.sync += index.eq(Mux(index == self.part.pixels - 1, 0, index + 1))
        m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(Cat(self.i.payload, index))]

        return m


@builds(Repeat)
class RepeatCore(Core):
    """A pixel that is held, and two counters."""

    def elaborate(self, platform):
        m = Module()

        cycles = self.part.pixels * self.part.cycles
        held = Signal(self.part.bits, reset_less=True)
        part = Signal(range(self.part.cycles))
        index = Signal(range(cycles))
        valid = Signal(name="o_valid")
        with m.If(self.enable):
            with m.If(valid):
                m.d.sync += [
                    part.eq(Mux(part == self.part.cycles - 1, 0, part + 1)),
                    index.eq(Mux(index == cycles - 1, 0, index + 1)),
                ]
                with m.If(part == self.part.cycles - 1):
                    m.d.sync += valid.eq(0)
            with m.If(self.i.valid):
                m.d.sync += [held.eq(self.i.payload), valid.eq(1)]
        if self.part.watched:
            # Nothing reads it, so that synthesis leaves it out; simulation looks at it.
            overflow = Signal(name=OVERFLOW)
            with m.If(self.enable & self.i.valid & valid & (part != self.part.cycles - 1)):
                m.d.sync += overflow.eq(1)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(held, part, index))]

        return m


@builds(Accumulate)
class AccumulateCore(Core):
    """An adder and a register for each neuron."""

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self.part.pixels))
        valid = Signal(name="o_valid")
        sums = []
        at = 0
        sizes = zip(self.part.counts, self.part.sums, strict=True)
        for number, (count_bits, sum_bits) in enumerate(sizes):
            total = Signal(sum_bits, name=f"n{number}_sum", reset_less=True)
            count = self.i.payload[at : at + count_bits]
            if self.part.signed:
                count = count.as_signed()
            at += count_bits
            # The first pixel's count is the first sum: nothing is cleared in between.
            before = Signal(sum_bits, name=f"n{number}_before")
            m.d.comb += before.eq(Mux(index == 0, 0, total))
            with m.If(self.enable & self.i.valid):
                m.d.sync += total.eq(before + count)
            sums.append(total)
        with m.If(self.enable):
            m.d.sync += valid.eq(self.i.valid & (index == self.part.pixels - 1))
            with m.If(self.i.valid):
                m.d.sync += index.eq(Mux(index == self.part.pixels - 1, 0, index + 1))
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(*sums))]

        return m
