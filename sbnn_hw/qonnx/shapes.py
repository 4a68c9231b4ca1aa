"""Shapes and orders: where each element of a tensor lies in the netlist."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Edge, Window
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Graph, Input, Node
from sbnn_hw.qonnx.streams import Stream, Term
from sbnn_hw.qonnx.tensors import Sums, Values

__all__ = [
    "along_channels",
    "average_window",
    "channels_of",
    "conv_window",
    "fold_shape",
    "image_of",
    "map_index",
    "padding_of",
    "pool_window",
    "rearranged",
    "rearranged_stream",
    "repeated_of",
    "shape_of",
    "sizes_of",
]

Int = npt.NDArray[np.int64]
State = Values | Sums | Stream

#: Operators that may stand between the image and the node that brings its channels to the front.
ELEMENTWISE = (
    *("Mul", "Div", "Add", "Sub", "Neg", "Identity", "Cast", "Dropout"),
    *("BipolarQuant", "Quant", "MultiThreshold", "Sign"),
)

#: Elements of a tensor that are kept track of.
MOST_ELEMENTS = 1 << 24


def map_index(edge: Edge) -> Int:
    """Return for each element of a map (channels, height, width) its place in the edge."""
    height, width, channels = edge.shape
    places = np.arange(edge.size).reshape(height, width, channels)
    return np.ascontiguousarray(places.transpose(2, 0, 1))


def image_of(graph: Graph) -> tuple[Edge, Int]:
    """Return what the netlist receives, and where in it the elements of the input lie.

    Maps are (channels, height, width) unless the graph transposes them so, or only the last axis
    can be channels. A vector whose length is a square is an image of one channel.
    """
    shape = graph.input.shape[1:]
    if len(shape) == 3:
        maps = any(node.op in ("Conv", "MaxPool") for node in graph.nodes)
        last = _first_order(graph) == (0, 3, 1, 2) or (
            shape[2] in (1, 3) and shape[0] not in (1, 3) and not maps
        )
        if last and graph.hints.get("layout") != "NCHW":
            edge = Edge.of_bits(shape, 8, scan="raster")
            return edge, np.arange(edge.size).reshape(shape)
        edge = Edge.of_bits((shape[1], shape[2], shape[0]), 8, scan="raster")
        return edge, map_index(edge)
    size = prod(shape)
    side = isqrt(size)
    if len(shape) == 2:
        edge = Edge.of_bits((*shape, 1), 8, scan="raster")
    elif side * side == size:
        edge = Edge.of_bits((side, side, 1), 8, scan="raster")
    else:
        edge = Edge.of_bits((size,), 8)
    return edge, np.arange(size).reshape(shape)


def _first_order(graph: Graph) -> tuple[int, ...] | None:
    """Return how the first `Transpose` moves axes, if only elementwise nodes stand before it."""
    name = graph.input.name
    while len(readers := [node for node in graph.readers(name) if node.op != "Shape"]) == 1:
        (node,) = readers
        if node.op == "Transpose":
            return node.integers("perm")
        if node.op not in ELEMENTWISE:
            break
        name = node.outputs[0]
    return None


def sizes_of(node: Node, shape: tuple[int, ...]) -> Constant:
    """Return what a `Shape` node makes of a shape: all of it, or the axes from start to end."""
    first, last = node.integer("start", 0), node.integer("end", len(shape))
    return Constant.of(np.array(shape[first:last], np.int64))


def shape_of(x: State, given: Input) -> tuple[int, ...]:
    """Return the shape of a tensor, the batch in front."""
    return (given.shape[0], *x.index.shape)


def along_channels(node: Node, thresholds: Constant, axes: int) -> Constant:
    """Give thresholds of a `MultiThreshold`, one a channel, the axes that its layout says."""
    layout = node.text("data_layout", "") or {1: "NC", 2: "NWC"}.get(axes, "NCHW")
    channel = layout.index("C") - 1 if "C" in layout else 0
    if channel not in range(axes):
        raise node.refuse(f"has a layout, {layout!r:.20}, that does not fit its input")
    around = tuple(slice(None) if axis == channel else None for axis in range(axes))
    return thresholds.reshaped(lambda codes: codes[around])


# Rearranging


def rearranged(
    node: Node, x: Values | Sums, constants: Mapping[int, Constant], given: Input
) -> Values | Sums:
    """Apply Reshape, Flatten, Squeeze, Unsqueeze, Transpose or Gather; the batch stays in front."""
    if x.pad is not None:
        raise node.refuse("changes the shape of padded values; pad in the convolution")
    if isinstance(x, Sums) and x.pools and node.op == "Gather":
        raise node.refuse("chooses among sums, which cannot be mapped")
    batch = given.shape[0]
    change = _change(node, x.index.shape, constants, batch)
    index = change(x.index)
    if isinstance(x, Sums):
        if node.op == "Gather":
            raise node.refuse("chooses among sums, which cannot be mapped")
        return replace(x, index=index)
    if node.op != "Gather":
        return replace(x, index=index, lane=change(x.lane))
    return _gathered(node, x, constants)


def rearranged_stream(
    node: Node, x: Stream, constants: Mapping[int, Constant], given: Input
) -> Stream:
    """Apply the same to a stream; its edges keep their shapes."""
    if x.pad is not None or any(x.beyond):
        raise node.refuse("changes the shape of padded values; pad in the convolution")
    if node.op == "Gather":
        return _chosen(node, x, constants)
    change = _change(node, x.index.shape, constants, given.shape[0])
    return replace(x, index=change(x.index))


def _chosen(node: Node, x: Stream, constants: Mapping[int, Constant]) -> Stream:
    """Choose, or repeat, channels of a stream."""
    axis = node.integer("axis", 0)
    axis += x.index.ndim + 1 if axis < 0 else 0
    whole = x.index.reshape(len(x.index), -1)[:, 0]
    if 1 not in constants or len(constants[1].shape) != 1 or axis != 1:
        raise node.refuse("must choose channels by a constant list")
    if len(x.shape) != x.index.ndim or not np.array_equal(whole, np.arange(x.channels)):
        raise node.refuse("chooses among channels of a stream whose order was changed")
    chosen = constants[1].integers()
    if ((chosen < -x.channels) | (chosen >= x.channels)).any() or not len(chosen):
        raise node.refuse(f"chooses an index outside the {x.channels} elements")
    if len(chosen) * (x.index.size // x.channels) > MOST_ELEMENTS:
        raise node.refuse("makes too many elements")
    chosen = chosen % x.channels
    shape = (*x.shape[:-1], len(chosen))
    edge = Edge(shape, scan="raster" if len(shape) == 3 else "vector")
    return replace(
        x,
        index=map_index(edge) if len(shape) == 3 else np.arange(len(chosen)),
        shape=shape,
        terms=tuple(Term(t.source, tuple(t.factors[n] for n in chosen)) for t in x.terms),
        offset=tuple(x.offset[n] for n in chosen),
        bends=tuple(bend.chosen(chosen) for bend in x.bends),
        chosen=chosen if x.chosen is None else x.chosen[chosen],
    )


def _change(
    node: Node, shape: tuple[int, ...], constants: Mapping[int, Constant], batch: int
) -> Any:
    axes = len(shape) + 1
    if node.op == "Transpose":
        perm = node.integers("perm") or tuple(reversed(range(axes)))
        if sorted(perm) != list(range(axes)) or perm[0] != 0:
            raise node.refuse(f"moves the batch, or axes that do not exist: {perm!s:.60}")
        return lambda array: array.transpose([axis - 1 for axis in perm[1:]])
    if node.op == "Gather":
        return lambda array: array
    target = _target(node, shape, constants, batch)
    if prod(target) != prod(shape):
        raise node.refuse(f"turns {shape} per image into {target}, which has another size")
    return lambda array: array.reshape(target)


def _target(
    node: Node, shape: tuple[int, ...], constants: Mapping[int, Constant], batch: int
) -> tuple[int, ...]:
    """Return the new shape of an image."""
    axes = len(shape) + 1
    if node.op == "Flatten":
        axis = node.integer("axis", 1)
        if axis not in (1, 1 - axes):
            raise node.refuse(f"must flatten after the batch (axis 1), not {axis}")
        return (prod(shape),)
    if node.op in ("Squeeze", "Unsqueeze"):
        given = node.integers("axes")
        if 1 in constants:
            given = tuple(constants[1].integers().ravel().tolist())
        if given is None:
            raise node.refuse("must name its axes")
        return _squeezed(node, shape, given)
    if node.op != "Reshape" or 1 not in constants:
        raise node.refuse("must have a constant shape")
    target = constants[1].integers().ravel().tolist()
    full = (batch, *shape)
    if not node.attributes.get("allowzero", 0):
        target = [full[n] if size == 0 and n < len(full) else size for n, size in enumerate(target)]
    if target.count(-1) > 1 or any(size < -1 or size == 0 for size in target) or not target:
        raise node.refuse(f"has a shape {target} that is not possible")
    if -1 in target:
        rest = prod(size for size in target if size != -1)
        if prod(full) % rest:
            raise node.refuse(f"turns {full} into {target}, which has another size")
        target[target.index(-1)] = prod(full) // rest
    if target[0] != batch:
        raise node.refuse(f"must keep the batch of {batch} first, not turn {full} into {target}")
    return tuple(target[1:])


def _squeezed(node: Node, shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    if node.op == "Unsqueeze":
        axes = len(shape) + 1 + len(given)
        places = {axis % axes for axis in given}
        rest = iter(shape)
        if 0 in places or len(places) != len(given):
            raise node.refuse("must keep the batch first")
        return tuple(1 if axis in places else next(rest) for axis in range(1, axes))
    axes = len(shape) + 1
    places = {axis % axes for axis in given}
    if any(axis == 0 or shape[axis - 1] != 1 for axis in places):
        raise node.refuse("must drop axes of size one, and not the batch")
    return tuple(size for axis, size in enumerate(shape, 1) if axis not in places)


def _gathered(node: Node, x: Values, constants: Mapping[int, Constant]) -> Values:
    """Choose, or repeat, channels; each copy is a lane of its own."""
    axis = node.integer("axis", 0)
    axis += x.index.ndim + 1 if axis < 0 else 0
    if 1 not in constants or len(constants[1].shape) != 1 or not 1 <= axis <= x.index.ndim:
        raise node.refuse("must choose by a constant list, and not among images")
    chosen, size = constants[1].integers(), x.index.shape[axis - 1]
    if ((chosen < -size) | (chosen >= size)).any():
        raise node.refuse(f"chooses an index outside the {size} elements")
    if len(chosen) * (x.index.size // size) > MOST_ELEMENTS:
        raise node.refuse("makes too many elements")
    index, lane = (np.take(array, chosen, axis=axis - 1) for array in (x.index, x.lane))
    around = [1] * index.ndim
    around[axis - 1] = len(chosen)
    pairs = lane * len(chosen) + np.arange(len(chosen)).reshape(around)
    used, lanes = np.unique(pairs, return_inverse=True)
    before = used // len(chosen)
    return replace(
        x,
        index=index,
        lane=lanes.reshape(index.shape),
        scale=tuple(x.scale[n] for n in before),
        offset=tuple(x.offset[n] for n in before),
    )


def channels_of(node: Node, x: Values | Stream, edge: Edge) -> tuple[Int, Int]:
    """Return for each channel of the tensor the edge's channel, and the lane of its elements."""
    height, width, channels = edge.shape if len(edge.shape) == 3 else (0, 0, 0)
    if x.index.shape != (channels, height, width):
        raise node.refuse(
            f"takes maps (channels, height, width), but receives {x.index.shape} of an edge "
            f"{edge.shape}"
        )
    order = x.index[:, 0, 0] % channels
    if not np.array_equal(x.index, map_index(edge)[order]) or len(set(order.tolist())) != channels:
        raise node.refuse("receives a map whose pixels were moved, which cannot be mapped")
    lanes = x.lane[:, 0, 0]
    if (x.lane != lanes[:, None, None]).any():
        raise node.refuse("receives a map that is scaled differently from place to place")
    return order, lanes


# Windows


def conv_window(
    node: Node, kernel: tuple[int, int], size: tuple[int, int], pad: tuple[int, int]
) -> Window:
    """Return the window of a convolution or pool, from its attributes."""
    stride = _pair(node, "strides", (1, 1))
    if _pair(node, "dilations", (1, 1)) != (1, 1):
        raise node.refuse("has a dilation, which cannot be mapped")
    pads = node.integers("pads") or (0, 0, 0, 0)
    auto = node.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        whole = [
            max(0, (-(-n // s) - 1) * s + k - n)
            for n, s, k in zip(size, stride, kernel, strict=True)
        ]
        if any(n % 2 for n in whole):
            raise node.refuse(f"pads one side more than the other ({auto}); use even padding")
        pads = (whole[0] // 2, whole[1] // 2, whole[0] // 2, whole[1] // 2)
    elif auto not in ("NOTSET", "VALID", ""):
        raise node.refuse(f"has auto_pad {auto!r:.20}, which is not supported")
    if len(pads) != 4 or pads[:2] != pads[2:]:
        raise node.refuse(f"has pads {pads!s:.60}; both sides must have the same")
    if any(pads) and any(pad):
        raise node.refuse("pads values that a Pad node has already padded")
    padding = (pads[0] + pad[0], pads[1] + pad[1])
    try:
        window = Window(kernel, stride, padding)
        window.output(*size)
    except ModelRejected as error:
        raise node.refuse(f"has an impossible window: {error}") from None
    return window


def pool_window(node: Node, x: State) -> Window:
    """Return the window of a `MaxPool`."""
    if x.index.ndim != 3:
        raise node.refuse("must pool maps (channels, height, width)")
    if any(node.outputs[1:]) or node.attributes.get("storage_order", 0):
        raise node.refuse("gives indices, which cannot be mapped")
    kernel = _pair(node, "kernel_shape", None)
    size = (x.index.shape[1], x.index.shape[2])
    window = conv_window(node, kernel, size, (0, 0))
    if node.attributes.get("ceil_mode", 0):
        for n, k, s, p in zip(size, window.kernel, window.stride, window.padding, strict=True):
            if (n + 2 * p - k) % s:
                raise node.refuse("rounds its size up (ceil_mode), which cannot be mapped")
    return window


def average_window(node: Node, x: State) -> Window:
    """Return the window of an `AveragePool`, which must not be padded."""
    kernel = _pair(node, "kernel_shape", None)
    size = (x.index.shape[1], x.index.shape[2])
    if node.integer("ceil_mode", 0):  # the last window may hang over
        size = (size[0] + kernel[0] - 1, size[1] + kernel[1] - 1)
    window = conv_window(node, kernel, size, (0, 0))
    if any(window.padding):
        raise node.refuse("pads what it averages, which cannot be mapped; pad with zeros before it")
    return window


def _pair(node: Node, key: str, default: tuple[int, int] | None) -> tuple[int, int]:
    pair = node.integers(key) or default
    if pair is None or len(pair) != 2 or not all(0 < n < 1 << 16 for n in pair):
        raise node.refuse(f"must have {key} for both rows and columns, not {pair!r:.60}")
    return int(pair[0]), int(pair[1])


def padding_of(
    node: Node, x: State, constants: Mapping[int, Constant]
) -> tuple[tuple[int, int], Fraction]:
    """Return how many rows and columns a `Pad` node adds on each side, and of what."""
    if node.attributes.get("mode", "constant") != "constant" or 3 in constants:
        raise node.refuse("must pad with a constant, on all axes")
    pads = node.integers("pads")
    if 1 in constants:
        pads = tuple(constants[1].integers().ravel().tolist())
    number = Fraction(node.number("value", 0.0))
    if 2 in constants:
        number = constants[2].scalar()
    if pads is not None and not any(pads):
        return (0, 0), number
    if x.index.ndim != 3 or pads is None or len(pads) != 8:
        raise node.refuse("must pad maps (channels, height, width), by eight constants")
    before, after = pads[:4], pads[4:]
    if before != after or any(before[:2]) or min(before) < 0 or max(before) >= 1 << 16:
        raise node.refuse(f"must pad height and width equally on both sides, not {pads}")
    return (before[2], before[3]), number


def repeated_of(node: Node, x: State, constants: Mapping[int, Constant]) -> tuple[int, int]:
    """Return how many rows and columns a `Pad` node repeats, below and to the right."""
    pads = node.integers("pads")
    if 1 in constants:
        pads = tuple(constants[1].integers().ravel().tolist())
    if x.index.ndim != 3 or pads is None or len(pads) != 8 or any(pads[:6]) or min(pads) < 0:
        raise node.refuse("must repeat the last rows and columns of maps, below and to the right")
    return pads[6], pads[7]


def fold_shape(node: Node, constants: Mapping[int, Constant]) -> Constant:
    """Compute a node that only changes the shape of constants."""
    x = constants[0]
    axes = len(x.shape)
    if node.op == "Shape":
        return sizes_of(node, x.shape)
    if node.op == "Transpose":
        perm = node.integers("perm") or tuple(reversed(range(axes)))
        if sorted(perm) != list(range(axes)):
            raise node.refuse(f"names axes that do not exist: {perm!s:.60}")
        return x.reshaped(lambda codes: codes.transpose(perm))
    if node.op == "Reshape" and 1 in constants:
        target = constants[1].integers().ravel().tolist()
        target = [x.shape[n] if s == 0 and n < axes else s for n, s in enumerate(target)]
        try:
            return x.reshaped(lambda codes: codes.reshape(target))
        except ValueError:
            raise node.refuse(f"cannot give {x.shape} the shape {target}") from None
    if node.op == "Flatten":
        axis = node.integer("axis", 1)
        if not -axes <= axis <= axes:
            raise node.refuse(f"must flatten at one of its {axes} axes, not {axis}")
        sizes = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        return x.reshaped(lambda codes: codes.reshape(sizes))
    if node.op in ("Squeeze", "Unsqueeze"):
        given = node.integers("axes")
        if 1 in constants:
            given = tuple(constants[1].integers().ravel().tolist())
        try:
            if node.op == "Squeeze":
                return x.reshaped(lambda codes: np.squeeze(codes, given))
            return x.reshaped(lambda codes: np.expand_dims(codes, given or ()))
        except (ValueError, IndexError, OverflowError):
            raise node.refuse(f"cannot change axes {given} of {x.shape}") from None
    if node.op == "Gather" and 1 in constants:
        chosen, axis = constants[1].integers(), node.integer("axis", 0)
        try:
            return x.reshaped(lambda codes: np.take(codes, chosen, axis=axis))
        except (IndexError, OverflowError, ValueError):
            raise node.refuse("chooses an index that does not exist") from None
    if node.op == "Concat" and len(constants) == len(node.inputs):
        parts = [constants[n].integers() for n in range(len(node.inputs))]
        try:
            return Constant.of(np.concatenate(parts, axis=node.integer("axis", 0)))
        except (ValueError, OverflowError):
            raise node.refuse("joins shapes that do not fit") from None
    raise node.refuse("cannot be computed from constants")
