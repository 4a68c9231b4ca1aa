"""Neurons that see a window of a map."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Schema
from sbnn_hw.netlist.layer import Layer, require_map
from sbnn_hw.netlist.taps import freeze_integers, kernel_histogram
from sbnn_hw.netlist.windows import Borders, Window, find_borders
from sbnn_hw.netlist.wiring import Wiring

__all__ = ["Conv2d"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2d(Layer):
    """Neurons that see a window of a map, channel groups apart.

    Tap *t* is channel ``t % channels`` at window position ``t // channels``, row by row.
    """

    kind: ClassVar[str] = "conv2d"
    windowed: ClassVar[bool] = True
    schema: ClassVar[Schema] = {
        **Layer.schema,
        "window": Window.schema,
        "channels": {"type": "integer", "minimum": 1},
        "groups": {"type": "integer", "minimum": 1},
        "border": {"enum": ["minus", "zero"]},
    }

    channels: int
    #: Kernel, stride and padding. Padded positions hold the bit 0 (pixel 0).
    window: Window
    #: Neurons and channels are parted in this many groups of equal size, in order.
    groups: int = 1
    #: ``minus``: the bit 0 of padding means −1 as anywhere. ``zero``: padding means nothing, and
    #: windows over the border have thresholds of their own.
    border: Literal["minus", "zero"] = "minus"

    def __post_init__(self) -> None:
        super().__post_init__()
        freeze_integers(self, "channels", "groups")
        if self.border not in ("minus", "zero"):
            raise ModelRejected(f"Border must be minus or zero, not {self.border!r}")
        if self.groups < 1 or self.channels % self.groups or len(self.taps) % self.groups:
            raise ModelRejected(
                f"{self.channels} channels and {len(self.taps)} neurons cannot be divided into "
                f"{self.groups} groups"
            )
        if self.taps.width != self.channels * self.window.size:
            raise ModelRejected(
                f"A convolution's taps must be below {self.channels * self.window.size}, "
                f"not {self.taps.width}"
            )
        group = (self.taps.indices % self.channels) // (self.channels // self.groups)
        if (group != self.taps.neurons // (len(self.taps) // self.groups)).any():
            raise ModelRejected("A neuron's taps must lie in its own group of channels")
        self._check_fixed(self.channels)

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of bits, one for each window and neuron."""
        height, width = require_map(edge, self.channels)
        output = Edge((*self.window.output(height, width), len(self.taps)), scan="raster")
        classes = len(self.borders(edge))
        if len(self.thresholds) != classes:
            raise ModelRejected(
                f"Thresholds must have {classes} border classes, not {len(self.thresholds)}"
            )
        self.check(edge)
        return output

    @property
    def wiring(self) -> Wiring:
        """Its weighted sums; padding holds the bit 0."""
        return replace(super().wiring, window=self.window)

    @property
    def positions(self) -> int:
        """Positions in the window."""
        return self.window.size

    def borders(self, edge: Edge) -> Borders:
        """Return the border classes; a border of minus has but one."""
        height, width = edge.shape[:2]
        if self.border == "zero":
            return find_borders(self.window, height, width)
        output = self.window.output(height, width)
        return Borders(np.ones((1, self.window.size), bool), np.zeros(output, np.int64))

    @property
    def pads_zeros(self) -> bool:
        """Whether there is padding, and it means what the bit 0 means anywhere."""
        return self.border == "minus" and any(self.window.padding)

    def windows(self, edge: Edge) -> int:
        """Return how many windows a map has."""
        rows, columns = self.window.output(*edge.shape[:2])
        return rows * columns

    def inputs_per_neuron(self, edge: Edge) -> int:
        """Return N, constant inputs included."""
        return self.window.size * self.channels // self.groups

    def kernels(self) -> tuple[int, ...] | None:
        """Return how many kernels there are of each Hamming weight, if they are 3×3."""
        if self.window.kernel != (3, 3):
            return None
        return kernel_histogram(self.taps, self.channels, self.groups)
