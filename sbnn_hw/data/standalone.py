"""Turn raw values into the integers that a network takes, as input_format.json says.

`sbnn-hw` writes this file next to a design. It needs Python 3.9 or later and nothing else.

    form = load("input_format.json")
    values = integers([5.1, "red", None], form)   # one cell for each column, in the file's order
    print(form["classes"][answer])

A cell is a number, or a text as it stands in a table. What is missing is None, NaN or one of the
texts that the file lists. Signals and pictures are given flat: position by position, and of each
the channels.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def load(path: "str | Path" = "input_format.json") -> dict[str, Any]:
    """Read what describes a network's input."""
    form: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return form


def integers(row: Sequence[Any], form: dict[str, Any]) -> list[int]:
    """Return the integers that the network takes for a row of raw values."""
    columns, most = form["columns"], (1 << form["bits"]) - 1
    cells = len(columns) * form["positions"]
    if len(row) != cells:
        raise ValueError(f"a row must have {cells} cells, not {len(row)}")
    made: list[int] = []
    for place, cell in enumerate(row):
        column = columns[place % len(columns)]
        if isinstance(cell, str):
            cell = cell.strip()
            cell = None if cell.lower() in form["missing"] else cell
        if column["rule"] == "names":
            made += [most if cell == name else 0 for name in column["names"]]
            continue
        number = float("nan") if cell is None else float(cell)
        if number != number:
            made.append(column["missing"])
        elif column["rule"] == "steps":
            made.append(min(bisect_right(column["bounds"], number), most))
        else:
            # Cut off before it is made whole, so that an infinity is taken too.
            scaled = (number - column["offset"]) * column["scale"] + 0.5
            made.append(0 if scaled < 1 else most if scaled >= most else int(scaled))
    return made
