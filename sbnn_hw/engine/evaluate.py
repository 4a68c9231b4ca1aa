"""What an engine computes, by its program's words alone: the netlist is not asked."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine.bitmap import handed_places
from sbnn_hw.engine.codes import take_steps
from sbnn_hw.engine.program import Program
from sbnn_hw.engine.shape import Shape

__all__ = ["Evaluated", "evaluate"]

Int = npt.NDArray[np.int64]


class Evaluated:
    """What a program computes of some images: scores, classes, and each layer's places."""

    def __init__(self, scores: Int, places: list[npt.NDArray[np.uint8]], taps: list[int]) -> None:
        self.scores, self.places, self.taps = scores, places, taps
        self.classes: Int = scores.argmax(axis=1)


def evaluate(program: Program, values: npt.NDArray[np.integer]) -> Evaluated:
    """Execute a program on a batch of values (images, values), as the hardware does."""
    shape, at = program.shape, 0
    x = encode(shape, values.reshape(len(values), -1))
    places: list[npt.NDArray[np.uint8]] = []
    issued = []
    for number, layer in enumerate(shape.layers):
        q = np.zeros(len(x), np.int64)
        if layer.counts:
            xi = int(_header(shape, program.slots[at : at + shape.header_words])[0][0])
            at += shape.header_words
            counted = np.delete(x, shape.fixed, axis=1) if not number else x
            q = xi * counted.sum(axis=1, dtype=np.int64)
        compute = _bitmap_layer if shape.bitmap else _gaps_layer
        out, size, taps = compute(shape, number, program.slots[at:], x, q)
        at += size
        issued.append(taps)
        if number == len(shape.layers) - 1:
            values_ = out[:, : layer.neurons] >> shape.score_drop
            return Evaluated(_wrap(values_, shape.score_bits), places, issued)
        # A value that is not negative fires; a flip turned its sign.
        fired = (out >= 0).astype(np.uint8)
        if shape.bitmap:
            fired = np.zeros((len(out), shape.handed(layer) * shape.lanes), np.uint8)
            fired[:, handed_places(layer.groups, shape.lanes)] = out >= 0
        places.append(fired)
        x = fired
    raise AssertionError("the last layer gives scores")


def _gaps_layer(
    shape: Shape, number: int, slots: npt.NDArray[np.uint32], x: npt.NDArray[np.integer], q: Int
) -> tuple[Int, int, int]:
    """Return the values of a layer's lanes, the words that were read, and the taps issued."""
    layer, at, issued = shape.layers[number], 0, 0
    scores = number == len(shape.layers) - 1
    maximum = (1 << shape.value_bits) - 1 if shape.integers and not number else 1
    out = np.empty((len(x), layer.groups * shape.lanes), np.int64)
    for group in range(layer.groups):
        starts, flips, count = _header(shape, slots[at : at + shape.header_words])
        at += shape.header_words
        codes = slots[at : at + count]
        at += count
        steps, taps, inverted = take_steps(codes, shape.gap_bits)
        if not shape.signed:
            inverted = np.zeros_like(inverted)
        inverted = inverted ^ (scores and shape.negative)
        for lane in range(shape.lanes):
            tapped = taps[:, lane]
            read = x[:, steps[tapped, lane]].astype(np.int64)
            read = np.where(inverted[tapped, lane], maximum - read, read)
            total = starts[lane] + q + (read.sum(axis=1) << shape.unit)
            out[:, group * shape.lanes + lane] = _wrap(total, shape.sum_bits) ^ -flips[lane]
            issued += int(tapped.sum())
    return out, at, issued


def _bitmap_layer(
    shape: Shape, number: int, slots: npt.NDArray[np.uint32], x: npt.NDArray[np.integer], q: Int
) -> tuple[Int, int, int]:
    """Return the same for a bitmap: a value for each neuron."""
    layer, heads = shape.layers[number], shape.header_words
    steps = shape.steps(layer)
    size = layer.groups * (heads + steps)
    words = slots[:size].reshape(layer.groups, heads + steps, shape.lanes).astype(np.float64)
    weights = words[:, heads:]
    starts, flips = _row_headers(shape, words[:, :heads])
    read = np.zeros((len(x), steps * shape.lanes))
    read[:, : x.shape[1]] = x
    if layer.weights == "masked":
        tapped, inverted = (weights[:, n::2].reshape(layer.groups, -1) for n in range(2))
        plus, minus = tapped * (1 - inverted), tapped * inverted
        issued = int(tapped.sum())
    else:
        plus = weights.reshape(layer.groups, -1)
        full = layer.weights == "full"
        minus = 1 - plus if full else np.zeros_like(plus)
        issued = layer.groups * layer.places if full else int(plus.sum())
    read = read[:, : plus.shape[1]]
    found = read @ plus.T + (1 - read) @ minus.T
    total = starts + q[:, None] + (found.astype(np.int64) << shape.unit)
    return _wrap(total, shape.sum_bits) ^ -flips, size, issued


def encode(shape: Shape, values: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the first layer's inputs."""
    if not shape.thresholds:
        return values
    thresholds, flips = np.array(shape.thresholds), np.array(shape.flips)
    channels = values.reshape(len(values), -1, len(thresholds))
    bits = (channels[..., None].astype(np.int64) >= thresholds) ^ flips
    found: npt.NDArray[np.uint8] = bits.reshape(len(values), -1).astype(np.uint8)
    return found


def _header(shape: Shape, slots: npt.NDArray[np.uint32]) -> tuple[Int, Int, int]:
    """Return the start values and flips of a group, and how many code words it has."""
    if shape.bitmap:
        return *_row_headers(shape, slots[None]), 0
    found = np.zeros(shape.lanes, object)
    for row in slots.astype(object):
        found = found << shape.slot_bits | row
    starts = _wrap((found & (1 << shape.sum_bits) - 1).astype(np.int64), shape.sum_bits)
    flips = (found >> shape.sum_bits & 1).astype(np.int64)
    count = 0
    for part in reversed(found >> shape.sum_bits + 1):
        count = count << shape.spare_bits | int(part & (1 << shape.spare_bits) - 1)
    return starts, flips, count + 2


def _row_headers(shape: Shape, words: npt.NDArray[Any]) -> tuple[Int, Int]:
    """Return the start values and flips of neurons, given their header words."""
    bits = words[:, ::-1].reshape(len(words), -1).astype(np.int64)
    starts = bits[:, : shape.sum_bits] @ (1 << np.arange(shape.sum_bits))
    return _wrap(starts, shape.sum_bits), bits[:, shape.sum_bits]


def _wrap(values: Int, bits: int) -> Int:
    """Return values as an accumulator of so many bits holds them, in two's complement."""
    half = 1 << bits - 1
    return (values + half & (1 << bits) - 1) - half
