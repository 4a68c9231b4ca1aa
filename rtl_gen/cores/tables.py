"""Tables in ranks."""

from amaranth import *

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.fabric import emit
from sbnn_hw.rtl_gen.parts.tables import Tables

__all__ = ["TablesCore"]


@builds(Tables)
class TablesCore(Core):
    """Tables, with registers between their ranks."""

    def elaborate(self, platform):
        m = Module()

        part, valid = self.part, self.i.valid
        for rank in range(1, part.latency + 1):
            held = Signal(name=f"valid{rank}" if rank < part.latency else "o_valid")
            with m.If(self.enable):
                m.d.sync += held.eq(valid)
            valid = held
        payload = emit(m, part.logic, self.i.payload, part.outputs, part.ranks, self.enable,
                       part.family, split_pairs=part.split_pairs)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(payload)]

        return m
