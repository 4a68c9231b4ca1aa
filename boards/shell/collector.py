"""Results, from the network until they are sent."""

from amaranth import *
from amaranth.lib import memory

from sbnn_hw.boards.protocol import DIGEST_AT
from sbnn_hw.boards.shell.loader import drop

__all__ = ["Collector"]


class Collector:
    """Keeps the results of a packet until all of them are there.

    Results are kept in two halves of a memory, in turn: one is being sent while the other is
    filled. They come in the order of images: first those of a packet that is accepted and waits
    for them, then those of one that was refused meanwhile, then those of the present one.

    Its signals belong to the module that it is built into: :py:`waiting` and :py:`forget` are set
    there, and cleared here. ``identity`` lies in the same memory, behind both halves. If there is a
    ``loader``, the digest of what it loads goes there, and without a program nothing is waited for.
    """

    def __init__(self, wire, identity):
        self._wire = wire
        self._half = 1 << (max(wire.batch * wire.result_bytes, len(identity)) - 1).bit_length()
        self._results = memory.Memory(
            shape=8, depth=2 * self._half + len(identity),
            init=[0] * (2 * self._half) + list(identity))
        # Amaranth names ports and signals after these variables.
        recall = self._results.read_port()
        self._recall = recall
        self._side = Signal(name="side")
        many = range(4 * wire.batch)
        #: A packet is accepted and waits for its results; how many it waits for.
        self.waiting = Signal()
        self.needed = Signal(many)
        #: A packet was refused: what is kept or under way is not wanted, except what is waited for.
        self.forget = Signal()
        #: All results that were waited for are in the half that :py:`byte_at` reads from the next
        #: cycle on. Set for one cycle.
        self.answered = Signal()
        #: Images that were received and whose results were not taken yet.
        self.under_way = Signal(many)
        #: The class of the last result that was kept.
        self.shown = Signal(wire.index_bits)

    def add_to(self, m, listener, core, loader=None):
        """Build it: ``listener`` says when an image is complete, ``core`` is the network."""
        wire, waiting, needed, side = self._wire, self.waiting, self.needed, self._side
        m.submodules.results = results = self._results
        keep = results.write_port()
        vain = Signal.like(needed)
        kept = Signal.like(needed)
        base = Signal(range(self._half + wire.result_bytes))
        offset = Signal(range(wire.result_bytes))
        over = Signal()
        result = Signal(8 * wire.result_bytes)
        m.d.comb += [
            result.eq(core.o.payload),
            keep.addr.eq(Cat((base + offset)[:(self._half - 1).bit_length()], side)),
            keep.data.eq(result.word_select(offset, 8)),
        ]
        m.d.sync += self.under_way.eq(self.under_way + (listener.write & listener.last) - over)
        with m.FSM(name="collect"):
            with m.State("IDLE"):
                m.d.sync += offset.eq(0)
                with m.If(self.forget):
                    m.d.sync += self.forget.eq(0)
                    m.d.sync += vain.eq(self.under_way - Mux(waiting, needed - kept, 0))
                    with m.If(~waiting):
                        m.d.sync += [kept.eq(0), base.eq(0)]
                with m.Elif(waiting & (kept == needed)):
                    m.d.comb += self.answered.eq(1)
                    m.d.sync += [waiting.eq(0), kept.eq(0), base.eq(0), side.eq(~side)]
                with m.Elif(core.o.valid):
                    m.next = "KEEP"
                drop(m, loader, "IDLE")
            with m.State("KEEP"):
                m.d.comb += keep.en.eq(1)
                m.d.sync += offset.eq(offset + 1)
                with m.If(offset == wire.result_bytes - 1):
                    m.next = "TAKE"
                drop(m, loader, "IDLE")
            with m.State("TAKE"):
                m.d.comb += [core.o.ready.eq(1), over.eq(1)]
                with m.If((vain != 0) & ~(waiting & (kept != needed))):
                    m.d.sync += vain.eq(vain - 1)
                with m.Else():
                    m.d.sync += [
                        kept.eq(kept + 1), base.eq(base + wire.result_bytes),
                        self.shown.eq(result[:wire.index_bits]),
                    ]
                m.next = "IDLE"
        if loader is not None:
            # What the network has forgotten never comes.
            with m.If(~loader.loaded):
                m.d.sync += [
                    waiting.eq(0), self.forget.eq(0), self.under_way.eq(0), vain.eq(0), kept.eq(0),
                    base.eq(0),
                ]
            with m.If(loader.named):
                m.d.comb += [
                    keep.addr.eq(2 * self._half + DIGEST_AT + loader.at),
                    keep.data.eq(listener.byte),
                    keep.en.eq(1),
                ]

    def byte_at(self, m, index, named):
        """Return a byte of the half that was filled last, or of the identity, a cycle later."""
        m.d.comb += self._recall.addr.eq(
            Cat(index[:(self._half - 1).bit_length()], ~self._side & ~named, named))
        return self._recall.data
