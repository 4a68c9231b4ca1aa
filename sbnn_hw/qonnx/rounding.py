"""Quantisers of streams: what is real again becomes integers, or bits.

A quantiser counts levels (`sbnn_hw.fold.stairs`). It becomes an `affine` whose multipliers are
proved to be right for every value of its sources. Where no multipliers are, as for ties that are
rounded to even numbers, it becomes comparators whose bits are added up: of one stream, or of the
sum of two.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt

from sbnn_hw.fold.assemble import Handle
from sbnn_hw.fold.stairs import Level, Stairs, find_join, find_scaling, has_ties, steps_of
from sbnn_hw.fold.surds import Surd
from sbnn_hw.netlist import Affine, Encode, Sums, Taps, Window
from sbnn_hw.netlist.wiring import EXACT
from sbnn_hw.qonnx import quantisers, shapes
from sbnn_hw.qonnx.build import Build, Given
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.streams import Bend, Stream, Term, surds
from sbnn_hw.qonnx.tensors import Values

__all__ = ["MOST_BITS", "round_down", "round_stream"]

Int = npt.NDArray[np.int64]

#: Activations may have so many bits.
MOST_BITS = 8


def round_stream(build: Build, node: Node, x: Stream, constants: Given) -> Stream | Values:
    """Return what a quantiser makes of a stream."""
    x.check_open()
    if any(x.beyond):
        raise node.refuse("quantises a map that was padded by its own values")
    if node.op == "MultiThreshold":
        steps = quantisers.steps_of(node, constants)
        columns = [shapes.along_channels(node, step, x.index.ndim) for step in steps.each()]
        if len(columns) > 1:
            _check_levels(node, len(columns))
            numbers = [x.numbers(column) for column in columns]
            levels = [[Level(Surd(at)) for at in sorted(own)] for own in zip(*numbers, strict=True)]
            factor, offset = (surds([n] * x.channels) for n in (steps.scale, steps.bias))
            return _to_integers(build, node, x, levels, 0, factor, offset)
    elif node.op == "Quant" and quantisers.bits_of(node, constants) != 1:
        found = quantisers.levels_of(node, constants)
        _check_levels(node, found.high - found.low)
        scale, zero = (x.numbers(part) for part in (found.scale, found.zero))
        behind = x.affine(surds([1 / s for s in scale]), surds(zero))
        each = [found.reached(level) for level in range(found.low + 1, found.high + 1)]
        levels = [[Level(Surd(at), strict) for at, strict in each]] * x.channels
        moved = surds([-s * z for s, z in zip(scale, zero, strict=True)])
        return _to_integers(build, node, behind, levels, found.low, surds(scale), moved)
    return _to_bits(build, node, x, constants)


def _check_levels(node: Node, count: int) -> None:
    if count >= 1 << MOST_BITS:
        raise node.refuse(
            f"gives activations of {count + 1:,} levels; up to {1 << MOST_BITS} ({MOST_BITS} bits) "
            f"can be mapped"
        )


# Integers


def _to_integers(
    build: Build,
    node: Node,
    x: Stream,
    levels: Sequence[Sequence[Level]],
    low: int,
    factor: tuple[Surd, ...],
    offset: tuple[Surd, ...],
) -> Stream:
    """Return low plus the number of levels that each value reaches, scaled."""
    if x.chosen is not None or x.pad is not None:
        raise node.refuse("quantises values that were chosen or padded; do that behind it")
    x, handles = build.placed(x)
    stairs = [x.stairs(channel, own) for channel, own in enumerate(levels)]
    # Levels that all channels always reach, or never, are ends of the clamp.
    columns = list(zip(*(each.levels for each in stairs), strict=True))
    first = sum(all(x.at is None for x in column) for column in columns)
    count = sum(not all(x.never for x in column) for column in columns) - first
    stairs = [replace(x, levels=x.levels[first : first + count]) for x in stairs]
    low += first
    scaling = find_scaling(stairs, low)
    if scaling is not None:
        affine = Affine(
            multipliers=scaling.multipliers,
            offsets=scaling.offsets,
            shift=scaling.shift,
            low=low,
            high=low + count,
        )
        stage, handle = build.affine(affine, *handles)
    else:
        stage, handle = _counted(build, node, stairs, handles)
        offset = tuple(o + f * low for o, f in zip(offset, factor, strict=True))
    made = Stream(
        index=x.index, shape=handle.edge.shape, terms=(Term(handle, factor),), offset=offset
    )
    build.trace(stage, node, made)
    return made


def _counted(
    build: Build, node: Node, stairs: Sequence[Stairs], handles: Sequence[Handle]
) -> tuple[str, Handle]:
    """Return comparators of a stream, whose bits are added up."""
    source, found = _one_source(build, node, stairs, handles)
    falls = np.array([fall for _, fall in found])
    thresholds = np.array([np.sort(steps) for steps, _ in found])
    flips = np.broadcast_to(falls[:, None], thresholds.shape)
    _, bits = build.encode(Encode(thresholds, flips), source)
    channels, planes = thresholds.shape
    window = Window((1, 1)) if len(bits.edge.shape) == 3 else None
    taps = Taps.from_windows(np.ones((channels, 1, planes), np.int8), channels)
    sums = Sums(taps=taps, channels=channels * planes, window=window, groups=channels)
    stage = build.name("count")
    return stage, build.add(stage, sums, bits)


def _one_source(
    build: Build, node: Node, stairs: Sequence[Stairs], handles: Sequence[Handle]
) -> tuple[Handle, list[tuple[Int, bool]]]:
    """Return a stream, and for each channel the values at which it reaches levels.

    Two streams are joined to one that tells as much.
    """
    if len(handles) == 1:
        return handles[0], [steps_of(each) for each in stairs]
    found = [find_join(each) for each in stairs]
    pairs = [pair for pair in found if pair is not None]
    if len(pairs) < len(found):
        raise node.refuse(
            "rounds the join of two streams as no integer multipliers do; give them scales of few "
            "bits, or quantise each before the join"
        )
    affine = Affine(
        multipliers=np.array([multipliers for multipliers, _ in pairs]).T,
        offsets=np.zeros(len(pairs), np.int64),
        shift=0,
        low=1 - EXACT,
        high=EXACT - 1,
    )
    edge = affine.infer(*(handle.edge for handle in handles))
    _, handle = build.affine(affine, *handles)
    if handle.edge != edge:  # constants that were in front of it made it narrower
        edge = handle.edge
    return handle, [(np.clip(steps, edge.low, edge.high + 1), False) for _, steps in pairs]


# Bits


def _to_bits(build: Build, node: Node, x: Stream, constants: Given) -> Values:
    """Return the bits of a comparison with a threshold for each channel."""
    rule = quantisers.rule_of(node, constants)
    if node.op == "MultiThreshold":
        along = shapes.along_channels(node, rule.threshold, x.index.ndim)
        rule = replace(rule, threshold=along)
    if x.pad is not None:
        raise node.refuse("quantises a stream that a Pad node padded; pad behind the quantiser")
    behind = x
    if rule.divisor is not None and rule.shift is not None:
        behind = x.scaled(rule.divisor.map(lambda number: 1 / number)).shifted(rule.shift)
    thresholds, low, high = (x.numbers(part) for part in (rule.threshold, rule.low, rule.high))
    if any(a == b for a, b in zip(low, high, strict=True)):
        raise node.refuse("gives the same number for both of its results")
    behind, handles = build.placed(behind)
    stairs = [
        behind.stairs(n, [Level(Surd(at), rule.ties == "rest")]) for n, at in enumerate(thresholds)
    ]
    if rule.ties == "refuse" and any(map(has_ties, stairs)):
        raise node.refuse("gives a number the sign 0, which is not a bit; use BipolarQuant")
    if len(handles) > 1 and behind.chosen is not None:
        raise node.refuse("chooses among channels of a join; choose behind it")
    handle, steps = _one_source(build, node, stairs, handles)
    found = [(int(least), falls) for (least,), falls in steps]
    stage, made, place = _encoded(build, node, behind, handle, found)
    channels, width = behind.channels, made.edge.channels
    index = x.index // channels * width + place[x.index % channels]
    state = Values(
        at=made,
        index=index,
        lane=x.lane,
        scale=tuple((b - a) / 2 for a, b in zip(low, high, strict=True)),
        offset=tuple((a + b) / 2 for a, b in zip(low, high, strict=True)),
    )
    build.trace(stage, node, state)
    return state


def _encoded(
    build: Build, node: Node, x: Stream, handle: Handle, found: Sequence[tuple[int, bool]]
) -> tuple[str, Handle, Int]:
    """Return the encoder's stage, and where the bit of each channel is in it."""
    channels = handle.edge.channels
    chosen = np.arange(channels) if x.chosen is None else x.chosen
    rows: list[list[int]] = [[] for _ in range(channels)]
    for number, channel in enumerate(chosen.tolist()):
        rows[channel].append(number)
    planes = len(rows[0])
    if any(len(row) != planes for row in rows) or not planes:
        raise node.refuse("takes more bits of some channels of a stream than of others")
    place = np.zeros(len(chosen), np.int64)
    for channel, row in enumerate(rows):
        row.sort(key=lambda number: found[number][0])
        place[row] = channel * planes + np.arange(planes)
    thresholds = np.array([[found[number][0] for number in row] for row in rows])
    flips = np.array([[found[number][1] for number in row] for row in rows])
    stage, made = build.encode(Encode(thresholds, flips), handle)
    return stage, made, place


# Down


def round_down(
    build: Build, node: Node, x: Stream, ends: tuple[Fraction | None, Fraction | None]
) -> Stream:
    """Return the stream rounded down, and then clipped, as an affine of these very integers."""
    x, handles = build.placed(x)
    low, high = (
        default if end is None else round_end(end)
        for end, default, round_end in ((ends[0], 1 - EXACT, _up), (ends[1], EXACT - 1, floor))
    )
    ones, zeros = (Surd(1),) * x.channels, (Surd(),) * x.channels
    affine = _exactly(x, low, high)
    if affine is None:
        if high - low >= 1 << MOST_BITS:
            raise node.refuse(
                "rounds down what has no scale of few bits, to more than 8 bits; clip it"
            )
        levels = [[Level(Surd(n)) for n in range(low + 1, high + 1)]] * x.channels
        return _to_integers(build, node, x, levels, low, ones, zeros)
    stage, handle = build.affine(affine, *handles)
    made = Stream(index=x.index, shape=handle.edge.shape, terms=(Term(handle, ones),), offset=zeros)
    build.trace(stage, node, made)
    return made


def _up(number: Fraction) -> int:
    return -floor(-number)


def _exactly(x: Stream, low: int, high: int) -> Affine | None:
    """Return the affine whose numbers are those of a stream, if these have few binary digits."""
    slopes: tuple[Fraction, ...] | None = None
    after = (surds([Fraction(1)] * x.channels), surds([Fraction(0)] * x.channels))
    match x.bends:
        case ():
            pass
        case (Bend(slopes=found),) | (Bend(slopes=found), Bend(affine=_)) if found is not None:
            slopes = found
            if len(x.bends) == 2 and x.bends[1].affine is not None:
                after = x.bends[1].affine
        case _:
            return None
    numbers = [*(t.factors for t in x.terms), x.offset, *after]
    rationals = [[number.rational for number in part] for part in numbers]
    if any(number is None for part in rationals for number in part):
        return None
    *factors, offset, gain, behind = [[n or Fraction(0) for n in part] for part in rationals]
    if any(g <= 0 for g in gain):
        return None
    factors = [[f * g for f, g in zip(part, gain, strict=True)] for part in factors]
    offset = [o * g for o, g in zip(offset, gain, strict=True)]
    shift = _digits([*(n for part in factors for n in part), *(offset if slopes else ())])
    slope_shift = _digits(slopes or ())
    if shift is None or slope_shift is None or shift > 52 or slope_shift > 30:
        return None
    by = 1 << shift
    fields: dict[str, object] = {}
    if slopes is None:
        offset = [o + b for o, b in zip(offset, behind, strict=True)]
    else:
        fields = {
            "slopes": [int(slope * (1 << slope_shift)) for slope in slopes],
            "slope_shift": slope_shift,
            "offsets_behind": [floor(b * (by << slope_shift)) for b in behind],
        }
    multipliers = [[int(n * by) for n in part] for part in factors]
    offsets = [floor(o * by) for o in offset]
    whole = [*(n for part in multipliers for n in part), *offsets]
    if max(map(abs, whole)) >= EXACT:
        return None
    return Affine(
        multipliers=np.array(multipliers),
        offsets=np.array(offsets),
        shift=shift,
        low=low,
        high=high,
        **fields,  # type: ignore[arg-type]
    )


def _digits(numbers: Sequence[Fraction]) -> int | None:
    """Return how many binary digits numbers have behind the point; None if they never end."""
    most = max((number.denominator for number in numbers), default=1)
    if any(number.denominator & (number.denominator - 1) for number in numbers):
        return None
    return most.bit_length() - 1
