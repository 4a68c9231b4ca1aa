"""The last layer: a score for each class."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import INTEGERS, Array, Schema
from sbnn_hw.netlist.layer import VECTORS, Int, Tapped, count_taps, require_vector
from sbnn_hw.netlist.taps import Taps, frozen_array

__all__ = ["Scores"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(Tapped):
    """The last layer: integer class scores, of which the first largest wins.

    The score of class *j* is ±2^shift·(2·pc_j − maximum·|S_j|) + offset_j, where pc_j is the sum
    of the class's taps.
    """

    kind: ClassVar[str] = "scores"
    scoring: ClassVar[bool] = True
    schema: ClassVar[Schema] = {
        "taps": Taps.schema,
        "negative": {"type": "boolean"},
        "shift": {"type": "integer", "minimum": 0, "maximum": 40},
        "offsets": INTEGERS,
    }

    taps: Taps
    negative: bool
    #: The bits by which the offsets are finer than the counts.
    shift: int
    #: What is added to each class's score.
    offsets: Int

    def __post_init__(self) -> None:
        offsets = frozen_array(self.offsets, np.int64, "Score offsets")
        object.__setattr__(self, "offsets", offsets)
        # What is common to all classes, q among it, does not change which is the largest.
        for name, value in {"xi": 0, "k": 0, "channels": self.taps.width, "groups": 1}.items():
            object.__setattr__(self, name, value)
        if self.shift not in range(41):
            raise ModelRejected(f"Score shift must be between 0 and 40, not {self.shift!r}")
        if self.offsets.shape != (len(self.taps),):
            raise ModelRejected(
                f"Score offsets must be ({len(self.taps)},), not {self.offsets.shape!r}"
            )
        if (np.abs(self.offsets) >= 1 << 60).any():
            raise ModelRejected("Score offsets must be below 2^60")

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of scores, as wide as they need."""
        require_vector(edge, self.taps.width)
        # In Python's integers, which do not wrap round.
        spread = [int(n) * edge.maximum << self.shift for n in self.taps.fan_in]
        ends = list(zip(self.offsets.tolist(), spread, strict=True))
        low, high = min(o - s for o, s in ends), max(o + s for o, s in ends)
        if max(-low, high) >= 1 << 60:
            raise ModelRejected(f"Scores must be below 2^60, not up to {max(-low, high)}")
        # Scores are two's complement, also where none is negative.
        return Edge((len(self.taps),), min(low, -1), max(high, 0))

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the scores of a batch (batch, inputs)."""
        out = np.empty((len(x), len(self.taps)), np.int64)
        for start in range(0, len(x), VECTORS):
            part = x[start : start + VECTORS]
            sums = count_taps(self.taps, part, edge.maximum).astype(np.int64).T
            steps = (2 * sums - edge.maximum * self.taps.fan_in) << self.shift
            out[start : start + VECTORS] = self.offsets + (-steps if self.negative else steps)
        return out
