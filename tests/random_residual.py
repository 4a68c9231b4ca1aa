"""Random residual networks: integer streams, forks and joins, without a line of training."""

import contextlib

import numpy as np
from random_networks import random_taps, random_xi

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import (
    Affine,
    Concat,
    Edge,
    Encode,
    Flatten,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    SumPool2d,
    Sums,
    Taps,
    Window,
)


class Graph:
    """Adds stages by handles, as numbers, and knows what each hands on."""

    def __init__(self, edge):
        self.input, self.edges, self.stages = edge, {-1: edge}, []

    def add(self, operation, *sources):
        number = len(self.stages)
        self.edges[number] = operation.infer(*(self.edges[source] for source in sources))
        self.stages.append(Stage(f"{operation.kind}{number}", operation, sources))
        return number

    def finish(self):
        return Network(self.input, tuple(self.stages))


def random_binary_sums(rng, edge, neurons, *, stride=1, most=24, most_k=7):
    """Return sums over bits: 3×3 or 1×1, borders of both kinds, with Ξ or signs."""
    size = int(rng.choice([1, 3, 3]))
    window = Window((size, size), (stride, stride), (size // 2, size // 2))
    channels = edge.channels
    groups = int(rng.choice([g for g in (1, 1, 2) if not channels % g and not neurons % g]))
    xi, k = random_xi(rng, most_k) if rng.random() < 0.5 else (0, 0)
    fixed = (
        np.sort(rng.choice(channels, channels // 4, replace=False))
        if xi and rng.random() < 0.5
        else []
    )
    allowed = []
    for neuron in range(neurons):
        group = neuron * groups // neurons
        own = np.arange(group * channels // groups, (group + 1) * channels // groups)
        own = np.setdiff1d(own, fixed)
        allowed.append((np.arange(window.size)[:, None] * channels + own).ravel())
    taps = random_taps(
        rng, neurons, window.size * channels, signed=not xi and rng.random() < 0.6, allowed=allowed,
        most=most,
    )  # fmt: skip
    border = "zero" if size > 1 and rng.random() < 0.5 else "minus"
    return Sums(
        taps=taps, channels=channels, window=window, xi=xi, k=k, fixed=np.asarray(fixed, np.int64),
        groups=groups, border=border,
    )  # fmt: skip


def random_weighted_sums(rng, edge, neurons, *, size=3, stride=1, most=7):
    """Return sums of integers by integer weights, with values in the padding."""
    window = Window((size, size), (stride, stride), (size // 2, size // 2))
    taps = random_taps(rng, neurons, window.size * edge.channels, most=12)
    weights = rng.integers(1, most + 1, len(taps.indices)) * rng.choice([-1, 1], len(taps.indices))
    pad = None
    if size > 1 and rng.random() < 0.7:
        pad = rng.integers(edge.low, edge.high + 1, edge.channels)
    return Sums(taps=taps, channels=edge.channels, window=window, weights=weights, pad=pad)


def random_vector_sums(rng, edge):
    """Return sums of a vector's values, in groups where they can be parted."""
    groups = int(rng.choice([g for g in (1, 2, 3) if not edge.size % g]))
    neurons, (xi, k) = 6, random_xi(rng)
    per_group = edge.size // groups
    allowed = [np.arange(per_group) + n * groups // neurons * per_group for n in range(neurons)]
    signed = not xi and not edge.signed and rng.random() < 0.5
    taps = random_taps(rng, neurons, edge.size, signed=signed, allowed=allowed)
    return Sums(taps=taps, channels=edge.size, groups=groups, xi=xi, k=k)


def random_affine(rng, *edges, bits=None, slopes=None, most=12):
    """Return a join, or a scaled stream, that is clamped at both ends now and then."""
    channels = edges[0].channels
    bits = int(rng.integers(2, 9)) if bits is None else bits
    sizes = [max(1, (edge.high - edge.low) // 64) for edge in edges]
    m = np.array(
        [rng.integers(-most, most + 1, channels) * max(1, max(sizes) // size) for size in sizes]
    )
    if len(edges) == 2 and rng.random() < 0.6:
        m[1] = 1 << int(rng.integers(0, 4))  # a shortcut that is only shifted
    m[:, rng.random(channels) < 0.05] = 0
    span = sum(abs(row).max() * (edge.high - edge.low) for row, edge in zip(m, edges, strict=True))
    shift = max(0, int(span).bit_length() - bits - int(rng.integers(1, 4)))
    middle = sum(row * (edge.low + edge.high) for row, edge in zip(m, edges, strict=True)) // 2
    b = -middle + rng.integers(-2, 3, channels) + (1 << shift >> 1)
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if rng.random() < 0.8 else (0, (1 << bits) - 1)
    )
    slope = {}
    if rng.random() < 0.4 if slopes is None else slopes:
        h = int(rng.integers(1, 9))
        slope = {
            "slopes": rng.integers(-(1 << h), (1 << h) + (1 << h >> 1) + 1, channels),
            "slope_shift": h,
            "offsets_behind": rng.integers(-8, 9, channels) << h,
        }
    return Affine(multipliers=m, offsets=b, shift=shift, low=low, high=high, **slope)


def random_sign(rng, edge, planes=1):
    """Return the sign of a stream, with a threshold a channel; ends of the range are among them."""
    thresholds = np.sort(
        rng.choice(np.arange(edge.low, edge.high + 2), (edge.channels, planes)), axis=1
    )
    if rng.random() < 0.6 and planes == 1:
        middle = (edge.low + edge.high + 1) // 2
        thresholds = np.clip(
            middle + rng.integers(-1, 2, (edge.channels, 1)), edge.low, edge.high + 1
        )
    return Encode(thresholds, rng.random(thresholds.shape) < 0.4)


def random_shortcut(rng, graph, stream, channels, shape):
    """Return a stream of another shape from one: by a real convolution, or by sums and copies."""
    edge = graph.edges[stream]
    if (
        edge.shape[:2] != shape
        and channels in (edge.channels, 2 * edge.channels)
        and rng.random() < 0.6
    ):
        pooled = graph.add(SumPool2d(Window((2, 2), (2, 2)), ceil=True), stream)
        other = pooled
        if rng.random() < 0.5:
            other = graph.add(random_affine(rng, graph.edges[pooled], bits=5), pooled)
        stream = other if channels == edge.channels else graph.add(Concat(2), pooled, other)
        if graph.edges[stream].shape == (*shape, channels):
            return stream
    stride = 1 if edge.shape[:2] == shape else 2
    wide = graph.add(random_weighted_sums(rng, edge, channels, size=1, stride=stride), stream)
    return graph.add(random_affine(rng, graph.edges[wide], bits=6, slopes=False), wide)


def random_block(rng, graph, stream):
    """Add a binary convolution beside a shortcut; return the stream that they join in."""
    edge = graph.edges[stream]
    stride = 2 if min(edge.shape[:2]) > 3 and rng.random() < 0.4 else 1
    channels = edge.channels * int(rng.choice([1, 2])) if edge.channels < 8 else edge.channels
    bits = graph.add(random_sign(rng, edge), stream)
    sums = graph.add(random_binary_sums(rng, graph.edges[bits], channels, stride=stride), bits)
    shape = graph.edges[sums].shape[:2]
    same = shape == edge.shape[:2] and channels == edge.channels
    beside = stream if same else random_shortcut(rng, graph, stream, channels, shape)
    left, right = (sums, beside) if rng.random() < 0.5 else (beside, sums)
    made = graph.add(random_affine(rng, graph.edges[left], graph.edges[right]), left, right)
    if rng.random() < 0.3:
        made = graph.add(random_affine(rng, graph.edges[made], slopes=True), made)
    return made


def random_residual_network(rng, *, blocks=None, shape=None):
    """Return a network of residual blocks on maps.

    It begins with a convolution of integer weights on pixels, or with an encoder and a sparse
    binary one; it ends with class scores of integer weights, or of bits.
    """
    if shape is None:
        shape = (int(rng.integers(3, 8)), int(rng.integers(3, 8)), int(rng.integers(1, 4)))
    while True:
        graph = Graph(Edge.of_bits(shape, int(rng.choice([8, 4])), scan="raster"))
        with contextlib.suppress(ModelRejected):
            return _residual(rng, graph, int(rng.integers(1, 4)) if blocks is None else blocks)


def _residual(rng, graph, blocks):
    width = int(rng.choice([2, 3, 4]))
    if rng.random() < 0.7:
        stream = graph.add(random_weighted_sums(rng, graph.input, width), -1)
    else:
        thresholds = np.sort(rng.integers(1, graph.input.maximum + 1, (graph.input.channels, 1)))
        bits = graph.add(Encode(thresholds), -1)
        stream = graph.add(random_binary_sums(rng, graph.edges[bits], width), bits)
    stream = graph.add(random_affine(rng, graph.edges[stream], bits=8), stream)
    if rng.random() < 0.3:
        window = Window((3, 3), (2, 2), (1, 1))
        stream = graph.add(MaxPool2d(window, np.zeros(width, bool)), stream)
    for _ in range(blocks):
        stream = random_block(rng, graph, stream)
    if rng.random() < 0.5:
        edge = graph.edges[stream]
        stream = graph.add(SumPool2d(Window(edge.shape[:2])), stream)
    if rng.random() < 0.3:
        stream = graph.add(random_sign(rng, graph.edges[stream]), stream)
    stream = graph.add(Flatten(), stream)
    if rng.random() < 0.4:
        sums = graph.add(random_vector_sums(rng, graph.edges[stream]), stream)
        stream = graph.add(random_affine(rng, graph.edges[sums]), sums)
    edge, classes = graph.edges[stream], int(rng.integers(2, 6))
    taps = random_taps(rng, classes, edge.size, most=edge.size)
    offsets = rng.integers(-20, 21, classes)
    weights = rng.integers(1, 8, len(taps.indices)) * rng.choice([-1, 1], len(taps.indices))
    if edge.binary and rng.random() < 0.5:
        taps, weights = Taps(taps.width, taps.starts, taps.indices, weights < 0), None
    graph.add(Scores(taps=taps, offsets=offsets, weights=weights), stream)
    return graph.finish()


def tiny_residual_network(rng):
    """Return a network of two ways with few values of few bits, as small as it can be."""
    shape = (int(rng.integers(2, 5)), int(rng.integers(2, 5)), 1)
    graph = Graph(Edge.of_bits(shape, 2, scan="raster"))
    channels = int(rng.choice([1, 1, 2]))
    if rng.random() < 0.4:
        sums = random_weighted_sums(rng, graph.input, channels, size=1, most=3)
        stream = graph.add(sums, -1)
        affine = random_affine(rng, graph.edges[stream], bits=3, most=5)
        stream = graph.add(affine, stream)
    else:
        stream = -1 if channels == 1 else graph.add(Concat(2), -1, -1)
    bits = graph.add(random_sign(rng, graph.edges[stream]), stream)
    stride = int(rng.integers(1, 3))
    sums = random_binary_sums(rng, graph.edges[bits], channels, stride=stride, most=6, most_k=3)
    sums = graph.add(sums, bits)
    if stride == 2:
        pool = SumPool2d(Window((2, 2), (2, 2)), ceil=True)
        if rng.random() < 0.4:
            pool = MaxPool2d(Window((3, 3), (2, 2), (1, 1)), [False] * channels)
        stream = graph.add(pool, stream)
    pair = (stream, sums) if rng.random() < 0.5 else (sums, stream)
    edges = [graph.edges[n] for n in pair]
    stream = graph.add(random_affine(rng, *edges, bits=int(rng.integers(2, 5)), most=5), *pair)
    if rng.random() < 0.4:
        stream = graph.add(SumPool2d(Window(graph.edges[stream].shape[:2])), stream)
    elif rng.random() < 0.5:
        stream = graph.add(random_sign(rng, graph.edges[stream]), stream)
    flat = graph.add(Flatten(), stream)
    taps = random_taps(rng, 2, graph.edges[flat].size, most=4)
    weights = rng.choice([-3, -2, -1, 1, 2, 3], len(taps.indices))
    graph.add(Scores(taps=taps, weights=weights, offsets=rng.integers(-5, 6, 2)), flat)
    return graph.finish()
