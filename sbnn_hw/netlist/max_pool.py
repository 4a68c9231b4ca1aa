"""The maximum of the values in a window."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import BOOLEANS, Array, Schema
from sbnn_hw.netlist.operation import Constants, Mask, Operation
from sbnn_hw.netlist.taps import frozen_array
from sbnn_hw.netlist.windows import Window

__all__ = ["MaxPool2d"]


@dataclass(frozen=True, eq=False)
class MaxPool2d(Operation):
    """The OR of the bits in each window, or the AND in the channels of ``all_of``.

    AND is what the maximum becomes where the batch norm behind it has a negative scale. Padding
    changes neither: it is 0 for OR and 1 for AND. Of integers it is the maximum; padding is the
    least value that can occur.
    """

    kind: ClassVar[str] = "max_pool2d"
    windowed: ClassVar[bool] = True
    schema: ClassVar[Schema] = {"window": Window.schema, "all_of": BOOLEANS}

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
        if len(edge.shape) != 3 or edge.channels != len(self.all_of):
            raise ModelRejected(
                f"It takes a map of {len(self.all_of)} channels, but receives {edge.shape!r}"
            )
        if self.all_of.any() and not edge.binary:
            raise ModelRejected(
                f"It takes the AND of bits, but receives values from {edge.low} to {edge.high}"
            )
        rows, columns = self.window.output(*edge.shape[:2])
        low, high = (0, 1) if edge.binary else (edge.low, edge.high)
        return Edge((rows, columns, edge.channels), low, high, edge.scan)

    def needs(self, edge: Edge) -> int:
        """Return the first schema of files that can say it: 2 on integers."""
        return 1 if edge.binary else 2

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the pool on a batch of maps (batch, height, width, channels)."""
        output = self.window.output(*edge.shape[:2])
        if not edge.binary:
            padded = self.window.pad(x, edge.low)
            most = self.window.shifted(padded, 0, output).copy()
            for position in range(1, self.window.size):
                np.maximum(most, self.window.shifted(padded, position, output), out=most)
            return most
        flip = self.all_of.astype(np.uint8)
        # The AND of bits is the complement of the OR of their complements.
        padded = self.window.pad(x ^ flip)
        out = np.zeros((len(x), *output, edge.channels), np.uint8)
        for position in range(self.window.size):
            out |= self.window.shifted(padded, position, output)
        return out ^ flip

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return what was constant before."""
        return before

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return the channels that are wanted, wherever they are."""
        return (np.broadcast_to(wanted.any(axis=(0, 1)), edge.shape),)

    @property
    def droppable(self) -> int:
        """Every channel."""
        return len(self.all_of)

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the channels that do not come in."""
        return before[0]
