"""How long an engine takes: it depends on its program alone."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine.shape import Shape

__all__ = ["DRAIN", "FILL", "Schedule", "deep", "pace_of", "schedule_of", "settling", "waiting"]

#: Cycles in which the program's first words are read, and in which the last inputs of a layer are
#: counted.
FILL, DRAIN = 2, 2

#: Cycles from the last score's lane to the cycle in which the result is given.
_RANKED = 2


def deep(shape: Shape) -> int:
    """Return the cycles from a code to the cycle in which the sum with it can be read."""
    if shape.bitmap:
        # Counts of eight bits are added four at a time.
        return 5 if shape.lanes <= 32 else 6
    return 5


def pace_of(shape: Shape) -> int:
    """Return the cycles that a value takes to come in: one a plane, or two with one lane."""
    return 1 if shape.integers else shape.planes * (2 if shape.lanes == 1 else 1)


def settling(shape: Shape) -> int:
    """Return the cycles between two layers, besides a header, until results can be read."""
    if shape.bitmap:
        return max(0, deep(shape) - shape.header_words)
    return max(0, 4 - shape.header_words)


def waiting(shape: Shape) -> int:
    """Return the cycles behind each group of scores, besides a header, while they are ranked."""
    return max(0, shape.at_once - shape.header_words)


@dataclass(frozen=True)
class Schedule:
    """The cycles of an image."""

    #: To bring an image in, while the one before is computed.
    load: int
    #: To compute each layer, waits included.
    layers: tuple[int, ...]
    #: From the first value of an image that comes by itself to its result; between results.
    latency: int
    interval: int


def schedule_of(shape: Shape, lengths: tuple[npt.NDArray[np.int64], ...]) -> Schedule:
    """Return the cycles that a program takes, given the code words of its groups."""
    heads = shape.header_words
    each = pace_of(shape)
    load = shape.values * each
    if not shape.integers:
        load += -shape.inputs % shape.lanes
    cycles = []
    for number, (layer, groups) in enumerate(zip(shape.layers, lengths, strict=True)):
        total = int(groups.sum()) + heads * len(groups)
        if number == len(shape.layers) - 1:
            total += 1 + waiting(shape) * len(groups)
        else:
            total += settling(shape)
        if layer.counts:
            total += heads + DRAIN + shape.q_bits
        cycles.append(total)
    # An image begins in the cycle behind that in which its last word was written.
    begin = load + (0 if shape.integers else 1)
    ranked = (shape.classes - 1) % shape.at_once + 1
    last = sum(cycles) - waiting(shape)
    latency = begin + last + deep(shape) + ranked + _RANKED - 1 - (each - 1)
    # The scores' turn waits until the result before was taken.
    taken = cycles[-1] - waiting(shape) + deep(shape) + ranked + _RANKED - 1
    interval = max(load, 1 + sum(cycles) + FILL, taken)
    return Schedule(load, tuple(cycles), latency, interval)
