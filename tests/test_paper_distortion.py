"""The closed form's promise: never more error than {−β, +β}, and no less is possible."""

import numpy as np
import pytest
import torch

from sbnn_hw.errors import ModelRejected
from sbnn_hw.paper.distortion import gaussian_errors, sample_errors
from sbnn_hw.train.distortion import pooled_quantiles, read_latents
from sbnn_hw.train.domains import closed_form
from sbnn_hw.train.signs import sign

SHARES = [0.01, 0.02, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99]


def drawn(kind, count=4000, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "gaussian": rng.normal(size=count),
        "laplace": rng.laplace(size=count),
        "uniform": rng.uniform(-1, 1, count),
        "skewed": rng.exponential(size=count),
        "two humps": rng.normal(size=count) + rng.choice([-3, 2], count),
    }[kind]


KINDS = ["gaussian", "laplace", "uniform", "skewed", "two humps"]


def shifted(weights, share):
    """Return the weights, moved until this share of them is at or above zero."""
    ordered = np.sort(weights)
    return torch.from_numpy(weights - ordered[len(weights) - round(share * len(weights))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", SHARES)
def test_closed_form_is_the_minimum_for_any_weights(kind, p):
    w = shifted(drawn(kind), p)
    signs = sign(w)
    assert (signs > 0).double().mean().item() == pytest.approx(p, abs=1e-9)
    tau, phi = closed_form(w, signs)
    t, f = tau.clone().requires_grad_(), phi.clone().requires_grad_()
    (w - (t * signs + f)).square().mean().backward()
    assert abs(t.grad.item()) < 1e-12
    assert abs(f.grad.item()) < 1e-12
    least = (w - (tau * signs + phi)).square().mean()
    generator = torch.Generator().manual_seed(1)
    moves = torch.randn(1000, 2, generator=generator, dtype=torch.float64)
    scale = 10.0 ** (4 * torch.rand(1000, 1, generator=generator, dtype=torch.float64) - 4)
    others = torch.stack([tau, phi]) + moves * scale
    errors = (w - (others[:, :1] * signs + others[:, 1:])).square().mean(1)
    assert (errors > least).all()
    # What the figure draws is this minimum.
    (drawn_error,) = sample_errors(w.numpy(), [p])
    assert drawn_error.general == pytest.approx((least / w.var(correction=0)).item())


@pytest.mark.parametrize("kind", KINDS)
def test_closed_form_at_one_half_is_xnor_nets_mean_of_absolute_values(kind):
    w = shifted(drawn(kind), 0.5)
    tau, phi = closed_form(w, sign(w))
    assert tau.item() == pytest.approx(w.abs().mean().item())
    assert phi.item() == pytest.approx(w.mean().item(), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", SHARES)
def test_symmetric_error_is_that_of_its_least_squares(kind, p):
    w = shifted(drawn(kind), p)
    signs = sign(w)
    beta = (signs * w).mean()
    assert beta.item() == pytest.approx(w.abs().mean().item())
    error = (w - beta * signs).square().mean() / w.var(correction=0)
    assert sample_errors(w.numpy(), [p])[0].symmetric == pytest.approx(error.item())


@pytest.mark.parametrize("kind", KINDS)
def test_two_free_values_never_cost_more(kind):
    shares = np.linspace(0.01, 0.99, 99)
    for share, errors in zip(shares, sample_errors(drawn(kind), shares), strict=True):
        assert 0 < errors.general <= errors.symmetric + 1e-12, share


def test_equal_at_one_half_only_where_weights_are_symmetric():
    half = drawn("laplace", 2000)
    symmetric = np.concatenate([half, -half])
    at_half, beside = sample_errors(symmetric, [0.5, 0.3])
    # The shift is to the smallest weight that is one, half a gap beside the centre.
    assert at_half.symmetric == pytest.approx(at_half.general, abs=1e-6)
    assert beside.symmetric > beside.general + 1e-3
    (skewed,) = sample_errors(drawn("skewed"), [0.5])
    assert skewed.symmetric > skewed.general + 1e-3
    exact = gaussian_errors(0.5)
    assert exact.symmetric == pytest.approx(exact.general) == pytest.approx(1 - 2 / np.pi)


@pytest.mark.parametrize("p", SHARES)
def test_gaussian_formulas_are_those_of_a_large_sample(p):
    sample = drawn("gaussian", 400_000, seed=3)
    (estimate,), exact = sample_errors(sample, [p]), gaussian_errors(p)
    assert estimate.general == pytest.approx(exact.general, abs=4e-3)
    assert estimate.symmetric == pytest.approx(exact.symmetric, abs=4e-3)
    mirrored = gaussian_errors(1 - p)
    assert mirrored.general == pytest.approx(exact.general)
    assert mirrored.symmetric == pytest.approx(exact.symmetric)


def test_scale_and_place_of_the_weights_do_not_matter():
    weights = drawn("skewed")
    for one, other in zip(
        sample_errors(weights, SHARES), sample_errors(7 + 3 * weights, SHARES), strict=True
    ):
        assert (one.general, one.symmetric) == pytest.approx((other.general, other.symmetric))


def test_refuses_what_has_no_error():
    for p in (0, 1, -0.1):
        with pytest.raises(ValueError, match=r"^A share of ones must be between 0 and 1, not "):
            gaussian_errors(p)
    for weights in ([1.0], [2.0, 2.0], [1.0, float("nan")]):
        with pytest.raises(ValueError, match=r"^Weights must be finite, and not all equal$"):
            sample_errors(weights, [0.5])


def test_latents_of_a_training_state_are_standardised_by_layer(tmp_path):
    path = tmp_path / "a.state.pt"
    generator = torch.Generator().manual_seed(0)
    model = {
        "conv1.weight": torch.randn(4, 3, 7, 7, generator=generator),  # real: it has no cut
        "a.conv.weight": 5 + 0.1 * torch.randn(50, 50, generator=generator),
        "a.conv.cut": torch.tensor(0.0),
        "b.conv.weight": -2 + 30 * torch.randn(60, 50, generator=generator),
        "b.conv.cut": torch.tensor(0.0),
    }
    torch.save({"format": "sbnn-hw training state", "model": model}, path)
    latents = read_latents(path)
    assert {name: len(w) for name, w in latents.items()} == {"a.conv": 2500, "b.conv": 3000}
    quantiles = pooled_quantiles(latents)
    assert len(quantiles) == 1001
    assert (np.diff(quantiles) >= 0).all()
    assert quantiles[500] == pytest.approx(0, abs=0.06)
    assert quantiles[841] == pytest.approx(1, abs=0.06)
    exact, (estimate,) = gaussian_errors(0.05), sample_errors(quantiles, [0.05])
    assert estimate.general == pytest.approx(exact.general, abs=0.02)


def test_refuses_states_without_latents(tmp_path):
    path = tmp_path / "a.state.pt"
    for model, message in (
        ({"conv1.weight": torch.ones(3)}, "has no sparse binary layers"),
        ({"a.weight": torch.ones(3), "a.cut": torch.tensor(0.0)}, "layer a has latent weights"),
    ):
        torch.save({"format": "sbnn-hw training state", "model": model}, path)
        with pytest.raises(ModelRejected, match=message):
            read_latents(path)
