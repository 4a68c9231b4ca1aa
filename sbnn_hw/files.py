"""Write files so that a reader sees the whole new one or the whole old one, never a half."""

import contextlib
import fcntl
import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from sbnn_hw.errors import OutputRefused

__all__ = ["check_writable", "exclusive", "in_turn", "remove_partials", "write_atomically"]


def check_writable(path: Path) -> None:
    """Make sure, before long work starts, that a file can be written at ``path``."""
    if path.is_dir():
        raise OutputRefused(f"Output {path} is a folder; name a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part"):
            pass
    except OSError as error:
        raise OutputRefused(f"Cannot write {path}: {error.strerror or error}") from None


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep other processes from writing ``path`` as long as this one does."""
    check_writable(path)
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("w") as file:
        try:
            # The system lets go of it even if this process is killed.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputRefused(
                f"Another process is writing {path}; wait for it, or choose another name"
            ) from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Let processes that write ``path`` and what belongs to it do so one after another."""
    check_writable(path)
    # It stays: whoever waits for it holds this very file.
    with path.with_name(f".{path.name}.turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_partials(path: Path) -> None:
    """Remove what a process that was killed while it wrote ``path`` left beside it."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):
            partial.unlink()


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in place in one step."""
    partial = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
        ) as file:
            partial = Path(file.name)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        partial.replace(path)
        partial = None
    except OSError as error:
        raise OutputRefused(f"Cannot write {path}: {error.strerror or error}") from None
    finally:
        if partial is not None:
            with contextlib.suppress(OSError):
                partial.unlink()
