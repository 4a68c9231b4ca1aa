"""Build shipped models for boards, and write what came of it into the README.

Builds lie in ``build/`` and are not repeated while they are up to date. From nothing it takes a
quarter of an hour on two cores, most of it nextpnr for the large ECP5.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

BUILDS = (
    ("digits", "icebreaker"),
    ("digits", "arty_a7"),
    ("mnist_sfc_98", "arty_a7"),
    ("mnist_sfc_98", "ulx3s_85f"),
    ("mnist_sfc_95", "arty_a7"),
    ("tfc_brevitas", "arty_a7"),
)

COLUMNS = (
    *("model", "board", "accuracy", "bit-exact", "LUTs, network", "with shell"),
    *("of the board", "images/s", "Fmax", "result"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


def build(model: str, board: str) -> dict[str, Any]:
    """Build, or take what is up to date, and return the report."""
    command = [sys.executable, "-m", "sbnn_hw", "build", "--json"]
    if (ROOT / f"models/{model}.onnx").exists():
        # A file from elsewhere does not say what it was trained on.
        command += ["--model", f"models/{model}.onnx", "--data", "mnist", "--board", board]
    else:
        command += ["--model", f"models/{model}.pt", "--board", board]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{model} for {board} failed")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def row(model: str, report: dict[str, Any]) -> str:
    """Return a row of the table."""
    agreement, whole, room = report["agreement"], report["design"], report["capacity"]
    if report["accuracy"] is None:
        raise SystemExit(f"the data of {model} are not here (set SBNN_DATA)")
    equal = agreement["vectors"] - agreement["mismatches"]
    fmax = report["fmax_mhz"]
    result = f"`{report['bitstream']}`" if report["bitstream"] else "Vivado project"
    return (
        f"| `{model}` | `{report['board']}` | {report['accuracy']:.2%} "
        f"| {equal:,} of {agreement['vectors']:,} | {report['luts']:,} | {whole['luts']:,} "
        f"| {whole['luts'] / room['luts']:.0%} "
        f"| {report['images_per_second']:,.0f} at {report['clock_mhz']:g} MHz "
        f"| {'not measured' if fmax is None else f'{fmax:.1f} MHz'} | {result} |\n"
    )


def main() -> None:
    """Build all, and put the table between its marks in the README."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = HEAD + "".join(row(model, build(model, board)) for model, board in BUILDS)
    text = README.read_text(encoding="utf-8")
    new, found = re.subn(
        r"(<!-- bench/boards\.py -->\n).*?(<!-- end -->)",
        lambda marks: marks[1] + table + marks[2],
        text,
        flags=re.DOTALL,
    )
    if not found:
        raise SystemExit("README.md has no marks for the table")
    README.write_text(new, encoding="utf-8")
    print(table, end="")


if __name__ == "__main__":
    main()
