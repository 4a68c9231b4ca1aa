"""What makes few numbers of many: `BipolarQuant`, `Quant`, `MultiThreshold` and `Sign`.

Those of one bit are a comparison of an affine map of their input with a threshold, and two values
for its two answers. Others have levels. `Quant` of constants is computed exactly, whatever its
bits.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.qonnx.constants import Constant, joined_shape
from sbnn_hw.qonnx.graph import Node

__all__ = [
    "Levels",
    "Rule",
    "Steps",
    "bits_of",
    "levels_of",
    "quantise_constant",
    "rule_of",
    "steps_of",
]

HALF = Fraction(1, 2)


@dataclass(frozen=True, eq=False)
class Rule:
    """Compare ``x / divisor + shift`` with a threshold; answer ``low`` or ``high``."""

    threshold: Constant
    low: Constant
    high: Constant
    ties: Literal["fire", "rest", "refuse"] = "fire"
    divisor: Constant | None = None
    shift: Constant | None = None


@dataclass(frozen=True, eq=False)
class Levels:
    """The integers that a `Quant` rounds to, how, and its scale and zero point."""

    low: int
    high: int
    rounded: Callable[[Fraction], int]
    scale: Constant
    zero: Constant

    def reached(self, level: int) -> tuple[Fraction, bool]:
        """Return from where on numbers are rounded to a level or above; or only above that."""
        if self.rounded(level - Fraction(3, 4)) >= level:
            return Fraction(level - 1), True
        if self.rounded(level - HALF) >= level:
            return level - HALF, False
        if self.rounded(level - Fraction(1, 4)) >= level:
            return level - HALF, True
        return Fraction(level), False

    def level(self, x: Fraction, scale: Fraction, zero: Fraction) -> int:
        """Return the integer that a number is rounded to."""
        return self.rounded(min(max(x / scale + zero, Fraction(self.low)), Fraction(self.high)))

    def quantised(self, x: Fraction, scale: Fraction, zero: Fraction) -> Fraction:
        """Return what becomes of a number."""
        return (self.level(x, scale, zero) - zero) * scale


@dataclass(frozen=True, eq=False)
class Steps:
    """The thresholds of a `MultiThreshold`, and its scale and bias."""

    thresholds: Constant
    scale: Fraction
    bias: Fraction

    def each(self) -> list[Constant]:
        """Return the first threshold of all channels, the second of all, and so on."""
        columns = self.thresholds.codes.T
        return [Constant(column, self.thresholds.numbers) for column in columns]

    def counted(self, x: Fraction, thresholds: list[Fraction]) -> Fraction:
        """Return what becomes of a number; the thresholds of its channel increase."""
        return self.scale * bisect_right(thresholds, x) + self.bias


def _half_up(x: Fraction) -> int:
    return floor(x + HALF) if x >= 0 else -floor(-x + HALF)


def _half_down(x: Fraction) -> int:
    return ceil(x - HALF) if x >= 0 else -ceil(-x - HALF)


def _away(x: Fraction) -> int:
    return ceil(x) if x >= 0 else floor(x)


#: For each rounding mode: the function, and from where on a number in [0, 1] becomes 1.
_MODES: dict[str, tuple[Callable[[Fraction], int], tuple[Fraction, Literal["fire", "rest"]]]] = {
    "ROUND": (round, (HALF, "rest")),
    "HALF_EVEN": (round, (HALF, "rest")),
    "HALF_UP": (_half_up, (HALF, "fire")),
    "HALF_DOWN": (_half_down, (HALF, "rest")),
    "CEIL": (ceil, (Fraction(0), "rest")),
    "UP": (_away, (Fraction(0), "rest")),
    "FLOOR": (floor, (Fraction(1), "fire")),
    "DOWN": (int, (Fraction(1), "fire")),
    "ROUND_TO_ZERO": (int, (Fraction(1), "fire")),
}


def rule_of(node: Node, constants: Mapping[int, Constant]) -> Rule:
    """Return the comparison that a quantiser of an activation makes."""
    one = Constant.full(Fraction(1))
    if node.op == "Sign":
        return Rule(Constant.full(Fraction(0)), one.map(lambda x: -x), one, "refuse")
    if node.op == "BipolarQuant":
        scale = _wanted(node, constants, 1, "scale")
        return Rule(Constant.full(Fraction(0)), scale.map(lambda x: -x), scale)
    if node.op == "MultiThreshold":
        return _multi_threshold(node, constants)
    levels = levels_of(node, constants)
    bits = bits_of(node, constants)
    if bits != 1:
        raise node.refuse(f"gives {float(bits):g} bits where only one can be mapped")
    scale, zero = levels.scale, levels.zero
    if node.attributes.get("signed", 1):
        low, high = Fraction(-1), Fraction(1)
        threshold, ties = Fraction(0), "fire"
    else:
        low, high = Fraction(levels.low), Fraction(levels.high)
        threshold, ties = _MODES[_mode(node)][1]
        if low == high:
            raise node.refuse("has one bit with a narrow range, which leaves only one level")
    return Rule(
        Constant.full(threshold),
        zero.combine(scale, lambda z, s: (low - z) * s),
        zero.combine(scale, lambda z, s: (high - z) * s),
        ties,  # type: ignore[arg-type]
        scale,
        zero,
    )


def levels_of(node: Node, constants: Mapping[int, Constant]) -> Levels:
    """Return the levels of a `Quant`."""
    scale, zero = (_wanted(node, constants, n, w) for n, w in ((1, "scale"), (2, "zero point")))
    if any(number == 0 for number in scale.rationals):
        raise node.refuse("has a scale of zero")
    bits = bits_of(node, constants)
    if bits.denominator != 1 or not 1 <= bits <= 32:
        raise node.refuse(f"has {float(bits):g} bits; use 1 to 32")
    signed, narrow = (bool(node.integer(key, d)) for key, d in (("signed", 1), ("narrow", 0)))
    whole = 1 << int(bits)
    low, high = (-(whole // 2) + narrow, whole // 2 - 1) if signed else (0, whole - 1 - narrow)
    return Levels(low, high, _MODES[_mode(node)][0], scale, zero)


def bits_of(node: Node, constants: Mapping[int, Constant]) -> Fraction:
    """Return the bit width of a `Quant`."""
    return _wanted(node, constants, 3, "bit width").scalar()


def _mode(node: Node) -> str:
    mode = node.text("rounding_mode", "ROUND").upper()
    if mode not in _MODES:
        raise node.refuse(f"rounds by {mode!r:.40}; use one of {', '.join(_MODES)}")
    return mode


def _wanted(node: Node, constants: Mapping[int, Constant], place: int, what: str) -> Constant:
    if place not in constants:
        raise node.refuse(f"must have a constant {what}")
    return constants[place]


def steps_of(node: Node, constants: Mapping[int, Constant]) -> Steps:
    """Return the steps of a `MultiThreshold`."""
    thresholds = _wanted(node, constants, 1, "list of thresholds")
    if len(thresholds.shape) != 2 or not thresholds.codes.size:
        raise node.refuse(f"has thresholds of shape {thresholds.shape}; give one list per channel")
    scale = Fraction(node.number("out_scale", 1.0))
    if scale == 0:
        raise node.refuse("has an output scale of zero")
    return Steps(thresholds, scale, Fraction(node.number("out_bias", 0.0)))


def _multi_threshold(node: Node, constants: Mapping[int, Constant]) -> Rule:
    steps = steps_of(node, constants)
    if steps.thresholds.shape[1] != 1:
        raise node.refuse(
            f"has thresholds of shape {steps.thresholds.shape} where only one per channel can be "
            f"mapped"
        )
    return Rule(
        steps.thresholds.reshaped(lambda codes: codes[:, 0]),
        Constant.full(steps.bias),
        Constant.full(steps.scale + steps.bias),
    )


def quantise_constant(node: Node, x: Constant, constants: Mapping[int, Constant]) -> Constant:
    """Compute a quantiser of weights, exactly."""
    if node.op == "BipolarQuant":
        scale = _wanted(node, constants, 1, "scale")
        return x.sign().combine(scale, lambda sign, s: sign * s)
    levels = levels_of(node, constants)
    scale, zero = levels.scale, levels.zero
    if bits_of(node, constants) == 1 and node.attributes.get("signed", 1):
        # As QONNX has it, one signed bit is a sign, be its range narrow or not.
        rounded = _at_least_zero(x, scale, zero)
    else:
        rounded = _round(x, levels)
    shifted = rounded.combine(zero, lambda level, z: level - z)
    return shifted.combine(scale, lambda level, s: level * s)


def _at_least_zero(x: Constant, scale: Constant, zero: Constant) -> Constant:
    if zero.scalar() == 0:
        signs = scale.map(lambda s: Fraction(1) if s > 0 else Fraction(-1))
        if all(number > 0 for number in scale.rationals):
            return x.sign()
        return x.combine(signs, lambda a, s: a * s).sign()
    scaled = x.combine(scale, lambda a, s: a / s)
    return scaled.combine(zero, lambda a, z: a + z).sign()


def _round(x: Constant, levels: Levels) -> Constant:
    """Round x/scale + zero to levels: by doubles where those are surely right, else exactly."""
    parts = (x, levels.scale, levels.zero)
    shape = joined_shape(*parts)
    a, scale, zero = (part.doubles() for part in parts)
    with np.errstate(all="ignore"):
        y = a / scale + zero
        error = 1e-6 + 1e-14 * (np.abs(a / scale) + np.abs(zero))
        below, above = y < levels.low - error, y > levels.high + error
        # Whatever the mode, levels change at multiples of a half only.
        between = np.abs(2 * y - np.rint(2 * y)) > 2 * error
    sure = np.isfinite(y) & (below | above | between)
    result = np.where(below, levels.low, levels.high)
    inside = sure & ~below & ~above
    steps, codes = np.unique(np.floor(2 * y[inside]), return_inverse=True)
    result[inside] = _each(levels.rounded(Fraction(step + 0.5) / 2) for step in steps)[codes]
    triples = np.stack([np.broadcast_to(part.codes, shape)[~sure] for part in parts], axis=1)
    different, codes = np.unique(triples, axis=0, return_inverse=True)
    numbers = (
        [Fraction(part.numbers[code]) for part, code in zip(parts, triple, strict=True)]
        for triple in different.tolist()
    )
    result[~sure] = _each(levels.level(*three) for three in numbers)[codes.ravel()]
    return Constant.of(result.astype(np.float64))


def _each(numbers: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array([*numbers], np.int64)
