"""What the steps of a board's flow hand to one another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_atomically

__all__ = ["Prepared", "Routed", "remove_files", "write_file"]


def remove_files(*paths: Path) -> None:
    """Remove what an earlier run left: nothing may be taken for a new result."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputRefused(f"Cannot write {path}: {error.strerror}") from None


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file in one step."""
    data = content.encode() if isinstance(content, str) else content
    write_atomically(path, lambda file: file.write(data))


@dataclass(frozen=True)
class Prepared:
    """Everything that synthesis reads for a board, as files by name."""

    #: The top module, and the stem of the files that are about it.
    name: str
    #: Plain names; no file lies in a folder below.
    files: Mapping[str, str | bytes]

    def write(self, folder: Path) -> None:
        """Write all files into a folder, each in one step; scripts can be run."""
        for name, content in self.files.items():
            path = folder / name
            write_file(path, content)
            if path.suffix == ".sh":
                mode = path.stat().st_mode
                # Whoever may read it may run it.
                path.chmod(mode | (mode & 0o444) >> 2)


@dataclass(frozen=True)
class Routed:
    """A design that has been placed and routed."""

    #: What the board is loaded with; none where only the timing was asked for.
    bitstream: Path | None
    #: The fastest clock, by the tool's own analysis; none if no path lies between registers.
    fmax_mhz: float | None
    #: Whether it is at least the clock that was asked for.
    met: bool
    #: The stage of the slowest path, or ``shell`` if it lies outside the network.
    worst: str
    log: Path
    #: For each resource how many are used, and of how many.
    utilisation: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: Which tool it was, and its version where it tells.
    tool: str = ""
