"""Measure all models, and gather what was found; one that fails does not lose the others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sbnn_hw import __version__
from sbnn_hw.bench.measure import (
    Dense,
    Setup,
    dense_beside,
    hardware_options,
    measure_dense,
    measure_model,
    measured_by,
    model_facts,
    prepare_dense,
)
from sbnn_hw.bench.published import load_peers
from sbnn_hw.bench.zoo import Facts
from sbnn_hw.errors import SbnnError

__all__ = ["SCHEMA", "run_bench"]

#: The version of bench.json's form.
SCHEMA = 1


def run_bench(paths: Sequence[Path], setup: Setup) -> tuple[dict[str, Any], list[SbnnError]]:
    """Measure models; return the results in plain values, and what went wrong.

    Parameters
    ----------
    paths : sequence of Path
        Checkpoints. Sparse ones are compared with those of the same topology whose weights are −1
        and +1.
    setup : Setup
        How they are measured.
    """
    errors: list[SbnnError] = []
    failed: list[dict[str, str]] = []
    entries: list[dict[str, Any]] = []
    references: dict[str, dict[str, Any]] = {}
    facts: dict[Path, Facts] = {}
    trained: list[Dense] = []

    def fail(path: Path, error: SbnnError) -> None:
        text = " ".join(str(error).split())
        errors.append(error)
        failed.append({"name": path.stem, "error": text})
        setup.say(path.stem, "failed", text)

    for path in paths:
        try:
            facts[path] = model_facts(path, setup)
            if facts[path].dense:
                trained.append(prepare_dense(path, setup))
        except SbnnError as error:
            facts.pop(path, None)
            fail(path, error)
    for path, own in facts.items():
        if own.dense:
            continue
        try:
            entry, problems = measure_model(path, setup)
            entries.append(entry)
            errors += problems
        except SbnnError as error:
            fail(path, error)
            continue
        try:
            dense = _matching(own, trained) or dense_beside(path, setup)
            found = measure_dense(dense, setup, hardware_options(path))
            references[found["id"]] = found
            entry["dense"] = found["id"]
        except SbnnError as error:
            entry["dense"] = None
            entry["problems"].append({"step": "dense", "error": " ".join(str(error).split())})
            errors.append(error)
    results = {
        "schema": SCHEMA,
        "version": __version__,
        "quick": setup.quick,
        "tools": dict(sorted(setup.tools.items())),
        "measured_by": measured_by(setup.tools),
        "models": entries,
        "dense": sorted(references.values(), key=lambda found: (found["name"], found["id"])),
        "published": load_peers(),
        "failed": failed,
    }
    return results, errors


def _matching(facts: Facts, trained: Sequence[Dense]) -> Dense | None:
    for dense in trained:
        if dense.facts.data == facts.data and dense.facts.topology == facts.topology:
            return dense
    return None
