"""Steps that leave files: done once, and again only if what they read has changed.

Each step notes, last of all, what it read and what it wrote, by digest. A step that was killed has
left no note, and a file that was changed by hand does not match its: both are done again.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_text
from sbnn_hw.flow.sources import file_of, sources_of

__all__ = ["NOTES", "Done", "Steps", "code_digest", "file_digest", "value_digest"]

#: The folder of the notes, below the build's.
NOTES = ".steps"


def value_digest(value: object) -> str:
    """Return the digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_digest(*names: str, alone: Sequence[str] = ()) -> str:
    """Return the digest of this project's own sources: what made a file, as much as what it read.

    Of the modules and packages that a step calls, all that they import counts too. Those in
    ``alone`` count without it: the step's own module, which serves other steps too.
    """
    files = {name: file_of(name) for name in alone} | sources_of(*names)
    return value_digest({name: file_digest(path) for name, path in files.items()})


@dataclass(frozen=True)
class Done:
    """A step that is done."""

    name: str
    digest: str  # Of all that it read.
    value: Any  # What it found out, in plain values.
    seconds: float  # How long it took when it was done.
    cached: bool  # Whether that was another time.
    file: str  # The file that it is there for.


class Steps:
    """Steps of one build, in one folder, which gets their files and notes.

    The files and folders in ``results`` hold good only as long as every step does: they are removed
    as soon as one is done again. ``progress`` takes the name of a step and what is to be said of
    it.
    """

    def __init__(
        self, folder: Path, progress: Callable[[str, str], None], results: Sequence[str] = ()
    ) -> None:
        self.folder, self._progress, self._results = folder, progress, results
        self.done: list[Done] = []

    def run(
        self, name: str, reads: Mapping[str, object], make: Callable[[], tuple[Any, Iterable[str]]]
    ) -> Any:
        """Do a step, unless it is done; return what it found out.

        ``reads`` is all that the result depends on, in plain values. ``make`` does the step. It
        returns plain values, and the names of the files that it wrote, the one that it is there for
        first.
        """
        digest = value_digest(reads)
        note = self.folder / NOTES / f"{name}.json"
        found = self._read(note, digest)
        if found is not None:
            seconds, value, files = found
            self._add(Done(name, digest, value, seconds, True, files[0]))
            return value
        # A note must not outlive what it tells of, nor results what they were made from.
        self.remove((f"{NOTES}/{name}.json", *self._results))
        started = time.perf_counter()
        value, names = make()
        seconds = time.perf_counter() - started
        files = list(names)
        content = {
            "reads": digest,
            "seconds": seconds,
            "value": value,
            "files": {file: file_digest(self.folder / file) for file in files},
        }
        text = json.dumps(content, indent=1) + "\n"
        write_text(note, text)
        # As it will be read the next time.
        value = json.loads(text)["value"]
        self._add(Done(name, digest, value, seconds, False, files[0]))
        return value

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, and folders, whose names end in a slash, as far as they are there."""
        for name in names:
            stale = self.folder / name
            try:
                if name.endswith("/") and stale.is_dir():
                    shutil.rmtree(stale)
                else:
                    stale.unlink(missing_ok=True)
            except OSError as error:
                raise OutputRefused(f"Cannot write {stale}: {error.strerror or error}") from None

    def last(self, name: str) -> Any:
        """Return what a step found out the last time, whatever it read; None if it left no note."""
        try:
            return json.loads((self.folder / NOTES / f"{name}.json").read_text("utf-8"))["value"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _add(self, done: Done) -> None:
        self.done.append(done)
        said = "up to date" if done.cached else f"{done.seconds:.1f} s"
        self._progress(done.name, f"{said:<12} {done.file}")

    def _read(self, note: Path, digest: str) -> tuple[float, Any, list[str]] | None:
        try:
            content = json.loads(note.read_text(encoding="utf-8"))
            if content["reads"] != digest:
                return None
            files = dict(content["files"])
            if any(file_digest(self.folder / name) != sum_ for name, sum_ in files.items()):
                return None
            return float(content["seconds"]), content["value"], list(files)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
