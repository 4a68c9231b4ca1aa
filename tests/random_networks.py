"""Random integer networks: every stage, sign, tie and border, without a line of training."""

import contextlib

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Linear,
    MaxPool2d,
    Network,
    Recode,
    Scores,
    Stage,
    Taps,
    Window,
)


def random_taps(rng, neurons, width, *, signed=False, allowed=None, most=24):
    """Wire neurons to random inputs: some to none, some to many."""
    dense = np.zeros((neurons, width), np.int8)
    for neuron in range(neurons):
        choice = np.arange(width) if allowed is None else np.asarray(allowed[neuron])
        fan_in = min(
            len(choice),
            most,
            int(rng.choice([0, 1, 3, 6, 7, 9, most], p=[0.05, 0.15, 0.25, 0.2, 0.2, 0.1, 0.05])),
        )
        dense[neuron, rng.choice(choice, fan_in, replace=False)] = 1
    if signed:
        dense *= rng.choice([-1, 1], dense.shape).astype(np.int8)
    return Taps.from_dense(dense)


def random_xi(rng, most=7):
    """Return Ξ and k, which is ``most`` at most; zero in a third of the cases."""
    if rng.random() < 0.35:
        return 0, 0
    k = int(rng.integers(0, most + 1))
    xi = int(rng.integers(1, max(2, 2**k // 2 + 1))) * int(rng.choice([-1, -1, 1]))
    # With minus one and no fraction a tap weighs nothing, which is no layer that a fold would make.
    return (xi | 1 if k else -2 if xi == -1 else xi), k


def with_thresholds(rng, make, edge, neurons, *, constant=False):
    """Make a layer whose thresholds lie within reach, the ends included, most near the middle.

    With ``constant``, neurons with taps may fire always, or never.
    """
    draft = make(np.zeros((1, neurons), np.int64))
    classes = len(draft.borders(edge)) if isinstance(draft, Conv2d) else 1
    draft = make(np.zeros((classes, neurons), np.int64))
    low, high = draft.reach(edge)
    at = np.where(
        rng.random(low.shape) < 0.8, rng.normal(0.5, 0.15, low.shape), rng.random(low.shape)
    )
    # A neuron that is constant has no taps; one with taps may be so at some borders alone.
    free = constant or classes > 1
    least, most = (low, high + 1) if free else (np.minimum(low + 1, high), high)
    thresholds = np.clip(np.round(low + at * (high + 1 - low)), least, most).astype(np.int64)
    return make(thresholds)


def random_linear(rng, edge, neurons, *, most=24, most_k=7, constant=False):
    width = edge.size
    xi, k = random_xi(rng, most_k)
    fixed = (
        np.sort(rng.choice(width, width // 8, replace=False)) if xi and rng.random() < 0.4 else []
    )
    free = np.setdiff1d(np.arange(width), fixed)
    taps = random_taps(
        rng, neurons, width, signed=not xi and rng.random() < 0.5, allowed=[free] * neurons,
        most=most,
    )  # fmt: skip
    flips = rng.random(neurons) < 0.4

    def make(thresholds):
        return Linear(
            taps=taps,
            xi=xi,
            k=k,
            thresholds=thresholds,
            flips=flips,
            fixed=np.asarray(fixed, np.int64),
        )

    return with_thresholds(rng, make, edge, neurons, constant=constant)


def random_window(rng, height, width, *, pool=False, wild=False):
    """Return a window that fits; one that is not wild can be streamed."""
    while True:
        kernel = tuple(int(rng.integers(1, 4 if pool else 6)) for _ in range(2))
        stride = tuple(int(rng.integers(1, 4)) for _ in range(2)) if rng.random() < 0.5 else (1, 1)
        if pool and rng.random() < 0.5:
            stride = kernel
        most = [(size - 1) // 2 if not wild else size // 2 if pool else size - 1 for size in kernel]
        window = Window(kernel, stride, tuple(int(rng.integers(0, size + 1)) for size in most))
        with contextlib.suppress(ModelRejected):
            window.output(height, width)
            if wild or all(
                k - p <= n for k, p, n in zip(kernel, window.padding, (height, width), strict=True)
            ):
                return window


def random_conv(rng, edge, neurons, *, wild=False):
    channels = edge.channels
    groups = int(rng.choice([g for g in (1, 1, 2, 3) if not channels % g and not neurons % g]))
    window = random_window(rng, *edge.shape[:2], wild=wild)
    xi, k = random_xi(rng)
    fixed = (
        np.sort(rng.choice(channels, channels // 4, replace=False))
        if xi and rng.random() < 0.4
        else []
    )
    allowed = []
    for neuron in range(neurons):
        group = neuron * groups // neurons
        own = np.arange(group * channels // groups, (group + 1) * channels // groups)
        own = np.setdiff1d(own, fixed)
        allowed.append((np.arange(window.size)[:, None] * channels + own).ravel())
    taps = random_taps(
        rng, neurons, window.size * channels, signed=not xi and rng.random() < 0.5, allowed=allowed
    )
    flips = rng.random(neurons) < 0.4
    border = str(rng.choice(["minus", "zero"]))

    def make(thresholds):
        return Conv2d(
            taps=taps, xi=xi, k=k, thresholds=thresholds, flips=flips, fixed=np.asarray(fixed, np.int64),
            channels=channels, window=window, groups=groups, border=border,
        )  # fmt: skip

    return with_thresholds(rng, make, edge, neurons)


def random_scores(rng, edge, classes):
    taps = random_taps(rng, classes, edge.size, signed=rng.random() < 0.3, most=9)
    shift = int(rng.integers(0, 4))
    offsets = rng.integers(-3, 4, classes) << int(rng.integers(0, 3))
    return Scores(taps=taps, negative=bool(rng.random() < 0.4), shift=shift, offsets=offsets)


def random_encoder(rng, edge):
    planes = int(rng.integers(1, 4))
    rows = [
        np.sort(rng.choice(np.arange(1, edge.maximum + 1), planes, replace=False))
        for _ in range(edge.channels)
    ]
    if planes == 1 and rng.random() < 0.3:
        rows = [[(edge.maximum + 1) // 2]] * edge.channels
    return Encode(np.array(rows))


def random_levels(rng, edge):
    while True:
        top = int(rng.integers(2, edge.maximum + 1))
        table = np.sort(rng.integers(0, top + 1, edge.maximum + 1))
        table[0], table[-1] = 0, top
        with contextlib.suppress(ModelRejected):
            return Recode(table)


def _network(edge, operations):
    stages = [
        Stage(f"{operation.kind}{n}", operation, (n - 1,)) for n, operation in enumerate(operations)
    ]
    return Network(edge, tuple(stages))


class _Builder:
    def __init__(self, edge):
        self.input = self.edge = edge
        self.operations = []

    def add(self, operation):
        self.edge = operation.infer(self.edge)
        self.operations.append(operation)

    def finish(self):
        return _network(self.input, self.operations)


def random_vector_network(rng, *, layers=None):
    """Return a network of linear layers; pixels are encoded, or are addends themselves."""
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 4)))
    builder = _Builder(Edge.of_bits(shape, int(rng.choice([8, 4, 4, 1])), scan="raster"))
    if rng.random() < 0.8 and builder.input.bits > 2:
        builder.add(random_encoder(rng, builder.edge))
    builder.add(Flatten())
    for _ in range(int(rng.integers(1, 3)) if layers is None else layers):
        builder.add(random_linear(rng, builder.edge, int(rng.integers(2, 6))))
    builder.add(random_scores(rng, builder.edge, int(rng.choice([2, 2, 3, 3, 4, 5, 10]))))
    return builder.finish()


def random_map_network(rng, *, wild=False):
    """Return a network with convolutions and pools; a wild one may be refused by the hardware."""
    shape = (int(rng.integers(3, 10)), int(rng.integers(3, 10)), int(rng.integers(1, 4)))
    builder = _Builder(Edge.of_bits(shape, int(rng.choice([8, 4, 1])), scan="raster"))
    if rng.random() < 0.7 and builder.input.bits > 2:
        builder.add(random_encoder(rng, builder.edge))
    for _ in range(int(rng.integers(1, 3))):
        if builder.edge.bits == 1 and rng.random() < 0.4:
            window = random_window(rng, *builder.edge.shape[:2], pool=True, wild=wild)
            builder.add(MaxPool2d(window, rng.random(builder.edge.channels) < 0.3))
        else:
            builder.add(random_conv(rng, builder.edge, int(rng.choice([2, 3, 4])), wild=wild))
    builder.add(Flatten())
    if rng.random() < 0.4:
        builder.add(random_linear(rng, builder.edge, int(rng.integers(2, 6))))
    builder.add(random_scores(rng, builder.edge, int(rng.integers(2, 5))))
    return builder.finish()


def random_level_network(rng):
    """Return a network that rounds its pixels before they are added up, in windows or not."""
    shape = (int(rng.integers(3, 6)), int(rng.integers(3, 6)), int(rng.integers(1, 3)))
    builder = _Builder(Edge.of_bits(shape, int(rng.choice([8, 4])), scan="raster"))
    before = rng.random() < 0.3
    if before:
        builder.add(Flatten())
    builder.add(random_levels(rng, builder.edge))
    if not before:
        if rng.random() < 0.6:
            builder.add(random_conv(rng, builder.edge, 4))
        builder.add(Flatten())
    builder.add(random_linear(rng, builder.edge, 4))
    builder.add(random_scores(rng, builder.edge, 3))
    return builder.finish()


def random_images(rng, network, count):
    """Return pixels of which many lie at the ends and on each other's borders."""
    shape, most = (count, *network.input.shape), network.input.maximum
    pixels = rng.integers(0, most + 1, shape)
    pixels = np.where(rng.random(shape) < 0.3, rng.choice([0, most], shape), pixels)
    return pixels.astype(np.uint8)
