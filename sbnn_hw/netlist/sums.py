"""Weighted sums without a threshold: integers of a stream."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import INTEGERS, Array, Schema
from sbnn_hw.netlist.layer import Int, Tapped
from sbnn_hw.netlist.operation import Constants, Mask, spare
from sbnn_hw.netlist.taps import (
    Taps,
    freeze_integers,
    frozen_array,
    frozen_weights,
    kernel_histogram,
)
from sbnn_hw.netlist.windows import Window
from sbnn_hw.netlist.wiring import Wiring

__all__ = ["Sums"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums(Tapped):
    """Sums of a vector's values, or of those in a window of a map, channel groups apart.

    The value is 2^k·pc_S + Ξ·pc_N, where pc_S is the sum of a neuron's taps and pc_N that of all
    the inputs it could have been wired to. Where the border is zero, bits stand for −1 and 1 in
    both sums, and padding adds nothing. With weights the value is Σ w·x.

    Tap *t* is channel ``t % channels`` at window position ``t // channels``, row by row.
    """

    kind: ClassVar[str] = "sums"
    schema: ClassVar[Schema] = {
        "taps": Taps.schema,
        "xi": {"type": "integer"},
        "k": {"type": "integer", "minimum": 0, "maximum": 40},
        "fixed": INTEGERS,
        "channels": {"type": "integer", "minimum": 1},
        "groups": {"type": "integer", "minimum": 1},
        "border": {"enum": ["minus", "zero"]},
    }
    optional: ClassVar[Schema] = {"window": Window.schema, "weights": INTEGERS, "pad": INTEGERS}

    taps: Taps
    channels: int
    #: Kernel, stride and padding; None of a vector.
    window: Window | None = None
    #: A weight for each tap; None if all are one.
    weights: Int | None = None
    #: Ξ and k; Ξ is odd or k is zero. Both are zero with weights.
    xi: int = 0
    k: int = 0
    #: Channels that are not counted in pc_N.
    fixed: Int = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Neurons and channels are parted in this many groups of equal size, in order.
    groups: int = 1
    #: ``minus``: padding holds what ``pad`` says. ``zero``: it is nothing, and bits are −1 and 1.
    border: Literal["minus", "zero"] = "minus"
    #: What padding holds in each channel; None if that is 0 in all of them.
    pad: Int | None = None

    def __post_init__(self) -> None:
        freeze_integers(self, "channels", "groups", "xi", "k")
        object.__setattr__(self, "windowed", self.window is not None)
        object.__setattr__(self, "fixed", frozen_array(self.fixed, np.int64, "Fixed inputs"))
        if self.weights is not None:
            object.__setattr__(self, "weights", frozen_weights(self.weights, self.taps))
        if self.pad is not None:
            object.__setattr__(self, "pad", frozen_array(self.pad, np.int64, "Padding"))
        self._check_factors()
        self._check_wires()
        self._check_padding()

    def _check_factors(self) -> None:
        if self.k not in range(41) or abs(self.xi) >= 1 << 42:
            raise ModelRejected(f"k must be between 0 and 40, not {self.k!r}, with Ξ {self.xi!r}")
        if self.k and not self.xi % 2:
            raise ModelRejected(f"Ξ must be odd or k zero, not {self.xi!r} and {self.k!r}")
        if self.weights is not None and self.xi:
            raise ModelRejected(f"Ξ must be zero with weights, not {self.xi!r}")
        if self.xi and self.taps.inverted.any():
            raise ModelRejected("Inverted taps are allowed only with Ξ = 0")

    def _check_wires(self) -> None:
        wide = self.channels * (1 if self.window is None else self.window.size)
        if self.channels < 1 or self.taps.width != wide:
            raise ModelRejected(f"Taps must be below {wide}, not {self.taps.width}")
        if self.groups < 1 or self.channels % self.groups or len(self.taps) % self.groups:
            raise ModelRejected(
                f"{self.channels} channels and {len(self.taps)} neurons cannot be divided into "
                f"{self.groups} groups"
            )
        group = (self.taps.indices % self.channels) // (self.channels // self.groups)
        if (group != self.taps.neurons // (len(self.taps) // self.groups)).any():
            raise ModelRejected("A neuron's taps must lie in its own group of channels")
        if self.fixed.ndim != 1 or (np.diff(self.fixed) <= 0).any():
            raise ModelRejected("Fixed inputs must increase")
        if len(self.fixed) and not self.xi:
            raise ModelRejected("Fixed inputs are allowed only where Ξ is not zero")
        if len(self.fixed) and not 0 <= self.fixed[0] <= self.fixed[-1] < self.channels:
            raise ModelRejected(f"Fixed inputs must be below {self.channels}")
        if np.isin(self.taps.indices % self.channels, self.fixed).any():
            raise ModelRejected("Fixed inputs must not be tapped")

    def _check_padding(self) -> None:
        if self.border not in ("minus", "zero"):
            raise ModelRejected(f"Border must be minus or zero, not {self.border!r}")
        padded = self.window is not None and any(self.window.padding)
        if not padded and (self.border == "zero" or self.pad is not None):
            raise ModelRejected("A border of zero, and what padding holds, need padding")
        if self.pad is not None and (self.border == "zero" or self.pad.shape != (self.channels,)):
            raise ModelRejected(
                f"Padding must hold {self.channels} values, with a border of minus, not "
                f"{self.pad.shape!r} with a border of {self.border}"
            )

    @property
    def wiring(self) -> Wiring:
        """Its weighted sums."""
        return Wiring(
            taps=self.taps,
            weights=self.weights,
            xi=self.xi,
            k=self.k,
            fixed=self.fixed,
            channels=self.channels,
            groups=self.groups,
            window=self.window,
            pad=self.pad,
            bipolar=self.border == "zero",
        )

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of sums; its range is what the taps can reach at any border."""
        # Millions of taps are not gone through again for the same edge.
        known: tuple[Edge, Edge] | None = getattr(self, "_inferred", None)
        if known is None or known[0] != edge:
            known = edge, self._infer(edge)
            object.__setattr__(self, "_inferred", known)
        return known[1]

    def _infer(self, edge: Edge) -> Edge:
        dimensions = 1 if self.window is None else 3
        if len(edge.shape) != dimensions or edge.channels != self.channels:
            what = "vector of {} values" if self.window is None else "map of {} channels"
            raise ModelRejected(
                f"It takes a {what.format(self.channels)}, but receives {edge.shape!r}"
            )
        output = () if self.window is None else self.window.output(*edge.shape[:2])
        if self.border == "zero" and not edge.binary:
            raise ModelRejected(
                "A border of zero is for bits; padding of integers holds a value in each channel"
            )
        if edge.signed and self.taps.inverted.any():
            raise ModelRejected("Inverted taps take unsigned values; use weights below zero")
        if self.pad is not None and not (
            edge.low <= self.pad.min() and self.pad.max() <= edge.high
        ):
            raise ModelRejected(f"Padding must lie between {edge.low} and {edge.high}")
        scan: Literal["raster", "vector"] = "vector" if self.window is None else "raster"
        made = Edge((*output, len(self.taps)), scan=scan)  # no larger than an edge may be
        self.wiring.check(edge)
        low, high = self.wiring.reach(edge)
        return replace(made, low=int(low.min()), high=int(high.max()))

    def complements(self, edge: Edge) -> bool:
        """Whether it matters to it how many bits its inputs have."""
        return bool(self.taps.inverted.any()) and not edge.binary

    def needs(self, edge: Edge) -> int:
        """Return the first schema of files that can say it."""
        return 2

    def windows(self, edge: Edge) -> int:
        """Return how many windows a map has."""
        if self.window is None:
            return 1
        rows, columns = self.window.output(*edge.shape[:2])
        return rows * columns

    def inputs_per_neuron(self, edge: Edge) -> int:
        """Return N, constant inputs included."""
        return self.wiring.inputs_per_neuron()

    def kernels(self) -> tuple[int, ...] | None:
        """Return how many kernels there are of each Hamming weight, if they are 3×3 and binary."""
        if self.window is None or self.window.kernel != (3, 3) or self.weights is not None:
            return None
        return kernel_histogram(self.taps, self.channels, self.groups)

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the sums of a batch (batch, *shape)."""
        made = self.infer(edge)
        out = np.empty((len(x), *made.shape), made.dtype)
        for part, sums in self.wiring.sums(x, edge):
            out[part] = sums
        return out

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return the neurons whose sums are the same whatever comes, at every border."""
        low, high = self.wiring.reach(edge, before)
        known: Mask = (low == low[0]).all(axis=0) & (high == low[0]).all(axis=0)
        return Constants(known, low[0])

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return what is tapped, or where Ξ is not zero all that is counted in pc_N."""
        neurons: Mask = np.any(wanted.reshape(-1, len(self.taps)), axis=0)
        if self.xi:
            channels = np.ones(edge.channels, bool)
            channels[self.fixed] = False
        else:
            channels = np.zeros(edge.channels, bool)
            channels[self.taps.indices[neurons[self.taps.neurons]] % edge.channels] = True
        return (np.broadcast_to(channels, edge.shape),)

    @property
    def droppable(self) -> int:
        """Every neuron."""
        return len(self.taps)

    def without(self, unread: Mask, edge: Edge) -> Self:
        """Return the sums whose unread neurons have lost their taps, if the range stays."""
        low, high = self.wiring.reach(edge)
        gone = spare(unread, low.min(axis=0), high.max(axis=0))
        kept: Mask = np.logical_not(gone[self.taps.neurons])
        weights = None if self.weights is None else self.weights[kept]
        made = replace(self, taps=self.taps.only(kept), weights=weights)
        # Without taps, Ξ·pc_N may reach further than with them.
        return made if made.infer(edge) == self.infer(edge) else self

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the unread neurons that had taps."""
        return np.flatnonzero(unread & (self.taps.fan_in > 0))

    def simplified(self, edge: Edge) -> Self:
        """Return the sums without weights that are all one, and without padding that is zero."""
        weights, pad = self.weights, self.pad
        if weights is not None and (weights == 1).all():
            weights = None
        if pad is not None and not pad.any():
            pad = None
        return replace(self, weights=weights, pad=pad)
