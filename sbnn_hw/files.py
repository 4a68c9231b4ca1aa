"""Read files, and write them so that a reader sees the whole old one or the whole new one."""

import contextlib
import errno
import fcntl
import glob
import os
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from sbnn_hw.errors import ModelRejected, OutputRefused, UsageError

__all__ = [
    "check_writable",
    "exclusive",
    "in_turn",
    "open_file",
    "opened_model",
    "read_toml",
    "remove_partials",
    "short",
    "write_atomically",
    "write_text",
]


def short(path: str | Path) -> str:
    """Return a path for a message, without the middle of one that fills a page."""
    text = str(path)
    return text if len(text) <= 255 else f"{text[:60]}…{text[-20:]}"


# Reading


def _at_once(name: str, flags: int) -> int:
    # A pipe would else be opened once somebody writes into it, which may be never.
    return os.open(name, flags | os.O_NONBLOCK)


def open_file(path: str | Path) -> BinaryIO:
    """Open a file to read it; a folder, a pipe or a device is an `OSError`, never waited for."""
    try:
        file = open(path, "rb", opener=_at_once)  # noqa: SIM115
    except ValueError:
        raise OSError(errno.EINVAL, "Not a valid file name") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "It is a pipe or a device, not a file")
    return file


@contextlib.contextmanager
def opened_model(path: str | Path, kind: str, absent: str = "") -> Iterator[BinaryIO]:
    """Open the file of a model of some ``kind``; ``absent`` is the cure if there is none."""
    try:
        with open_file(path) as file:
            yield file
    except FileNotFoundError:
        cure = f" ({absent})" if absent else ""
        raise ModelRejected(f"No {kind} at {path}{cure}") from None
    except IsADirectoryError:
        article = "an" if kind[0] in "AEIOUaeiou" else "a"
        raise ModelRejected(f"{path} is a folder; name {article} {kind} in it") from None
    except OSError as error:
        raise ModelRejected(f"Cannot read {short(path)}: {error.strerror or error}") from None


def read_toml(path: Path, what: str, **options: Any) -> dict[str, Any]:
    """Read a file that a user may name, and say what is wrong with it; ``what`` should be in it.

    The options are those of `tomllib.loads`.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), **options)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"Cannot read {what} from {path}: {reason}") from None


# Writing


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say in a sentence why a file could not be written."""
    try:
        with contextlib.suppress(OSError):
            os.lstat(path)
    except ValueError:
        raise OutputRefused(f"Cannot write {short(path)!r}: Not a valid file name") from None
    try:
        yield
    except OSError as error:
        raise OutputRefused(f"Cannot write {short(path)}: {error.strerror or error}") from None


def check_writable(path: str | Path) -> None:
    """Make sure, before long work starts, that a file can be written at ``path``."""
    path = Path(path)
    with _writing(path):
        if path.is_dir():
            raise OutputRefused(f"Output {path} is a folder; name a file in it")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _partial(path):
            pass


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep other processes from writing ``path`` as long as this one does."""
    check_writable(path)
    lock = path.with_name(f".{path.name}.lock")
    with _writing(path):
        file = lock.open("w")
    with file:
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
    with _writing(path):
        file = path.with_name(f".{path.name}.turn").open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_partials(path: Path) -> None:
    """Remove what a process that was killed while it wrote ``path`` left beside it."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[IO[bytes]]:
    """Make a file beside ``path``, which is removed unless it is renamed."""
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
    ) as file:
        try:
            yield file
        finally:
            with contextlib.suppress(OSError):
                Path(file.name).unlink()


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in place in one step."""
    path = Path(path)
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _partial(path) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            Path(file.name).chmod(0o666 & ~umask)
            Path(file.name).replace(path)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))
