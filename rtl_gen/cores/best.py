"""The first largest of some scores, looked at one after the other."""

from amaranth import *

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.parts.best import Best

__all__ = ["BestCore"]


@builds(Best)
class BestCore(Core):
    """Scores that are held, one that is chosen, and the best so far."""

    def elaborate(self, platform):
        m = Module()

        classes, bits = self.part.classes, self.part.bits
        held = Signal(classes * bits, reset_less=True)
        busy = Signal()
        number = Signal(range(classes))
        chosen = Signal(signed(bits), reset_less=True)
        which = Signal(range(classes), reset_less=True)
        looks = Signal()
        best = Signal(signed(bits), reset_less=True)
        index = Signal(range(classes), reset_less=True)
        valid = Signal(name="o_valid")
        with m.If(self.enable):
            m.d.sync += [
                looks.eq(busy), chosen.eq(held.word_select(number, bits)), which.eq(number),
                valid.eq(looks & (which == classes - 1)),
            ]
            with m.If(busy):
                m.d.sync += number.eq(Mux(number == classes - 1, 0, number + 1))
                with m.If(number == classes - 1):
                    m.d.sync += busy.eq(0)
            with m.If(self.i.valid):
                m.d.sync += [held.eq(self.i.payload), busy.eq(1)]
            # The first of several that are largest stays.
            with m.If(looks & ((which == 0) | (chosen > best))):
                m.d.sync += [best.eq(chosen), index.eq(which)]
        m.d.comb += [
            self.o.valid.eq(valid),
            self.o.payload.eq(Cat(index, held if self.part.scores else Const(0, 0))),
        ]

        return m
