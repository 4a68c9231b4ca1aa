"""openXC7: Artix-7 bitstreams without Vivado, where nextpnr-xilinx and its databases are there.

The programs are looked for on PATH. The chip database is the file, or in the folder, that
``$CHIPDB`` names, or lies beside nextpnr-xilinx; prjxray's database is in ``$PRJXRAY_DB_DIR``, or
lies there too.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.boards.nextpnr import (
    ROUTE_LOG,
    SEED,
    reason_in_log,
    run_tool,
    stage_of_path,
    start_log,
    synthesise_board,
)
from sbnn_hw.boards.results import Prepared, Routed, remove_files, write_file
from sbnn_hw.boards.table import Board
from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError
from sbnn_hw.yosys import Counts

__all__ = [
    "Openxc7", "constraints_for_nextpnr", "find_openxc7", "require_openxc7", "run_openxc7",
]

_PROGRAMS = ("nextpnr-xilinx", "fasm2frames", "xc7frames2bit")
_DATABASES = {"xc7a": "artix7", "xc7k": "kintex7", "xc7s": "spartan7", "xc7z": "zynq7"}


@dataclass(frozen=True)
class Openxc7:
    """The programs and databases that make a bitstream for one device."""

    #: nextpnr-xilinx, fasm2frames and xc7frames2bit.
    place: str
    frames: str
    pack: str
    #: nextpnr's database of the device.
    chip: Path
    #: prjxray's, of the family.
    database: Path
    #: The part as prjxray calls it: commercial grade, plain speed.
    part: str


def _die(board: Board) -> str:
    """Return a device's name without its temperature grade: the silicon is the same."""
    found = re.fullmatch(r"(xc7[a-z]\d+(?:t|s)?)[il]?", board.device)
    return found[1] if found else board.device


def find_openxc7(board: Board) -> Openxc7 | None:
    """Return what there is of openXC7 for a board's device, or nothing if a piece is missing."""
    try:
        return require_openxc7(board)
    except ToolMissing:
        return None


def require_openxc7(board: Board) -> Openxc7:
    """Return openXC7 for a board's device, or say which piece of it is missing."""
    if "openxc7" not in board.family.toolchains:
        raise UsageError(f"openXC7 is for 7-series boards, and {board.name} is not one")
    cure = "install openXC7 (https://github.com/openXC7), or use Vivado"
    place, frames, pack = (_find(name, cure) for name in _PROGRAMS)
    share = Path(place).resolve().parent.parent / "share" / "nextpnr"

    die = _die(board)
    names = (f"{die}{board.package}.bin", f"{die}.bin")
    chip = next((path for path in _chips(names, share) if path.is_file()), None)
    if chip is None:
        raise ToolMissing(
            f"nextpnr-xilinx has no chip database for {die}: set $CHIPDB to {names[0]} or to its "
            f"folder"
        )
    part = f"{die}{board.package}-{board.speed[:1]}"
    family = _DATABASES[board.device[:4]]
    roots = [Path(root) for root in [os.environ.get("PRJXRAY_DB_DIR")] if root]
    roots += [share / "prjxray-db", share / "external" / "prjxray-db"]
    database = next(
        (root / family for root in roots if (root / family / part / "part.yaml").is_file()), None
    )
    if database is None:
        raise ToolMissing(
            f"There is no prjxray database for {part}: set $PRJXRAY_DB_DIR to the folder that "
            f"contains {family}"
        )
    return Openxc7(place, frames, pack, chip, database, part)


def _find(name: str, cure: str) -> str:
    if path := shutil.which(name):
        return path
    raise ToolMissing(f"{name} was not found: {cure}")


def _chips(names: tuple[str, ...], share: Path) -> Iterator[Path]:
    if given := os.environ.get("CHIPDB"):
        if given.endswith(".bin"):
            yield Path(given)
        yield from (Path(given) / name for name in names)
    yield from (share / "xilinx-chipdb" / name for name in names)
    yield from (share / name for name in names)


def constraints_for_nextpnr(xdc: str) -> str:
    """Return those constraints of an XDC that nextpnr-xilinx reads: pins and their standards."""
    kept = re.findall(
        r'^\s*set_property (LOC|IOSTANDARD|SLEW|DRIVE|PULLTYPE) "?(\w+)"? '
        r'\[get_ports "?([^"\s]+?)"?\]\s*$',
        xdc, re.MULTILINE,
    )
    # Its reader takes neither quotes nor braces for granted.
    return "".join(f"set_property {key} {value} [get_ports {port}]\n"
                   for key, value, port in kept)


def run_openxc7(
    prepared: Prepared, board: Board, folder: Path, *, clock_hz: int, stages: Iterable[str] = ()
) -> tuple[Routed, Counts]:
    """Synthesise, place, route and pack a board; return what came of it, and its cells.

    The network must have been generated with split pairs: nextpnr-xilinx does not route every
    LUT6_2, but two plain tables.
    """
    tools = require_openxc7(board)
    name = prepared.name
    # A folder of its own: Vivado's project lies beside it and has other constraints.
    folder.mkdir(parents=True, exist_ok=True)
    made = synthesise_board(prepared.files, board.family, folder, top=name, options="-abc9")
    if pairs := made.counts.cells.get("LUT6_2", 0):
        raise ValueError(
            f"{pairs} LUT6_2 are left; generate the design with split pairs for openXC7"
        )
    source = prepared.files[f"{name}.xdc"]
    text = constraints_for_nextpnr(source if isinstance(source, str) else source.decode())
    write_file(folder / f"{name}.xdc", text)

    log, bitstream = folder / ROUTE_LOG, folder / f"{name}.bit"
    partial = folder / f"{name}.part"
    remove_files(bitstream, partial, folder / f"{name}.fasm", folder / f"{name}.frames")
    start_log(log)
    yaml = tools.database / tools.part / "part.yaml"
    steps = (
        [
            tools.place, "--chipdb", str(tools.chip.resolve()), "--xdc", f"{name}.xdc",
            "--json", f"{name}.json", "--fasm", f"{name}.fasm",
            "--freq", f"{clock_hz / 1e6:.6f}", "--seed", str(SEED), "--timing-allow-fail",
        ],
        [
            tools.frames, "--part", tools.part, "--db-root", str(tools.database.resolve()),
            f"{name}.fasm", f"{name}.frames",
        ],
        [
            tools.pack, "--part_file", str(yaml.resolve()), "--part_name", tools.part,
            "--frm_file", f"{name}.frames", "--output_file", partial.name,
        ],
    )
    outputs = (folder / f"{name}.fasm", folder / f"{name}.frames", partial)
    for command, output in zip(steps, outputs, strict=True):
        if run_tool(command, folder, log) or not output.is_file():
            raise ToolFailed(
                f"{Path(command[0]).name} failed for {board.name}: {reason_in_log(log)} "
                f"(its output is in {log})"
            )
    partial.replace(bitstream)
    fmax, names = _read_log(log.read_text(encoding="utf-8", errors="replace"))
    met = fmax is None or fmax * 1e6 >= clock_hz * (1 - 1e-9)
    used = {"LUT": (made.counts.luts, board.capacity.luts),
            "FF": (made.counts.flip_flops, board.capacity.flip_flops)}
    return (
        Routed(bitstream, fmax, met, stage_of_path(names, stages), log, used, "nextpnr-xilinx"),
        made.counts,
    )


def _read_log(text: str) -> tuple[float | None, list[str]]:
    """Return the slowest clock after routing, and the names along its slowest path."""
    clocks: dict[str, float] = {}
    for clock, mhz in re.findall(
        r"^Info: Max frequency for clock\s+'([^']*)': (\d+(?:\.\d+)?) MHz", text, re.MULTILINE
    ):
        # The estimate after placement comes first, what was routed last.
        clocks[clock] = float(mhz)
    if not clocks:
        return None, []
    slowest = min(clocks, key=lambda clock: clocks[clock])
    reports = re.split(r"^Info: Critical path report for ", text, flags=re.MULTILINE)[1:]
    names: list[str] = []
    for report in reports:
        if report.startswith(f"clock '{slowest}'"):
            names = re.findall(r"(?:Source|Sink|Net) (\S+)", report)
    return clocks[slowest], names
