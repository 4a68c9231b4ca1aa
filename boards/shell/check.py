"""The check of a packet, one bit a clock.

A byte takes ten bits of at least eight clocks on the line, so there is time for it.
"""

from amaranth import *
from amaranth.lib import crc, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Check"]

#: That of zlib, bit by bit.
CHECK = crc.Algorithm(crc_width=32, polynomial=0x04C11DB7, initial_crc=0xFFFFFFFF,
                      reflect_input=True, reflect_output=True, xor_output=0xFFFFFFFF)


class Check(wiring.Component):
    """The check of bytes, over eight cycles each.

    Members
    -------
    start : :py:`In(1)`
        Forget all bytes so far.
    byte, valid : :py:`In(8)`, :py:`In(1)`
        A byte; none may come while one is under way.
    busy : :py:`Out(1)`
        One is under way.
    crc, match : :py:`Out(32)`, :py:`Out(1)`
        The check, and whether the last four bytes were that of those before.
    """

    start: In(1)
    byte:  In(8)
    valid: In(1)
    busy:  Out(1)
    crc:   Out(32)
    match: Out(1)

    def elaborate(self, platform):
        m = Module()

        # Its own way to start takes a table more for each bit than a reset.
        processor = CHECK(data_width=1).create()
        m.submodules.crc = ResetInserter(self.start)(processor)
        bits = Signal(8)
        left = Signal(range(9))
        m.d.comb += [
            processor.data.eq(bits[0]),
            processor.valid.eq(self.busy),
            self.busy.eq(left != 0),
            self.crc.eq(processor.crc),
            self.match.eq(processor.match_detected),
        ]
        with m.If(self.valid):
            m.d.sync += [bits.eq(self.byte), left.eq(8)]
        with m.Elif(self.busy):
            m.d.sync += [bits.eq(bits >> 1), left.eq(left - 1)]

        return m
