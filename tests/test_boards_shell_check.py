import random
import zlib

from simulated import simulate

from sbnn_hw.boards.shell import check as room
from sbnn_hw.boards.shell.check import Check


def checks(*messages, pause=8):
    """Return for each message the check, and whether its end was the check of the rest."""
    dut = Check()
    found = []

    async def bench(ctx):
        for message in messages:
            await ctx.tick().until(~dut.busy)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for byte in message:
                ctx.set(dut.byte, byte)
                ctx.set(dut.valid, 1)
                await ctx.tick()
                ctx.set(dut.valid, 0)
                await ctx.tick().repeat(pause)
            found.append((ctx.get(dut.crc), bool(ctx.get(dut.match))))

    simulate(dut, bench)
    return found


def test_the_check_is_that_of_zlib():
    rng = random.Random(0)
    messages = [rng.randbytes(length) for length in (0, 1, 4, 40)]
    assert [crc for crc, _ in checks(*messages)] == [zlib.crc32(m) for m in messages]


def test_a_message_with_its_check_matches_and_one_damaged_bit_does_not():
    whole = b"images" + zlib.crc32(b"images").to_bytes(4, "little")
    damaged = [bytes([*whole[:n], whole[n] ^ 1 << n % 8, *whole[n + 1 :]]) for n in range(10)]
    assert [match for _, match in checks(whole, *damaged, whole)] == [True, *[False] * 10, True]


def test_another_polynomial_is_found_out(monkeypatch):
    other = room.crc.Algorithm(
        crc_width=32, polynomial=0x04C11DB5, initial_crc=0xFFFFFFFF, reflect_input=True,
        reflect_output=True, xor_output=0xFFFFFFFF,
    )  # fmt: skip
    monkeypatch.setattr(room, "CHECK", other)
    assert checks(b"a")[0][0] != zlib.crc32(b"a")
