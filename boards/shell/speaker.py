"""Packets to the host, byte by byte."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.boards.protocol import ANSWER
from sbnn_hw.boards.shell.check import Check

__all__ = ["Speaker"]


class Speaker(wiring.Component):
    """Says packets.

    Members
    -------
    start : :py:`In(1)`
        Say a packet; only while :py:`idle`.
    kind, number, length : :py:`In`
        What it is; taken together with :py:`start`.
    index : :py:`Out`
        The byte of the payload that is wanted.
    byte : :py:`In(8)`
        It, from the second cycle on after :py:`index` changed.
    idle : :py:`Out(1)`
        Nothing is being said.
    o : :py:`Out(stream.Signature(8))`
        Bytes for the line.
    """

    def __init__(self, most):
        super().__init__({
            "start":  In(1),
            "kind":   In(8),
            "number": In(16),
            "length": In(range(most + 1)),
            "index":  Out(range(most + 1)),
            "byte":   In(8),
            "idle":   Out(1),
            "o":      Out(stream.Signature(8)),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.check = check = Check()
        # Start, kind, number and length; while the check is said, that.
        head = Signal(56)
        left = Signal(range(8))
        length = Signal.like(self.length)
        settle = Signal(2)
        m.d.comb += check.byte.eq(self.o.payload)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.idle.eq(1), check.start.eq(1)]
                m.d.sync += [
                    head.eq(Cat(C(ANSWER, 8), self.kind, self.number, self.length)),
                    length.eq(self.length),
                    left.eq(7),
                    self.index.eq(0),
                ]
                with m.If(self.start):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.comb += [self.o.payload.eq(head[:8]), self.o.valid.eq(~check.busy)]
                with m.If(self.o.valid & self.o.ready):
                    # The check does not cover the byte that starts.
                    m.d.comb += check.valid.eq(left != 7)
                    m.d.sync += [head.eq(head >> 8), left.eq(left - 1), settle.eq(0)]
                    with m.If(left == 1):
                        m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += self.o.payload.eq(self.byte)
                with m.If(settle != 3):
                    m.d.sync += settle.eq(settle + 1)
                with m.Elif(~check.busy):
                    with m.If(self.index == length):
                        m.d.sync += [head.eq(check.crc), left.eq(4)]
                        m.next = "CHECK"
                    with m.Else():
                        m.d.comb += self.o.valid.eq(1)
                        with m.If(self.o.ready):
                            m.d.comb += check.valid.eq(1)
                            m.d.sync += [self.index.eq(self.index + 1), settle.eq(0)]
            with m.State("CHECK"):
                m.d.comb += [self.o.payload.eq(head[:8]), self.o.valid.eq(1)]
                with m.If(self.o.ready):
                    m.d.sync += [head.eq(head >> 8), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "IDLE"

        return m
