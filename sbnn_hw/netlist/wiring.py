"""Weighted sums of inputs: what layers, sums and scores have in common, and its exact products."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array
from sbnn_hw.netlist.operation import Constants
from sbnn_hw.netlist.taps import Taps
from sbnn_hw.netlist.windows import Window, find_borders

__all__ = ["EXACT", "Wiring", "exact_type"]

Int = npt.NDArray[np.int64]

#: Sums below this are exact in float64, in which models are trained and evaluated.
EXACT = 1 << 53

# Inputs of windows that are laid out at a time: they stay in the cache.
_COLUMNS = 1 << 21


def exact_type(largest: int) -> type:
    """Return the fastest type that has all integers up to the largest.

    Sums of integers that stay below it are exact in any order, so that they can be left to BLAS.
    """
    return np.float32 if largest < 1 << 24 else np.float64 if largest < EXACT else np.int64


@dataclass(frozen=True, eq=False, kw_only=True)
class Wiring:
    """Sums Σ 2^k·w·x over taps, and Ξ·x over all inputs that could have been tapped.

    Inputs are a vector, or what a window sees of a map. An inverted tap reads the complement.
    """

    taps: Taps
    #: A weight for each tap; all are one if it is None.
    weights: Int | None = None
    xi: int = 0
    k: int = 0
    #: Inputs (channels of a map) that Ξ does not count.
    fixed: Int
    #: Inputs at each position of the window, and the groups in which they are parted.
    channels: int
    groups: int = 1
    #: None of a vector.
    window: Window | None = None
    #: What padding holds, in each channel; zero if it is None.
    pad: Int | None = None
    #: Bits are −1 and 1, and padding is nothing.
    bipolar: bool = False

    def _factors(self) -> Int:
        """Return what each tap is multiplied by, Ξ not included."""
        sign = np.where(self.taps.inverted, -1, 1)
        return (sign if self.weights is None else sign * self.weights) << self.k

    @property
    def positions(self) -> int:
        """Positions in the window."""
        return 1 if self.window is None else self.window.size

    def inputs_per_neuron(self) -> int:
        """Return how many inputs a neuron could be wired to."""
        return self.positions * self.channels // self.groups

    def largest(self, edge: Edge) -> int:
        """Return what no sum of some of the products can exceed."""
        if self.weights is None:
            weight = int(self.taps.fan_in.max(initial=0)) << self.k
        else:
            weight = int(self.taps.per_neuron(np.abs(self.weights)).max(initial=0)) << self.k
        values = [1] if self.bipolar else [abs(edge.low), abs(edge.high)]
        if self.pad is not None:
            values += np.abs(self.pad).tolist()
        if self.taps.inverted.any():
            values.append(edge.maximum)
        return (weight + abs(self.xi) * self.inputs_per_neuron()) * max(values)

    def check(self, edge: Edge) -> None:
        """Refuse sums that float64 might not have exactly."""
        if self.largest(edge) >= EXACT:
            raise ModelRejected(
                f"Its sums need more than 53 bits: they may reach {self.largest(edge)}"
            )

    def reach(self, edge: Edge, constants: Constants | None = None) -> tuple[Int, Int]:
        """Return the least and the greatest sum of each border class and neuron.

        All sums must be within 53 bits.
        """
        valid = (
            np.ones((1, 1), bool)
            if self.window is None
            else find_borders(self.window, *edge.shape[:2]).valid
        )
        low, high = self._each(edge.low), self._each(edge.high)
        if constants is not None:
            low = np.where(constants.known, constants.value, low)
            high = np.where(constants.known, constants.value, high)
        outside = self._each(0) if self.pad is None else self.pad
        if self.bipolar:
            low, high = 2 * low - 1, 2 * high - 1
        channel = self.taps.indices.astype(np.int64) % self.channels
        factors, complement = self._factors(), self._complements(edge)
        group = np.arange(len(self.taps)) * self.groups // len(self.taps)

        def by_group(values: Int) -> Int:
            """Add up what Ξ counts, for each neuron's group."""
            if not self.xi:
                return np.zeros(len(self.taps), np.int64)
            values = np.where(self._counted(), values, 0)
            found: Int = values.reshape(self.groups, -1).sum(axis=1)[group]
            return found

        places = _Places.of(self.taps, self.channels)
        beyond, padded = (
            places.add_up(factors * outside[channel]),
            by_group(self.xi * outside if self.xi else outside),
        )
        ends: list[Int] = []
        for end in (np.minimum, np.maximum):
            every: Int = end(self.xi * low, self.xi * high) if self.xi else self._each(0)
            both = factors + self.xi
            # Ξ counts all inputs; those that are tapped are counted with their taps.
            inside = places.add_up(end(both * low[channel], both * high[channel]) - every[channel])
            sums = [
                places.per_neuron(np.where(mask[places.position], inside, beyond))
                + mask.sum() * by_group(every)
                + (~mask).sum() * padded
                + complement
                for mask in valid
            ]
            ends.append(np.array(sums))
        return ends[0], ends[1]

    def _each(self, value: int) -> Int:
        """Return the same value for each channel; it takes no memory, however many there are."""
        return np.broadcast_to(np.int64(value), self.channels)

    def _counted(self) -> npt.NDArray[np.bool_]:
        counted = np.ones(self.channels, bool)
        counted[self.fixed] = False
        return counted

    def _complements(self, edge: Edge) -> Int:
        """Return what inverted taps add, whatever they read."""
        if self.bipolar or not self.taps.inverted.any():
            return np.zeros(len(self.taps), np.int64)
        return self.taps.per_neuron(self.taps.inverted) * edge.maximum << self.k

    def _matrix(self, dtype: type) -> Array:
        """Return all factors: (groups, inputs of a group, neurons of a group)."""
        neurons, per_group = len(self.taps) // self.groups, self.channels // self.groups
        counted = self._counted().reshape(self.groups, 1, per_group, 1)
        made: Array = np.zeros((self.groups, self.positions, per_group, neurons), dtype)
        made += np.where(counted, self.xi, 0).astype(dtype)
        position, channel = np.divmod(self.taps.indices.astype(np.int64), self.channels)
        group, neuron = np.divmod(self.taps.neurons, neurons)
        made[group, position, channel % per_group, neuron] += self._factors().astype(dtype)
        return made.reshape(self.groups, -1, neurons)

    def sums(self, x: Array, edge: Edge) -> Iterator[tuple[slice, Array]]:
        """Yield the sums of some of a batch after others: (images, …, neurons), exact.

        They are floats wherever those have every sum.
        """
        dtype = exact_type(self.largest(edge))
        matrix = self._matrix(dtype)
        add: Array = self._complements(edge).astype(dtype)
        output = () if self.window is None else self.window.output(*edge.shape[:2])
        rows = int(np.prod(output, dtype=np.int64))
        images = max(1, _COLUMNS // (rows * matrix.shape[1] * self.groups))
        columns: Array = np.empty((0,), dtype)
        for start in range(0, len(x), images):
            part = slice(start, min(start + images, len(x)))
            count = (part.stop - start) * rows
            seen = self._lay_out(x[part], dtype, columns)
            sums = np.empty((count, self.groups, matrix.shape[2]), dtype)
            for group in range(self.groups):
                np.matmul(seen[group].reshape(count, -1), matrix[group], out=sums[:, group])
            columns = seen
            made = sums.reshape(part.stop - start, *output, len(self.taps))
            yield part, (made + add if add.any() else made)

    def _lay_out(self, x: Array, dtype: type, columns: Array) -> Array:
        """Return what every window sees: (groups, images, …, positions, channels of a group)."""
        per_group = self.channels // self.groups
        if self.bipolar:
            x = 2 * x.astype(dtype) - 1
        if self.window is None:
            parts: Array = x.astype(dtype, copy=False).reshape(len(x), self.groups, per_group)
            return np.ascontiguousarray(parts.transpose(1, 0, 2))
        height, width = x.shape[1:3]
        output = self.window.output(height, width)
        shape = (self.groups, len(x), *output, self.positions, per_group)
        seen = columns if columns.shape == shape else np.empty(shape, dtype)
        padded: Array = x
        if any(self.window.padding):
            down, across = self.window.padding
            padded = np.empty(
                (len(x), height + 2 * down, width + 2 * across, self.channels),
                x.dtype if self.pad is None else dtype,
            )
            padded[...] = 0 if self.pad is None else self.pad
            padded[:, down : down + height, across : across + width] = x
        for position in range(self.positions):
            read = self.window.shifted(padded, position, output)
            for group in range(self.groups):
                own = slice(group * per_group, (group + 1) * per_group)
                seen[group, ..., position, :] = read[..., own]
        return seen


@dataclass(frozen=True, eq=False)
class _Places:
    """The taps of each neuron at each position of a window; only places that have taps."""

    #: Where the taps of a place begin.
    firsts: Int
    #: The position in the window.
    position: Int
    #: Neuron *n* has the places from ``starts[n]`` to ``starts[n + 1]``.
    starts: Int

    @classmethod
    def of(cls, taps: Taps, channels: int) -> "_Places":
        """Find the places of taps, which are sorted by neuron, then by position."""
        position, neuron = taps.indices.astype(np.int64) // channels, taps.neurons
        begins = np.ones(len(position), bool)
        begins[1:] = (np.diff(position) != 0) | (np.diff(neuron) != 0)
        firsts = np.flatnonzero(begins)
        starts = np.searchsorted(neuron[firsts], np.arange(len(taps) + 1))
        return cls(firsts, position[firsts], starts)

    def add_up(self, values: Int) -> Int:
        """Add up, for each place, a value that each tap has."""
        made: Int = np.add.reduceat(values, self.firsts) if len(values) else values
        return made

    def per_neuron(self, values: Int) -> Int:
        """Add up, for each neuron, a value that each place has."""
        totals: Int = np.concatenate([[0], np.cumsum(values)])
        return totals[self.starts[1:]] - totals[self.starts[:-1]]
