"""Integers that round as a quantiser of real numbers does, on every value that can occur.

A quantiser counts the levels that z = Σ αᵢ·xᵢ + β reaches, where the xᵢ are integers of one or two
streams. It is said either by ⌊(Σ mᵢ·xᵢ + b)/2^s⌋, clamped, which is searched and proved here, or
by the integers at which one stream, or Σ mᵢ·xᵢ of two, reaches each level.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.surds import Surd

__all__ = ["Level", "Scaling", "Stairs", "find_join", "find_scaling", "has_ties", "steps_of"]

Int = npt.NDArray[np.int64]

#: The largest shift that is tried, and how large products of one source may become.
LARGEST_SHIFT, LARGEST_PRODUCT = 30, 1 << 50
#: Pairs of a level and a value of the second source that are decided for a channel.
MOST_PAIRS = 1 << 20


@dataclass(frozen=True, eq=False)
class Level:
    """What z must be for a level to be reached: at least ``at``, or above it; None is always."""

    at: Surd | None
    strict: bool = False
    never: bool = False


@dataclass(frozen=True, eq=False)
class Stairs:
    """What a quantiser makes of one channel: how many of its levels, in order, z reaches."""

    factors: tuple[Surd, ...]
    offset: Surd
    levels: tuple[Level, ...]
    #: The least and the greatest value of each source.
    ranges: tuple[tuple[int, int], ...]

    def key(self) -> object:
        """Return what channels that are the same have in common."""
        levels = tuple(
            (None if x.at is None else x.at.key(), x.strict, x.never) for x in self.levels
        )
        return tuple(x.key() for x in self.factors), self.offset.key(), levels, self.ranges


@dataclass(frozen=True, eq=False)
class Scaling:
    """⌊(Σ mᵢ·xᵢ + b)/2^s⌋: multipliers are (sources, channels)."""

    multipliers: Int
    offsets: Int
    shift: int


def steps_of(stairs: Stairs) -> tuple[Int, bool]:
    """Return the value from which on a source reaches each level, and whether it falls.

    Where it falls, a level is reached below that value. There must be one source.
    """
    (low, high), factor = stairs.ranges[0], stairs.factors[0]
    falls = factor.sign() < 0
    points = _Points(stairs)
    if falls:  # of −x, from the least that reaches it
        return np.clip(1 - points.first[:, 0], low, high + 1), True
    return np.clip(points.first[:, 0], low, high + 1), False


def find_scaling(channels: Sequence[Stairs], low: int) -> Scaling | None:
    """Return the multipliers of the least shift that give low plus the levels reached.

    What is clamped is right if it lies beyond the clamp's ends. None if there is no such scaling
    up to the largest shift.
    """
    known: dict[object, int] = {}
    which = [known.setdefault(stairs.key(), len(known)) for stairs in channels]
    different = [_Points(channels[which.index(n)]) for n in range(len(known))]
    solved: list[tuple[tuple[int, ...], int] | None] = [None] * len(different)
    for shift in range(LARGEST_SHIFT + 1):
        for n, points in enumerate(different):
            before = solved[n]
            solved[n] = points.scaling(shift, low)
            if solved[n] is None and before is not None:  # what is right stays right, doubled
                solved[n] = (tuple(2 * m for m in before[0]), 2 * before[1])
        found = [each for each in solved if each is not None]
        if len(found) == len(different):
            multipliers = np.array([found[n][0] for n in which], np.int64).T
            return Scaling(multipliers, np.array([found[n][1] for n in which], np.int64), shift)
    return None


def find_join(stairs: Stairs) -> tuple[tuple[int, ...], Int] | None:
    """Return multipliers, and the sum Σ mᵢ·xᵢ from which on each level is reached.

    None if sums of up to the largest shift do not tell what reaches a level from what does not.
    """
    points = _Points(stairs)
    factors = [_near(factor) for factor in stairs.factors]
    largest = max(map(abs, factors)) or Fraction(1)
    for shift in range(LARGEST_SHIFT + 1):
        found = tuple(round(factor * (1 << shift) / largest) for factor in factors)
        steps = points.steps(found)
        if steps is not None:
            return found, steps
    return None


def has_ties(stairs: Stairs) -> bool:
    """Whether some values reach a level exactly."""
    strict = tuple(replace(level, strict=not level.strict) for level in stairs.levels)
    other = _Points(replace(stairs, levels=strict))
    return not np.array_equal(_Points(stairs).first, other.first)


class _Points:
    """The values of the sources next to which levels are reached.

    ``lead`` is the source whose least value is asked for, its sign turned where its factor is
    negative; the other source, if there is one, takes every value.
    """

    def __init__(self, stairs: Stairs) -> None:
        self.stairs = stairs
        spans = [high - low for low, high in stairs.ranges]
        live = [n for n, factor in enumerate(stairs.factors) if factor]
        self.lead = max(live, key=lambda n: spans[n], default=0)
        others = [n for n in live if n != self.lead]
        self.other = others[0] if others else None
        low, high = stairs.ranges[self.lead]
        self.turned = stairs.factors[self.lead].sign() < 0
        self.low, self.high = (-high, -low) if self.turned else (low, high)
        if self.other is None:
            self.values = np.zeros(1, np.int64)
        else:
            least, most = stairs.ranges[self.other]
            if (most - least + 1) * len(stairs.levels) > MOST_PAIRS:
                raise ModelRejected(
                    f"joins streams of {high - low + 1:,} and {most - least + 1:,} values, more "
                    f"than are compared; quantise one of them to fewer bits"
                )
            self.values = np.arange(least, most + 1)
        #: By how many levels each source rises, about: those between the first and the last that
        #: are within reach are as far from each other.
        marks = [x.at for x in stairs.levels if x.at is not None and not x.never]
        factors = [_near(factor) for factor in stairs.factors]
        height = Fraction(0)
        if len(marks) > 1:
            height = _near(marks[-1] - marks[0]) / (len(marks) - 1)
        height = height or max(map(abs, factors)) or Fraction(1)
        self.slopes = [factor / height for factor in factors]
        #: (levels, values of the other): the least value of the lead that reaches a level.
        self.first = self._first()

    def _first(self) -> Int:
        stairs = self.stairs
        never, always = self.high + 1, self.low
        first = np.full((len(stairs.levels), len(self.values)), never, np.int64)
        factor = stairs.factors[self.lead]
        lead = -factor if self.turned else factor
        second = Surd() if self.other is None else stairs.factors[self.other]
        about = float(lead), float(second)
        for number, level in enumerate(stairs.levels):
            if level.never:
                continue
            if level.at is None:
                first[number] = always
                continue
            rest = level.at - stairs.offset
            if not lead:
                order = rest.sign()
                reached = order < 0 or (order == 0 and not level.strict)
                first[number] = always if reached else never
                continue
            first[number] = self._least(lead, second, rest, level.strict, about)
        return np.clip(first, always, never)

    def _least(
        self, lead: Surd, second: Surd, rest: Surd, strict: bool, about: tuple[float, float]
    ) -> Int:
        """Return the least x with lead·x ≥ rest − second·y, or > that, for each value y.

        By doubles ``about`` the factors where those are surely right, else exactly.
        """
        parts = [part.rational for part in (lead, second, rest)]
        if all(part is not None for part in parts):
            a, b, c = (part for part in parts if part is not None)
            common = lcm(a.denominator, b.denominator, c.denominator)
            step, beside, start = (int(part * common) for part in (a, b, c))
            largest = abs(start) + abs(beside) * int(np.abs(self.values).max()) + step
            values: Any = self.values if largest < 1 << 62 else self.values.astype(object)
            wanted = start - beside * values
            found = wanted // step + 1 if strict else -(-wanted // step)
            exact: Int = np.clip(found, self.low, self.high + 1).astype(np.int64)
            return exact
        (x, y), z = about, float(rest)
        at = (z - y * self.values) / x
        error = 1e-9 + 1e-12 * (abs(z) + np.abs(y * self.values)) / x
        if not np.isfinite(at).all() or error.max() > 1 << 10:
            raise ModelRejected("has scales that are too far apart to be compared")
        near = np.rint(at)
        outside = (at < self.low - 1 - error) | (at > self.high + 1 + error)
        least: Int = np.clip(np.ceil(at), self.low - 1, self.high + 2).astype(np.int64)
        for n in np.flatnonzero((np.abs(at - near) <= error) & ~outside).tolist():
            value = floor(at[n] - error[n])
            target = rest - second * int(self.values[n])
            while not _reaches(lead * value - target, strict):
                value += 1
            least[n] = value
        return least

    def scaling(self, shift: int, low: int) -> tuple[tuple[int, ...], int] | None:
        """Return multipliers and an offset that are right for this shift, if they are found."""
        stairs = self.stairs
        exact = [factor * (1 << shift) for factor in self.slopes]
        if stairs.factors[self.lead].sign() == 0 or (
            (self.first[:, :1] == self.first).all()
            and (((self.first == self.low) | (self.first > self.high)).all())
        ):
            return (0,) * len(exact), (low + int((self.first[:, 0] == self.low).sum())) << shift
        choices = {tuple(round(x) for x in exact), tuple(floor(x) for x in exact)}
        choices |= {tuple(ceil(x) for x in exact)}
        if len(exact) == 2:
            choices |= {(floor(exact[0]), ceil(exact[1])), (ceil(exact[0]), floor(exact[1]))}
        for multipliers in sorted(choices):
            offset = self._offset(multipliers, shift, low)
            if offset is not None:
                return multipliers, offset
        return None

    def steps(self, multipliers: tuple[int, ...]) -> Int | None:
        """Return the least sum that reaches each level, if all that do not have a smaller one."""
        lead = -multipliers[self.lead] if self.turned else multipliers[self.lead]
        if lead < 0:
            return None
        beside = 0 if self.other is None else multipliers[self.other] * self.values
        wide = np.iinfo(np.int64).max >> 2
        reached, missed = self.first <= self.high, self.first > self.low
        least = np.where(reached, lead * self.first + beside, wide).min(axis=1)
        most = np.where(missed, lead * (self.first - 1) + beside, -wide).max(axis=1)
        if (most >= least).any():
            return None
        found: Int = np.where(least == wide, most + 1, least)
        return found

    def _offset(self, multipliers: tuple[int, ...], shift: int, low: int) -> int | None:
        """Return an offset with which every level is reached where it must be: the middle one."""
        ranges = self.stairs.ranges
        spans = (abs(m) * max(map(abs, r)) for m, r in zip(multipliers, ranges, strict=True))
        if max(spans) >= LARGEST_PRODUCT:
            return None
        lead = -multipliers[self.lead] if self.turned else multipliers[self.lead]
        if lead < 0:
            return None
        beside = 0 if self.other is None else multipliers[self.other] * self.values
        wanted = (low + 1 + np.arange(len(self.first)) << shift)[:, None]
        reached, missed = self.first <= self.high, self.first > self.low
        least = wanted - lead * self.first - beside
        most = wanted - 1 - lead * (self.first - 1) - beside
        bottom = int(least[reached].max()) if reached.any() else None
        top = int(most[missed].min()) if missed.any() else None
        if bottom is None or top is None:
            return top if bottom is None else bottom
        return (bottom + top) // 2 if bottom <= top else None


def _near(number: Surd) -> Fraction:
    """Return a rational near a number."""
    return number.near(96)[0]


def _reaches(difference: Surd, strict: bool) -> bool:
    order = difference.sign()
    return order > 0 or (order == 0 and not strict)
