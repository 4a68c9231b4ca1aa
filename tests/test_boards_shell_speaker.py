import random

import pytest
from amaranth import Module
from simulated import simulate

from sbnn_hw.boards.protocol import ANSWER, pack
from sbnn_hw.boards.shell import speaker as room
from sbnn_hw.boards.shell.check import Check
from sbnn_hw.boards.shell.speaker import Speaker


def say(*packets, odds=1.0, late=1):
    """Return the bytes that a speaker says; payloads come so many cycles after their index."""
    dut = Speaker(300)
    rng = random.Random(0)
    said = bytearray()
    payload = [b""]

    async def source(ctx):
        for kind, number, data in packets:
            payload[0] = data
            ctx.set(dut.kind, kind)
            ctx.set(dut.number, number)
            ctx.set(dut.length, len(data))
            ctx.set(dut.start, 1)
            await ctx.tick()
            # What it was is taken with the start.
            for signal in (dut.start, dut.kind, dut.number, dut.length):
                ctx.set(signal, 0)
            await ctx.tick().until(dut.idle)

    async def memory(ctx):
        wanted = [0] * late
        while True:
            _, _, index = await ctx.tick().sample(dut.index)
            wanted.append(index)
            at = wanted.pop(0)
            ctx.set(dut.byte, payload[0][at] if at < len(payload[0]) else 0)

    async def sink(ctx):
        while True:
            ctx.set(dut.o.ready, rng.random() <= odds)
            _, _, valid, ready, byte = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload
            )
            if valid and ready:
                said.append(byte)

    simulate(dut, source, background=[memory, sink])
    return bytes(said)


PACKETS = [(0x81, 0xBEEF, bytes(range(256)) + b"more"), (0xFF, 1, b"\3"), (0x83, 0, b"")]


@pytest.mark.parametrize("odds", [1.0, 0.1], ids=["steady", "stalls"])
def test_packets_are_said_byte_by_byte(odds):
    assert say(*PACKETS, odds=odds) == b"".join(pack(ANSWER, *packet) for packet in PACKETS)


def test_a_payload_that_is_too_late_is_found_out():
    assert say(*PACKETS, late=20) != b"".join(pack(ANSWER, *packet) for packet in PACKETS)


class Silent(Check):
    """A check that stays what it was."""

    def elaborate(self, platform):
        return Module()


def test_a_speaker_without_its_check_is_found_out(monkeypatch):
    monkeypatch.setattr(room, "Check", Silent)
    assert say(PACKETS[1]) != pack(ANSWER, *PACKETS[1])
