"""Compare the tables that `sbnn-hw explore` goes by with Yosys, on networks of its space.

Picks networks by chance from the space, trains each for two epochs, estimates and synthesises it;
likewise residual networks from the space of those. Also estimates the shipped models that take
pixels one by one, whose counts docs/bench/bench.json has. The results go into
docs/bench/estimate.json, the tables into docs/explore.md. Takes some minutes.
"""

import argparse
import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

from pages import put, table

from sbnn_hw.errors import ModelRejected
from sbnn_hw.explore.space import SPACES, Choices, Range, Space, load_space, make_config
from sbnn_hw.models import open_network
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import tables_of
from sbnn_hw.train.explore import Runner, save_and_fold
from sbnn_hw.yosys import synthesise

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs/explore.md", ROOT / "docs/bench/estimate.json"

PARTS = ("random", "pixels", "residual")

#: Shipped models that take their pixels one by one.
PIXELS = ("mnist_pixel_2k", "mnist_pixel_2k_zero", "fashion_pixel_6k", "cifar10_pixel_20k")


def picker(rng: random.Random) -> Any:
    """Return what picks evenly, or evenly by ratios."""

    def pick(_: str, entry: Range | Choices) -> Any:
        if isinstance(entry, Choices):
            return rng.choice(entry.values)
        if entry.log:
            value = math.exp(rng.uniform(math.log(entry.low), math.log(entry.high)))
        else:
            value = rng.uniform(entry.low, entry.high)
        return round(value) if isinstance(entry.low, int) else value

    return pick


def count_random(
    data: str, root: Path | None, count: int, most: int, rng: random.Random, space: Space
) -> list[dict[str, Any]]:
    """Train networks of a space, and count the tables of each in three ways."""
    runner, rows = Runner(data, root), []
    # Small sets need small batches, or nothing is learned.
    small = Space({**space.entries, "batch": min(256, len(runner.images) // 40)})
    while len(rows) < count:
        try:
            config = make_config(small, picker(rng), data=data, epochs=2, threads=1)
            checkpoint, _ = runner.train(config, lambda _: None, lambda *_: None)
        except ModelRejected:
            continue
        with tempfile.TemporaryDirectory() as folder:
            network = save_and_fold(checkpoint, Path(folder) / "trial.pt")
        laid_out = tables_of(network)
        if laid_out > most:
            continue
        design = generate(network, Options(family="xc7"))
        rows.append(
            {
                **{"data": data, "model": config.model, "domain": config.domain},
                **{"method": config.method, "encoder": config.encoder},
                **({"stream_bits": config.stream_bits} if config.stream_bits else {}),
                "connections": network.connections,
                "luts": synthesise(design.verilog, "xc7").counts.luts,
                "laid_out": laid_out,
                "estimate": estimate(network, "xc7").luts,
            }
        )
        print(rows[-1], flush=True)
    return rows


def count_pixels() -> list[dict[str, Any]]:
    """Estimate the shipped models that take pixels one by one."""
    bench = json.loads((ROOT / "docs/bench/bench.json").read_text(encoding="utf-8"))
    counted = {entry["name"]: entry["numbers"]["luts"]["value"] for entry in bench["models"]}
    rows = []
    for name in PIXELS:
        network = open_network(ROOT / f"models/{name}.pt")
        rows.append(
            {
                "model": name,
                "network": network.digest,
                "luts": counted[name],
                "laid_out": tables_of(network),
            }
        )
        print(rows[-1], flush=True)
    return rows


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables in Markdown, by their marks on the page."""

    def errors(row: dict[str, Any], *kinds: str) -> list[str]:
        return [f"{row[kind] / row['luts'] - 1:+.1%}" for kind in kinds]

    numbers = ("connections", "luts", "laid_out", "estimate")

    def picked(rows: list[dict[str, Any]], *texts: str) -> list[tuple[str, ...]]:
        return [
            (
                *(str(row[key]) for key in texts),
                *(f"{row[key]:,}" for key in numbers),
                *errors(row, "laid_out", "estimate"),
            )
            for row in rows
        ]

    random_rows = picked(results["random"], "data", "model", "domain", "method", "encoder")
    pixel_rows = [
        (
            f"`{row['model']}`",
            *(f"{row[key]:,}" for key in ("luts", "laid_out")),
            *errors(row, "laid_out"),
        )
        for row in results["pixels"]
    ]
    worst = [
        max((row[kind] / row["luts"] - 1 for row in results["random"]), key=abs)
        for kind in ("laid_out", "estimate")
    ]
    head = (
        *("connections", "LUTs, by Yosys", "laid out", "`estimate.py`", "error, laid out"),
        "error, `estimate.py`",
    )
    return {
        "bench/estimate.py: random": table(
            ("data", "network", "domain", "method", "encoder", *head), random_rows
        )
        + (
            f"\nOver these {len(random_rows)} networks the largest error is {worst[0]:+.1%} for "
            f"the design as laid out,\nwhich the search uses, and {worst[1]:+.1%} for "
            f"`rtl_gen/estimate.py`.\n"
        ),
        "bench/estimate.py: pixels": table(
            ("model", "LUTs, by Yosys", "laid out", "error"),
            pixel_rows,
        ),
        "bench/estimate.py: residual": table(
            ("data", "network", "bits of streams", *head),
            picked(results["residual"], "data", "model", "stream_bits"),
        ),
    }


def main() -> None:
    """Compare; write the results, and the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--count", type=int, default=6, help="networks of each data set")
    parser.add_argument("--most", type=int, default=2500, help="LUTs above which none is taken")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="what is counted; the rest is kept"
    )
    args = parser.parse_args()

    def picked(space: Space, count: int, most: int) -> list[dict[str, Any]]:
        rng = random.Random(0)
        found = (count_random(d, args.data_root, count, most, rng, space) for d in args.data)
        return [row for rows in found for row in rows]

    counted = {
        "random": lambda: picked(load_space(), args.count, args.most),
        "pixels": count_pixels,
        # A third as many, as each takes longer, and larger ones, as few are small.
        "residual": lambda: picked(load_space(SPACES["residual"]), args.count // 3, 2 * args.most),
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    results |= {part: counted[part]() for part in args.parts}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put(PAGE, tables(results))


if __name__ == "__main__":
    main()
