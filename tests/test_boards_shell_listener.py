"""The listener by itself: bytes in, images and verdicts out."""

import pytest
from amaranth import Module
from simulated import simulate

from sbnn_hw.boards.protocol import PATIENCE, REQUEST, Command, Reason, pack
from sbnn_hw.boards.shell import listener as room
from sbnn_hw.boards.shell.check import Check
from sbnn_hw.boards.shell.listener import Listener

IMAGE, BATCH = 3, 2

#: A byte of the line that had no stop bit, and a pause after which a packet is given up.
BROKEN, PAUSE = "broken", "pause"


def listen(stream):
    """Return what a listener finds: images as bytes, and verdicts."""
    dut = Listener(IMAGE, BATCH, 1)
    found, image = [], bytearray(IMAGE)

    async def source(ctx):
        for byte in stream:
            if byte == PAUSE:
                await ctx.tick().repeat(PATIENCE + 10)
                continue
            ctx.set(dut.i.broken, byte == BROKEN)
            ctx.set(dut.i.valid, byte != BROKEN)
            ctx.set(dut.i.payload, 0 if byte == BROKEN else byte)
            await ctx.tick()
            ctx.set(dut.i.broken, 0)
            ctx.set(dut.i.valid, 0)
            await ctx.tick().repeat(11)

    async def watch(ctx):
        while True:
            _, _, write, byte, index, last, accepted, refused, reason = await ctx.tick().sample(
                dut.write, dut.byte, dut.index, dut.last, dut.accepted, dut.refused, dut.reason
            )
            if write:
                image[index] = byte
                if last:
                    found.append(bytes(image))
            if accepted:
                found.append((ctx.get(dut.command), ctx.get(dut.number), ctx.get(dut.images)))
            if refused:
                found.append(Reason(reason))

    simulate(dut, source, background=[watch])
    return found


def classify(number, payload):
    return pack(REQUEST, Command.CLASSIFY, number, payload)


def test_images_come_as_they_were_sent_then_the_verdict():
    stream = [*classify(0x1234, b"abc"), *classify(2, b"defghi"), *pack(REQUEST, 1, 3)]
    assert listen(stream) == [
        b"abc", (Command.CLASSIFY, 0x1234, 1), b"def", b"ghi", (Command.CLASSIFY, 2, 2),
        (Command.IDENTIFY, 3, 0),
    ]  # fmt: skip


def damaged():
    good = classify(1, b"abc")
    return [*good[:-1], good[-1] ^ 4]


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        (damaged(), [b"abc", Reason.CHECK]),
        (classify(1, b""), [Reason.LENGTH]),
        (classify(1, b"abcd"), [b"abc", Reason.LENGTH]),
        (classify(1, b"abcdefg"), [Reason.LENGTH]),
        (pack(REQUEST, Command.COUNTERS, 1, b"x"), [Reason.LENGTH]),
        (pack(REQUEST, 9, 1), [Reason.COMMAND]),
        (classify(1, b"abc")[:-1], [b"abc", Reason.SILENCE]),
        ([REQUEST], [Reason.SILENCE]),
        ([*classify(1, b"abc")[:8], BROKEN], [Reason.FRAMING]),
    ],
    ids=["check", "empty", "half", "long", "question", "command", "cut", "start", "broken"],
)
def test_each_fault_has_its_reason_and_the_next_packet_is_heard(stream, wanted):
    after = [PAUSE, *classify(7, b"xyz")]
    assert listen([*stream, *after]) == [*wanted, b"xyz", (Command.CLASSIFY, 7, 1)]


def test_what_is_no_packet_is_not_refused():
    assert listen([0, 1, BROKEN, 2, *classify(7, b"xyz")]) == [b"xyz", (Command.CLASSIFY, 7, 1)]


def test_nothing_is_heard_before_the_line_was_quiet():
    noise = pack(REQUEST, 9, 1)
    assert listen([*noise, *classify(7, b"xyz")]) == [Reason.COMMAND]


class Blind(Check):
    """A check that everything passes."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.match.eq(1)
        return m


def test_a_listener_that_does_not_look_at_the_check_is_found_out(monkeypatch):
    monkeypatch.setattr(room, "Check", Blind)
    assert listen(damaged()) != [b"abc", Reason.CHECK]
