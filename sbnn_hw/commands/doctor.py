"""``sbnn-hw doctor``: show which tools were found and how to get the others, and what is set."""

import argparse
import functools
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata

from sbnn_hw.boards.nextpnr import choose_nextpnr
from sbnn_hw.commands.common import add_json
from sbnn_hw.errors import ToolMissing
from sbnn_hw.families import fpga_families
from sbnn_hw.sim.verilator import choose_verilator
from sbnn_hw.tools import Chosen, ask_version, find_program
from sbnn_hw.yosys import choose_yosys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Look for every tool and say what was found; native programs are asked for their version."""
    findings, variables = look_around(), variables_set()
    if args.json:
        tools = [asdict(finding) for finding in findings]
        print(json.dumps({"tools": tools, "environment": variables}))
        return
    for finding in findings:
        mark = "ok " if finding.found else "–  "
        what = (finding.version or finding.path or "found") if finding.found else "missing"
        print(f"{mark} {finding.name:<15}  {what:<18}  {finding.purpose}")
        # Below: why this one of several, or how to get it.
        note = finding.note or (None if finding.found else finding.cure)
        if note is not None:
            print(f"{'':<21}{note}")
    for name, value in variables.items():
        print(f"set {name:<15}  {value:<18}  {VARIABLES[name]}")


@dataclass(frozen=True)
class Tool:
    """Something that a step needs: a Python package, or a program.

    ``choose`` returns the program that the step would run, or raises :class:`ToolMissing`.
    """

    name: str
    purpose: str
    cure: str
    package: str | None = None
    program: str | None = None
    choose: Callable[[], Chosen] | None = None
    #: Whether it tells its version in no time.
    quick: bool = True


@dataclass(frozen=True)
class Finding:
    """Whether a tool is here, and which; the note says why this one, or what is wrong."""

    name: str
    purpose: str
    cure: str
    found: bool
    version: str | None
    path: str | None
    note: str | None = None


_TRAIN = "pip install 'sbnn-hw[train]'"
_HOST = "pip install 'sbnn-hw[host]'"
_FLOW = "pip install 'sbnn-hw[flow]'"
_QONNX = "pip install 'sbnn-hw[qonnx]'"
_EXPLORE = "pip install 'sbnn-hw[explore]'"
_SIM = "pip install 'sbnn-hw[sim]'"

TOOLS = (
    Tool("numpy", "computes the integer network", "pip install numpy", package="numpy"),
    Tool("torch", "trains, and reads checkpoints", _TRAIN, package="torch"),
    Tool("scikit-learn", "contains the digits data set", _TRAIN, package="scikit-learn"),
    Tool("tqdm", "draws the progress bar", _TRAIN, package="tqdm"),
    Tool("matplotlib", "draws training logs and figures", _TRAIN, package="matplotlib"),
    Tool("torchrun", "trains in several processes", _TRAIN, package="torch", program="torchrun"),
    Tool("onnx", "reads and writes ONNX", _QONNX, package="onnx"),
    Tool("optuna", "searches for networks", _EXPLORE, package="optuna"),
    Tool("amaranth", "generates hardware", _FLOW, package="amaranth"),
    Tool("yosys", "writes Verilog, proves equivalence, counts LUTs", _FLOW, choose=choose_yosys),
    Tool("amaranth-boards", "knows the pins of boards", _FLOW, package="amaranth-boards"),
    *(
        Tool(
            family.router.program,
            f"makes {family.title} bitstreams",
            _FLOW,
            choose=functools.partial(choose_nextpnr, family),
        )
        for family in fpga_families()
        if family.router is not None
    ),
    Tool(
        "vivado",
        "makes 7-series bitstreams",
        "install it from AMD, or use openXC7",
        program="vivado",
    ),
    Tool(
        "nextpnr-xilinx",
        "makes 7-series bitstreams",
        "install openXC7, or use Vivado",
        program="nextpnr-xilinx",
        quick=False,
    ),
    Tool("verilator", "simulates", _SIM, choose=choose_verilator),
    Tool("cocotb", "runs the test suite of a design", _SIM, package="cocotb"),
    Tool(
        "openFPGALoader",
        "loads bitstreams onto boards",
        "apt install openfpgaloader",
        program="openFPGALoader",
    ),
    Tool("pyserial", "talks to a board", _HOST, package="pyserial"),
    Tool("pillow", "reads image files", _HOST, package="pillow"),
    Tool("make", "runs `make demo` and `make test`", "apt install make", program="make"),
    Tool("g++", "compiles simulations", "apt install g++", program="g++"),
)


#: The environment variables that change what happens here, and what each is for.
VARIABLES = {
    "SBNN_DATA": "the folder that holds the data sets",
    "SBNN_CACHE": "the folder for compiled simulations and for logs of tools that failed",
    "XDG_CACHE_HOME": "the folder of all caches; sbnn-hw uses its subfolder sbnn-hw",
    "YOSYS": "the Yosys to run",
    "VIVADO": "the Vivado to run",
    "CHIPDB": "the chip database of nextpnr-xilinx, or the folder that it is in",
    "PRJXRAY_DB_DIR": "the folder of prjxray's databases",
    "CXX": "the C++ compiler for simulations",
    "TMPDIR": "the folder for temporary files",
    "MAKEFLAGS": "options of make in the test suite of a design",
    "SUITE_CYCLES": "cycles that a test with stalls may take in the test suite of a design",
    "WAVES": "set it to 1 to record waveforms in the test suite of a design",
}


def variables_set() -> dict[str, str]:
    """Return those of the variables that are set, and their values."""
    return {name: value for name in VARIABLES if (value := os.environ.get(name))}


def look_around(tools: tuple[Tool, ...] = TOOLS) -> list[Finding]:
    """Look for every tool."""
    python = Finding(
        "python",
        "runs sbnn-hw",
        "install Python 3.11 or newer",
        True,
        platform.python_version(),
        None,
    )
    return [python, *(_find(tool) for tool in tools)]


def _find(tool: Tool) -> Finding:
    version = path = note = None
    if tool.choose is not None:
        try:
            chosen = tool.choose()
            version, path, note = chosen.version, chosen.path, chosen.note
        except ToolMissing as error:
            note = str(error)
        return Finding(tool.name, tool.purpose, tool.cure, path is not None, version, path, note)
    if tool.package is not None:
        try:
            version = metadata.version(tool.package)
        except metadata.PackageNotFoundError:
            version = None
    if tool.program is not None:
        path = find_program(tool.program)
        if path is not None and tool.package is None and tool.quick:
            version = ask_version(path, 5)
    found = path is not None if tool.program is not None else version is not None
    return Finding(tool.name, tool.purpose, tool.cure, found, version, path)
