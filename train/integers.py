"""Layers of residual networks whose streams are integers.

In training they compute with real values that are rounded to what the integers will say. In
evaluation they *are* integers (:mod:`sbnn_hw.train.exact`).
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.exact import (
    Exact,
    Slope,
    StreamAffine,
    Values,
    convolve,
    whole,
)
from sbnn_hw.train.layers import SparseBinaryConv2d
from sbnn_hw.train.norm import BatchNorm
from sbnn_hw.train.signs import sign
from sbnn_hw.train.streams import Stream, rounded_weights, weight_scale

__all__ = [
    "ClassNorm",
    "IntegerConv2d",
    "IntegerLinear",
    "MeanOfFour",
    "MeanOfMap",
    "PixelConv2d",
    "Repeat",
    "SignNorm",
    "StreamNorm",
    "SumConv2d",
    "exact_norm",
]


class IntegerConv2d(nn.Conv2d, Exact):
    """A convolution with integer weights of ``bits`` bits and a scale a channel.

    The first of a network reads pixels: ``mean`` and ``deviation`` are those by which each channel
    is normalised. Its padding is an integer pixel too, the one nearest the mean.

    ``integers`` are the weights in evaluation: it gives Σ integers·v.
    """

    integers: Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        padding: int,
        *,
        bits: int,
        mean: Sequence[float] = (),
        deviation: Sequence[float] = (),
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding, bias=False)
        self.bits, self.border = bits, padding
        self.mean = tuple(mean) * (inputs // len(mean)) if mean else ()
        self.deviation = tuple(deviation) * (inputs // len(deviation)) if mean else ()
        self.register_buffer("integers", torch.zeros(self.weight.shape, dtype=torch.int8))

    @property
    def pixels(self) -> tuple[int, ...]:
        """The pixel of each channel that the border has."""
        return tuple(int(255 * mean + 0.5) for mean in self.mean)

    def _deviations(self) -> Tensor:
        """Return what turns weights of normalised pixels into those of raw ones."""
        return self.weight.new_tensor(self.deviation or [1.0]).view(1, -1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        stride: tuple[int, int] = self.stride  # type: ignore[assignment]
        if self.in_integers:
            border = padded(x, self.border, self.pixels or [0])
            return convolve(border, self.integers, stride, (0, 0))
        # The integers multiply raw pixels, so they hold the deviations.
        deviations = self._deviations()
        weight = rounded_weights(self.weight / deviations, self.bits) * deviations
        values = [
            (pixel / 255 - mean) / deviation
            for pixel, mean, deviation in zip(self.pixels, self.mean, self.deviation, strict=True)
        ]
        return F.conv2d(padded(x, self.border, values or [0.0]), weight, stride=self.stride)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the sums stand for."""
        effective = (self.weight / self._deviations()).double()
        scale = weight_scale(effective, self.bits)
        if settling:
            integers = whole(effective / scale.view(-1, 1, 1, 1), "its weight")
            self.integers.copy_(integers)
        integers = self.integers.double()
        if self.mean:
            # A normalised pixel is (p/255 − mean)/deviation.
            mean = torch.tensor(self.mean, dtype=torch.float64, device=scale.device)
            moved = (integers * mean.view(1, -1, 1, 1)).flatten(1).sum(1)
            gain, offset = scale / 255, -scale * moved
        else:
            gain, offset = scale * values.gain, 0 * scale
        most = integers.abs().flatten(1).sum(1) * values.most
        return Values(gain, offset, most).checked("a sum")


def padded(x: Tensor, border: int, values: Sequence[float]) -> Tensor:
    """Return maps with a border that has a value of its own for each channel."""
    if not border:
        return x
    middle = x.new_tensor(values).view(1, -1, 1, 1)
    return F.pad(x - middle, [border] * 4) + middle


class SumConv2d(SparseBinaryConv2d, Exact):
    """A sparse binary convolution whose sums are integers in evaluation.

    With ξ = Ξ/2^k it gives V = Σ (2^k·w01 + Ξ)·x, which stands for η·V/2^k.
    """

    def integer_weight(self) -> Tensor:
        """Return 2^k·w01 + Ξ, or with signed taps −1, 0 and +1."""
        signs = self.signs().double()
        if self.domain.signed:
            return signs
        xi = self.domain.exact().xi
        return (signs + 1) * (xi.denominator / 2) + xi.numerator

    def forward(self, x: Tensor) -> Tensor:
        if not self.in_integers:
            return super().forward(x)
        if self.padding_value == -1:
            rows, columns = self.padding
            x = F.pad(x, (columns, columns, rows, rows), value=-1.0)
            return convolve(x, self.integer_weight(), self.stride, (0, 0))
        return convolve(x, self.integer_weight(), self.stride, self.padding)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the sums stand for."""
        affine = self.domain.exact()
        if affine.xi.denominator & (affine.xi.denominator - 1):
            raise ModelRejected(f"ξ is {float(affine.xi):g}, which is not on a grid")
        weight = self.integer_weight()
        most = weight.abs().flatten(1).sum(1) * values.most
        gain = torch.full_like(most, float(affine.eta / affine.xi.denominator)) * values.gain
        return Values(gain, self._moved(weight, gain), most).checked("a sum")

    def _moved(self, weight: Tensor, gain: Tensor) -> Tensor:
        return torch.zeros_like(gain)


class PixelConv2d(SumConv2d):
    """A sparse binary convolution that reads pixels as (2p − 255)/255, and pads with 128.

    Its integer sums are those of the pixels themselves.
    """

    PIXEL = 128

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: int, **options: object
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=0, **options)  # type: ignore[arg-type]
        self.border = padding

    def forward(self, x: Tensor) -> Tensor:
        value = self.PIXEL if self.in_integers else (2 * self.PIXEL - 255) / 255
        return super().forward(F.pad(x, [self.border] * 4, value=value))

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the sums stand for."""
        sums = super().follow(values, settling=settling)
        weight = self.integer_weight().flatten(1).sum(1)
        return Values(sums.gain * 2 / 255, -sums.gain * weight, sums.most)


def exact_norm(norm: BatchNorm, values: Values) -> Values:
    """Return what integers stand for behind a batch norm."""
    gain = norm.weight.double() * torch.rsqrt(norm.running_var.double() + norm.eps)
    moved = values.offset - norm.running_mean.double()
    centre = -moved / torch.where(values.gain == 0, 1.0, values.gain)
    return Values(gain * values.gain, gain * moved + norm.bias.double(), values.most, centre=centre)


class SignNorm(BatchNorm, Exact):
    """Batch norm in front of a sign. In evaluation it gives the sign: [V ≥ threshold] xor flip."""

    threshold: Tensor
    flip: Tensor

    def __init__(self, features: int, *, scale: str) -> None:
        super().__init__(features, scale=scale)
        self.register_buffer("threshold", torch.zeros(features, dtype=torch.int64))
        self.register_buffer("flip", torch.zeros(features, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        if not self.in_integers:
            return super().forward(x)
        shape = (1, -1, 1, 1)
        signs = sign(x - self.threshold.double().view(shape))
        return signs * (1 - 2 * self.flip.double()).view(shape)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Compute the thresholds; signs come out."""
        if settling:
            y = exact_norm(self, values)
            most = y.most.expand_as(y.gain)
            if not bool((torch.isfinite(y.gain) & torch.isfinite(y.offset)).all()):
                raise ModelRejected("its scale is not finite; train it again")
            # Where the gain is zero, the sign is that of the offset.
            constant = torch.where(y.offset >= 0, -most, most + 1)
            border = torch.where(y.gain == 0, 0.0, -y.offset / y.gain)
            found = torch.where(y.gain > 0, border.ceil(), border.floor() + 1)
            found = torch.where(y.gain == 0, constant, found)
            self.threshold.copy_(found.clamp(-most, most + 1).to(torch.int64))
            self.flip.copy_(y.gain < 0)
        Values(values.gain, values.offset, self.threshold.double().abs()).checked("a threshold")
        return Values.signs()


class StreamNorm(BatchNorm, Exact):
    """Batch norm into a stream, with the shortcut that joins it and a slope below zero, if any.

    In evaluation its ``affine`` does all of it. Where multipliers have few ``digits``, training
    uses the scale that the multiplier stood for when the integers were last computed: ``rounding``
    is that scale divided by the learned one.
    """

    rounding: Tensor

    def __init__(
        self,
        features: int,
        *,
        scale: str,
        bits: int,
        within_one: bool = False,
        slope: bool = False,
        digits: int = 0,
    ) -> None:
        super().__init__(features, scale=scale)
        self.stream = Stream(bits, within_one=within_one)
        self.affine = StreamAffine(features, bits, slope=slope, digits=digits)
        if digits:
            self.register_buffer("rounding", torch.ones(features))

    @property
    def used_weight(self) -> Tensor:
        """The learned scale, rounded as that of the multiplier was."""
        return self.weight * self.rounding if self.affine.digits else self.weight

    def forward(
        self, x: Tensor, shortcut: Tensor | None = None, slope: nn.Module | None = None
    ) -> Tensor:
        if self.in_integers:
            return self.affine(x, shortcut)  # type: ignore[no-any-return]
        x = super().forward(x)
        if shortcut is not None:
            # In place: the batch norm does not need what it gave to go back.
            x = x.add_(shortcut)
        if slope is not None:
            x = slope(x)
        return self.stream(x)  # type: ignore[no-any-return]

    def follow(
        self,
        values: Values,
        *,
        settling: bool,
        shortcut: Values | None = None,
        slope: Slope | None = None,
    ) -> Values:
        """Compute the integers; the stream comes out."""
        if settling:
            sums = exact_norm(self, values)
            rounding = self.affine.settle(sums, self.stream.placed, shortcut, slope)
            if self.affine.digits:
                self.rounding.copy_(rounding)
        self.affine.reach(values, shortcut)
        return self.stream.values


class MeanOfFour(nn.AvgPool2d, Exact):
    """Means of 2×2 values; in evaluation their sums.

    A row or column left over is a pixel for itself, as a convolution with stride has it. Its sums
    have it twice.
    """

    def __init__(self) -> None:
        super().__init__(2, 2, ceil_mode=True)

    def forward(self, x: Tensor) -> Tensor:
        if not self.in_integers:
            return super().forward(x)
        x = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2), mode="replicate")
        rows = x[:, :, ::2] + x[:, :, 1::2]
        return rows[:, :, :, ::2] + rows[:, :, :, 1::2]

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the sums stand for."""
        return values.summed(2).checked("a sum of four")


class Repeat(Exact):
    """Use all channels several times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.times, 1, 1)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return the same."""
        return values

    def extra_repr(self) -> str:
        return f"{self.times} times"


class MeanOfMap(nn.AdaptiveAvgPool2d, Exact):
    """The mean of each map; in evaluation its sum."""

    positions: Tensor

    def __init__(self) -> None:
        super().__init__(1)
        #: Values of a map, known once there was one.
        self.register_buffer("positions", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_integers:
            if x.shape[2] * x.shape[3] != int(self.positions):
                raise ModelRejected(
                    f"Maps must have {int(self.positions)} values, not {x.shape[2]}×{x.shape[3]}"
                )
            return x.sum((2, 3), keepdim=True)
        if not x.is_meta:
            self.positions.fill_(x.shape[2] * x.shape[3])
        return super().forward(x)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the sums stand for."""
        positions = int(self.positions)
        if positions < 1:
            raise ModelRejected("no image has passed it yet")
        found = Values(values.gain / positions, values.offset, values.most * positions)
        return found.checked("a sum of a map")


class ClassNorm(BatchNorm, Exact):
    """Batch norm in front of the classifier, in whose integer weights it is in evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        return x if self.in_integers else super().forward(x)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the values stand for behind the batch norm."""
        return exact_norm(self, values)


class IntegerLinear(nn.Linear, Exact):
    """A classifier with integer weights of ``bits`` bits and one scale for all classes.

    A batch norm in front of it, ``norm``, goes into its weights before they are rounded. In
    evaluation the scores are Σ integers·v + offsets.
    """

    integers: Tensor
    offsets: Tensor

    def __init__(self, inputs: int, classes: int, *, bits: int, norm: BatchNorm | None) -> None:
        super().__init__(inputs, classes)
        self.bits = bits
        # Not a part of this module: it is one of the network.
        self._before = (norm,)
        self.register_buffer("integers", torch.zeros(self.weight.shape, dtype=torch.int8))
        self.register_buffer("offsets", torch.zeros(classes, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_integers:
            return x @ self.integers.double().t() + self.offsets.double()
        gain = torch.ones_like(self.weight[0])
        if (norm := self._before[0]) is not None:
            gain = norm.weight.detach() * torch.rsqrt(norm.running_var + norm.eps)
            gain = torch.where(gain.abs() < 1e-6, torch.ones_like(gain), gain)
        weight = rounded_weights(self.weight * gain, self.bits, common=True) / gain
        return F.linear(x, weight, self.bias)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Compute the weights and offsets; the scores come out."""
        effective = self.weight.double() * values.gain
        scale = weight_scale(effective, self.bits, common=True)[0]
        if settling:
            self.integers.copy_(whole(effective / scale, "its weight"))
            # The offsets, too, are multiplied by the weights that the integers stand for.
            without = values.gain == 0
            stands_for = self.integers * scale / torch.where(without, 1.0, values.gain)
            weight = torch.where(without, self.weight.double(), stands_for)
            constant = (weight * values.offset).sum(1) + self.bias.double()
            self.offsets.copy_(whole(constant / scale, "its offset"))
        most = self.integers.double().abs() @ values.most.expand(self.in_features)
        most = most + self.offsets.double().abs()
        return Values(scale, torch.zeros_like(most), most).checked("a score")
