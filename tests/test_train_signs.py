"""sign(0) is +1, and the gradients are those of their names."""

import math

import pytest
import torch

from sbnn_hw.train.signs import SignOfActivation, SignOfWeight, count_ones, ede_steepness, sign


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_of_either_sign_is_plus_one(dtype):
    x = torch.tensor([-1e-40, -0.0, 0.0, 1e-40, -3.0, 3.0], dtype=dtype)
    assert sign(x).tolist() == [-1, 1, 1, 1, -1, 1]
    assert sign(x).dtype == dtype


def test_activation_gradient_is_hardtanhs():
    x = torch.tensor([-2.0, -0.9, 0.0, 0.9, 2.0], requires_grad=True)
    SignOfActivation.apply(x).backward(torch.arange(1.0, 6.0))
    assert x.grad.tolist() == [0, 2, 3, 4, 0]


@pytest.mark.parametrize(
    ("gradient", "expected"), [("clipped", [0, 2, 3, 4, 0]), ("identity", [1, 2, 3, 4, 5])]
)
def test_weight_gradients(gradient, expected):
    w = torch.tensor([-1.4, -0.9, 0.0, 0.9, 1.4], requires_grad=True)
    SignOfWeight.apply(w, gradient, 1.0).backward(torch.arange(1.0, 6.0))
    assert w.grad.tolist() == expected


@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
def test_error_decay_is_ir_nets(t):
    w = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64, requires_grad=True)
    SignOfWeight.apply(w, "ede", t).sum().backward()
    k = max(1 / t, 1)
    expected = [k * t * (1 - math.tanh(t * x) ** 2) for x in w.tolist()]
    assert w.grad.tolist() == pytest.approx(expected, abs=1e-12)


def test_steepness_runs_from_a_tenth_to_ten():
    assert [ede_steepness(p) for p in (0, 0.5, 1)] == pytest.approx([0.1, 1, 10])


def test_ones_are_counted_with_identity_gradient():
    w = torch.tensor([-2.0, -0.1, 0.0, 0.1, 2.0], requires_grad=True)
    ones = count_ones(w)
    assert ones.item() == 3
    (2 * ones).backward()
    assert w.grad.tolist() == [1] * 5  # half for each weight, whatever its size
