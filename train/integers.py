"""Layers of residual networks whose streams are integers.

In training they compute with real values that are rounded to what the integers will say.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.train.domains import Domain
from sbnn_hw.train.layers import SparseBinaryConv2d
from sbnn_hw.train.norm import BatchNorm
from sbnn_hw.train.streams import Stream, rounded_weights

__all__ = ["IntegerConv2d", "IntegerLinear", "PixelConv2d", "Repeat", "StreamNorm"]


class IntegerConv2d(nn.Conv2d):
    """A convolution with integer weights of ``bits`` bits and a scale a channel.

    The first of a network reads pixels: ``mean`` and ``deviation`` are those by which each channel
    is normalised. Its padding is an integer pixel too, the one nearest the mean.
    """

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

    @property
    def pixels(self) -> tuple[int, ...]:
        """The pixel of each channel that the border has."""
        return tuple(int(255 * mean + 0.5) for mean in self.mean)

    def forward(self, x: Tensor) -> Tensor:
        if not self.mean:
            weight = rounded_weights(self.weight, self.bits)
            return F.conv2d(x, weight, stride=self.stride, padding=self.padding)
        # The integers multiply raw pixels, so they hold the deviations.
        deviation = x.new_tensor(self.deviation).view(1, -1, 1, 1)
        weight = rounded_weights(self.weight / deviation, self.bits) * deviation
        values = [
            (pixel / 255 - mean) / deviation
            for pixel, mean, deviation in zip(self.pixels, self.mean, self.deviation, strict=True)
        ]
        return F.conv2d(padded(x, self.border, values), weight, stride=self.stride)


def padded(x: Tensor, border: int, values: Sequence[float]) -> Tensor:
    """Return maps with a border that has a value of its own for each channel."""
    if not border:
        return x
    middle = x.new_tensor(values).view(1, -1, 1, 1)
    return F.pad(x - middle, [border] * 4) + middle


class PixelConv2d(SparseBinaryConv2d):
    """A sparse binary convolution that reads pixels as (2p − 255)/255, and pads with 128."""

    PIXEL = 128

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        padding: int,
        *,
        domain: str | Domain,
        xi_bits: int | None,
        gradient: str,
    ) -> None:
        super().__init__(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=0,
            domain=domain,
            xi_bits=xi_bits,
            gradient=gradient,
        )
        self.border = padding

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, [self.border] * 4, value=(2 * self.PIXEL - 255) / 255))


class IntegerLinear(nn.Linear):
    """A classifier with integer weights of ``bits`` bits and one scale for all classes.

    A batch norm in front of it, ``norm``, goes into its weights before they are rounded.
    """

    def __init__(self, inputs: int, classes: int, *, bits: int, norm: BatchNorm | None) -> None:
        super().__init__(inputs, classes)
        self.bits = bits
        # Not a part of this module: it is one of the network.
        self._before = (norm,)

    def forward(self, x: Tensor) -> Tensor:
        gain = torch.ones_like(self.weight[0])
        if (norm := self._before[0]) is not None:
            gain = norm.weight.detach() * torch.rsqrt(norm.running_var + norm.eps)
            gain = torch.where(gain.abs() < 1e-6, torch.ones_like(gain), gain)
        return F.linear(
            x, rounded_weights(self.weight * gain, self.bits, common=True) / gain, self.bias
        )


class Repeat(nn.Module):
    """Use all channels several times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.times, 1, 1)

    def extra_repr(self) -> str:
        return f"{self.times} times"


class StreamNorm(BatchNorm):
    """Batch norm into a stream, with the shortcut that joins it and a slope below zero, if any."""

    def __init__(self, features: int, *, scale: str, bits: int, within_one: bool = False) -> None:
        super().__init__(features, scale=scale)
        self.stream = Stream(bits, within_one=within_one)

    def forward(
        self, x: Tensor, shortcut: Tensor | None = None, slope: nn.Module | None = None
    ) -> Tensor:
        x = super().forward(x)
        if shortcut is not None:
            x = x + shortcut
        if slope is not None:
            x = slope(x)
        return self.stream(x)  # type: ignore[no-any-return]
