"""Another number for each value, by a table."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import INTEGERS, Array, Schema
from sbnn_hw.netlist.operation import Operation
from sbnn_hw.netlist.taps import frozen_array

__all__ = ["Recode"]


@dataclass(frozen=True, eq=False)
class Recode(Operation):
    """Turn each value into another by a table: pixels that are rounded before they are added up."""

    #: As files of the first release call it.
    kind: ClassVar[str] = "levels"
    schema: ClassVar[Schema] = {"table": INTEGERS}

    #: For each value that comes in, the one that is handed on. It begins with 0 and never
    #: decreases; all that its numbers have in common is divided out.
    table: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        array = frozen_array(self.table, np.int64, "Levels")
        object.__setattr__(self, "table", array)
        right = array.ndim == 1 and len(array) > 2 and array[0] == 0
        if not right or (np.diff(array) < 0).any() or not 2 <= array[-1] < len(array):
            raise ModelRejected(
                "Levels must be a table that begins with 0, does not decrease, and ends between 2 "
                "and the largest input value"
            )
        if np.gcd.reduce(array) != 1 or (np.diff(array) == 1).all():
            raise ModelRejected("Levels must have no common factor, and change some value")

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of the new values."""
        if edge.signed or len(self.table) != edge.maximum + 1:
            raise ModelRejected(
                f"It takes values up to {len(self.table) - 1}, but receives {edge.bits} bits"
            )
        return Edge(edge.shape, high=int(self.table[-1]), scan=edge.scan)

    def complements(self, edge: Edge) -> bool:
        """Whether it matters to it how many bits its inputs have: its table has a row for each."""
        return True

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the new values of a batch."""
        return self.table.astype(np.uint8 if self.table[-1] < 256 else np.int64)[x]
