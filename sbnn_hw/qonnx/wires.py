"""Layers of integers: `MatMul`, `Gemm` and `Conv` as sums by integer weights.

Weights and scales of inputs are rationals. Each neuron's products have a largest common divisor,
which is its scale; what is left are integers. Binary weights become taps without weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Handle
from sbnn_hw.netlist import Sums, Taps, Window
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.weights import Hint, recognise

__all__ = ["Integers", "Wire", "wire"]

Int = npt.NDArray[np.int64]

#: Integer weights have so many bits, their sign among them.
WEIGHT_BITS = 16


@dataclass(frozen=True, eq=False)
class Integers:
    """What a layer reads: an input of channel *c* is factor[c]·x + offset[c].

    ``padding`` is what it reads beyond a map's border.
    """

    source: Handle
    factor: tuple[Fraction, ...]
    offset: tuple[Fraction, ...]
    padding: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Wire:
    """Sums of integers, which times factors, plus offsets, are what a layer gives."""

    sums: Sums
    factors: tuple[Fraction, ...]
    offsets: tuple[Fraction, ...]


def wire(
    weights: Constant,
    inputs: Integers,
    *,
    window: Window | None = None,
    groups: int = 1,
    hint: Hint | None = None,
    weighted: bool = False,
) -> Wire:
    """Return the sums of a layer.

    ``weights`` are (neurons, positions, channels of a group), in the netlist's order; ``weighted``
    leaves binary weights as integers.
    """
    edge = inputs.source.edge
    neurons = weights.shape[0]
    per_group = weights.shape[2]
    group_of = np.arange(neurons) * groups // neurons
    # The channel that each weight belongs to.
    channel = group_of[:, None, None] * per_group + np.arange(per_group)
    pad, bipolar = _padding(inputs, window)
    factor = [f / 2 for f in inputs.factor] if bipolar else list(inputs.factor)
    at = [
        o + f if bipolar else o for o, f in zip(inputs.offset, factor, strict=True)
    ]  # what a weight adds whatever comes
    units = Constant.listed(factor).reshaped(lambda codes: codes[channel])
    matrix = weights.combine(units, lambda weight, unit: weight * unit)
    # A file of ours has integers of any size that sums can have.
    own = hint is not None and hint.kind in ("sums", "weights")
    rows, integers = _integers(matrix, 53 if own else WEIGHT_BITS)
    # Without a scale there is nothing to divide by: what such an input adds is constant.
    constant = _constant(weights, at, channel)
    fields: dict[str, Any] = {"channels": edge.channels, "groups": groups, "window": window}
    fields |= {"pad": pad, "border": "zero" if bipolar else "minus"}
    found = None
    if hint is not None and hint.kind == "sums":
        found = _hinted(rows, integers, hint, edge.signed, groups)
    elif not weighted and (hint is None or hint.kind != "weights"):
        found = _recognised(matrix, edge.signed, groups)
    if found is not None:
        pattern, xi, k, fixed, scale = found
        sums = Sums(taps=Taps.from_windows(pattern, groups), xi=xi, k=k, fixed=fixed, **fields)
        if not bipolar:
            inverted = sums.taps.per_neuron(sums.taps.inverted).tolist()
            constant = [
                c - s * edge.maximum * n for c, s, n in zip(constant, scale, inverted, strict=True)
            ]
        return Wire(sums, tuple(scale), tuple(constant))
    if hint is not None and hint.kind == "weights":  # as they were written
        integers = np.array([_whole(row) for row in rows])[:, None, None] * integers
        rows = [Fraction(1) if _whole(row) else row for row in rows]
    taps = Taps.from_windows(integers != 0, groups)
    sums = Sums(taps=taps, weights=integers[integers != 0], **fields)
    return Wire(sums, tuple(rows), tuple(constant))


def _whole(row: Fraction) -> int:
    return int(row) if row.denominator == 1 else 1


def _padding(inputs: Integers, window: Window | None) -> tuple[Int | None, bool]:
    """Return the integer that padding is in each channel, and whether bits are −1 and +1.

    Then padding is the zero between them.
    """
    edge = inputs.source.edge
    if window is None or not any(window.padding):
        return None, False
    if 0 in inputs.factor:
        raise ModelRejected("pads inputs that are scaled by zero")
    found = [
        (p - o) / f for p, o, f in zip(inputs.padding, inputs.offset, inputs.factor, strict=True)
    ]
    if edge.binary and set(found) == {Fraction(1, 2)}:
        return None, True
    for number, value in enumerate(found):
        if value.denominator != 1 or not edge.low <= value <= edge.high:
            raise ModelRejected(
                f"pads channel {number} with {float(inputs.padding[number]):g}, which is none of "
                f"the values that the channel can have"
            )
    pad = np.array([int(value) for value in found])
    return (pad if pad.any() else None), False


def _integers(matrix: Constant, bits: int) -> tuple[list[Fraction], Int]:
    """Return a scale for each neuron, and integers that times it are the matrix."""
    matrix = matrix.tidy()
    common = lcm(*(number.denominator for number in matrix.rationals))
    table = [int(number * common) for number in matrix.rationals]
    rows, integers = [], np.zeros(matrix.shape, np.int64)
    for neuron, codes in enumerate(matrix.codes):
        used = np.unique(codes)
        divisor = gcd(*(table[code] for code in used)) or common
        small = np.zeros(len(table), np.int64)
        for code in used.tolist():
            value = table[code] // divisor
            if value.bit_length() >= bits:
                raise ModelRejected(
                    f"has weights in neuron {neuron} that are not integers of up to {bits} "
                    f"bits times one scale; quantise weights and inputs, with one scale per neuron"
                )
            small[code] = value
        rows.append(Fraction(divisor, common))
        integers[neuron] = small[codes]
    return rows, integers


def _constant(weights: Constant, at: Sequence[Fraction], channel: Int) -> list[Fraction]:
    """Return Σ weight·at of each neuron."""
    total = [Fraction(0)] * weights.shape[0]
    numbers = weights.rationals
    for number in sorted(set(at)):
        if not number:
            continue
        chosen = np.array([a == number for a in at])[channel]
        for neuron, codes in enumerate(weights.codes):
            used, counts = np.unique(
                codes[np.broadcast_to(chosen[neuron], codes.shape)], return_counts=True
            )
            for code, count in zip(used.tolist(), counts.tolist(), strict=True):
                total[neuron] += number * numbers[code] * count
    return total


_Found = tuple[npt.NDArray[np.int8], int, int, Int, list[Fraction]]


def _hinted(
    rows: Sequence[Fraction], integers: Int, hint: Hint, signed: bool, groups: int
) -> _Found | None:
    """Return taps, Ξ, k, fixed channels and scales as a file says them, if that is what it has."""
    if any(row.denominator != 1 for row in rows):
        return None
    values = np.array([int(row) for row in rows])[:, None, None] * integers
    neurons, _, per_group = values.shape
    fixed = np.array(hint.fixed, np.int64)
    channels = np.zeros(per_group * groups, bool)
    if len(fixed):
        if not 0 <= fixed.min() <= fixed.max() < len(channels):
            return None
        channels[fixed] = True
    of = channels.reshape(groups, per_group)[np.arange(neurons) * groups // neurons][:, None, :]
    of = np.broadcast_to(of, values.shape)
    ones = [Fraction(1)] * neurons
    if not hint.xi:
        if hint.k or len(fixed) or np.abs(values).max() > 1 or (signed and (values < 0).any()):
            return None
        return values.astype(np.int8), 0, 0, fixed, ones
    tapped = values == hint.xi + (1 << hint.k)
    if (values[of] != 0).any() or not (tapped | (values == hint.xi) | of).all():
        return None
    if hint.k and not hint.xi % 2:
        return None
    return (tapped & ~of).astype(np.int8), hint.xi, hint.k, fixed, ones


def _recognised(matrix: Constant, signed: bool, groups: int) -> _Found | None:
    """Return taps, Ξ, k and scales of binary weights; None if they are none."""
    neurons = matrix.shape[0]
    try:
        found = recognise(
            matrix.reshaped(lambda codes: codes.reshape(neurons, -1)),
            scores=False,
            hint=None,
            groups=groups,
        )
    except ModelRejected:
        return None
    below = found.xi.denominator
    k = below.bit_length() - 1
    if below != 1 << k or k > 20 or (signed and (found.pattern < 0).any()):
        return None
    scale = [row / below for row in found.rows]
    fixed = np.zeros(0, np.int64)
    return found.pattern.reshape(matrix.shape), found.xi.numerator, k, fixed, scale
