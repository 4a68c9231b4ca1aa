"""Count what engines of gap codes take, by Yosys.

Writes docs/bench/engines.json, which tests compare with today's costs. Takes half an hour.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sbnn_hw.families import find_fpga_family, fpga_families
from sbnn_hw.files import write_text
from sbnn_hw.models import open_network
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.yosys import synthesise

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/bench/engines.json"

#: Models that every family is measured with, and one that is large.
MODELS, LARGE = ("mnist_sfc_98", "digits", "letter_3k"), "mnist_16k_zero"
LANES = (1, 2, 4, 8, 16)


def measure(model: str, family: str, lanes: int) -> dict[str, Any]:
    """Return what an engine takes by Yosys, and how long an image takes."""
    network = open_network(ROOT / f"models/{model}.pt")
    options = Options(family=family, form="gaps", lanes=lanes)
    made = generate(network, options)
    found = synthesise(made.verilog, family).counts
    return {
        "model": model, "family": family, "lanes": lanes,
        "interval": made.design.interval, "latency": made.design.latency,
        "tables": found.luts, "registers": found.flip_flops,
        "blocks": find_fpga_family(family).memory.count(found.cells),
    }  # fmt: skip


def wanted() -> Iterator[tuple[str, str, int]]:
    """Yield what is measured: model, family and lanes."""
    yield LARGE, "xc7", 4
    for model, lanes, family in itertools.product(MODELS, LANES, fpga_families()):
        yield model, family.name, lanes


def main() -> None:
    """Measure what is not there yet, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="measure all of it")
    parser.add_argument("--lanes", type=int, nargs="*", default=LANES, help="only these lanes")
    arguments = parser.parse_args()
    rows = []
    if RESULTS.exists() and not arguments.again:
        rows = json.loads(RESULTS.read_text("utf-8"))
    known = {(row["model"], row["family"], row["lanes"]) for row in rows}
    for model, family, lanes in wanted():
        if (model, family, lanes) in known or lanes not in arguments.lanes:
            continue
        rows.append(measure(model, family, lanes))
        print(json.dumps(rows[-1]), flush=True)
        rows.sort(key=lambda row: (row["family"], row["model"], row["lanes"]))
        write_text(RESULTS, "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
