"""Synthesis with Yosys, place and route with nextpnr, and the bitstream.

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

from sbnn_hw.boards.results import Routed, remove_files, write_file
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.errors import OutputRefused, ToolFailed, ToolMissing, UsageError
from sbnn_hw.families import FpgaFamily, any_of, fpga_families
from sbnn_hw.families.programs import Router
from sbnn_hw.tools import Chosen, choose, find_next_to
from sbnn_hw.yosys import Counts, count_cells, find_yosys

__all__ = [
    "LEAST", "SEED", "Nextpnr", "Synthesised", "choose_nextpnr", "find_nextpnr", "place_and_route",
    "place_out_of_context", "reason_in_log", "routes_without_pins", "run_tool", "stage_of_path",
    "start_log", "synthesise_board",
]

#: The oldest nextpnr that is taken: 0.5 stops at cells with which recent Yosys notes hierarchy.
LEAST = (0, 8)

#: Placement starts from here, always.
SEED = 1

SYNTHESIS_LOG, ROUTE_LOG, REPORT = "synthesis.log", "route.log", "route.json"


@dataclass(frozen=True)
class Nextpnr:
    """The programs that make a bitstream of a netlist."""

    place: str
    pack: str


def _router(family: FpgaFamily) -> Router:
    if family.router is None:
        known = any_of([each.name for each in fpga_families() if each.router is not None])
        raise UsageError(f"Family for nextpnr must be {known}, not {family.name!r}")
    return family.router


def choose_nextpnr(family: FpgaFamily) -> Chosen:
    """Return the nextpnr for a family: a recent one of the system, or the Python package's."""
    router = _router(family)
    return choose(
        router.program, LEAST, package=f"yowasp-{router.program}", partner=router.packer
    )


def find_nextpnr(family: FpgaFamily) -> Nextpnr:
    """Return nextpnr and the packer for a family, both from the same place."""
    place = choose_nextpnr(family).path
    prefix = "yowasp-" if Path(place).name.startswith("yowasp-") else ""
    pack = find_next_to(place, f"{prefix}{_router(family).packer}")
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
    """Start a new log."""
    write_file(log, b"")


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
    files: Mapping[str, str | bytes], family: FpgaFamily, folder: Path, *,
    top: str = "shell", pins: bool = True, options: str = "",
) -> Synthesised:
    """Synthesise all sources for a family, into a netlist that nextpnr reads.

    Of ``files``, what ends in ``.v`` and ``.il`` is written into the folder and read; netlist and
    log go there too. ``pins`` tells whether the ports are pins of the FPGA. ``options`` are more
    words for the synthesis command; none of them from a model.
    """
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
        write_file(folder / name, content)
        reads.append(f"{kind} {name}\n")
    netlist, counts, log = folder / f"{top}.json", folder / "cells.json", folder / SYNTHESIS_LOG
    command = family.synthesis.board_command(top, pins=pins, options=options)
    counted = f"tee -q -o {counts.name} stat -json\nwrite_json {netlist.name}\n"
    script = "".join([*reads, command, "\n", counted])
    write_file(folder / "synthesis.ys", script)
    remove_files(netlist, counts)
    start_log(log)
    status = run_tool([yosys, "-q", "-l", "yosys.log", "-s", "synthesis.ys"], folder, log)
    if status or not netlist.is_file() or not counts.is_file():
        raise ToolFailed(f"Yosys failed: {reason_in_log(log)} (its output is in {log})")
    return Synthesised(netlist, count_cells(counts.read_text(encoding="utf-8"), family))


def _device(part: Board | Part) -> tuple[str, ...]:
    found = _router(part.family).select(part.device, part.package, part.speed)
    if found is None:
        raise UsageError(f"nextpnr does not know the device {part.device}")
    return found


def place_and_route(
    folder: Path, board: Board, *, clock_hz: int, stages: Iterable[str] = ()
) -> Routed:
    """Place and route a synthesised board, and pack its bitstream.

    The folder has the netlist that :func:`synthesise_board` wrote, and the pins that
    :func:`sbnn_hw.boards.platform.prepare_board` gave.

    That the clock is not met is told by the result. ``stages`` are the names of the network's
    modules, to tell the worst path's from.
    """
    tools, router = find_nextpnr(board.family), _router(board.family)
    name, log = "shell", folder / ROUTE_LOG
    output, ending = router.routed
    routed = folder / f"{name}.{ending}"
    bitstream = folder / f"{name}.{board.family.bitstream}"
    remove_files(bitstream)
    pins = [f"--{router.pins}", f"{name}.{router.pins}", output, routed.name]
    _place(tools, folder, board, name, clock_hz, pins, routed)
    # The packer's output counts only when it is whole.
    partial = folder / f"{name}.part"
    arguments = [word.format(routed=routed.name, bitstream=partial.name) for word in router.pack]
    status = run_tool([tools.pack, *board.pack, *arguments], folder, log)
    if status or not partial.is_file():
        partial.unlink(missing_ok=True)
        raise ToolFailed(
            f"{router.packer} could not pack the bitstream: {reason_in_log(log)} "
            f"(its output is in {log})"
        )
    partial.replace(bitstream)
    return _read_report(folder, clock_hz, stages, bitstream, tools.place)


def routes_without_pins(family: FpgaFamily) -> bool:
    """Whether nextpnr routes a design of a family that has no pins."""
    return family.router is not None and family.router.out_of_context


def place_out_of_context(
    folder: Path, part: Part, *, clock_hz: int, stages: Iterable[str] = (), name: str = "top_axi"
) -> Routed:
    """Place and route a design without pins, to learn how fast it is."""
    if not routes_without_pins(part.family):
        titles = [each.title for each in fpga_families() if routes_without_pins(each)]
        raise UsageError(
            f"Timing without a board can be measured only for {any_of(titles)} parts, and "
            f"{part.name} is not one"
        )
    tools = find_nextpnr(part.family)
    _place(tools, folder, part, name, clock_hz, ["--out-of-context"])
    return _read_report(folder, clock_hz, stages, None, tools.place)


def _place(
    tools: Nextpnr, folder: Path, target: Board | Part, name: str, clock_hz: int, more: list[str],
    *outputs: Path,
) -> None:
    """Place and route a netlist, which makes a report and the outputs."""
    log, report = folder / ROUTE_LOG, folder / REPORT
    remove_files(report, *outputs)
    start_log(log)
    status = run_tool(
        [
            tools.place, *_device(target), *_router(target.family).options,
            "--json", f"{name}.json", *more,
            "--freq", f"{clock_hz / 1e6:.6f}", "--seed", str(SEED), "--timing-allow-fail",
            "--report", report.name,
        ],
        folder, log,
    )
    if status or not all(path.is_file() for path in (report, *outputs)):
        raise ToolFailed(
            f"nextpnr could not place and route the design for {target.name}: "
            f"{reason_in_log(log)} (its output is in {log})"
        )


def _read_report(
    folder: Path, clock_hz: int, stages: Iterable[str], bitstream: Path | None, tool: str
) -> Routed:
    try:
        found = json.loads((folder / REPORT).read_text(encoding="utf-8"))
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
        folder / ROUTE_LOG,
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
