"""Layers: `MatMul`, `Gemm` and `Conv` of values with constant weights, and the class scores.

Binary layers of bits and pixels wait for their quantiser. All others are sums of integers.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Handle
from sbnn_hw.netlist import Edge, SumPool2d, Taps, Window, find_borders
from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.build import Build
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.conversion import flattened, to_integer, to_rationals, to_stream, to_values
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.pixels import ramp
from sbnn_hw.qonnx.streams import Stream, Term, Wired, surds
from sbnn_hw.qonnx.tensors import Pending, Sums, Values
from sbnn_hw.qonnx.weights import Hint, Weights, recognise
from sbnn_hw.qonnx.wires import Integers, wire

__all__ = [
    "convolution",
    "linear",
    "read_by_layer",
    "scores_of",
    "summed",
    "sums_of",
    "taps_of",
]

Int = npt.NDArray[np.int64]
Numbers = list[Fraction]


def linear(
    build: Build, node: Node, at: int, x: Values | Stream, constants: Mapping[int, Constant]
) -> Pending | Stream:
    """Return the layer of a `MatMul` or `Gemm`."""
    if at or 1 not in constants:
        raise node.refuse(
            "must multiply values that depend on the image (on the left) by constants"
        )
    if node.integer("transA", 0):
        raise node.refuse("transposes the images, which cannot be mapped")
    weights = constants[1]
    if node.integer("transB", 0):
        weights = weights.reshaped(lambda codes: codes.T)
    if x.pad is not None or x.index.ndim != 1 or len(weights.shape) != 2:
        raise node.refuse(
            f"must multiply vectors by a matrix, not {x.index.shape} an image by {weights.shape}"
        )
    inputs = x.index.size
    if weights.shape[0] != inputs or min(weights.shape) < 1:
        raise node.refuse(f"has weights of shape {weights.shape} for vectors of {inputs}")
    if not np.array_equal(np.sort(x.index), np.arange(inputs)):
        raise node.refuse("reads some of its inputs twice, or not all of them")
    # From the tensor's order to the netlist's.
    order = np.argsort(x.index)
    matrix = weights.reshaped(lambda codes: np.ascontiguousarray(codes.T[:, order]))
    hint, scores = build.hints.get(node.name), build.last(node)

    @cache
    def values() -> Stream:
        given = _integers(build, node, flattened(build, node, to_stream(build, node, x)))
        made, groups = _parted(matrix.reshaped(lambda codes: codes[:, None, :]), hint)
        found = wire(made, given, groups=groups, hint=hint, weighted=scores)
        wired = Wired(node.name, given.source, found.sums)
        return Stream(
            index=np.arange(len(found.factors)),
            shape=(len(found.factors),),
            terms=(Term(wired, surds(found.factors)),),
            offset=surds(found.offsets),
        )

    if isinstance(x, Stream) or (hint is not None and hint.kind != "layer"):
        return values()
    scale, ratio = _inputs(node, x, x.lane[order])
    # Scores of pixels are counted in half steps.
    hint = _with_unit(hint, [2 * s for s in scale] if scores and x.pixels is not None else scale)
    try:
        found = recognise(_times(matrix, scale), scores=scores, hint=hint, groups=1)
    except ModelRejected:
        return values()
    extra = _constant_part(found, ratio)
    return Pending(node.name, build.flattened(x.at), found, [extra], values)


def convolution(
    build: Build, node: Node, x: Values | Stream, constants: Mapping[int, Constant]
) -> Pending | Stream:
    """Return the layer of a `Conv`."""
    if 1 not in constants or len(constants[1].shape) != 4:
        raise node.refuse("must have constant weights (out, in, rows, columns)")
    weights, groups = constants[1], node.integer("group", 1)
    outputs, per_group, rows, columns = weights.shape
    if node.integers("kernel_shape") not in (None, (rows, columns)):
        raise node.refuse(f"has a kernel_shape that differs from its weights, {weights.shape}")
    edge = x.at.edge if isinstance(x, Values) else Edge(x.shape, scan="raster")
    channels, lanes = shapes.channels_of(node, x, edge)
    if min(weights.shape) < 1 or groups < 1 or outputs % groups:
        raise node.refuse(f"cannot divide {outputs} outputs into {groups} groups")
    if per_group * groups != len(channels):
        raise node.refuse(f"takes {per_group * groups} channels, but receives {len(channels)}")
    if groups > 1 and (channels != np.arange(len(channels))).any():
        raise node.refuse("has groups of channels whose order was changed")
    pad = x.pad.window if x.pad is not None else (0, 0)
    beyond = x.beyond if isinstance(x, Stream) else (0, 0)
    size = (edge.shape[0] + beyond[0], edge.shape[1] + beyond[1])
    window = shapes.conv_window(node, (rows, columns), size, pad)
    places = window.output(*size)
    if places[0] * places[1] * outputs > shapes.MOST_ELEMENTS:
        raise node.refuse("makes maps with too many elements")
    # (out, position, channel of the group), each group's channels in the netlist's order.
    order = np.argsort(channels) if groups == 1 else np.arange(per_group)
    matrix = weights.reshaped(
        lambda codes: np.ascontiguousarray(
            codes.transpose(0, 2, 3, 1).reshape(outputs, rows * columns, per_group)[:, :, order]
        )
    )
    hint = build.hints.get(node.name)
    adds_up = isinstance(x, Stream) if hint is None else hint.kind == "pool"
    if adds_up and groups == outputs == len(channels):
        pooled = _sum_pool(build, node, to_stream(build, node, x), matrix, window)
        if pooled is not None:
            return pooled
    if any(beyond):
        raise node.refuse("reads a map that was padded by its own values; only sums may")

    @cache
    def values() -> Stream:
        given = _integers(build, node, to_stream(build, node, x))
        found = wire(matrix, given, window=window, groups=groups, hint=hint)
        made = found.sums.infer(given.source.edge)
        return Stream(
            index=shapes.map_index(made),
            shape=made.shape,
            terms=(Term(Wired(node.name, given.source, found.sums), surds(found.factors)),),
            offset=surds(found.offsets),
        )

    if isinstance(x, Stream) or (hint is not None and hint.kind != "layer"):
        return values()
    lane_of = lanes[np.argsort(channels)]
    scale, ratio = _inputs(node, x, lane_of)
    grouped = np.arange(len(channels)).reshape(groups, per_group)
    group_of = np.arange(outputs) * groups // outputs
    scaled = _times(matrix, scale, grouped[group_of][:, None, :])
    flat = scaled.reshaped(lambda codes: codes.reshape(outputs, -1))
    hint = _with_unit(hint, scale)
    try:
        found = recognise(flat, scores=False, hint=hint, groups=groups)
    except ModelRejected:
        return values()
    padding = _padding(node, x, lane_of)
    border, extra = _borders(found, window, edge, ratio, padding, grouped, group_of)
    classes = find_borders(window, edge.shape[0], edge.shape[1]).of if border == "zero" else None
    return Pending(node.name, x.at, found, extra, values, window, groups, border, classes)


def read_by_layer(build: Build, node: Node, x: Values | Sums | Stream) -> Values | Stream:
    """Return what a layer can read: bits or pixels, or integers of one stream."""
    if isinstance(x, Values):
        return build.decided(x)
    stream = to_stream(build, node, x)
    beyond, pad = stream.beyond, stream.pad
    stream = replace(to_integer(build, node, stream), beyond=beyond, pad=pad)
    return to_values(build, node, stream) or stream


def _integers(build: Build, node: Node, x: Stream) -> Integers:
    """Return what a layer of integers reads."""
    x = to_integer(build, node, x)
    source = x.terms[0].source
    assert isinstance(source, Handle)
    factor, offset = (to_rationals(node, part) for part in (x.terms[0].factors, x.offset))
    padding = (Fraction(0),) * len(factor) if x.pad is None else x.pad.values
    return Integers(source, tuple(factor), tuple(offset), padding)


def _parted(matrix: Constant, hint: Hint | None) -> tuple[Constant, int]:
    """Return the weights of each neuron's own group, if a file says that there are several."""
    groups = 1 if hint is None else hint.groups
    neurons, _, inputs = matrix.shape
    if groups == 1 or neurons % groups or inputs % groups:
        return matrix, 1
    parts = matrix.codes.reshape(neurons, groups, inputs // groups)
    own = np.arange(neurons) * groups // neurons
    zeros = np.array([not number for number in matrix.rationals])[parts]
    zeros[np.arange(neurons), own] = True
    if not zeros.all():
        return matrix, 1
    return matrix.reshaped(lambda codes: parts[np.arange(neurons), own][:, None, :]), groups


def _sum_pool(
    build: Build, node: Node, x: Stream, matrix: Constant, window: Window
) -> Stream | None:
    """Return the sums of windows, if each channel has one weight in all of its window."""
    same = (matrix.codes == matrix.codes[:, :1]).all()
    if not same or any(window.padding) or x.pad is not None:
        return None
    beyond = x.beyond
    x = to_integer(build, node, x)
    if (x.index != shapes.map_index(Edge(x.shape, scan="raster"))).any():
        return None
    factors = [matrix.rationals[code] for code in matrix.codes[:, 0, 0]]
    made = summed(build, node, replace(x, beyond=beyond), window)
    return made.affine(surds(factors), surds([Fraction(0)] * len(factors)))


def summed(build: Build, node: Node, x: Stream, window: Window) -> Stream:
    """Return the sum of each window; what is beyond the map repeats its last rows and columns."""
    pool = SumPool2d(window, ceil=any(x.beyond))
    source = x.terms[0].source
    assert isinstance(source, Handle)
    height, width, _ = x.shape
    rows, columns = pool.output(source.edge)
    reach = [
        max(0, (count - 1) * stride + kernel - size)
        for count, stride, kernel, size in zip(
            (rows, columns), window.stride, window.kernel, (height, width), strict=True
        )
    ]
    if any(x.beyond) and tuple(reach) != x.beyond:
        raise node.refuse("pads more, or less, than its last window hangs over")
    stage = build.name("average")
    made = build.add(stage, pool, source)
    return replace(
        x,
        index=shapes.map_index(made.edge),
        shape=made.edge.shape,
        terms=(Term(made, x.terms[0].factors),),
        offset=tuple(offset * window.size for offset in x.offset),
        beyond=(0, 0),
    )


def _inputs(node: Node, x: Values, lanes: Int) -> tuple[Numbers, Numbers]:
    """Return the scale A of each input, and B/A, where A·x + B is its value and |x| ≤ 1."""
    a, b = (Fraction(1), Fraction(0)) if x.pixels is None else ramp(x.pixels, x.maximum)
    scale = [x.scale[n] * a for n in lanes]
    if 0 in scale:
        raise node.refuse("reads values that are scaled by zero")
    offset = [x.scale[n] * b + x.offset[n] for n in lanes]
    return scale, [o / s for o, s in zip(offset, scale, strict=True)]


def _with_unit(hint: Hint | None, scale: Numbers) -> Hint | None:
    """Tell a hint what its weights have become, where all inputs have one scale."""
    if hint is None or len(set(scale)) != 1:
        return hint
    return replace(hint, unit=scale[0])


def _padding(node: Node, x: Values, lanes: Int) -> Numbers:
    """Return what padding holds, in each channel, over the channel's scale."""
    scale, _ = _inputs(node, x, lanes)
    if x.pad is None:
        return [Fraction(0)] * len(scale)
    return [x.pad.values[n] / s for n, s in zip(lanes, scale, strict=True)]


def _times(matrix: Constant, scale: Numbers, place: Int | None = None) -> Constant:
    """Multiply each input's weights by its scale."""
    factors = Constant.listed(scale)
    if place is not None:
        factors = factors.reshaped(lambda codes: codes[place])
    if len(factors.numbers) == 1:
        factors = Constant.full(factors.rationals[0])
    return matrix.combine(factors, lambda weight, factor: weight * factor)


def _constant_part(weights: Weights, ratio: Numbers) -> Numbers:
    """Return Σ (pattern + ξ)·B/A of each neuron of a linear layer."""
    total = [Fraction(0)] * len(weights.pattern)
    for number in sorted(set(ratio)):
        if number:
            chosen = np.array([r == number for r in ratio])
            counts = weights.pattern[:, chosen].sum(axis=1, dtype=np.int64)
            for neuron, count in enumerate(counts.tolist()):
                total[neuron] += number * (count + weights.xi * int(chosen.sum()))
    return total


def _borders(
    weights: Weights,
    window: Window,
    edge: Edge,
    ratio: Numbers,
    padding: Numbers,
    grouped: Int,
    group_of: Int,
) -> tuple[str, list[Numbers]]:
    """Return what padding means, and the constant part of each border class and neuron.

    Padding that is x = −1, the bit 0, needs no classes.
    """
    minus = all(p - r == -1 for p, r in zip(padding, ratio, strict=True))
    if minus or not any(window.padding):
        valid, border = np.ones((1, window.size), bool), "minus"
    else:
        valid, border = find_borders(window, edge.shape[0], edge.shape[1]).valid, "zero"
    neurons = len(weights.pattern)
    pattern = weights.pattern.reshape(neurons, window.size, -1)
    extra = [[Fraction(0)] * neurons for _ in valid]
    for values, where in ((ratio, valid), (padding, ~valid)):
        for number in sorted(set(values)):
            if not number:
                continue
            chosen = np.array([v == number for v in values])[grouped][group_of]
            counts = (pattern * chosen[:, None, :]).sum(axis=2, dtype=np.int64)
            inputs = chosen.sum(axis=1)
            for row, mask in enumerate(where):
                taps, places = counts[:, mask].sum(axis=1), int(mask.sum())
                for neuron in range(neurons):
                    whole = weights.xi * places * int(inputs[neuron])
                    extra[row][neuron] += number * (int(taps[neuron]) + whole)
    return border, extra


def sums_of(made: Pending | Stream, constants: Mapping[int, Constant], node: Node) -> Sums | Stream:
    """Return what a layer makes, its own bias added."""
    sums = made if isinstance(made, Stream) else _pending_sums(made)
    neurons = sums.channels
    if node.op == "Gemm" and "alpha" in node.attributes:
        sums = sums.scaled(Constant.full(Fraction(node.number("alpha", 1.0))))
    if 2 in constants:
        bias = constants[2]
        if node.op == "Conv":
            if bias.shape != (neurons,):
                raise node.refuse(f"must have {neurons} biases, not {bias.shape}")
            bias = bias.reshaped(lambda codes: codes[:, None, None])
        factor = Fraction(node.number("beta", 1.0)) if node.op == "Gemm" else Fraction(1)
        sums = sums.shifted(bias.map(lambda number: number * factor))
    return sums


def _pending_sums(pending: Pending) -> Sums:
    neurons = len(pending.weights.pattern)
    index = np.arange(neurons)
    if pending.window is not None:
        size = pending.window.output(*pending.source.edge.shape[:2])
        index = shapes.map_index(Edge((*size, neurons), scan="raster"))
    ones, zeros = (Fraction(1),) * neurons, (Fraction(0),) * neurons
    return Sums(layer=pending, index=index, inner=(ones, zeros), outer=(ones, zeros))


def taps_of(layer: Pending) -> Taps:
    """Return the taps of a layer, in the netlist's order."""
    pattern = layer.weights.pattern
    positions = 1 if layer.window is None else layer.window.size
    return Taps.from_windows(pattern.reshape(len(pattern), positions, -1), layer.groups)


def scores_of(node: Node, x: Sums) -> tuple[Fraction, Numbers]:
    """Return the scale that all classes have, and the offset of each."""
    factors, offsets = [], []
    roots = _roots(node, x)
    for c in range(x.channels):
        (s, t), (s2, t2) = ((part[0][c], part[1][c]) for part in (x.inner, x.outer))
        s *= x.layer.weights.rows[c]
        if x.norm is not None:
            g, m, b = x.norm.gain[c], x.norm.mean[c], x.norm.bias[c]
            s, t = s2 * g * s / roots[c], s2 * g * (t - m) / roots[c] + (s2 * b + t2)
        factors.append(s)
        offsets.append(t + s * x.layer.extra[0][c])
    if len(set(factors)) > 1:
        low, high = min(factors), max(factors)
        raise node.refuse(
            f"gives the scores of {x.layer.name} a different scale for each class, from "
            f"{float(low):g} to {float(high):g}, which cannot be mapped; use one scale"
        )
    if factors[0] == 0:
        raise node.refuse("gives every class the same score")
    return factors[0], offsets


def _roots(node: Node, x: Sums) -> Numbers:
    """Return √spread of each class; it must be rational, or not matter."""
    if x.norm is None:
        return []
    roots = [Fraction(isqrt(w.numerator), isqrt(w.denominator)) for w in x.norm.spread]
    if all(root * root == w for root, w in zip(roots, x.norm.spread, strict=True)):
        return roots
    shifts = {s * b + t for s, b, t in zip(x.outer[0], x.norm.bias, x.outer[1], strict=True)}
    if len(set(x.norm.spread)) == 1 and len(shifts) == 1:
        # √spread > 0 scales every score alike, and what it would scale too is common to all.
        return [Fraction(1)] * x.channels
    raise node.refuse(
        "gives the scores a batch norm whose roots are not fractions; end with the linear layer, "
        "or with one scale and one offset per class"
    )
