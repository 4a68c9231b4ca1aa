"""Keep what is expensive to make: each thing in its own folder, whole or not at all.

What is kept here is run. So nobody else may be able to write it, and it must be what it was when it
was made: a record of every file's digest lies next to the files.
"""

import contextlib
import errno
import fcntl
import functools
import glob
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_text

__all__ = ["cache_folder", "keep_log", "make_once", "no_space"]

logger = logging.getLogger("sbnn_hw")

# Written last, inside the folder: a folder without it was copied or emptied by something else.
_COMPLETE = ".complete"


def cache_folder() -> Path:
    """Return where compiled things are kept: ``$SBNN_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("SBNN_CACHE"):
        return Path(chosen).absolute()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "sbnn-hw"
    return Path.home() / ".cache" / "sbnn-hw"


def make_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which ``make`` fills unless it is there and undamaged.

    Of several processes that want the same folder, one makes it and the others wait for it.
    ``make`` is called with an empty folder that later appears under the name.
    """
    path = cache_folder() / name
    try:
        _check_ours(path)
        if _is_whole(path):
            return path
        _make_folders(path.parent)
        # The system lets go of it even if this process is killed. The file stays: were it
        # removed, a third process could lock a new one while the second still waits for the old.
        with path.parent.joinpath(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(path, say=True):
                _make(path, make)
    except OSError as error:
        raise _refused(error) from None
    return path


def keep_log(name: str, text: str) -> Path | None:
    """Keep what a tool said; return the file, or nothing if it cannot be written."""
    path = cache_folder() / "logs" / name
    try:
        _check_ours(path.parent)
        _make_folders(path.parent)
        write_text(path, text)
    except (OSError, OutputRefused):
        return None
    return path


def _make(path: Path, make: Callable[[Path], None]) -> None:
    # Whoever made these held the lock, and was killed.
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        shutil.rmtree(left, ignore_errors=True)
    if path.exists():
        shutil.rmtree(path)
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        make(aside)
        (aside / _COMPLETE).write_text(json.dumps(_contents(aside)))
        aside.rename(path)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(aside)


# Whether it is what was made


def _is_whole(path: Path, *, say: bool = False) -> bool:
    """Whether a folder has exactly the files that it was made with."""
    try:
        recorded = (path / _COMPLETE).read_text()
    except (OSError, UnicodeDecodeError):
        return False
    if not recorded:
        # Made by a release that kept no record.
        return False
    if json.dumps(_contents(path)) == recorded:
        return True
    if say:
        logger.warning("%s in the cache was damaged and is made again", path)
    return False


def _contents(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by its name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        known = path.lstat()
        if stat.S_ISDIR(known.st_mode) or path == folder / _COMPLETE:
            continue
        ours = stat.S_ISREG(known.st_mode) and known.st_uid == os.geteuid()
        found[str(path.relative_to(folder))] = (
            # A change that leaves size and time of the content alone changes the last one.
            _digest(path, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
            if ours
            else "not a file of ours"
        )
    return found


@functools.lru_cache(maxsize=4096)
def _digest(path: Path, *_known: int) -> str:
    """Return the digest of a file; read once in a process as long as nobody touches it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Whether it is ours


def _folders(path: Path) -> Iterator[Path]:
    """Yield the cache and the folders below it, down to one of them."""
    folder = cache_folder()
    yield folder
    for part in path.relative_to(folder).parts:
        folder /= part
        yield folder


def _make_folders(path: Path) -> None:
    """Make what is missing of a folder in the cache, for this user alone."""
    cache_folder().parent.mkdir(parents=True, exist_ok=True)
    for folder in _folders(path):
        folder.mkdir(mode=0o700, exist_ok=True)


def _check_ours(path: Path) -> None:
    """Refuse a folder in the cache where someone else can put a program that we would run."""
    for folder in _folders(path):
        try:
            found = folder.stat()
        except FileNotFoundError:
            return
        if found.st_uid != os.geteuid():
            raise OutputRefused(
                f"{folder} belongs to another user, and programs in it would be run: point "
                f"$SBNN_CACHE at your own folder"
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OutputRefused(
                f"Other users can write to {folder}, and programs in it would be run: use `chmod "
                f"-R go-w {cache_folder()}`, or point $SBNN_CACHE at your own folder"
            )


# Whether there is room


def no_space(said: str) -> OutputRefused | None:
    """Return an error if a tool that failed says that a disk is full; it names the disk."""
    if not _says_full(said):
        return None
    # Compilers put what they hand to each other into the folder for temporary files.
    temporary = Path(tempfile.gettempdir())
    if shutil.disk_usage(temporary).free < shutil.disk_usage(cache_folder()).free:
        return OutputRefused(
            f"There is no space left for temporary files in {temporary}: make room, or point "
            "$TMPDIR at a folder on another disk"
        )
    return _full()


def _says_full(text: str) -> bool:
    return any(os.strerror(number) in text for number in (errno.ENOSPC, errno.EDQUOT))


def _full() -> OutputRefused:
    return OutputRefused(
        f"There is no space left for the cache {cache_folder()}: make room, or point $SBNN_CACHE "
        "at a folder on another disk"
    )


def _refused(error: OSError) -> OutputRefused:
    reason = error.strerror or str(error)
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        # A folder that was copied: a list of its files, each with a reason.
        reason = str(error.args[0][0][-1])
    if _says_full(reason):
        return _full()
    return OutputRefused(
        f"Cannot write the cache {cache_folder()} ({reason}): point $SBNN_CACHE at another folder"
    )
