"""Networks by their definitions in docs/netlist.md: slow, plain, in Python's integers and fractions.

Nothing that the network computes itself with is used: only the numbers that it holds.
"""

from fractions import Fraction
from itertools import product
from math import floor

import numpy as np


def _map(height, width, channels, value):
    """Return a map whose values a function of row, column and channel gives."""
    made = np.empty((height, width, channels), object)
    for y, x, c in product(range(height), range(width), range(channels)):
        made[y, x, c] = value(y, x, c)
    return made


def _size(length, kernel, stride, padding):
    return (length + 2 * padding - kernel) // stride + 1


def _window(window, y, x):
    """Yield the positions of a window with the rows and columns they see."""
    for position in range(window.kernel[0] * window.kernel[1]):
        dy, dx = divmod(position, window.kernel[1])
        row = y * window.stride[0] + dy - window.padding[0]
        yield position, row, x * window.stride[1] + dx - window.padding[1]


def _sum(op, neuron, read):
    """Return 2^k·Σ w·tap + Ξ·Σ input; ``read`` gives a position's channel, or its complement."""
    taps = op.taps
    total = 0
    for tap in range(int(taps.starts[neuron]), int(taps.starts[neuron + 1])):
        position, channel = divmod(int(taps.indices[tap]), op.channels)
        weight = 1 if getattr(op, "weights", None) is None else int(op.weights[tap])
        total += 2**op.k * weight * read(position, channel, bool(taps.inverted[tap]))
    if op.xi:
        group, fixed = neuron * op.groups // len(taps), set(op.fixed.tolist())
        per_group = op.channels // op.groups
        positions = taps.width // op.channels
        for position, channel in product(range(positions), range(per_group)):
            if group * per_group + channel not in fixed:
                total += op.xi * read(position, group * per_group + channel, False)
    return total


def _windowed_sums(op, x, most, outside, bipolar):
    """Return the sums of every window, and which positions of each lie inside."""
    height, width, _ = x.shape
    rows, columns = (
        _size(size, kernel, stride, padding)
        for size, kernel, stride, padding in zip(
            (height, width), op.window.kernel, op.window.stride, op.window.padding, strict=True
        )
    )
    inside = {}

    def value(row, column, neuron):
        seen = {}
        for position, y, at in _window(op.window, row, column):
            seen[position] = (y, at) if 0 <= y < height and 0 <= at < width else None
        inside[row, column] = tuple(seen[p] is not None for p in sorted(seen))

        def read(position, channel, inverted):
            if seen[position] is None:
                if bipolar:
                    return 0
                found = outside(channel)
                return most - found if inverted else found
            found = x[(*seen[position], channel)]
            if bipolar:
                return (1 - 2 * found) if inverted else (2 * found - 1)
            return most - found if inverted else found

        return _sum(op, neuron, read)

    return _map(rows, columns, len(op.taps), value), inside


def sums(op, x, edge):
    if op.window is None:
        return np.array(
            [
                _sum(op, n, lambda _, c, inverted: edge.maximum - x[c] if inverted else x[c])
                for n in range(len(op.taps))
            ],
            object,
        )
    pad = (lambda c: 0) if op.pad is None else (lambda c: int(op.pad[c]))
    return _windowed_sums(op, x, edge.maximum, pad, op.border == "zero")[0]


def conv2d(op, x, edge):
    found, inside = _windowed_sums(op, x, edge.maximum, lambda c: 0, False)
    classes = {}
    for row, column in product(range(found.shape[0]), range(found.shape[1])):
        key = inside[row, column] if op.border == "zero" else ()
        classes.setdefault(key, len(classes))
    return _map(
        *found.shape,
        lambda y, at, n: int(
            (
                found[y, at, n]
                >= int(op.thresholds[classes[inside[y, at] if op.border == "zero" else ()], n])
            )
            != bool(op.flips[n])
        ),
    )


def linear(op, x, edge):
    found = sums(_Flat(op), x, edge)
    return np.array(
        [int((v >= int(t)) != bool(f)) for v, t, f in zip(found, op.thresholds[0], op.flips, strict=True)],
        object,
    )  # fmt: skip


class _Flat:
    """A layer as sums of a vector."""

    def __init__(self, op):
        self.taps, self.xi, self.k, self.groups = op.taps, op.xi, op.k, 1
        self.fixed = getattr(op, "fixed", np.zeros(0, int))
        self.weights = getattr(op, "weights", None)
        self.channels, self.window = op.taps.width, None


def scores(op, x, edge):
    found = sums(_Flat(op), x, edge)
    if op.weights is None:
        sign = -1 if op.negative else 1
        fan_in = np.diff(op.taps.starts).tolist()
        found = [
            sign * 2**op.shift * (2 * v - edge.maximum * n)
            for v, n in zip(found, fan_in, strict=True)
        ]
    return np.array([v + int(o) for v, o in zip(found, op.offsets, strict=True)], object)


def unrounded(op, *inputs):
    """Return an affine's values before the floor and the clamp, as fractions."""
    made = np.empty(inputs[0].shape, object)
    for place in np.ndindex(made.shape):
        c = place[-1]
        t = sum(
            (int(m[c]) * x[place] for m, x in zip(op.multipliers, inputs, strict=True)),
            int(op.offsets[c]),
        )
        value = Fraction(t)
        if op.slopes is not None:
            if t < 0:
                value = t * Fraction(int(op.slopes[c]), 2**op.slope_shift)
            value += Fraction(int(op.offsets_behind[c]), 2**op.slope_shift)
        made[place] = value / 2**op.shift
    return made


def affine(op, *inputs_and_edges):
    made = unrounded(op, *inputs_and_edges[: len(inputs_and_edges) // 2])
    for place in np.ndindex(made.shape):
        made[place] = min(max(floor(made[place]), op.low), op.high)
    return made


def encode(op, x, edge):
    planes = op.thresholds.shape[1]
    made = np.empty((*x.shape[:-1], x.shape[-1] * planes), object)
    for place in np.ndindex(made.shape):
        channel, plane = divmod(place[-1], planes)
        bit = x[(*place[:-1], channel)] >= int(op.thresholds[channel, plane])
        flip = op.flips is not None and bool(op.flips[channel, plane])
        made[place] = int(bit != flip)
    return made


def sum_pool2d(op, x, edge):
    height, width, channels = x.shape
    counts = []
    for size, kernel, stride in zip(
        (height, width), op.window.kernel, op.window.stride, strict=True
    ):
        starts = [
            at
            for at in range(0, size, stride)
            # A window counts if it fits, or with ceil if the one before it did not reach the end.
            if at + kernel <= size or (op.ceil and (at == 0 or at - stride + kernel < size))
        ]
        counts.append(len(starts))
    return _map(
        *counts,
        channels,
        lambda y, at, c: sum(
            x[min(row, height - 1), min(column, width - 1), c]
            for _, row, column in _window(op.window, y, at)
        ),
    )


def max_pool2d(op, x, edge):
    height, width, channels = x.shape
    rows, columns = (
        _size(size, kernel, stride, padding)
        for size, kernel, stride, padding in zip(
            (height, width), op.window.kernel, op.window.stride, op.window.padding, strict=True
        )
    )

    def value(y, at, c):
        seen = [
            x[row, column, c]
            for _, row, column in _window(op.window, y, at)
            if 0 <= row < height and 0 <= column < width
        ]
        return min(seen) if op.all_of[c] else max(seen)

    return _map(rows, columns, channels, value)


def concat(op, *inputs_and_edges):
    return np.concatenate(inputs_and_edges[: len(inputs_and_edges) // 2], axis=-1)


def flatten(op, x, edge):
    return x.reshape(-1)


KINDS = {
    each.__name__: each
    for each in (
        sums, conv2d, linear, scores, affine, encode, sum_pool2d, max_pool2d, concat, flatten,
    )
}  # fmt: skip


def run(network, image):
    """Return the value of every stage for one image, by name."""
    values = {-1: np.array(image.tolist(), object).reshape(network.input.shape)}
    for number, stage in enumerate(network.stages):
        inputs = [values[source] for source in stage.sources]
        compute = KINDS[stage.operation.kind]
        values[number] = compute(stage.operation, *inputs, *network.edges_into(number))
    return {stage.name: values[number] for number, stage in enumerate(network.stages)}
