"""Pixels that wait for the image in front of them."""

from amaranth import *

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.cores.join import keep
from sbnn_hw.rtl_gen.parts.hold import Hold
from sbnn_hw.rtl_gen.parts.join import overflow_name

__all__ = ["HoldCore"]


@builds(Hold)
class HoldCore(Core):
    """A queue, and counters of what waits, of what has left, and of the time since."""

    def elaborate(self, platform):
        m = Module()

        part = self.part
        waiting = Signal(range(part.queue.depth + 1))
        left = Signal(range(part.pixels))
        rest = Signal(range(part.cycles + 1))
        leaves = Signal()
        overflow = Signal(name=overflow_name(0))
        valid, first = keep(m, "queue0", part.queue, self.enable, self.i, leaves, overflow)
        begins = (rest == 0) | (waiting >= part.needed)
        m.d.comb += leaves.eq(valid & ((left != 0) | begins))
        with m.If(self.enable):
            m.d.sync += waiting.eq(waiting + self.i.valid - leaves)
            with m.If(leaves):
                m.d.sync += left.eq(Mux(left == part.pixels - 1, 0, left + 1))
            with m.If(leaves & (left == part.pixels - 1)):
                m.d.sync += rest.eq(part.cycles)
            with m.Elif(rest != 0):
                m.d.sync += rest.eq(rest - 1)
        m.d.comb += [self.o.valid.eq(leaves), self.o.payload.eq(first)]

        return m
