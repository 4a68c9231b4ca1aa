"""Find what says nothing on training images, and give its place and its tables to others.

A neuron that is constant, or the same as another one, costs tables and tells nothing new; so does
a tap on an input that is constant. Such taps are taken away, and such neurons begin anew. What a
constant input said is kept: by the mean of the batch norm behind, and by the offsets of the scores.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbnn_hw.train.layers import (
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryScores,
)
from sbnn_hw.train.norm import BatchNorm

__all__ = ["Replaced", "replace_idle"]


@dataclass(frozen=True)
class Replaced:
    """What was found."""

    #: Neurons that were constant or double.
    neurons: int
    #: Whether any weight was changed.
    changed: bool


class _Seen:
    """What some values were over all images: constant or not, and a number to tell bits apart."""

    def __init__(self) -> None:
        self.low: Tensor = torch.tensor(torch.inf)
        self.high: Tensor = torch.tensor(-torch.inf)
        self.mark: Tensor = torch.zeros((), dtype=torch.long)
        self.generator = torch.Generator().manual_seed(1)

    def add(self, values: Tensor) -> None:
        """Look at more values, (count, units)."""
        values = values.cpu()
        self.low = torch.minimum(self.low, values.amin(0))
        self.high = torch.maximum(self.high, values.amax(0))
        bits = (values > 0).long()
        # Bits that differ get the same number by a chance of one in 2^62 or so.
        salt = torch.randint(-(2**62), 2**62, (len(bits), 1), generator=self.generator)
        self.mark = self.mark + (bits * salt).sum(0)

    @property
    def constant(self) -> Tensor:
        """Where nothing ever changed."""
        return self.low == self.high

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
    model: nn.Sequential,
    images: Iterable[Tensor],
    optimiser: torch.optim.Optimizer | None = None,
    *,
    seed: int = 0,
    grow: bool = True,
) -> Replaced:
    """Take away taps on constant inputs and neurons that are constant or double.

    The model has layers, batch norms and signs in a row, with pools and a flatten between them. It
    is judged by ``images``, batches of pixels. What the optimiser remembers of a weight that is
    replaced is forgotten. ``seed`` chooses the weights of neurons that start over. Unless they
    ``grow``, they stay as they are, and nothing taps them.
    """
    generator = torch.Generator().manual_seed(seed)
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
    neurons, changed = 0, False
    for number, layer in enumerate(layers):
        if layer in outputs:
            again = _leave_to_others(layer, layers[number + 1], outputs[layer])
            if len(again):
                after = layers[number + 1]
                # Doubles said the same as another one, which says it on.
                said = outputs[layer].low.where(outputs[layer].constant, 0.0)[again]
                columns = _columns(layer, after, again)
                said = said.repeat_interleave(len(columns) // len(again))
                _clear(modules, after, columns, said, optimiser)
                if grow:
                    norm = _norm_behind(modules, layer)
                    _begin_anew(layer, norm, again, optimiser, generator)
                neurons += len(again)
                changed = True
        constant = inputs[layer].constant.nonzero().flatten()
        if _present(layer)[:, constant].any():
            _clear(modules, layer, constant, inputs[layer].low[constant], optimiser)
            changed = True
    model.train(training)
    return Replaced(neurons, changed)


def _leave_to_others(layer: SparseBinaryLayer, after: SparseBinaryLayer, seen: _Seen) -> Tensor:
    """Give what reads a double to the first of its kind; return which neurons are idle then."""
    same = {n: m for n, m in seen.doubles().items() if not seen.constant[n]}
    for double, one in same.items():
        there, here = (_columns(layer, after, torch.tensor([unit])) for unit in (double, one))
        mine, other = after.weight[:, here], after.weight[:, there]
        # The same bit twice: signed taps add up or cancel, of others one is left.
        both = mine + other if after.domain.signed else torch.maximum(mine, other)
        present = _present(after)
        merged = torch.where(present[:, here], both, other)
        after.weight[:, here] = torch.where(present[:, there], merged, mine)
    idle = seen.constant.clone()
    idle[list(same)] = True
    # Those that have no taps took nothing, and grow again from where they are.
    idle &= _present(layer).flatten(1).any(1).cpu()
    return idle.nonzero().flatten()


def _columns(layer: SparseBinaryLayer, after: SparseBinaryLayer, neurons: Tensor) -> Tensor:
    """Return the inputs of the next layer that neurons are: a map's is many behind a flatten."""
    share = after.weight.shape[1] // len(layer.weight)
    return (neurons.unsqueeze(1) * share + torch.arange(share)).flatten()


def _units(x: Tensor) -> Tensor:
    """Return values as (count, units): a unit is an input of a vector, a channel of a map."""
    return x if x.dim() == 2 else x.transpose(0, 1).flatten(1).T


def _present(layer: SparseBinaryLayer) -> Tensor:
    return layer.signs() != (0 if layer.domain.signed else -1)


def _steps(layer: SparseBinaryLayer, columns: Tensor) -> Tensor:
    """Return the weights on some inputs in units of η, but for what all of them have in common."""
    signs = layer.signs()[:, columns]
    return signs if layer.domain.signed else (signs + 1) / 2


def _clear(
    modules: list[nn.Module],
    layer: SparseBinaryLayer,
    columns: Tensor,
    said: Tensor,
    optimiser: torch.optim.Optimizer | None,
) -> None:
    """Take away the taps on some inputs, and keep what those always said."""
    if isinstance(layer, SparseBinaryConv2d) and layer.groups > 1:
        return
    weight = layer.weight
    before = _steps(layer, columns)
    if layer.domain.signed:
        # Signed taps are absent near zero.
        weight[:, columns] = 0.0
    else:
        # Others are far below it, and below the cut.
        cut = layer.cut.expand_as(weight)[:, columns]
        below = torch.nextafter(cut, torch.full_like(cut, -torch.inf))
        weight[:, columns] = torch.minimum(-weight[:, columns].abs(), below)
    _forget(optimiser, weight, (slice(None), columns))
    lost = before - _steps(layer, columns)  # (neurons, columns, …)
    moved = lost.flatten(2).sum(2) @ said.to(lost) if lost.dim() > 2 else lost @ said.to(lost)
    tau = getattr(layer.domain, "tau", moved.new_ones(()))
    if isinstance(layer, SparseBinaryScores):
        # Offsets are in units of |η|, and whole steps are on any grid of theirs.
        layer.offset.add_(tau.sign() * moved)
    else:
        # Borders of a padded map do not see the constant, and are off by it.
        _norm_behind(modules, layer).running_mean.sub_(2 * tau * moved)


def _begin_anew(
    layer: SparseBinaryLayer,
    norm: BatchNorm,
    rows: Tensor,
    optimiser: torch.optim.Optimizer | None,
    generator: torch.Generator,
) -> None:
    """Give neurons small random weights, as at the start."""
    bound = layer.fan_in**-0.5
    weight = layer.weight
    drawn = torch.rand(weight[rows].shape, generator=generator)
    weight[rows] = ((2 * drawn - 1) * bound).to(weight)
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
