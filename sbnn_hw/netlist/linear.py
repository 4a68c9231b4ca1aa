"""Neurons that see a whole vector."""

from dataclasses import dataclass
from typing import ClassVar

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.layer import Layer, require_vector

__all__ = ["Linear"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Layer):
    """Neurons that see a whole vector."""

    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        # There is no window: all inputs are together.
        object.__setattr__(self, "channels", self.taps.width)
        object.__setattr__(self, "groups", 1)
        if len(self.thresholds) != 1:
            raise ModelRejected(f"A linear layer has one class, not {len(self.thresholds)}")
        self._check_fixed(self.taps.width)

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of bits."""
        require_vector(edge, self.taps.width)
        self.check(edge)
        return Edge((len(self.taps),))
