"""ECP5 and iCE40: synthesis with Yosys, place and route with nextpnr, and the bitstream.

Programs run in the folder of the build, under names of our choosing; what they say goes to a log
there. The same files give the same bitstream: the seed is fixed.
"""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbnn_hw.boards.results import Routed, remove_files, write_bytes
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.errors import OutputRefused, ToolFailed, ToolMissing, UsageError
from sbnn_hw.files import write_atomically
from sbnn_hw.tools import Chosen, choose, find_next_to
from sbnn_hw.yosys import Counts, count_cells, find_yosys

__all__ = [
    "LEAST",
    "SEED",
    "Nextpnr",
    "Synthesised",
    "bram_blocks",
    "choose_nextpnr",
    "find_nextpnr",
    "place_and_route",
    "place_out_of_context",
    "reason_in_log",
    "run_tool",
    "stage_of_path",
    "start_log",
    "synthesise_board",
]

#: The oldest nextpnr that is taken: 0.5 stops at cells with which recent Yosys notes hierarchy.
LEAST = (0, 8)

#: Placement starts from here, always.
SEED = 1

SYNTHESIS_LOG, ROUTE_LOG = "synthesis.log", "route.log"

#: How a whole board is synthesised; its pins have buffers already.
_SYNTHESIS = {
    "xc7":   "synth_xilinx -family xc7 -flatten -top {top}",
    "ecp5":  "synth_ecp5 -nowidelut -top {top}",
    "ice40": "synth_ice40 -top {top}",
}
#: The same for a part without a board: the ports stay as they are.
_WITHOUT_PINS = {"xc7": " -noiopad -noclkbuf", "ecp5": " -noiopad", "ice40": ""}

_DEVICES = {
    "LFE5U-12F": "--12k", "LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
    "LFE5UM-25F": "--um-25k", "LFE5UM-45F": "--um-45k", "LFE5UM-85F": "--um-85k",
    "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k", "LFE5UM5G-85F": "--um5g-85k",
    "iCE40LP384": "--lp384", "iCE40LP1K": "--lp1k", "iCE40LP4K": "--lp4k", "iCE40LP8K": "--lp8k",
    "iCE40HX1K": "--hx1k", "iCE40HX4K": "--hx4k", "iCE40HX8K": "--hx8k",
    "iCE40UP3K": "--up3k", "iCE40UP5K": "--up5k",
}
_PACKAGES = {
    "BG256": "CABGA256", "MG285": "CSFBGA285", "BG381": "CABGA381", "BG554": "CABGA554",
    "BG756": "CABGA756", "TG144": "TQFP144",
}
#: The default router of ECP5 takes many times as long on networks, whose nets have many readers.
_ROUTER = {"ecp5": ("--router", "router2"), "ice40": ()}
_PACKERS = {"ecp5": "ecppack", "ice40": "icepack"}


@dataclass(frozen=True)
class Nextpnr:
    """The programs that make a bitstream of a netlist."""

    place: str
    pack: str


def choose_nextpnr(family: str) -> Chosen:
    """Return the nextpnr for a family: a recent one of the system, or the Python package's."""
    if family not in _PACKERS:
        raise UsageError(f"Family for nextpnr must be ecp5 or ice40, not {family!r}")
    return choose(
        f"nextpnr-{family}", LEAST, package=f"yowasp-nextpnr-{family}", partner=_PACKERS[family]
    )


def find_nextpnr(family: str) -> Nextpnr:
    """Return nextpnr and the packer for a family, both from the same place."""
    place = choose_nextpnr(family).path
    prefix = "yowasp-" if Path(place).name.startswith("yowasp-") else ""
    pack = find_next_to(place, f"{prefix}{_PACKERS[family]}")
    assert pack is not None
    return Nextpnr(place, pack)


def run_tool(command: Sequence[str], folder: Path, log: Path) -> int:
    """Run a program in a folder, add what it says to a log, and return its exit code."""
    try:
        with log.open("ab") as file:
            file.write(f"$ {' '.join([Path(command[0]).name, *command[1:]])}\n".encode())
            file.flush()
            try:
                done = subprocess.run(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                    stderr=subprocess.STDOUT, check=False,
                )
            except OSError as error:
                raise ToolMissing(
                    f"{command[0]} cannot be run ({error.strerror or error}); install it again"
                ) from None
    except OSError as error:
        raise OutputRefused(f"Cannot write {log}: {error.strerror or error}") from None
    return done.returncode


def start_log(log: Path) -> None:
    """Begin a log anew."""
    write_atomically(log, lambda file: None)


def reason_in_log(log: Path) -> str:
    """Return the first error in a log, or else its last line, as the end of a sentence."""
    text = log.read_text(encoding="utf-8", errors="replace")
    errors = re.findall(r"^(?:\S+: )?(?:ERROR|Error|error): (.*)", text, re.MULTILINE)
    said = [line for line in text.splitlines() if line.strip() and not line.startswith("$ ")]
    what = errors[0] if errors else said[-1] if said else "it stopped without a message"
    return what.strip().rstrip(".")


@dataclass(frozen=True)
class Synthesised:
    """A design in the cells of its family: the netlist on disk, and how many cells."""

    netlist: Path
    counts: Counts


def synthesise_board(
    files: Mapping[str, str | bytes], family: str, folder: Path, *,
    top: str = "shell", pins: bool = True, options: str = "",
) -> Synthesised:
    """Synthesise all sources for a family, into a netlist that nextpnr reads.

    Parameters
    ----------
    files : mapping of str to str or bytes
        Of these, what ends in ``.v`` and ``.il`` is read; they are written into the folder.
    family : str
        ``xc7``, ``ecp5`` or ``ice40``.
    folder : Path
        Where netlist and log go.
    top : str
        The top module.
    pins : bool
        Whether the ports are pins of the FPGA.
    options : str
        More words for the synthesis command; none of them from a model.
    """
    if family not in _SYNTHESIS:
        raise UsageError(f"Family must be one of {', '.join(_SYNTHESIS)}, not {family!r}")
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise ValueError(f"Top module must have a plain name, not {top!r}")
    yosys = find_yosys()
    reads = []
    for name, content in files.items():
        kind = {".v": "read_verilog", ".il": "read_rtlil"}.get(name[name.rfind("."):])
        if kind is None:
            continue
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.(v|il)", name, re.ASCII):
            raise ValueError(f"File for Yosys must be named like top.v, not {name!r}")
        data = content.encode() if isinstance(content, str) else content
        write_bytes(folder / name, data)
        reads.append(f"{kind} {name}\n")
    netlist, counts, log = folder / f"{top}.json", folder / "cells.json", folder / SYNTHESIS_LOG
    command = _SYNTHESIS[family].format(top=top) + ("" if pins else _WITHOUT_PINS[family])
    command = f"{command} {options}".rstrip()
    if family == "ecp5" and not pins:
        # Most of the time would go into names, which only a report of a board needs.
        command += " -run begin:check\nhierarchy -check\ncheck\nblackbox =A:whitebox"
    counted = f"tee -q -o {counts.name} stat -json\nwrite_json {netlist.name}\n"
    script = "".join([*reads, command, "\n", counted])
    write_bytes(folder / "synthesis.ys", script.encode())
    remove_files(netlist, counts)
    start_log(log)
    status = run_tool([yosys, "-q", "-l", "yosys.log", "-s", "synthesis.ys"], folder, log)
    if status or not netlist.is_file() or not counts.is_file():
        raise ToolFailed(f"Yosys failed: {reason_in_log(log)} (its output is in {log})")
    return Synthesised(netlist, count_cells(counts.read_text(encoding="utf-8")))


def bram_blocks(counts: Counts, family: str) -> float:
    """Return the memory blocks that a design takes, in the unit of :class:`Capacity`.

    On 7-series two blocks of 18 kbit share one of 36.
    """
    halves = counts.cells.get("RAMB18E1", 0) if family == "xc7" else 0
    return counts.brams - halves / 2


def _device(part: Board | Part) -> list[str]:
    if part.device not in _DEVICES:
        raise UsageError(f"nextpnr does not know the device {part.device}")
    if part.family == "ecp5":
        return [_DEVICES[part.device], "--package", _PACKAGES[part.package], "--speed", part.speed]
    return [_DEVICES[part.device], "--package", part.package.lower()]


def place_and_route(
    folder: Path, board: Board, *, clock_hz: int, stages: Iterable[str] = (), name: str = "shell",
    seed: int = SEED,
) -> Routed:
    """Place and route a synthesised board, and pack its bitstream.

    The folder has the netlist that :func:`synthesise_board` wrote, and the pins that
    :func:`sbnn_hw.boards.platform.prepare_board` gave.

    Parameters
    ----------
    folder : Path
        Where everything is and goes.
    board : Board
        What to build for.
    clock_hz : int
        The clock to meet. That it is not met is told by the result.
    stages : iterable of str
        The names of the network's modules, to tell the worst path's from.
    name : str
        The top module.
    seed : int
        Where placement starts.
    """
    tools = find_nextpnr(board.family)
    log, report = folder / ROUTE_LOG, folder / "route.json"
    routed = folder / f"{name}.{'config' if board.family == 'ecp5' else 'asc'}"
    bitstream = folder / f"{name}.{'bit' if board.family == 'ecp5' else 'bin'}"
    pins, output = ("--lpf", "--textcfg") if board.family == "ecp5" else ("--pcf", "--asc")
    remove_files(report, routed, bitstream)
    start_log(log)
    status = run_tool(
        [
            tools.place, *_device(board), *_ROUTER[board.family], "--json", f"{name}.json",
            pins, f"{name}.{pins[2:]}", output, routed.name, *_common(clock_hz, report, seed),
        ],
        folder, log,
    )
    if status or not routed.is_file() or not report.is_file():
        raise ToolFailed(
            f"nextpnr could not place and route the design for {board.name}: {reason_in_log(log)} "
            f"(its output is in {log})"
        )
    # The packer's output counts only when it is whole.
    partial = folder / f"{name}.part"
    command = (
        [tools.pack, *board.pack, "--input", routed.name, "--bit", partial.name]
        if board.family == "ecp5"
        else [tools.pack, *board.pack, routed.name, partial.name]
    )
    status = run_tool(command, folder, log)
    if status or not partial.is_file():
        partial.unlink(missing_ok=True)
        raise ToolFailed(
            f"{_PACKERS[board.family]} could not pack the bitstream: {reason_in_log(log)} "
            f"(its output is in {log})"
        )
    partial.replace(bitstream)
    return _read_report(report, log, clock_hz, stages, bitstream, tools.place)


def place_out_of_context(
    folder: Path, part: Part, *, clock_hz: int, stages: Iterable[str] = (), name: str = "top_axi",
    seed: int = SEED,
) -> Routed:
    """Place and route a design without pins on an ECP5, to learn how fast it is."""
    if part.family != "ecp5":
        raise UsageError(
            f"Timing without a board can be measured only for ECP5 parts, and {part.name} is not "
            f"one"
        )
    tools = find_nextpnr("ecp5")
    log, report = folder / ROUTE_LOG, folder / "route.json"
    remove_files(report)
    start_log(log)
    status = run_tool(
        [
            tools.place, *_device(part), *_ROUTER["ecp5"], "--json", f"{name}.json",
            "--out-of-context", *_common(clock_hz, report, seed),
        ],
        folder, log,
    )
    if status or not report.is_file():
        raise ToolFailed(
            f"nextpnr could not place and route the design for {part.name}: {reason_in_log(log)} "
            f"(its output is in {log})"
        )
    return _read_report(report, log, clock_hz, stages, None, tools.place)


def _common(clock_hz: int, report: Path, seed: int) -> list[str]:
    return [
        "--freq", f"{clock_hz / 1e6:.6f}", "--seed", str(seed), "--timing-allow-fail",
        "--report", report.name,
    ]


def _read_report(
    report: Path, log: Path, clock_hz: int, stages: Iterable[str], bitstream: Path | None, tool: str
) -> Routed:
    try:
        found = json.loads(report.read_text(encoding="utf-8"))
        clocks = {
            name: float(entry["achieved"]) for name, entry in found.get("fmax", {}).items()
        }
        used = {
            name: (int(entry["used"]), int(entry["available"]))
            for name, entry in found["utilization"].items()
        }
        paths = list(found.get("critical_paths", []))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolFailed(f"Cannot read nextpnr's report: {error!r}") from None
    slowest = min(clocks, key=lambda name: clocks[name], default=None)
    fmax = None if slowest is None else clocks[slowest]
    return Routed(
        bitstream,
        fmax,
        fmax is None or fmax * 1e6 >= clock_hz * (1 - 1e-9),
        stage_of_path(_worst_path(paths, slowest), stages),
        log,
        used,
        Path(tool).name,
    )


def _worst_path(paths: list[dict[str, Any]], clock: str | None) -> list[str]:
    """Return the names along the slowest path between registers of a clock."""
    for path in paths:
        ends = (str(path.get("from", "")), str(path.get("to", "")))
        if clock is not None and all(end.endswith(f" {clock}") for end in ends):
            names = []
            for step in path.get("path", []):
                names += [str(step[side].get("cell", "")) for side in ("from", "to")]
                names.append(str(step.get("net", "")))
            return names
    return []


def stage_of_path(names: Iterable[str], stages: Iterable[str]) -> str:
    """Return the stage that most of a path's names lie in, or ``shell`` if none lies in one.

    >>> stage_of_path(["shell.core.linear0.t1", "shell.core.linear0.t2"], ["linear0", "scores"])
    'linear0'
    """
    known = set(stages)
    votes: Counter[str] = Counter()
    for name in names:
        # Yosys marks names of its own with $ and \, and levels with dots; Vivado has slashes.
        votes.update({word for word in re.split(r"[^A-Za-z0-9_]+", name) if word in known})
    # Equal votes go to the first name.
    return min(votes, key=lambda stage: (-votes[stage], stage)) if votes else "shell"
