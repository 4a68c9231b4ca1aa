"""What the exports of several operations have in common."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import Edge, Taps, Window
from sbnn_hw.qonnx.export import Exporting, Writer

__all__ = ["around", "as_integers", "as_signs", "dense_of", "pad", "per_group_of", "window_of"]

Array = npt.NDArray[Any]


def around(edge: Edge) -> tuple[int, ...]:
    """Return the axes behind the channels of a tensor."""
    return (1, 1) if len(edge.shape) == 3 else ()


def as_signs(writer: Writer, place: Exporting) -> None:
    """Make −1 and +1 of bits that are 0 and 1."""
    if place.edge.binary and not place.signs[0]:
        name = place.name
        writer.node(f"{name}_twice", "Mul", writer.constant(f"{name}_two", np.array(2.0)))
        writer.node(f"{name}_signs", "Sub", writer.constant(f"{name}_one", np.array(1.0)))


def as_integers(writer: Writer, place: Exporting, source: int = 0) -> str:
    """Make 0 and 1 of bits that are −1 and +1; return the tensor that a source then is."""
    writer.tensor = writer.sources[source]
    if place.signs[source]:
        name = f"{place.name}_bit{source}"
        half = writer.constant(f"{name}_half", np.array(0.5))
        writer.node(f"{name}_by", "Mul", half)
        writer.node(name, "Add", half)
    return writer.tensor


def pad(writer: Writer, name: str, window: Window, value: float) -> None:
    """Put a number around maps."""
    rows, columns = window.padding
    pads = writer.constant(
        f"{name}_pads", np.array([0, 0, rows, columns, 0, 0, rows, columns], np.int64)
    )
    border = writer.constant(f"{name}_border", np.array(value))
    writer.node(f"{name}_pad", "Pad", pads, border, mode="constant")


def window_of(window: Window) -> dict[str, Any]:
    """Return a window as attributes of a node."""
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "pads": [*window.padding, *window.padding],
    }


def dense_of(taps: Taps) -> npt.NDArray[np.float64]:
    """Return taps as a matrix (neurons, inputs): −1 for those that are inverted."""
    dense = np.zeros((len(taps), taps.width))
    dense[taps.neurons, taps.indices] = np.where(taps.inverted, -1.0, 1.0)
    return dense


def per_group_of(dense: Array, positions: int, groups: int) -> Array:
    """Return the part of a matrix that a neuron's group has: (neurons, positions, channels)."""
    neurons = len(dense)
    own = np.arange(neurons) * groups // neurons
    apart: Array = dense.reshape(neurons, positions, groups, -1)[np.arange(neurons), :, own]
    return apart
