"""The sign function of the project, sign(0) = +1, and the gradients that stand in for its own.

Never `torch.sign`: it maps 0 to 0, a value that the hardware does not have.
"""

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["GRADIENTS", "SignOfActivation", "SignOfWeight", "count_ones", "ede_steepness", "sign"]

GRADIENTS = ("clipped", "ede", "identity")


def sign(x: Tensor) -> Tensor:
    """Return −1 below zero and +1 elsewhere; −0.0 counts as zero.

    Examples
    --------
    >>> sign(torch.tensor([-2.0, -0.0, 0.0, 3.0]))
    tensor([-1.,  1.,  1.,  1.])
    """
    # Adding zero turns −0.0 into +0.0; `copysign` is ten times as fast as `where` on a CPU.
    return torch.copysign(torch.ones((), dtype=x.dtype, device=x.device), x + 0.0)


class SignOfActivation(torch.autograd.Function):
    """Sign with the gradient of hardtanh: one where |x| ≤ 1, zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return sign(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        # Strict comparison at the ends inside hardtanh_backward; the ends have measure zero.
        return torch.ops.aten.hardtanh_backward(grad, x, -1.0, 1.0)  # type: ignore[no-any-return]


class SignOfWeight(torch.autograd.Function):
    """Sign of latent weights, with one of the gradients of :data:`GRADIENTS`.

    ``clipped`` passes the gradient where |w| ≤ 1, ``identity`` everywhere, and ``ede`` is
    IR-Net's error decay estimator: k·t·(1 − tanh²(t·w)) with k = max(1/t, 1).
    """

    @staticmethod
    def forward(ctx: Any, latent: Tensor, gradient: str, steepness: float) -> Tensor:
        ctx.gradient, ctx.steepness = gradient, steepness
        if gradient != "identity":
            ctx.save_for_backward(latent)
        return sign(latent)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if ctx.gradient == "identity":
            return grad, None, None
        (latent,) = ctx.saved_tensors
        if ctx.gradient == "clipped":
            return torch.ops.aten.hardtanh_backward(grad, latent, -1.0, 1.0), None, None
        t = ctx.steepness
        slope = torch.tanh(latent * t).square_().neg_().add_(1.0).mul_(max(1.0 / t, 1.0) * t)
        return grad * slope, None, None


def ede_steepness(progress: float) -> float:
    """Return EDE's t at a share of the run: from 10^-1 at 0 to 10^1 at 1."""
    return math.pow(10.0, 2.0 * progress - 1.0)


class _CountOnes(torch.autograd.Function):
    """Count the weights of value one; the gradient passes through the sign unchanged."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor) -> Tensor:
        ctx.like = latent
        # A count: in double precision it is exact up to 2^53 weights.
        return (latent >= 0).sum().double()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # The number of ones is Σ(sign(w) + 1)/2.
        return (grad / 2).to(ctx.like.dtype).expand_as(ctx.like)


def count_ones(latent: Tensor) -> Tensor:
    """Return how many of the latent weights binarise to one, differentiable as Σ(w + 1)/2."""
    return _CountOnes.apply(latent)  # type: ignore[no-any-return,no-untyped-call]
