"""Read what was measured here: the runs that ``bench/cifar_ablation.py`` writes."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sbnn_hw.bops import Kernels, count_kernels
from sbnn_hw.errors import DataMissing

__all__ = ["SHIPPED", "LayerKernels", "Measured", "Run", "load_measured"]

SHIPPED = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class LayerKernels:
    """A layer's 3×3 kernels by Hamming weight, and how many outputs each neuron has."""

    name: str
    positions: int
    histogram: tuple[int, ...]


#: A constraint is reached if the share of ones is no more than so many times it.
REACHED = 1.1


@dataclass(frozen=True)
class Run:
    """A training run and what it reached on the test images."""

    domain: str
    method: str
    gamma: float | None
    ec: float
    seed: int
    epochs: int
    width: float
    accuracy: float
    ones: float
    binary_weights: int
    layers: tuple[LayerKernels, ...]

    @property
    def kernels(self) -> Kernels:
        """The measures of all its 3×3 kernels."""
        return count_kernels([(layer.histogram, layer.positions) for layer in self.layers])


@dataclass(frozen=True)
class Measured:
    """The runs, and for each domain the quantiles of its latent weights, layers standardised."""

    what: str = ""
    runs: tuple[Run, ...] = ()
    quantiles: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def of(self, domain: str, ec: float, *methods: str) -> tuple[Run, ...]:
        """Return the runs of a domain and constraint by one of the methods, one a seed."""
        return tuple(
            run
            for run in self.runs
            if run.domain == domain and run.method in methods and math.isclose(run.ec, ec)
        )

    def reaching(self, domain: str, ec: float) -> tuple[Run, ...]:
        """Return the runs that came down to a constraint: by the penalty, else by top-k."""
        for method in ("none", "penalty", "topk"):
            runs = self.of(domain, ec, method)
            if runs and max(run.ones for run in runs) <= REACHED * ec:
                return runs
        return ()


def load_measured(path: Path) -> Measured:
    """Read a file of runs; where there is none, nothing was measured."""
    if path == SHIPPED and not path.exists():
        return Measured()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON"
        raise DataMissing(f"Cannot read runs from {path}: {reason}") from None
    try:
        part = _get(content, "cifar10_ablation", dict)
        runs = tuple(_run(row) for row in _get(part, "rows", list))
        latents = _get(part, "latents", dict) if "latents" in part else {}
        return Measured(
            _get(part, "what", str),
            runs,
            {domain: _quantiles(values) for domain, values in latents.items()},
        )
    except _Wrong as wrong:
        raise DataMissing(
            f"{path} does not hold runs: {wrong}; write it again with bench/cifar_ablation.py"
        ) from None


class _Wrong(Exception):
    """What is wrong with a file, without its name."""


def _get(
    values: object, key: str, kind: Any, good: Callable[[Any], bool] = lambda value: True
) -> Any:
    if not isinstance(values, dict) or key not in values:
        raise _Wrong(f"{key} is missing")
    value = values[key]
    if not isinstance(value, kind) or isinstance(value, bool) or not good(value):
        raise _Wrong(f"{key} must not be {str(value)[:40]!r}")
    return value


def _is_share(value: float) -> bool:
    return 0 <= value <= 1


def _is_positive(value: float) -> bool:
    return 0 < value < math.inf


def _run(row: object) -> Run:
    number = (int, float)
    return Run(
        domain=_get(row, "domain", str),
        method=_get(row, "method", str),
        gamma=_get(row, "gamma", (int, float, type(None))),
        ec=_get(row, "ec", number, _is_share),
        seed=_get(row, "seed", int),
        epochs=_get(row, "epochs", int, _is_positive),
        width=_get(row, "width", number, _is_positive),
        accuracy=_get(row, "accuracy", number, _is_share),
        ones=_get(row, "ones", number, _is_share),
        binary_weights=_get(row, "binary_weights", int, _is_positive),
        layers=tuple(_layer(layer) for layer in _get(row, "layers", list, bool)),
    )


def _layer(layer: object) -> LayerKernels:
    return LayerKernels(
        _get(layer, "name", str),
        _get(layer, "positions", int, _is_positive),
        tuple(_get(layer, "histogram", list, _is_histogram)),
    )


def _is_histogram(values: list[Any]) -> bool:
    return len(values) == 10 and all(type(n) is int and n >= 0 for n in values) and any(values)


def _quantiles(values: object) -> tuple[float, ...]:
    return tuple(map(float, _get(values, "quantiles", list, _are_quantiles)))


def _are_quantiles(values: list[Any]) -> bool:
    finite = all(type(x) in (int, float) and math.isfinite(x) for x in values)
    return finite and len(values) >= 100 and values == sorted(values) and values[0] < values[-1]
