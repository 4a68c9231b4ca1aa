"""A serial line: eight data bits, no parity, one stop bit."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from sbnn_hw.boards.clocks import LEAST_DIVISOR

__all__ = ["Receiver", "Transmitter", "add_uart", "heard", "uart_pins"]


def heard():
    """Return the signature of bytes from a line: they come when they come."""
    return wiring.Signature({"payload": Out(8), "valid": Out(1), "broken": Out(1)})


def uart_pins():
    """Return the members of a component with this line."""
    return {"rx": In(1, init=1), "tx": Out(1, init=1)}


def add_uart(m, pins, divisor, listener, speaker):
    """Build the board's end of the line, between its pins and who listens and speaks."""
    m.submodules.receiver = receiver = Receiver(divisor)
    m.submodules.transmitter = transmitter = Transmitter(divisor)
    wiring.connect(m, receiver.o, listener.i)
    wiring.connect(m, speaker.o, transmitter.i)
    m.d.comb += [receiver.rx.eq(pins.rx), pins.tx.eq(transmitter.tx)]


def _check(divisor):
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"Clocks per bit must be {LEAST_DIVISOR} or more, not {divisor!r}")
    return divisor


class Receiver(wiring.Component):
    """Takes bytes from a line.

    A byte is given in the middle of its stop bit, for one cycle. A start bit that is over before
    its middle is noise and is ignored.

    Members
    -------
    rx : :py:`In(1)`
        The line, of any clock; high while idle.
    o : :py:`Out(heard())`
        A byte, with :py:`valid`; or, where the stop bit was not high, :py:`broken`.
    """

    def __init__(self, divisor):
        self._divisor = _check(divisor)
        super().__init__({"rx": In(1, init=1), "o": Out(heard())})

    def elaborate(self, platform):
        m = Module()

        rx = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.rx, rx, init=1)
        wait = Signal(range(self._divisor))
        bits = Signal(10)
        left = Signal(range(11))
        m.d.comb += self.o.payload.eq(bits[1:9])
        m.d.sync += [self.o.valid.eq(0), self.o.broken.eq(0)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [left.eq(10), wait.eq(self._divisor // 2 - 1)]
                with m.If(~rx):
                    m.next = "BITS"
            with m.State("BITS"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.sync += [
                        wait.eq(self._divisor - 1), left.eq(left - 1), bits.eq(Cat(bits[1:], rx)),
                    ]
                    with m.If((left == 10) & rx):
                        m.next = "IDLE"
                    with m.If(left == 1):
                        m.d.sync += [self.o.valid.eq(rx), self.o.broken.eq(~rx)]
                        m.next = "HIGH"
            # The next start bit is one only after the line was high.
            with m.State("HIGH"):
                with m.If(rx):
                    m.next = "IDLE"

        return m


class Transmitter(wiring.Component):
    """Puts bytes on a line.

    Members
    -------
    i : :py:`In(stream.Signature(8))`
        Bytes; the next is taken when the last one's stop bit is over.
    tx : :py:`Out(1)`
        The line.
    """

    def __init__(self, divisor):
        self._divisor = _check(divisor)
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()

        wait = Signal(range(self._divisor))
        bits = Signal(9, init=0x1FF)
        left = Signal(range(11))
        m.d.comb += [self.i.ready.eq(left == 0), self.tx.eq(bits[0])]
        with m.If(left == 0):
            m.d.sync += wait.eq(self._divisor - 1)
            with m.If(self.i.valid):
                m.d.sync += [bits.eq(Cat(0, self.i.payload)), left.eq(10)]
        with m.Elif(wait == 0):
            m.d.sync += [wait.eq(self._divisor - 1), left.eq(left - 1), bits.eq(Cat(bits[1:], 1))]
        with m.Else():
            m.d.sync += wait.eq(wait - 1)

        return m
