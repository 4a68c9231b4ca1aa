"""Train many networks, each in a process of its own: what the ablations share."""

import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["train_all"]


def train_all(
    script: str, names: Iterable[str], folder: Path, root: Path | None, workers: int
) -> None:
    """Call a script with ``--only NAME`` for each name, some at a time.

    Two processes with one thread each do more than one with two.
    """

    def start(name: str) -> None:
        started = time.monotonic()
        command = [sys.executable, script, "--only", name, "--runs", str(folder)]
        if root:
            command += ["--data-root", str(root)]
        with (folder / f"{name}.txt").open("w") as log:
            subprocess.run(command, check=True, stderr=log)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(start, names))
