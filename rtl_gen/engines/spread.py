"""Words of several values, one value after the other."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Spread"]


class Spread(wiring.Component):
    """The values of each word, the lowest first, one a clock. Nothing is kept.

    Parameters
    ----------
    values : int
        Values of a word.
    bits : int
        Bits of a value.

    Members
    -------
    i : :py:`In(stream.Signature(values * bits))`
        Words; each is taken with its last value.
    o : :py:`Out(stream.Signature(bits))`
        Values.
    """

    def __init__(self, values, bits):
        self._values, self._bits = values, bits
        super().__init__({
            "i": In(stream.Signature(values * bits)),
            "o": Out(stream.Signature(bits)),
        })

    def elaborate(self, platform):
        m = Module()

        m.d.comb += self.o.valid.eq(self.i.valid)
        if self._values == 1:
            m.d.comb += [self.o.payload.eq(self.i.payload), self.i.ready.eq(self.o.ready)]
            return m
        number = Signal(range(self._values))
        last = number == self._values - 1
        m.d.comb += [
            self.o.payload.eq(self.i.payload.word_select(number, self._bits)),
            self.i.ready.eq(self.o.ready & last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += number.eq(Mux(last, 0, number + 1))

        return m
