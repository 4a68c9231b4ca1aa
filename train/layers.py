"""Sparse binary layers for PyTorch: what the hardware will have is what the forward pass uses."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.domains import (
    Domain,
    Learned,
    LearnedOnGrid,
    closed_form,
    make_domain,
    round_to_grid,
)
from sbnn_hw.train.signs import ACTIVATION_GRADIENTS, GRADIENTS, SignOfActivation, count_ones, sign

__all__ = [
    "InputEncoder",
    "LearnedBits",
    "LearnedEncoder",
    "SignActivation",
    "SparseBinaryConv2d",
    "SparseBinaryLayer",
    "SparseBinaryLinear",
    "SparseBinaryScores",
    "pushed_apart",
]

#: Scales of the scores are within e to this power: floating point tells all of them apart.
LARGEST_LOG_SCALE = 64


class SparseBinaryLayer(nn.Module):
    """What linear and convolutional layers share: latent weights, a domain, a cut.

    The latent weights are real; a weight is one where its latent is at or above its neuron's
    ``cut`` (for signed taps: where its magnitude is), which top-k moves away from zero.
    """

    weight: nn.Parameter
    cut: Tensor

    def __init__(
        self, shape: tuple[int, ...], *, domain: str | Domain, xi_bits: int | None, gradient: str
    ) -> None:
        if gradient not in GRADIENTS:
            raise ValueError(f"Gradient must be one of {', '.join(GRADIENTS)}, not {gradient!r}")
        super().__init__()
        self.domain = make_domain(domain, xi_bits=xi_bits) if isinstance(domain, str) else domain
        self.gradient = gradient
        #: EDE's t, which the training loop raises from 0.1 to 10.
        self.steepness = 0.1
        self.weight = nn.Parameter(torch.empty(shape))
        with torch.no_grad():
            bound = self.weight[0].numel() ** -0.5
            self.weight.uniform_(-bound, bound)
        self.register_buffer("cut", torch.zeros(shape[0], *[1] * (len(shape) - 1)))

    @property
    def fan_in(self) -> int:
        """N, the number of inputs that a neuron could be wired to."""
        return self.weight[0].numel()

    @torch.no_grad()
    def signs(self) -> Tensor:
        """Binary weights in {−1, +1}; with signed taps in {−1, 0, +1}."""
        if not self.domain.signed:
            return sign(self.weight - self.cut)
        return sign(self.weight) * (self.weight.abs() >= self.cut)

    def binary_weight(self) -> Tensor:
        """Weights that the forward pass uses."""
        return self.domain.weights(self.weight, self.cut, self.gradient, self.steepness)

    def ones(self) -> Tensor:
        """Count the connections (weights of value one), with the gradient of the sparsity loss."""
        if self.domain.signed:
            return (self.weight.detach().abs() >= self.cut).sum().double()
        return count_ones(self.weight, self.cut)

    @torch.no_grad()
    def initialise_domain(self, init: str, *, ones_share: float) -> None:
        """Set τ and φ (or ξ) of a learned domain to where training starts."""
        domain = self.domain
        if not isinstance(domain, Learned | LearnedOnGrid) or init == "unit":
            return
        if init == "closed_form":
            tau, phi = closed_form(self.weight, sign(self.weight - self.cut))
            xi = (phi - tau) / (2 * tau)
        elif init == "balanced":
            tau, xi = domain.tau.clone(), torch.full_like(domain.tau, -ones_share)
            phi = tau + 2 * tau * xi
        else:
            raise ValueError(f"Init must be unit, closed_form or balanced, not {init!r}")
        domain.tau.copy_(tau)
        if isinstance(domain, Learned):
            domain.phi.copy_(phi)
        else:
            domain.xi.copy_(xi)


class SparseBinaryLinear(SparseBinaryLayer):
    """Linear layer with two-valued weights and no bias.

    Parameters
    ----------
    in_features, out_features : int
        Bits that come in, and neurons.
    domain : str
        The two values of a weight: ``learned``, ``closed_form``, ``symmetric``, ``bnn``, ``zero``;
        or ``signed``, an extension with the weights −1, 0 and +1.
    xi_bits : int, optional
        With ``learned``, round ξ to multiples of 2^−``xi_bits``, which keeps hardware small.
    gradient : str
        The gradient of the weights' sign: ``clipped``, ``ede`` or ``identity``.

    Examples
    --------
    >>> layer = SparseBinaryLinear(784, 256, domain="learned", xi_bits=8)
    >>> layer(torch.ones(4, 784)).shape
    torch.Size([4, 256])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        domain: str | Domain = "learned",
        xi_bits: int | None = None,
        gradient: str = "clipped",
    ) -> None:
        super().__init__(
            (out_features, in_features), domain=domain, xi_bits=xi_bits, gradient=gradient
        )
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: Tensor) -> Tensor:  # (batch, in) -> (batch, out)
        return F.linear(x, self.binary_weight())

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, domain={self.domain.name}"


class SparseBinaryConv2d(SparseBinaryLayer):
    """Convolution with two-valued weights and no bias.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels that come in, and neurons.
    kernel_size, stride : int or pair of int
        The window's height and width, and its steps.
    padding : int or pair of int
        Rows and columns that are added on each side.
    padding_value : int
        −1 is the bit 0, and border windows need nothing special in hardware; 0 is what PyTorch and
        the paper do, and gives border windows thresholds of their own.
    groups : int
        Groups of channels that are not connected with each other.
    domain : str
        The two values of a weight: ``learned``, ``closed_form``, ``symmetric``, ``bnn``, ``zero``;
        or ``signed``, an extension with the weights −1, 0 and +1.
    xi_bits : int, optional
        With ``learned``, round ξ to multiples of 2^−``xi_bits``, which keeps hardware small.
    gradient : str
        The gradient of the weights' sign: ``clipped``, ``ede`` or ``identity``.

    Examples
    --------
    >>> layer = SparseBinaryConv2d(3, 8, 3, padding=1, domain="signed")
    >>> layer(torch.ones(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        padding_value: Literal[-1, 0] = -1,
        groups: int = 1,
        domain: str | Domain = "learned",
        xi_bits: int | None = None,
        gradient: str = "clipped",
    ) -> None:
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"Channels must be multiples of the {groups} groups, "
                f"not {in_channels} and {out_channels}"
            )
        if padding_value not in (-1, 0):
            raise ValueError(f"Padding value must be -1 or 0, not {padding_value!r}")
        kernel = _pair(kernel_size)
        super().__init__(
            (out_channels, in_channels // groups, *kernel),
            domain=domain,
            xi_bits=xi_bits,
            gradient=gradient,
        )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel, _pair(stride), _pair(padding)
        self.padding_value, self.groups = padding_value, groups

    def forward(self, x: Tensor) -> Tensor:  # (batch, in, height, width) -> (batch, out, …)
        rows, columns = self.padding
        padding: tuple[int, int] = self.padding
        if self.padding_value == -1 and (rows or columns):
            x = F.pad(x, (columns, columns, rows, rows), value=-1.0)
            padding = (0, 0)
        return F.conv2d(
            x, self.binary_weight(), stride=self.stride, padding=padding, groups=self.groups
        )

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, padding_value={self.padding_value}, "
            f"groups={self.groups}, domain={self.domain.name}"
        )


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class SparseBinaryScores(SparseBinaryLinear):
    """The last layer: class scores with one scale for all classes and an offset a class.

    The offsets are multiples of 2^−``offset_bits`` in units of |η|, so that the scores of the
    hardware are small integers. The scale is positive and common, so it never reaches hardware.

    Parameters
    ----------
    in_features, classes : int
        Bits that come in, and classes.
    domain : str
        The two values of a weight: ``learned``, ``closed_form``, ``symmetric``, ``bnn``, ``zero``;
        or ``signed``, an extension with the weights −1, 0 and +1.
    xi_bits : int, optional
        With ``learned``, round ξ to multiples of 2^−``xi_bits``, which keeps hardware small.
    gradient : str
        The gradient of the weights' sign: ``clipped``, ``ede`` or ``identity``.
    offset_bits : int
        Fraction bits of the offsets.
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        domain: str | Domain = "learned",
        xi_bits: int | None = None,
        gradient: str = "clipped",
        offset_bits: int = 4,
    ) -> None:
        super().__init__(in_features, classes, domain=domain, xi_bits=xi_bits, gradient=gradient)
        self.offset_bits = offset_bits
        self.offset = nn.Parameter(torch.zeros(classes))
        self.log_scale = nn.Parameter(torch.tensor(-0.5 * math.log(in_features)))

    def check_scale(self) -> None:
        """Refuse a scale with which floating point cannot tell the classes apart."""
        value = self.log_scale.item()
        if not abs(value) <= LARGEST_LOG_SCALE:
            raise ModelRejected(
                f"its log_scale must be between −{LARGEST_LOG_SCALE} and {LARGEST_LOG_SCALE}, not "
                f"{value:g}; train it again with a lower learning rate"
            )

    def rounded_offset(self) -> Tensor:
        """Offsets on their grid, in units of |η|."""
        return round_to_grid(self.offset, self.offset_bits)

    def forward(self, x: Tensor) -> Tensor:  # (batch, in) -> (batch, classes)
        scores = F.linear(x, self.binary_weight())
        # Behind the weights: the closed form recomputes τ while it makes them.
        tau = getattr(self.domain, "tau", None)
        eta = 2.0 if tau is None else 2.0 * tau.abs()
        return (scores + eta * self.rounded_offset()) * self.log_scale.exp()


class SignActivation(nn.Module):
    """Sign with sign(0) = +1.

    Parameters
    ----------
    gradient : str
        What stands in for the gradient: ``clipped`` (hardtanh's), ``ede`` or ``polynomial``.
    within_one : bool
        Pass no gradient back where |x| > 1, as if a hardtanh came before.

    Examples
    --------
    >>> SignActivation()(torch.tensor([-0.5, 0.0, 2.0]))
    tensor([-1.,  1.,  1.])
    """

    def __init__(self, gradient: str = "clipped", *, within_one: bool = False) -> None:
        if gradient not in ACTIVATION_GRADIENTS:
            raise ValueError(
                f"Gradient must be one of {', '.join(ACTIVATION_GRADIENTS)}, not {gradient!r}"
            )
        super().__init__()
        self.gradient, self.within_one = gradient, within_one
        #: EDE's t, which the training loop raises from 0.1 to 10.
        self.steepness = 0.1

    def forward(self, x: Tensor) -> Tensor:
        return SignOfActivation.apply(x, self.gradient, self.steepness, self.within_one)  # type: ignore[no-any-return,no-untyped-call]

    def extra_repr(self) -> str:
        return self.gradient


class InputEncoder(nn.Module):
    """Turn raw pixels (0 to 255) into what the first layer sees; it is part of the hardware.

    Parameters
    ----------
    kind : str
        ``threshold`` gives one bit a pixel, +1 from the threshold on; ``thermometer`` one bit for
        each threshold, channel by channel; ``integer`` the pixel p itself as (2p − 255)/255.
    thresholds : sequence of int
        The pixel values from which a bit is set: increasing, between 1 and 255.
    most : int
        The largest value, where the input is no pixel of 8 bits.

    Examples
    --------
    >>> InputEncoder("thermometer", [64, 192])(torch.tensor([[[[10, 100, 200]]]])).tolist()
    [[[[-1.0, 1.0, 1.0]], [[-1.0, -1.0, 1.0]]]]
    """

    def __init__(
        self, kind: str = "threshold", thresholds: Sequence[int] = (128,), *, most: int = 255
    ) -> None:
        kinds = ("threshold", "thermometer", "integer")
        if kind not in kinds:
            raise ValueError(f"Encoder must be one of {', '.join(kinds)}, not {kind!r}")
        thresholds = tuple(thresholds) if kind != "integer" else ()
        if kind == "threshold" and len(thresholds) != 1:
            raise ValueError(f"A threshold encoder has one threshold, not {len(thresholds)}")
        if kind != "integer" and not (
            thresholds == tuple(sorted(set(thresholds)))
            and thresholds
            and thresholds[0] >= 1
            and thresholds[-1] <= most
        ):
            raise ValueError(
                f"Thresholds must increase and lie between 1 and {most}, not {thresholds!r}"
            )
        super().__init__()
        self.kind, self.most, self._thresholds = kind, most, thresholds

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Pixel values from which a bit is set."""
        return self._thresholds

    def table(self, channels: int) -> list[list[int]]:
        """The thresholds of each channel."""
        return [list(self.thresholds)] * channels

    @property
    def planes(self) -> int:
        """Number of outputs for each input channel."""
        return max(1, len(self.thresholds))

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, …) -> (batch, channels·planes, …)
        if not x.is_floating_point():
            x = x.to(torch.get_default_dtype())
        if self.kind == "integer":
            return (2 * x - self.most) / self.most
        # Halfway below the threshold, so that no integer pixel meets zero.
        levels = torch.tensor(self.thresholds, dtype=x.dtype, device=x.device) - 0.5
        bits = sign(x.unsqueeze(2) - levels.view(1, 1, -1, *[1] * (x.dim() - 2)))
        return bits.flatten(1, 2)

    def extra_repr(self) -> str:
        return f"{self.kind}, thresholds={self.thresholds}"


class LearnedEncoder(InputEncoder):
    """A thermometer whose thresholds are learned, the same for all pixels of all channels.

    They are kept in units of the whole range, so that a step of the optimiser moves them by some
    pixel values. The forward pass rounds them, so it uses what the hardware compares with.

    Parameters
    ----------
    thresholds : sequence of int
        Where they begin.
    most : int
        The largest value of the input.
    """

    def __init__(self, thresholds: Sequence[int] = (64, 128, 192), *, most: int = 255) -> None:
        super().__init__("thermometer", thresholds, most=most)
        self.levels = nn.Parameter(torch.tensor(self._thresholds) / most)

    @property
    def planes(self) -> int:
        """Number of outputs for each input channel."""
        return len(self.levels)

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The levels as integers, in order; those that met are pushed apart by one."""
        levels = (self.levels.detach() * self.most).round().int().tolist()
        return tuple(pushed_apart(levels, self.most))

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            x = x.to(torch.get_default_dtype())
        return LearnedBits.apply(x, self.levels, self.thresholds, self.most).flatten(1, 2)  # type: ignore[no-any-return,no-untyped-call]


def pushed_apart(levels: Sequence[int], most: int) -> list[int]:
    """Return levels in order, between 1 and ``most``; those that met are pushed apart by one.

    Examples
    --------
    >>> pushed_apart([7, 3, 3, 9], 8)
    [3, 4, 7, 8]
    """
    found: list[int] = []
    for level in sorted(levels):
        found.append(max(1, level, *(one + 1 for one in found[-1:])))
    for number in range(1, len(found) + 1):
        found[-number] = min(found[-number], most + 1 - number)
    return found


class LearnedBits(torch.autograd.Function):
    """One bit a threshold; a threshold feels the values that are near it.

    Thresholds are the same for all channels, or a row for each.
    """

    #: How near, where values go up to 255.
    NEAR = 48.0

    @staticmethod
    def forward(ctx: Any, x: Tensor, levels: Tensor, thresholds: Any, most: int) -> Tensor:
        moved = torch.tensor(thresholds, dtype=x.dtype, device=x.device) - 0.5
        shape = (1, *moved.shape[:-1], moved.shape[-1]) if moved.dim() > 1 else (1, 1, len(moved))
        above = x.unsqueeze(2) - moved.view(*shape, *[1] * (x.dim() - 2))
        ctx.save_for_backward(above, levels)
        ctx.most = most
        return sign(above)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None]:
        above, levels = ctx.saved_tensors
        # The slope of a ramp from −1 to +1, in units of the whole range.
        near = LearnedBits.NEAR * ctx.most / 255
        felt = torch.ops.aten.hardtanh_backward(grad, above, -near, near)
        summed = felt.sum([0, *([1] if levels.dim() == 1 else []), *range(3, grad.dim())])
        order = levels.argsort(-1).argsort(-1)
        return None, (summed * (-ctx.most / near)).gather(-1, order), None, None
