"""sign(0) is +1, and the gradients are those of their names."""

import math

import pytest
import torch

from sbnn_hw.train.signs import (
    BinaryWeight,
    SignOfActivation,
    count_ones,
    ede_steepness,
    sign,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_of_either_sign_is_plus_one(dtype):
    x = torch.tensor([-1e-40, -0.0, 0.0, 1e-40, -3.0, 3.0], dtype=dtype)
    assert sign(x).tolist() == [-1, 1, 1, 1, -1, 1]
    assert sign(x).dtype == dtype


def _binary(w, gradient, steepness):
    """Weights −1 and +1: τ is 1, and cut and φ are 0."""
    zero = torch.zeros((), dtype=w.dtype)
    return BinaryWeight.apply(w, zero, torch.ones_like(zero), zero, gradient, steepness)


class SignOfWeight(torch.autograd.Function):
    """The sign alone, with the gradients as they are defined."""

    @staticmethod
    def forward(ctx, w, gradient, t):
        slopes = {
            "clipped": (w.abs() < 1).to(w.dtype),
            "ede": (1 - torch.tanh(w * t).square()) * (max(1 / t, 1) * t),
            "identity": torch.ones_like(w),
        }
        ctx.save_for_backward(slopes[gradient])
        return sign(w)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None, None


def test_activation_gradient_is_hardtanhs():
    x = torch.tensor([-2.0, -0.9, 0.0, 0.9, 2.0], requires_grad=True)
    SignOfActivation.apply(x).backward(torch.arange(1.0, 6.0))
    assert x.grad.tolist() == [0, 2, 3, 4, 0]


@pytest.mark.parametrize(
    ("gradient", "expected"), [("clipped", [0, 2, 3, 4, 0]), ("identity", [1, 2, 3, 4, 5])]
)
def test_weight_gradients(gradient, expected):
    w = torch.tensor([-1.4, -0.9, 0.0, 0.9, 1.4], requires_grad=True)
    _binary(w, gradient, 1.0).backward(torch.arange(1.0, 6.0))
    assert w.grad.tolist() == expected


@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
def test_error_decay_is_ir_nets(t):
    w = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64, requires_grad=True)
    _binary(w, "ede", t).sum().backward()
    k = max(1 / t, 1)
    expected = [k * t * (1 - math.tanh(t * x) ** 2) for x in w.tolist()]
    assert w.grad.tolist() == pytest.approx(expected, abs=1e-12)


def test_steepness_runs_from_a_tenth_to_ten():
    assert [ede_steepness(p) for p in (0, 0.5, 1)] == pytest.approx([0.1, 1, 10])


def test_ones_are_counted_with_identity_gradient():
    w = torch.tensor([-2.0, -0.1, 0.0, 0.1, 2.0], requires_grad=True)
    ones = count_ones(w, torch.tensor(0.0))
    assert ones.item() == 3
    (2 * ones).backward()
    assert w.grad.tolist() == [1] * 5  # half for each weight, whatever its size


def test_ones_are_those_at_or_above_the_cut():
    w = torch.tensor([-2.0, 0.5, 0.25, 0.75])
    assert count_ones(w, torch.tensor(0.5)).item() == 2


@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
def test_activations_have_error_decay_too_and_none_beyond_one_where_asked(t):
    x = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64, requires_grad=True)
    slope = [max(1 / t, 1) * t * (1 - math.tanh(t * v) ** 2) for v in x.tolist()]
    SignOfActivation.apply(x, "ede", t, False).sum().backward()
    assert x.grad.tolist() == pytest.approx(slope, abs=1e-12)
    x.grad = None
    SignOfActivation.apply(x, "ede", t, True).sum().backward()
    # the ends, |x| = 1, are left out as in hardtanh
    expected = [s if abs(v) < 1 else 0 for s, v in zip(slope, x.tolist(), strict=True)]
    assert x.grad.tolist() == pytest.approx(expected, abs=1e-12)


def test_polynomial_gradient_is_bi_real_nets():
    x = torch.tensor([-1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 1.5], requires_grad=True)
    SignOfActivation.apply(x, "polynomial", 1.0, False).sum().backward()
    assert x.grad.tolist() == [0, 0, 1.5, 2, 1, 0, 0]


@pytest.mark.parametrize("gradient", ["clipped", "ede", "identity"])
def test_fused_weights_are_those_of_the_parts(gradient):
    """Values and all gradients, at the cut and at zeros of either sign too."""
    generator = torch.Generator().manual_seed(1)
    latent = torch.randn(50, generator=generator, dtype=torch.float64)
    latent[:6] = torch.tensor([0.0, -0.0, 0.25, 1.25, -0.75, 0.2])
    upstream = torch.randn(50, generator=generator, dtype=torch.float64)
    cut = torch.tensor(0.25, dtype=torch.float64)
    results = []
    for fused in (True, False):
        w = latent.clone().requires_grad_()
        tau = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        phi = torch.tensor(-0.2, dtype=torch.float64, requires_grad=True)
        if fused:
            value = BinaryWeight.apply(w, cut, tau, phi, gradient, 0.7)
        else:
            value = tau * SignOfWeight.apply(w - cut, gradient, 0.7) + phi
        value.backward(upstream)
        results.append((value.detach(), w.grad, tau.grad, phi.grad))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
