"""Packets in gateware: what :mod:`sbnn_hw.boards.protocol` describes, bit by bit.

A byte takes ten bits of at least eight clocks on the line, so there is time for everything: the
check is computed one bit a clock.
"""

from amaranth import *
from amaranth.lib import crc, stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.boards.protocol import ANSWER, PATIENCE, REQUEST, Command, Reason
from sbnn_hw.boards.uart import heard

__all__ = ["Listener", "Speaker"]

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


class Listener(wiring.Component):
    """Finds packets from the host among bytes.

    Images are given byte by byte as they come; whether they count is known only at the end, when
    :py:`accepted` or :py:`refused` is set for one cycle.

    Parameters
    ----------
    image_bytes : int
        Bytes of an image.
    batch : int
        The most images in a packet.
    divisor : int
        Clocks a bit.

    Members
    -------
    i : :py:`In(heard())`
        Bytes of the line.
    write, byte, index : :py:`Out`
        A byte of an image, and its place in it.
    last : :py:`Out(1)`
        It completes the image.
    accepted, refused : :py:`Out(1)`
        A packet is over.
    command, number, images, reason : :py:`Out`
        What it was; :py:`images` that it had, or why it was refused.
    """

    def __init__(self, image_bytes, batch, divisor):
        self._image_bytes, self._batch = image_bytes, batch
        self._patience = PATIENCE * divisor
        super().__init__({
            "i":        In(heard()),
            "write":    Out(1),
            "byte":     Out(8),
            "index":    Out(range(image_bytes)),
            "last":     Out(1),
            "accepted": Out(1),
            "refused":  Out(1),
            "command":  Out(8),
            "number":   Out(16),
            "images":   Out(range(batch + 1)),
            "reason":   Out(8),
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.check = check = Check()
        head = Signal(48)
        length = head[24:]
        limit = self._image_bytes * self._batch
        left = Signal(range(max(limit + 1, 7)))
        quiet = Signal(range(self._patience + 1))
        silent = Signal()
        m.d.comb += [
            silent.eq(quiet == self._patience),
            check.byte.eq(self.i.payload),
            self.byte.eq(self.i.payload),
            self.command.eq(head[:8]),
            self.number.eq(head[8:24]),
        ]
        with m.If(self.i.valid | self.i.broken):
            m.d.sync += quiet.eq(0)
        with m.Elif(~silent):
            m.d.sync += quiet.eq(quiet + 1)

        def refuse(reason, state):
            m.d.comb += [self.refused.eq(1), self.reason.eq(reason)]
            m.next = state

        def give_up():
            """Refuse a packet whose next byte is damaged, or does not come."""
            with m.If(self.i.broken):
                refuse(Reason.FRAMING, "QUIET")
            with m.Elif(silent):
                refuse(Reason.SILENCE, "HUNT")

        with m.FSM():
            with m.State("HUNT"):
                m.d.comb += check.start.eq(1)
                m.d.sync += [left.eq(6), self.index.eq(0), self.images.eq(0)]
                with m.If(self.i.valid & (self.i.payload == REQUEST)):
                    m.next = "HEAD"
            with m.State("HEAD"):
                give_up()
                with m.If(self.i.valid):
                    m.d.comb += check.valid.eq(1)
                    m.d.sync += [head.eq(Cat(head[8:], self.i.payload)), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "MEANT"
            with m.State("MEANT"):
                m.d.sync += left.eq(length)
                with m.If(self.command == Command.CLASSIFY):
                    with m.If((length == 0) | (length > limit)):
                        refuse(Reason.LENGTH, "QUIET")
                    with m.Else():
                        m.next = "PAYLOAD"
                with m.Elif((self.command == Command.IDENTIFY)
                            | (self.command == Command.COUNTERS)):
                    m.d.sync += left.eq(4)
                    with m.If(length != 0):
                        refuse(Reason.LENGTH, "QUIET")
                    with m.Else():
                        m.next = "CHECK"
                with m.Else():
                    refuse(Reason.COMMAND, "QUIET")
            with m.State("PAYLOAD"):
                give_up()
                with m.If(self.i.valid):
                    m.d.comb += [
                        check.valid.eq(1),
                        self.write.eq(1),
                        self.last.eq(self.index == self._image_bytes - 1),
                    ]
                    m.d.sync += [self.index.eq(self.index + 1), left.eq(left - 1)]
                    with m.If(self.last):
                        m.d.sync += [self.index.eq(0), self.images.eq(self.images + 1)]
                    with m.If(left == 1):
                        m.d.sync += left.eq(4)
                        m.next = "CHECK"
            with m.State("CHECK"):
                give_up()
                with m.If(self.i.valid):
                    m.d.comb += check.valid.eq(1)
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.next = "VERDICT"
            with m.State("VERDICT"):
                with m.If(~check.busy):
                    with m.If(~check.match):
                        refuse(Reason.CHECK, "HUNT")
                    # Images that are not whole: the packet is, but says nothing.
                    with m.Elif(self.index != 0):
                        refuse(Reason.LENGTH, "HUNT")
                    with m.Else():
                        m.d.comb += self.accepted.eq(1)
                        m.next = "HUNT"
            with m.State("QUIET"):
                with m.If(silent):
                    m.next = "HUNT"

        return m


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
