"""Which inputs a layer's neurons are wired to, in arrays: millions of taps, no object for each."""

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.form import (
    ARRAY,
    BOOLEANS,
    Arrays,
    Damaged,
    Schema,
    Write,
    get,
    list_of,
    object_of,
)

__all__ = ["Taps", "freeze_integers", "frozen_array", "frozen_weights", "kernel_histogram"]

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def frozen_array(values: Any, dtype: type, name: str) -> npt.NDArray[Any]:
    """Return a read-only array of a type that holds every value exactly."""
    wanted = np.dtype(dtype).name
    try:
        with np.errstate(invalid="ignore"):  # what is no number is not equal to one either
            given = np.asarray(values)
            array: npt.NDArray[Any] = np.array(given, dtype=dtype, order="C")
    except (ValueError, TypeError, OverflowError):
        raise ModelRejected(f"{name} must be of type {wanted}, not {values!r:.80}") from None
    if not np.array_equal(array, given):
        raise ModelRejected(f"{name} must be of type {wanted}, not {given.dtype}")
    array.setflags(write=False)
    return array


def freeze_integers(made: Any, *names: str) -> None:
    """Make Python's integers of some fields of an immutable value, or refuse what is none."""
    for name in names:
        value = getattr(made, name)
        try:
            object.__setattr__(made, name, operator.index(value))
        except TypeError:
            what = f"{type(made).__name__} {name.replace('_', ' ')}"
            raise ModelRejected(f"{what} must be an integer, not {value!r:.80}") from None


@dataclass(frozen=True, eq=False)
class Taps:
    """The connections of a layer: for each neuron its inputs, in increasing order.

    Examples
    --------
    >>> taps = Taps.from_dense(np.array([[1, 0, 1], [0, 0, 0]]))
    >>> len(taps), taps.fan_in.tolist(), taps.indices.tolist()
    (2, [2, 0], [0, 2])
    """

    #: In the JSON view, which lists the taps of each neuron.
    schema: ClassVar[Schema] = {
        "description": "For each neuron the inputs it is wired to, increasing; of a convolution, "
        "position · channels + channel.",
        **object_of(
            width={"type": "integer", "minimum": 1},
            inputs=list_of(list_of({"type": "integer", "minimum": 0}), minItems=1),
            inverted={
                "description": "Which taps read the complement of their input; null if none does.",
                "oneOf": [{"type": "null"}, list_of(BOOLEANS)],
            },
        ),
    }

    #: Number of inputs to choose from.
    width: int
    #: Neuron *n* has the taps from ``starts[n]`` to ``starts[n + 1]``.
    starts: Int
    #: The inputs tapped.
    indices: npt.NDArray[np.uint32]
    #: Taps that read the complement of their input. Costs nothing in hardware.
    inverted: Bool

    def __post_init__(self) -> None:
        for name, dtype in (("starts", np.int64), ("indices", np.uint32), ("inverted", np.bool_)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, f"Tap {name}"))
        freeze_integers(self, "width")
        if not 1 <= self.width <= 1 << 32:
            raise ModelRejected(f"A layer must have between 1 and 2^32 inputs, not {self.width!r}")
        if self.starts.ndim != 1 or len(self.starts) < 2:
            raise ModelRejected("A layer must have one neuron or more")
        ends = (int(self.starts[0]), int(self.starts[-1]))
        if ends != (0, len(self.indices)) or (np.diff(self.starts) < 0).any():
            raise ModelRejected(
                f"Tap starts must rise from 0 to {len(self.indices)}, not from "
                f"{ends[0]} to {ends[1]}"
            )
        if self.indices.shape != self.inverted.shape or self.indices.ndim != 1:
            raise ModelRejected("Each tap must have one index and one polarity")
        if len(self.indices):
            largest = int(self.indices.max())
            if largest >= self.width:
                where = int(np.searchsorted(self.starts, np.argmax(self.indices), "right")) - 1
                raise ModelRejected(
                    f"Taps must be below {self.width}, not {largest} (neuron {where})"
                )
            rises = np.diff(self.indices.astype(np.int64)) > 0
            inner = self.starts[1:-1]
            rises[inner[(inner > 0) & (inner < len(self.indices))] - 1] = True
            if not rises.all():
                where = int(np.searchsorted(self.starts, np.argmin(rises), "right")) - 1
                raise ModelRejected(f"Taps of a neuron must increase (neuron {where})")

    @classmethod
    def from_dense(cls, weights: npt.NDArray[Any]) -> "Taps":
        """Make taps of a matrix (neurons, inputs) of 0, 1 and, for complements, −1."""
        return cls.from_windows(weights[:, None, :])

    @classmethod
    def from_windows(cls, weights: npt.NDArray[Any], groups: int = 1) -> "Taps":
        """Make taps of a window: weights are (neurons, positions, channels of a group)."""
        neurons, positions, per_group = weights.shape
        channels = per_group * groups
        neuron, position, channel = np.nonzero(weights)
        starts = np.concatenate([[0], np.cumsum(np.bincount(neuron, minlength=neurons))])
        index = position * channels + neuron * groups // neurons * per_group + channel
        inverted = weights[neuron, position, channel] < 0
        return cls(channels * positions, starts, index.astype(np.uint32), inverted)

    def describe(self, write: Write) -> dict[str, Any]:
        """Return the taps as plain values, arrays as ``write`` has them."""
        return {
            "width": self.width,
            "fan_in": write(self.fan_in),
            "indices": write(self.indices),
            "inverted": write(self.inverted) if self.inverted.any() else None,
        }

    @classmethod
    def read(cls, text: Any, read: Arrays) -> "Taps":
        """Make taps of their description."""
        width = get(text, "width", int)
        fan_in = read(get(text, "fan_in", ARRAY)).astype(np.int64)
        indices = read(get(text, "indices", ARRAY))
        inverted = get(text, "inverted", (*ARRAY, type(None)))
        if fan_in.ndim != 1 or indices.ndim != 1 or ((fan_in < 0) | (fan_in > width)).any():
            raise Damaged("its taps are not lists of inputs")
        return cls(
            width,
            np.concatenate([[0], np.cumsum(fan_in)]),
            indices,
            np.zeros(len(indices), bool) if inverted is None else read(inverted),
        )

    def __len__(self) -> int:
        """Return the number of neurons."""
        return len(self.starts) - 1

    @property
    def fan_in(self) -> Int:
        """Number of taps of each neuron."""
        return np.diff(self.starts)

    @property
    def neurons(self) -> Int:
        """The neuron that each tap belongs to."""
        return np.repeat(np.arange(len(self)), self.fan_in)

    def of(self, neuron: int) -> slice:
        """Return where the taps of a neuron lie in the arrays."""
        return slice(int(self.starts[neuron]), int(self.starts[neuron + 1]))

    def only(self, kept: Bool) -> "Taps":
        """Return the same neurons with only the taps that are kept."""
        counts = np.bincount(self.neurons[kept], minlength=len(self))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return Taps(self.width, starts, self.indices[kept], self.inverted[kept])

    def per_neuron(self, values: npt.NDArray[Any]) -> Int:
        """Add up, for each neuron, a value that each tap has."""
        totals: Int = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        sums: Int = totals[self.starts[1:]] - totals[self.starts[:-1]]
        return sums


def frozen_weights(values: Any, taps: Taps) -> Int:
    """Return a read-only array of a weight for each tap; the sign of a tap is its weight's."""
    weights: Int = frozen_array(values, np.int64, "Weights")
    if weights.shape != taps.indices.shape:
        raise ModelRejected(f"Weights must be ({len(taps.indices)},), not {weights.shape!r}")
    if (weights == 0).any() or (weights <= -(1 << 31)).any() or (weights >= 1 << 31).any():
        raise ModelRejected("Weights must not be zero, and must be below 2^31")
    if taps.inverted.any():
        raise ModelRejected("Taps with weights must not be inverted")
    return weights


def kernel_histogram(taps: Taps, channels: int, groups: int) -> tuple[int, ...]:
    """Count the 3×3 kernels of a convolution by Hamming weight; a neuron has one a channel."""
    per_group = channels // groups
    channel = taps.indices.astype(np.int64) % channels % per_group
    weights = np.bincount(taps.neurons * per_group + channel, minlength=len(taps) * per_group)
    return tuple(np.bincount(weights, minlength=10).tolist())
