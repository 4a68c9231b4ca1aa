"""From pixels to vectors, and between streams of different widths."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.core import Core

__all__ = ["Gather", "Narrow", "Widen"]


class Gather(Core):
    """Collect the pixels of a map into one vector, the first one least significant.

    Takes a pixel in every cycle; gives the vector one cycle after the last.
    """

    latency = 1

    def __init__(self, pixels, bits):
        self._pixels, self._bits = pixels, bits
        self.registers = pixels * bits
        super().__init__(bits, pixels * bits)

    def times(self, arrivals):
        """Return when outputs are given, for arrivals of one map by itself."""
        return arrivals[-1:] + self.latency

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self._pixels))
        # Every pixel moves on by one place: no selectors are spent.
        places = [Signal(self._bits, name=f"p{n}", reset_less=True) for n in range(self._pixels)]
        valid = Signal()
        with m.If(self.enable):
            m.d.sync += valid.eq(self.i.valid & (index == self._pixels - 1))
            with m.If(self.i.valid):
                m.d.sync += index.eq(Mux(index == self._pixels - 1, 0, index + 1))
                m.d.sync += [place.eq(source) for place, source
                             in zip(places, [*places[1:], self.i.payload], strict=True)]
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(*places))]

        return m


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
