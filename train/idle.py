"""Find what says nothing on training images, and give its place and its tables to others.

A neuron that is constant, or the same as another one, costs tables and tells nothing new; so does
a tap on an input that is constant. Such taps are taken away, and such neurons begin anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbnn_hw.train.layers import SignActivation, SparseBinaryConv2d, SparseBinaryLayer
from sbnn_hw.train.norm import BatchNorm

__all__ = ["Replaced", "replace_idle"]


@dataclass(frozen=True)
class Replaced:
    """What was found.

    Parameters
    ----------
    neurons : int
        Neurons that began anew.
    changed : bool
        Whether any weight is another one now.
    """

    neurons: int
    changed: bool


class _Seen:
    """What some bits were over all images: constant or not, and a number that tells them apart."""

    def __init__(self) -> None:
        self.count = 0
        self.ones: Tensor = torch.zeros(())
        self.mark: Tensor = torch.zeros(())
        self.all: int = 0
        self.generator = torch.Generator().manual_seed(1)

    def add(self, bits: Tensor) -> None:
        """Look at more values, (count, units)."""
        bits = (bits > 0).to("cpu", torch.int64)
        # Bits that differ get the same number by a chance of one in 2^62 or so.
        salt = torch.randint(-(2**62), 2**62, (len(bits), 1), generator=self.generator)
        self.count += len(bits)
        self.ones = self.ones + bits.sum(0)
        self.mark = self.mark + (bits * salt).sum(0)

    @property
    def constant(self) -> Tensor:
        """Where nothing ever changed."""
        return (self.ones == 0) | (self.ones == self.count)

    def doubles(self) -> dict[int, int]:
        """Return for each unit that is the same as an earlier one which one that is."""
        first: dict[int, int] = {}
        found = {}
        for unit, mark in enumerate(self.mark.tolist()):
            if mark in first:
                found[unit] = first[mark]
            else:
                first[mark] = unit
        return found


@torch.no_grad()
def replace_idle(
    model: nn.Sequential, images: Iterable[Tensor], optimiser: torch.optim.Optimizer | None = None
) -> Replaced:
    """Take away taps on constant inputs and neurons that are constant or double.

    Parameters
    ----------
    model : nn.Sequential
        Layers, batch norms and signs in a row, with pools and a flatten between them.
    images : iterable of Tensor
        Batches of pixels to judge by.
    optimiser : Optimizer, optional
        What it remembers of a weight that is set anew is forgotten.
    """
    modules = list(model)
    layers = [m for m in modules if isinstance(m, SparseBinaryLayer)]
    inputs = {layer: _Seen() for layer in layers}
    outputs = {layer: _Seen() for layer in layers[:-1]}
    training = model.training
    model.eval()
    for x in images:
        layer: SparseBinaryLayer | None = None
        for module in modules:
            if isinstance(module, SparseBinaryLayer):
                layer = module
                inputs[layer].add(_units(x))
            x = module(x)
            if isinstance(module, SignActivation) and layer is not None:
                outputs[layer].add(_units(x))
    model.train(training)
    neurons, changed = 0, False
    for number, layer in enumerate(layers):
        constant = inputs[layer].constant.nonzero().flatten()
        if _present(layer)[:, constant].any():
            _clear(layer, constant, optimiser)
            changed = True
        if layer not in outputs:
            continue
        after = layers[number + 1]
        doubles = outputs[layer].doubles()
        same = {n: m for n, m in doubles.items() if not outputs[layer].constant[n]}
        # A neuron of a map stands for a whole column of inputs behind a flatten.
        share = after.weight.shape[1] // len(layer.weight)
        for double, one in same.items():
            there, here = (slice(unit * share, (unit + 1) * share) for unit in (double, one))
            after.weight[:, here] += after.weight[:, there]
        again = outputs[layer].constant.clone()
        again[list(same)] = True
        idle = again.nonzero().flatten()
        if len(idle):
            _begin_anew(layer, _norm_behind(modules, layer), idle, optimiser)
            columns = (idle.unsqueeze(1) * share + torch.arange(share)).flatten()
            _clear(after, columns, optimiser)
            neurons += len(idle)
            changed = True
    return Replaced(neurons, changed)


def _units(x: Tensor) -> Tensor:
    """Return values as (count, units): a unit is an input of a vector, a channel of a map."""
    return x if x.dim() == 2 else x.transpose(0, 1).flatten(1).T


def _present(layer: SparseBinaryLayer) -> Tensor:
    return layer.signs() != (0 if layer.domain.signed else -1)


def _clear(
    layer: SparseBinaryLayer, columns: Tensor, optimiser: torch.optim.Optimizer | None
) -> None:
    """Take away the taps on some inputs."""
    if isinstance(layer, SparseBinaryConv2d) and layer.groups > 1:
        return
    # Signed taps are absent near zero, others far below it.
    weight = layer.weight
    weight[:, columns] = 0.0 if layer.domain.signed else -weight[:, columns].abs()
    _forget(optimiser, weight, (slice(None), columns))


def _begin_anew(
    layer: SparseBinaryLayer,
    norm: BatchNorm,
    rows: Tensor,
    optimiser: torch.optim.Optimizer | None,
) -> None:
    """Give neurons small random weights, as at the start."""
    bound = layer.fan_in**-0.5
    weight = layer.weight
    weight[rows] = torch.empty_like(weight[rows]).uniform_(-bound, bound)
    norm.bias[rows] = 0.0
    for parameter in (weight, norm.bias):
        _forget(optimiser, parameter, rows)


def _norm_behind(modules: list[nn.Module], layer: SparseBinaryLayer) -> BatchNorm:
    found = modules[modules.index(layer) + 1]
    assert isinstance(found, BatchNorm)
    return found


def _forget(optimiser: torch.optim.Optimizer | None, parameter: Tensor, at: object) -> None:
    state = optimiser.state.get(parameter, {}) if optimiser is not None else {}
    for name in ("exp_avg", "exp_avg_sq"):
        if name in state:
            state[name][at] = 0.0
