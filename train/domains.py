"""Binary domains: the two values that a layer's weights may take, and where they come from.

A domain maps the signs w̄ ∈ {−1, +1} of latent weights to weights τ·w̄ + φ, which the hardware reads
as η·(w01 + ξ) with η = 2τ and ξ = (φ − τ)/(2τ). The domain `signed`, with weights η·{0, ±1}, is an
extension.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.signs import BinaryWeight, SignedWeight, sign

__all__ = [
    "DOMAINS",
    "INITS",
    "Affine",
    "Bnn",
    "ClosedForm",
    "Domain",
    "Learned",
    "LearnedOnGrid",
    "Signed",
    "Symmetric",
    "Zero",
    "closed_form",
    "make_domain",
]

#: Where a learned domain starts: τ = 1 and φ = 0 as the authors have it, the closed form of the
#: first weights, or ξ = −EC, where the weights of a layer sum to zero at the target sparsity.
INITS = ("unit", "closed_form", "balanced")


@dataclass(frozen=True)
class Affine:
    """A domain as the hardware reads it: weights η·(w01 + ξ), both exact."""

    eta: Fraction
    xi: Fraction


def closed_form(latent: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the τ and φ that minimise ‖latent − (τ·signs + φ)‖².

    Where ``signs`` is the sign of ``latent`` this is the paper's τ*, φ*; elsewhere (top-k) it is
    the least-squares optimum for the signs given.
    """
    w, s = latent.double(), signs.double()
    count = w.numel()
    m = s.sum() / count
    along, total = (s * w).sum(), w.sum()
    room = count * (1 - m * m)
    # All weights alike: m is −1 or +1. Chosen without a branch, for which a GPU would have to wait.
    alike = room <= 0.5
    tau = torch.where(alike, w.abs().sum() / count, (along - m * total) / room)
    phi = torch.where(alike, torch.zeros_like(total), (total - m * along) / room)
    return tau.to(latent.dtype), phi.to(latent.dtype)


class Domain(nn.Module):
    """What a layer's signs become. Subclasses say where τ and φ come from."""

    name: str
    signed = False

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        """Return the τ and φ that the forward pass uses."""
        raise NotImplementedError

    def weights(
        self, latent: Tensor, cut: Tensor, gradient: str = "identity", steepness: float = 1.0
    ) -> Tensor:
        """Map latent weights to those of the forward pass: τ·sign(latent − cut) + φ."""
        tau, phi = self.values(latent, cut)
        return BinaryWeight.apply(latent, cut, tau, phi, gradient, steepness)  # type: ignore[no-any-return,no-untyped-call]

    def exact(self) -> Affine:
        """Return η and ξ as the exact values of the stored numbers."""
        raise NotImplementedError

    def _affine(self, tau: float, phi: float) -> Affine:
        tau_, phi_ = _fraction(tau, "τ"), _fraction(phi, "φ")
        if tau_ == 0:
            raise ModelRejected("η is zero, so all its weights are equal; train it again")
        return Affine(eta=2 * tau_, xi=(phi_ - tau_) / (2 * tau_))


def _fraction(value: float, symbol: str) -> Fraction:
    if value != value or value in (float("inf"), float("-inf")):
        raise ModelRejected(f"{symbol} is {value}; train it again with a lower learning rate")
    return Fraction(value)


class Learned(Domain):
    """{α, β} with τ and φ learned by back-propagation."""

    name = "learned"

    def __init__(self) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.tensor(1.0))
        self.phi = nn.Parameter(torch.tensor(0.0))

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        return self.tau, self.phi

    def exact(self) -> Affine:
        return self._affine(self.tau.item(), self.phi.item())


class _RoundToGrid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        return torch.round(x * scale) / scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def round_to_grid(x: Tensor, bits: int) -> Tensor:
    """Round to multiples of 2^−bits; the gradient passes unchanged."""
    return _RoundToGrid.apply(x, float(2**bits))  # type: ignore[no-any-return,no-untyped-call]


class LearnedOnGrid(Domain):
    """{α, β} with η learned and ξ a learned multiple of 2^−bits."""

    name = "learned"

    def __init__(self, bits: int) -> None:
        if bits not in range(1, 17):
            raise ValueError(f"Bits of ξ must be between 1 and 16, not {bits!r}")
        super().__init__()
        self.bits = bits
        self.tau = nn.Parameter(torch.tensor(1.0))
        self.xi = nn.Parameter(torch.tensor(-0.5))

    @property
    def xi_integer(self) -> int:
        """Ξ, the numerator of ξ over 2^bits."""
        return int(torch.round(self.xi.detach() * 2**self.bits).item())

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        # 2τ·((w̄ + 1)/2 + ξ)
        return self.tau, self.tau * (1 + 2 * round_to_grid(self.xi, self.bits))

    def exact(self) -> Affine:
        _fraction(self.xi.item(), "ξ")
        xi = Fraction(self.xi_integer, 2**self.bits)
        return Affine(self._affine(self.tau.item(), 0.0).eta, xi)


class ClosedForm(Domain):
    """{α, β} of least quantisation error, recomputed in each training forward.

    What the last training forward used is kept in buffers; evaluation and the fold read those.
    No gradient flows through τ* and φ*, as in XNOR-Net's and IR-Net's scale factors.
    """

    name = "closed_form"

    tau: Tensor
    phi: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("tau", torch.tensor(1.0))
        self.register_buffer("phi", torch.tensor(0.0))

    @torch.no_grad()
    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        if self.training:
            tau, phi = closed_form(latent, sign(latent - cut))
            self.tau.copy_(tau)
            self.phi.copy_(phi)
        return self.tau.clone(), self.phi.clone()

    def exact(self) -> Affine:
        return self._affine(self.tau.item(), self.phi.item())


class Symmetric(Domain):
    """{−β, +β} with β learned: XNOR-Net's domain, ξ = −1/2."""

    name = "symmetric"

    def __init__(self) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.tensor(1.0))

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        return self.tau, torch.zeros_like(self.tau)

    def exact(self) -> Affine:
        return self._affine(self.tau.item(), 0.0)


class Bnn(Domain):
    """{−1, +1}: the standard binary network."""

    name = "bnn"

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones_like(cut), torch.zeros_like(cut)

    def exact(self) -> Affine:
        return Affine(eta=Fraction(2), xi=Fraction(-1, 2))


class Zero(Domain):
    """{0, β} with β = 2τ learned: ξ = 0, so that no sum over all inputs is needed."""

    name = "zero"

    def __init__(self) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.tensor(1.0))

    def values(self, latent: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
        return self.tau, self.tau

    def exact(self) -> Affine:
        return self._affine(self.tau.item(), self.tau.item())


class Signed(Domain):
    """η·{0, ±1}: taps of either polarity. An extension; not in the paper's domain.

    A weight is not zero where the magnitude of its latent is at or above the cut.
    """

    name = "signed"
    signed = True

    def __init__(self) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.tensor(1.0))

    def weights(
        self, latent: Tensor, cut: Tensor, gradient: str = "identity", steepness: float = 1.0
    ) -> Tensor:
        return SignedWeight.apply(latent, cut, self.tau, gradient, steepness)  # type: ignore[no-any-return,no-untyped-call]

    def exact(self) -> Affine:
        return self._affine(self.tau.item(), self.tau.item())


DOMAINS: dict[str, type[Domain]] = {
    domain.name: domain for domain in (Learned, ClosedForm, Symmetric, Bnn, Zero, Signed)
}


def make_domain(name: str, *, xi_bits: int | None = None) -> Domain:
    """Return a new domain by name; ``xi_bits`` puts the ξ of `learned` on a grid."""
    if name not in DOMAINS:
        raise ValueError(f"Domain must be one of {', '.join(DOMAINS)}, not {name!r}")
    if xi_bits is None:
        return DOMAINS[name]()
    if name != "learned":
        raise ValueError(f"A grid for ξ needs the domain learned, not {name!r}")
    return LearnedOnGrid(xi_bits)
