"""Which files of the project run in each step of a build, and which its digest counts."""

import contextlib
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT

from sbnn_hw.flow import steps
from sbnn_hw.flow.steps import Steps

FOLDERS = ("sbnn_hw", "train", "rtl_gen", "sim", "boards")
#: What drives the steps and says how far they are.
DRIVERS = ("sbnn_hw/flow/", "sbnn_hw/commands/", "sbnn_hw/cli.py")


def ours(path):
    """Return a file's place below the root; nothing if it is another's, or drives the steps."""
    path = Path(path)
    if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
        return None
    name = path.relative_to(ROOT).as_posix()
    return None if name.startswith(DRIVERS) else name


@contextlib.contextmanager
def watched():
    """Yield a dictionary that fills: by step, the files that ran and the files that count."""
    found, counted = {}, set()
    original, run = steps.sources_of, Steps.run

    def sources_of(*names):
        files = original(*names)
        counted.update(map(ours, files.values()))
        return files

    def file_of(name):
        file = original(name)[name]
        counted.add(ours(file))
        return file

    def watch(self, name, reads, make):
        files, known = set(), set(counted)
        counted.clear()

        def note(frame, event, argument):
            files.add(frame.f_code.co_filename)

        def watched_make():
            sys.setprofile(note)
            threading.setprofile(note)
            try:
                return make()
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

        value = run(self, name, reads, watched_make)
        found[name] = ({ours(file) for file in files} - {None}, known)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "sources_of", sources_of)
        patch.setattr(steps, "file_of", file_of)
        patch.setattr(Steps, "run", watch)
        yield found
