"""From bytes of the line to the network's input."""

from amaranth import *
from amaranth.lib import memory

from sbnn_hw.boards.shell.loader import drop
from sbnn_hw.rtl_gen.streams import Widen

__all__ = ["add_feeder"]


def add_feeder(m, wire, listener, core, loader=None):
    """Build what feeds images to the network.

    The image that is being received goes into a memory. Once its last byte is there, it goes into
    the network, a byte in two cycles or slower, as the network takes it. The next image is
    received meanwhile: its bytes must not come before those in their places are read.

    ``listener`` says :py:`write`, :py:`byte`, :py:`index` and :py:`last`; :py:`core.i` of the
    network is driven. If there is a ``loader``, an image is dropped when the program is.
    """
    m.submodules.image = image = memory.Memory(shape=8, depth=max(2, wire.image_bytes), init=[])
    # One a line: Amaranth reads names from byte code, and in tuples not from every Python's.
    store = image.write_port()
    load = image.read_port()
    m.d.comb += [
        store.addr.eq(listener.index),
        store.data.eq(listener.byte),
        store.en.eq(listener.write),
    ]
    widen = Widen(8, wire.image_bytes // core.beats)
    m.submodules.widen = ResetInserter(~loader.loaded)(widen) if loader else widen
    with m.FSM(name="feed"):
        with m.State("IDLE"):
            m.d.sync += load.addr.eq(0)
            with m.If(listener.write & listener.last):
                m.next = "READ"
        with m.State("READ"):
            m.next = "OFFER"
            drop(m, loader, "IDLE")
        with m.State("OFFER"):
            m.d.comb += widen.i.valid.eq(1)
            with m.If(widen.i.ready):
                m.d.sync += load.addr.eq(load.addr + 1)
                m.next = "READ"
                with m.If(load.addr == wire.image_bytes - 1):
                    m.next = "IDLE"
            drop(m, loader, "IDLE")
    values = [widen.o.payload.word_select(n, 8 * wire.value_bytes)[:wire.value_bits]
              for n in range(wire.image_bytes // core.beats // wire.value_bytes)]
    m.d.comb += [
        widen.i.payload.eq(load.data),
        core.i.payload.eq(Cat(values)),
        core.i.valid.eq(widen.o.valid),
        widen.o.ready.eq(core.i.ready),
    ]
