"""Random models for the claims of equality: every domain, geometry, sign, and ties on purpose."""

import numpy as np
import torch
from torch import nn

from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLinear,
    SparseBinaryScores,
)
from sbnn_hw.train.norm import BatchNorm

DOMAINS = ["learned", "grid", "closed_form", "symmetric", "bnn", "zero", "signed"]


def domain_options(domain):
    """Return the layer's options for a domain of the list above."""
    return {"domain": "learned", "xi_bits": 5} if domain == "grid" else {"domain": domain}


@torch.no_grad()
def scramble(layer, rng, density):
    """Give a layer random weights of a density, and random τ and φ, of either sign."""
    shape = tuple(layer.weight.shape)
    ones = rng.random(shape) < density
    values = np.where(ones, 1.0, -1.0)
    if layer.domain.signed:
        values = np.where(ones, rng.choice([-1.0, 1.0], shape), 0.0)
        layer.cut.fill_(0.5)
    layer.weight.copy_(torch.from_numpy(values))
    # Half of the layers on a coarse grid, where ties are common.
    coarse = rng.random() < 0.5
    for name in ("tau", "phi", "xi"):
        value = getattr(layer.domain, name, None)
        if value is not None:
            number = rng.integers(1, 9) / 4 if coarse else rng.uniform(0.1, 2)
            if name == "xi":
                number = -rng.uniform(0.02, 0.9)
            value.fill_(float(number) * float(rng.choice([-1, 1])))


@torch.no_grad()
def scramble_norm(norm, rng, fan_in, z_step):
    """Give a batch norm random numbers: gains of either sign and zero, means on the lattice."""
    count = norm.features
    # √(v + ε) is a whole number in half of the neurons, so that ties with a bias occur too.
    square = rng.random(count) < 0.5
    norm.eps = float(rng.choice([1e-5, 1.0]))
    variance = np.where(square & (norm.eps == 1.0), 3.0, rng.uniform(0.1, 30, count))
    gain = rng.choice([-2.0, -1.0, -0.3, 0.5, 1.0, 2.0], count)
    if norm.scale == "learned":
        gain[rng.random(count) < 0.1] = 0.0
        norm.weight.copy_(torch.from_numpy(gain))
    spread = max(1.0, fan_in**0.5)
    on_lattice = rng.integers(-3, 4, count) * z_step
    mean = np.where(rng.random(count) < 0.6, on_lattice, rng.normal(0, spread, count))
    bias = np.where(rng.random(count) < 0.5, 0.0, rng.choice([-2.0, -0.5, 1.0, 4.0], count))
    norm.running_var.copy_(torch.from_numpy(variance))
    norm.running_mean.copy_(torch.from_numpy(mean))
    norm.bias.copy_(torch.from_numpy(bias))


def _z_step(layer):
    """Return a step on which pre-activations may lie, as far as a float can hold it."""
    tau = getattr(layer.domain, "tau", None)
    return abs(tau.item()) if tau is not None else 1.0


def _norm_for(layer, rng, plain):
    norm = nn.Identity()
    if not plain:
        norm = BatchNorm(len(layer.weight), scale=str(rng.choice(["learned", "alternating"])))
        scramble_norm(norm, rng, layer.fan_in, _z_step(layer))
    return norm


def random_mlp(rng, domain, *, density=0.3):
    """Return a small fully connected model and the shape of its images."""
    height, width, channels = (int(n) for n in rng.integers(1, 4, 3))
    kind = str(rng.choice(["threshold", "thermometer", "integer"]))
    thresholds = {"threshold": [100], "thermometer": [50, 128, 200], "integer": []}[kind]
    encoder = InputEncoder(kind, thresholds)
    features = height * width * channels * encoder.planes
    modules = [encoder, nn.Flatten()]
    for _ in range(int(rng.integers(1, 4))):
        outputs = int(rng.integers(1, 9))
        layer = SparseBinaryLinear(features, outputs, **domain_options(domain))
        scramble(layer, rng, density)
        modules += [layer, _norm_for(layer, rng, rng.random() < 0.1), SignActivation()]
        features = outputs
    return _with_scores(modules, features, rng, domain, density), (height, width, channels)


def random_convnet(rng, domain, *, density=0.3):
    """Return a small convolutional model and the shape of its images."""
    height, width = (int(n) for n in rng.integers(2, 6, 2))
    channels = int(rng.choice([1, 2]))
    shape = (height, width, channels)
    encoder = InputEncoder(*[("threshold", [100]), ("integer", [])][int(rng.integers(2))])
    modules = [encoder]
    for _ in range(int(rng.integers(1, 3))):
        kernel = int(rng.integers(1, 4))
        padding = int(rng.integers(0, kernel))
        stride = int(rng.integers(1, 3))
        if min(height, width) + 2 * padding < kernel:
            break
        groups = int(rng.choice([g for g in (1, 2) if channels % g == 0]))
        outputs = int(rng.integers(1, 4)) * groups
        layer = SparseBinaryConv2d(
            channels, outputs, kernel, stride=stride, padding=padding,
            padding_value=int(rng.choice([-1, 0])), groups=groups, **domain_options(domain),
        )  # fmt: skip
        scramble(layer, rng, density)
        height = (height + 2 * padding - kernel) // stride + 1
        width = (width + 2 * padding - kernel) // stride + 1
        behind = [_norm_for(layer, rng, rng.random() < 0.1)]
        if min(height, width) >= 2 and rng.random() < 0.6:
            pad = int(rng.integers(0, 2))
            pool = nn.MaxPool2d(2, stride=int(rng.integers(1, 3)), padding=pad)
            place = int(rng.integers(3))  # before the norm, before the sign, or after it
            behind.insert(min(place, 1), pool)
            if place == 2:
                behind = [behind[0], SignActivation(), pool]
            else:
                behind.append(SignActivation())
            height = (height + 2 * pad - 2) // pool.stride + 1
            width = (width + 2 * pad - 2) // pool.stride + 1
        else:
            behind.append(SignActivation())
        modules += [layer, *behind]
        channels = outputs
    modules.append(nn.Flatten())
    return _with_scores(modules, height * width * channels, rng, domain, density), shape


@torch.no_grad()
def _with_scores(modules, features, rng, domain, density):
    scores = SparseBinaryScores(features, int(rng.integers(2, 6)), **domain_options(domain))
    scramble(scores, rng, density)
    scores.offset.copy_(torch.from_numpy(rng.integers(-16, 17, len(scores.weight)) / 8))
    return nn.Sequential(*modules, scores).eval()


def random_pixels(rng, shape, count):
    """Return random images, many of their pixels on the thresholds."""
    return rng.choice([0, 49, 50, 99, 100, 127, 128, 199, 200, 255], (count, *shape)).astype(
        np.uint8
    )
