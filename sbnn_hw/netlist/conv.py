"""Neurons that see a window of a map."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array, Schema
from sbnn_hw.netlist.layer import Int, Layer, require_map, sum_type
from sbnn_hw.netlist.taps import kernel_histogram
from sbnn_hw.netlist.windows import Borders, Window, find_borders

__all__ = ["Conv2d"]

# Maps computed at a time: their bits stay in the cache.
MAPS = 64


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

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the neurons on a batch of maps (batch, height, width, channels)."""
        output = self.window.output(*edge.shape[:2])
        out = np.empty((len(x), *output, len(self.taps)), np.uint8)
        thresholds = self.thresholds[self.borders(edge).of]  # (rows, columns, neurons)
        total = sum_type(int(self.taps.fan_in.max(initial=0)) * edge.maximum)
        position, channel = np.divmod(self.taps.indices.astype(np.int64), self.channels)
        per_group = len(self.taps) // self.groups
        for start in range(0, len(x), MAPS):
            # (channels, height, width, batch), so that what a tap reads lies together
            maps = np.ascontiguousarray(x[start : start + MAPS].transpose(3, 1, 2, 0))
            maps = self.window.pad(maps)
            counts = self._window_sums(maps, output) if self.xi else None
            for neuron in range(len(self.taps)):
                sums: Array = np.zeros((*output, maps.shape[-1]), total)
                for tap in range(self.taps.of(neuron).start, self.taps.of(neuron).stop):
                    read = self.window.shifted(maps[channel[tap]], int(position[tap]), output)
                    read = (edge.maximum - read) if self.taps.inverted[tap] else read
                    np.add(sums, read, out=sums, casting="unsafe")
                value = sums.astype(np.int64) << self.k
                if counts is not None:
                    value += self.xi * counts[neuron // per_group]
                fires = (value >= thresholds[..., neuron, None]) ^ self.flips[neuron]
                out[start : start + MAPS, ..., neuron] = fires.transpose(2, 0, 1)
        return out

    def _window_sums(self, maps: Array, output: tuple[int, int]) -> Int:
        """Return pc_N of each group: (groups, rows, columns, batch)."""
        counted = np.ones(self.channels, bool)
        counted[self.fixed] = False
        grouped = maps.reshape(self.groups, -1, *maps.shape[1:])
        where = counted.reshape(self.groups, -1)[..., None, None, None]
        planes = grouped.sum(axis=1, dtype=np.int64, where=where)
        return sum(  # type: ignore[return-value]
            self.window.shifted(planes, position, output) for position in range(self.window.size)
        )
