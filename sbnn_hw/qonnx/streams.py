"""What is known of a tensor of integers: the streams that it is made of, and how.

A `Stream` is Σ factor·x + offset over one or two integer edges of one shape, with numbers for each
channel, and then perhaps bent by `Relu`, `Clip` or `PRelu`, until a quantiser rounds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Handle
from sbnn_hw.fold.stairs import Level, Stairs
from sbnn_hw.fold.surds import Surd
from sbnn_hw.netlist import Sums as SumsOf
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.tensors import Pad, per_lane

__all__ = ["Bend", "Stream", "Term", "Wired", "surds"]

Int = npt.NDArray[np.int64]
Surds = tuple[Surd, ...]


def surds(numbers: Sequence[Fraction]) -> Surds:
    """Return rationals as numbers that may get roots."""
    return tuple(map(Surd, numbers))


@dataclass(frozen=True, eq=False)
class Wired:
    """Sums of integers that are not a stage yet: the last ones become class scores."""

    name: str
    source: Handle
    sums: SumsOf


@dataclass(frozen=True, eq=False)
class Term:
    """An integer edge, or what will be one, and what each channel of it is multiplied by."""

    source: Handle | Wired
    factors: Surds


@dataclass(frozen=True, eq=False)
class Bend:
    """What is done to each channel behind the sum of terms: only one of these.

    ``ends``: clip. ``slopes``: multiply what is below zero. ``affine``: factors and offsets.
    """

    ends: tuple[Fraction | None, Fraction | None] | None = None
    slopes: tuple[Fraction, ...] | None = None
    affine: tuple[Surds, Surds] | None = None

    def chosen(self, which: Int) -> "Bend":
        """Return the bend of some channels."""
        slopes, affine = self.slopes, self.affine
        return Bend(
            self.ends,
            None if slopes is None else tuple(slopes[n] for n in which),
            None if affine is None else tuple(tuple(p[n] for n in which) for p in affine),  # type: ignore[arg-type]
        )

    def pulled(self, channel: int, level: Level, below: bool) -> tuple[Level, bool]:
        """Return what must come in so that a level is reached; ``below``: by what is not above."""
        if level.at is None or level.never:
            turned = self.affine is not None and self.affine[0][channel].sign() < 0
            return level, below ^ turned
        if self.ends is not None:
            return self._clipped(level, below), below
        if self.slopes is not None:
            slope = self.slopes[channel]
            if slope < 0:
                raise ModelRejected("has a slope below zero, which turns the order of values round")
            if slope == 0:
                return Bend(ends=(Fraction(0), None))._clipped(level, below), below
            at = level.at * (1 / slope) if level.at.sign() < 0 else level.at
            return replace(level, at=at), below
        assert self.affine is not None
        factor, offset = (part[channel] for part in self.affine)
        if not factor:
            order = (offset - level.at).sign() * (-1 if below else 1)
            reached = order > 0 or (order == 0 and not level.strict)
            return (Level(None) if reached else Level(Surd(), never=True)), below
        at = (level.at - offset) * factor.inverse()
        return replace(level, at=at), below ^ (factor.sign() < 0)

    def _clipped(self, level: Level, below: bool) -> Level:
        assert self.ends is not None
        assert level.at is not None
        near, far = reversed(self.ends) if below else self.ends
        turn = -1 if below else 1
        if near is not None:
            order = (Surd(near) - level.at).sign() * turn
            if order > 0 or (order == 0 and not level.strict):
                return Level(None)
        if far is not None:
            order = (Surd(far) - level.at).sign() * turn
            if order < 0 or (order == 0 and level.strict):
                return Level(Surd(), never=True)
        return level


@dataclass(frozen=True, eq=False, kw_only=True)
class Stream:
    """A tensor of integers, scaled: an element of channel *c* is Σ factor[c]·x + offset[c], bent.

    ``index`` is as for values; channels are the last axis of the netlist's order.
    """

    index: Int
    #: The shape of its edges.
    shape: tuple[int, ...]
    terms: tuple[Term, ...]
    offset: Surds
    bends: tuple[Bend, ...] = field(default=())
    #: Whether it is rounded down behind all this, and waits for a `Clip`.
    floored: bool = False
    #: The channel of the edge that each of its own is, where some were chosen or repeated.
    chosen: Int | None = None
    #: What a `Pad` node put around it; rows and columns below and right that repeat the last.
    pad: Pad | None = None
    beyond: tuple[int, int] = (0, 0)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.offset)

    @property
    def lane(self) -> Int:
        """The channel of each element."""
        return self.index % self.channels

    def numbers(self, constant: Constant) -> tuple[Fraction, ...]:
        """Return the number of each channel."""
        numbers = per_lane(constant, self.lane, self.channels)
        if numbers is None:
            raise ModelRejected("must have one number per channel, not per element")
        return tuple(numbers)

    def scaled(self, constant: Constant) -> "Stream":
        """Return the stream times a constant."""
        return self.affine(surds(self.numbers(constant)), (Surd(),) * self.channels)

    def shifted(self, constant: Constant) -> "Stream":
        """Return the stream plus a constant."""
        return self.affine((Surd(1),) * self.channels, surds(self.numbers(constant)))

    def affine(self, factor: Surds, shift: Surds) -> "Stream":
        """Return the stream times factors, plus shifts, for each channel."""
        self.check_open()
        if self.pad is not None or any(self.beyond):
            raise ModelRejected("changes padded values; pad in the convolution")
        if self.bends:
            last = self.bends[-1]
            kept = self.bends if last.affine is None else self.bends[:-1]
            if last.affine is not None:
                before, moved = last.affine
                shift = _plus(_times(moved, factor), shift)
                factor = _times(before, factor)
            return replace(self, bends=(*kept, Bend(affine=(factor, shift))))
        terms = tuple(Term(t.source, _times(t.factors, factor)) for t in self.terms)
        return replace(self, terms=terms, offset=_plus(_times(self.offset, factor), shift))

    def bent(self, bend: Bend) -> "Stream":
        """Return the stream behind a bend."""
        self.check_open()
        if self.pad is not None or any(self.beyond):
            raise ModelRejected("changes padded values; pad in the convolution")
        return replace(self, bends=(*self.bends, bend))

    def check_open(self) -> None:
        """Refuse what is rounded down and must be clipped first."""
        if self.floored:
            raise ModelRejected("follows a Floor that only a Clip may follow")

    def stairs(self, channel: int, levels: Sequence[Level]) -> Stairs:
        """Return which values of its sources reach the levels of a quantiser, for a channel."""
        pulled, turns = [], set()
        for level in levels:
            below = False
            for bend in reversed(self.bends):
                level, below = bend.pulled(channel, level, below)
            pulled.append(level)
            turns.add(below)
        (below,) = turns
        factors = tuple(term.factors[channel] for term in self.terms)
        offset = self.offset[channel]
        if below:
            factors, offset = tuple(-factor for factor in factors), -offset
            pulled = [x if x.at is None else replace(x, at=-x.at) for x in pulled]
        ranges = tuple(_range_of(term.source) for term in self.terms)
        return Stairs(factors, offset, tuple(pulled), ranges)


def _range_of(source: Handle | Wired) -> tuple[int, int]:
    edge = source.edge if isinstance(source, Handle) else source.sums.infer(source.source.edge)
    return edge.low, edge.high


def _times(a: Surds, b: Surds) -> Surds:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def _plus(a: Surds, b: Surds) -> Surds:
    return tuple(x + y for x, y in zip(a, b, strict=True))
