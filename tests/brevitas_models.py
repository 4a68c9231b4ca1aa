"""Networks of Brevitas in FINN's shapes, with random weights and statistics, as QONNX files."""

import contextlib
import copy
import io
import logging
import warnings
from itertools import pairwise

import numpy as np
import torch
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import brevitas.nn as qnn
    from brevitas.export import export_qonnx
    from brevitas.inject.enum import ScalingImplType
    from brevitas.quant import (
        Int8ActPerTensorFloat,
        SignedBinaryActPerTensorConst,
        SignedBinaryWeightPerTensorConst,
    )
    from brevitas_examples.bnn_pynq.models.CNV import CNV
    from brevitas_examples.bnn_pynq.models.FC import FC
    from brevitas_examples.bnn_pynq.models.tensor_norm import TensorNorm


class Weight(SignedBinaryWeightPerTensorConst):
    """Weights −1 and +1."""

    scaling_const = 1.0


class ChannelWeight(SignedBinaryWeightPerTensorConst):
    """Weights −s and +s, with a scale for each output."""

    scaling_impl_type = ScalingImplType.STATS
    scaling_stats_op = "ave"
    scaling_per_output_channel = True


class Activation(SignedBinaryActPerTensorConst):
    """Activations −1 and +1."""

    min_val = -1.0
    max_val = 1.0


class Scaled(nn.Module):
    """Brings [0, 1] to [−1, 1], as FINN's networks do."""

    def forward(self, x):
        return 2.0 * x - 1.0


def sign():
    return qnn.QuantIdentity(act_quant=Activation)


def linear(inputs, outputs, quant=Weight):
    return qnn.QuantLinear(inputs, outputs, bias=False, weight_quant=quant)


def conv(inputs, outputs, quant=Weight, **options):
    return qnn.QuantConv2d(inputs, outputs, 3, bias=False, weight_quant=quant, **options)


def mlp(widths, *, quant=Weight):
    """Return TFC, SFC or LFC by its widths, from pixels in [0, 1]."""
    modules = [nn.Flatten(), Scaled(), sign()]
    for inputs, outputs in pairwise(widths[:-1]):
        modules += [linear(inputs, outputs, quant), nn.BatchNorm1d(outputs), sign()]
    modules.append(linear(widths[-2], widths[-1]))
    return nn.Sequential(*modules)


class StreamBits(Int8ActPerTensorFloat):
    """Streams of four signed bits, with one scale that is no power of two."""

    bit_width = 4
    scaling_impl_type = ScalingImplType.CONST
    min_val = -2.3
    max_val = 2.3


class Block(nn.Module):
    """A residual block: binary convolutions beside a stream of four bits."""

    def __init__(self, inputs, outputs, *, quantised=False):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.first = nn.Sequential(
            sign(), conv(inputs, outputs, padding=1, stride=stride), nn.BatchNorm2d(outputs)
        )
        self.second = nn.Sequential(
            sign(), conv(outputs, outputs, padding=1), nn.BatchNorm2d(outputs)
        )
        self.shortcut = nn.Sequential()
        if stride == 2:
            self.shortcut = nn.Sequential(
                nn.AvgPool2d(2),
                qnn.QuantConv2d(inputs, outputs, 1, bias=False, weight_bit_width=4),
                nn.BatchNorm2d(outputs),
                stream(),
            )
        self.branch = stream() if quantised else nn.Identity()
        self.join = stream()

    def forward(self, x):
        x = self.join(self.shortcut(x) + self.branch(self.first(x)))
        return self.join(x + self.branch(self.second(x)))


def stream():
    return qnn.QuantIdentity(act_quant=StreamBits)


def residual(width=8, blocks=1, *, side=8, classes=10, quantised=False):
    """Return a residual network, from pixels in [0, 1]."""
    widths = [width * 2**n for n in range(blocks)]
    modules = [Scaled(), sign(), conv(3, width, padding=1), nn.BatchNorm2d(width), stream()]
    for inputs, outputs in pairwise([width, *widths]):
        modules.append(Block(inputs, outputs, quantised=quantised))
    size = side >> blocks - 1
    return nn.Sequential(
        *modules,
        nn.AvgPool2d(size // 2),
        nn.Flatten(),
        qnn.QuantLinear(4 * widths[-1], classes, bias=False, weight_bit_width=4),
    )


def several_bits(widths, *, bits=2, weight_bits=4):
    """Return linear layers of weights of several bits, and ReLUs of some."""
    modules = [nn.Flatten(), Scaled(), sign()]
    for inputs, outputs in pairwise(widths[:-1]):
        modules += [
            qnn.QuantLinear(inputs, outputs, bias=False, weight_bit_width=weight_bits),
            nn.BatchNorm1d(outputs),
            qnn.QuantReLU(bit_width=bits, max_val=3.0),
        ]
    last = qnn.QuantLinear(widths[-2], widths[-1], bias=False, weight_bit_width=weight_bits)
    return nn.Sequential(*modules, last)


def eight_bits():
    """Round to eight bits, seven of them behind the point, as BNN-PYNQ's CNV does."""
    return copy.deepcopy(pynq("cnv").conv_features[0])


def cnv(width, *, classes=10, channels=3, quant=Weight, first=sign, pool_first=False, **options):
    """Return FINN's CNV with channels cut to a share of its own."""
    modules = [Scaled(), first()]
    inputs = channels
    for stage, outputs in enumerate((64, 128, 256)):
        outputs = max(2, int(outputs * width))
        for half in range(2):
            layer = [conv(inputs, outputs, quant, **options), nn.BatchNorm2d(outputs), sign()]
            if half and stage < 2:
                layer.insert(1 if pool_first else 3, nn.MaxPool2d(2))
            modules += layer
            inputs = outputs
    modules.append(nn.Flatten())
    side = 1 if not options.get("padding") else 8
    features = inputs * side * side
    hidden = max(2, int(512 * width))
    for _ in range(2):
        modules += [linear(features, hidden, quant), nn.BatchNorm1d(hidden), sign()]
        features = hidden
    return nn.Sequential(*modules, linear(features, classes))


def pynq(name):
    """Return one of the models that Brevitas ships for BNN-PYNQ: tfc, sfc, lfc or cnv."""
    if name == "cnv":
        return CNV(num_classes=10, weight_bit_width=1, act_bit_width=1, in_bit_width=8, in_ch=3)
    return fc([{"tfc": 64, "sfc": 256, "lfc": 1024}[name]] * 3)


def fc(hidden, side=28, classes=10):
    """Return BNN-PYNQ's network of linear layers, for images of some size."""
    return FC(
        classes, weight_bit_width=1, act_bit_width=1, in_bit_width=1, in_channels=1,
        out_features=hidden, in_features=(side, side),
    )  # fmt: skip


@torch.no_grad()
def scramble(model, seed, *, ties=True):
    """Give every layer random weights, every batch norm statistics of both signs."""
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    fan_in = 1
    for module in model.modules():
        if isinstance(module, qnn.QuantLinear | qnn.QuantConv2d):
            module.weight.copy_(torch.randn(module.weight.shape, generator=generator))
            fan_in = module.weight[0].numel()
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            count = module.num_features
            spread = fan_in**0.5
            mean = rng.normal(0, spread, count)
            # A third of the means lie where sums do, so that ties occur.
            mean = np.where(ties & (rng.random(count) < 0.3), np.round(mean), mean)
            module.running_mean.copy_(torch.from_numpy(mean))
            module.running_var.copy_(torch.from_numpy(rng.uniform(0.2, 2, count) * spread**2))
            module.weight.copy_(torch.from_numpy(rng.normal(0, 1, count)))
            bias = np.where(rng.random(count) < 0.3, 0, rng.normal(0, 0.5, count))
            module.bias.copy_(torch.from_numpy(bias))
        if isinstance(module, TensorNorm):
            for part in (module.weight, module.bias, module.running_mean, module.running_var):
                part.fill_(rng.uniform(0.5, 2))
    return model.eval()


@torch.no_grad()
def calibrate(model, shape, seed=0):
    """Give batch norms the statistics of random images, so that activations take all values."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    generator = torch.Generator().manual_seed(seed)
    model(torch.rand(256, *shape, generator=generator))
    return model.eval()


def export(model, shape, path, **options):
    """Write a model's QONNX file, quietly."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            export_qonnx(model, torch.zeros(1, *shape), str(path), **options)
    finally:
        logging.disable(logging.NOTSET)
    # What the exporter leaves beside the file is not needed: the numbers are inside.
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    return path
