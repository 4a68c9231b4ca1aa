"""Stages with taps: layers of popcount-and-threshold neurons, and the class scores."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.taps import Taps, frozen_array
from sbnn_hw.netlist.windows import Borders, Window, find_borders

__all__ = ["Conv2d", "Layer", "Linear", "Scores"]

Int = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

# Images computed at a time: their bits stay in the cache.
_VECTORS, _MAPS = 1000, 64


def _sum_type(largest: int) -> type:
    return np.uint16 if largest < 1 << 16 else np.int64


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """Neurons that share ξ = ``xi`` / 2^``k``.

    A neuron fires iff (2^k·pc_S + Ξ·pc_N ≥ C) xor flip, where pc_S is the sum of its taps and
    pc_N that of all the inputs it could have been wired to.

    Parameters
    ----------
    taps : Taps
        The connections.
    xi, k : int
        Ξ and k; Ξ is odd or k is zero.
    thresholds : array (classes, neurons)
        C, for each border class.
    flips : array of bool (neurons)
        Neurons that fire below the threshold.
    fixed : array of int
        Inputs (channels of a map) that are constant: not tapped, not counted in pc_N.
    """

    kind: ClassVar[str]

    taps: Taps
    xi: int
    k: int
    thresholds: Int
    flips: npt.NDArray[np.bool_]
    fixed: Int

    def __post_init__(self) -> None:
        for name, dtype in (("thresholds", np.int64), ("flips", np.bool_), ("fixed", np.int64)):
            array = frozen_array(getattr(self, name), dtype, f"Layer {name}")
            object.__setattr__(self, name, array)
        if self.k not in range(41) or abs(self.xi) >= 1 << 42:
            raise ModelRejected(f"k must be between 0 and 40, not {self.k!r}, with Ξ {self.xi!r}")
        if self.k and not self.xi % 2:
            raise ModelRejected(f"Ξ must be odd or k zero, not {self.xi!r} and {self.k!r}")
        neurons = len(self.taps)
        if self.thresholds.ndim != 2 or self.thresholds.shape[1] != neurons:
            raise ModelRejected(
                f"Thresholds must be (classes, {neurons}), not {self.thresholds.shape!r}"
            )
        if self.flips.shape != (neurons,):
            raise ModelRejected(f"Flips must be ({neurons},), not {self.flips.shape!r}")
        if self.xi and self.taps.inverted.any():
            raise ModelRejected("Inverted taps go with Ξ = 0 only")
        if len(self.fixed) and not self.xi:
            raise ModelRejected("Fixed inputs are named only where Ξ is not zero")
        if self.fixed.ndim != 1 or (np.diff(self.fixed) <= 0).any():
            raise ModelRejected("Fixed inputs must increase")

    def _check_fixed(self, channels: int) -> None:
        if len(self.fixed) and not (self.fixed[0] >= 0 and self.fixed[-1] < channels):
            raise ModelRejected(f"Fixed inputs must be below {channels}, not {self.fixed[-1]}")
        tapped = self.taps.indices % channels
        if len(self.fixed) and np.isin(tapped, self.fixed).any():
            raise ModelRejected("Fixed inputs must not be tapped")

    @property
    def connections(self) -> int:
        """Number of taps."""
        return len(self.taps.indices)

    def infer(self, edge: Edge) -> Edge:
        """Return what the layer hands on, given what it receives."""
        raise NotImplementedError

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the layer on a batch of inputs (batch, *edge.shape)."""
        raise NotImplementedError

    def windows(self, edge: Edge) -> int:
        """Return how often each neuron is evaluated for one image."""
        raise NotImplementedError

    def inputs_per_neuron(self, edge: Edge) -> int:
        """Return N, constant inputs included."""
        raise NotImplementedError

    def counted_inputs(self, edge: Edge) -> int:
        """Return the inputs that one evaluation of pc_N adds up, over all groups."""
        raise NotImplementedError

    def reach(self, edge: Edge) -> tuple[Int, Int]:
        """Return the least and greatest value that each class of each neuron can compare."""
        raise NotImplementedError


def _reach(xi: int, k: int, tapped: Int, others: Int, always: Int) -> tuple[Int, Int]:
    """Return the range of 2^k·pc_S + Ξ·pc_N where pc_S ≤ tapped and pc_N − pc_S ≤ others."""
    per_tap = 2**k + xi
    low = np.minimum(per_tap * tapped, 0) + np.minimum(xi * others, 0)
    high = np.maximum(per_tap * tapped, 0) + np.maximum(xi * others, 0)
    return low + (always << k), high + (always << k)


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Layer):
    """Neurons that see a whole vector."""

    kind = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.thresholds) != 1:
            raise ModelRejected(f"A linear layer has one class, not {len(self.thresholds)}")
        self._check_fixed(self.taps.width)

    def infer(self, edge: Edge) -> Edge:
        _require_vector(edge, self.taps.width)
        return Edge((len(self.taps),))

    def windows(self, edge: Edge) -> int:
        return 1

    def inputs_per_neuron(self, edge: Edge) -> int:
        return self.taps.width

    def counted_inputs(self, edge: Edge) -> int:
        return self.taps.width - len(self.fixed)

    def reach(self, edge: Edge) -> tuple[Int, Int]:
        tapped = self.taps.fan_in * edge.maximum
        others = self.counted_inputs(edge) * edge.maximum - tapped
        low, high = _reach(self.xi, self.k, tapped, others, np.zeros_like(tapped))
        return low[None], high[None]

    def compute(self, x: Array, edge: Edge) -> Array:
        out = np.empty((len(x), len(self.taps)), np.uint8)
        for start in range(0, len(x), _VECTORS):
            part = x[start : start + _VECTORS]
            value = count_taps(self.taps, part, edge.maximum).astype(np.int64) << self.k
            if self.xi:
                counted = np.ones(self.taps.width, bool)
                counted[self.fixed] = False
                value += self.xi * part.sum(axis=1, dtype=np.int64, where=counted)
            fires = (value >= self.thresholds[0][:, None]) ^ self.flips[:, None]
            out[start : start + _VECTORS] = fires.T
        return out


def count_taps(taps: Taps, x: Array, maximum: int) -> Array:
    """Add up the taps of each neuron on vectors (batch, width); return (neurons, batch)."""
    columns = np.ascontiguousarray(x.T)
    total = _sum_type(int(taps.fan_in.max(initial=0)) * maximum)
    sums: Array = np.zeros((len(taps), len(x)), total)
    for neuron in np.flatnonzero(taps.fan_in).tolist():
        at = taps.of(neuron)
        read = columns[taps.indices[at]]
        if taps.inverted[at].any():
            read[taps.inverted[at]] = maximum - read[taps.inverted[at]]
        read.sum(axis=0, dtype=total, out=sums[neuron])
    return sums


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2d(Layer):
    """Neurons that see a window of a map, channel groups apart.

    Tap *t* is channel ``t % channels`` at window position ``t // channels``, row by row.

    Parameters
    ----------
    channels : int
        Channels of the map.
    window : Window
        Kernel, stride and padding. Padded positions hold the bit 0 (pixel 0).
    groups : int
        Neurons and channels are parted in this many groups of equal size, in order.
    border : str
        ``minus``: the bit 0 of padding means −1 as anywhere. ``zero``: padding means nothing, and
        windows over the border have thresholds of their own.
    """

    kind = "conv2d"

    channels: int
    window: Window
    groups: int = 1
    border: Literal["minus", "zero"] = "minus"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.border not in ("minus", "zero"):
            raise ModelRejected(f"Border must be minus or zero, not {self.border!r}")
        if self.groups < 1 or self.channels % self.groups or len(self.taps) % self.groups:
            raise ModelRejected(
                f"{self.channels} channels and {len(self.taps)} neurons cannot be parted in "
                f"{self.groups} groups"
            )
        if self.taps.width != self.channels * self.window.size:
            raise ModelRejected(
                f"A convolution's taps must be below {self.channels * self.window.size}, "
                f"not {self.taps.width}"
            )
        group = (self.taps.indices % self.channels) // (self.channels // self.groups)
        if (group != self.taps.neurons // (len(self.taps) // self.groups)).any():
            raise ModelRejected("A neuron's taps must lie in its own group of channels")
        self._check_fixed(self.channels)

    def infer(self, edge: Edge) -> Edge:
        height, width = _require_map(edge, self.channels)
        output = Edge((*self.window.output(height, width), len(self.taps)), scan="raster")
        classes = len(self.borders(edge))
        if len(self.thresholds) != classes:
            raise ModelRejected(
                f"Thresholds must have {classes} border classes, not {len(self.thresholds)}"
            )
        return output

    def borders(self, edge: Edge) -> Borders:
        """Return the border classes; a border of minus has but one."""
        height, width = edge.shape[:2]
        if self.border == "zero":
            return find_borders(self.window, height, width)
        output = self.window.output(height, width)
        return Borders(np.ones((1, self.window.size), bool), np.zeros(output, np.int64))

    def windows(self, edge: Edge) -> int:
        rows, columns = self.window.output(*edge.shape[:2])
        return rows * columns

    def inputs_per_neuron(self, edge: Edge) -> int:
        return self.window.size * self.channels // self.groups

    def counted_inputs(self, edge: Edge) -> int:
        return self.window.size * (self.channels - len(self.fixed))

    def reach(self, edge: Edge) -> tuple[Int, Int]:
        valid = self.borders(edge).valid
        position = (self.taps.indices // self.channels).astype(np.int64)
        in_group = self.channels // self.groups - np.bincount(
            self.fixed // (self.channels // self.groups), minlength=self.groups
        )
        counted = np.repeat(in_group, len(self.taps) // self.groups)
        tapped = np.array([self.taps.per_neuron(mask[position]) for mask in valid])
        # Outside the map a tap reads 0, an inverted one always reads the maximum.
        always = np.array(
            [self.taps.per_neuron(~mask[position] & self.taps.inverted) for mask in valid]
        )
        others = counted * valid.sum(axis=1)[:, None] - tapped
        scale = edge.maximum
        return _reach(self.xi, self.k, tapped * scale, others * scale, always * scale)

    def compute(self, x: Array, edge: Edge) -> Array:
        output = self.window.output(*edge.shape[:2])
        out = np.empty((len(x), *output, len(self.taps)), np.uint8)
        thresholds = self.thresholds[self.borders(edge).of]  # (rows, columns, neurons)
        total = _sum_type(int(self.taps.fan_in.max(initial=0)) * edge.maximum)
        position, channel = np.divmod(self.taps.indices.astype(np.int64), self.channels)
        per_group = len(self.taps) // self.groups
        for start in range(0, len(x), _MAPS):
            # (channels, height, width, batch), so that what a tap reads lies together
            maps = np.ascontiguousarray(x[start : start + _MAPS].transpose(3, 1, 2, 0))
            maps = self.window.pad(maps)
            counts = self._window_sums(maps, output) if self.xi else None
            for neuron in range(len(self.taps)):
                sums: Array = np.zeros((*output, maps.shape[-1]), total)
                for tap in range(self.taps.of(neuron).start, self.taps.of(neuron).stop):
                    read = self.window.shifted(maps[channel[tap]], int(position[tap]), output)
                    read = (edge.maximum - read) if self.taps.inverted[tap] else read
                    np.add(sums, read, out=sums, casting="unsafe")
                value = sums.astype(np.int64) << self.k
                if counts is not None:
                    value += self.xi * counts[neuron // per_group]
                fires = (value >= thresholds[..., neuron, None]) ^ self.flips[neuron]
                out[start : start + _MAPS, ..., neuron] = fires.transpose(2, 0, 1)
        return out

    def _window_sums(self, maps: Array, output: tuple[int, int]) -> Int:
        """Return pc_N of each group: (groups, rows, columns, batch)."""
        counted = np.ones(self.channels, bool)
        counted[self.fixed] = False
        grouped = maps.reshape(self.groups, -1, *maps.shape[1:])
        where = counted.reshape(self.groups, -1)[..., None, None, None]
        planes = grouped.sum(axis=1, dtype=np.int64, where=where)
        return sum(  # type: ignore[return-value]
            self.window.shifted(planes, position, output) for position in range(self.window.size)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The last layer: integer class scores, of which the first largest wins.

    The score of class *j* is ±2^shift·(2·pc_j − maximum·|S_j|) + offset_j, where pc_j is the sum
    of the class's taps.

    Parameters
    ----------
    taps : Taps
        The connections of each class.
    negative : bool
        Whether the sign is minus.
    shift : int
        The bits by which the offsets are finer than the counts.
    offsets : array of int (classes)
        What is added to each class's score.
    """

    kind: ClassVar[str] = "scores"

    taps: Taps
    negative: bool
    shift: int
    offsets: Int

    def __post_init__(self) -> None:
        offsets = frozen_array(self.offsets, np.int64, "Score offsets")
        object.__setattr__(self, "offsets", offsets)
        if self.shift not in range(41):
            raise ModelRejected(f"Score shift must be between 0 and 40, not {self.shift!r}")
        if self.offsets.shape != (len(self.taps),):
            raise ModelRejected(
                f"Score offsets must be ({len(self.taps)},), not {self.offsets.shape!r}"
            )
        if (np.abs(self.offsets) >= 1 << 60).any():
            raise ModelRejected("Score offsets must be below 2^60")

    @property
    def connections(self) -> int:
        """Number of taps."""
        return len(self.taps.indices)

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of scores, as wide as they need."""
        _require_vector(edge, self.taps.width)
        # In Python's integers, which do not wrap round.
        spread = [int(n) * edge.maximum << self.shift for n in self.taps.fan_in]
        ends = list(zip(self.offsets.tolist(), spread, strict=True))
        low, high = min(o - s for o, s in ends), max(o + s for o, s in ends)
        if max(-low, high) >= 1 << 60:
            raise ModelRejected(f"Scores must be below 2^60, not up to {max(-low, high)}")
        bits = max((-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0)
        return Edge((len(self.taps),), bits=bits + 1, signed=True)

    def windows(self, edge: Edge) -> int:
        """Return how often each class is evaluated for one image."""
        return 1

    def inputs_per_neuron(self, edge: Edge) -> int:
        """Return N."""
        return self.taps.width

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the scores of a batch (batch, inputs)."""
        out = np.empty((len(x), len(self.taps)), np.int64)
        for start in range(0, len(x), _VECTORS):
            part = x[start : start + _VECTORS]
            sums = count_taps(self.taps, part, edge.maximum).astype(np.int64).T
            steps = (2 * sums - edge.maximum * self.taps.fan_in) << self.shift
            out[start : start + _VECTORS] = self.offsets + (-steps if self.negative else steps)
        return out


def _require_vector(edge: Edge, width: int) -> None:
    if edge.shape != (width,) or edge.signed:
        raise ModelRejected(
            f"It takes a vector of {width} unsigned values, but receives {edge.shape!r}"
            f"{' signed' if edge.signed else ''}"
        )


def _require_map(edge: Edge, channels: int) -> tuple[int, int]:
    if len(edge.shape) != 3 or edge.channels != channels or edge.signed:
        raise ModelRejected(f"It takes a map of {channels} channels, but receives {edge.shape!r}")
    return edge.shape[0], edge.shape[1]
