"""A map as a vector."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array
from sbnn_hw.netlist.operation import Constants, Mask, Operation

__all__ = ["Flatten"]


@dataclass(frozen=True, eq=False)
class Flatten(Operation):
    """Read a map as a vector: row by row, pixel by pixel, channels together."""

    kind: ClassVar[str] = "flatten"

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of the vector."""
        return Edge((edge.size,), edge.low, edge.high)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the vectors of a batch of maps."""
        return x.reshape(len(x), edge.size)

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return the channels' constants, once for each pixel."""
        pixels = edge.size // edge.channels
        return Constants(np.tile(before.known, pixels), np.tile(before.value, pixels))

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return what is wanted, as a map."""
        return (wanted.reshape(edge.shape),)
