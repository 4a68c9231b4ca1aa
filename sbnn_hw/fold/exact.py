"""Integer thresholds that decide exactly as batch norm, sign, ξ, η and q do.

A neuron fires iff u ≥ θ (or u ≤ θ), where u = a + ξ·(a + b) for the sum a ∈ [0, A] of its live
taps and the sum b ∈ [0, B] of the other live inputs, and θ = R + Q·√w holds everything else:

    R = m·(μ/η − e + S + ξN)/2 − c_S − ξ·c_N      Q = −m·β/(2gη)      w = v + ε

(m the largest input value, S and N the numbers of taps and inputs, c_S and c_N the sums of those
that are constant, e what is added to z/η whatever the inputs are; μ, v, g, β and ε of the batch
norm). All pairs (a, b) are decided, by floats
where an error bound allows and by rationals elsewhere, √ by squaring. Then the least k is found
for which one integer threshold on 2^k·a + Ξ·(a + b) with Ξ = round(2^k·ξ) makes all the same
decisions; on a grid of 2^−k that is the grid's k at most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected

__all__ = [
    "Norm",
    "Problem",
    "RationalNorm",
    "Solution",
    "align_scores",
    "compare_with_root",
    "solve",
]

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

#: The largest k that is tried; beyond it the products would leave 64 bits.
LARGEST_K = 40
# Segments are decided in pieces of about so many rows, to bound the memory.
_ROWS = 1 << 21
# A generous bound on the relative rounding error of a dozen operations (2^−53 each).
_SLACK = 2.0**-46
# Well above the smallest number that a double holds with full precision.
_NORMAL = 1e-290


@dataclass(frozen=True, eq=False)
class Norm:
    """The batch norm behind a layer: y = gain·(z − mean)/√(variance + eps) + bias.

    Arrays of doubles, which hold every float exactly.
    """

    gain: Float
    mean: Float
    variance: Float
    bias: Float
    eps: float

    def __post_init__(self) -> None:
        for name in ("gain", "mean", "variance", "bias"):
            array = np.asarray(getattr(self, name), np.float64)
            object.__setattr__(self, name, array)
            if not np.isfinite(array).all():
                where = int(np.flatnonzero(~np.isfinite(array))[0])
                raise ModelRejected(
                    f"its batch norm's {name} is {array[where]} at neuron {where}; train it again"
                )
        if not np.isfinite(self.eps) or (self.variance < 0).any() or self.eps < 0:
            raise ModelRejected("its batch norm's variance is negative; train it again")
        if ((self.variance == 0) & (self.eps == 0)).any():
            raise ModelRejected("its batch norm's variance and eps are zero; train it again")

    @classmethod
    def none(cls, neurons: int) -> "Norm":
        """Return the norm that changes nothing."""
        zeros, ones = np.zeros(neurons), np.ones(neurons)
        return cls(ones, zeros, ones, zeros, 0.0)

    def exact(self, neuron: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """Return gain, mean, bias, and variance with eps, of a neuron."""
        gain, mean, bias, variance = (
            Fraction(array[neuron]) for array in (self.gain, self.mean, self.bias, self.variance)
        )
        return gain, mean, bias, variance + Fraction(self.eps)

    def negated(self) -> "Norm":
        """Return the norm that gives −y."""
        return Norm(-self.gain, self.mean, self.variance, -self.bias, self.eps)


class RationalNorm(Norm):
    """A batch norm whose numbers are rationals; the arrays hold the nearest doubles.

    The spread of a neuron is what the root is taken of.
    """

    def __init__(
        self,
        gain: Sequence[Fraction],
        mean: Sequence[Fraction],
        bias: Sequence[Fraction],
        spread: Sequence[Fraction],
    ) -> None:
        rows = list(zip(gain, mean, bias, spread, strict=True))
        object.__setattr__(self, "_exact", rows)
        super().__init__(
            gain=_doubles(gain),
            mean=_doubles(mean),
            variance=_doubles(spread),
            bias=_doubles(bias),
            eps=0.0,
        )

    _exact: list[tuple[Fraction, Fraction, Fraction, Fraction]]

    def exact(self, neuron: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        return self._exact[neuron]

    def negated(self) -> "RationalNorm":
        gain, mean, bias, spread = zip(*self._exact, strict=True)
        return RationalNorm([-g for g in gain], mean, [-b for b in bias], spread)


def _doubles(values: Sequence[Fraction]) -> Float:
    """Return the nearest doubles; what would become zero or infinite is refused."""
    try:
        array = np.array([float(value) for value in values])
    except OverflowError:
        array = np.array([np.inf])
    if not np.isfinite(array).all() or any(
        value and not double for value, double in zip(values, array, strict=True)
    ):
        raise ModelRejected("its scales or offsets are too large or too small for a double")
    return array


@dataclass(frozen=True, eq=False)
class Problem:
    """The neurons of a layer, as sums to be compared. Arrays are (classes, neurons).

    ``extra`` is what is added to z/η whatever the inputs are; ``least_k`` is where the search for
    k begins.
    """

    eta: Fraction
    xi: Fraction
    maximum: int
    norm: Norm
    taps: Int
    inputs: Int
    constant_taps: Int
    constant_inputs: Int
    most_tapped: Int
    most_others: Int
    extra: Sequence[Sequence[Fraction]] | None = None
    least_k: int = 0


@dataclass(frozen=True, eq=False)
class Solution:
    """Integer thresholds for a problem.

    ``constants`` is −1 for neurons that depend on their inputs, else the bit that they give.
    ``decisions`` counts the pairs of sums that were decided, ``rationals`` those decisions for
    which floats did not do.
    """

    xi: int
    k: int
    thresholds: Int
    flips: npt.NDArray[np.bool_]
    constants: npt.NDArray[np.int8]
    decisions: int
    rationals: int

    def complement(self, turned: npt.NDArray[np.bool_]) -> "Solution":
        """Return the solution in which some neurons fire where they did not."""
        swapped = turned & (self.constants >= 0)
        constants = np.where(swapped, 1 - self.constants, self.constants).astype(np.int8)
        return replace(self, flips=self.flips ^ turned, constants=constants)


def solve(problem: Problem) -> Solution:
    """Find the least k and the integer thresholds that decide as the problem does."""
    return _Solver(problem).solve()


class _Solver:
    def __init__(self, problem: Problem) -> None:
        self.p = problem
        self.shape = problem.taps.shape
        norm, neurons = problem.norm, self.shape[1]
        self.neuron = np.tile(np.arange(neurons), self.shape[0])  # of each segment
        self.most_a = problem.most_tapped.ravel()
        self.most_b = problem.most_others.ravel()
        sign = np.sign(norm.gain) * (1 if problem.eta > 0 else -1)
        self.live = sign != 0
        #: Whether the comparison must be strict: below the flip, "does not fire" is u > θ.
        self.flips = sign < 0
        self.strict = self.flips[self.neuron]
        self.rationals = 0
        self._exact_parts: dict[int, tuple[Fraction, Fraction, Fraction]] = {}
        self._estimate()

    # θ, by floats with an error bound, and exactly

    def _estimate(self) -> None:
        p, norm = self.p, self.p.norm
        gain = np.where(self.live, norm.gain, 1.0)
        eta, xi, m = float(p.eta), float(p.xi), float(p.maximum)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            root = np.sqrt(norm.variance + norm.eps)
            above, below = -m * norm.bias * root, 2 * gain * eta
            centre = m * norm.mean / (2 * eta)
            extra = np.zeros(self.shape) if p.extra is None else np.array([*map(_doubles, p.extra)])
            terms = [
                centre[None],
                -m * extra / 2,
                (above / below)[None],
                m * (p.taps + xi * p.inputs) / 2,
                -(p.constant_taps + xi * p.constant_inputs),
            ]
            self.theta = sum(terms).ravel()  # type: ignore[union-attr]
            sizes = sum(np.abs(term) for term in terms) + abs(m * xi) * p.inputs
            self.error = (sizes * _SLACK).ravel()
            # Below the normal numbers the relative error has no bound.
            tiny = np.abs(below) < _NORMAL
            for value, factor in (
                (above, norm.bias),
                (above / below, norm.bias),
                (centre, norm.mean),
            ):
                tiny |= (np.abs(value) < _NORMAL) & (factor != 0)
        lost = ~np.isfinite(self.theta) | ~np.isfinite(self.error)
        lost |= np.tile(tiny | (min(abs(eta), abs(xi) if p.xi else 1.0) < _NORMAL), self.shape[0])
        lost |= ((np.abs(extra) < _NORMAL) & (extra != 0)).ravel()
        self.theta[lost], self.error[lost] = 0.0, np.inf

    def _parts(self, segment: int) -> tuple[Fraction, Fraction, Fraction]:
        """Return R, Q and w of a segment."""
        p, neuron = self.p, int(self.neuron[segment])
        if neuron not in self._exact_parts:
            gain, mean, bias, spread = p.norm.exact(neuron)
            self._exact_parts[neuron] = (
                p.maximum * mean / p.eta / 2,
                -p.maximum * bias / (2 * gain * p.eta),
                spread,
            )
        centre, q, spread = self._exact_parts[neuron]
        taps, inputs, c_taps, c_inputs = (
            int(array.ravel()[segment])
            for array in (p.taps, p.inputs, p.constant_taps, p.constant_inputs)
        )
        sums = taps + p.xi * inputs
        if p.extra is not None:
            sums -= p.extra[segment // self.shape[1]][neuron]
        r = centre + Fraction(p.maximum, 2) * sums - c_taps - p.xi * c_inputs
        return r, q, spread

    def _reaches(
        self, u: Fraction, parts: tuple[Fraction, Fraction, Fraction], strict: bool
    ) -> bool:
        """Decide u ≥ θ, or u > θ, by rationals."""
        self.rationals += 1
        r, q, w = parts
        order = compare_with_root(u - r, q, w)
        return order > 0 or (order == 0 and not strict)

    # Decisions

    def solve(self) -> Solution:
        if self.p.xi == 0:
            return self._solve_without_q()
        rows_per_segment = self.most_a + 1
        starts = np.concatenate([[0], np.cumsum(rows_per_segment)])
        bounds = np.empty(int(starts[-1]), np.int64)
        first = 0
        while first < len(self.most_a):
            last = int(np.searchsorted(starts, starts[first] + _ROWS, "right")) - 1
            last = max(last, first + 1)
            bounds[starts[first] : starts[last]] = self._decide_rows(first, last, starts)
            first = last
        return self._search_k(bounds, starts)

    def _decide_rows(self, first: int, last: int, starts: Int) -> Int:
        """Return for each a of each segment where, along b, the decision changes.

        For ξ > 0 the comparison holds from that b on, for ξ < 0 it holds below that b.
        """
        count = self.most_a[first:last] + 1
        segment = np.repeat(np.arange(first, last), count)
        a = np.arange(len(segment)) - np.repeat(starts[first:last] - starts[first], count)
        most = self.most_b[segment]
        # A ξ too small for a double is of no use, but then no float is trusted either.
        xi = float(self.p.xi) or math.copysign(1.0, self.p.xi.numerator)
        theta = self.theta[segment]
        at = (theta - a) / xi - a
        error = (2 * self.error[segment] + (np.abs(theta) + a) * _SLACK) / abs(xi)
        error += (np.abs(at) + a + 1) * _SLACK
        near = np.rint(at)
        # Floats decide where the border is clearly between two integers, or clearly outside.
        unsure = (np.abs(at - near) <= error) & (near >= 0) & (near <= most) & (error < 0.25)
        lost = ~(error < 0.25) & self.live[self.neuron[segment]]
        at = np.clip(np.where(np.isfinite(at), at, 0.0), -2.0, most + 2.0)
        bound = (np.ceil(at) if xi > 0 else np.floor(at) + 1).astype(np.int64)
        for row in np.flatnonzero(lost & ~unsure):
            bound[row] = self._bisect(int(segment[row]), int(a[row]), int(most[row]))
        rows = np.flatnonzero(unsure & self.live[self.neuron[segment]])
        if len(rows):
            holds = self._decide_exactly(segment[rows], a[rows], near[rows].astype(np.int64))
            # At b = near the comparison holds or not; one step further it is the other way.
            inclusive = holds if xi < 0 else ~holds
            bound[rows] = near[rows].astype(np.int64) + inclusive
        clipped: Int = np.clip(bound, 0, most + 1)
        return clipped

    def _decide_exactly(self, segment: Int, a: Int, b: Int) -> npt.NDArray[np.bool_]:
        """Decide pairs by rationals; equal sums of one segment are decided once."""
        top, bottom = self.p.xi.numerator, self.p.xi.denominator
        holds = np.empty(len(segment), bool)
        known: dict[int, bool] = {}
        parts, current = None, -1
        for row, (s, x, y) in enumerate(zip(segment.tolist(), a.tolist(), b.tolist(), strict=True)):
            if s != current:
                parts, current, known = self._parts(s), s, {}
            u = x * bottom + top * (x + y)
            if u not in known:
                assert parts is not None
                known[u] = self._reaches(Fraction(u, bottom), parts, bool(self.strict[s]))
            holds[row] = known[u]
        return holds

    def _bisect(self, segment: int, a: int, most: int) -> int:
        """Find the border along b by rationals alone, where floats are of no use."""
        parts, strict, xi = self._parts(segment), bool(self.strict[segment]), self.p.xi
        low, high = 0, most + 1
        while low < high:
            middle = (low + high) // 2
            holds = self._reaches(a + xi * (a + middle), parts, strict)
            if holds == (xi > 0):
                high = middle
            else:
                low = middle + 1
        return low

    # Thresholds

    def _search_k(self, bounds: Int, starts: Int) -> Solution:
        p, positive = self.p, self.p.xi > 0
        segment = np.repeat(np.arange(len(self.most_a)), self.most_a + 1)
        a = np.arange(len(segment)) - starts[segment]
        most = self.most_b[segment]
        live = self.live[self.neuron[segment]]
        inside = live & (bounds <= most if positive else bounds > 0)
        outside = live & (bounds > 0 if positive else bounds <= most)
        # The b at which, in its row, the least value inside and the greatest outside are taken.
        inner, outer = (bounds, bounds - 1) if positive else (bounds - 1, bounds)
        largest = int(self.most_a.max(initial=0) + self.most_b.max(initial=0)) + 1
        huge = np.iinfo(np.int64).max
        for k in range(p.least_k, LARGEST_K + 1):
            xi = round(p.xi * 2**k)
            if (2**k + abs(xi)) * largest >= 1 << 60:
                break
            row = (2**k + xi) * a
            least = np.minimum.reduceat(np.where(inside, row + xi * inner, huge), starts[:-1])
            greatest = np.maximum.reduceat(np.where(outside, row + xi * outer, -huge), starts[:-1])
            if (greatest < least).all():
                return self._finish(xi, k, least, least == huge, greatest == -huge)
        raise ModelRejected(
            f"no k up to {LARGEST_K} makes ξ = {float(p.xi)} exact; use weights whose ξ has few "
            f"bits, for example by training with --xi-bits 8"
        )

    def _solve_without_q(self) -> Solution:
        """Without q the sums are compared with ⌈θ⌉, or with ⌊θ⌋ + 1 where strict."""
        at = np.where(np.isfinite(self.theta), self.theta, 0.0)
        near = np.rint(at)
        sure = (np.abs(at - near) > self.error) & (self.error < 0.25)
        out = (self.error < 0.25) & ((near < 0) | (near > self.most_a))
        clipped = np.clip(at, -2.0, self.most_a + 2.0)
        least = np.clip(np.ceil(clipped).astype(np.int64), 0, self.most_a + 1)
        for segment in np.flatnonzero(~sure & ~out & self.live[self.neuron]).tolist():
            parts, strict = self._parts(segment), bool(self.strict[segment])
            if self.error[segment] < 0.25:
                n = int(near[segment])
                least[segment] = n if self._reaches(Fraction(n), parts, strict) else n + 1
                continue
            low, high = 0, int(self.most_a[segment]) + 1
            while low < high:
                middle = (low + high) // 2
                if self._reaches(Fraction(middle), parts, strict):
                    high = middle
                else:
                    low = middle + 1
            least[segment] = low
        return self._finish(0, 0, least, least > self.most_a, least <= 0)

    def _finish(
        self, xi: int, k: int, least: Int, empty: npt.NDArray[np.bool_], full: npt.NDArray[np.bool_]
    ) -> Solution:
        # Never: one above the greatest value that can occur.
        never = 1 + np.maximum((2**k + xi) * self.most_a, 0) + np.maximum(xi * self.most_b, 0)
        thresholds = np.where(empty, never, least).reshape(self.shape)
        always = full.reshape(self.shape).all(axis=0)
        nowhere = empty.reshape(self.shape).all(axis=0)
        constants = np.full(self.shape[1], -1, np.int8)
        constants[always] = 1
        constants[nowhere] = 0
        constants = np.where((constants >= 0) & self.flips, 1 - constants, constants)
        constants = np.where(self.live, constants, self.p.norm.bias >= 0).astype(np.int8)
        if self.p.xi == 0:
            decisions = int((self.most_a + 1).sum())
        else:
            decisions = int(((self.most_a + 1) * (self.most_b + 1)).sum())
        return Solution(xi, k, thresholds, self.flips, constants, decisions, self.rationals)


def compare_with_root(d: Fraction, q: Fraction, w: Fraction) -> int:
    """Return the sign of d − q·√w, for w > 0."""
    left, right = (d > 0) - (d < 0), (q > 0) - (q < 0)
    if left != right:
        return 1 if left > right else -1
    squares = d * d - q * q * w
    return left * ((squares > 0) - (squares < 0))


def align_scores(
    offsets: list[Fraction], reach: list[int], least_m: int = 0
) -> tuple[int, list[int]]:
    """Return the least m from ``least_m`` on, and integers o, that order as the exact offsets do.

    The score of class j is d_j + offset_j, where d_j takes every second integer from −reach_j to
    reach_j. The integer score 2^m·d_j + o_j must give every pair of classes the same order, ties
    included.
    """
    for m in range(least_m, LARGEST_K + 1):
        rounded = [round(offset * 2**m) for offset in offsets]
        if all(
            _cell(offsets[i] - offsets[j], reach[i] + reach[j])
            == _cell(Fraction(rounded[i] - rounded[j], 2**m), reach[i] + reach[j])
            for i in range(len(offsets))
            for j in range(i)
        ):
            return m, rounded
    raise ModelRejected(
        "its offsets are too fine for integer scores; round them to fewer bits, or use a last "
        "layer without offsets, such as SparseBinaryScores"
    )


def _cell(difference: Fraction, reach: int) -> int:
    """Number the places among −reach, −reach + 2, …, reach at which −difference can lie."""
    position = (-difference + reach) / 2
    whole = position.numerator // position.denominator
    cell = 2 * whole + (position != whole)
    return max(-1, min(cell, 2 * reach + 1))
