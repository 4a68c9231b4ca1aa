"""The channels of several sources, one after the other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array, Schema
from sbnn_hw.netlist.operation import Constants, Mask, Operation
from sbnn_hw.netlist.taps import freeze_integers

__all__ = ["Concat"]


@dataclass(frozen=True, eq=False)
class Concat(Operation):
    """Put the channels of its sources side by side; a source may come several times."""

    kind: ClassVar[str] = "concat"
    arity: ClassVar[int] = 2
    most_sources: ClassVar[int] = 1 << 16
    schema: ClassVar[Schema] = {"count": {"type": "integer", "minimum": 2, "maximum": 1 << 16}}

    #: How many sources there are.
    count: int = 2

    def __post_init__(self) -> None:
        freeze_integers(self, "count")
        if not 2 <= self.count <= self.most_sources:
            raise ModelRejected(
                f"It takes between 2 and {self.most_sources} sources, not {self.count!r}"
            )
        object.__setattr__(self, "arity", self.count)

    def infer(self, *edges: Edge) -> Edge:
        """Return the edge of all channels; its range is that of all sources."""
        first = edges[0]
        if any((edge.shape[:-1], edge.scan) != (first.shape[:-1], first.scan) for edge in edges):
            raise ModelRejected(
                f"It joins maps of one size, but receives "
                f"{' and '.join(f'{edge.shape!r}' for edge in edges)}"
            )
        channels = sum(edge.channels for edge in edges)
        low, high = min(edge.low for edge in edges), max(edge.high for edge in edges)
        return Edge((*first.shape[:-1], channels), low, high, first.scan)

    def needs(self, *edges: Edge) -> int:
        """Return the first schema of files that can say it."""
        return 2

    def compute(self, *inputs_and_edges: Array | Edge) -> Array:
        """Compute a batch: an array for each source, then their edges."""
        inputs: list[Array] = list(inputs_and_edges[: self.arity])  # type: ignore[arg-type]
        edges: list[Edge] = list(inputs_and_edges[self.arity :])  # type: ignore[arg-type]
        dtype = self.infer(*edges).dtype
        return np.concatenate([x.astype(dtype, copy=False) for x in inputs], axis=-1)

    def constants(self, *constants_and_edges: Constants | Edge) -> Constants:
        """Return the constants of the sources, one after the other."""
        before: list[Constants] = list(constants_and_edges[: self.arity])  # type: ignore[arg-type]
        return Constants(
            np.concatenate([each.known for each in before]),
            np.concatenate([each.value for each in before]),
        )

    def reads(self, wanted: Mask, *edges: Edge) -> tuple[Mask, ...]:
        """Return for each source what is wanted of its channels."""
        ends = np.cumsum([edge.channels for edge in edges])
        return tuple(np.split(wanted, ends[:-1], axis=-1))
