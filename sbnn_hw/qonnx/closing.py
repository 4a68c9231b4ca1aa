"""Quantisers: where sums become bits a layer is closed, and pixels are compared or rounded."""

from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.fold.assemble import Handle, Trained
from sbnn_hw.netlist import Edge, Encode, MaxPool2d, Recode
from sbnn_hw.qonnx import layers, shapes
from sbnn_hw.qonnx.build import QUANTISERS, Build, Given, State
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.conversion import to_stream
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.pixels import fed, threshold_of
from sbnn_hw.qonnx.quantisers import Rule, bits_of, levels_of, rule_of, steps_of
from sbnn_hw.qonnx.rounding import round_stream
from sbnn_hw.qonnx.streams import Stream
from sbnn_hw.qonnx.tensors import Pad, Sums, Values

__all__ = ["is_one_bit", "quantise"]

Int = npt.NDArray[np.int64]


def quantise(build: Build, node: Node, at: int, x: State, constants: Given) -> State:
    """Return what a quantiser gives."""
    if at:
        raise node.refuse("must have constant scales and thresholds")
    if isinstance(x, Stream):
        return round_stream(build, node, x, constants)
    if isinstance(x, Sums) and _several(node, constants):
        return round_stream(build, node, to_stream(build, node, x), constants)
    if isinstance(x, Values):
        x = build.decided(x)
        if x.pixels is None or _several(node, constants):
            if node.inputs[0] in build.clips:
                raise node.refuse("quantises clipped values to more than one bit")
            return _requantise(build, node, x, constants)
    rule = _rule(node, x, constants)
    if node.inputs[0] in build.clips:
        _check_clip(node, rule, build.clips[node.inputs[0]])
    if rule.divisor is not None and rule.shift is not None:
        x = x.scaled(rule.divisor.map(lambda number: 1 / number)).shifted(rule.shift)
    if isinstance(x, Values):
        return _compare_pixels(build, node, x, rule)
    return _close(build, node, x, rule)


def _check_clip(node: Node, rule: Rule, ends: tuple[Constant | None, Constant | None]) -> None:
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


def _requantise(build: Build, node: Node, x: Values, constants: Given) -> Values:
    """Quantise what takes few values: bits again, or pixels to 8 bits."""
    if x.pad is not None:
        raise node.refuse("quantises padded values a second time")
    x, made = _made_of(node, x, constants)
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
    at = x.at
    if not np.array_equal(table, np.arange(len(table))):
        if not 2 <= table[-1] < len(table):
            raise node.refuse(
                f"rounds pixels to {table[-1] + 1:,} levels; 3 to {len(table)} can be mapped, "
                f"or one bit by a one-bit quantiser"
            )
        at = build.add(build.name("levels"), Recode(table), x.at)
    return replace(
        x,
        at=at,
        scale=tuple(units),
        offset=tuple(after[0] for after in made),
        pixels="raw",
        maximum=at.edge.maximum,
        integer=False,
    )


def _made_of(node: Node, x: Values, constants: Given) -> tuple[Values, list[list[Fraction]]]:
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
    rule = _rule(node, x, constants)
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


def _rule(node: Node, x: Values | Sums, constants: Given) -> Rule:
    rule = rule_of(node, constants)
    if node.op == "MultiThreshold":
        along = shapes.along_channels(node, rule.threshold, x.index.ndim)
        return replace(rule, threshold=along)
    return rule


def _compare_pixels(build: Build, node: Node, x: Values, rule: Rule) -> Values:
    """Turn pixels into bits: a comparator for each, the same all over a channel."""
    assert x.pixels is not None
    edge, numbers = x.at.edge, fed(x.pixels, x.maximum)
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
    same = all(len(row) == planes and len({least for least, _ in row}) == planes for row in rows)
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
    stage = "encode" if "encode" not in build.traces else build.name("encode")
    at = build.add(stage, Encode(encoder), x.at)
    index = x.index // edge.channels * (edge.channels * planes) + place[x.lane]
    turned = [turn for _, turn in found]
    reached = _reached(x.pad.values, thresholds, rule.ties) if x.pad is not None else []
    state = _binary(at, x, index, low, high, turned, reached)
    build.trace(stage, node, state)
    return state


def _close(build: Build, node: Node, x: Sums, rule: Rule) -> Values:
    """Close a layer: its sums become bits."""
    thresholds, low, high = (x.numbers(c) for c in (rule.threshold, rule.low, rule.high))
    layer = x.layer
    # Where the answer is the smaller number, the bit is turned, so that scales are positive.
    turned = np.array([a > b for a, b in zip(low, high, strict=True)])
    trained = Trained(
        eta=Fraction(1),
        xi=layer.weights.xi,
        norm=x.norm_against(thresholds),
        ties=rule.ties,
        extra=layer.extra,
        least_k=layer.weights.least_k,
        turned=turned,
    )
    taps = layers.taps_of(layer)
    hint = build.hints.get(layer.name)
    source = build.read(layer.source, () if hint is None else hint.fixed)
    stage = build.name("linear" if layer.window is None else "conv")
    with naming(f"closes layer {layer.name}: "):
        if layer.window is None:
            at = build.assembler.linear(source, stage, taps, trained)
        else:
            at = build.assembler.conv(
                source,
                stage,
                taps,
                trained,
                window=layer.window,
                groups=layer.groups,
                border=layer.border,
            )
    for pool in x.pools:
        stage = build.name("pool")
        at = build.add(stage, MaxPool2d(pool.window, pool.turned ^ turned), at)
    reached = x.pad_reaches(thresholds, rule.ties) if x.pad is not None else []
    state = _binary(at, x, x.index, low, high, turned.tolist(), reached)
    build.trace(stage, node, state)
    return state


def is_one_bit(build: Build, node: Node) -> bool:
    """Whether a node is a quantiser of one bit."""
    given = {at: build.tensors.get(name) for at, name in enumerate(node.inputs)}
    constants = {at: x for at, x in given.items() if isinstance(x, Constant)}
    return node.op in QUANTISERS and not _several(node, constants)


def _several(node: Node, constants: Given) -> bool:
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


def _reached(
    values: tuple[Fraction, ...], thresholds: tuple[Fraction, ...], ties: str
) -> list[bool]:
    pairs = list(zip(values, thresholds, strict=True))
    if ties == "refuse" and any(v == t for v, t in pairs):
        raise ModelRejected("gives a number the sign 0, which is not a bit; use BipolarQuant")
    return [v > t or (v == t and ties == "fire") for v, t in pairs]


def _binary(
    at: Handle,
    x: Values | Sums,
    index: Int,
    low: tuple[Fraction, ...],
    high: tuple[Fraction, ...],
    turned: list[bool],
    reached: list[bool],
) -> Values:
    """Return the bits that a comparison gives; turned where a set bit means that it failed.

    Padding, where there is some, has ``reached`` the threshold or not.
    """
    pad = None
    if x.pad is not None:
        values = (b if fires else a for a, b, fires in zip(low, high, reached, strict=True))
        pad = Pad(x.pad.window, tuple(values))
    if any(a == b for a, b in zip(low, high, strict=True)):
        raise ModelRejected("gives the same number for both of its results")
    return Values(
        at=at,
        index=index,
        lane=x.lane,
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
