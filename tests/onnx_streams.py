"""Random graphs with integer streams: residual joins, activations and weights of several bits."""

import numpy as np
from onnx_graphs import ONE, QUARTERS, Writer

MODES = ("ROUND", "ROUND", "FLOOR", "CEIL", "HALF_UP", "HALF_DOWN", "UP", "DOWN")


class Streams:
    """Adds parts of a network to a writer; knows the shape of the last tensor.

    Where ``exact``, all numbers have few binary digits, so that executors round nothing and ties
    are ties for them too. Otherwise numbers are any floats.
    """

    def __init__(self, rng, w, shape, *, exact=True):
        self.rng, self.w, self.shape, self.exact = rng, w, shape, exact

    def number(self, *choices, size=()):
        found = self.rng.choice(np.array(choices, float), size)
        return found if self.exact else found * self.rng.uniform(0.7, 1.4, size)

    def levels(self, bits, *, signed=True, around=None):
        size = (1, self.shape[0], 1, 1) if around else ()
        scale = self.number(0.25, 0.5, 1.0, size=size)
        zero = float(self.rng.choice([0, 0, 0, 1])) if signed else 0.0
        mode = str(self.rng.choice(MODES)) if self.exact else "ROUND"
        narrow = int(self.rng.random() < 0.3)
        attributes = {"signed": int(signed), "narrow": narrow, "rounding_mode": mode}
        self.w.add("Quant", scale, np.array(zero), np.array(float(bits)), **attributes)

    def quantise(self, bits=None):
        """Quantise to integers, by one of the operators that can."""
        bits = bits or int(self.rng.integers(2, 6))
        kind = self.rng.choice(["plain", "plain", "relu", "clip", "leaky", "steps", "channels"])
        if kind == "relu":
            self.w.add("Relu")
        elif kind == "clip":
            self.w.add("Clip", np.array(-1.5), np.array(2.0))
        elif kind == "leaky":
            slopes = self.number(0.0, 0.25, 0.5, 2.0, size=(self.shape[0], 1, 1))
            self.w.add("PRelu", slopes)
        elif kind == "steps":
            steps = np.sort(self.number(*QUARTERS, size=(self.shape[0], 5)), axis=1)
            self.w.add("MultiThreshold", steps, out_dtype="INT4", out_scale=0.5, out_bias=-1.0)
            return
        self.levels(bits, signed=kind != "relu", around=kind == "channels")

    def norm(self):
        """Scale, shift, or normalise."""
        channels = self.shape[0]
        if self.rng.random() < 0.5:
            gain = self.number(-0.5, 0.25, 0.5, 1.0, size=channels)
            parts = (
                gain,
                self.number(*QUARTERS, size=channels),
                self.number(-2, 0, 2, size=channels),
            )
            variance = np.full(channels, 3.0) if self.exact else self.rng.uniform(0.5, 4, channels)
            self.w.add("BatchNormalization", *parts, variance, epsilon=1.0)
        elif self.rng.random() < 0.5:
            self.w.add("Mul", self.number(-1, 0.125, 0.5, size=(1, channels, 1, 1)))
            self.w.add("Add", self.number(*QUARTERS, size=(1, channels, 1, 1)))

    def conv(self, outputs, *, binary, stride=1, size=None):
        """Add a convolution of binary or integer weights, padded by zeros."""
        size = size or int(self.rng.choice([1, 3]))
        shape = (outputs, self.shape[0], size, size)
        if binary:
            weights = self.rng.choice([-1.0, 1.0], shape)
            if self.rng.random() < 0.4:
                weights *= self.rng.random(shape) < 0.5
        else:
            latent = self.rng.normal(0, 2, shape)
            kept = self.w.tensor
            levels = (self.number(0.5, 1.0), np.array(0.0), np.array(4.0))
            how = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
            weights = self.w.fixed("Quant", latent, *levels, **how)
            self.w.tensor = kept
        self.w.add(
            "Conv", weights, kernel_shape=[size, size], strides=[stride] * 2, pads=[size // 2] * 4
        )
        spread = (-(-n // stride) for n in self.shape[1:])
        self.shape = (outputs, *spread)

    def block(self):
        """Add a residual block: a binary convolution beside a shortcut."""
        w, rng, stream, shape = self.w, self.rng, self.w.tensor, self.shape
        stride = 2 if min(shape[1:]) > 3 and rng.random() < 0.4 else 1
        outputs = shape[0] * (2 if stride == 2 and rng.random() < 0.5 else 1)
        if rng.random() < 0.7:
            w.add("BipolarQuant", ONE)
        self.conv(outputs, binary=True, stride=stride, size=3)
        self.norm()
        if rng.random() < 0.3:
            self.levels(3)
        left, made = w.tensor, self.shape
        w.tensor, self.shape = stream, shape
        if stride == 2:
            pool = rng.choice(["MaxPool", "AveragePool"])
            ceil = {"ceil_mode": 1} if any(n % 2 for n in shape[1:]) else {}
            if pool == "MaxPool" and ceil:
                self.conv(shape[0], binary=False, stride=2, size=1)
                self.quantise(4)
            else:
                w.add(pool, kernel_shape=[2, 2], strides=[2, 2], **ceil)
                if rng.random() < 0.5:
                    self.levels(4)
            if outputs != shape[0]:
                w.add("Concat", w.tensor, axis=1)
        elif rng.random() < 0.2:
            self.conv(outputs, binary=False, size=1)
            self.levels(4)
        self.shape = made
        w.add(str(rng.choice(["Add", "Add", "Sub"])), left, left=rng.random() < 0.5)
        self.quantise()


def random_stream_graph(rng, *, exact=True):
    """Return the writer of a random network, how pixels are fed, and the classes."""
    shape = (int(rng.choice([1, 2])), int(rng.integers(3, 7)), int(rng.integers(3, 7)))
    how = str(rng.choice(["raw", "fixed", "signed"]))
    w = Writer(shape)
    w.metadata["sbnn_hw.layout"] = "NCHW"
    net = Streams(rng, w, shape, exact=exact)
    if how == "signed":
        w.add("BipolarQuant", ONE)
    elif how == "raw":
        w.add("Sub", np.array(128.0)).add("Mul", np.array(2.0**-6))
    size = 3 if how != "raw" or rng.random() < 0.5 else 1
    net.conv(int(rng.choice([2, 3])), binary=how == "signed" and rng.random() < 0.5, size=size)
    net.norm()
    net.quantise()
    for _ in range(int(rng.integers(1, 3))):
        net.block()
    if rng.random() < 0.4:
        w.add("GlobalAveragePool")
        net.shape = (net.shape[0], 1, 1)
    w.add("Flatten")
    width, classes = int(np.prod(net.shape)), int(rng.integers(2, 5))
    w.add("MatMul", rng.integers(-7, 8, (width, classes)).astype(float))
    if rng.random() < 0.5:
        w.add("Add", net.number(*QUARTERS, size=(1, classes)))
    return w, how, classes
