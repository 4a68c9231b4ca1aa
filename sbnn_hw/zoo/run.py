"""Measure all models, every step by digest, so that nothing is measured twice.

A model that fails does not lose the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sbnn_hw import __version__, bops
from sbnn_hw.errors import SbnnError
from sbnn_hw.flow.network_steps import generate, simulate
from sbnn_hw.flow.plan import Built
from sbnn_hw.flow.steps import file_digest
from sbnn_hw.hardware import VERILOG
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.zoo.dense import Dense, dense_beside, measure_dense, prepare_dense
from sbnn_hw.zoo.hardware import count_xc7, rates, route_ecp5, simulated, toggles
from sbnn_hw.zoo.models import Facts, hardware_options, has_dense, is_routed
from sbnn_hw.zoo.network import measure_accuracy, model_facts, open_model
from sbnn_hw.zoo.numbers import Number
from sbnn_hw.zoo.setup import Setup, measured_by

__all__ = ["SCHEMA", "measure_model", "run_bench"]

#: The version of bench.json's form.
SCHEMA = 1


def run_bench(paths: Sequence[Path], setup: Setup) -> tuple[dict[str, Any], list[SbnnError]]:
    """Measure checkpoints; return the results in plain values, and what went wrong.

    Sparse ones are compared with those of the same topology whose weights are −1 and +1. Of one
    with integer streams such a network must have been trained: how wide its sums and streams are
    follows from what training makes of them.
    """
    errors: list[SbnnError] = []
    failed: list[dict[str, str]] = []
    entries: list[dict[str, Any]] = []
    references: dict[str, dict[str, Any]] = {}
    facts: dict[Path, Facts] = {}
    trained: list[Dense] = []

    def fail(path: Path, error: SbnnError) -> None:
        errors.append(error)
        failed.append({"name": path.stem, "error": error.sentence})
        setup.say(path.stem, "failed", error.sentence)

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
        entry["dense"] = None
        dense = _matching(own, trained)
        if not has_dense(path) or (own.streams and dense is None):
            continue
        try:
            dense = dense or dense_beside(path, setup)
            found = measure_dense(dense, setup, hardware_options(path))
            references[found["id"]] = found
            entry["dense"] = found["id"]
        except SbnnError as error:
            entry["problems"].append({"step": "dense", "error": error.sentence})
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


def measure_model(path: Path, setup: Setup) -> tuple[dict[str, Any], list[SbnnError]]:
    """Measure a sparse model, but not the dense network that it is compared with.

    What one tool cannot do is told in ``problems``, with the numbers of the others, and returned
    too; a model that cannot be folded, or whose hardware is not its network, is an error.
    """
    flow, facts, network, images = open_model(path, setup)
    accuracy = measure_accuracy(flow, network, images)
    options = hardware_options(path)
    built = Built(network)
    generate(flow, built, options, images)
    simulate(flow, built, images, facts.data)
    assert built.simulated is not None
    verdict = built.simulated["verdict"]
    counts = bops.summarise(network)
    numbers = {"accuracy": accuracy, **simulated(verdict, counts, setup.tools)}
    problems: list[dict[str, str]] = []
    errors: list[SbnnError] = []

    def attempt(step: str, find: Callable[[], dict[str, Number]]) -> None:
        try:
            numbers.update(find())
        except SbnnError as error:
            problems.append({"step": step, "error": error.sentence})
            errors.append(error)
            setup.say(path.stem, step, f"failed: {error.sentence}")

    attempt("xc7", lambda: count_xc7(flow))
    if not setup.quick and is_routed(path):
        attempt("ecp5", lambda: route_ecp5(flow, network, options))
    attempt("toggles", lambda: toggles(flow, built, images, setup))
    numbers |= rates(numbers)
    entry = {
        "name": path.stem,
        "data": facts.data,
        "images": len(images),
        "model": facts.model,
        "domain": facts.domain,
        "seed": facts.seed,
        "signed": any(bool(layer.taps.inverted.any()) for _, _, layer in network.layers()),
        # What was counted: whoever makes it again can compare.
        "network": network.digest,
        "verilog": file_digest(flow.plan.out / VERILOG),
        "input": "image" if built.known_design.input.beats == 1 else "pixel",
        "hardware": asdict(options),
        **{key: counts[key] for key in ("connections", "weights", "ones", "density")},
        "numbers": numbers,
        "problems": problems,
        "topology": facts.topology,
        "streams": facts.streams or None,
        "measured_by": measured_by(setup.tools),
    }
    return entry, errors
