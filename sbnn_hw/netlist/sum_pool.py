"""The sum of the values in a window: an average that is not yet divided."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array, Schema
from sbnn_hw.netlist.operation import Constants, Mask, Operation, Work
from sbnn_hw.netlist.windows import Window
from sbnn_hw.netlist.wiring import EXACT

__all__ = ["SumPool2d"]


@dataclass(frozen=True, eq=False)
class SumPool2d(Operation):
    """The sum of each window, channel by channel.

    With ``ceil`` the last windows may hang over the right and the lower border; what lies beyond
    reads the last column or row again. Half a window of two by two is then its average, times four.
    """

    kind: ClassVar[str] = "sum_pool2d"
    windowed: ClassVar[bool] = True
    schema: ClassVar[Schema] = {"window": Window.schema, "ceil": {"type": "boolean"}}

    window: Window
    ceil: bool = False

    def __post_init__(self) -> None:
        if any(self.window.padding):
            raise ModelRejected(f"A pool of sums must have no padding, not {self.window}")

    def output(self, edge: Edge) -> tuple[int, int]:
        """Return how many windows a map has, down and across."""
        if not self.ceil:
            return self.window.output(*edge.shape[:2])
        rows, columns = (
            -(-(size - kernel) // stride) + 1
            for size, kernel, stride in zip(
                edge.shape[:2], self.window.kernel, self.window.stride, strict=True
            )
        )
        # A window that begins behind the border is none.
        rows, columns = (
            min(count, -(-size // stride))
            for count, size, stride in zip(
                (rows, columns), edge.shape[:2], self.window.stride, strict=True
            )
        )
        if rows < 1 or columns < 1:
            return self.window.output(*edge.shape[:2])  # which refuses it
        return rows, columns

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of sums."""
        if len(edge.shape) != 3:
            raise ModelRejected(f"It takes a map, but receives {edge.shape!r}")
        if any(k > 2 * size for k, size in zip(self.window.kernel, edge.shape[:2], strict=True)):
            raise ModelRejected(
                f"Its window must be at most twice as large as the map, not {self.window} on "
                f"{edge.shape[0]}×{edge.shape[1]}"
            )
        low, high = self.window.size * edge.low, self.window.size * edge.high
        if max(-low, high) >= EXACT:
            raise ModelRejected(
                f"Its sums need more than 53 bits: they may reach {max(-low, high)}"
            )
        return Edge((*self.output(edge), edge.channels), low, high, edge.scan)

    def needs(self, edge: Edge) -> int:
        """Return the first schema of files that can say it."""
        return 2

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the sums of a batch of maps (batch, height, width, channels)."""
        made = self.infer(edge)
        output = made.shape[0], made.shape[1]
        beyond = [
            max(0, (count - 1) * stride + kernel - size)
            for count, stride, kernel, size in zip(
                output, self.window.stride, self.window.kernel, edge.shape[:2], strict=True
            )
        ]
        if any(beyond):
            x = np.pad(x, ((0, 0), (0, beyond[0]), (0, beyond[1]), (0, 0)), mode="edge")
        out = np.zeros((len(x), *made.shape), made.dtype)
        for position in range(self.window.size):
            np.add(out, self.window.shifted(x, position, output), out=out, casting="unsafe")
        return out

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return what was constant before, times the window's size."""
        return Constants(before.known, before.value * self.window.size)

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return the channels that are wanted, wherever they are."""
        return (np.broadcast_to(wanted.any(axis=(0, 1)), edge.shape),)

    def work(self, edge: Edge) -> Work:
        """Return its additions for one image."""
        rows, columns = self.output(edge)
        return Work(additions=(self.window.size - 1) * rows * columns * edge.channels)

    def simplified(self, edge: Edge) -> Self:
        """Return the pool without ``ceil`` where that changes nothing."""
        floor = replace(self, ceil=False)
        try:
            return floor if floor.output(edge) == self.output(edge) else self
        except ModelRejected:  # only a window that hangs over fits
            return self

    def passes(self, edge: Edge) -> bool:
        """Whether a window is one value, and all are taken."""
        return self.window.kernel == self.window.stride == (1, 1)
