"""Measure what integer streams cost in accuracy: a narrow ResNet-18 on CIFAR-10, one row a choice.

    python bench/stream_ablation.py --data-root DIR --workers 2

Every run has the same budget and sparsity; only streams, shortcuts, weights, the first convolution
and the seed differ. Runs that are done, or published, are not trained again, and runs that were
stopped continue. The order is such that a stop leaves a result.
"""

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pages import put, table
from training_runs import train_all

from sbnn_hw.files import write_text

MARK = "bench/stream_ablation.py"
QUANTISED = "bench/stream_ablation.py, quantised"
WIDTH, EPOCHS, EC = 0.25, 20, 0.05


@dataclass(frozen=True)
class Run:
    """One training run: what its streams, shortcuts and real layers are, and its seed."""

    stream_bits: int
    shortcut: str
    weight_bits: int = 0
    first: str = "real"
    seed: int = 0

    @property
    def name(self) -> str:
        """A name for its files."""
        streams = f"{self.stream_bits}bit" if self.stream_bits else "float"
        weights = f"-w{self.weight_bits}" if self.weight_bits else ""
        first = "-first" if self.first == "binary" else ""
        return f"{streams}-{self.shortcut}{weights}{first}-{self.seed}"


RUNS = (
    Run(0, "real"),
    Run(0, "duplicate"),
    Run(8, "duplicate", 8),
    Run(6, "duplicate", 8),
    Run(4, "duplicate", 8),
    Run(8, "real", 8),
    Run(8, "real", 4),
    Run(8, "duplicate", 8, "binary"),
    # What decides the defaults, again.
    Run(0, "real", seed=1),
    Run(0, "duplicate", seed=1),
    Run(4, "duplicate", 8, seed=1),
    Run(6, "duplicate", 8, seed=1),
    Run(8, "duplicate", 8, "binary", seed=1),
)
#: The bits of streams and weights to which networks with real streams are quantised afterwards.
AFTERWARDS = ((8, 8), (6, 8), (4, 8), (8, 4))


def measure(run: Run, folder: Path, root: Path | None) -> None:
    """Train one run and write what it reached."""
    from sbnn_hw import datasets
    from sbnn_hw.train import TrainConfig
    from sbnn_hw.train.data import to_tensors
    from sbnn_hw.train.loop import train
    from sbnn_hw.train.validation import accuracy

    config = TrainConfig(
        model="resnet18",
        data="cifar10",
        domain="learned",
        # Also where streams are real, so that the domain is the same.
        xi_bits=8,
        init="balanced",
        method="topk",
        ec=EC,
        ec_schedule="cubic",
        width=WIDTH,
        activation="clipped",
        normalise="" if run.first == "binary" else "cifar10",
        stream_bits=run.stream_bits,
        weight_bits=run.weight_bits,
        shortcut=run.shortcut,
        first=run.first,
        epochs=EPOCHS,
        batch=128,
        lr=0.005,
        crop=4,
        flip=True,
        validation=0,
        recalibrate=2000,
        precision="bfloat16",
        seed=run.seed,
        device="cpu",
        threads=1,
    )
    checkpoint = train(config, folder / f"{run.name}.pt", data_root=root, resume=True)
    assert checkpoint.metrics["epoch"] == EPOCHS, "an epoch before the last was kept"
    started = time.monotonic()
    test = to_tensors(datasets.find("cifar10").load("test", root))
    row = {
        "name": run.name,
        **asdict(run),
        "epochs": EPOCHS,
        "width": WIDTH,
        "accuracy": accuracy(checkpoint.model, test),
        "ones": checkpoint.metrics["ones"] / checkpoint.metrics["weights"],
        "seconds": round(time.monotonic() - started, 1),
        "quantised": [] if run.stream_bits else _afterwards(checkpoint, test, root),
    }
    write_text(folder / f"{run.name}.json", json.dumps(row))


def _afterwards(checkpoint: Any, test: Any, root: Path | None) -> list[dict[str, Any]]:
    """Return what a network with real streams reaches once its streams are quantised."""
    from sbnn_hw import datasets
    from sbnn_hw.train.data import to_tensors
    from sbnn_hw.train.quantise import measure as compare
    from sbnn_hw.train.quantise import quantise

    training = to_tensors(datasets.find("cifar10").load("train", root))
    rows = []
    for stream_bits, weight_bits in AFTERWARDS:
        made = quantise(checkpoint, training, stream_bits=stream_bits, weight_bits=weight_bits)
        found = compare(checkpoint.model, made.checkpoint.model, test)
        rows.append(
            {
                "stream_bits": stream_bits,
                "weight_bits": weight_bits,
                "accuracy": found.after / found.images,
                "changed": found.changed,
                "clamped": sum(s.clamped for s in found.streams),
                "values": sum(s.values for s in found.streams),
            }
        )
    return rows


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the tables in Markdown, by their marks on the page."""
    lines, quantised = [], []
    seen: list[tuple[object, ...]] = []
    for row in rows:
        key = tuple(row[k] for k in ("stream_bits", "shortcut", "weight_bits", "first"))
        if key in seen:
            continue
        seen.append(key)
        stream_bits, shortcut, weight_bits, first = key
        same = [r for r in rows if tuple(r[k] for k in list(asdict(RUNS[0]))[:4]) == key]
        right = [100 * r["accuracy"] for r in same]
        lines.append(
            (
                f"{stream_bits} bits" if stream_bits else "real",
                str(shortcut),
                f"{weight_bits} bits" if weight_bits else "real",
                str(first),
                f"{statistics.mean(right):.2f}; {', '.join(f'{value:.2f}' for value in right)}",
            )
        )
        quantised += [
            (
                str(shortcut),
                f"{each['stream_bits']} bits",
                f"{each['weight_bits']} bits",
                f"{100 * same[0]['accuracy']:.2f}",
                f"{100 * each['accuracy']:.2f}",
                f"{each['changed']:,}",
                f"{100 * each['clamped'] / each['values']:.2f}",
            )
            for each in same[0]["quantised"]
        ]
    head = ("streams", "shortcuts", "weights of real layers", "first convolution",
            "test accuracy, % (mean; each seed)")  # fmt: skip
    after = ("shortcuts", "streams", "weights of real layers", "accuracy before, %",
             "after, %", "other classes", "values clamped, %")  # fmt: skip
    return {MARK: table(head, lines), QUANTISED: table(after, quantised)}


def collect(folder: Path, published: Path) -> list[dict[str, Any]]:
    """Read the runs that are done, in order: what is published, and what is not yet."""
    known = json.loads(published.read_text()) if published.exists() else []
    found = {Run(**{k: row[k] for k in asdict(RUNS[0])}): row for row in known}
    for run in RUNS:
        path = folder / f"{run.name}.json"
        if path.exists():
            found[run] = json.loads(path.read_text())
    return [found[run] for run in RUNS if run in found]


def main() -> None:
    """Train what is not trained yet, then write tables and numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("build/stream_ablation"))
    parser.add_argument("--page", type=Path, default=Path("docs/streams.md"))
    parser.add_argument("--data", type=Path, default=Path("docs/bench/stream_ablation.json"))
    parser.add_argument("--only", help="train this run alone, and write no page")
    parser.add_argument("--publish", action="store_true", help="train nothing; write the page")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    if args.only:
        measure(next(run for run in RUNS if run.name == args.only), args.runs, args.data_root)
        return

    done = {row["name"] for row in collect(args.runs, args.data)}

    if not args.publish:
        left = [run.name for run in RUNS if run.name not in done]
        train_all(__file__, left, args.runs, args.data_root, args.workers)
    rows = collect(args.runs, args.data)
    found = tables(rows)
    put(args.page, found)
    write_text(args.data, json.dumps(rows, indent=1) + "\n")
    print(*found.values(), sep="\n")


if __name__ == "__main__":
    main()
