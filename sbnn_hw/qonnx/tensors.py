"""What is known of a tensor on its way through the graph: exactly which numbers it holds.

`Values` are pixels or bits that a netlist's edge carries, up to a scale and an offset. `Sums` are
what a binary layer made of them, not yet compared with anything. Integers, and what is made of
several tensors, are in `sbnn_hw.qonnx.streams`. All know where each element of the graph's tensor
lies in the netlist's order, so that reshaping is a matter of indices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Handle
from sbnn_hw.fold.exact import RationalNorm, compare_with_root
from sbnn_hw.netlist import Window
from sbnn_hw.qonnx.constants import Constant, bounded
from sbnn_hw.qonnx.weights import Weights

__all__ = ["Pad", "Pending", "Pool", "Root", "Sums", "Values", "per_lane"]

Int = npt.NDArray[np.int64]
Numbers = tuple[Fraction, ...]


def per_lane(constant: Constant, lane: Int, lanes: int) -> list[Fraction] | None:
    """Return the number of each lane, or None where the elements of one differ.

    The constant is broadcast against the tensor, whose batch axis ``lane`` leaves out.
    """
    shape = (1, *lane.shape)
    try:
        codes = np.broadcast_to(constant.codes, shape)[0]
    except ValueError:
        raise ModelRejected(
            f"joins numbers of shape {constant.shape} with a tensor of shape {lane.shape} per image"
        ) from None
    found = np.zeros(lanes, np.int64)
    found[lane] = codes
    if not np.array_equal(found[lane], codes):
        return None
    return [constant.rationals[code] for code in found]


@dataclass(frozen=True, eq=False)
class Pad:
    """Padding that a `Pad` node put around maps; for each lane or channel what it holds.

    Of sums, ``before_norm`` tells whether the batch norm has still to be applied to it.
    """

    window: tuple[int, int]
    values: Numbers
    before_norm: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Values:
    """Pixels or bits: an element of lane *l* is ``scale[l]·x + offset[l]``."""

    #: The stage whose values they are.
    at: Handle
    #: For each element of the tensor, without the batch, its place in the edge.
    index: Int
    #: For each element the lane it belongs to: its channel, unless something tells more apart.
    lane: Int
    scale: Numbers
    offset: Numbers
    #: How pixels are fed, ``auto`` if that is not decided yet; None for bits. For pixels *x* is
    #: what is fed; for bits it is −1 or +1.
    pixels: str | None = None
    #: The largest pixel.
    maximum: int = 255
    pad: Pad | None = None
    #: Whether they are of an integer type still, which wraps and truncates.
    integer: bool = False

    def scaled(self, constant: Constant) -> "Values":
        """Return the values times a constant."""
        state, (numbers,) = self.with_lanes(constant)
        return state._affine(numbers, (Fraction(0),) * len(numbers))

    def shifted(self, constant: Constant) -> "Values":
        """Return the values plus a constant."""
        state, (numbers,) = self.with_lanes(constant)
        return state._affine((Fraction(1),) * len(numbers), numbers)

    def _affine(self, factor: Sequence[Fraction], shift: Sequence[Fraction]) -> "Values":
        return replace(
            self,
            scale=bounded(s * f for s, f in zip(self.scale, factor, strict=True)),
            offset=bounded(o * f + t for o, f, t in zip(self.offset, factor, shift, strict=True)),
            pad=_padded(self.pad, factor, shift),
        )

    def with_lanes(self, *constants: Constant) -> tuple["Values", list[Numbers]]:
        """Return the number of each lane; the lanes are told apart where they have to be."""
        for told_apart in (False, True):
            state = self.apart() if told_apart else self
            found = [per_lane(constant, state.lane, len(state.scale)) for constant in constants]
            numbers = [tuple(numbers) for numbers in found if numbers is not None]
            if len(numbers) == len(constants):
                return state, numbers
            if self.pad is not None:
                break
        raise ModelRejected("must have one number per channel, after padding")

    def apart(self) -> "Values":
        """Return the same values with a lane for each element."""
        flat = self.lane.ravel()
        return replace(
            self,
            lane=np.arange(flat.size).reshape(self.lane.shape),
            scale=tuple(self.scale[lane] for lane in flat),
            offset=tuple(self.offset[lane] for lane in flat),
        )

    def rearranged(self, index: Int, lane: Int) -> "Values":
        """Return the values in another shape or order."""
        return replace(self, index=index, lane=lane)


def _padded(pad: Pad | None, factor: Sequence[Fraction], shift: Sequence[Fraction]) -> Pad | None:
    if pad is None:
        return None
    values = tuple(v * f + t for v, f, t in zip(pad.values, factor, shift, strict=True))
    return replace(pad, values=values)


@dataclass(frozen=True, eq=False)
class Pending:
    """A binary layer that has not been closed by a quantiser yet.

    ``extra`` is what its sums hold whatever the inputs are, for each border class and neuron;
    ``classes`` is the class of each window, where there are several. ``values`` returns what its
    sums are as a stream of integers; it does not know of what was ``shifted`` by border classes.
    """

    name: str
    source: Handle
    weights: Weights
    extra: list[list[Fraction]]
    values: Callable[[], Any]
    window: Window | None = None
    groups: int = 1
    border: str = "minus"
    classes: Int | None = None
    shifted: bool = False


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool in front of the quantiser; where what follows turns the order round it is an AND."""

    name: str
    window: Window
    turned: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Root:
    """A batch norm: gain·(x − mean)/√spread + bias, for each channel."""

    gain: Numbers
    mean: Numbers
    bias: Numbers
    spread: Numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """What a layer makes, up to ``outer ∘ norm ∘ inner``, each channel by itself.

    ``index`` is as for :class:`Values`; channels are the last axis of the netlist's order.
    """

    layer: Pending
    index: Int
    inner: tuple[Numbers, Numbers]
    outer: tuple[Numbers, Numbers]
    norm: Root | None = None
    pools: tuple[Pool, ...] = field(default=())
    pad: Pad | None = None

    @property
    def channels(self) -> int:
        """Number of neurons."""
        return len(self.inner[0])

    @property
    def lane(self) -> Int:
        """The channel of each element."""
        return self.index % self.channels

    def numbers(self, constant: Constant) -> Numbers:
        """Return the number of each channel."""
        numbers = per_lane(constant, self.lane, self.channels)
        if numbers is None:
            raise ModelRejected("must have one number per channel, not per element")
        return tuple(numbers)

    def scaled(self, constant: Constant) -> "Sums":
        """Return the sums times a constant."""
        numbers = self.numbers(constant)
        return self._affine(numbers, (Fraction(0),) * len(numbers))

    def shifted(self, constant: Constant) -> "Sums":
        """Return the sums plus a constant, which may differ from border class to border class."""
        if per_lane(constant, self.lane, self.channels) is None and self.layer.classes is not None:
            return self._shifted_by_class(constant, self.layer.classes)
        numbers = self.numbers(constant)
        return self._affine((Fraction(1),) * len(numbers), numbers)

    def _shifted_by_class(self, constant: Constant, classes: Int) -> "Sums":
        count = len(self.layer.extra)
        of_element = classes.ravel()[self.index // self.channels] if not self.pools else self.lane
        found = per_lane(constant, self.lane * count + of_element, self.channels * count)
        factor = [s * row for s, row in zip(self.inner[0], self.layer.weights.rows, strict=True)]
        if found is None or self.norm is not None or self.pools or self.pad or 0 in factor:
            raise ModelRejected("must have one number per channel, not per element")
        extra = [
            [e + found[n * count + row] / factor[n] for n, e in enumerate(numbers)]
            for row, numbers in enumerate(self.layer.extra)
        ]
        return replace(self, layer=replace(self.layer, extra=extra, shifted=True))

    def _affine(self, factor: Numbers, shift: Numbers) -> "Sums":
        scale, offset = self.inner if self.norm is None else self.outer
        changed = (
            bounded(s * f for s, f in zip(scale, factor, strict=True)),
            bounded(o * f + t for o, f, t in zip(offset, factor, shift, strict=True)),
        )
        state: Any = {"inner" if self.norm is None else "outer": changed}
        pad = self.pad
        if pad is not None and not (self.norm is not None and pad.before_norm):
            pad = _padded(pad, factor, shift)
        return replace(self, **state, pad=pad, pools=_turn(self.pools, factor))

    def normed(self, root: Root) -> Self:
        """Return the sums behind a batch norm."""
        if self.norm is not None:
            raise ModelRejected("is a second batch norm after one layer; fold them into one")
        return replace(self, norm=root, pools=_turn(self.pools, root.gain))

    def norm_against(self, threshold: Numbers) -> RationalNorm:
        """Return the norm that is at least zero where a channel reaches its threshold."""
        rows = [self._row(channel, threshold[channel]) for channel in range(self.channels)]
        gain, mean, bias, spread = zip(*rows, strict=True)
        return RationalNorm(gain, mean, bias, spread)

    def _row(self, c: int, threshold: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        (s, t), (s2, t2) = ((part[0][c], part[1][c]) for part in (self.inner, self.outer))
        s *= self.layer.weights.rows[c]
        if self.norm is None:
            g, m, b, w = Fraction(1), Fraction(0), Fraction(0), Fraction(1)
        else:
            g, m, b, w = (
                part[c]
                for part in (self.norm.gain, self.norm.mean, self.norm.bias, self.norm.spread)
            )
        gain, bias = s2 * g * s, s2 * b + t2 - threshold
        if gain == 0:
            # Whatever comes in, it is this number: s2·g·(t − m)/√w + bias.
            constant = compare_with_root(s2 * g * (t - m), -bias, w)
            return Fraction(0), Fraction(0), Fraction(constant), Fraction(1)
        return gain, (m - t) / s, bias, w

    def pad_reaches(self, threshold: Numbers, ties: str) -> list[bool]:
        """Tell for each channel whether its padding reaches the threshold."""
        assert self.pad is not None
        orders = []
        for c, value in enumerate(self.pad.values):
            if self.norm is not None and self.pad.before_norm:
                norm, (s2, t2) = self.norm, (self.outer[0][c], self.outer[1][c])
                left = s2 * norm.gain[c] * (value - norm.mean[c])
                right = threshold[c] - t2 - s2 * norm.bias[c]
                orders.append(compare_with_root(left, right, norm.spread[c]))
            else:
                orders.append((value > threshold[c]) - (value < threshold[c]))
        if ties == "refuse" and 0 in orders:
            raise ModelRejected("gives padding the sign 0, which is not a bit; use BipolarQuant")
        return [order > 0 or (order == 0 and ties == "fire") for order in orders]


def _turn(pools: tuple[Pool, ...], factor: Numbers) -> tuple[Pool, ...]:
    negative = np.array([number < 0 for number in factor])
    return tuple(replace(pool, turned=pool.turned ^ negative) for pool in pools)
