"""Build shipped models for boards and write what came of it.

The results go into docs/bench/boards.json, the tables into docs/boards.md. Builds are kept in
build/ and are not repeated while they are up to date. From nothing this takes half an hour on two
cores, most of it nextpnr for the large ECP5.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages import put, table

from sbnn_hw.report import Report
from sbnn_hw.report.form import plain

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs/boards.md", ROOT / "docs/bench/boards.json"

Row = dict[str, Any]


@dataclass(frozen=True)
class Build:
    """A model for a board, by default with as many tables between registers as the clock allows."""

    model: str
    board: str
    levels: int | None = None

    @property
    def folder(self) -> str:
        """Where the build goes."""
        return f"build/{self.model}-{self.board}{'' if self.levels is None else f'-{self.levels}'}"


#: What stands in the first table: models on boards, as `build` makes them.
MODELS = (
    Build("digits", "icebreaker"),
    Build("digits", "arty_a7"),
    Build("mnist_sfc_98", "arty_a7"),
    Build("mnist_sfc_98", "ulx3s_85f"),
    Build("mnist_sfc_95", "arty_a7"),
    Build("tfc_brevitas", "arty_a7"),
)

#: More of the second table, which shows how the clock depends on the tables between registers.
LEVELS = (
    Build("digits", "ulx3s_85f", 1),
    Build("digits", "ulx3s_85f", 3),
    Build("digits", "ice40_hx8k", 3),
)


def build(what: Build, keep: bool) -> Row:
    """Build, or take what is up to date, and return what the tables show.

    Whether a kept build is still right is for the tests to say: they generate its texts again.
    """
    if not (keep and (ROOT / what.folder / "report.json").exists()):
        run(what)
    text = (ROOT / what.folder / "report.json").read_text(encoding="utf-8")
    report = Report.read(json.loads(text))
    if report.accuracy is None or report.agreement is None:
        raise SystemExit(f"the data of {what.model} are not here (set SBNN_DATA)")
    keys = (
        *("network", "part", "accuracy", "luts", "ffs", "design", "capacity", "clock_mhz"),
        *("fmax_mhz", "levels_per_stage", "images_per_second", "bitstream", "tools"),
    )
    agreement = report.agreement
    return {
        "model": what.model,
        "board": what.board,
        "levels": what.levels,
        **{key: plain(getattr(report, key)) for key in keys},
        "agreement": {"vectors": agreement.vectors, "mismatches": agreement.mismatches},
        # What was counted: a test generates these texts again and compares.
        "texts": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (ROOT / what.folder / "top.v", *_shell(ROOT / what.folder / "board"))
        },
    }


def run(what: Build) -> None:
    """Call `sbnn-hw build`."""
    command = [sys.executable, "-m", "sbnn_hw", "build", "--json", "--out", what.folder]
    # The tables are about networks as wires; docs/plans.md is about engines.
    command += ["--form", "unrolled", "--fill", "100"]
    if what.levels is not None:
        command += ["--levels", str(what.levels)]
    if (ROOT / f"models/{what.model}.onnx").exists():
        # A file from elsewhere does not say what it was trained on.
        command += ["--model", f"models/{what.model}.onnx", "--data", "mnist"]
    else:
        command += ["--model", f"models/{what.model}.pt"]
    command += ["--board", what.board]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    # Where the clock is not met there is still a report.
    if done.returncode not in (0, 9):
        raise SystemExit(f"{what.model} for {what.board} failed")


def _shell(folder: Path) -> list[Path]:
    """Return the text of the whole design: Verilog for Vivado, else Yosys's own form."""
    return [path for path in (folder / "shell.v", folder / "shell.il") if path.exists()]


def _models(row: Row) -> list[str]:
    whole, agreement, fmax = row["design"]["luts"], row["agreement"], row["fmax_mhz"]
    return [
        f"`{row['model']}`",
        f"`{row['board']}`",
        f"{row['accuracy']:.2%}",
        f"{agreement['vectors'] - agreement['mismatches']:,} of {agreement['vectors']:,}",
        f"{row['luts']:,}",
        f"{whole:,}",
        f"{whole / row['capacity']['luts']:.0%}",
        f"{row['images_per_second']:,.0f} at {row['clock_mhz']:g} MHz",
        "not measured" if fmax is None else f"{fmax:.1f} MHz",
        f"`{row['bitstream']}`" if row["bitstream"] else "Vivado project",
    ]


def _levels(row: Row) -> list[str]:
    from sbnn_hw.boards.clocks import path_ns
    from sbnn_hw.boards.table import BOARDS

    speed = BOARDS[row["board"]].speed_class
    return [
        row["model"],
        f"`{row['board']}`",
        str(row["levels_per_stage"]),
        f"{row['design']['luts']:,}",
        f"{row['design']['ffs']:,}",
        f"{row['fmax_mhz']:.1f}",
        f"{1000 / row['fmax_mhz']:.1f}",
        f"{path_ns(speed, row['levels_per_stage']):.1f}",
    ]


HEADS: dict[str, tuple[tuple[str, ...], Callable[[Row], list[str]]]] = {
    "models": (
        (
            *("model", "board", "accuracy", "bit-exact", "LUTs, network", "with shell"),
            *("of the board", "images/s", "Fmax", "result"),
        ),
        _models,
    ),
    "levels": (
        (
            *("network", "board", "tables between registers", "LUTs", "flip-flops", "Fmax, MHz"),
            *("longest path, ns", "allowed for, ns"),
        ),
        _levels,
    ),
}


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the two tables in Markdown, by their marks on the page."""
    routed = [row for row in (*results["models"], *results["levels"]) if row["fmax_mhz"]]
    rows = {"models": results["models"], "levels": routed}
    return {
        f"bench/boards.py: {name}": table(head, map(cells, rows[name]))
        for name, (head, cells) in HEADS.items()
    }


def main() -> None:
    """Build all; write the results, and the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="build only what has no report yet")
    keep = parser.parse_args().keep
    results = {
        "models": [build(what, keep) for what in MODELS],
        "levels": [build(what, keep) for what in LEVELS],
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put(PAGE, tables(results))
    print(*tables(results).values(), sep="\n")


if __name__ == "__main__":
    main()
