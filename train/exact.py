"""Exact integer arithmetic in torch: what a network with integer streams is in evaluation.

Integers are held in float64, where sums and products below 2^53 are exact in any order. The
integers of a layer (multipliers, offsets, shifts, thresholds) are computed once, by :func:`settle`,
and stored in buffers; evaluation reads them and never computes them again. :func:`check` refuses a
network in which any value could reach 2^53.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected, naming

__all__ = [
    "Exact",
    "StreamAffine",
    "Values",
    "check",
    "convolve",
    "few_digits",
    "follow",
    "has_integers",
    "multiplies_exactly",
    "real_valued",
    "settle",
    "stay_real",
]

#: Integers up to here are exact in float64.
LIMIT = 1 << 53
#: Bits of the largest multiplier of a layer.
MULTIPLIER_BITS = 10
#: The largest shift: what needs a larger one has no integer scale.
LARGEST_SHIFT = 40
#: Slopes below zero are multiples of 2^−SLOPE_BITS.
SLOPE_BITS = 8
#: Bytes that the windows of some images may take at a time: few stay in the cache.
_ROOM = 1 << 21


class Exact(nn.Module):
    """A module that computes with integers in evaluation, unless :func:`real_valued` says not."""

    exact = True
    #: Whether errors name a part of it.
    is_block = False

    @property
    def in_integers(self) -> bool:
        """Whether the module computes with integers now."""
        return self.exact and not self.training


@contextmanager
def real_valued(model: nn.Module) -> Iterator[None]:
    """Let a model evaluate with real values, rounded as in training."""
    modules = [m for m in model.modules() if isinstance(m, Exact) and m.exact]
    stay_real(model)
    try:
        yield
    finally:
        for module in modules:
            module.exact = True


def stay_real(model: nn.Module) -> None:
    """Let a model evaluate with real values from now on."""
    for module in model.modules():
        if isinstance(module, Exact):
            module.exact = False


def has_integers(model: nn.Module) -> bool:
    """Tell whether a model has streams of integers."""
    return any(isinstance(module, StreamAffine) for module in model.modules())


@dataclass(frozen=True)
class Values:
    """Integers on their way through a network, and what they stand for.

    An integer v of a channel stands for gain·v + offset, and |v| ≤ most. The three have a number
    for each channel, or one for all. ``fraction`` is f where the gain is 2^−f and the offset zero.
    ``centre`` are the integers around which v lies, where that is known: a gain that is rounded
    should change least there.
    """

    gain: Tensor
    offset: Tensor
    most: Tensor
    fraction: int | None = None
    centre: Tensor | None = None

    @classmethod
    def stream(cls, fraction: int, most: int) -> "Values":
        """Return integers r that stand for r·2^−fraction."""
        one = torch.ones((), dtype=torch.float64)
        return cls(one * 2.0**-fraction, one * 0, one * most, fraction)

    @classmethod
    def signs(cls) -> "Values":
        """Return −1 and +1."""
        return cls.stream(0, 1)

    def to(self, device: torch.device) -> "Values":
        """Return the same on a device."""
        gain, offset, most = (x.to(device) for x in (self.gain, self.offset, self.most))
        centre = None if self.centre is None else self.centre.to(device)
        return Values(gain, offset, most, self.fraction, centre)

    def summed(self, log2: int) -> "Values":
        """Return the sums of 2^log2 values, which stand for their mean."""
        assert self.fraction is not None
        return Values.stream(self.fraction + log2, int(self.most.max()) << log2)

    def checked(self, what: str) -> "Values":
        """Refuse values that are not exact."""
        most = float(self.most.max())
        if not most < LIMIT:
            raise ModelRejected(
                f"{what} can reach {most:.3g}, but only integers below 2^53 are exact; use fewer "
                f"bits for ξ, weights or streams"
            )
        return self


def follow(
    module: nn.Module, values: Values, *, settling: bool, name: str = "", **more: Any
) -> Values:
    """Follow integers through a module, and return what comes out of it.

    Refuses what can reach 2^53. With ``settling``, the integers of all layers are computed on the
    way. ``name`` is what errors call the module, and ``more`` what else comes into it.
    """
    if isinstance(module, nn.Sequential):
        with naming(f"{name}." if name else ""):
            for child, part in module.named_children():
                values = follow(part, values, settling=settling, name=child)
        return values
    if isinstance(module, nn.Identity | nn.MaxPool2d | nn.Flatten):
        return values  # the integers stay as they are, or some of them
    if not isinstance(module, Exact):
        raise ModelRejected(f"{name} is a {type(module).__name__}, which has no integers")
    # Where its integers are; numbers for all channels begin on the CPU.
    held = next((x for x in (*module.parameters(), *module.buffers())), values.gain)
    values = values.to(held.device)
    with naming(f"{name}." if module.is_block else f"{name}: "):
        return module.follow(values, settling=settling, **more)  # type: ignore[no-any-return,operator]


@torch.no_grad()
def settle(model: nn.Module) -> None:
    """Compute the integers of all layers from their real values."""
    with naming("Layer "):
        follow(model, Values.stream(0, 255), settling=True)


@torch.no_grad()
def check(model: nn.Module) -> None:
    """Refuse integers that are not there, or that make a value reach 2^53."""
    with naming("layer "):
        follow(model, Values.stream(0, 255), settling=False)


def convolve(
    x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]
) -> Tensor:
    """Convolve integers exactly, as a product of matrices; the sums are in float64.

    Other algorithms for convolutions (Winograd's, by Fourier transforms) compute with fractions.
    """
    rows, columns = weight.shape[2:]
    dtype = _exact_type(x, weight)
    matrix = weight.to(dtype).flatten(1)
    height = (x.shape[2] + 2 * padding[0] - rows) // stride[0] + 1
    width = (x.shape[3] + 2 * padding[1] - columns) // stride[1] + 1
    made = x.new_empty((len(x), len(weight), height, width), dtype=torch.float64)
    each = matrix.shape[1] * height * width * matrix.element_size()
    few = max(1, _ROOM // max(1, each))
    around = (padding[1], padding[1], padding[0], padding[0])
    for images, out in zip(torch.split(x, few), torch.split(made, few), strict=True):
        # One product for some images together, since maps may be small.
        maps = F.pad(images.to(dtype).transpose(0, 1), around)
        windows = maps.unfold(2, rows, stride[0]).unfold(3, columns, stride[1])
        seen = windows.permute(0, 4, 5, 1, 2, 3).reshape(matrix.shape[1], -1)
        out.copy_((matrix @ seen).view(-1, len(images), height, width).transpose(0, 1))
    return made


def _exact_type(x: Tensor, weight: Tensor) -> torch.dtype:
    """Return the fastest type in which every sum of products is exact, whatever its order.

    float32 has the integers up to 2^24, if nothing makes torch multiply with fewer bits.
    """
    if torch.is_autocast_enabled(x.device.type) or not x.numel() or not multiplies_exactly(x):
        return torch.float64
    low, high = torch.aminmax(x)
    largest = torch.maximum(-low, high) * weight.double().abs().flatten(1).sum(1).max()
    return torch.float32 if float(largest) < 1 << 24 else torch.float64


def multiplies_exactly(x: Tensor) -> bool:
    """Tell whether products of float32 matrices keep all 24 bits, by a product that needs them.

    Settings of torch, and variables that its libraries read, can make them faster and inexact.
    """
    # Odd numbers of 12 bits, in matrices that are large enough for any fast way.
    left = (4095 - 2 * torch.arange(128.0, device=x.device)).expand(64, 128)
    right = torch.zeros((128, 64), dtype=torch.float32, device=x.device)
    right[5, :], right[77, :] = 4095.0, 1.0
    wanted = float(left[0, 5]) * 4095 + float(left[0, 77])
    return bool((left @ right == wanted).all())


def whole(values: Tensor, what: str) -> Tensor:
    """Return real numbers as the nearest integers, or refuse those that are none."""
    if not bool(torch.isfinite(values).all()):
        raise ModelRejected(f"{what} is not finite; train it again with a lower learning rate")
    rounded = values.round()
    if not bool((rounded.abs() < LIMIT).all()):
        raise ModelRejected(
            f"{what} is {float(rounded.abs().max()):.3g}, but only integers below 2^53 are exact"
        )
    return rounded.to(torch.int64)


def few_digits(values: Tensor, digits: int) -> Tensor:
    """Return integers near the given ones that are sums of few powers of two, of either sign.

    Each power is the one nearest to what is still missing.

    Examples
    --------
    >>> few_digits(torch.tensor([0, 5, 7, 11, -100]), 1).tolist()
    [0, 4, 8, 8, -128]
    >>> few_digits(torch.tensor([0, 5, 7, 11, -100]), 2).tolist()
    [0, 5, 7, 12, -96]
    """
    left, found = values.double(), torch.zeros_like(values, dtype=torch.float64)
    for _ in range(digits):
        # Between 2^n and 2^(n+1) the border is 1.5·2^n, which belongs to the upper one.
        power = torch.exp2(torch.floor(torch.log2(left.abs().clamp_min(1) / 1.5)) + 1)
        power = power * left.sign()
        found, left = found + power, left - power
    return found.to(torch.int64)


@dataclass(frozen=True)
class Slope:
    """RPReLU's numbers, one a channel: what is added before, the slope below zero, and behind."""

    before: Tensor
    slope: Tensor
    behind: Tensor

    def part(self, number: int, parts: int) -> "Slope":
        """Return the numbers of one of several equal parts of the channels."""
        return Slope(*(x.chunk(parts)[number] for x in (self.before, self.slope, self.behind)))


class StreamAffine(Exact):
    """Sums, and a shortcut that joins them, become integers of a stream.

    t = multiplier·V + offset + r·2^second. With a slope, u = t·2^slope_bits where t ≥ 0 and
    t·below elsewhere, and u + behind takes the place of t. Then the result is ⌊t/2^shift⌋, clamped
    to the integers of the stream. All are stored integers; V are the sums and r the shortcut's.
    ``shift`` includes ``slope_bits``. With ``digits`` each multiplier is a sum of at most so many
    powers of two: that many adders multiply by it.
    """

    multiplier: Tensor
    offset: Tensor
    shift: Tensor
    second: Tensor
    below: Tensor
    slope_bits: Tensor
    behind: Tensor

    def __init__(self, channels: int, bits: int, *, slope: bool = False, digits: int = 0) -> None:
        super().__init__()
        self.channels, self.bits, self.slope, self.digits = channels, bits, slope, digits
        zeros = torch.zeros(channels, dtype=torch.int64)
        self.register_buffer("multiplier", zeros.clone())
        self.register_buffer("offset", zeros.clone())
        self.register_buffer("shift", torch.tensor(-1))
        self.register_buffer("second", torch.tensor(0))
        if slope:
            self.register_buffer("below", zeros.clone())
            self.register_buffer("slope_bits", torch.tensor(0))
            self.register_buffer("behind", zeros.clone())
        #: How many values were clamped, and how many there were; None does not count them.
        self.clamped: tuple[int, int] | None = None

    @property
    def low(self) -> int:
        """The least integer of the stream."""
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest integer of the stream."""
        return (1 << (self.bits - 1)) - 1

    def forward(self, sums: Tensor, shortcut: Tensor | None = None) -> Tensor:
        if int(self.shift) < 0:
            raise ModelRejected("The integers of the network have not been computed yet")
        shape = (1, -1, *[1] * (sums.dim() - 2))
        t = sums * self.multiplier.double().view(shape) + self.offset.double().view(shape)
        if shortcut is not None:
            t = t + shortcut * 2.0 ** int(self.second)
        if self.slope:
            steep = 2.0 ** int(self.slope_bits)
            below = self.below.double().view(shape)
            t = torch.where(t >= 0, t * steep, t * below) + self.behind.double().view(shape)
        # Division by a power of two is exact.
        t = torch.floor(t * 2.0 ** -int(self.shift))
        if self.clamped is not None:
            outside = int(((t < self.low) | (t > self.high)).sum())
            self.clamped = (self.clamped[0] + outside, self.clamped[1] + t.numel())
        return t.clamp(self.low, self.high)

    def settle(
        self,
        sums: Values,
        fraction: int,
        shortcut: Values | None = None,
        slope: Slope | None = None,
    ) -> Tensor:
        """Compute the integers for sums of given meaning, into a stream of a fraction.

        Returns what each multiplier is, as a share of what it should be.
        """
        moves = 0 if shortcut is None else _fraction(shortcut) - fraction
        # Sums that are always zero have no scale.
        gain = torch.where(sums.most == 0, 0.0, sums.gain).expand(self.channels)
        gain = gain * 2.0**fraction
        largest = float(gain.abs().max())
        if not math.isfinite(largest):
            raise ModelRejected(
                "its scale is not finite; train it again with a lower learning rate"
            )
        shift = max(0, moves)
        if largest:
            shift = max(shift, MULTIPLIER_BITS - math.frexp(largest)[1])
        if shift > LARGEST_SHIFT or largest >= 1 << 31:
            raise ModelRejected(
                f"its scale of {largest * 2.0**-fraction:.3g} cannot be represented by integers of "
                f"{MULTIPLIER_BITS} bits and a shift of at most {LARGEST_SHIFT}; train it again, "
                f"or with other bits for streams"
            )
        offset = sums.offset + (0.0 if slope is None else slope.before)
        offset = (offset * 2.0 ** (fraction + shift)).expand(self.channels)
        wanted = gain * 2.0**shift
        multiplier = whole(wanted, "its multiplier")
        self.multiplier.copy_(few_digits(multiplier, self.digits) if self.digits else multiplier)
        if sums.centre is not None:
            offset = offset + (wanted - self.multiplier) * sums.centre
        half = 0 if slope is not None or not shift else 1 << (shift - 1)
        self.offset.copy_(whole(offset, "its offset") + half)
        self.second.fill_(shift - moves if shortcut is not None else 0)
        if slope is not None:
            self.slope_bits.fill_(SLOPE_BITS)
            self.below.copy_(whole(slope.slope * 2.0**SLOPE_BITS, "its slope"))
            shift += SLOPE_BITS
            behind = whole(slope.behind * 2.0 ** (fraction + shift), "what it adds")
            self.behind.copy_(behind + (1 << (shift - 1)))
        self.shift.fill_(shift)
        # One that is zero must be able to grow again.
        return torch.where(self.multiplier == 0, 1.0, self.multiplier / wanted)

    def reach(self, sums: Values, shortcut: Values | None = None) -> None:
        """Refuse integers that were not computed, or that make a value reach 2^53."""
        numbers = [self.shift, self.second, *([self.slope_bits] if self.slope else [])]
        shift, second, *slope_bits = (int(number) for number in numbers)
        if shift == -1:
            raise ModelRejected("its integers have not been computed; use `sbnn-hw quantise`")
        if (
            not 0 <= shift <= 62
            or not 0 <= second <= 62
            or not all(0 <= h <= 8 for h in slope_bits)
        ):
            raise ModelRejected(f"its shifts must be between 0 and 62, not {shift} and {second}")
        # In floats: what is near the limit is refused as well.
        t = self.multiplier.double().abs() * sums.most + self.offset.double().abs()
        if shortcut is not None:
            t = t + shortcut.most * 2.0**second
        if self.slope:
            steep = self.below.double().abs().clamp_min(2.0 ** slope_bits[0])
            t = t * steep + self.behind.double().abs()
        replace(sums, most=t).checked("a sum in its scaling")

    def extra_repr(self) -> str:
        return f"{self.channels}, {self.bits} bits"


def _fraction(values: Values) -> int:
    assert values.fraction is not None
    return values.fraction
