"""The last layer: a score for each class."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import INTEGERS, Array, Schema
from sbnn_hw.netlist.layer import Int, Tapped, require_vector
from sbnn_hw.netlist.taps import Taps, freeze_integers, frozen_array, frozen_weights
from sbnn_hw.netlist.wiring import EXACT, Wiring

__all__ = ["Scores"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(Tapped):
    """The last layer: integer class scores, of which the first largest wins.

    The score of class *j* is ±2^shift·(2·pc_j − maximum·|S_j|) + offset_j, where pc_j is the sum
    of the class's taps. With weights it is Σ w·x + offset_j, of values of either sign.
    """

    kind: ClassVar[str] = "scores"
    scoring: ClassVar[bool] = True
    schema: ClassVar[Schema] = {
        "taps": Taps.schema,
        "negative": {"type": "boolean"},
        "shift": {"type": "integer", "minimum": 0, "maximum": 40},
        "offsets": INTEGERS,
    }
    optional: ClassVar[Schema] = {"weights": INTEGERS}

    taps: Taps
    negative: bool = False
    #: The bits by which the offsets are finer than the counts.
    shift: int = 0
    #: What is added to each class's score.
    offsets: Int
    #: A weight for each tap, with which there is neither a minus nor a shift.
    weights: Int | None = None

    def __post_init__(self) -> None:
        freeze_integers(self, "shift")
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
        if (self.offsets <= -(1 << 60)).any() or (self.offsets >= 1 << 60).any():
            raise ModelRejected("Score offsets must be below 2^60")
        if self.weights is not None:
            object.__setattr__(self, "weights", frozen_weights(self.weights, self.taps))
            if self.negative or self.shift:
                raise ModelRejected("Scores with weights have neither a minus nor a shift")

    @property
    def wiring(self) -> Wiring:
        """Its weighted sums."""
        return Wiring(
            taps=self.taps,
            weights=self.weights,
            fixed=np.zeros(0, np.int64),
            channels=self.taps.width,
        )

    def complements(self, edge: Edge) -> bool:
        """Whether it matters to it how many bits its inputs have."""
        return self.weights is None and not edge.binary

    def needs(self, edge: Edge) -> int:
        """Return the first schema of files that can say it: 2 with weights."""
        return 1 if self.weights is None else 2

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of scores, as wide as they need."""
        if self.weights is not None:
            low, high = self._weighted_range(edge)
        else:
            require_vector(edge, self.taps.width)
            # In Python's integers, which do not wrap round.
            spread = [int(n) * edge.maximum << self.shift for n in self.taps.fan_in]
            ends = list(zip(self.offsets.tolist(), spread, strict=True))
            low, high = min(o - s for o, s in ends), max(o + s for o, s in ends)
            if max(-low, high) >= 1 << 60:
                raise ModelRejected(f"Scores must be below 2^60, not up to {max(-low, high)}")
        # Scores are two's complement, also where none is negative.
        return Edge((len(self.taps),), min(low, -1), max(high, 0))

    def _weighted_range(self, edge: Edge) -> tuple[int, int]:
        if edge.shape != (self.taps.width,):
            raise ModelRejected(
                f"It takes a vector of {self.taps.width} values, but receives {edge.shape!r}"
            )
        self.wiring.check(edge)
        low, high = (ends[0] + self.offsets for ends in self.wiring.reach(edge))
        largest = max(-int(low.min()), int(high.max()))
        if largest >= EXACT:
            raise ModelRejected(f"Its sums need more than 53 bits: they may reach {largest}")
        return int(low.min()), int(high.max())

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the scores of a batch (batch, inputs)."""
        out = np.empty((len(x), len(self.taps)), np.int64)
        for part, sums in self.wiring.sums(x, edge):
            scores = sums.astype(np.int64)
            if self.weights is None:
                scores = (2 * scores - edge.maximum * self.taps.fan_in) << self.shift
            out[part] = self.offsets + (-scores if self.negative else scores)
        return out
