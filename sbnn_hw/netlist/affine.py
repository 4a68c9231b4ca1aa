"""A stream from one or two others: scaled, shifted, rounded down and clamped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import INTEGERS, TABLE, Array, Schema
from sbnn_hw.netlist.layer import Int, multiplications
from sbnn_hw.netlist.operation import Constants, Mask, Operation, Work, spare
from sbnn_hw.netlist.taps import freeze_integers, frozen_array
from sbnn_hw.netlist.wiring import EXACT

__all__ = ["Affine"]

# Values computed at a time: they stay in the cache.
_VALUES = 1 << 18


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine(Operation):
    """Scale one stream, or join two.

    t = Σ mᵢ·xᵢ + b, and u = t·2^h if t ≥ 0, else t·p; the value is ⌊(u + d)/2^(s+h)⌋, clamped to
    [low, high]. Without slopes u = t, and d and h are zero. All are integers: m, b, p and d a
    channel, s and h one a stage. What is to be rounded otherwise has that in b, or in d.

    Examples
    --------
    >>> halve = Affine(multipliers=[[1]], offsets=[1], shift=1, low=-8, high=7)
    >>> halve.compute(np.array([[-3], [3], [99]]), Edge((1,), -99, 99)).tolist()
    [[-1], [2], [7]]
    """

    kind: ClassVar[str] = "affine"
    most_sources: ClassVar[int] = 2
    schema: ClassVar[Schema] = {
        "multipliers": {**TABLE, "maxItems": 2},
        "offsets": INTEGERS,
        "shift": {"type": "integer", "minimum": 0, "maximum": 52},
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "slope_shift": {"type": "integer", "minimum": 0, "maximum": 30},
    }
    optional: ClassVar[Schema] = {"slopes": INTEGERS, "offsets_behind": INTEGERS}

    #: (sources, channels): m.
    multipliers: Int
    #: b of each channel.
    offsets: Int
    #: s.
    shift: int
    #: The ends of the clamp.
    low: int
    high: int
    #: p of each channel; None if there is no slope.
    slopes: Int | None = None
    #: h.
    slope_shift: int = 0
    #: d of each channel; None if there is no slope.
    offsets_behind: Int | None = None

    def __post_init__(self) -> None:
        for name in ("multipliers", "offsets", "slopes", "offsets_behind"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, frozen_array(given, np.int64, f"Affine {name}"))
        freeze_integers(self, "shift", "low", "high", "slope_shift")
        shape = self.multipliers.shape
        if len(shape) != 2 or shape[0] not in (1, 2) or not shape[1]:
            raise ModelRejected(
                f"Multipliers must be (sources, channels) of one or two sources, not {shape!r}"
            )
        object.__setattr__(self, "arity", shape[0])
        for name in ("offsets", "slopes", "offsets_behind"):
            given = getattr(self, name)
            if given is not None and given.shape != shape[1:]:
                raise ModelRejected(
                    f"Affine {name} must be ({shape[1]},), one a channel, not {given.shape!r}"
                )
        if self.shift not in range(53):
            raise ModelRejected(f"Shift must be between 0 and 52, not {self.shift!r}")
        if self.slope_shift not in range(31):
            raise ModelRejected(f"Slope shift must be between 0 and 30, not {self.slope_shift!r}")
        if (self.slopes is None) != (self.offsets_behind is None) or (
            self.slopes is None and self.slope_shift
        ):
            raise ModelRejected("Slopes, offsets behind them and a slope shift come together")
        if self.low > self.high or max(-self.low, self.high) >= EXACT:
            raise ModelRejected(
                f"A clamp must rise within 53 bits, not from {self.low} to {self.high}"
            )

    # What it computes

    def _ends_of_t(self, channel: int, edges: Sequence[Edge]) -> tuple[int, int, int]:
        """Return the ends of a channel's t, and what none of its sums exceeds."""
        factors = self.multipliers[:, channel].tolist()
        offset = int(self.offsets[channel])
        terms = [(m * edge.low, m * edge.high) for m, edge in zip(factors, edges, strict=True)]
        low, high = (offset + sum(map(end, terms)) for end in (min, max))
        return low, high, abs(offset) + sum(max(map(abs, pair)) for pair in terms)

    def _ends(self, channel: int, edges: Sequence[Edge]) -> tuple[int, int, int]:
        """Return the ends of a channel's values before the clamp, and what nothing exceeds.

        In Python's integers, which do not wrap round.
        """
        low, high, largest = self._ends_of_t(channel, edges)
        if self.slopes is None or self.offsets_behind is None:
            return low >> self.shift, high >> self.shift, largest
        slope, behind = int(self.slopes[channel]), int(self.offsets_behind[channel])
        # t·p and t·2^h are monotone, each on its side of zero.
        reached = [t * slope for t in (low, min(high, -1)) if low < 0]
        reached += [t << self.slope_shift for t in (max(low, 0), high) if high >= 0]
        largest = max(largest, *(abs(u) + abs(behind) for u in reached))
        by = self.shift + self.slope_shift
        return (min(reached) + behind) >> by, (max(reached) + behind) >> by, largest

    def reach(self, *edges: Edge) -> tuple[Int, Int]:
        """Return the least and the greatest value of each channel."""
        ends = [self._ends(channel, edges) for channel in range(self.multipliers.shape[1])]
        largest = max(end[2] for end in ends)
        if largest >= EXACT:
            raise ModelRejected(f"Its sums need more than 53 bits: they may reach {largest}")
        low, high = (np.array([end[n] for end in ends], np.int64) for n in (0, 1))
        return np.clip(low, self.low, self.high), np.clip(high, self.low, self.high)

    def infer(self, *edges: Edge) -> Edge:
        """Return the edge of clamped values: as much of the clamp's range as they can reach."""
        first, channels = edges[0], self.multipliers.shape[1]
        if first.channels != channels:
            raise ModelRejected(f"It takes {channels} channels, but receives {first.shape!r}")
        if any((edge.shape, edge.scan) != (first.shape, first.scan) for edge in edges):
            raise ModelRejected(
                f"It joins streams of one shape, but receives "
                f"{' and '.join(f'{edge.shape!r}' for edge in edges)}"
            )
        low, high = self.reach(*edges)
        return Edge(first.shape, int(low.min()), int(high.max()), first.scan)

    def needs(self, *edges: Edge) -> int:
        """Return the first schema of files that can say it."""
        return 2

    def compute(self, *inputs_and_edges: Array | Edge) -> Array:
        """Compute a batch: an array for each source, then their edges."""
        inputs: list[Array] = list(inputs_and_edges[: self.arity])  # type: ignore[arg-type]
        edges: list[Edge] = list(inputs_and_edges[self.arity :])  # type: ignore[arg-type]
        made = self.infer(*edges)
        channels = range(self.multipliers.shape[1])
        largest = max(self._ends(channel, edges)[2] for channel in channels)
        by = self.shift + self.slope_shift
        dtype = np.int32 if largest < 1 << 31 and by < 31 else np.int64
        factors, offsets = self.multipliers.astype(dtype), self.offsets.astype(dtype)
        out = np.empty(inputs[0].shape, made.dtype)
        step = max(1, _VALUES // edges[0].size)
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            t = np.multiply(inputs[0][part], factors[0], dtype=dtype)
            for x, factor in zip(inputs[1:], factors[1:], strict=True):
                t += np.multiply(x[part], factor, dtype=dtype)
            t += offsets
            if self.slopes is not None and self.offsets_behind is not None:
                # What a side of zero does not need may wrap round there, and is not chosen.
                t = np.where(t >= 0, t << self.slope_shift, t * self.slopes.astype(dtype))
                t += self.offsets_behind.astype(dtype)
            t >>= by
            out[part] = np.clip(t, made.low, made.high)
        return out

    def constants(self, *constants_and_edges: Constants | Edge) -> Constants:
        """Return the channels that have one value, given which inputs do."""
        before: list[Constants] = list(constants_and_edges[: self.arity])  # type: ignore[arg-type]
        edges: list[Edge] = list(constants_and_edges[self.arity :])  # type: ignore[arg-type]
        low, high = self.reach(*edges)
        for channel in np.flatnonzero(np.all([each.known for each in before], axis=0)).tolist():
            read = [
                Edge((1,), int(each.value[channel]), int(each.value[channel])) for each in before
            ]
            value = self._ends(channel, read)[0]
            low[channel] = high[channel] = min(max(value, self.low), self.high)
        return Constants(low == high, low)

    # What it reads

    def reads(self, wanted: Mask, *edges: Edge) -> tuple[Mask, ...]:
        """Return what is wanted, of sources that it multiplies by something."""
        return tuple(wanted & (factors != 0) for factors in self.multipliers)

    @property
    def droppable(self) -> int:
        """Every channel."""
        return len(self.offsets)

    def without(self, unread: Mask, *edges: Edge) -> Self:
        """Return the operation whose unread channels are constant, if the range stays."""
        low, high = self.reach(*edges)
        nearest = np.clip(np.zeros(len(low), np.int64), low.min(), high.max())
        return self._fixed(spare(unread, low, high), nearest)

    def _fixed(self, which: Mask, values: Int) -> Self:
        """Return the operation some of whose channels have a value whatever comes.

        A channel stays as it is where its value would leave 53 bits before the shift.
        """
        which = which & (np.abs(values) < EXACT >> self.shift)
        values = np.where(which, values, 0)
        slopes, behind = self.slopes, self.offsets_behind
        return replace(
            self,
            multipliers=np.where(which, 0, self.multipliers),
            offsets=np.where(which, values << self.shift, self.offsets),
            slopes=None if slopes is None else np.where(which, 1 << self.slope_shift, slopes),
            offsets_behind=None if behind is None else np.where(which, 0, behind),
        )

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the unread channels that were not constant."""
        return np.flatnonzero(unread & (self.multipliers != 0).any(axis=0))

    # What it takes

    def work(self, *edges: Edge) -> Work:
        """Return what it does for one image; shifts and clamps are not counted."""
        pixels = edges[0].size // edges[0].channels
        terms = (self.multipliers != 0).sum(axis=0) + (self.offsets != 0)
        additions = int(np.maximum(terms - 1, 0).sum())
        multiplied = multiplications(self.multipliers)
        if self.slopes is not None and self.offsets_behind is not None:
            additions += int((self.offsets_behind != 0).sum())
            multiplied += multiplications(self.slopes)
        return Work(additions=pixels * additions, multiplications=pixels * multiplied)

    # Its one form

    def once(self, keys: Sequence[str]) -> tuple["Affine", tuple[int, ...]]:
        """Return the operation that reads each source once, those in order that it multiplies."""
        rows: dict[str, Int] = {}
        for key, row in zip(keys, self.multipliers, strict=True):
            rows[key] = rows[key] + row if key in rows else row
        order = sorted(key for key, row in rows.items() if row.any()) or [min(keys)]
        made = replace(self, multipliers=np.array([rows[key] for key in order]))
        return made, tuple(list(keys).index(key) for key in order)

    def simplified(self, *edges: Edge) -> "Affine":
        """Return the form with the least shifts, the narrowest clamp, and no needless slope."""
        low, high = self.reach(*edges)
        made = self._fixed(low == high, low)
        if made.slopes is not None:
            channels = range(self.multipliers.shape[1])
            positive = [made._ends_of_t(channel, edges)[0] >= 0 for channel in channels]
            made = replace(made, slopes=np.where(positive, 1 << made.slope_shift, made.slopes))
        return replace(made._least(), low=int(low.min()), high=int(high.max()))

    def _least(self) -> "Affine":
        made = self
        slopes, behind = made.slopes, made.offsets_behind
        if slopes is not None and behind is not None:
            # t, p and 2^h lose the factors of two that all have; what is odd in d goes too.
            by = _twos(slopes, made.slope_shift)
            slopes, behind = slopes >> by, behind >> by
            made = replace(
                made, slopes=slopes, offsets_behind=behind, slope_shift=made.slope_shift - by
            )
            if made.slope_shift or (slopes != 1).any():
                by = _twos(np.concatenate([made.multipliers.ravel(), made.offsets]), made.shift)
                return replace(
                    made,
                    multipliers=made.multipliers >> by,
                    offsets=made.offsets >> by,
                    offsets_behind=behind >> by,
                    shift=made.shift - by,
                )
            # A slope of one is none.
            made = replace(made, slopes=None, offsets_behind=None, offsets=made.offsets + behind)
        by = _twos(made.multipliers, made.shift)
        return replace(
            made,
            multipliers=made.multipliers >> by,
            offsets=made.offsets >> by,
            shift=made.shift - by,
        )

    def passes(self, *edges: Edge) -> bool:
        """Whether every channel is what comes in."""
        edge = edges[0]
        return (
            len(edges) == 1
            and self.slopes is None
            and not self.shift
            and bool((self.multipliers == 1).all())
            and not self.offsets.any()
            and (self.low, self.high) == (edge.low, edge.high)
        )


def _twos(values: Int, most: int) -> int:
    """Return how many factors of two all values have in common, up to the most."""
    common = int(np.bitwise_or.reduce(values.ravel())) | 1 << most
    return (common & -common).bit_length() - 1
