"""How few connections: the paper's sparsity loss, a schedule for it, and top-k projection."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sbnn_hw.train.config import SCHEDULES
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.parallel import average

__all__ = ["SparsityPenalty", "TopK", "count_weights", "layers_of", "ones_share", "scheduled_ec"]

#: The penalty is zero once the share of ones exceeds the constraint by no more than this.
TOLERANCE = 1e-4


def layers_of(model: nn.Module) -> list[SparseBinaryLayer]:
    """Return the sparse binary layers of a model, in order."""
    return [module for module in model.modules() if isinstance(module, SparseBinaryLayer)]


def count_weights(layers: list[SparseBinaryLayer]) -> int:
    """Return the number of weights, zeros and ones together."""
    return sum(layer.weight.numel() for layer in layers)


@torch.no_grad()
def ones_share(layers: list[SparseBinaryLayer]) -> float:
    """Return U/N, the share of ones among all the weights of the layers; 0 without any."""
    if not layers:
        return 0.0
    return sum(layer.ones().item() for layer in layers) / count_weights(layers)


def scheduled_ec(ec: float, progress: float, *, schedule: str, until: float = 0.5) -> float:
    """Return the constraint at a share of the run.

    ``cubic`` lowers it from 0.5, all weights free, to ``ec`` over the first part of the run,
    quickly first and slowly towards the end.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"Schedule must be one of {', '.join(SCHEDULES)}, not {schedule!r}")
    if schedule == "constant" or progress >= until:
        return ec
    return ec + (0.5 - ec) * (1 - progress / until) ** 3


@dataclass(frozen=True)
class SparsityPenalty:
    """The paper's loss: j = ReLU(U/N − EC), weighted so that λj is γ of the whole loss.

    U and N are taken over all layers together. λ = γ·L/((1 − γ)·j) is recomputed at each step
    and carries no gradient; it is zero once U/N − EC ≤ 10⁻⁴.
    """

    #: Share of the whole loss that the penalty has, 0 ≤ γ < 1.
    gamma: float

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise ValueError(f"Gamma must be at least 0 and below 1, not {self.gamma!r}")

    def __call__(self, layers: list[SparseBinaryLayer], ec: float, loss: Tensor) -> Tensor:
        """Return λj for the loss of the task, which is averaged over all processes."""
        if self.gamma == 0:
            return torch.zeros_like(loss)
        ones = torch.stack([layer.ones() for layer in layers]).sum()
        excess = torch.relu(ones / count_weights(layers) - ec)
        if excess.item() <= TOLERANCE:
            return torch.zeros_like(loss)
        factor = self.gamma * average(loss).double() / ((1 - self.gamma) * excess.detach())
        return (factor * excess).to(loss.dtype)


@dataclass(frozen=True)
class TopK:
    """Keep the largest latent weights of all layers together, by moving their common cut."""

    @torch.no_grad()
    def refresh(self, layers: list[SparseBinaryLayer], ec: float) -> Tensor:
        """Set the cut so that the share of ones is ``ec``, but for ties; return it."""
        keep = max(1, math.floor(ec * count_weights(layers)))
        cut = self._values(layers).topk(keep, sorted=False).values.min()
        for layer in layers:
            layer.cut.fill_(cut)
        return cut

    @torch.no_grad()
    def project(self, layers: list[SparseBinaryLayer], ec: float) -> None:
        """Set the cut and break ties, so that exactly ⌊EC·N⌋ weights are ones."""
        cut = self.refresh(layers, ec)
        keep = max(1, math.floor(ec * count_weights(layers)))
        excess = int((self._values(layers) >= cut).sum()) - keep
        below = torch.nextafter(cut, torch.full_like(cut, -torch.inf))
        for layer in reversed(layers):
            flat = layer.weight.view(-1)
            size = flat.abs() if layer.domain.signed else flat
            tied = (size == cut).nonzero().flatten().flip(0)[: max(0, excess)]
            flat[tied] = below * flat[tied].sign() if layer.domain.signed else below
            excess -= len(tied)

    @staticmethod
    def _values(layers: list[SparseBinaryLayer]) -> Tensor:
        return torch.cat(
            [
                layer.weight.abs().flatten() if layer.domain.signed else layer.weight.flatten()
                for layer in layers
            ]
        )
