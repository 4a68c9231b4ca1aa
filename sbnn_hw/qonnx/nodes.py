"""What each operator means: one function for each, found by the operator's name."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import naming
from sbnn_hw.fold.surds import Surd
from sbnn_hw.netlist import Edge, MaxPool2d
from sbnn_hw.qonnx import layers, shapes
from sbnn_hw.qonnx.build import QUANTISERS, Build, Given, State
from sbnn_hw.qonnx.closing import is_one_bit, quantise
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.conversion import flattened, pooled, to_integer, to_stream, to_values
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.rounding import round_down
from sbnn_hw.qonnx.scoring import end_with_weights
from sbnn_hw.qonnx.streams import Bend, Stream
from sbnn_hw.qonnx.tensors import Pad, Pool, Root, Sums, Values

__all__ = ["MEANINGS", "SUPPORTED", "end_with_scores"]

Int = npt.NDArray[np.int64]
Meaning = Callable[[Build, Node, int, State, Given], State | None]

#: The operators that are understood, for the sentence that refuses another.
SUPPORTED = (
    "BipolarQuant, Quant, MultiThreshold, Sign, MatMul, Gemm, Conv, BatchNormalization, Mul, Div, "
    "Add, Sub, Neg, Sum, Concat, Clip, Relu, PRelu, LeakyRelu, Floor, MaxPool, AveragePool, "
    "GlobalAveragePool, ReduceMean, Pad, Reshape, Flatten, Transpose, Squeeze, Unsqueeze, Gather, "
    "Identity, Dropout, Cast, ArgMax, TopK, Softmax"
)

#: By the operator, the function that takes the build, the node, the place of the input that depends
#: on the image, what is known of it, and the constants; it returns what is known of the output.
MEANINGS: dict[str, Meaning] = dict.fromkeys(QUANTISERS, quantise)


def means(*operators: str) -> Callable[[Meaning], Meaning]:
    """Enter a function as the meaning of operators."""

    def enter(meaning: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(operators, meaning))
        return meaning

    return enter


# Elementwise


@means("Mul")
def scale(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Multiply by a constant."""
    return x.scaled(_other(node, at, constants))


@means("Div")
def divide(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Divide by a constant."""
    if at:
        raise node.refuse("divides by a value that depends on the image")
    divisor = _other(node, at, constants)
    if any(number == 0 for number in divisor.rationals):
        raise node.refuse("divides by zero")
    return x.scaled(divisor.map(lambda number: 1 / number))


@means("Add")
def shift(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Add a constant."""
    return x.shifted(_other(node, at, constants))


@means("Sub")
def subtract(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Subtract a constant, or from one."""
    other = _other(node, at, constants)
    if at:
        return x.scaled(Constant.full(Fraction(-1))).shifted(other)
    return x.shifted(other.map(lambda number: -number))


@means("Neg")
def negate(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Change the sign."""
    return x.scaled(Constant.full(Fraction(-1)))


@means("Identity")
def hand_on(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Hand on what comes."""
    return x


@means("Dropout")
def drop_out(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Hand on what comes: nothing is dropped at evaluation."""
    if 2 in constants and constants[2].scalar() != 0:
        raise node.refuse("is in training mode; export the model in evaluation mode")
    return x


@means("Cast")
def cast(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Change the type, and no number."""
    if node.attributes.get("to") not in (1, 11):
        raise node.refuse("must cast to float32 or float64, which do not change any number")
    return replace(x, integer=False) if isinstance(x, Values) else x


@means("Softmax", "LogSoftmax")
def softmax(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Hand on scores: the largest stays the largest."""
    if isinstance(x, Values) or node.outputs[0] not in build.graph.outputs:
        readers = {n.op for n in build.graph.readers(node.outputs[0])}
        if not readers <= {"ArgMax", "TopK"} or isinstance(x, Values):
            raise node.refuse("must be at the end, where it does not change the class")
    if node.attributes.get("axis", -1) not in (1, -1):
        raise node.refuse("must run over the classes, on axis 1")
    return x


@means("BatchNormalization")
def normalise(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Put sums behind a batch norm."""
    if set(constants) != {1, 2, 3, 4} or node.attributes.get("training_mode", 0):
        raise node.refuse("must have four constants, and not be in training mode")
    channels = x.index.shape[0]
    if any(c.shape != (channels,) for c in constants.values()):
        raise node.refuse(f"must have {channels} numbers of each kind, one per channel")
    eps = Fraction(float(np.float32(node.number("epsilon", 1e-5))))
    around = (slice(None),) + (None,) * (x.index.ndim - 1)
    gain, bias, mean, variance = (
        constants[n].reshaped(lambda codes: codes[around]) for n in (1, 2, 3, 4)
    )
    spread = variance.map(lambda number: number + eps)
    if any(number <= 0 for number in spread.rationals):
        raise node.refuse("has a variance that is zero or negative")
    if isinstance(x, Values):
        what = "bits" if x.pixels is None else "pixels"
        raise node.refuse(
            f"normalises {what}; put it after a layer, or write it as a scale and an offset"
        )
    parts = [x.numbers(c) for c in (gain, mean, bias, spread)]
    if isinstance(x, Sums):
        return x.normed(Root(*parts))
    rows = [(Surd.root(w).inverse() * g, m, b) for g, m, b, w in zip(*parts, strict=True)]
    return x.affine(tuple(g for g, _, _ in rows), tuple(Surd(b) - g * m for g, m, b in rows))


# Shapes


@means("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather")
def rearrange(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Change the shape, or the order."""
    if not isinstance(x, Stream):
        return shapes.rearranged(node, x, constants, build.graph.input)
    x.check_open()
    made = shapes.rearranged_stream(node, x, constants, build.graph.input)
    if made.index.ndim != 1 or made.chosen is not None:
        return made
    return replace(flattened(build, node, replace(made, index=x.index)), index=made.index)


@means("Pad")
def pad(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Note what is around a map."""
    if node.text("mode", "constant") == "edge":
        beyond = shapes.repeated_of(node, x, constants)
        stream = to_integer(build, node, to_stream(build, node, x))
        return replace(stream, beyond=beyond)
    window, number = shapes.padding_of(node, x, constants)
    if window == (0, 0):
        return x
    if x.pad is not None or (isinstance(x, Sums) and x.pools):
        raise node.refuse("pads a second time, or after a pool; pad once, in a convolution")
    if isinstance(x, Stream):
        x = to_integer(build, node, x)
        return replace(x, pad=Pad(window, (number,) * x.channels))
    lanes = len(x.scale) if isinstance(x, Values) else x.channels
    pad = Pad(window, (number,) * lanes, not (isinstance(x, Sums) and x.norm is not None))
    return replace(x, pad=pad)


# Layers and pools


@means("MatMul", "Gemm")
def multiply(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Begin a linear layer."""
    made = layers.linear(build, node, at, layers.read_by_layer(build, node, x), constants)
    return layers.sums_of(made, constants, node)


@means("Conv")
def convolve(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Begin a convolution."""
    made = layers.convolution(build, node, layers.read_by_layer(build, node, x), constants)
    return layers.sums_of(made, constants, node)


@means("Clip")
def clip(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Note the limits, of which a one-bit quantiser behind them must not see anything."""
    name = node.outputs[0]
    if at or x.pad is not None:
        raise node.refuse(
            "must clip unpadded values that depend on the image, with constant limits"
        )
    ends = [constants.get(n) for n in (1, 2)]
    for n, key in enumerate(("min", "max")):  # attributes, up to operator set 10
        if key in node.attributes:
            ends[n] = Constant.full(Fraction(node.attributes[key]))
    readers = build.graph.readers(name)
    bits = readers and all(is_one_bit(build, reader) for reader in readers)
    if not isinstance(x, Stream) and bits and name not in build.graph.outputs:
        build.clips[name] = (ends[0], ends[1])
        return x
    stream = to_stream(build, node, x)
    low, high = (None if end is None else end.scalar() for end in ends)
    if stream.floored:
        return round_down(build, node, replace(stream, floored=False), (low, high))
    return stream.bent(Bend(ends=(low, high)))


@means("MaxPool")
def pool(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Pool bits or integers, or sums that a quantiser will close."""
    window = shapes.pool_window(node, x)
    if x.pad is not None or (isinstance(x, Stream) and any(x.beyond)):
        raise node.refuse("pools what a Pad node padded; give the pool its own pads")
    if isinstance(x, Stream):
        x = to_integer(build, node, x)
        x = to_values(build, node, x) or x
    elif isinstance(x, Values):
        x = build.decided(x)
        if x.pixels is not None:
            x = to_stream(build, node, x)
    if isinstance(x, Stream):
        stage, made = pooled(build, node, x, window)
        build.trace(stage, node, made)
        return made
    if isinstance(x, Values):
        channels, lanes = shapes.channels_of(node, x, x.at.edge)
        turned = np.zeros(len(channels), bool)
        turned[channels] = [x.scale[lane] < 0 for lane in lanes]
        stage = build.name("pool")
        made_at = build.add(stage, MaxPool2d(window, turned), x.at)
        index = shapes.map_index(made_at.edge)[channels]
        lane = np.broadcast_to(lanes[:, None, None], index.shape)
        state = replace(x, at=made_at, index=index, lane=np.array(lane))
        build.trace(stage, node, state)
        return state
    if x.layer.window is None or not np.array_equal(x.index, _in_order(x)):
        raise node.refuse("must pool maps in the shape that the convolution gives")
    rows, columns = window.output(*x.index.shape[1:])
    edge = Edge((rows, columns, x.channels), scan="raster")
    pool = Pool(node.name, window, np.zeros(x.channels, bool))
    return replace(x, index=shapes.map_index(edge), pools=(*x.pools, pool))


# The end


@means("ArgMax")
def argmax(build: Build, node: Node, at: int, x: State, constants: Given) -> None:
    """End with the class of the largest score."""
    if isinstance(x, Values) or node.attributes.get("axis", 0) not in (1, -1):
        raise node.refuse("must find the largest score, on axis 1")
    if node.attributes.get("select_last_index", 0):
        raise node.refuse("takes the last of equal scores; set select_last_index to 0")
    end_with_scores(build, node, x)


@means("TopK")
def top(build: Build, node: Node, at: int, x: State, constants: Given) -> None:
    """End with the class of the largest score."""
    k = constants[1].scalar() if 1 in constants else Fraction(node.integer("k", 0))
    right = node.attributes.get("axis", -1) in (1, -1) and node.attributes.get("largest", 1)
    if isinstance(x, Values) or k != 1 or not right:
        raise node.refuse("must take only the largest score (k = 1), on axis 1")
    end_with_scores(build, node, x)


def end_with_scores(build: Build, node: Node, x: Sums | Stream) -> None:
    """Make the class scores of a layer's sums."""
    if isinstance(x, Stream):
        end_with_weights(build, node, x)
    else:
        _end_with_bits(build, node, x)
    build.finished = node
    if node.op in ("ArgMax", "TopK"):
        build.classes.update(node.outputs)


def _end_with_bits(build: Build, node: Node, x: Sums) -> None:
    if x.layer.window is not None or x.pools:
        raise node.refuse(f"ends with the convolution {x.layer.name}; end with a linear layer")
    if x.index.shape != (x.channels,) or (x.index != np.arange(x.channels)).any():
        raise node.refuse("must give the scores as a vector, in their order")
    eta, offsets = layers.scores_of(node, x)
    taps = layers.taps_of(x.layer)
    hint = build.hints.get(x.layer.name)
    shift = hint.k if hint is not None else 0
    if hint is None and len(set(offsets)) == 1:
        offsets = [Fraction(0)] * len(offsets)  # what every class has decides nothing
    source = build.read(x.layer.source)
    with naming(f"closes layer {x.layer.name}: "):
        build.assembler.scores(source, "scores", taps, eta=eta, offsets=offsets, least_shift=shift)


def _other(node: Node, at: int, constants: Given) -> Constant:
    if 1 - at not in constants:
        raise node.refuse("must have one constant and one input that depends on the image")
    return constants[1 - at]


def _in_order(x: Sums) -> Int:
    shape = x.index.shape
    edge = Edge((shape[1], shape[2], shape[0]), scan="raster")
    return shapes.map_index(edge)
