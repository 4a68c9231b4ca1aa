"""Compare networks for tables with tree ensembles on the same rows.

python bench/tabular.py [--data letter …] [--data-root DIR] [--runs DIR]

Trains each recipe with two seeds; `vehicle`, which has no fixed split, also in five folds, twice.
Networks are the integer ones that hardware agrees with bit by bit, and their LUTs are counted by
Yosys, with encoder and argmax. The forest and the boosting are scikit-learn's, with its defaults,
and see all training rows, those to choose an epoch by too. Runs that are in --runs are not done
again; results of other tables stay. Writes docs/bench/tabular.json and tables in docs/tables.md.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import sklearn
from pages import put, table
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from sbnn_hw.data.find import find_data
from sbnn_hw.data.known import KNOWN
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import OwnData, make_data
from sbnn_hw.data.rows import Rows
from sbnn_hw.data.split import fold_rows, split_rows
from sbnn_hw.datasets import default_root
from sbnn_hw.files import write_text
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.tools import version_of
from sbnn_hw.train import TrainConfig, fold_checkpoint, load_checkpoint
from sbnn_hw.train.loop import train
from sbnn_hw.train.recipes import load_recipe, recipe_needs
from sbnn_hw.yosys import find_yosys, synthesise

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "docs/bench/tabular.json", ROOT / "docs/tables.md"

#: The recipe of each table.
RECIPES = {
    "letter": "letter_3k",
    "satimage": "satimage_2k",
    "shuttle": "shuttle_500",
    "vehicle": "vehicle_1k",
    "vowel": "vowel_1k4",
    "dna": "dna_500",
}
SEEDS = (0, 1)
#: Tables without a fixed split are parted in so many folds.
FOLDED, FOLDS = ("vehicle",), 5


def run(config: TrainConfig, out: Path, data: OwnData) -> dict[str, Any]:
    """Train, or take the run that is there; return what the integer network reached."""
    done = load_checkpoint(out) if out.is_file() else None
    # A teacher is the same wherever it is; rows and their split must be the same too.
    if (
        done is None
        or done.training | {"teacher": ""} != config.to_dict() | {"teacher": ""}
        or done.meaning != data.meaning
    ):
        out.parent.mkdir(parents=True, exist_ok=True)
        train(config, out, data=data, replace=True, talk=lambda said: print(out.stem, said))
    checkpoint, network = load_checkpoint(out), fold_checkpoint(out).network
    test = data.load("test")
    return {
        "seed": config.seed,
        "epoch": checkpoint.metrics["epoch"],
        "validation": checkpoint.metrics["validation"],
        "accuracy": network.accuracy(test.pixels, test.labels),
        "network": network.digest,
    }


def teach(name: str, root: Path, runs: Path) -> Path:
    """Return the teacher of a table; train it if there is none."""
    out = runs / f"{name}_teacher.pt"
    if not out.is_file():
        train(TrainConfig(**load_recipe(out.stem)), out, data_root=root)
    return out


def count_luts(path: Path) -> int:
    """Return the look-up tables of a network on 7-series, by Yosys."""
    text = generate(fold_checkpoint(path).network, Options(family="xc7")).verilog
    return int(synthesise(text, "xc7").counts.luts)


def trees(train_rows: Rows, test_rows: Rows, seed: int) -> dict[str, float]:
    """Return what scikit-learn's ensembles reach on the values as they are in the file."""

    def values(rows: Rows) -> np.ndarray:
        return np.stack(list(rows.columns.values()), axis=1)

    found = {}
    for name, model in (
        ("forest", RandomForestClassifier(random_state=seed)),
        ("boosting", HistGradientBoostingClassifier(random_state=seed)),
    ):
        model.fit(values(train_rows), train_rows.labels)
        found[name] = float(model.score(values(test_rows), test_rows.labels))
    return found


def parts_of(data: OwnData, rows: dict[str, Rows]) -> tuple[Rows, Rows]:
    """Return training and test rows as the data have them, before they become integers."""
    if "all" not in rows:
        return rows["train"], rows["test"]
    source = data.meaning.source
    shares = (source.split[0], source.split[1], source.split[2])
    train_places, _, test_places = split_rows(rows["all"].labels, shares, source.seed)
    return rows["all"].take(train_places), rows["all"].take(test_places)


def measure(name: str, root: Path, runs: Path, earlier: dict[str, Any]) -> dict[str, Any]:
    """Measure one table."""
    recipe = RECIPES[name]
    config = TrainConfig(**load_recipe(recipe))
    if "teacher" in recipe_needs(recipe):
        config = replace(config, teacher=str(teach(name, root, runs)))
    data, rows = find_data(name, root=root), KNOWN[name].read(root)
    assert isinstance(data, OwnData)
    train_rows, test_rows = parts_of(data, rows)
    known = {entry["network"]: entry["luts"] for entry in earlier.get("networks", ())}
    networks, ensembles = [], []
    for seed in SEEDS:
        path = runs / f"{recipe}_{seed}.pt"
        found = run(replace(config, seed=seed), path, data)
        found["luts"] = known.get(found["network"]) or count_luts(path)
        networks.append(found)
        ensembles.append({"seed": seed, **trees(train_rows, test_rows, seed)})
        print(name, found, ensembles[-1], flush=True)
    result = {
        "data": name,
        "recipe": recipe,
        "train": len(train_rows),
        "test": len(test_rows),
        "networks": networks,
        "trees": ensembles,
    }
    if name in FOLDED:
        result["folds"] = [measure_folds(name, config, rows["all"], runs, seed) for seed in SEEDS]
    return result


def measure_folds(
    name: str, config: TrainConfig, rows: Rows, runs: Path, seed: int
) -> dict[str, Any]:
    """Measure each fifth of the rows with what the others taught."""
    known = KNOWN[name].options
    options = DataOptions(label=known.label, drop=known.drop)
    found = []
    for number, (others, held) in enumerate(fold_rows(rows.labels, FOLDS, seed)):
        parts = {"train": rows.take(others), "test": rows.take(held)}
        data = make_data(name, parts, "table", known.label, options, None)
        path = runs / f"{RECIPES[name]}_{seed}_fold{number}.pt"
        reached = run(replace(config, seed=seed), path, data)
        reached["test"] = len(held)
        found.append(reached | trees(parts["train"], parts["test"], seed))
        print(name, found[-1], flush=True)
    return {
        "seed": seed,
        "runs": found,
        **{key: mean(one[key] for one in found) for key in ("accuracy", "forest", "boosting")},
    }


def read_results() -> dict[str, Any]:
    """Return what was measured, by table."""
    if not RESULTS.is_file():
        return {}
    return {entry["data"]: entry for entry in json.loads(RESULTS.read_text("utf-8"))["tables"]}


def _percent(values: list[float]) -> str:
    return " / ".join(f"{100 * value:.2f}" for value in values)


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables in Markdown, by their marks on the page."""
    rows, folded = [], []
    for entry in results["tables"]:
        name = entry["data"]
        sets = entry.get("folds")
        luts = " / ".join(f"{one['luts']:,}" for one in entry["networks"])
        peers = [peer for peer in load_peers() if peer["data"] == name]
        published = [
            f"{peer['name']} {peer['numbers']['accuracy']['value']:g} %, "
            f"{peer['numbers']['luts']['value']:,} LUTs"
            f"{' (other rows test)' if 'by chance' in peer['includes'] else ''}"
            for peer in peers
        ]
        rows.append(
            [
                name + (f" ({FOLDS} folds)" if sets else ""),
                f"{entry['train']:,} / {entry['test']:,}",
                f"`{entry['recipe']}`",
                _percent([one["accuracy"] for one in sets or entry["networks"]]),
                luts,
                _percent([one["forest"] for one in sets or entry["trees"]]),
                _percent([one["boosting"] for one in sets or entry["trees"]]),
                "; ".join(published) or "–",
            ]
        )
        for one in sets or ():
            folded.append(
                [
                    f"{name}, {one['seed']}",
                    _percent_each([run["accuracy"] for run in one["runs"]]),
                    _percent_each([run["forest"] for run in one["runs"]]),
                    _percent_each([run["boosting"] for run in one["runs"]]),
                ]
            )
    head = (
        *("data", "rows to train / test", "recipe", "accuracy, two seeds, %", "LUTs, two seeds"),
        *("random forest, %", "gradient boosting, %", "published"),
    )
    return {
        "bench/tabular.py: all": table(head, rows),
        "bench/tabular.py: folds": table(
            ("data, seed", "network, fold by fold, %", "random forest, %", "gradient boosting, %"),
            folded,
        ),
    }


def _percent_each(values: list[float]) -> str:
    return ", ".join(f"{100 * value:.2f}" for value in values)


def main() -> None:
    """Measure; write the results, and the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--runs", type=Path, default=ROOT / "build/tabular")
    args = parser.parse_args()
    root = args.data_root or default_root()
    for name in args.data:
        found = measure(name, root, args.runs, read_results().get(name, {}))
        # Another table may have been measured meanwhile.
        kept = read_results() | {name: found}
        tools = {"scikit-learn": sklearn.__version__, "yosys": version_of(find_yosys())}
        results = {"tools": tools, "tables": [kept[one] for one in RECIPES if one in kept]}
        write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    put(PAGE, tables(json.loads(RESULTS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
