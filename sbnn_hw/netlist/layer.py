"""Stages with taps: what neurons and class scores have in common."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import BOOLEANS, INTEGERS, TABLE, Array, Schema
from sbnn_hw.netlist.operation import Constants, Mask, Operation, Work
from sbnn_hw.netlist.taps import Taps, freeze_integers, frozen_array
from sbnn_hw.netlist.windows import Borders
from sbnn_hw.netlist.wiring import Wiring

__all__ = ["Layer", "Tapped"]

Int = npt.NDArray[np.int64]


class Tapped(Operation):
    """An operation that is wired to some of its inputs."""

    taps: Taps
    #: Ξ and k of its sums; Ξ is zero where there is no q.
    xi: int
    k: int
    #: Inputs that each position of a window has, and the groups in which they are parted.
    channels: int
    groups: int

    @property
    def wiring(self) -> Wiring:
        """Its weighted sums."""
        raise NotImplementedError

    @property
    def connections(self) -> int:
        """Number of taps."""
        return len(self.taps.indices)

    def windows(self, edge: Edge) -> int:
        """Return how often each neuron is evaluated for one image."""
        return 1

    def inputs_per_neuron(self, edge: Edge) -> int:
        """Return N, constant inputs included."""
        return self.taps.width

    def kernels(self) -> tuple[int, ...] | None:
        """Return how many 3×3 kernels there are of each Hamming weight, if there are any."""
        return None

    def check_counts(self, ones: int | None, kernels: tuple[int, ...] | None, edge: Edge) -> None:
        """Refuse ones that are fewer than the taps, and numbers that do not fit the weights."""
        weights = self.inputs_per_neuron(edge) * len(self.taps)
        if ones is not None and not self.connections <= ones <= weights:
            raise ModelRejected(
                f"its ones must be between {self.connections} and {weights}, not {ones!r}"
            )
        if kernels is not None and (
            len(kernels) != 10 or min(kernels) < 0 or sum(kernels) != weights // 9
        ):
            raise ModelRejected(f"its kernels must be ten numbers that add up to {weights // 9}")

    def complements(self, edge: Edge) -> bool:
        """Whether it matters to it how many bits its inputs have."""
        return not edge.binary

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return the channels that are tapped."""
        channels = np.zeros(edge.channels, bool)
        channels[self.taps.indices % edge.channels] = True
        return (np.broadcast_to(channels, edge.shape),)

    def work(self, edge: Edge) -> Work:
        """Return what it does for one image: an operation a connection, and N a window for q."""
        windows, inputs = self.windows(edge), self.inputs_per_neuron(edge)
        q = inputs * self.groups * windows if self.xi else 0
        done = self.connections * windows + q
        weights = self.wiring.weights
        if weights is not None or not edge.binary:
            # Bits are multiplied by nothing: they choose the weight, or zero.
            multiplied = 0 if weights is None or edge.binary else multiplications(weights)
            return Work(additions=done, multiplications=multiplied * windows)
        return Work(binary_macs=inputs * len(self.taps) * windows, sparse=done, q=q)


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer(Tapped):
    """Neurons that share ξ = ``xi`` / 2^``k``.

    A neuron fires iff (2^k·pc_S + Ξ·pc_N ≥ C) xor flip, where pc_S is the sum of its taps and
    pc_N that of all the inputs it could have been wired to.
    """

    schema: ClassVar[Schema] = {
        "taps": Taps.schema,
        "xi": {"type": "integer"},
        "k": {"type": "integer", "minimum": 0, "maximum": 40},
        "thresholds": TABLE,
        "flips": BOOLEANS,
        "fixed": INTEGERS,
    }

    taps: Taps
    #: Ξ and k; Ξ is odd or k is zero.
    xi: int
    k: int
    #: (classes, neurons): C, for each border class.
    thresholds: Int
    #: Neurons that fire below the threshold.
    flips: npt.NDArray[np.bool_]
    #: Inputs (channels of a map) that are constant: not tapped, not counted in pc_N.
    fixed: Int

    def __post_init__(self) -> None:
        freeze_integers(self, "xi", "k")
        for name, dtype in (("thresholds", np.int64), ("flips", np.bool_), ("fixed", np.int64)):
            array = frozen_array(getattr(self, name), dtype, f"Layer {name}")
            object.__setattr__(self, name, array)
        if self.k not in range(41) or abs(self.xi) >= 1 << 42:
            raise ModelRejected(f"k must be between 0 and 40, not {self.k!r}, with Ξ {self.xi!r}")
        if self.k and not self.xi % 2:
            raise ModelRejected(f"Ξ must be odd or k zero, not {self.xi!r} and {self.k!r}")
        neurons = len(self.taps)
        if self.thresholds.ndim != 2 or self.thresholds.shape[1] != neurons:
            raise ModelRejected(
                f"Thresholds must be (classes, {neurons}), not {self.thresholds.shape!r}"
            )
        if self.flips.shape != (neurons,):
            raise ModelRejected(f"Flips must be ({neurons},), not {self.flips.shape!r}")
        if self.xi and self.taps.inverted.any():
            raise ModelRejected("Inverted taps are allowed only with Ξ = 0")
        if self.fixed.ndim != 1 or (np.diff(self.fixed) <= 0).any():
            raise ModelRejected("Fixed inputs must increase")
        if len(self.fixed) and not self.xi:
            raise ModelRejected("Fixed inputs are allowed only where Ξ is not zero")

    def _check_fixed(self, channels: int) -> None:
        if len(self.fixed) and not (self.fixed[0] >= 0 and self.fixed[-1] < channels):
            raise ModelRejected(f"Fixed inputs must be below {channels}, not {self.fixed[-1]}")
        tapped = self.taps.indices % channels
        if len(self.fixed) and np.isin(tapped, self.fixed).any():
            raise ModelRejected("Fixed inputs must not be tapped")

    @property
    def wiring(self) -> Wiring:
        """Its weighted sums; padding holds the bit 0."""
        return Wiring(
            taps=self.taps,
            xi=self.xi,
            k=self.k,
            fixed=self.fixed,
            channels=self.channels,
            groups=self.groups,
        )

    @property
    def positions(self) -> int:
        """Positions in the window."""
        return 1

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the neurons on a batch (batch, *shape)."""
        thresholds = self.thresholds[self.borders(edge).of]
        if len(edge.shape) == 1:
            thresholds = thresholds[0, 0]
        out = np.empty((len(x), *thresholds.shape[:-1], len(self.taps)), np.uint8)
        for part, sums in self.wiring.sums(x, edge):
            out[part] = (sums >= thresholds.astype(sums.dtype)) ^ self.flips
        return out

    @property
    def pads_zeros(self) -> bool:
        """Whether there is padding, and it means what the bit 0 means anywhere."""
        return False

    def borders(self, edge: Edge) -> Borders:
        """Return the border classes."""
        return Borders(np.ones((1, self.positions), bool), np.zeros((1, 1), np.int64))

    def counted_inputs(self, edge: Edge) -> int:
        """Return the inputs that one evaluation of pc_N adds up, over all groups."""
        return self.positions * (self.channels - len(self.fixed))

    def reach(self, edge: Edge) -> tuple[Int, Int]:
        """Return the least and greatest value that each class of each neuron can compare."""
        valid = self.borders(edge).valid
        position = (self.taps.indices // self.channels).astype(np.int64)
        in_group = self.channels // self.groups - np.bincount(
            self.fixed // (self.channels // self.groups), minlength=self.groups
        )
        counted = np.repeat(in_group, len(self.taps) // self.groups)
        tapped = np.array([self.taps.per_neuron(mask[position]) for mask in valid])
        # Outside the map a tap reads 0, an inverted one always reads the maximum.
        always = np.array(
            [self.taps.per_neuron(~mask[position] & self.taps.inverted) for mask in valid]
        )
        others = counted * valid.sum(axis=1)[:, None] - tapped
        return _reach(
            self.xi, self.k, *(counts * edge.maximum for counts in (tapped, others, always))
        )

    def check(self, edge: Edge) -> None:
        """Make sure that sums do not wrap and that every threshold is within reach."""
        # All that is compared stays far from the ends of 64 bits.
        if (2**self.k + abs(self.xi)) * self.inputs_per_neuron(edge) * edge.maximum >= 1 << 60:
            raise ModelRejected(
                f"its sums need more than 60 bits, with k = {self.k} and Ξ = {self.xi}"
            )
        low, high = self.reach(edge)
        wrong = (self.thresholds < low) | (self.thresholds > high + 1)
        if wrong.any():
            border, neuron = (int(axis[0]) for axis in np.nonzero(wrong))
            raise ModelRejected(
                f"threshold of neuron {neuron} must be between {low[border, neuron]} and "
                f"{high[border, neuron] + 1}, not {self.thresholds[border, neuron]}"
            )

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return the neurons that reach their thresholds always, or never."""
        low, high = self.reach(edge)
        always: Mask = np.all(self.thresholds <= low, axis=0)
        never: Mask = np.all(self.thresholds > high, axis=0)
        return Constants(always | never, (always ^ self.flips).astype(np.int64))

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return what is tapped, or where Ξ is not zero all that is counted in pc_N."""
        if not self.xi:
            return super().reads(wanted, edge)
        channels = np.ones(edge.channels, bool)
        channels[self.fixed] = False
        return (np.broadcast_to(channels, edge.shape),)

    @property
    def droppable(self) -> int:
        """Every neuron."""
        return len(self.taps)

    def without(self, unread: Mask, edge: Edge) -> Self:
        """Return the layer whose unread neurons have lost their taps and never fire."""
        gone = unread & (self.taps.fan_in > 0)
        taps = self.taps.only(~gone[self.taps.neurons])
        layer = replace(self, taps=taps, flips=self.flips & ~gone)
        never = np.where(gone, layer.reach(edge)[1] + 1, self.thresholds)
        return replace(layer, thresholds=never)

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the unread neurons; the constant ones are wires in any case."""
        return np.flatnonzero(unread & (self.taps.fan_in > 0))


def _reach(xi: int, k: int, tapped: Int, others: Int, always: Int) -> tuple[Int, Int]:
    """Return the range of 2^k·pc_S + Ξ·pc_N where pc_S ≤ tapped and pc_N − pc_S ≤ others."""
    per_tap = 2**k + xi
    low = np.minimum(per_tap * tapped, 0) + np.minimum(xi * others, 0)
    high = np.maximum(per_tap * tapped, 0) + np.maximum(xi * others, 0)
    return low + (always << k), high + (always << k)


def multiplications(factors: Int) -> int:
    """Return how many factors are neither zero nor a power of two of either sign."""
    size = np.abs(factors)
    return int(((size & (size - 1)) != 0).sum())


def require_vector(edge: Edge, width: int) -> None:
    """Refuse what is not a vector of unsigned values."""
    if edge.shape != (width,) or edge.signed:
        raise ModelRejected(
            f"It takes a vector of {width} unsigned values, but receives {edge.shape!r}"
            f"{' signed' if edge.signed else ''}"
        )


def require_map(edge: Edge, channels: int) -> tuple[int, int]:
    """Refuse what is not a map of unsigned values; return its size."""
    if len(edge.shape) != 3 or edge.channels != channels or edge.signed:
        raise ModelRejected(f"It takes a map of {channels} channels, but receives {edge.shape!r}")
    return edge.shape[0], edge.shape[1]
