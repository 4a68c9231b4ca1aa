"""SPI, where the board is the slave: mode 0, the highest bit first."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from sbnn_hw.boards.protocol import IDLE
from sbnn_hw.boards.shell.uart import heard

__all__ = ["Slave", "add_spi", "spi_pins"]


def spi_pins():
    """Return the members of a component with this line."""
    return {
        "cs_n":    In(1, init=1),
        "sck":     In(1),
        "mosi":    In(1),
        "miso":    Out(1, init=1),
        "miso_oe": Out(1),
        "ready":   Out(1),
    }


def add_spi(m, pins, listener, speaker):
    """Build the board's end of the line, between its pins and who listens and speaks."""
    m.submodules.slave = slave = Slave()
    wiring.connect(m, slave.o, listener.i)
    wiring.connect(m, speaker.o, slave.i)
    m.d.comb += [
        slave.cs_n.eq(pins.cs_n),
        slave.sck.eq(pins.sck),
        slave.mosi.eq(pins.mosi),
        pins.miso.eq(slave.miso),
        # Others may be on the same wire, and do not wait for this clock.
        pins.miso_oe.eq(~pins.cs_n),
        pins.ready.eq(~speaker.idle),
    ]


class Slave(wiring.Component):
    """Takes bytes from a master, and gives it bytes in exchange.

    The clock of the line is sampled like its data: each half of it must take four clocks or more.
    The next bit to the master is there three clocks after the falling edge at the latest. Bits
    count from the falling edge of :py:`cs_n`.

    A byte is taken from :py:`i` with the first bit of it that the master samples; so none is lost
    where the master ends between bytes. Where there is none, the master gets :data:`IDLE`.

    Members
    -------
    cs_n, sck, mosi : :py:`In(1)`
        The line, of any clock.
    miso : :py:`Out(1)`
        The bit for the master.
    o : :py:`Out(heard())`
        A byte, with :py:`valid`; :py:`broken` when the master has ended.
    i : :py:`In(stream.Signature(8))`
        Bytes. The next must be there before the last bit of the one before has gone.
    """

    def __init__(self):
        super().__init__({
            "cs_n": In(1, init=1),
            "sck":  In(1),
            "mosi": In(1),
            "miso": Out(1, init=1),
            "o":    Out(heard()),
            "i":    In(stream.Signature(8)),
        })

    def elaborate(self, platform):
        m = Module()

        cs_n = Signal(init=1)
        sck = Signal()
        mosi = Signal()
        m.submodules.cs_n_sync = FFSynchronizer(self.cs_n, cs_n, init=1)
        m.submodules.sck_sync = FFSynchronizer(self.sck, sck)
        m.submodules.mosi_sync = FFSynchronizer(self.mosi, mosi)

        before = Signal()
        selected = Signal()
        count = Signal(3)
        heard = Signal(8)
        said = Signal(8, init=IDLE)
        # What is being said is a byte of a packet.
        meant = Signal()
        rises = ~before & sck
        falls = before & ~sck
        m.d.sync += [before.eq(sck), selected.eq(~cs_n), self.o.valid.eq(0), self.o.broken.eq(0)]
        m.d.comb += [
            self.o.payload.eq(heard),
            self.miso.eq(said[7]),
            self.i.ready.eq(~cs_n & rises & (count == 0) & meant),
        ]
        load = [said.eq(Mux(self.i.valid, self.i.payload, IDLE)), meant.eq(self.i.valid)]
        with m.If(cs_n):
            m.d.sync += [count.eq(0), self.o.broken.eq(selected), *load]
        with m.Else():
            with m.If(rises):
                m.d.sync += [
                    heard.eq(Cat(mosi, heard)), count.eq(count + 1), self.o.valid.eq(count == 7),
                ]
            with m.If(falls):
                m.d.sync += said.eq(Cat(1, said))
                with m.If(count == 0):
                    m.d.sync += load

        return m
