"""Compare the tables that `sbnn-hw explore` goes by with Yosys, on networks of its space.

Picks networks by chance from the space, trains each for two epochs, estimates and synthesises it,
and writes the table into docs/explore.md. Takes some minutes.
"""

import argparse
import math
import random
import tempfile
from pathlib import Path
from typing import Any

from sbnn_hw.errors import ModelRejected
from sbnn_hw.explore.cost import tables_of
from sbnn_hw.explore.space import Choices, Range, load_space, make_config
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.train.explore import Runner, save_and_fold
from sbnn_hw.yosys import synthesise

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- bench/estimate.py -->\n", "<!-- end of bench/estimate.py -->"


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


def main() -> None:
    """Compare, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--count", type=int, default=6, help="networks of each data set")
    parser.add_argument("--most", type=int, default=2500, help="LUTs above which none is taken")
    args = parser.parse_args()
    rng, space = random.Random(0), load_space()
    rows, errors = [], []
    for data in args.data:
        runner, taken = Runner(data, args.data_root), 0
        # Small sets need small batches, or nothing is learned.
        batch = min(256, len(runner.images) // 40)
        while taken < args.count:
            try:
                config = make_config(
                    space, picker(rng), data=data, epochs=2, batch=batch, threads=1
                )
                checkpoint, _ = runner.train(config, lambda _: None, lambda *_: None)
            except ModelRejected:
                continue
            with tempfile.TemporaryDirectory() as folder:
                network = save_and_fold(checkpoint, Path(folder) / "trial.pt")
            laid_out, quick = tables_of(network), estimate(network, "xc7").luts
            if laid_out > args.most:
                continue
            design = generate(network, Options(family="xc7"))
            counted = synthesise(design.verilog, "xc7").counts.luts
            errors.append((laid_out / counted - 1, quick / counted - 1))
            taken += 1
            cells = (data, config.model, config.domain, config.method, config.encoder)
            numbers = (network.connections, counted, laid_out, quick)
            shown = [*(f"{n:,}" for n in numbers), *(f"{error:+.1%}" for error in errors[-1])]
            rows.append(f"| {' | '.join([*cells, *shown])} |")
            print(rows[-1], flush=True)
    columns = (
        *("data", "network", "domain", "method", "encoder", "connections", "LUTs, by Yosys"),
        *("laid out", "`estimate.py`", "error, laid out", "error, `estimate.py`"),
    )
    own, other = (max(kind, key=abs) for kind in zip(*errors, strict=True))
    text = "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows])
    text += (
        f"\n\nOver these {len(errors)} networks the largest error is {own:+.1%} for the design as "
        f"laid out,\nwhich the search uses, and {other:+.1%} for `rtl_gen/estimate.py`.\n"
    )
    page = ROOT / "docs" / "explore.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
