"""Between streams: of different widths, or with registers on both sides."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Narrow", "Slice", "Widen"]


class Widen(wiring.Component):
    """Collect ``count`` words of a stream into one, the first one least significant.

    Takes a word in every cycle, but for those in which a result waits to be taken.

    Members
    -------
    i : :py:`In(stream.Signature(width))`
        Words.
    o : :py:`Out(stream.Signature(count * width))`
        What they make together.
    """

    def __init__(self, width, count):
        self._width, self._count = width, count
        super().__init__({
            "i": In(stream.Signature(width)),
            "o": Out(stream.Signature(count * width)),
        })

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self._count))
        words = Signal(self._count * self._width, reset_less=True)
        full = Signal()
        # Once full, the words make room for the next only together with being taken.
        m.d.comb += [
            self.o.payload.eq(words),
            self.o.valid.eq(full),
            self.i.ready.eq(~full | self.o.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += full.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += words.eq(Cat(words, self.i.payload)[self._width:])
            m.d.sync += index.eq(Mux(index == self._count - 1, 0, index + 1))
            with m.If(index == self._count - 1):
                m.d.sync += full.eq(1)

        return m


class Narrow(wiring.Component):
    """Give one word of a stream as ``count`` smaller ones, the least significant first.

    Members
    -------
    i : :py:`In(stream.Signature(count * width))`
        Wide words; taken together with the last small word of the one before.
    o : :py:`Out(stream.Signature(width))`
        Small words.
    """

    def __init__(self, width, count):
        self._width, self._count = width, count
        super().__init__({
            "i": In(stream.Signature(count * width)),
            "o": Out(stream.Signature(width)),
        })

    def elaborate(self, platform):
        m = Module()

        left = Signal(range(self._count + 1))
        words = Signal(self._count * self._width, reset_less=True)
        m.d.comb += [
            self.o.payload.eq(words[:self._width]),
            self.o.valid.eq(left != 0),
            self.i.ready.eq((left == 0) | ((left == 1) & self.o.ready)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [left.eq(left - 1), words.eq(words >> self._width)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(self._count), words.eq(self.i.payload)]

        return m


class Slice(wiring.Component):
    """Pass words on through registers, so that no path leads from one side to the other.

    The latency is one cycle; the throughput is one word per cycle while :py:`o` is ready.

    Members
    -------
    i : :py:`In(stream.Signature(width))`
        Words; ready is a register.
    o : :py:`Out(stream.Signature(width))`
        The same; valid and payload are registers.
    """

    def __init__(self, width):
        super().__init__({
            "i": In(stream.Signature(width)),
            "o": Out(stream.Signature(width)),
        })

    def elaborate(self, platform):
        m = Module()

        # The word that came in the cycle in which the output began to wait.
        spare = Signal.like(self.i.payload, reset_less=True)
        held = Signal()
        m.d.comb += self.i.ready.eq(~held)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid | held),
                self.o.payload.eq(Mux(held, spare, self.i.payload)),
                held.eq(0),
            ]
        with m.Elif(self.i.valid & ~held):
            m.d.sync += [spare.eq(self.i.payload), held.eq(1)]

        return m
