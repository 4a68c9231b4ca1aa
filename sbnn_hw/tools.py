"""Find programs, and their versions: of Python packages by metadata, of others by asking them.

Some programs may be here twice: from the system, and from a Python package. The system's is taken
if it is recent enough, else the package's.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from sbnn_hw.errors import ToolMissing

__all__ = [
    "Chosen",
    "ask_version",
    "choose",
    "choose_named",
    "find_next_to",
    "find_program",
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


def find_program(name: str) -> str | None:
    """Return the absolute path of a program: on PATH, or next to this Python."""
    # Programs of this virtual environment are found even where it is not activated.
    found = shutil.which(name) or shutil.which(name, path=_here())
    return found and str(Path(found).absolute())


def _here() -> str:
    return str(Path(sys.executable).parent)


def choose(name: str, least: tuple[int, int], *, package: str, partner: str = "") -> Chosen:
    """Return the system's program if it is recent enough, or else the Python package's.

    The package's is called ``yowasp-`` and the name. A ``partner`` is another program that must
    come from the same place.
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
    return _packaged(Path(path)) or ask_version(path, patience, word)


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


def ask_version(path: str, seconds: float, word: str = "") -> str | None:
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
