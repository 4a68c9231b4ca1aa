"""Ablate the binary domain on CIFAR-10 with a narrow ResNet-18; write the numbers and the table.

    python bench/cifar_ablation.py --data-root DIR --workers 2

Two processes with one thread each do more than one with two. Runs that are done are not trained
again, and runs that were stopped continue.
"""

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pages import put, table
from training_runs import train_all

from sbnn_hw.files import write_text

MARK = "bench/cifar_ablation.py"
WIDTH, EPOCHS, GAMMA = 0.125, 3, 0.1
#: How the rows are called in the table.
NAMES = {
    "bnn": "{−1, +1}",
    "symmetric": "{−β, +β}",
    "closed_form": "{α, β}, closed form",
    "learned": "{α, β}, learned",
}


@dataclass(frozen=True)
class Run:
    """One training run: its domain, what makes it sparse and how sparse, and its seed."""

    domain: str
    method: str
    ec: float
    seed: int

    @property
    def name(self) -> str:
        """A name for its files."""
        return f"{self.domain}-{self.method}-{self.ec:g}-{self.seed}"


RUNS = (
    *(Run(domain, "penalty", 0.05, seed) for seed in (0, 1) for domain in reversed(NAMES)),
    # The baseline of the paper's table has no constraint.
    *(Run("bnn", "none", 0.5, seed) for seed in (0, 1)),
    *(
        Run(domain, "topk", 0.05, seed)
        for domain in ("bnn", "symmetric", "closed_form")
        for seed in (0, 1)
    ),
    # The kernels' figure wants 50, 95 and 99 %; the penalty did not reach 99 in so few epochs.
    Run("learned", "none", 0.5, 0),
    Run("learned", "topk", 0.05, 0),
    Run("learned", "topk", 0.01, 0),
    Run("learned", "penalty", 0.01, 0),
)


def measure(run: Run, folder: Path, root: Path | None) -> None:
    """Train one run and write what it reached."""
    import torch

    from sbnn_hw import datasets
    from sbnn_hw.train import TrainConfig
    from sbnn_hw.train.checkpoint import read_tensors
    from sbnn_hw.train.data import to_tensors
    from sbnn_hw.train.loop import train
    from sbnn_hw.train.metrics import count_model
    from sbnn_hw.train.validation import accuracy

    config = TrainConfig(
        model="resnet18",
        data="cifar10",
        domain=run.domain,
        method=run.method,
        ec=run.ec,
        gamma=GAMMA,
        ec_schedule="cubic" if run.method == "topk" else "constant",
        width=WIDTH,
        activation="clipped",
        normalise="cifar10",
        epochs=EPOCHS,
        batch=128,
        crop=4,
        flip=True,
        validation=0,
        recalibrate=0,
        seed=run.seed,
        device="cpu",
        threads=1,
    )
    out = folder / f"{run.name}.pt"
    checkpoint = train(config, out, data_root=root, resume=True)
    assert checkpoint.metrics["epoch"] == EPOCHS, "an epoch before the last was kept"
    started = time.monotonic()
    test = to_tensors(datasets.find("cifar10").load("test", root))
    right = accuracy(checkpoint.model, test)
    counted = count_model(checkpoint.model, (32, 32, 3)).layers
    layers = [layer for layer in counted if layer.kind == "binary"]
    state = read_tensors(out.with_name(f"{out.stem}.state.pt"), "training state")
    latents = [state["model"][f"{layer.name}.weight"].double() for layer in layers]
    pooled = torch.cat([((w - w.mean()) / w.std()).flatten() for w in latents]).numpy()
    row = {
        **asdict(run),
        "gamma": GAMMA if run.method == "penalty" else 0.0,
        "epochs": EPOCHS,
        "width": WIDTH,
        "accuracy": right,
        "ones": checkpoint.metrics["ones"] / checkpoint.metrics["weights"],
        "binary_weights": checkpoint.metrics["weights"],
        "evaluation_seconds": round(time.monotonic() - started, 1),
        "layers": [
            {"name": layer.name, "positions": layer.positions, "histogram": layer.histogram}
            for layer in layers
        ],
        "latent_quantiles": np.quantile(pooled, np.linspace(0, 1, 1001)).round(4).tolist(),
    }
    write_text(folder / f"{run.name}.json", json.dumps(row))


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the table in Markdown, one line a domain and method, by its mark on the page."""
    kinds = {
        ("none", 0.5): "nothing",
        ("penalty", 0.05): f"penalty, 95 %, γ = {GAMMA}",
        ("topk", 0.05): "top-k, 95 %",
        ("penalty", 0.01): f"penalty, 99 %, γ = {GAMMA}",
        ("topk", 0.01): "top-k, 99 %",
    }
    lines = []
    for (method, ec), by in kinds.items():
        for domain, name in NAMES.items():
            chosen = [
                r for r in rows if (r["domain"], r["method"], r["ec"]) == (domain, method, ec)
            ]
            if not chosen:
                continue
            right = [100 * row["accuracy"] for row in chosen]
            ones = ", ".join(f"{100 * row['ones']:.2f}" for row in chosen)
            each = ", ".join(f"{value:.2f}" for value in right)
            lines.append((by, name, f"{statistics.mean(right):.2f}; {each}", ones))
    head = ("sparsity by", "domain", "test accuracy, % (mean; each seed)", "ones, % (each seed)")
    return {MARK: table(head, lines)}


def collect(folder: Path) -> list[dict[str, Any]]:
    """Read the runs that are done, in order."""
    paths = [folder / f"{run.name}.json" for run in RUNS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def publish(rows: list[dict[str, Any]], page: Path, data: Path) -> None:
    """Put the table into the page and the numbers where `sbnn-hw paper` reads them."""
    put(page, tables(rows))
    shown = Run("learned", "penalty", 0.05, 0)
    latents = {
        row["domain"]: {"quantiles": row["latent_quantiles"]}
        for row in rows
        if Run(row["domain"], row["method"], row["ec"], row["seed"]) == shown
    }
    left_out = ("latent_quantiles", "evaluation_seconds")
    kept = [{k: v for k, v in row.items() if k not in left_out} for row in rows]
    content = {
        "cifar10_ablation": {
            "what": f"ResNet-18 at {WIDTH:g} of the width, {EPOCHS} epochs of CIFAR-10 on a CPU",
            "config": {"width": WIDTH, "epochs": EPOCHS, "gamma": GAMMA, "batch": 128},
            "rows": kept,
            "latents": latents,
        }
    }
    write_text(data, json.dumps(content, indent=None) + "\n")


def main() -> None:
    """Train what is not trained yet, then write table and numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("build/cifar_ablation"))
    parser.add_argument("--page", type=Path, default=Path("docs/cifar_ablation.md"))
    parser.add_argument("--data", type=Path, default=Path("sbnn_hw/paper/measured.json"))
    parser.add_argument("--only", help="train this run alone, and write no page")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    if args.only:
        measure(next(run for run in RUNS if run.name == args.only), args.runs, args.data_root)
        return

    left = [run.name for run in RUNS if not (args.runs / f"{run.name}.json").exists()]
    train_all(__file__, left, args.runs, args.data_root, args.workers)
    rows = collect(args.runs)
    publish(rows, args.page, args.data)
    print(*tables(rows).values())


if __name__ == "__main__":
    main()
