"""How operations on integer streams are written: their integers as they are."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import Affine, Edge, Sums, Window
from sbnn_hw.qonnx.export import Exported, Exporting, Writer, exports
from sbnn_hw.qonnx.export_parts import (
    around,
    as_integers,
    as_signs,
    dense_of,
    per_group_of,
    window_of,
)

Array = npt.NDArray[Any]


@exports("sums")
def _sums(place: Exporting) -> Exported:
    name, edge = place.name, place.edge
    sums: Sums = place.operation
    weights = _weights(sums)
    # What inverted taps and values of the padding add, whatever comes.
    constant = sums.taps.per_neuron(sums.taps.inverted) * float(edge.maximum)
    if sums.border == "zero":
        constant = np.zeros(len(constant))
    neurons = len(sums.taps)
    if sums.pad is not None:
        own = np.arange(neurons) * sums.groups // neurons
        constant = constant + (weights * sums.pad.reshape(sums.groups, 1, -1)[own]).sum(axis=(1, 2))

    def write(writer: Writer) -> None:
        if sums.border == "zero":
            as_signs(writer, place)
        else:
            as_integers(writer, place)
        if sums.pad is not None:  # padding of what is left is zero
            level = sums.pad.reshape(1, -1, 1, 1).astype(np.float64)
            writer.node(f"{name}_inside", "Sub", writer.constant(f"{name}_padding", level))
        if sums.window is None:
            dense = np.zeros((neurons, sums.channels))
            per_group = sums.channels // sums.groups
            for neuron in range(neurons):
                first = neuron * sums.groups // neurons * per_group
                dense[neuron, first : first + per_group] = weights[neuron, 0]
            writer.node(name, "MatMul", writer.weights(name, dense.T))
        else:
            kernel = sums.window.kernel
            shaped = weights.reshape(neurons, *kernel, -1).transpose(0, 3, 1, 2)
            writer.node(
                name,
                "Conv",
                writer.weights(name, shaped),
                group=sums.groups,
                **window_of(sums.window),
            )
        kind = "sums" if sums.weights is None else "weights"
        writer.hints[name] = (sums.xi, sums.k, kind, sums.fixed.tolist(), sums.groups)
        if constant.any():
            added = constant.reshape(1, -1, *((1, 1) if sums.window is not None else ()))
            writer.node(f"{name}_more", "Add", writer.constant(f"{name}_always", added))
        writer.integers(sums.infer(edge))

    largest = 2.0 * sums.wiring.largest(edge) + float(np.abs(constant).max())
    return Exported(write, largest)


def _weights(sums: Sums) -> Array:
    """Return what each input is multiplied by: (neurons, positions, channels of a group)."""
    taps = sums.taps
    dense = dense_of(taps)
    if sums.weights is not None:
        dense[taps.neurons, taps.indices] *= sums.weights
    positions = 1 if sums.window is None else sums.window.size
    weights = per_group_of(dense, positions, sums.groups) * 2.0**sums.k
    counted = np.ones(sums.channels)
    counted[sums.fixed] = 0
    own = np.arange(len(taps)) * sums.groups // len(taps)
    return weights + sums.xi * counted.reshape(sums.groups, 1, -1)[own]


@exports("affine")
def _affine(place: Exporting) -> Exported:
    name, edges = place.name, place.edges
    affine: Affine = place.operation
    made = affine.infer(*edges)
    beside = around(edges[0])
    ends = [affine._ends(channel, edges)[2] for channel in range(len(affine.offsets))]
    largest = max(ends) << affine.slope_shift

    def number(writer: Writer, what: str, values: Array) -> str:
        return writer.constant(f"{name}_{what}", values.reshape(1, -1, *beside).astype(np.float64))

    def write(writer: Writer) -> None:
        products = []
        for source, row in enumerate(affine.multipliers):
            as_integers(writer, place, source)
            writer.node(f"{name}_times{source}", "Mul", number(writer, f"m{source}", row))
            products.append(writer.tensor)
        if len(products) == 2:
            writer.tensor = products[0]
            writer.node(f"{name}_join", "Add", products[1])
        writer.node(f"{name}_plus", "Add", number(writer, "b", affine.offsets))
        if affine.slopes is not None and affine.offsets_behind is not None:
            by = 1 << affine.slope_shift
            whole = writer.constant(f"{name}_h", np.array(float(by)))
            writer.node(f"{name}_up", "Mul", whole)
            slopes = affine.slopes.astype(np.float64).reshape(-1, *beside) / by
            writer.node(f"{name}_bend", "PRelu", writer.constant(f"{name}_p", slopes))
            writer.node(f"{name}_behind", "Add", number(writer, "d", affine.offsets_behind))
        shift = affine.shift + affine.slope_shift
        writer.node(f"{name}_over", "Div", writer.constant(f"{name}_s", np.array(2.0**shift)))
        writer.node(f"{name}_down", "Floor")
        low, high = (
            writer.constant(f"{name}_{what}", np.array(float(end)))
            for what, end in (("low", affine.low), ("high", affine.high))
        )
        writer.node(name, "Clip", low, high)
        writer.integers(made)

    return Exported(write, float(max(largest, *(_size(edge) for edge in edges))))


@exports("sum_pool2d")
def _sum_pool(place: Exporting) -> Exported:
    name, edge, pool = place.name, place.edge, place.operation
    window: Window = pool.window
    made = pool.infer(edge)

    def write(writer: Writer) -> None:
        as_integers(writer, place)
        beyond = [
            max(0, (count - 1) * stride + kernel - size)
            for count, stride, kernel, size in zip(
                made.shape[:2], window.stride, window.kernel, edge.shape[:2], strict=True
            )
        ]
        if any(beyond):
            pads = writer.constant(f"{name}_pads", np.array([0, 0, 0, 0, 0, 0, *beyond], np.int64))
            writer.node(f"{name}_repeat", "Pad", pads, mode="edge")
        ones = writer.weights(name, np.ones((edge.channels, 1, *window.kernel)))
        writer.node(name, "Conv", ones, group=edge.channels, **window_of(window))
        writer.hints[name] = (0, 0, "pool")
        writer.integers(made)

    return Exported(write, float(_size(made)))


@exports("concat")
def _concat(place: Exporting) -> Exported:
    name = place.name
    signs = all(place.signs)

    def write(writer: Writer) -> None:
        tensors = [
            writer.sources[n] if signs else as_integers(writer, place, n)
            for n in range(len(place.edges))
        ]
        writer.tensor = tensors[0]
        writer.node(name, "Concat", *tensors[1:], axis=1)

    largest = max(_size(edge) for edge in place.edges)
    return Exported(write, float(largest), signs=signs)


def _size(edge: Edge) -> int:
    return max(abs(edge.low), abs(edge.high))
