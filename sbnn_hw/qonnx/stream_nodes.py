"""What operators mean on streams of integers: joins, averages, and what bends numbers."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sbnn_hw.netlist import Concat, Window
from sbnn_hw.qonnx import layers, shapes
from sbnn_hw.qonnx.build import Build, Given, State
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.conversion import flattened, to_integer, to_stream
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.nodes import means
from sbnn_hw.qonnx.rounding import round_down
from sbnn_hw.qonnx.streams import Bend, Stream, Term, surds

__all__ = ["JOINS"]

#: By the operator, the function that takes what is known of all inputs, which depend on the image.
JOINS: dict[str, Callable[[Build, Node, list[State]], State]] = {}


def joins(
    *operators: str,
) -> Callable[[Callable[[Build, Node, list[State]], State]], object]:
    """Enter a function as the meaning of operators that join tensors."""

    def enter(meaning: Callable[[Build, Node, list[State]], State]) -> object:
        JOINS.update(dict.fromkeys(operators, meaning))
        return meaning

    return enter


# Joins


@joins("Add", "Sub", "Sum")
def add(build: Build, node: Node, states: list[State]) -> State:
    """Add streams, or subtract one from another."""
    found: Stream | None = None
    for number, state in enumerate(states):
        x = _open(build, node, state)
        if node.op == "Sub" and number:
            x = x.scaled(Constant.full(Fraction(-1)))
        found = x if found is None else _sum(build, node, found, x)
    assert found is not None
    return found


def _open(build: Build, node: Node, state: State) -> Stream:
    """Return a stream that can be joined with another."""
    x = to_stream(build, node, state)
    x.check_open()
    if x.pad is not None or any(x.beyond) or x.chosen is not None:
        raise node.refuse("joins a tensor that was padded or chosen from; do that behind the join")
    if x.bends:
        raise node.refuse(
            "joins a tensor that was clipped or bent and not quantised; quantise it before the join"
        )
    return x


def _sum(build: Build, node: Node, a: Stream, b: Stream) -> Stream:
    if a.index.shape != b.index.shape:
        raise node.refuse(
            f"joins tensors of two shapes, {a.index.shape} and {b.index.shape} an image"
        )
    if a.shape != b.shape or not np.array_equal(a.index, b.index):
        raise node.refuse("joins tensors whose elements lie in different orders")
    a, first = build.placed(a)
    b, second = build.placed(b)
    if len({handle.stage for handle in (*first, *second)}) > 2:
        a, b = to_integer(build, node, a), to_integer(build, node, b)
    offset = tuple(x + y for x, y in zip(a.offset, b.offset, strict=True))
    terms: dict[int, Term] = {}
    for term in (*a.terms, *b.terms):
        stage = term.source.stage  # type: ignore[union-attr]
        if stage in terms:
            pairs = zip(terms[stage].factors, term.factors, strict=True)
            term = Term(term.source, tuple(x + y for x, y in pairs))
        terms[stage] = term
    return replace(a, terms=tuple(terms.values()), offset=offset)


@joins("Concat")
def concatenate(build: Build, node: Node, states: list[State]) -> State:
    """Put channels side by side."""
    found = [to_integer(build, node, _open(build, node, state)) for state in states]
    axes = found[0].index.ndim
    if node.integer("axis", 1) not in (1, -axes):
        raise node.refuse("must join channels, on axis 1")
    if any(x.index.shape[1:] != found[0].index.shape[1:] for x in found):
        names = " and ".join(str(x.index.shape) for x in found)
        raise node.refuse(f"joins tensors of different sizes, {names} an image")
    for x in found:
        channels = x.index.reshape(len(x.index), -1)[:, 0]
        if len(x.shape) != axes or not np.array_equal(channels, np.arange(x.channels)):
            raise node.refuse("joins tensors whose channels lie in different orders")
    if len(found) == 1:
        return found[0]
    stage = build.name("concat")
    sources = [term.source for x in found for term in x.terms]
    made = build.add(stage, Concat(len(found)), *sources)  # type: ignore[arg-type]
    index = shapes.map_index(made.edge) if axes == 3 else np.arange(made.edge.size)
    state = Stream(
        index=index,
        shape=made.edge.shape,
        terms=(Term(made, tuple(f for x in found for f in x.terms[0].factors)),),
        offset=tuple(o for x in found for o in x.offset),
    )
    build.trace(stage, node, state)
    return state


# Averages


@means("AveragePool")
def average(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Average windows: their sum, divided by their size."""
    if x.index.ndim != 3:
        raise node.refuse("must pool maps (channels, height, width)")
    window = shapes.average_window(node, x)
    return _averaged(build, node, x, window, bool(node.integer("ceil_mode", 0)))


@means("GlobalAveragePool", "ReduceMean")
def average_all(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Average whole maps."""
    if x.index.ndim != 3:
        raise node.refuse("must average maps (channels, height, width)")
    rows, columns = x.index.shape[1:]
    found = _averaged(build, node, x, Window((rows, columns)), False)
    if node.op == "GlobalAveragePool":
        return found
    axes = node.integers("axes")
    if 1 in constants:
        axes = tuple(constants[1].integers().ravel().tolist())
    if axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
        raise node.refuse("must average rows and columns, on axes 2 and 3")
    if node.integer("keepdims", 1):
        return found
    return replace(flattened(build, node, found), index=found.index.reshape(-1))


def _averaged(build: Build, node: Node, x: State, window: Window, ceil: bool) -> Stream:
    stream = to_stream(build, node, x)
    if stream.pad is not None or any(stream.beyond):
        raise node.refuse("averages what a Pad node padded, which cannot be mapped")
    stream = to_integer(build, node, stream)
    if ceil:
        stream = replace(stream, beyond=_beyond(node, window, stream.shape))
    made = layers.summed(build, node, stream, window)
    share = surds([Fraction(1, window.size)] * made.channels)
    return made.affine(share, surds([Fraction(0)] * made.channels))


def _beyond(node: Node, window: Window, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how far the last windows hang over, each by all but one row or column."""
    found = []
    for size, kernel, stride in zip(shape[:2], window.kernel, window.stride, strict=True):
        count = min(-(-(size - kernel) // stride) + 1, -(-size // stride))
        over = max(0, (count - 1) * stride + kernel - size)
        if over not in (0, kernel - 1):
            raise node.refuse(
                f"rounds its size up (ceil_mode) and averages {kernel - over} of {kernel} values "
                f"at the border, which cannot be mapped"
            )
        found.append(over)
    return found[0], found[1]


# Bends


@means("Relu")
def relu(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Clip at zero."""
    return to_stream(build, node, x).bent(Bend(ends=(Fraction(0), None)))


@means("PRelu", "LeakyRelu")
def bend(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Multiply what is below zero by a slope."""
    stream = to_stream(build, node, x)
    if node.op == "LeakyRelu":
        slope = Constant.full(Fraction(float(np.float32(node.number("alpha", 0.01)))))
    elif at or 1 not in constants:
        raise node.refuse("must have constant slopes")
    else:
        slope = constants[1]
    return stream.bent(Bend(slopes=stream.numbers(slope)))


@means("Floor")
def floor(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Round down; a `Clip` behind it is the clamp."""
    stream = to_stream(build, node, x)
    if stream.pad is not None or any(stream.beyond) or stream.chosen is not None:
        raise node.refuse("rounds values that were padded or chosen; do that behind it")
    stream.check_open()
    readers = build.graph.readers(node.outputs[0])
    if len(readers) == 1 and readers[0].op == "Clip":
        return replace(stream, floored=True)
    return round_down(build, node, stream, (None, None))
