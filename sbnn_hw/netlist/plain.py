"""Stages without taps: what is made of pixels, the pool and the change of shape."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.taps import frozen_array
from sbnn_hw.netlist.windows import Window

__all__ = ["Encode", "Flatten", "Levels", "MaxPool2d"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Encode:
    """Turn each value into bits: one for each threshold that it reaches.

    Parameters
    ----------
    thresholds : array (channels, planes)
        Values from which a bit is set, increasing. Bit *p* of channel *c* becomes channel
        ``c·planes + p``.
    """

    kind: ClassVar[str] = "encode"

    thresholds: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        array = frozen_array(self.thresholds, np.int64, "Encoder thresholds")
        object.__setattr__(self, "thresholds", array)
        if array.ndim != 2 or not array.size or (np.diff(array, axis=1) <= 0).any():
            raise ModelRejected("Encoder thresholds must be (channels, planes), increasing")

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of bits."""
        if edge.channels != len(self.thresholds) or edge.signed:
            raise ModelRejected(
                f"It takes {len(self.thresholds)} channels, but receives {edge.shape!r}"
            )
        if self.thresholds.min() < 1 or self.thresholds.max() > edge.maximum:
            raise ModelRejected(f"Encoder thresholds must lie between 1 and {edge.maximum}")
        return Edge((*edge.shape[:-1], self.thresholds.size), scan=edge.scan)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the bits of a batch (batch, …, channels)."""
        bits = x[..., None] >= self.thresholds.astype(np.uint8 if edge.bits == 8 else np.int64)
        return bits.reshape(*x.shape[:-1], self.thresholds.size).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Levels:
    """Turn each value into another by a table: pixels that were rounded before they are added up.

    Parameters
    ----------
    table : array
        For each value that comes in, the one that is handed on. It begins with 0 and never
        decreases; all that its numbers have in common is divided out.
    """

    kind: ClassVar[str] = "levels"

    table: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        array = frozen_array(self.table, np.int64, "Levels")
        object.__setattr__(self, "table", array)
        right = array.ndim == 1 and len(array) > 2 and array[0] == 0
        if not right or (np.diff(array) < 0).any() or not 2 <= array[-1] < len(array):
            raise ModelRejected(
                "Levels must be a table that begins with 0, does not decrease, and ends between 2 "
                "and the largest value that comes in"
            )
        if np.gcd.reduce(array) != 1 or (np.diff(array) == 1).all():
            raise ModelRejected("Levels must have no common factor, and change some value")

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of the new values."""
        if edge.signed or len(self.table) != edge.maximum + 1:
            raise ModelRejected(
                f"It takes values up to {len(self.table) - 1}, but receives {edge.bits} bits"
            )
        return Edge(edge.shape, bits=int(self.table[-1]).bit_length(), scan=edge.scan)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the new values of a batch."""
        return self.table.astype(np.uint8 if self.table[-1] < 256 else np.int64)[x]


@dataclass(frozen=True, eq=False)
class MaxPool2d:
    """The OR of the bits in each window; the AND in the channels of ``all_of``.

    AND is what the maximum becomes where the batch norm behind it has a negative scale. Padding
    changes neither: it is 0 for OR and 1 for AND.
    """

    kind: ClassVar[str] = "max_pool2d"

    window: Window
    all_of: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "all_of", frozen_array(self.all_of, np.bool_, "Pool modes"))
        if self.all_of.ndim != 1 or not len(self.all_of):
            raise ModelRejected("A pool must say OR or AND for each channel")
        if any(2 * p > k for p, k in zip(self.window.padding, self.window.kernel, strict=True)):
            raise ModelRejected(
                f"A pool's padding must be at most half its window, not {self.window!r}"
            )

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of the smaller map."""
        if len(edge.shape) != 3 or edge.channels != len(self.all_of) or edge.bits != 1:
            raise ModelRejected(
                f"It takes a map of {len(self.all_of)} bits a pixel, but receives {edge.shape!r} "
                f"of {edge.bits} bits"
            )
        rows, columns = self.window.output(*edge.shape[:2])
        return Edge((rows, columns, edge.channels), scan=edge.scan)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the pool on a batch of maps (batch, height, width, channels)."""
        output = self.window.output(*edge.shape[:2])
        flip = self.all_of.astype(np.uint8)
        # The AND of bits is the complement of the OR of their complements.
        padded = self.window.pad(x ^ flip)
        out = np.zeros((len(x), *output, edge.channels), np.uint8)
        for position in range(self.window.size):
            out |= self.window.shifted(padded, position, output)
        return out ^ flip


@dataclass(frozen=True, eq=False)
class Flatten:
    """Read a map as a vector: row by row, pixel by pixel, channels together."""

    kind: ClassVar[str] = "flatten"

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of the vector."""
        return Edge((edge.size,), bits=edge.bits, signed=edge.signed)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the vectors of a batch of maps."""
        return x.reshape(len(x), edge.size)
