"""The shell: a network behind a serial line."""

from collections.abc import Mapping
from typing import Any

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw import __version__
from sbnn_hw.boards.packets import Listener, Speaker
from sbnn_hw.boards.protocol import OVERHEAD, Answer, Command, Identity, Wire
from sbnn_hw.boards.uart import Receiver, Transmitter
from sbnn_hw.errors import ModelRejected
from sbnn_hw.rtl_gen.axi import Boxed
from sbnn_hw.rtl_gen.gather import Widen

__all__ = ["Shell"]


class Shell(wiring.Component):
    """A network behind a serial line; :mod:`sbnn_hw.boards.protocol` has what is said on it.

    An image goes into the network as soon as its last byte is there, and the next one is received
    meanwhile. Results wait until the check of their packet is known: they are then sent, or
    forgotten. So a network only ever sees whole images, and a host only ever results of images that
    arrived as they were sent.

    Results are kept in two halves of a memory, in turn: one is being sent while the other is
    filled. A packet that is complete while the answer before is still being sent is dropped: a host
    has no more than two unanswered, the second of them longer than the answer to the first.

    Parameters
    ----------
    description : dict
        Of the generated design, the module ``top``.
    divisor : int
        Clocks a bit, at least 8.
    clock_hz : int
        The clock, for the identity and the blinking light.
    leds : int
        Lights: the first blinks, the others show the lowest bits of the last class.

    Members
    -------
    rx, tx : :py:`In(1)`, :py:`Out(1)`
        The line.
    leds : :py:`Out(leds)`
        Lights.
    """

    # One that is only asked whether it can serve a network is no oversight.
    _MustUse__silence = True

    def __init__(self, description: Mapping[str, Any], *, divisor: int, clock_hz: int,
                 leds: int = 1) -> None:
        self._description, self._divisor = description, divisor
        self.wire = wire = Wire.of(description)
        if not wire.batch:
            raise ModelRejected(
                f"An image of {wire.image_bytes:,} bytes is too long for the board's packets; "
                "build for a part (--part), and use its AXI4-Stream interface"
            )
        # An image is fed, and its result kept, before the next one is there; and all results of a
        # packet are there before the first of the next packet but one.
        feed = 2 * wire.image_bytes + wire.result_bytes + 16
        byte = 10 * divisor
        late = feed + int(description["latency"]) + int(description["interval"])
        if feed > byte * wire.image_bytes or late > byte * (wire.image_bytes + OVERHEAD):
            raise ModelRejected(
                f"Results of {wire.result_bytes:,} bytes after {description['latency']:,} cycles, "
                f"for images of {wire.image_bytes:,} bytes, are more than the board's shell can "
                f"handle; build without scores (--no-scores), or for a part (--part)"
            )
        self.identity = Identity(description["network"], wire, clock_hz, divisor, __version__,
                                 wire.batch)
        # Once or twice a second.
        self._blink = max(1, clock_hz.bit_length())
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "leds": Out(leds)})

    def elaborate(self, platform):
        m = Module()
        wire, batch = self.wire, self.wire.batch

        m.submodules.receiver = receiver = Receiver(self._divisor)
        m.submodules.transmitter = transmitter = Transmitter(self._divisor)
        m.submodules.listener = listener = Listener(wire.image_bytes, batch, self._divisor)
        identity = self.identity.to_bytes()
        longest = max(len(identity), batch * wire.result_bytes, 12)
        m.submodules.speaker = speaker = Speaker(longest)
        m.submodules.core = core = Boxed(self._description)
        wiring.connect(m, receiver.o, listener.i)
        wiring.connect(m, speaker.o, transmitter.i)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]

        # The image that is being received goes into a memory, and from there into the network.
        m.submodules.image = image = memory.Memory(shape=8, depth=max(2, wire.image_bytes), init=[])
        # One a line: Amaranth reads names from byte code, and in tuples not from every Python's.
        store = image.write_port()
        load = image.read_port()
        m.d.comb += [
            store.addr.eq(listener.index),
            store.data.eq(listener.byte),
            store.en.eq(listener.write),
        ]
        m.submodules.widen = widen = Widen(8, wire.image_bytes // core.beats)
        with m.FSM(name="feed"):
            with m.State("IDLE"):
                m.d.sync += load.addr.eq(0)
                with m.If(listener.write & listener.last):
                    m.next = "READ"
            with m.State("READ"):
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += widen.i.valid.eq(1)
                with m.If(widen.i.ready):
                    m.d.sync += load.addr.eq(load.addr + 1)
                    m.next = "READ"
                    with m.If(load.addr == wire.image_bytes - 1):
                        m.next = "IDLE"
        values = [widen.o.payload.word_select(n, 8 * wire.value_bytes)[:wire.value_bits]
                  for n in range(wire.image_bytes // core.beats // wire.value_bytes)]
        m.d.comb += [
            widen.i.payload.eq(load.data),
            core.i.payload.eq(Cat(values)),
            core.i.valid.eq(widen.o.valid),
            widen.o.ready.eq(core.i.ready),
        ]

        # Results come in the order of images: first those of a packet that is accepted and waits
        # for them, then those of one that was refused meanwhile, then those of the present one.
        # The identity lies in the same memory, behind both halves.
        half = 1 << (max(batch * wire.result_bytes, len(identity)) - 1).bit_length()
        m.submodules.results = results = memory.Memory(
            shape=8, depth=2 * half + len(identity), init=[0] * (2 * half) + list(identity))
        keep = results.write_port()
        recall = results.read_port()
        many = range(4 * batch)
        under_way, vain, kept, needed = (Signal(many, name=name) for name in (
            "under_way", "vain", "kept", "needed"))
        waiting = Signal()
        forget = Signal()
        side = Signal()
        base = Signal(range(half + wire.result_bytes))
        offset = Signal(range(wire.result_bytes))
        answered = Signal()
        over = Signal()
        shown = Signal(wire.index_bits)
        result = Signal(8 * wire.result_bytes)
        m.d.comb += [
            result.eq(core.o.payload),
            keep.addr.eq(Cat((base + offset)[:(half - 1).bit_length()], side)),
            keep.data.eq(result.word_select(offset, 8)),
        ]
        m.d.sync += under_way.eq(under_way + (listener.write & listener.last) - over)
        with m.FSM(name="collect"):
            with m.State("IDLE"):
                m.d.sync += offset.eq(0)
                with m.If(forget):
                    m.d.sync += forget.eq(0)
                    m.d.sync += vain.eq(under_way - Mux(waiting, needed - kept, 0))
                    with m.If(~waiting):
                        m.d.sync += [kept.eq(0), base.eq(0)]
                with m.Elif(waiting & (kept == needed)):
                    m.d.comb += answered.eq(1)
                    m.d.sync += [waiting.eq(0), kept.eq(0), base.eq(0), side.eq(~side)]
                with m.Elif(core.o.valid):
                    m.next = "KEEP"
            with m.State("KEEP"):
                m.d.comb += keep.en.eq(1)
                m.d.sync += offset.eq(offset + 1)
                with m.If(offset == wire.result_bytes - 1):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [core.o.ready.eq(1), over.eq(1)]
                with m.If((vain != 0) & ~(waiting & (kept != needed))):
                    m.d.sync += vain.eq(vain - 1)
                with m.Else():
                    m.d.sync += [
                        kept.eq(kept + 1), base.eq(base + wire.result_bytes),
                        shown.eq(result[:wire.index_bits]),
                    ]
                m.next = "IDLE"

        # One packet is answered at a time; what is over while there is no time for it is dropped.
        free = Signal()
        images = Signal(32)
        busy = Signal(32)
        errors = Signal(32)
        reply = Signal(8)
        number = Signal(16)
        said = Signal(96)
        m.d.comb += free.eq(speaker.idle & ~waiting)
        with m.If(listener.refused | (listener.accepted & ~free)):
            m.d.sync += [errors.eq(errors + 1), forget.eq(1)]
        with m.If(under_way != 0):
            m.d.sync += busy.eq(busy + 1)
        m.d.comb += [speaker.kind.eq(reply), speaker.number.eq(number)]
        begin = Signal()
        m.d.sync += begin.eq(0)
        with m.If(answered):
            m.d.comb += [
                speaker.start.eq(1),
                speaker.length.eq(needed * wire.result_bytes),
            ]
            m.d.sync += images.eq(images + needed)
        with m.Elif(begin):
            m.d.comb += speaker.start.eq(1)
            with m.Switch(reply):
                with m.Case(Answer.IDENTITY):
                    m.d.comb += speaker.length.eq(len(identity))
                with m.Case(Answer.COUNTS):
                    m.d.comb += speaker.length.eq(12)
                with m.Default():
                    m.d.comb += speaker.length.eq(1)
        with m.Elif(free & (listener.accepted | listener.refused)):
            m.d.sync += [number.eq(listener.number), needed.eq(listener.images)]
            with m.If(listener.refused):
                m.d.sync += [reply.eq(Answer.REFUSED), said.eq(listener.reason), begin.eq(1)]
            with m.Elif(listener.command == Command.CLASSIFY):
                m.d.sync += [reply.eq(Answer.RESULTS), waiting.eq(1)]
            with m.Elif(listener.command == Command.IDENTIFY):
                m.d.sync += [reply.eq(Answer.IDENTITY), begin.eq(1)]
            with m.Else():
                m.d.sync += [
                    reply.eq(Answer.COUNTS), said.eq(Cat(images, busy, errors)), begin.eq(1),
                ]

        # What is said: the half that was filled last, the identity, or a few bytes.
        named = Signal()
        m.d.comb += [
            named.eq(reply == Answer.IDENTITY),
            recall.addr.eq(Cat(speaker.index[:(half - 1).bit_length()], ~side & ~named, named)),
            speaker.byte.eq(Mux(named | (reply == Answer.RESULTS), recall.data, said[:8])),
        ]
        spoken = Signal.like(speaker.index)
        m.d.sync += spoken.eq(speaker.index)
        with m.If(~speaker.idle & (spoken != speaker.index)):
            m.d.sync += said.eq(said >> 8)

        blink = Signal(self._blink)
        m.d.sync += blink.eq(blink + 1)
        m.d.comb += self.leds.eq(Cat(blink[-1], shown))

        return m
