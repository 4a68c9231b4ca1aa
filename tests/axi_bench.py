"""What the AXI4-Stream face of a network promises; the words and results come in a file."""

import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

CASE = json.loads(Path(os.environ["AXI_CASE"]).read_text())
IMAGES, EXPECTED, WIDTH = CASE["images"], CASE["expected"], CASE["width"]


async def start(dut):
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    dut.s_axis__tvalid.value = 0
    dut.m_axis__tready.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def exchange(dut, words, results, odds):
    """Send words with their tlast; return results, and the flag in each cycle."""
    chance = random.Random(7)
    place, offered, given, flags, waits = 0, False, [], [], None
    for _ in range(int((len(words) + 100) * 4 / odds**2)):
        await FallingEdge(dut.clk)
        if not offered and place < len(words):
            offered = chance.random() < odds
        ready = chance.random() < odds
        word, last = words[place] if offered else (chance.getrandbits(WIDTH), chance.random() < 0.5)
        dut.s_axis__tvalid.value = int(offered)
        dut.s_axis__tdata.value = word
        dut.s_axis__tlast.value = int(last)
        dut.m_axis__tready.value = int(ready)
        await ReadOnly()
        valid, data = int(dut.m_axis__tvalid.value), int(dut.m_axis__tdata.value)
        assert waits is None or (valid, data) == (1, waits), "a result changed while it waited"
        waits = data if valid and not ready else None
        if valid:
            assert int(dut.m_axis__tlast.value) == 1
        if valid and ready:
            given.append(data)
        flags.append((int(dut.misframed.value), place))
        if offered and int(dut.s_axis__tready.value):
            place, offered = place + 1, False
        if place == len(words) and len(given) >= results and not odds < 1:
            odds = 0.99  # some more cycles, to see that nothing else comes
    assert place == len(words), f"{place} of {len(words)} words were taken"
    return given, flags


def framed(images):
    return [(word, n == len(image) - 1) for image in images for n, word in enumerate(image)]


@cocotb.test()
@cocotb.parametrize(odds=[1.0, 0.5])
async def every_image_gives_one_result(dut, odds):
    await start(dut)
    given, flags = await exchange(dut, framed(IMAGES), len(EXPECTED), odds)
    assert given == EXPECTED
    assert not any(flag for flag, _ in flags)


@cocotb.test()
@cocotb.parametrize(fault=["early", "missing"])
async def misframed_is_set_until_reset(dut, fault):
    """The flag rises in the cycle after the wrong word, and the words still count."""
    words = framed(IMAGES)
    length = len(IMAGES[0])
    wrong = length if fault == "early" else 2 * length - 1
    words[wrong] = (words[wrong][0], not words[wrong][1])
    await start(dut)
    given, flags = await exchange(dut, words, len(EXPECTED), 1.0)
    assert given == EXPECTED
    assert [flag for flag, _ in flags] == [int(place > wrong) for _, place in flags]
    await FallingEdge(dut.clk)
    await start(dut)
    given, flags = await exchange(dut, framed(IMAGES[:3]), 3, 1.0)
    assert given == EXPECTED[:3]
    assert not any(flag for flag, _ in flags)
