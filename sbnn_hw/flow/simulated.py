"""The board of a build, in simulation: its shell and its network, behind a serial line."""

import json
from collections.abc import Callable
from pathlib import Path

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.flow.report import JSON
from sbnn_hw.generate import require_amaranth
from sbnn_hw.hardware import Folder
from sbnn_hw.netlist import Network
from sbnn_hw.report import Report
from sbnn_hw.sim.line import Line

__all__ = ["start_board"]

#: Clocks a bit, so that simulation is fast enough; on the board there are more.
DIVISOR = 8

_LEDS = 4


def start_board(
    folder: Path,
    *,
    noise: float = 0.0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> tuple[Network, Line]:
    """Return the network of a build, and its board, which was just reset."""
    require_amaranth()
    from sbnn_hw.boards.shell import Shell
    from sbnn_hw.rtl_gen.verilog import to_verilog
    from sbnn_hw.sim.library import primitives
    from sbnn_hw.sim.line import compile_line
    from sbnn_hw.sim.verilator import require
    from sbnn_hw.yosys import find_yosys

    if not 0 <= noise <= 1:
        raise UsageError(f"Noise must be between 0 and 1, not {noise:g}")
    if seed < 0:
        raise UsageError(f"Seed must not be negative, not {seed}")
    find_yosys()
    require()
    clock_hz = _clock_of(folder)
    network, verilog, design = Folder(folder).load()
    shell = Shell(design, divisor=DIVISOR, clock_hz=clock_hz, leds=_LEDS)
    sources = {
        "primitives.v": primitives(),
        "top.v": verilog,
        "shell.v": to_verilog(shell, "shell"),
    }
    path = compile_line(sources, design, divisor=DIVISOR, leds=_LEDS, progress=progress)
    return network, Line(path, design, divisor=DIVISOR, noise=noise, seed=seed)


def _clock_of(folder: Path) -> int:
    """Return the clock of the board that a build is for: the identity tells it."""
    try:
        report = Report.read(json.loads((folder / JSON).read_text(encoding="utf-8")))
    except OSError:
        raise UsageError(
            f"There is no build in {folder} (make one with `sbnn-hw build --out {folder}`)"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelRejected(f"{folder / JSON} is damaged ({error}); build it again") from None
    if report.board is None:
        raise UsageError(f"The build in {folder} is for a part, which has no board to simulate")
    if not report.clock_mhz:
        raise UsageError(
            f"The build in {folder} stopped before the hardware was generated; build it with a "
            f"later --until"
        )
    if report.uart is None:
        raise UsageError(
            f"The build in {folder} is for SPI, and a terminal has only a serial line; build it "
            "without --link spi"
        )
    return round(report.clock_mhz * 1e6)
