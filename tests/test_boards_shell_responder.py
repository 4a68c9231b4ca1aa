"""The responder by itself: each packet is answered, or dropped and counted."""

from types import SimpleNamespace

import pytest
from amaranth import Module, Signal
from simulated import simulate, stub

from sbnn_hw.boards.protocol import ANSWER, Answer, Command, Counters, Packet, Parser, Reason, Wire
from sbnn_hw.boards.shell.responder import add_responder
from sbnn_hw.boards.shell.speaker import Speaker

WIRE = Wire((2, 2, 1), 8, 4, 2, 6)
IDENTITY = bytes(range(100, 140))
RESULTS = bytes(range(32))

#: Cycles that any answer here takes.
LONG = 800


def respond(*events, forgotten=None, wire=WIRE):
    """Tell a responder of packets; return what is said.

    An event is (command, number, images), (reason, number), or a number of cycles to wait; results
    of a packet are there when ``"results"`` is said.
    """
    m = Module()
    listener = stub(accepted=1, refused=1, command=8, number=16, images=5, reason=8)
    collector = stub(waiting=1, needed=6, forget=1, answered=1, under_way=6)
    m.submodules.speaker = speaker = Speaker(max(len(IDENTITY), len(RESULTS)))

    def byte_at(m, index, named):
        byte = Signal(8)
        with m.Switch(index):
            for at in range(len(IDENTITY)):
                with m.Case(at):
                    kept = RESULTS[at] if at < len(RESULTS) else 0
                    with m.If(named):
                        m.d.sync += byte.eq(IDENTITY[at])
                    with m.Else():
                        m.d.sync += byte.eq(kept)
        return byte

    # As the collector does it.
    with m.If(collector.answered):
        m.d.sync += collector.waiting.eq(0)
    collector = SimpleNamespace(**vars(collector), byte_at=byte_at)
    add_responder(m, wire, IDENTITY, listener, speaker, collector)
    parser = Parser(ANSWER, 100)
    said = []

    async def source(ctx):
        async def pulse(signal):
            ctx.set(signal, 1)
            await ctx.tick()
            ctx.set(signal, 0)

        for event in events:
            match event:
                case "results":
                    await pulse(collector.answered)
                case int():
                    await ctx.tick().repeat(event)
                case Reason() as reason, number:
                    ctx.set(listener.reason, reason)
                    ctx.set(listener.number, number)
                    await pulse(listener.refused)
                case command, number, images:
                    ctx.set(listener.command, command)
                    ctx.set(listener.number, number)
                    ctx.set(listener.images, images)
                    await pulse(listener.accepted)
        if forgotten is not None:
            forgotten.append(ctx.get(collector.forget))

    async def sink(ctx):
        ctx.set(speaker.o.ready, 1)
        while True:
            _, _, valid, byte = await ctx.tick().sample(speaker.o.valid, speaker.o.payload)
            if valid:
                said.extend(parser.feed(bytes([byte])))

    simulate(m, source, background=[sink])
    assert parser.dropped == 0
    return said


def counts(images, errors):
    return (
        Answer.COUNTS,
        b"".join(n.to_bytes(4, "little") for n in (images, 0, errors)),
    )


def test_each_question_has_its_answer():
    kind, payload = counts(16, 0)
    assert respond(
        (Command.IDENTIFY, 1, 0), LONG, (Command.CLASSIFY, 2, 16), 50, "results", LONG,
        (Command.COUNTERS, 3, 0), LONG,
    ) == [
        Packet(Answer.IDENTITY, 1, IDENTITY),
        Packet(Answer.RESULTS, 2, RESULTS),
        Packet(kind, 3, payload),
    ]  # fmt: skip


@pytest.mark.parametrize("reason", Reason)
def test_a_refused_packet_is_told_why(reason):
    forgotten = []
    assert respond((reason, 9), LONG, forgotten=forgotten) == [
        Packet(Answer.REFUSED, 9, bytes([reason]))
    ]
    assert forgotten == [1]


@pytest.mark.parametrize(
    "late", [(Command.CLASSIFY, 5, 1), (Command.IDENTIFY, 5, 0), (Reason.CHECK, 5)]
)
def test_what_comes_while_another_is_answered_is_dropped_and_counted(late):
    for begun in ([(Command.CLASSIFY, 2, 16), 50, "results", 100, late],
                  [(Command.CLASSIFY, 2, 16), 50, late, 50, "results"]):  # fmt: skip
        forgotten = []
        said = respond(*begun, LONG, (Command.COUNTERS, 3, 0), LONG, forgotten=forgotten)
        assert said == [
            Packet(Answer.RESULTS, 2, RESULTS),
            Packet(counts(16, 1)[0], 3, counts(16, 1)[1]),
        ]
        assert forgotten == [1]


def test_nothing_is_said_before_all_results_are_there():
    assert respond((Command.CLASSIFY, 2, 16), LONG) == []


def test_counters_are_read_as_the_protocol_says():
    (packet,) = respond((Command.COUNTERS, 3, 0), LONG)
    assert Counters.from_bytes(packet.payload) == Counters(0, 0, 0)


def test_a_responder_that_takes_results_for_shorter_is_found_out():
    shorter = Wire((2, 2, 1), 8, 4, 0, 6)
    said = respond((Command.CLASSIFY, 2, 16), 50, "results", LONG, wire=shorter)
    assert said != [Packet(Answer.RESULTS, 2, RESULTS)]
