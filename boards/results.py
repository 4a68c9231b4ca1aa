"""What the steps of a board's flow hand to one another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_atomically

__all__ = ["Prepared", "Routed", "remove_files", "write_bytes"]


def remove_files(*paths: Path) -> None:
    """Remove what an earlier run left: nothing may be taken for a new result."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputRefused(f"Cannot write {path}: {error.strerror}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file in one step."""
    write_atomically(path, lambda file: file.write(data))


@dataclass(frozen=True)
class Prepared:
    """Everything that synthesis reads for a board, as files by name.

    Parameters
    ----------
    name : str
        The top module, and the stem of the files that are about it.
    files : mapping of str to str or bytes
        Plain names; no file lies in a folder below.
    """

    name: str
    files: Mapping[str, str | bytes]

    def write(self, folder: Path) -> None:
        """Write all files into a folder, each in one step; scripts can be run."""
        for name, content in self.files.items():
            path = folder / name
            write_bytes(path, content.encode() if isinstance(content, str) else content)
            if path.suffix == ".sh":
                mode = path.stat().st_mode
                # Whoever may read it may run it.
                path.chmod(mode | (mode & 0o444) >> 2)


@dataclass(frozen=True)
class Routed:
    """A design that has been placed and routed.

    Parameters
    ----------
    bitstream : Path, optional
        What the board is loaded with; none where only the timing was asked for.
    fmax_mhz : float, optional
        The fastest clock, by the tool's own analysis; none if no path lies between registers.
    met : bool
        Whether that is the clock that was asked for, or faster.
    worst : str
        The stage of the slowest path, or ``shell`` if it lies outside the network.
    log : Path
        What the tools said.
    utilisation : mapping
        For each resource how many are used, and of how many.
    tool : str
        Which tool it was, and its version where it tells.
    """

    bitstream: Path | None
    fmax_mhz: float | None
    met: bool
    worst: str
    log: Path
    utilisation: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tool: str = ""
