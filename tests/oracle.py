"""The trained model by its definition, in exact rational arithmetic: slow, plain, independent.

Nothing of the fold is used: weights are η·(w01 + ξ), activations ±1, batch norm decides the sign
of g·(z − μ) + b·√(v + ε), padding is −1 or contributes nothing.
"""

from fractions import Fraction
from math import inf

import numpy as np
import torch
from torch import nn

from sbnn_hw.train.fold import flat_modules
from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLinear,
    SparseBinaryScores,
)


def sign_of(d, q, w):
    """Return the sign of d + q·√w by comparing squares."""
    if q == 0 or d == 0:
        lead = d if q == 0 else q
        return (lead > 0) - (lead < 0)
    if (d > 0) == (q > 0):
        return 1 if d > 0 else -1
    larger = d * d - q * q * w
    if larger == 0:
        return 0
    return (1 if d > 0 else -1) if larger > 0 else (1 if q > 0 else -1)


def domain_values(layer):
    """Return η and ξ as the stored numbers have them."""
    domain = layer.domain
    if domain.name == "bnn":
        return Fraction(2), Fraction(-1, 2)
    tau = Fraction(domain.tau.item())
    if hasattr(domain, "bits"):
        return 2 * tau, Fraction(round(domain.xi.item() * 2**domain.bits), 2**domain.bits)
    if domain.name in ("zero", "signed"):
        return 2 * tau, Fraction(0)
    phi = Fraction(domain.phi.item()) if hasattr(domain, "phi") else Fraction(0)
    return 2 * tau, (phi - tau) / (2 * tau)


def weights_of(layer):
    """Return the weights as fractions."""
    eta, xi = domain_values(layer)
    with torch.no_grad():
        signs = layer.signs().numpy()
    if layer.domain.signed:
        return np.vectorize(lambda s: eta * int(s), otypes=[object])(signs)
    return np.vectorize(lambda s: eta * (int(s > 0) + xi), otypes=[object])(signs)


def conv(x, layer):
    """Convolve (channels, height, width) of fractions."""
    weights = weights_of(layer)
    (down, across), (rows, columns) = layer.stride, layer.padding
    fill = Fraction(layer.padding_value)
    x = np.pad(x, ((0, 0), (rows, rows), (columns, columns)), constant_values=fill)
    out, per_group, kh, kw = weights.shape
    height, width = (x.shape[1] - kh) // down + 1, (x.shape[2] - kw) // across + 1
    z = np.empty((out, height, width), object)
    for o in range(out):
        first = o // (out // layer.groups) * per_group
        for i in range(height):
            for j in range(width):
                top, left = i * down, j * across
                window = x[first : first + per_group, top : top + kh, left : left + kw]
                z[o, i, j] = (window * weights[o]).sum()
    return z


def pool(x, module):
    """Take the largest of each window of (channels, height, width); padding is −∞."""
    k, s, p = module.kernel_size, module.stride, module.padding
    x = np.pad(x, ((0, 0), (p, p), (p, p)), constant_values=-inf)
    rows, columns = (x.shape[1] - k) // s + 1, (x.shape[2] - k) // s + 1
    return np.array(
        [
            [
                [plane[i * s : i * s + k, j * s : j * s + k].max() for j in range(columns)]
                for i in range(rows)
            ]
            for plane in x
        ],
        object,
    )


def run(model, pixels):
    """Return, for one image (height, width, channels), every sign's output and the scores."""
    x = np.vectorize(Fraction, otypes=[object])(pixels.transpose(2, 0, 1).astype(object))
    signs = {}
    for index, (_, module) in enumerate(flat_modules(model)):
        if isinstance(module, InputEncoder):
            if module.kind == "integer":
                x = (2 * x - 255) / Fraction(255)
            else:
                x = np.array(
                    [[[[1 if v >= t else -1 for v in row] for row in plane]
                      for t in module.thresholds] for plane in x],
                    object,
                ).reshape(-1, *x.shape[1:])  # fmt: skip
                x = np.vectorize(Fraction, otypes=[object])(x)
        elif isinstance(module, nn.Flatten):
            x = x.reshape(-1)
        elif isinstance(module, SparseBinaryConv2d):
            x = conv(x, module)
        elif isinstance(module, SparseBinaryLinear):
            x = weights_of(module) @ x
            if isinstance(module, SparseBinaryScores):
                eta, _ = domain_values(module)
                grid = 2**module.offset_bits
                offsets = [Fraction(round(v * grid), grid) for v in module.offset.tolist()]
                x = x + abs(eta) * np.array(offsets, object)
        elif isinstance(module, nn.MaxPool2d):
            x = pool(x, module)
        elif isinstance(module, SignActivation):
            x = np.vectorize(lambda v: Fraction(1 if v >= 0 else -1), otypes=[object])(x)
            signs[index] = (x > 0).astype(bool)
        elif isinstance(module, nn.Identity):
            pass
        else:  # batch norm: only its sign matters, so the value is −1, 0 or 1
            norm = module
            planes = []
            for c in range(len(x)):
                g, b, mean = (
                    Fraction(t[c].item()) for t in (norm.weight, norm.bias, norm.running_mean)
                )
                w = Fraction(norm.running_var[c].item()) + Fraction(norm.eps)
                decide = np.vectorize(
                    lambda z, g=g, b=b, mean=mean, w=w: Fraction(sign_of(g * (z - mean), b, w)),
                    otypes=[object],
                )
                planes.append(decide(x[c]))
            x = np.array(planes, object)
    return signs, x
