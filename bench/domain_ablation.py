"""Ablate the binary domain on MNIST: train each row, measure its netlist, write the results.

    OMP_NUM_THREADS=1 python bench/domain_ablation.py --data-root DIR

The results go into docs/bench/domain_ablation.json, the table into docs/domain_ablation.md. Runs
that are done are not trained again, so the script can be stopped and continued.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from pages import put, table

from sbnn_hw import __version__, datasets
from sbnn_hw.files import write_text
from sbnn_hw.flow.steps import code_digest
from sbnn_hw.train import TrainConfig, fold_checkpoint
from sbnn_hw.train.loop import train

DOMAINS = ("symmetric", "closed_form", "learned")
#: What makes the network sparse, γ, and the seeds: the table's rows, for each domain.
ROWS = (
    ("penalty", 0.5, (0, 1, 2)),
    ("topk", 0.0, (0, 1, 2)),
    ("penalty", 0.3, (0,)),
    ("penalty", 0.1, (0,)),
)
MARK = "bench/domain_ablation.py"


def configuration(domain: str, method: str, gamma: float, seed: int, epochs: int) -> TrainConfig:
    """Return the run of a row: the same budget for all."""
    return TrainConfig(
        model="sfc",
        data="mnist",
        domain=domain,
        ec=0.05,
        method=method,
        gamma=gamma,
        ec_schedule="constant" if method == "penalty" else "cubic",
        epochs=epochs,
        seed=seed,
    )


def measure(config: TrainConfig, folder: Path, root: Path | None, test: Any) -> dict[str, Any]:
    """Train one run and measure its netlist on the whole test set."""
    out = folder / f"{config.method}-{config.gamma}-{config.domain}-{config.seed}.pt"
    done = out.with_suffix(".json")
    if done.exists():
        return json.loads(done.read_text())  # type: ignore[no-any-return]
    checkpoint = train(config, out, data_root=root, resume=True)
    network = fold_checkpoint(out).network
    row = {
        "domain": config.domain,
        "method": config.method,
        "gamma": config.gamma,
        "seed": config.seed,
        "epochs": config.epochs,
        "accuracy": network.accuracy(test.pixels, test.labels),
        "ones": checkpoint.metrics["ones"] / checkpoint.metrics["weights"],
        "k": max(layer.k for _, _, layer in network.layers() if hasattr(layer, "k")),
    }
    write_text(done, json.dumps(row))
    return row


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the table in Markdown, one line a domain and method, by its mark on the page."""
    head = (
        *("sparsity by", "domain", "test accuracy of the netlist, % (mean; each seed)"),
        *("share of ones, % (mean; range)", "largest k"),
    )
    lines = []
    for method, gamma, _ in ROWS:
        for domain in DOMAINS:
            chosen = [
                row
                for row in results["rows"]
                if (row["method"], row["gamma"], row["domain"]) == (method, gamma, domain)
            ]
            right = [100 * r["accuracy"] for r in chosen]
            ones = [100 * r["ones"] for r in chosen]
            each = ", ".join(f"{x:.2f}" for x in right)
            lines.append(
                (
                    "top-k" if method == "topk" else f"penalty, γ = {gamma}",
                    domain,
                    f"{statistics.mean(right):.2f}; {each}",
                    f"{statistics.mean(ones):.2f}; {min(ones):.2f}–{max(ones):.2f}",
                    f"{max(r['k'] for r in chosen)}",
                )
            )
    return {MARK: table(head, lines)}


def main() -> None:
    """Run all rows and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--runs", type=Path, default=Path("build/ablation"))
    parser.add_argument("--page", type=Path, default=Path("docs/domain_ablation.md"))
    parser.add_argument("--out", type=Path, default=Path("docs/bench/domain_ablation.json"))
    args = parser.parse_args()
    test = datasets.find("mnist").load("test", args.data_root)
    rows = []
    for method, gamma, seeds in ROWS:
        for seed in seeds:
            for domain in DOMAINS:
                config = configuration(domain, method, gamma, seed, args.epochs)
                rows.append(measure(config, args.runs, args.data_root, test))
                print(rows[-1], file=sys.stderr)
    results = {
        "version": __version__,
        "code": code_digest("sbnn_hw.train"),
        "rows": sorted(rows, key=lambda row: (row["method"], -row["gamma"], row["seed"])),
    }
    write_text(args.out, json.dumps(results, indent=1) + "\n")
    put(args.page, tables(results))
    print(*tables(results).values())


if __name__ == "__main__":
    main()
