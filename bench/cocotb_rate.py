"""The fastest honest cocotb bench: a word in every cycle, every answer compared.

Run by simulation.py.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

HERE = Path(os.environ["RATE_FOLDER"])


@cocotb.test()
async def streams_images(dut: Any) -> None:
    """Send all vectors back to back, compare all results, and note how long it took."""
    vectors = [int(line, 16) for line in (HERE / "vectors.hex").read_text().split()]
    expected = [int(line, 16) for line in (HERE / "expected.hex").read_text().split()]
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    dut.i__valid.value = 0
    dut.o__ready.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    started = time.perf_counter()
    edge = RisingEdge(dut.clk)
    dut.i__valid.value = 1
    given = []
    for word in vectors:
        dut.i__payload.value = word
        await edge
        if dut.o__valid.value == 1:
            given.append(int(dut.o__payload.value))
    dut.i__valid.value = 0
    while len(given) < len(expected):
        await edge
        if dut.o__valid.value == 1:
            given.append(int(dut.o__payload.value))
    seconds = time.perf_counter() - started
    assert given[: len(expected)] == expected
    (HERE / "rate.json").write_text(json.dumps({"images": len(expected), "seconds": seconds}))
