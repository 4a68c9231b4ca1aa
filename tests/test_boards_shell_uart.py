# amaranth: UnusedElaboratable=no
import random

import pytest
from amaranth.sim import Simulator

from sbnn_hw.boards.shell.uart import Receiver, Transmitter


def receive(divisor, wave):
    """Return the bytes that a receiver finds in a wave of levels, and how many were broken."""
    dut = Receiver(divisor)
    found, broken = [], 0

    async def bench(ctx):
        nonlocal broken
        for level in wave:
            ctx.set(dut.rx, level)
            await ctx.tick()
            if ctx.get(dut.o.valid):
                found.append(ctx.get(dut.o.payload))
            broken += ctx.get(dut.o.broken)

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return found, broken


def wave_of(data, clocks_per_bit):
    """Return the levels of bytes on a line whose bits need not be whole clocks."""
    bits = [bit for byte in data for bit in (0, *(byte >> n & 1 for n in range(8)), 1)]
    ends = [round((n + 1) * clocks_per_bit) for n in range(len(bits))]
    levels, start = [1] * 5, 0
    for bit, end in zip(bits, ends, strict=True):
        levels += [bit] * (end - start)
        start = end
    return [*levels, *[1] * 40]


@pytest.mark.parametrize("divisor", [8, 9, 13, 33])
@pytest.mark.parametrize("off", [-0.02, 0.0, 0.02])
def test_every_byte_is_received_though_the_rates_differ(divisor, off):
    # 1.5 % is what boards are allowed; the host's own clock is not perfect either.
    data = random.Random(divisor).sample(range(256), 256 if (divisor, off) == (8, 0.0) else 24)
    assert receive(divisor, wave_of(data, divisor * (1 + off))) == (data, 0)


def test_a_glitch_is_no_start_bit():
    assert receive(16, [1] * 9 + [0] * 5 + [1] * 300) == ([], 0)


def test_a_byte_without_stop_bit_is_broken_and_the_next_one_is_not():
    first = [1] * 5 + [0] * 8 * 10 + [1] * 20
    assert receive(8, [*first, *wave_of([0x5A], 8)]) == ([0x5A], 1)


@pytest.mark.parametrize("divisor", [8, 11])
def test_what_is_sent_is_received(divisor):
    data = [0x00, 0xFF, 0xA5, 0x01, 0x80]
    dut = Transmitter(divisor)
    levels = []

    async def source(ctx):
        ctx.set(dut.i.valid, 1)
        for byte in data:
            ctx.set(dut.i.payload, byte)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)

    async def line(ctx):
        for _ in range((len(data) + 1) * 10 * divisor + 30):
            levels.append(ctx.get(dut.tx))
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(source)
    sim.add_testbench(line)
    sim.run()
    assert receive(divisor, levels) == (data, 0)


@pytest.mark.parametrize("kind", [Receiver, Transmitter])
def test_too_few_clocks_a_bit_are_refused(kind):
    with pytest.raises(ValueError, match=r"^Clocks per bit must be 8 or more, not 7$"):
        kind(7)
