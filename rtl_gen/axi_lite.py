"""The AXI4-Lite side of registers: five channels on one side, reads and writes on the other."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["AxiLite"]

OKAY, SLVERR = 0b00, 0b10


def axi_lite(address_bits):
    """Return the signature of an AXI4-Lite bus with words of 32 bits, from its master."""
    return wiring.Signature({
        "awaddr": Out(address_bits), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
        "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "araddr": Out(address_bits), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
        "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
    })


class AxiLite(wiring.Component):
    """A slave with words of 32 bits, whose outputs on the bus all come from registers.

    Reads and writes do not wait for each other, and an address may come before or after its data.
    A read takes effect in the cycle in which its address is taken, a write in the one in which
    :py:`write` is high. Either takes two cycles on a bus that never waits, so there is one every
    other cycle at most. The two lowest bits of an address are not looked at.

    Members
    -------
    bus : :py:`In(axi_lite(address_bits))`
        The bus.
    read_word : :py:`Out(address_bits - 2)`
        The number of the word that is read.
    read_data, read_error : :py:`In(32)`, :py:`In(1)`
        What it holds, in the same cycle, and whether there is no such word.
    write : :py:`Out(1)`
        High for a cycle for each write, also for one that is refused.
    write_word, write_data, write_bytes : :py:`Out(address_bits - 2)`, :py:`Out(32)`, :py:`Out(4)`
        The number of the word, what it gets, and which of its bytes.
    write_error : :py:`In(1)`
        Whether the write is refused, in the same cycle.
    """

    def __init__(self, address_bits):
        super().__init__({
            "bus": In(axi_lite(address_bits)),
            "read_word": Out(address_bits - 2),
            "read_data": In(32),
            "read_error": In(1),
            "write": Out(1),
            "write_word": Out(address_bits - 2),
            "write_data": Out(32),
            "write_bytes": Out(4),
            "write_error": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus

        m.d.comb += [bus.arready.eq(~bus.rvalid), self.read_word.eq(bus.araddr[2:])]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [
                bus.rvalid.eq(1),
                bus.rdata.eq(Mux(self.read_error, 0, self.read_data)),
                bus.rresp.eq(Mux(self.read_error, SLVERR, OKAY)),
            ]

        # Address and data wait for each other here, and not on the bus.
        addressed = Signal()
        filled = Signal()
        m.d.comb += [
            bus.awready.eq(~addressed),
            bus.wready.eq(~filled),
            self.write.eq(addressed & filled & ~bus.bvalid),
        ]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(self.write):
            m.d.sync += [
                addressed.eq(0),
                filled.eq(0),
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(self.write_error, SLVERR, OKAY)),
            ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [addressed.eq(1), self.write_word.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [
                filled.eq(1),
                self.write_data.eq(bus.wdata),
                self.write_bytes.eq(bus.wstrb),
            ]

        return m
