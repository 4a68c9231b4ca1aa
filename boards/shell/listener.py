"""Packets from the host, found among the bytes of a line."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.boards.protocol import DIGEST_BYTES, PATIENCE, REQUEST, Command, Reason
from sbnn_hw.boards.shell.check import Check
from sbnn_hw.boards.shell.uart import heard

__all__ = ["Listener"]


class Listener(wiring.Component):
    """Finds packets from the host among bytes.

    Images are given byte by byte as they come; whether they count is known only at the end, when
    :py:`accepted` or :py:`refused` is set for one cycle.

    ``batch`` is the most images in a packet. A packet has broken off after so much silence, with
    ``divisor`` clocks a bit; or, if there is no divisor, wherever the line says :py:`broken`.
    ``program`` is the size of a program in bytes; without one, nothing can be loaded.

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
    load : :py:`Out(1)`
        Only with a program: :py:`byte` is one of a packet that loads.
    loaded : :py:`In(1)`
        Only with a program: there is a whole one. Without, images are not given, and refused.
    """

    def __init__(self, image_bytes, batch, divisor, program=0):
        self._image_bytes, self._batch, self._program = image_bytes, batch, program
        self._patience = None if divisor is None else PATIENCE * divisor
        loads = {"load": Out(1), "loaded": In(1)} if program else {}
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
            **loads,
        })

    def elaborate(self, platform):
        m = Module()

        m.submodules.check = check = Check()
        head = Signal(48)
        length = head[24:]
        limit = self._image_bytes * self._batch
        load = DIGEST_BYTES + self._program
        left = Signal(range(max(limit + 1, 7, load + 1 if self._program else 0)))
        quiet = Signal(range((self._patience or 0) + 1))
        silent = Signal()
        m.d.comb += [
            silent.eq(self.i.broken if self._patience is None else quiet == self._patience),
            check.byte.eq(self.i.payload),
            self.byte.eq(self.i.payload),
            self.command.eq(head[:8]),
            self.number.eq(head[8:24]),
        ]
        if self._patience is not None:
            with m.If(self.i.valid | self.i.broken):
                m.d.sync += quiet.eq(0)
            with m.Elif(~silent):
                m.d.sync += quiet.eq(quiet + 1)

        def refuse(reason, state):
            m.d.comb += [self.refused.eq(1), self.reason.eq(reason)]
            m.next = state

        def give_up():
            """Refuse a packet whose next byte is damaged, or does not come."""
            if self._patience is None:
                with m.If(silent):
                    refuse(Reason.SILENCE, "HUNT")
            else:
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
                if self._program:
                    with m.Elif(self.command == Command.LOAD):
                        with m.If(length != load):
                            refuse(Reason.LENGTH, "QUIET")
                        with m.Else():
                            m.next = "LOAD"
                with m.Else():
                    refuse(Reason.COMMAND, "QUIET")
            with m.State("PAYLOAD"):
                give_up()
                with m.If(self.i.valid):
                    m.d.comb += [
                        check.valid.eq(1),
                        self.write.eq(self.loaded if self._program else 1),
                        self.last.eq(self.index == self._image_bytes - 1),
                    ]
                    m.d.sync += [self.index.eq(self.index + 1), left.eq(left - 1)]
                    with m.If(self.last):
                        m.d.sync += [self.index.eq(0), self.images.eq(self.images + 1)]
                    with m.If(left == 1):
                        m.d.sync += left.eq(4)
                        m.next = "CHECK"
            if self._program:
                with m.State("LOAD"):
                    give_up()
                    with m.If(self.i.valid):
                        m.d.comb += [check.valid.eq(1), self.load.eq(1)]
                        m.d.sync += left.eq(left - 1)
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
                    if self._program:
                        with m.Elif((self.command == Command.CLASSIFY) & ~self.loaded):
                            refuse(Reason.PROGRAM, "HUNT")
                    with m.Else():
                        m.d.comb += self.accepted.eq(1)
                        m.next = "HUNT"
            with m.State("QUIET"):
                with m.If(silent):
                    m.next = "HUNT"

        return m
