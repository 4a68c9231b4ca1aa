"""From one way of knowing a tensor to another: values and sums as streams, streams as values."""

from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm

import numpy as np
import numpy.typing as npt

from sbnn_hw.fold.assemble import Handle
from sbnn_hw.fold.surds import Surd
from sbnn_hw.netlist import Affine, MaxPool2d, Window
from sbnn_hw.netlist.wiring import EXACT
from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.build import Build, State
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.pixels import ramp
from sbnn_hw.qonnx.streams import Stream, Term, surds
from sbnn_hw.qonnx.tensors import Sums, Values

__all__ = ["flattened", "pooled", "to_integer", "to_rationals", "to_stream", "to_values"]

Int = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Streams are joined by multipliers below this, where no quantiser rounds the join.
LARGEST_FACTOR = 1 << 16


def to_stream(build: Build, node: Node, x: State) -> Stream:
    """Return what a tensor is, as a stream."""
    if isinstance(x, Stream):
        return x
    return _of_values(build, node, x) if isinstance(x, Values) else _of_sums(build, node, x)


def _of_values(build: Build, node: Node, x: Values) -> Stream:
    """Return pixels, or bits as 0 and 1."""
    x = build.decided(x)
    if x.integer:
        raise node.refuse("computes with integers; insert a Cast to float32 before it")
    a, b = (Fraction(1), Fraction(0)) if x.pixels is None else ramp(x.pixels, x.maximum)
    top = 1 if x.pixels is None else x.maximum
    factor = [s * a * 2 / top for s in x.scale]
    offset = [s * (b - a) + o for s, o in zip(x.scale, x.offset, strict=True)]
    at, channels = x.at, x.at.edge.channels
    if x.index.ndim == 1 and len(at.edge.shape) == 3:
        at = build.flattened(at)
        channels = at.edge.channels
    lane_of = np.full(channels, -1)
    lane_of[x.index.ravel() % channels] = x.lane.ravel()
    if (lane_of < 0).any() or not np.array_equal(lane_of[x.index % channels], x.lane):
        raise node.refuse(
            "reads values that were chosen, or scaled differently from place to place"
        )
    pad = x.pad
    if pad is not None:
        pad = replace(pad, values=tuple(pad.values[n] for n in lane_of))
    return Stream(
        index=x.index,
        shape=at.edge.shape,
        terms=(Term(at, surds([factor[n] for n in lane_of])),),
        offset=surds([offset[n] for n in lane_of]),
        pad=pad,
    )


def _of_sums(build: Build, node: Node, x: Sums) -> Stream:
    """Return the sums of a binary layer, its norm and pools included."""
    if x.pad is not None or x.layer.shifted:
        raise node.refuse(f"reads sums of {x.layer.name} that are padded, or differ at the border")
    stream: Stream = x.layer.values()
    stream = stream.affine(*(surds(part) for part in x.inner))
    if x.norm is not None:
        norm = x.norm
        gain = [Surd.root(w).inverse() * g for w, g in zip(norm.spread, norm.gain, strict=True)]
        moved = [Surd(b) - g * m for b, g, m in zip(norm.bias, gain, norm.mean, strict=True)]
        stream = stream.affine(tuple(gain), tuple(moved))
        stream = stream.affine(*(surds(part) for part in x.outer))
    for pool in x.pools:
        _, stream = pooled(build, node, stream, pool.window, pool.turned)
    if x.index.ndim == 1:
        stream = flattened(build, node, stream)
    return replace(stream, index=x.index)


def flattened(build: Build, node: Node, x: Stream) -> Stream:
    """Return the stream as a vector; elements stay where they are."""
    if len(x.shape) == 1:
        return x
    if x.bends or x.chosen is not None:
        x = to_integer(build, node, x)
    x, handles = build.placed(x)
    copies = int(np.prod(x.shape[:-1]))
    vectors = [build.flattened(handle) for handle in handles]
    return replace(
        x,
        shape=vectors[0].edge.shape,
        terms=tuple(
            Term(vector, term.factors * copies)
            for vector, term in zip(vectors, x.terms, strict=True)
        ),
        offset=x.offset * copies,
    )


def to_integer(build: Build, node: Node, x: Stream) -> Stream:
    """Return a stream of one stage, whose integers are only scaled and shifted.

    Two are joined by small multipliers, if their scales allow it.
    """
    x.check_open()
    if x.bends or x.chosen is not None:
        raise node.refuse("reads values that no quantiser has rounded; quantise them before it")
    x, handles = build.placed(x)
    if len(handles) == 1:
        return x
    columns = list(zip(*(to_rationals(node, term.factors) for term in x.terms), strict=True))
    units, factors = [], []
    for pair in columns:
        below = lcm(*(number.denominator for number in pair))
        unit = Fraction(gcd(*(int(number * below) for number in pair)) or 1, below)
        units.append(unit)
        factors.append([int(number / unit) for number in pair])
    if np.abs(np.array(factors, object)).max() >= LARGEST_FACTOR:
        raise node.refuse(
            "joins two streams whose scales are not small multiples of one number; put a quantiser "
            "behind the join"
        )
    affine = Affine(
        multipliers=np.array(factors, np.int64).T,
        offsets=np.zeros(len(units), np.int64),
        shift=0,
        low=-EXACT + 1,
        high=EXACT - 1,
    )
    _, handle = build.affine(affine, *handles)
    return replace(x, terms=(Term(handle, surds(units)),))


def to_rationals(node: Node, numbers: tuple[Surd, ...]) -> list[Fraction]:
    """Return numbers that must have no roots."""
    found = []
    for number in numbers:
        rational = number.rational
        if rational is None:
            raise node.refuse(
                "reads a batch norm that no quantiser has rounded, and whose roots are no fractions"
            )
        found.append(rational)
    return found


def to_values(build: Build, node: Node, x: Stream) -> Values | None:
    """Return bits that a stream holds; None if it holds other integers."""
    if len(x.terms) != 1 or x.bends or x.chosen is not None or x.floored:
        return None
    source = x.terms[0].source
    if not isinstance(source, Handle) or (source.edge.low, source.edge.high) != (0, 1):
        return None
    if any(x.beyond) or not all(x.terms[0].factors):
        return None
    factor, offset = (to_rationals(node, part) for part in (x.terms[0].factors, x.offset))
    return Values(
        at=source,
        index=x.index,
        lane=x.lane,
        scale=tuple(f / 2 for f in factor),
        offset=tuple(o + f / 2 for o, f in zip(offset, factor, strict=True)),
        pad=x.pad,
    )


def pooled(
    build: Build, node: Node, x: Stream, window: Window, least: Mask | None = None
) -> tuple[str, Stream]:
    """Return the maximum of each window, or in some channels the ``least`` value.

    The name of the stage comes with it.
    """
    x = to_integer(build, node, x)
    if not np.array_equal(x.index, _whole(x)):
        raise node.refuse("must pool whole maps (channels, height, width), in their order")
    (term,) = x.terms
    handle = term.source
    assert isinstance(handle, Handle)
    turned = np.array([factor.sign() < 0 for factor in term.factors])
    if least is not None:
        turned ^= least
    factors = term.factors
    if turned.any():
        signs = np.where(turned, -1, 1)
        affine = Affine(
            multipliers=signs[None],
            offsets=np.zeros(len(signs), np.int64),
            shift=0,
            low=-EXACT + 1,
            high=EXACT - 1,
        )
        _, handle = build.affine(affine, handle)
        factors = tuple(factor * int(sign) for factor, sign in zip(factors, signs, strict=True))
    stage = build.name("pool")
    made = build.add(stage, MaxPool2d(window, np.zeros(x.channels, bool)), handle)
    index, shape = shapes.map_index(made.edge), made.edge.shape
    return stage, replace(x, index=index, shape=shape, terms=(Term(made, factors),))


def _whole(x: Stream) -> Int:
    if len(x.shape) != 3:
        return np.zeros(0, np.int64)
    height, width, channels = x.shape
    places = np.arange(height * width * channels).reshape(height, width, channels)
    return np.ascontiguousarray(places.transpose(2, 0, 1))
