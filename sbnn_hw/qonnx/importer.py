"""From a graph of ONNX and QONNX operators to the integer network that is exactly it.

The nodes are walked in order. Of every tensor it is known, exactly, what it holds: constants,
`Values` or `Sums`. A quantiser closes sums to bits, which adds a layer to the netlist.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.fold.assemble import Assembler, Closing, Handle, LayerReport
from sbnn_hw.netlist import Edge, Network
from sbnn_hw.qonnx import layers, shapes
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Graph, Node, shown
from sbnn_hw.qonnx.pixels import PIXELS, fed, guess, threshold_of
from sbnn_hw.qonnx.quantisers import (
    Rule,
    bits_of,
    levels_of,
    quantise_constant,
    rule_of,
    steps_of,
)
from sbnn_hw.qonnx.read import read_graph
from sbnn_hw.qonnx.tensors import Pad, Pool, Root, Sums, Values
from sbnn_hw.qonnx.weights import Hint

__all__ = ["Imported", "Trace", "import_graph", "import_network"]

Int = npt.NDArray[np.int64]
State = Values | Sums

#: The operators that are understood, for the sentence that refuses another.
SUPPORTED = (
    "BipolarQuant, Quant, MultiThreshold, Sign, MatMul, Gemm, Conv, BatchNormalization, Mul, Div, "
    "Add, Sub, Neg, Clip, MaxPool, Pad, Reshape, Flatten, Transpose, Squeeze, Unsqueeze, Gather, "
    "Identity, Dropout, Cast, ArgMax, TopK, Softmax"
)

_QUANTISERS = ("BipolarQuant", "Quant", "MultiThreshold", "Sign")
_LAYERS = ("MatMul", "Gemm", "Conv")
#: What ONNX computes in the type of what it is given.
_TYPED = ("Mul", "Div", "Add", "Sub", "Neg", "Sign", "MatMul", "Gemm", "Conv", "BatchNormalization")


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a stage's bits are in the graph.

    Element *e* of the tensor, without its batch, is ``high[e]`` where bit ``index[e]`` of the
    stage is set, else ``low[e]``.
    """

    tensor: str
    index: Int
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Imported:
    """The network of a graph, what folding it found, and where each stage's bits are in it."""

    network: Network
    reports: tuple[LayerReport, ...]
    traces: dict[str, Trace]
    pixels: str


def import_network(
    path: str | Path, *, pixels: str | None = None, drop_unread: bool = True
) -> Imported:
    """Import a file; ``pixels`` tells how pixels are fed, where the file does not."""
    if pixels is not None and pixels not in PIXELS:
        raise UsageError(f"Pixels must be one of {', '.join(PIXELS)}, not {pixels!r}")
    graph = read_graph(path)
    try:
        return import_graph(graph, pixels=pixels, drop_unread=drop_unread)
    except ModelRejected as error:
        raise ModelRejected(f"{path}: {shown(str(error), 1000)}") from None


def import_graph(graph: Graph, *, pixels: str | None = None, drop_unread: bool = True) -> Imported:
    """Import a graph."""
    return _Import(graph, pixels).run(drop_unread)


class _Import:
    def __init__(self, graph: Graph, pixels: str | None) -> None:
        self.graph = graph
        self.pixels = pixels or graph.hints.get("pixels")
        if self.pixels is None and (graph.input.kind == "uint8" or _is_uint8(graph)):
            self.pixels = "raw"
        if self.pixels is not None and self.pixels not in PIXELS:
            raise ModelRejected(
                f"its metadata say that pixels are fed as {self.pixels!r:.40}, not one of "
                f"{', '.join(PIXELS)}"
            )
        self.hints = _hints(graph)
        edge, index = shapes.image_of(graph)
        self.assembler = Assembler(edge)
        #: What the last stage hands on.
        self.at = self.assembler.input
        lanes = edge.channels
        self.tensors: dict[str, State | Constant] = dict(graph.constants)
        self.tensors[graph.input.name] = Values(
            index=index,
            lane=index % lanes,
            scale=(Fraction(1),) * lanes,
            offset=(Fraction(0),) * lanes,
            pixels=self.pixels or "auto",
            integer=graph.input.kind == "uint8",
        )
        self.traces: dict[str, Trace] = {}
        self.numbers: dict[str, int] = {}
        self.finished: Node | None = None
        #: Tensors that hold the class, and the ends of those that a Clip has cut.
        self.classes: set[str] = set()
        self.clips: dict[str, tuple[Constant | None, Constant | None]] = {}

    def run(self, drop_unread: bool) -> Imported:
        for node in self.graph.nodes:
            try:
                self._step(node)
            except ModelRejected as error:
                text = str(error)
                raise (error if text.startswith("Node ") else node.refuse(text)) from None
        last = self.tensors.get(self.graph.outputs[0])
        if self.finished is None:
            maker = next((n for n in self.graph.nodes if self.graph.outputs[0] in n.outputs), None)
            if not isinstance(last, Sums):
                name = maker.name if maker else shown(self.graph.outputs[0])
                raise ModelRejected(
                    f"Node {name} is the last and does not give scores; a network must end with a "
                    f"linear layer, whose largest output is the class"
                )
            assert maker is not None
            with_node(maker, lambda: self._scores(maker, last))
        network = self.assembler.finish(drop=drop_unread)
        return Imported(network, tuple(self.assembler.reports), self.traces, self.pixels or "auto")

    def name(self, kind: str) -> str:
        number = self.numbers[kind] = self.numbers.get(kind, -1) + 1
        return f"{kind}{number}"

    # One node

    def _step(self, node: Node) -> None:
        given = [self.tensors.get(name) if name else None for name in node.inputs]
        states = [(at, x) for at, x in enumerate(given) if isinstance(x, Values | Sums)]
        constants = {at: x for at, x in enumerate(given) if isinstance(x, Constant)}
        for name in node.inputs:
            if name and name not in self.tensors and self.finished is None:
                raise node.refuse(f"reads {name!r:.80}, a second output, which cannot be mapped")
        if node.op == "Shape" and states:
            shape = shapes.shape_of(states[0][1], self.graph.input)
            self.tensors[node.outputs[0]] = shapes.sizes_of(node, shape)
            return
        if self.classes & set(node.inputs):
            self._behind_class(node)
            return
        if not states:
            self.tensors[node.outputs[0]] = _fold(node, constants)
            return
        if len(states) > 1:
            raise node.refuse(
                "joins two tensors that depend on the image; residual connections cannot be mapped"
            )
        if self.finished is not None:
            raise node.refuse(f"follows {self.finished.name}, which gives the class")
        at, state = states[0]
        self._check_branches(node, node.inputs[at])
        method: Callable[..., State | None] | None = getattr(self, f"_on_{node.op}", None)
        if method is None:
            raise node.refuse(f"cannot be mapped; supported are {SUPPORTED}")
        if isinstance(state, Values) and state.integer and node.op in _TYPED:
            raise node.refuse(
                f"computes with integers ({self.graph.input.kind}), which ONNX wraps and "
                f"truncates; insert a Cast to float32 before it"
            )
        result = method(node, at, state, constants)
        if result is not None:
            self.tensors[node.outputs[0]] = result

    def _behind_class(self, node: Node) -> None:
        """Accept what changes the class's shape or type, and not the class."""
        assert self.finished is not None
        cast = node.op == "Cast" and node.attributes.get("to") in (1, 6, 7, 11)
        if not cast and node.op not in ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"):
            raise node.refuse(f"follows {self.finished.name}, which gives the class")
        self.classes.update(node.outputs)

    def _check_branches(self, node: Node, name: str) -> None:
        readers = [n for n in self.graph.readers(name) if n.op != "Shape"]
        if len(readers) > 1 or node.inputs.count(name) > 1:
            raise node.refuse(
                f"and {readers[-1].name} both read {name!r:.80}; branches cannot be mapped"
            )
        if self.graph.ends_with(name):
            raise node.refuse(f"reads {name!r:.80}, which is also an output of the network")

    # Elementwise

    def _on_Mul(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        return x.scaled(_other(node, at, constants))

    def _on_Div(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        if at:
            raise node.refuse("divides by a value that depends on the image")
        divisor = _other(node, at, constants)
        if any(number == 0 for number in divisor.rationals):
            raise node.refuse("divides by zero")
        return x.scaled(divisor.map(lambda number: 1 / number))

    def _on_Add(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        return x.shifted(_other(node, at, constants))

    def _on_Sub(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        other = _other(node, at, constants)
        if at:
            return x.scaled(Constant.full(Fraction(-1))).shifted(other)
        return x.shifted(other.map(lambda number: -number))

    def _on_Neg(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        return x.scaled(Constant.full(Fraction(-1)))

    def _on_Identity(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        return x

    def _on_Dropout(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        if 2 in constants and constants[2].scalar() != 0:
            raise node.refuse("is in training mode; export the model in evaluation mode")
        return x

    def _on_Cast(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        if node.attributes.get("to") not in (1, 11):
            raise node.refuse("must cast to float32 or float64, which do not change any number")
        return replace(x, integer=False) if isinstance(x, Values) else x

    def _on_Softmax(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        if not isinstance(x, Sums) or node.outputs[0] not in self.graph.outputs:
            readers = {n.op for n in self.graph.readers(node.outputs[0])}
            if not readers <= {"ArgMax", "TopK"} or not isinstance(x, Sums):
                raise node.refuse("must be at the end, where it does not change the class")
        if node.attributes.get("axis", -1) not in (1, -1):
            raise node.refuse("must run over the classes, on axis 1")
        return x

    _on_LogSoftmax = _on_Softmax

    def _on_BatchNormalization(
        self, node: Node, at: int, x: State, constants: dict[int, Constant]
    ) -> State:
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
        return x.normed(Root(*(x.numbers(c) for c in (gain, mean, bias, spread))))

    # Shapes

    def _on_Reshape(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        return shapes.rearranged(node, x, constants, self.graph.input)

    _on_Flatten = _on_Squeeze = _on_Unsqueeze = _on_Transpose = _on_Gather = _on_Reshape

    def _on_Pad(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        window, number = shapes.padding_of(node, x, constants)
        if window == (0, 0):
            return x
        if x.pad is not None or (isinstance(x, Sums) and x.pools):
            raise node.refuse("pads a second time, or after a pool; pad once, in a convolution")
        lanes = len(x.scale) if isinstance(x, Values) else x.channels
        pad = Pad(window, (number,) * lanes, not (isinstance(x, Sums) and x.norm is not None))
        return replace(x, pad=pad)

    # Layers

    def _on_MatMul(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        x = self._settled(node, x)
        pending = layers.linear(node, at, x, constants, self._last(node), self.hints.get(node.name))
        if len(self.at.edge.shape) == 3:
            self.at = self.assembler.flatten(self.at, self.name("flatten"))
        return layers.sums_of(pending, (), constants, node)

    _on_Gemm = _on_MatMul

    def _on_Conv(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        x = self._settled(node, x)
        edge = self.at.edge
        pending = layers.convolution(node, x, constants, edge, self.hints.get(node.name))
        assert pending.window is not None
        return layers.sums_of(pending, pending.window.output(*edge.shape[:2]), constants, node)

    def _settled(self, node: Node, x: State) -> Values:
        """Return values that a layer can read; the manner of pixels is decided by now."""
        if isinstance(x, Sums):
            raise node.refuse(
                f"reads the sums of {x.layer.name}, which no quantiser has made binary"
            )
        return self._decided(x)

    def _decided(self, x: Values) -> Values:
        if x.pixels == "auto":
            try:
                self.pixels = guess(x.scale, x.offset)
            except ModelRejected:
                self._check_quantisers()
                raise
            return replace(x, pixels=self.pixels)
        return x

    def _check_quantisers(self) -> None:
        """Refuse the first quantiser of sums that cannot be mapped, however pixels are fed."""
        images, sums = {self.graph.input.name}, set[str]()
        for node in self.graph.nodes:
            given, made = set(node.inputs[:2]), set(node.outputs)
            if node.op in _LAYERS and given & images:
                sums |= made
            elif node.op in _QUANTISERS and given & sums:
                if all(name in self.tensors for name in node.inputs[1:] if name):
                    found = {at: self.tensors.get(name) for at, name in enumerate(node.inputs)}
                    rule_of(node, {at: c for at, c in found.items() if isinstance(c, Constant)})
                images |= made
            elif given & sums:
                sums |= made
            elif given & images:
                images |= made

    def _last(self, node: Node) -> bool:
        """Whether no quantiser follows, so that the sums are scores."""
        names = set(filter(None, node.outputs))
        for other in self.graph.nodes:
            if names & set(other.inputs):
                if other.op in _QUANTISERS:
                    return False
                names |= set(filter(None, other.outputs))
        return True

    # Quantisers

    def _on_BipolarQuant(
        self, node: Node, at: int, x: State, constants: dict[int, Constant]
    ) -> State:
        if at:
            raise node.refuse("must have constant scales and thresholds")
        if isinstance(x, Values):
            x = self._decided(x)
            if x.pixels is None or _several(node, constants):
                if node.inputs[0] in self.clips:
                    raise node.refuse("quantises clipped values to more than one bit")
                return self._requantise(node, x, constants)
        rule = self._rule(node, x, constants)
        if node.inputs[0] in self.clips:
            self._check_clip(node, rule, self.clips[node.inputs[0]])
        if rule.divisor is not None and rule.shift is not None:
            x = x.scaled(rule.divisor.map(lambda number: 1 / number)).shifted(rule.shift)
        if isinstance(x, Values):
            return self._compare_pixels(node, x, rule)
        return self._close(node, x, rule)

    _on_Quant = _on_MultiThreshold = _on_Sign = _on_BipolarQuant

    def _on_Clip(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        name = node.outputs[0]
        readers = {reader.op for reader in self.graph.readers(name)}
        if not readers or not readers <= set(_QUANTISERS) or name in self.graph.outputs:
            raise node.refuse("must be directly before a one-bit quantiser")
        if at or x.pad is not None:
            raise node.refuse(
                "must clip unpadded values that depend on the image, with constant limits"
            )
        ends = [constants.get(n) for n in (1, 2)]
        for n, key in enumerate(("min", "max")):  # attributes, up to operator set 10
            if key in node.attributes:
                ends[n] = Constant.full(Fraction(node.attributes[key]))
        self.clips[name] = (ends[0], ends[1])
        return x

    def _check_clip(
        self, node: Node, rule: Rule, ends: tuple[Constant | None, Constant | None]
    ) -> None:
        """Make sure that a threshold lies between the ends of a Clip, which then changes no bit."""
        level = rule.threshold
        if rule.divisor is not None and rule.shift is not None:
            level = level.combine(rule.shift, lambda a, b: a - b)
            level = level.combine(rule.divisor, lambda a, b: a * b)
        low, high = (end.scalar() if end is not None else None for end in ends)
        for number in level.rationals:
            if (low is not None and number <= low) or (high is not None and number >= high):
                raise node.refuse(
                    f"compares with {float(number):g}, which is not between the limits of the Clip "
                    f"before it; remove the Clip"
                )

    def _requantise(self, node: Node, x: Values, constants: dict[int, Constant]) -> Values:
        """Quantise what takes few values: bits again, or pixels to 8 bits."""
        if x.pad is not None:
            raise node.refuse("quantises padded values a second time")
        x, made = self._made_of(node, x, constants)
        for lane, after in enumerate(made):
            if after[0] == after[-1]:
                raise node.refuse(f"gives the same value everywhere in channel {lane}")
        if x.pixels is None:
            return replace(
                x,
                scale=tuple((after[1] - after[0]) / 2 for after in made),
                offset=tuple((after[1] + after[0]) / 2 for after in made),
                integer=False,
            )
        units = [_unit_of(after) for after in made]
        tables = {
            tuple(int((value - after[0]) / unit) for value in after)
            for after, unit in zip(made, units, strict=True)
        }
        table = np.array(tables.pop())
        if tables:
            raise node.refuse("rounds pixels differently from channel to channel; use one scale")
        if not np.array_equal(table, np.arange(len(table))):
            if not 2 <= table[-1] < len(table):
                raise node.refuse(
                    f"rounds pixels to {table[-1] + 1:,} levels; 3 to {len(table)} can be mapped, "
                    f"or one bit by a one-bit quantiser"
                )
            self.at = self.assembler.levels(self.at, self.name("levels"), table)
        return replace(
            x,
            scale=tuple(units),
            offset=tuple(after[0] for after in made),
            pixels="raw",
            maximum=self.at.edge.maximum,
            integer=False,
        )

    def _made_of(
        self, node: Node, x: Values, constants: dict[int, Constant]
    ) -> tuple[Values, list[list[Fraction]]]:
        """Return, for each lane, what the quantiser makes of each number that it can hold."""
        held = (Fraction(-1), Fraction(1)) if x.pixels is None else fed(x.pixels, x.maximum)
        if node.op == "MultiThreshold":
            steps = steps_of(node, constants)
            columns = [shapes.along_channels(node, step, x.index.ndim) for step in steps.each()]
            x, numbers = x.with_lanes(*columns)
            return x, [
                [steps.counted(s * number + o, sorted(own)) for number in held]
                for s, o, own in zip(x.scale, x.offset, zip(*numbers, strict=True), strict=True)
            ]
        if node.op == "Quant" and bits_of(node, constants) != 1:
            levels = levels_of(node, constants)
            x, (factors, zeros) = x.with_lanes(levels.scale, levels.zero)
            return x, [
                [levels.quantised(s * number + o, factor, zero) for number in held]
                for s, o, factor, zero in zip(x.scale, x.offset, factors, zeros, strict=True)
            ]
        rule = self._rule(node, x, constants)
        none = Constant.full(Fraction(1)), Constant.full(Fraction(0))
        x, numbers = x.with_lanes(
            rule.threshold, rule.low, rule.high, rule.divisor or none[0], rule.shift or none[1]
        )
        made = []
        for s, o, *parts in zip(x.scale, x.offset, *numbers, strict=True):
            threshold, low, high, divisor, shift = parts
            values = tuple((s * number + o) / divisor + shift for number in held)
            reached = _reached(values, (threshold,) * len(values), rule.ties)
            made.append([high if fires else low for fires in reached])
        return x, made

    def _rule(self, node: Node, x: State, constants: dict[int, Constant]) -> Rule:
        rule = rule_of(node, constants)
        if node.op == "MultiThreshold":
            along = shapes.along_channels(node, rule.threshold, x.index.ndim)
            return replace(rule, threshold=along)
        return rule

    def _compare_pixels(self, node: Node, x: Values, rule: Rule) -> Values:
        """Turn pixels into bits: a comparator for each, the same all over a channel."""
        assert x.pixels is not None
        edge, numbers = self.at.edge, fed(x.pixels, x.maximum)
        x, (thresholds, low, high) = x.with_lanes(rule.threshold, rule.low, rule.high)
        channel_of = np.full(len(x.scale), -1)
        channel_of[x.lane.ravel()] = x.index.ravel() % edge.channels
        found = [
            threshold_of(numbers, x.scale[n], x.offset[n], thresholds[n], rule.ties)
            for n in range(len(x.scale))
        ]
        rows: list[list[tuple[int, int]]] = [[] for _ in range(edge.channels)]
        for lane, (least, _) in enumerate(found):
            rows[int(channel_of[lane])].append((least, lane))
        planes = len(rows[0])
        same = all(
            len(row) == planes and len({least for least, _ in row}) == planes for row in rows
        )
        spread = (x.index == _first_of(x, edge)).all()
        if not same or not spread:
            raise node.refuse(
                "compares pixels of one channel with numbers that differ from place to place; "
                "comparators must be the same everywhere in the image"
            )
        encoder = np.array([[least for least, _ in sorted(row)] for row in rows])
        place = np.zeros(len(found), np.int64)
        for channel, row in enumerate(rows):
            for rank, (_, lane) in enumerate(sorted(row)):
                place[lane] = channel * planes + rank
        self.at = self.assembler.encode(self.at, "encode", encoder)
        index = x.index // edge.channels * (edge.channels * planes) + place[x.lane]
        turned = [turn for _, turn in found]
        pad = None
        if x.pad is not None:
            reached = _reached(x.pad.values, thresholds, rule.ties)
            values = tuple(h if r else w for r, h, w in zip(reached, high, low, strict=True))
            pad = Pad(x.pad.window, values)
        state = _binary(index, x.lane, low, high, turned, pad)
        self._trace("encode", node, state)
        return state

    def _close(self, node: Node, x: Sums, rule: Rule) -> Values:
        """Close a layer: its sums become bits."""
        thresholds, low, high = (x.numbers(c) for c in (rule.threshold, rule.low, rule.high))
        layer = x.layer
        # Where the answer is the smaller number, the bit is turned, so that scales are positive.
        turned = np.array([a > b for a, b in zip(low, high, strict=True)])
        closing = Closing(rule.ties, layer.extra, layer.weights.least_k, turned)
        norm = x.norm_against(thresholds)
        taps = layers.taps_of(layer, self.at.edge)
        common: dict[str, Any] = {
            "eta": Fraction(1),
            "xi": layer.weights.xi,
            "norm": norm,
            "closing": closing,
        }
        if layer.window is None:
            stage = self.name("linear")
            self.at = _naming(
                layer.name, lambda: self.assembler.linear(self.at, stage, taps, **common)
            )
        else:
            stage = self.name("conv")
            window = layer.window
            self.at = _naming(
                layer.name,
                lambda: self.assembler.conv(
                    self.at,
                    stage,
                    taps,
                    **common,
                    window=window,
                    groups=layer.groups,
                    border=layer.border,
                ),
            )
        for pool in x.pools:
            stage = self.name("pool")
            self.at = self.assembler.pool(self.at, stage, pool.window, pool.turned ^ turned)
        pad = None
        if x.pad is not None:
            reached = x.pad_reaches(thresholds, rule.ties)
            values = tuple(h if r else w for r, h, w in zip(reached, high, low, strict=True))
            pad = Pad(x.pad.window, values)
        state = _binary(x.index, x.lane, low, high, turned.tolist(), pad)
        self._trace(stage, node, state)
        return state

    def _trace(self, stage: str, node: Node, x: Values) -> None:
        if x.pad is not None:
            return
        scale, offset = (np.array([float(n) for n in part]) for part in (x.scale, x.offset))
        low, high = (offset - scale)[x.lane], (offset + scale)[x.lane]
        self.traces[stage] = Trace(node.outputs[0], x.index, low, high)

    def _on_MaxPool(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> State:
        window = shapes.pool_window(node, x)
        if x.pad is not None:
            raise node.refuse("pools what a Pad node padded; give the pool its own pads")
        if isinstance(x, Values):
            x = self._decided(x)
            if x.pixels is not None:
                raise node.refuse(
                    "pools pixels; only bits, and sums before a quantiser, can be pooled"
                )
            channels, lanes = shapes.channels_of(node, x, self.at.edge)
            turned = np.zeros(len(channels), bool)
            turned[channels] = [x.scale[lane] < 0 for lane in lanes]
            stage = self.name("pool")
            self.at = self.assembler.pool(self.at, stage, window, turned)
            index = shapes.map_index(self.at.edge)[channels]
            lane = np.broadcast_to(lanes[:, None, None], index.shape)
            state = replace(x, index=index, lane=np.array(lane))
            self._trace(stage, node, state)
            return state
        if x.layer.window is None or not np.array_equal(x.index, _in_order(x)):
            raise node.refuse("must pool maps in the shape that the convolution gives")
        rows, columns = window.output(*x.index.shape[1:])
        edge = Edge((rows, columns, x.channels), scan="raster")
        pool = Pool(node.name, window, np.zeros(x.channels, bool))
        return replace(x, index=shapes.map_index(edge), pools=(*x.pools, pool))

    # The end

    def _on_ArgMax(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> None:
        if not isinstance(x, Sums) or node.attributes.get("axis", 0) not in (1, -1):
            raise node.refuse("must find the largest score, on axis 1")
        if node.attributes.get("select_last_index", 0):
            raise node.refuse("takes the last of equal scores; set select_last_index to 0")
        self._scores(node, x)

    def _on_TopK(self, node: Node, at: int, x: State, constants: dict[int, Constant]) -> None:
        k = constants[1].scalar() if 1 in constants else Fraction(node.integer("k", 0))
        right = node.attributes.get("axis", -1) in (1, -1) and node.attributes.get("largest", 1)
        if not isinstance(x, Sums) or k != 1 or not right:
            raise node.refuse("must take only the largest score (k = 1), on axis 1")
        self._scores(node, x)

    def _scores(self, node: Node, x: Sums) -> None:
        if x.layer.window is not None or x.pools:
            raise node.refuse(f"ends with the convolution {x.layer.name}; end with a linear layer")
        if x.index.shape != (x.channels,) or (x.index != np.arange(x.channels)).any():
            raise node.refuse("must give the scores as a vector, in their order")
        eta, offsets = layers.scores_of(node, x)
        taps = layers.taps_of(x.layer, self.at.edge)
        hint = self.hints.get(x.layer.name)
        shift = hint.k if hint is not None else 0
        if hint is None and len(set(offsets)) == 1:
            offsets = [Fraction(0)] * len(offsets)  # what every class has decides nothing
        self.at = _naming(
            x.layer.name,
            lambda: self.assembler.scores(
                self.at, "scores", taps, eta=eta, offsets=offsets, least_shift=shift
            ),
        )
        self.finished = node
        if node.op in ("ArgMax", "TopK"):
            self.classes.update(node.outputs)


def _several(node: Node, constants: dict[int, Constant]) -> bool:
    """Whether a quantiser gives more than one bit."""
    if node.op == "MultiThreshold":
        return steps_of(node, constants).thresholds.shape[1] > 1
    return node.op == "Quant" and bits_of(node, constants) != 1


def _unit_of(numbers: list[Fraction]) -> Fraction:
    """Return the largest number that numbers, less the first, are multiples of; it has their sign.

    They all increase, or all decrease.
    """
    steps = [number - numbers[0] for number in numbers]
    common = lcm(*(step.denominator for step in steps))
    unit = Fraction(gcd(*(int(step * common) for step in steps)), common)
    return unit if steps[-1] > 0 else -unit


def _is_uint8(graph: Graph) -> bool:
    return graph.input.annotation == "UINT8"


def _hints(graph: Graph) -> dict[str, Hint]:
    """Return what the file says of its layers; a hint that is no hint is none."""
    try:
        given = json.loads(graph.hints.get("layers", "{}"))
        return {
            str(name): Hint(int(xi), int(k))
            for name, (xi, k) in given.items()
            if abs(int(xi)) < 1 << 42 and 0 <= int(k) <= 40
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def with_node(node: Node, action: Callable[[], None]) -> None:
    """Name the node in what is refused."""
    try:
        action()
    except ModelRejected as error:
        text = str(error)
        raise (error if text.startswith("Node ") else node.refuse(text)) from None


def _naming(layer: str, action: Callable[[], Handle]) -> Handle:
    try:
        return action()
    except ModelRejected as error:
        raise ModelRejected(f"closes layer {layer}: {error}") from None


def _other(node: Node, at: int, constants: dict[int, Constant]) -> Constant:
    if 1 - at not in constants:
        raise node.refuse("must have one constant and one input that depends on the image")
    return constants[1 - at]


def _reached(
    values: tuple[Fraction, ...], thresholds: tuple[Fraction, ...], ties: str
) -> list[bool]:
    pairs = list(zip(values, thresholds, strict=True))
    if ties == "refuse" and any(v == t for v, t in pairs):
        raise ModelRejected("gives a number the sign 0, which is not a bit; use BipolarQuant")
    return [v > t or (v == t and ties == "fire") for v, t in pairs]


def _binary(
    index: Int,
    lane: Int,
    low: tuple[Fraction, ...],
    high: tuple[Fraction, ...],
    turned: list[bool],
    pad: Pad | None,
) -> Values:
    """Return the bits that a comparison gives; turned where a set bit means that it failed."""
    if any(a == b for a, b in zip(low, high, strict=True)):
        raise ModelRejected("gives the same number for both of its results")
    return Values(
        index=index,
        lane=lane,
        scale=tuple(
            (a - b if turn else b - a) / 2 for a, b, turn in zip(low, high, turned, strict=True)
        ),
        offset=tuple((a + b) / 2 for a, b in zip(low, high, strict=True)),
        pad=pad,
    )


def _first_of(x: Values, edge: Edge) -> Int:
    """Return the index that each element would have if its lane covered a channel in order."""
    flat, lanes = x.index.ravel(), x.lane.ravel()
    counts = np.bincount(lanes)
    # A lane that covers a channel has each of its places once.
    if (counts != edge.size // edge.channels).any():
        return np.full_like(x.index, -1)
    order = np.lexsort((flat, lanes))
    places = np.tile(np.arange(edge.size // edge.channels), len(counts))
    if not np.array_equal(flat[order] // edge.channels, places):
        return np.full_like(x.index, -1)
    return x.index


def _in_order(x: Sums) -> Int:
    shape = x.index.shape
    edge = Edge((shape[1], shape[2], shape[0]), scan="raster")
    return shapes.map_index(edge)


def _fold(node: Node, constants: dict[int, Constant]) -> Constant:
    """Compute a node of constants."""
    if 0 not in constants:
        raise node.refuse("has nothing to compute with")
    kind = constants[0].kind
    if kind and node.op in ("Mul", "Add", "Sub", "Div", "Neg", "Pow"):
        return _computed(node, constants).of_kind(kind)
    return _computed(node, constants)


def _computed(node: Node, constants: dict[int, Constant]) -> Constant:
    """Compute a node of constants by rationals."""
    operations: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
        "Mul": lambda a, b: a * b,
        "Add": lambda a, b: a + b,
        "Sub": lambda a, b: a - b,
    }
    if node.op in operations and set(constants) == {0, 1}:
        return constants[0].combine(constants[1], operations[node.op])
    if node.op == "Div" and set(constants) == {0, 1}:
        if any(number == 0 for number in constants[1].rationals):
            raise node.refuse("divides by zero")
        return constants[0].combine(constants[1], lambda a, b: a / b)
    if node.op in ("BipolarQuant", "Quant"):
        return quantise_constant(node, constants[0], constants)
    if node.op == "Sign":
        return constants[0].sign(zero=0.0)
    if node.op == "MultiThreshold":
        x, rule, steps = constants[0], rule_of(node, constants), steps_of(node, constants)
        level = shapes.along_channels(node, rule.threshold, len(x.shape) - 1)
        return x.at_least(level).map(lambda bit: steps.scale * bit + steps.bias)
    if node.op == "Neg":
        return constants[0].map(lambda number: -number)
    if node.op in ("Sqrt", "Pow"):
        return constants[0].map(_power_of(node, constants))
    if node.op in ("Identity", "Dropout"):
        return constants[0]
    if node.op == "Cast":
        to = node.attributes.get("to")
        if to not in (1, 11, 6, 7):
            raise node.refuse("must cast constants to float32, float64, int32 or int64")
        if to in (6, 7):
            return constants[0].of_kind("int32" if to == 6 else "int64")
        return constants[0].to_float32() if to == 1 else replace(constants[0], kind="")
    return shapes.fold_shape(node, constants)


def _power_of(node: Node, constants: dict[int, Constant]) -> Callable[[Fraction], Fraction]:
    """Return what `Sqrt` or `Pow` makes of a number; roots are float32, as executors have them."""
    exponent = Fraction(1, 2)
    if node.op == "Pow":
        if 1 not in constants:
            raise node.refuse("must have a constant exponent")
        exponent = constants[1].scalar()
    if exponent not in (Fraction(1, 2), 1, 2):
        raise node.refuse(f"has the exponent {float(exponent):g}; use 0.5, 1 or 2")

    def power(number: Fraction) -> Fraction:
        if exponent.denominator == 1:
            return number ** int(exponent)
        if number < 0:
            raise node.refuse("takes the root of a negative number")
        return Fraction(float(np.sqrt(np.float32(number))))

    return power
