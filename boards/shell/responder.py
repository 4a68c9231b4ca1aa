"""The answer to each packet."""

from amaranth import *

from sbnn_hw.boards.protocol import LOADED_AT, Answer, Command, Reason

__all__ = ["add_responder"]


def add_responder(m, wire, identity, listener, speaker, collector, loader=None):
    """Build what answers packets, one at a time.

    A packet that is refused is answered by the reason, a question at once, images once all their
    results are there. A packet that ends while another is being answered, or while results are
    waited for, is dropped. Dropped and refused packets count as errors, and their results are
    forgotten.

    ``listener`` says what was accepted or refused, and ``speaker`` is told what to say.
    ``collector`` is told what to wait for and what to forget, and says when all is there. If there
    is a ``loader``, images whose results are waited for are refused when the program is gone.
    """
    waiting, needed = collector.waiting, collector.needed
    free = Signal()
    images = Signal(32)
    busy = Signal(32)
    errors = Signal(32)
    reply = Signal(8)
    number = Signal(16)
    said = Signal(96)
    m.d.comb += free.eq(speaker.idle & ~waiting)
    lost = C(0) if loader is None else waiting & ~loader.loaded & ~collector.answered
    failed = listener.refused | (listener.accepted & ~free)
    with m.If(failed if loader is None else failed | lost):
        m.d.sync += [errors.eq(errors + 1), collector.forget.eq(1)]
    with m.If(collector.under_way != 0):
        m.d.sync += busy.eq(busy + 1)
    m.d.comb += [speaker.kind.eq(reply), speaker.number.eq(number)]
    begin = Signal()
    m.d.sync += begin.eq(0)
    with m.If(collector.answered):
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
            if loader is not None:
                with m.Case(Answer.LOADED):
                    m.d.comb += speaker.length.eq(0)
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
        if loader is not None:
            with m.Elif(listener.command == Command.LOAD):
                m.d.sync += [reply.eq(Answer.LOADED), begin.eq(1)]
        with m.Else():
            m.d.sync += [
                reply.eq(Answer.COUNTS), said.eq(Cat(images, busy, errors)), begin.eq(1),
            ]
    if loader is not None:
        with m.Elif(lost):
            m.d.sync += [reply.eq(Answer.REFUSED), said.eq(Reason.PROGRAM), begin.eq(1)]

    # What is said: the half that was filled last, the identity, or a few bytes.
    named = Signal()
    m.d.comb += named.eq(reply == Answer.IDENTITY)
    kept = collector.byte_at(m, speaker.index, named)
    m.d.comb += speaker.byte.eq(Mux(named | (reply == Answer.RESULTS), kept, said[:8]))
    if loader is not None:
        # An identity that is said while a digest comes may have half of it. It then says as well
        # that nothing is loaded: a program takes longer than the rest of an identity.
        with m.If(named & (speaker.index == LOADED_AT)):
            m.d.comb += speaker.byte.eq(loader.loaded)
    spoken = Signal.like(speaker.index)
    m.d.sync += spoken.eq(speaker.index)
    with m.If(~speaker.idle & (spoken != speaker.index)):
        m.d.sync += said.eq(said >> 8)
