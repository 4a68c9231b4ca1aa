"""Run on a copy of the sources: which steps of a build would be done again if a file changed?

Prints, by file, the steps whose digest is not that of the notes in the build's folder. Then changes
the last file for good, and really builds.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import sbnn_hw
from sbnn_hw.boards.table import find_board
from sbnn_hw.flow import Plan, build
from sbnn_hw.flow.steps import NOTES, Steps, value_digest

SOURCES = Path(sbnn_hw.__file__).parent


def again(plan):
    """Return the steps that a build would do again, without doing them."""
    found, run = [], Steps.run

    def compare(self, name, reads, make):
        note = json.loads((self.folder / NOTES / f"{name}.json").read_text())
        if note["reads"] != value_digest(reads):
            found.append(name)
        return note["value"]

    Steps.run = compare
    try:
        build(plan)
    finally:
        Steps.run = run
    return found


def main(model, board, out, *names):
    plan = Plan(model=Path(model), target=find_board(board), out=Path(out))
    found = {"": again(plan)}
    for name in names:
        path = SOURCES / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        found[name] = again(plan)
        path.write_bytes(before)
    path.write_bytes(before + b"changed\n")
    report = build(replace(plan, until="rtl"))
    really = [step.name for step in report.steps if not step.cached]
    print(json.dumps({"sources": str(SOURCES), "again": found, "really": really}))


if __name__ == "__main__":
    main(*sys.argv[1:])
