"""Residual networks with integer streams, in Python's own integers.

Written from what a checkpoint stores, by name, and from the papers' blocks; nothing of
`sbnn_hw.train` computes here. Maps are arrays (channels, height, width) of Python integers.
"""

import math

import numpy as np


class Reference:
    """A network of stored integers.

    ``values`` are a checkpoint's tensors, ``config`` its configuration; ``streams`` has every
    stream of the last image by name.
    """

    def __init__(self, config, values):
        self.config = config
        self.values = {name: value.numpy() for name, value in values.items()}
        self.streams = {}
        #: By the name of what scales: values that were clamped, and how many there were.
        self.clamped = {}

    def integers(self, name):
        """Return a tensor as Python integers."""
        found = self.values[name]
        return np.array([int(x) for x in found.ravel()], object).reshape(found.shape)

    # Layers

    def binary_weight(self, name, shape):
        """Return 2^k·w01 + Ξ of a binary convolution, or its signed taps."""
        count = math.prod(shape)
        ones = [int(x) for x in np.unpackbits(self.values[f"{name}.ones"])[:count]]
        if self.config.domain == "signed":
            minus = np.unpackbits(self.values[f"{name}.minus_ones"])[:count]
            weights = [one - int(other) for one, other in zip(ones, minus, strict=True)]
        else:
            numerator, bits = {"zero": (0, 0), "bnn": (-1, 1), "symmetric": (-1, 1)}.get(
                self.config.domain, (None, None)
            )
            if numerator is None:
                numerator = int(self.values[f"{name}.domain.xi_integer"])
                bits = int(self.values[f"{name}.domain.xi_bits"])
            while bits and numerator % 2 == 0:  # the least k
                numerator, bits = numerator // 2, bits - 1
            weights = [2**bits * one + numerator for one in ones]
        return np.array(weights, object).reshape(shape)

    def binary(self, name, x, outputs, kernel, stride, border):
        weight = self.binary_weight(name, (outputs, len(x), kernel, kernel))
        return convolve(x, weight, stride, kernel // 2, [border] * len(x))

    def conv(self, name, x, stride, padding, border):
        return convolve(x, self.integers(f"{name}.integers"), stride, padding, border)

    def affine(self, name, sums, shortcut=None, *, slope=False):
        shift, second, multiplier, offset = (
            self.integers(f"{name}.{part}") for part in ("shift", "second", "multiplier", "offset")
        )
        t = multiplier[:, None, None] * sums + offset[:, None, None]
        if shortcut is not None:
            t = t + shortcut * 2 ** int(second)
        if slope:
            bits, below, behind = (
                self.integers(f"{name}.{part}") for part in ("slope_bits", "below", "behind")
            )
            t = np.where(t >= 0, t * 2 ** int(bits), t * below[:, None, None])
            t = t + behind[:, None, None]
        t = t // 2 ** int(shift)  # Python's integers are divided with the floor
        low, high = -(2 ** (self.config.stream_bits - 1)), 2 ** (self.config.stream_bits - 1) - 1
        outside = int(((t < low) | (t > high)).sum())
        clamped, count = self.clamped.get(name, (0, 0))
        self.clamped[name] = (clamped + outside, count + t.size)
        return np.minimum(np.maximum(t, low), high)

    def threshold(self, name, sums):
        threshold, flip = self.integers(f"{name}.threshold"), self.values[f"{name}.flip"]
        fires = sums >= threshold[:, None, None]
        return np.where(fires ^ flip[:, None, None], 1, -1).astype(object)

    def rsign(self, name, x):
        threshold = self.integers(f"{name}.threshold")
        return np.where(x >= threshold[:, None, None], 1, -1).astype(object)

    def levels(self, name, x):
        if f"{name}.thresholds" not in self.values:
            return signs(x)
        planes = [signs(x - t) for t in self.integers(f"{name}.thresholds")]
        return np.stack(planes, 1).reshape(-1, *x.shape[1:])

    # Blocks

    def shortcut(self, name, x, outputs, stride, *, pooled):
        if stride == 1:
            return x
        if self.config.shortcut == "duplicate":
            return np.concatenate([sum_of_four(x)] * (outputs // len(x)))
        if not pooled:
            return self.affine(f"{name}.1.affine", self.conv(f"{name}.0", x, stride, 0, None))
        sums = self.conv(f"{name}.1", sum_of_four(x), 1, 0, None)
        return self.affine(f"{name}.2.affine", sums)

    def irnet(self, name, x, outputs, stride, border):
        hidden = len(self.values[f"{name}.bn1.threshold"])
        bits = self.levels(f"{name}.sign1", x)
        sums = self.binary(f"{name}.conv1", bits, hidden, 3, stride, border)
        bits = self.threshold(f"{name}.bn1", sums)
        sums = self.binary(f"{name}.conv2", bits, outputs, 3, 1, border)
        shortcut = self.shortcut(f"{name}.shortcut", x, outputs, stride, pooled=False)
        return self.affine(f"{name}.bn2.affine", sums, shortcut)

    def bireal(self, name, x, outputs, stride, border):
        sums = self.binary(f"{name}.conv", signs(x), outputs, 3, stride, border)
        shortcut = self.shortcut(f"{name}.shortcut", x, outputs, stride, pooled=True)
        return self.affine(f"{name}.bn.affine", sums, shortcut)

    def react(self, name, x, outputs, stride, border):
        bits = self.rsign(f"{name}.sign", x)
        sums = self.binary(f"{name}.conv", bits, outputs, 3, stride, border)
        shortcut = self.shortcut(f"{name}.shortcut", x, outputs, stride, pooled=True)
        return self.affine(f"{name}.bn.affine", sums, shortcut, slope=True)

    def xnor(self, name, x, outputs, stride, border):
        bits = self.threshold(f"{name}.bn1", x)
        sums = self.binary(f"{name}.conv1", bits, outputs, 3, stride, border)
        sums = self.binary(
            f"{name}.conv2", self.threshold(f"{name}.bn2", sums), outputs, 3, 1, border
        )
        shortcut = self.shortcut(f"{name}.shortcut", x, outputs, stride, pooled=False)
        return self.affine(f"{name}.affine", sums, shortcut)

    def mobile(self, name, x, outputs, stride, border):
        inputs = len(x)
        sums = self.binary(
            f"{name}.conv1", self.rsign(f"{name}.sign1", x), inputs, 3, stride, border
        )
        shortcut = sum_of_four(x) if stride == 2 else x
        x = self.affine(f"{name}.bn1.affine", sums, shortcut, slope=True)
        self.streams[f"{name}.bn1"] = x
        bits = self.rsign(f"{name}.sign2", x)
        parts = [
            self.affine(
                f"{name}.affines.{n}",
                self.binary(f"{name}.conv2.{n}", bits, inputs, 1, 1, border),
                x,
                slope=True,
            )
            for n in range(outputs // inputs)
        ]
        return np.concatenate(parts)

    # The network

    def scores(self, pixels, plan):
        """Return the scores of one image (channels, height, width).

        ``plan`` has the stride and padding of the first convolution, whether a pool follows, and
        the blocks: name, kind, channels, stride.
        """
        stride, padding, pool, blocks = plan
        x = np.array([int(v) for v in pixels.ravel()], object).reshape(pixels.shape)
        if self.config.first == "binary":
            outputs = len(self.values["bn1.affine.multiplier"])
            kernel = 2 * padding + 1
            weight = self.binary_weight("conv1", (outputs, len(x), kernel, kernel))
            x = convolve(x, weight, stride, padding, [128] * len(x))
        else:
            x = self.conv("conv1", x, stride, padding, MIDDLE[self.config.normalise](len(x)))
        x = self.streams["bn1"] = self.affine("bn1.affine", x)
        if pool:
            x = largest_of_nine(x)
        border = self.config.padding_value or 0
        for name, kind, channels, stride in blocks:
            x = self.streams[name] = getattr(self, kind)(name, x, channels, stride, border)
        assert x.shape[1] * x.shape[2] == int(self.values["pool.positions"])
        sums = [sum(channel.ravel()) for channel in x]
        last = "linear" if "linear.integers" in self.values else "fc"
        weights, offsets = self.integers(f"{last}.integers"), self.integers(f"{last}.offsets")
        return [
            sum(w * s for w, s in zip(row, sums, strict=True)) + offset
            for row, offset in zip(weights, offsets, strict=True)
        ]


#: The integer pixel nearest the mean of each channel.
MIDDLE = {
    "": lambda channels: [128] * channels,
    "cifar10": lambda _: [125, 123, 114],
    "cifar100": lambda _: [129, 124, 112],
    "imagenet": lambda _: [124, 116, 104],
}


def signs(x):
    return np.where(x >= 0, 1, -1).astype(object)


def convolve(x, weight, stride, padding, border):
    """Convolve (channels, height, width) with (outputs, channels, rows, columns), all integers."""
    if padding:
        height, width = x.shape[1] + 2 * padding, x.shape[2] + 2 * padding
        wide = np.empty((len(x), height, width), object)
        for channel, value in enumerate(border):
            wide[channel] = value
        wide[:, padding:-padding, padding:-padding] = x
        x = wide
    rows, columns = weight.shape[2:]
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    out = np.zeros((len(weight), height, width), object)
    for i in range(rows):
        for j in range(columns):
            part = x[:, i : i + stride * height : stride, j : j + stride * width : stride]
            out += np.dot(weight[:, :, i, j], part.reshape(len(x), -1)).reshape(out.shape)
    return out


def sum_of_four(x):
    """Return sums of 2×2, with the last row or column twice where it is alone."""
    channels, height, width = x.shape
    out = np.zeros((channels, -(-height // 2), -(-width // 2)), object)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            for di in (0, 1):
                for dj in (0, 1):
                    out[:, i, j] += x[:, min(2 * i + di, height - 1), min(2 * j + dj, width - 1)]
    return out


def largest_of_nine(x):
    """Return the largest of 3×3, stride 2, one row and column of border that never wins."""
    channels, height, width = x.shape
    out = np.empty((channels, (height - 1) // 2 + 1, (width - 1) // 2 + 1), object)
    for c, i, j in np.ndindex(*out.shape):
        rows = range(max(0, 2 * i - 1), min(height, 2 * i + 2))
        columns = range(max(0, 2 * j - 1), min(width, 2 * j + 2))
        out[c, i, j] = max(x[c, r, k] for r in rows for k in columns)
    return out
