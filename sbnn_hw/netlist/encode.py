"""The encoder: bits of each value, by comparing it with constants."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import TABLE, Array, Schema
from sbnn_hw.netlist.operation import Operation
from sbnn_hw.netlist.taps import frozen_array

__all__ = ["Encode"]


@dataclass(frozen=True, eq=False)
class Encode(Operation):
    """Turn each value into bits: one for each threshold that it reaches."""

    kind: ClassVar[str] = "encode"
    schema: ClassVar[Schema] = {"thresholds": TABLE}

    #: (channels, planes): values from which a bit is set, increasing. Bit *p* of channel *c* is
    #: channel ``c·planes + p`` of the output.
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

    @property
    def ignored_bits(self) -> int:
        """Bits below the lowest one of any threshold."""
        common = int(np.gcd.reduce(self.thresholds, axis=None))
        return (common & -common).bit_length() - 1
