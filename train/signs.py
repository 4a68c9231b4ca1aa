"""The sign function of the project, sign(0) = +1, and the gradients that stand in for its own.

Never `torch.sign`: it maps 0 to 0, a value that the hardware does not have.
"""

import math
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "ACTIVATION_GRADIENTS",
    "GRADIENTS",
    "BinaryWeight",
    "SignOfActivation",
    "SignedWeight",
    "count_ones",
    "ede_steepness",
    "sign",
]

GRADIENTS = ("clipped", "ede", "identity")
ACTIVATION_GRADIENTS = ("clipped", "ede", "polynomial")


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
    """Sign of activations, with one of the gradients of :data:`ACTIVATION_GRADIENTS`.

    ``clipped`` is that of hardtanh: one where |x| ≤ 1, zero elsewhere. ``ede`` is IR-Net's error
    decay estimator, and ``polynomial`` Bi-Real Net's 2 − 2|x| within one. With ``within_one``, EDE
    passes nothing where |x| > 1: a hardtanh before the sign, which changes no value, is thus done
    at no cost.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gradient: str = "clipped",
        steepness: float = 1.0,
        within_one: bool = False,
    ) -> Tensor:
        ctx.gradient, ctx.steepness, ctx.within_one = gradient, steepness, within_one
        ctx.save_for_backward(x)
        return sign(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        if ctx.gradient == "polynomial":
            grad = grad * x.abs().neg_().add_(1.0).clamp_min_(0.0).mul_(2.0)
        elif ctx.gradient == "ede":
            grad = grad * _ede_slope(x, ctx.steepness)
        if ctx.gradient == "clipped" or ctx.within_one:
            # Strict comparison at the ends inside hardtanh_backward; the ends have measure zero.
            grad = torch.ops.aten.hardtanh_backward(grad, x, -1.0, 1.0)
        return grad, None, None, None


def _ede_slope(x: Tensor, t: float) -> Tensor:
    """Return k·t·(1 − tanh²(t·x)) with k = max(1/t, 1)."""
    return torch.tanh(x * t).square_().neg_().add_(1.0).mul_(max(1.0 / t, 1.0) * t)


def _through_sign(grad: Tensor, latent: Tensor, gradient: str, steepness: float) -> Tensor:
    """Return what passes back through the sign of latent weights."""
    if gradient == "identity":
        return grad
    if gradient == "clipped":
        return torch.ops.aten.hardtanh_backward(grad, latent, -1.0, 1.0)  # type: ignore[no-any-return]
    return grad * _ede_slope(latent, steepness)


class BinaryWeight(torch.autograd.Function):
    """τ·sign(latent − cut) + φ in one buffer; nothing is kept for backward but the latents.

    Through the sign passes one of the gradients of :data:`GRADIENTS`: ``clipped`` where |w| ≤ 1,
    ``identity`` everywhere, and ``ede`` as IR-Net's error decay estimator has it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        latent: Tensor,
        cut: Tensor,
        tau: Tensor,
        phi: Tensor,
        gradient: str,
        steepness: float,
    ) -> Tensor:
        ctx.gradient, ctx.steepness = gradient, steepness
        ctx.save_for_backward(latent, cut, tau)
        return _signs(latent, cut).mul_(tau).add_(phi)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        latent, cut, tau = ctx.saved_tensors
        to_latent = to_tau = to_phi = None
        if ctx.needs_input_grad[2]:
            to_tau = (grad * _signs(latent, cut)).sum()
        if ctx.needs_input_grad[3]:
            to_phi = grad.sum()
        if ctx.needs_input_grad[0]:
            around = latent - cut if ctx.gradient != "identity" else latent
            to_latent = _through_sign(grad * tau, around, ctx.gradient, ctx.steepness)
        return to_latent, None, to_tau, to_phi, None, None


class SignedWeight(torch.autograd.Function):
    """2τ·sign(latent) where |latent| is at or above the cut, and zero elsewhere.

    The gradient reaches the zeros as well: a tap that is not there can grow until it is.
    """

    @staticmethod
    def forward(
        ctx: Any, latent: Tensor, cut: Tensor, tau: Tensor, gradient: str, steepness: float
    ) -> Tensor:
        ctx.gradient, ctx.steepness = gradient, steepness
        ctx.save_for_backward(latent, cut, tau)
        return _taps(latent, cut).mul_(2 * tau)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        latent, cut, tau = ctx.saved_tensors
        to_latent = to_tau = None
        if ctx.needs_input_grad[2]:
            to_tau = 2 * (grad * _taps(latent, cut)).sum()
        if ctx.needs_input_grad[0]:
            to_latent = _through_sign(grad * (2 * tau), latent, ctx.gradient, ctx.steepness)
        return to_latent, None, to_tau, None, None


def _taps(latent: Tensor, cut: Tensor) -> Tensor:
    """Return −1, 0 and +1: the signs of what is large enough."""
    return sign(latent).mul_(latent.abs() >= cut)


def _signs(latent: Tensor, cut: Tensor) -> Tensor:
    """Return :func:`sign` of latent − cut in a buffer of its own."""
    moved = latent - cut
    return torch.copysign(torch.ones_like(cut), moved.add_(0.0), out=moved)


def ede_steepness(progress: float) -> float:
    """Return EDE's t at a share of the run: from 10^-1 at 0 to 10^1 at 1."""
    return math.pow(10.0, 2.0 * progress - 1.0)


class _CountOnes(torch.autograd.Function):
    """Count the weights of value one; the gradient passes through the sign unchanged."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor, cut: Tensor) -> Tensor:
        ctx.shape, ctx.dtype = latent.shape, latent.dtype
        # A count: in double precision it is exact up to 2^53 weights.
        return (latent >= cut).sum().double()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # The number of ones is Σ(sign(w − cut) + 1)/2.
        return (grad / 2).to(ctx.dtype).expand(ctx.shape), None


def count_ones(latent: Tensor, cut: Tensor) -> Tensor:
    """Return how many latent weights are at or above a cut, differentiable as Σ(w + 1)/2."""
    return _CountOnes.apply(latent, cut)  # type: ignore[no-any-return,no-untyped-call]
