"""Which weights a layer has: dense ±, pruned {0, ±}, or two values with their ξ."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx.constants import Constant

__all__ = ["Hint", "Weights", "recognise"]

HALF = Fraction(-1, 2)


@dataclass(frozen=True)
class Hint:
    """Ξ and k that a file says its layer had; for scores, k is their shift.

    Where ``unit`` is known, the weights Ξ and 2^k + Ξ of the file have become so many times that.
    Of ``sums`` some channels may be ``fixed``, not counted by Ξ, and a vector may be parted in
    groups; ``weights`` are integers, and a ``pool`` adds up windows.
    """

    xi: int
    k: int
    unit: Fraction | None = None
    kind: str = "layer"
    fixed: tuple[int, ...] = ()
    groups: int = 1


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights ``rows[n]·(pattern[n, i] + ξ)``, the pattern of 0, 1 and, with ξ = 0, −1."""

    pattern: npt.NDArray[np.int8]
    rows: tuple[Fraction, ...]
    xi: Fraction
    least_k: int = 0


def recognise(matrix: Constant, *, scores: bool, hint: Hint | None, groups: int) -> Weights:
    """Find the pattern, scales and ξ of weights (neurons, inputs), in so many groups of neurons.

    Scores need the same scale in every class, and have no use for q.
    """
    hinted = _by_hint(matrix, hint) if hint is not None and not scores else None
    if hinted is not None:
        return hinted
    values = [_values_of(matrix, neuron) for neuron in range(len(matrix.codes))]
    sizes = [{abs(value) for value in row if value} for row in values]
    if all(len(size) <= 1 for size in sizes):
        # A neuron without taps has any scale, so it has that of another.
        alone = hint.unit * 2**hint.k if scores and hint is not None and hint.unit else Fraction(1)
        common = next((min(size) for size in sizes if size), alone)
        scale = [min(size, default=common) for size in sizes]
        signs = _signs(matrix)
        if not (signs == 0).any():
            return _dense(signs, scale, scores, hint, groups)
        return _pruned(signs, scale, scores)
    return _two_valued(matrix, values)


def _by_hint(matrix: Constant, hint: Hint) -> Weights | None:
    """Return the weights as the hint has them, if they are so."""
    if hint.unit is None or not hint.xi:
        return None
    zero, one = hint.unit * hint.xi, hint.unit * (hint.xi + 2**hint.k)
    if not set(matrix.tidy().rationals) <= {zero, one}:
        return None
    table = np.array([number == one for number in matrix.rationals], np.int8)
    rows = (hint.unit * 2**hint.k,) * len(matrix.codes)
    return Weights(table[matrix.codes], rows, Fraction(hint.xi, 2**hint.k), hint.k)


def _values_of(matrix: Constant, neuron: int) -> tuple[Fraction, ...]:
    codes = np.unique(matrix.codes[neuron])
    if len(codes) > 3:
        raise ModelRejected(
            f"has {len(codes):,} different weights in neuron {neuron}; weights must be binary: "
            f"{{−α, +α}}, {{0, ±α}}, or two values {{α, β}} per layer"
        )
    return tuple(matrix.rationals[code] for code in codes)


def _signs(matrix: Constant) -> npt.NDArray[np.int8]:
    table = np.array([(number > 0) - (number < 0) for number in matrix.rationals], np.int8)
    signs: npt.NDArray[np.int8] = table[matrix.codes]
    return signs


def _dense(
    signs: npt.NDArray[np.int8], scale: list[Fraction], scores: bool, hint: Hint | None, groups: int
) -> Weights:
    """Recognise ±c as ξ = −1/2, or as taps of either polarity: what takes fewer operations."""
    if hint is not None:  # scores have no ξ: what the file has tapped stays so
        half = hint.xi != 0
    else:
        # An operation a tap, and one an input for the q that a group of neurons shares.
        inputs, ones = signs.shape[1], (signs > 0).sum(axis=1)
        with_q = int(np.minimum(ones, inputs - ones).sum()) + groups * inputs
        half = scores or with_q < signs.size
    if half:
        # ±c = 2c·({0, 1} − 1/2); the netlist takes the sign with fewer taps by itself.
        return Weights((signs > 0).astype(np.int8), tuple(2 * c for c in scale), HALF)
    return Weights(signs, tuple(scale), Fraction(0))


def _pruned(signs: npt.NDArray[np.int8], scale: list[Fraction], scores: bool) -> Weights:
    negative: npt.NDArray[np.bool_] = np.any(signs < 0, axis=1)
    mixed = negative & (signs > 0).any(axis=1)
    if scores or mixed.any():
        return Weights(signs, tuple(scale), Fraction(0))
    rows = tuple(-c if turn else c for c, turn in zip(scale, negative.tolist(), strict=True))
    return Weights(np.abs(signs), rows, Fraction(0))


def _two_valued(matrix: Constant, values: list[tuple[Fraction, ...]]) -> Weights:
    """Recognise {α, β} with one ξ a layer; each neuron may have a scale of its own."""
    pairs = sorted({row for row in values if len(row) == 2})
    if any(len(row) > 2 for row in values) or not pairs:
        wrong = next(n for n, row in enumerate(values) if len(row) != 2)
        raise ModelRejected(
            f"has weights {_named(values[wrong])} in neuron {wrong}; weights must be binary: "
            f"{{−α, +α}}, {{0, ±α}}, or two values {{α, β}} per layer"
        )
    # α:β is the same in every neuron, up to which of them is the larger number.
    ratios = {low / (high - low) for low, high in pairs}
    first = min(ratios)
    other = -1 - first
    if not ratios <= {first, other}:
        low, high = pairs[0]
        odd = next(row for row in pairs if row[0] / (row[1] - row[0]) not in (first, other))
        raise ModelRejected(
            f"has neurons of weights {_named((low, high))} and of {_named(odd)}; two values must "
            f"have one ratio in all neurons of a layer"
        )
    ones = dict.fromkeys((first, other), 0)
    table: list[tuple[Fraction, Fraction]] = []
    for neuron, row in enumerate(values):
        table.append(row if len(row) == 2 else (row[0], row[0]))
        if len(row) == 2:
            count = int((matrix.codes[neuron] == matrix.rationals.index(row[1])).sum())
            xi = row[0] / (row[1] - row[0])
            ones[xi] += count
            ones[-1 - xi] += matrix.codes.shape[1] - count
    xi = min(ones, key=lambda x: (ones[x], -x))
    pattern = np.zeros(matrix.codes.shape, np.int8)
    rows = []
    for neuron, (low, high) in enumerate(table):
        if low == high:
            rows.append(low / xi)
            continue
        one = high if low / (high - low) == xi else low
        zero = low + high - one
        pattern[neuron] = matrix.codes[neuron] == matrix.rationals.index(one)
        rows.append(one - zero)
    return Weights(pattern, tuple(rows), xi)


def _named(values: tuple[Fraction, ...]) -> str:
    return "{" + ", ".join(f"{float(value):g}" for value in values) + "}"
