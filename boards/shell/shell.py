"""The shell: a network behind a line to the host."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from sbnn_hw import __version__
from sbnn_hw.boards.links import UART, Link
from sbnn_hw.boards.protocol import (
    DIGEST_BYTES,
    MOST_PAYLOAD,
    OVERHEAD,
    Identity,
    Program,
    Wire,
)
from sbnn_hw.boards.shell.collector import Collector
from sbnn_hw.boards.shell.feeder import add_feeder
from sbnn_hw.boards.shell.listener import Listener
from sbnn_hw.boards.shell.loader import Loader
from sbnn_hw.boards.shell.responder import add_responder
from sbnn_hw.boards.shell.speaker import Speaker
from sbnn_hw.boards.shell.spi import add_spi, spi_pins
from sbnn_hw.boards.shell.uart import add_uart, uart_pins
from sbnn_hw.design import Design
from sbnn_hw.errors import ModelRejected
from sbnn_hw.rtl_gen.axi import Boxed

__all__ = ["Shell"]


class Shell(wiring.Component):
    """A network behind a line; :mod:`sbnn_hw.boards.protocol` has what is said on it.

    An image goes into the network as soon as its last byte is there, and the next one is received
    meanwhile. Results wait until the check of their packet is known: they are then sent, or
    forgotten. So a network only ever sees whole images, and a host only ever results of images that
    arrived as they were sent.

    A packet that is complete while the answer before is still being sent is dropped: a host has no
    more than two unanswered, the second of them longer than the answer to the first.

    If the design has a program, another one can be loaded. Images that are under way when that
    begins are refused, and so are all others until a program is there.

    There are ``divisor`` clocks a bit, at least 8; on SPI that many or more. Of the lights the
    first blinks, the others show the lowest bits of the last class.

    Members
    -------
    rx, tx : :py:`In(1)`, :py:`Out(1)`
        The line, if ``link`` is a UART.
    cs_n, sck, mosi, miso, miso_oe, ready : :py:`In(1)`, :py:`Out(1)`
        The line, if it is SPI. While :py:`ready` is high, an answer is to be read.
    leds : :py:`Out(leds)`
        Lights.
    """

    # One that is only asked whether it can serve a network is no oversight.
    _MustUse__silence = True

    def __init__(self, design: Design, *, divisor: int, clock_hz: int,
                 leds: int = 1, link: Link = UART) -> None:
        self._design, self._divisor, self._link = design, divisor, link
        self.wire = wire = Wire.of(design)
        if not wire.batch:
            raise ModelRejected(
                f"An image of {wire.image_bytes:,} bytes is too long for the board's packets; "
                "build for a part (--part), and use its AXI4-Stream interface"
            )
        # An image is fed, and its result kept, before the next one is there; and all results of a
        # packet are there before the first of the next packet but one.
        feed = 2 * wire.image_bytes + wire.result_bytes + 16
        byte = link.byte_bits * divisor
        late = feed + design.latency + design.interval
        if design.program is not None:
            late += 2 * design.program.longer
        if feed > byte * wire.image_bytes or late > byte * (wire.image_bytes + OVERHEAD):
            raise ModelRejected(
                f"Results of {wire.result_bytes:,} bytes after {design.latency:,} cycles, "
                f"for images of {wire.image_bytes:,} bytes, are more than the board's shell can "
                f"handle; build without scores (--no-scores), or for a part (--part)"
            )
        program = design.program and Program(design.program.shape, design.program.bytes)
        if program and DIGEST_BYTES + program.size > MOST_PAYLOAD:
            raise ModelRejected(
                f"A program of {program.size:,} bytes is too long for the board's packets; build "
                "without --loadable"
            )
        self.identity = Identity(design.network, wire, clock_hz, divisor, __version__,
                                 wire.batch, program)
        # Once or twice a second.
        self._blink = max(1, clock_hz.bit_length())
        pins = uart_pins() if link is UART else spi_pins()
        super().__init__({**pins, "leds": Out(leds)})

    def elaborate(self, platform):
        m = Module()
        wire, identity = self.wire, self.identity.to_bytes()

        # On SPI the master says where a packet ends: silence need not be timed.
        silence = self._divisor if self._link is UART else None
        program = self.identity.program
        listener = Listener(wire.image_bytes, wire.batch, silence, program.size if program else 0)
        longest = max(len(identity), wire.batch * wire.result_bytes, 12)
        speaker = Speaker(longest)
        if self._link is UART:
            add_uart(m, self, self._divisor, listener, speaker)
        else:
            add_spi(m, self, listener, speaker)
        m.submodules.listener = listener
        m.submodules.speaker = speaker
        m.submodules.core = core = Boxed(self._design)

        loader = Loader() if program else None
        if loader:
            loader.add_to(m, listener, core)
        add_feeder(m, wire, listener, core, loader)
        collector = Collector(wire, identity)
        collector.add_to(m, listener, core, loader)
        add_responder(m, wire, identity, listener, speaker, collector, loader)

        blink = Signal(self._blink)
        m.d.sync += blink.eq(blink + 1)
        m.d.comb += self.leds.eq(Cat(blink[-1], collector.shown))

        return m
