"""The pixels of a map as one vector."""

from amaranth import *

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.parts.gather import Gather

__all__ = ["GatherCore"]


@builds(Gather)
class GatherCore(Core):
    """A register for each pixel; each moves on to the next."""

    def elaborate(self, platform):
        m = Module()

        pixels, bits = self.part.pixels, self.part.bits
        index = Signal(range(pixels))
        # Every pixel moves on by one place: no selectors are spent.
        places = [Signal(bits, name=f"p{n}", reset_less=True) for n in range(pixels)]
        valid = Signal()
        with m.If(self.enable):
            m.d.sync += valid.eq(self.i.valid & (index == pixels - 1))
            with m.If(self.i.valid):
                m.d.sync += index.eq(Mux(index == pixels - 1, 0, index + 1))
                m.d.sync += [place.eq(source) for place, source
                             in zip(places, [*places[1:], self.i.payload], strict=True)]
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(*places))]

        return m
