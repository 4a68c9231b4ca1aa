"""Keep what is expensive to make: each thing in its own folder, whole or not at all."""

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sbnn_hw.errors import OutputRefused

__all__ = ["cache_folder", "make_once"]

# Written last, inside the folder: a folder without it was copied or emptied by something else.
_COMPLETE = ".complete"


def cache_folder() -> Path:
    """Return where compiled things are kept: ``$SBNN_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("SBNN_CACHE"):
        return Path(chosen).absolute()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "sbnn-hw"
    return Path.home() / ".cache" / "sbnn-hw"


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Let ``make`` fill an empty folder, which then appears at ``path``; do nothing if it is there.

    Of several processes that want the same folder, one makes it and the others wait for it.
    """
    if (path / _COMPLETE).is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.parent.joinpath(f".{path.name}.lock").open("w")
    except OSError as error:
        raise OutputRefused(
            f"Cannot write {path}: {error.strerror or error}; point $SBNN_CACHE at another folder"
        ) from None
    with lock:
        # The system lets go of it even if this process is killed. The file stays: were it
        # removed, a third process could lock a new one while the second still waits for the old.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _COMPLETE).is_file():
            return path
        # Whoever made these held the lock, and was killed.
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            shutil.rmtree(left, ignore_errors=True)
        if path.exists():
            shutil.rmtree(path)
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            make(aside)
            (aside / _COMPLETE).touch()
            aside.rename(path)
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(aside)
    return path
