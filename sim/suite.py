"""The regression suite that goes with a generated design and runs without this project."""

from importlib import resources
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sbnn_hw.design import Design
from sbnn_hw.errors import UsageError
from sbnn_hw.files import write_text
from sbnn_hw.netlist import Network
from sbnn_hw.sim.library import primitives
from sbnn_hw.vectors import Bytes, pack_images, pack_results

__all__ = ["write_suite"]

#: The files that are the same for every design; they read the rest from ``design.json``.
_SAME = ("README.md", "design_bench.py", "test_design.py")


def write_suite(
    folder: Path,
    network: Network,
    verilog: str,
    design: Design,
    pixels: npt.NDArray[Any],
    *,
    limit: int = 200,
) -> None:
    """Write a design and its regression suite: ``pytest`` in the folder runs it.

    The suite needs cocotb, Verilator and pytest, and nothing of this project. The folder gets
    ``top.v`` and ``design.json``, and below them ``tests``, with the first ``limit`` images at
    most.
    """
    if design.network != network.digest:
        raise UsageError("The design was generated from another network; generate it again")
    if limit < 1:
        raise UsageError(f"Limit must be 1 or more, not {limit!r}")
    pixels = network.check_pixels(pixels)[:limit]
    if not len(pixels):
        raise UsageError("There must be one image or more in a regression suite")
    outcome = network.compute(pixels)
    expected = pack_results(outcome.classes, outcome.scores, design.output)
    here = resources.files("sbnn_hw.sim")
    tests = {name: here.joinpath("suite_files", name).read_text("utf-8") for name in _SAME}
    tests["verilator_setup.py"] = here.joinpath("verilator_setup.py").read_text("utf-8")
    tests["watchdog.py"] = here.joinpath("watchdog.py").read_text("utf-8")
    tests["primitives.v"] = primitives()
    tests["vectors.hex"] = _hexadecimal(pack_images(pixels, design.input), design.input.width)
    tests["expected.hex"] = _hexadecimal(expected, design.output.width)
    for name, text in tests.items():
        write_text(folder / "tests" / name, text)
    write_text(folder / "top.v", verilog)
    # Comes last: where it is, all the rest is.
    write_text(folder / "design.json", design.to_json())


def _hexadecimal(rows: Bytes, width: int) -> str:
    """Return a word a line, in as many digits as its bits need."""
    digits = -(-width // 4)
    # The lowest bits lie in a row's first byte.
    return "".join(f"{row[::-1].tobytes().hex()[-digits:]}\n" for row in rows)
