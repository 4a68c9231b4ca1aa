"""Each domain gives the weights of its definition; the closed form is the least-squares optimum."""

from fractions import Fraction

import pytest
import torch

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.domains import DOMAINS, closed_form, make_domain
from sbnn_hw.train.layers import SparseBinaryLinear
from sbnn_hw.train.signs import sign


@pytest.mark.parametrize("p", [0.01, 0.05, 0.3, 0.5, 0.8, 0.99])
def test_closed_form_is_the_minimum(p):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(20_000, generator=generator, dtype=torch.float64)
    w = w - w.quantile(1 - p)
    signs = sign(w)
    tau, phi = closed_form(w, signs)

    def error(t, f):
        return (w - (t * signs + f)).square().sum()

    t, f = tau.clone().requires_grad_(), phi.clone().requires_grad_()
    error(t, f).backward()
    assert abs(t.grad.item()) < 1e-7
    assert abs(f.grad.item()) < 1e-7
    least = error(tau, phi)
    for scale in (1e-4, 1e-2, 1.0):
        moves = scale * torch.randn(1000, 2, generator=generator, dtype=torch.float64)
        assert all(error(tau + a, phi + b) >= least for a, b in moves)
    # The paper's formula, with the share of +1.
    m = 2 * (signs > 0).double().mean() - 1
    room = len(w) * (1 - m**2)
    assert tau.item() == pytest.approx(((w.abs().sum() - m * w.sum()) / room).item())
    assert phi.item() == pytest.approx(((w.sum() - m * w.abs().sum()) / room).item())


def test_closed_form_is_xnor_nets_scale_at_equal_shares():
    w = torch.tensor([-3.0, -1.0, 1.0, 3.0])
    tau, phi = closed_form(w, sign(w))
    assert (tau.item(), phi.item()) == (2.0, 0.0)


def test_closed_form_follows_the_signs_that_are_given():
    """With top-k the signs are not those of the latents; the optimum is theirs."""
    w = torch.tensor([0.1, 0.2, 0.3, 0.8], dtype=torch.float64)
    signs = torch.tensor([-1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    tau, phi = closed_form(w, signs)
    assert (phi - tau).item() == pytest.approx(0.2)
    assert (phi + tau).item() == pytest.approx(0.8)


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_closed_form_of_equal_signs(value):
    w = torch.full((5,), value)
    tau, phi = closed_form(w, sign(w))
    assert (tau.item(), phi.item()) == (2.0, 0.0)


def values_of(domain):
    signs = torch.tensor([-1.0, 1.0])
    return domain.weights(signs, torch.tensor(0.0)).detach().tolist()


def test_domains_take_their_values():
    assert values_of(make_domain("bnn")) == [-1, 1]
    symmetric = make_domain("symmetric")
    symmetric.tau.data.fill_(0.75)
    assert values_of(symmetric) == [-0.75, 0.75]
    zero = make_domain("zero")
    zero.tau.data.fill_(0.75)
    assert values_of(zero) == [0, 1.5]
    learned = make_domain("learned")
    assert values_of(learned) == [-1, 1]
    learned.tau.data.fill_(0.5)
    learned.phi.data.fill_(0.25)
    assert values_of(learned) == [-0.25, 0.75]
    signed = make_domain("signed")
    weights = signed.weights(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor(0.5))
    assert weights.tolist() == [-2, 0, 2]


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_exact_reading_is_what_the_forward_uses(name):
    """η·(w01 + ξ) equals the forward's weights for values that floats hold exactly."""
    domain = make_domain(name).eval()
    for parameter, value in (("tau", 0.75), ("phi", -0.5)):
        if hasattr(domain, parameter):
            getattr(domain, parameter).data.fill_(value)
    exact = domain.exact()
    low, high = values_of(domain)
    if domain.signed:
        assert (exact.eta, exact.xi) == (Fraction(high), 0)
    else:
        assert (exact.eta * exact.xi, exact.eta * (1 + exact.xi)) == (Fraction(low), Fraction(high))


def test_xi_lies_on_its_grid_and_learns_through_the_rounding():
    domain = make_domain("learned", xi_bits=4)
    domain.xi.data.fill_(-0.17)
    assert domain.xi_integer == -3
    assert domain.exact().xi == Fraction(-3, 16)
    low, high = values_of(domain)
    assert (low, high) == (2 * -3 / 16, 2 * (1 - 3 / 16))
    domain.weights(torch.tensor([-1.0, 1.0]), torch.tensor(0.0)).sum().backward()
    assert domain.xi.grad.item() == 4


def test_closed_form_is_recomputed_in_training_and_kept_for_evaluation():
    layer = SparseBinaryLinear(4, 2, domain="closed_form")
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -1, -1, -1], [3, -1, -1, -1]]))
    layer.train()(torch.ones(1, 4))
    assert (layer.domain.tau.item(), layer.domain.phi.item()) == (1.5, 0.5)
    with torch.no_grad():
        layer.weight.mul_(10)
    layer.eval()(torch.ones(1, 4))
    assert (layer.domain.tau.item(), layer.domain.phi.item()) == (1.5, 0.5)


@pytest.mark.parametrize(("init", "xi"), [("unit", -0.5), ("balanced", -0.05)])
@pytest.mark.parametrize("xi_bits", [None, 8])
def test_inits(init, xi, xi_bits):
    layer = SparseBinaryLinear(64, 8, xi_bits=xi_bits)
    layer.initialise_domain(init, ones_share=0.05)
    assert float(layer.domain.exact().xi) == pytest.approx(xi, abs=2**-9)


def test_init_from_the_closed_form():
    layer = SparseBinaryLinear(64, 8)
    layer.initialise_domain("closed_form", ones_share=0.05)
    tau, phi = closed_form(layer.weight.detach(), sign(layer.weight.detach()))
    assert (layer.domain.tau.item(), layer.domain.phi.item()) == (tau.item(), phi.item())


def test_refuses_what_is_not_a_domain():
    with pytest.raises(ValueError, match=r"^Domain must be one of learned, closed_form, symmetric"):
        make_domain("ternary")
    with pytest.raises(ValueError, match=r"^A grid for ξ needs the domain learned, not 'bnn'$"):
        make_domain("bnn", xi_bits=4)
    domain = make_domain("symmetric")
    domain.tau.data.fill_(0.0)
    with pytest.raises(ModelRejected, match=r"^η is zero, so all its weights are equal"):
        domain.exact()
