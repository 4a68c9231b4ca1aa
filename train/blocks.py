"""The blocks of the paper's backbones: binary convolutions with shortcuts around them.

Each takes and gives real-valued maps, or with integer streams maps of integers; the sign stands
inside, before each binary convolution.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.train.exact import Exact, Slope, StreamAffine, Values, follow
from sbnn_hw.train.integers import MeanOfFour, Repeat, StreamNorm, exact_norm
from sbnn_hw.train.layers import SignActivation
from sbnn_hw.train.norm import BatchNorm
from sbnn_hw.train.signs import sign
from sbnn_hw.train.streams import Stream

if TYPE_CHECKING:
    from sbnn_hw.train.models import ModelConfig

__all__ = [
    "BiRealBlock",
    "IRNetBlock",
    "LevelSign",
    "Normalise",
    "RPReLU",
    "RSign",
    "RawPixels",
    "ReActBlock",
    "ReActMobileBlock",
    "RealConv2d",
    "XnorBlock",
]

#: Mean and standard deviation of each channel, pixels from 0 to 1; as the authors have them.
STATISTICS = {
    "": ((0.5,), (0.5,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


class Normalise(nn.Module):
    """Turn raw pixels (0 to 255) into what a real-valued first convolution sees."""

    def __init__(self, statistics: str = "") -> None:
        super().__init__()
        self.statistics = statistics
        self.mean, self.deviation = STATISTICS[statistics]

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        mean = torch.tensor(self.mean, dtype=dtype, device=x.device).view(1, -1, 1, 1)
        deviation = torch.tensor(self.deviation, dtype=dtype, device=x.device).view(1, -1, 1, 1)
        return (x.to(dtype) / 255 - mean) / deviation

    def extra_repr(self) -> str:
        return self.statistics or "to [−1, 1]"


class RawPixels(Normalise, Exact):
    """The same, but in evaluation the pixels themselves."""

    def forward(self, x: Tensor) -> Tensor:
        return x.double() if self.in_integers else super().forward(x)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Return what the pixels stand for: the first convolution normalises them."""
        return values


class RealConv2d(nn.Conv2d):
    """A convolution of signs with real weights: what is trained before the weights are binary."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: int, padding_value: int
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding, bias=False)
        self.border, self.padding_value = padding, padding_value

    def forward(self, x: Tensor) -> Tensor:
        if self.padding_value == 0:
            return super().forward(x)
        x = F.pad(x, [self.border] * 4, value=float(self.padding_value))
        return F.conv2d(x, self.weight, stride=self.stride)


class LevelSign(Exact):
    """Several signs of each value: whether it reaches each of some levels between −1 and 1.

    Sign p of channel c is channel c·planes + p. In evaluation they are [r ≥ threshold].
    """

    thresholds: Tensor

    def __init__(self, planes: int, gradient: str) -> None:
        super().__init__()
        self.levels = tuple((2 * number + 1 - planes) / planes for number in range(planes))
        self.sign = SignActivation(gradient)
        self.register_buffer("thresholds", torch.zeros(planes, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if self.in_integers:
            found = [sign(x - threshold) for threshold in self.thresholds.tolist()]
        else:
            found = [self.sign(x - level if level else x) for level in self.levels]
        return torch.stack(found, 2).flatten(1, 2)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Compute the thresholds; signs come out."""
        if settling:
            most = float(values.most)
            levels = torch.tensor(self.levels, dtype=torch.float64, device=values.gain.device)
            found = (levels / values.gain).ceil().clamp(-most, most)
            self.thresholds.copy_(found.to(torch.int64))
        return Values.signs()

    def extra_repr(self) -> str:
        return ", ".join(f"{level:.3g}" for level in self.levels)


class IRNetBlock(Exact):
    """Two binary convolutions and one shortcut; hardtanh is the non-linearity.

    Between the convolutions there are ``wider`` times as many channels as behind them.
    """

    is_block = True

    def __init__(
        self, config: "ModelConfig", inputs: int, outputs: int, stride: int, *, wider: int = 1
    ) -> None:
        super().__init__()
        gradient, planes = config.activation or "ede", config.sign_planes
        self.sign1 = LevelSign(planes, gradient) if planes > 1 else SignActivation(gradient)
        self.conv1 = config.binary_conv(planes * inputs, wider * outputs, 3, stride)
        self.bn1 = config.sign_norm(wider * outputs)
        # The hardtanh behind the first batch norm changes no sign: it is in the gradient alone.
        self.sign2 = SignActivation(gradient, within_one=True)
        self.conv2 = config.binary_conv(wider * outputs, outputs, 3, 1)
        self.bn2 = config.stream_norm(outputs, within_one=True)
        self.shortcut = _projection(config, inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn1(self.conv1(self.sign1(x)))
        out = self.conv2(self.sign2(out))
        if isinstance(self.bn2, StreamNorm):
            return self.bn2(out, self.shortcut(x))  # type: ignore[no-any-return]
        # In place: neither the batch norm nor hardtanh needs what it gave to go back.
        return F.hardtanh(self.bn2(out).add_(self.shortcut(x)), inplace=True)

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Follow integers through the block."""
        if isinstance(self.sign1, LevelSign):
            follow(self.sign1, values, settling=settling, name="sign1")
        sums = follow(self.conv1, Values.signs(), settling=settling, name="conv1")
        signs = follow(self.bn1, sums, settling=settling, name="bn1")
        sums = follow(self.conv2, signs, settling=settling, name="conv2")
        shortcut = follow(self.shortcut, values, settling=settling, name="shortcut")
        return follow(self.bn2, sums, settling=settling, name="bn2", shortcut=shortcut)


def _projection(config: "ModelConfig", inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 or config.shortcut == "duplicate":
        return _weightless(config, inputs, outputs, stride)
    conv = config.real_conv(inputs, outputs, 1, stride, 0)
    return nn.Sequential(conv, config.stream_norm(outputs, scale="learned"))


def _weightless(config: "ModelConfig", inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1:
        return nn.Identity()
    if outputs % inputs:
        raise ModelRejected(
            f"Shortcuts without weights (--shortcut duplicate) need channels that are multiples "
            f"of those before, not {outputs} behind {inputs}; use another --width"
        )
    return nn.Sequential(_mean_of_four(config), Repeat(outputs // inputs))


def _mean_of_four(config: "ModelConfig") -> nn.AvgPool2d:
    if config.stream_bits:
        return MeanOfFour()
    # A row or column left over is a pixel for itself, as a convolution with stride has it.
    return nn.AvgPool2d(2, 2, ceil_mode=True)


def _pooled_projection(config: "ModelConfig", inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 or config.shortcut == "duplicate":
        return _weightless(config, inputs, outputs, stride)
    conv = config.real_conv(inputs, outputs, 1, 1, 0)
    return nn.Sequential(_mean_of_four(config), conv, config.stream_norm(outputs, scale="learned"))


class Shift(nn.Module):
    """Add a learned number to each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class RSign(nn.Module):
    """ReActNet's sign: with a learned shift for each channel."""

    def __init__(self, channels: int, gradient: str) -> None:
        super().__init__()
        self.shift = Shift(channels)
        self.sign = SignActivation(gradient)

    def forward(self, x: Tensor) -> Tensor:
        return self.sign(self.shift(x))  # type: ignore[no-any-return]


class ThresholdSign(RSign, Exact):
    """ReActNet's sign of a stream: in evaluation [r ≥ threshold]."""

    threshold: Tensor

    def __init__(self, channels: int, gradient: str) -> None:
        super().__init__(channels, gradient)
        self.register_buffer("threshold", torch.zeros(channels, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if not self.in_integers:
            return super().forward(x)
        return sign(x - self.threshold.double().view(1, -1, 1, 1))

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Compute the thresholds; signs come out."""
        if settling:
            most = float(values.most)
            found = (-self.shift.bias.double().flatten() / values.gain).ceil()
            if not bool(torch.isfinite(found).all()):
                raise ModelRejected("its shift is not finite; train it again")
            self.threshold.copy_(found.clamp(-most, most).to(torch.int64))
        return Values.signs()


def _rsign(config: "ModelConfig", channels: int) -> RSign:
    gradient = config.activation or "polynomial"
    return (ThresholdSign if config.stream_bits else RSign)(channels, gradient)


class RPReLU(nn.Module):
    """ReActNet's PReLU: a learned slope below zero, with learned shifts before and behind."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = Shift(channels)
        self.prelu = nn.PReLU(channels)
        self.behind = Shift(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.prelu(self.before(x)))  # type: ignore[no-any-return]

    def numbers(self) -> Slope:
        """Return its shifts and slopes."""
        return Slope(
            self.before.bias.double().flatten(),
            self.prelu.weight.double(),
            self.behind.bias.double().flatten(),
        )


class ReActBlock(Exact):
    """RSign, one binary 3×3 convolution, batch norm, shortcut, RPReLU."""

    is_block = True

    def __init__(self, config: "ModelConfig", inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.sign = _rsign(config, inputs)
        self.conv = config.binary_conv(inputs, outputs, 3, stride)
        self.bn = config.stream_norm(outputs, slope=True)
        self.shortcut = _pooled_projection(config, inputs, outputs, stride)
        self.prelu = RPReLU(outputs)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv(self.sign(x))
        if isinstance(self.bn, StreamNorm):
            return self.bn(out, self.shortcut(x), self.prelu)  # type: ignore[no-any-return]
        return self.prelu(self.bn(out) + self.shortcut(x))  # type: ignore[no-any-return]

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Follow integers through the block."""
        signs = follow(self.sign, values, settling=settling, name="sign")
        sums = follow(self.conv, signs, settling=settling, name="conv")
        shortcut = follow(self.shortcut, values, settling=settling, name="shortcut")
        slope = self.prelu.numbers()
        return follow(self.bn, sums, settling=settling, name="bn", shortcut=shortcut, slope=slope)


class BiRealBlock(Exact):
    """Sign, one binary 3×3 convolution, batch norm, shortcut."""

    is_block = True

    def __init__(self, config: "ModelConfig", inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.sign = SignActivation(config.activation or "polynomial")
        self.conv = config.binary_conv(inputs, outputs, 3, stride)
        self.bn = config.stream_norm(outputs)
        self.shortcut = _pooled_projection(config, inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv(self.sign(x))
        if isinstance(self.bn, StreamNorm):
            return self.bn(out, self.shortcut(x))  # type: ignore[no-any-return]
        return self.bn(out) + self.shortcut(x)  # type: ignore[no-any-return]

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Follow integers through the block."""
        sums = follow(self.conv, Values.signs(), settling=settling, name="conv")
        shortcut = follow(self.shortcut, values, settling=settling, name="shortcut")
        return follow(self.bn, sums, settling=settling, name="bn", shortcut=shortcut)


class XnorBlock(Exact):
    """Twice batch norm, sign, binary convolution; one shortcut around both, as in XNOR-Net."""

    is_block = True

    def __init__(self, config: "ModelConfig", inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        gradient = config.activation or "clipped"
        self.bn1 = config.sign_norm(inputs)
        self.sign1 = SignActivation(gradient)
        self.conv1 = config.binary_conv(inputs, outputs, 3, stride)
        self.bn2 = config.sign_norm(outputs)
        self.sign2 = SignActivation(gradient)
        self.conv2 = config.binary_conv(outputs, outputs, 3, 1)
        self.shortcut = _projection(config, inputs, outputs, stride)
        self.stream = Stream(config.stream_bits) if config.stream_bits else None
        self.affine = StreamAffine(outputs, config.stream_bits) if config.stream_bits else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(self.sign1(self.bn1(x)))
        out = self.conv2(self.sign2(self.bn2(out)))
        if self.stream is None or self.affine is None:
            return out + self.shortcut(x)  # type: ignore[no-any-return]
        if self.in_integers:
            return self.affine(out, self.shortcut(x))  # type: ignore[no-any-return]
        return self.stream(out + self.shortcut(x))  # type: ignore[no-any-return]

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Follow integers through the block."""
        assert self.stream is not None
        assert self.affine is not None
        signs = follow(self.bn1, values, settling=settling, name="bn1")
        sums = follow(self.conv1, signs, settling=settling, name="conv1")
        signs = follow(self.bn2, sums, settling=settling, name="bn2")
        sums = follow(self.conv2, signs, settling=settling, name="conv2")
        shortcut = follow(self.shortcut, values, settling=settling, name="shortcut")
        with naming("affine: "):
            if settling:
                self.affine.settle(sums, self.stream.placed, shortcut)
            self.affine.reach(sums, shortcut)
            return self.stream.values


class ReActMobileBlock(Exact):
    """A block of ReActNet-A: binary 3×3, then binary 1×1; two of these double the channels.

    Neither shortcut has weights: where the stride is two the first averages 2×2 pixels, and where
    the channels double the second is used twice.
    """

    is_block = True

    def __init__(self, config: "ModelConfig", inputs: int, outputs: int, stride: int) -> None:
        if outputs not in (inputs, 2 * inputs):
            raise ValueError(f"Outputs must be {inputs} or {2 * inputs}, not {outputs}")
        super().__init__()
        self.sign1 = _rsign(config, inputs)
        self.conv1 = config.binary_conv(inputs, inputs, 3, stride)
        self.bn1 = config.stream_norm(inputs, slope=True)
        self.pool = _mean_of_four(config) if stride == 2 else nn.Identity()
        self.prelu1 = RPReLU(inputs)
        self.sign2 = _rsign(config, inputs)
        self.conv2 = nn.ModuleList(
            config.binary_conv(inputs, inputs, 1, 1) for _ in range(outputs // inputs)
        )
        self.bn2 = nn.ModuleList(config.norm(inputs) for _ in range(outputs // inputs))
        self.prelu2 = RPReLU(outputs)
        bits = config.stream_bits
        self.stream = Stream(bits) if bits else nn.Identity()
        self.affines = nn.ModuleList(
            StreamAffine(inputs, bits, slope=True) for _ in self.bn2 if bits
        )

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.bn1, StreamNorm):
            x = self.bn1(self.conv1(self.sign1(x)), self.pool(x), self.prelu1)
        else:
            x = self.prelu1(self.bn1(self.conv1(self.sign1(x))) + self.pool(x))
        signs = self.sign2(x)
        if self.affines and self.in_integers:
            pairs = zip(self.conv2, self.affines, strict=True)
            return torch.cat([affine(conv(signs), x) for conv, affine in pairs], 1)
        halves = [bn(conv(signs)) + x for conv, bn in zip(self.conv2, self.bn2, strict=True)]
        return self.stream(self.prelu2(torch.cat(halves, 1)))  # type: ignore[no-any-return]

    def follow(self, values: Values, *, settling: bool) -> Values:
        """Follow integers through the block."""
        assert isinstance(self.stream, Stream)
        signs = follow(self.sign1, values, settling=settling, name="sign1")
        sums = follow(self.conv1, signs, settling=settling, name="conv1")
        shortcut = follow(self.pool, values, settling=settling, name="pool")
        slope = self.prelu1.numbers()
        values = follow(
            self.bn1, sums, settling=settling, name="bn1", shortcut=shortcut, slope=slope
        )
        signs = follow(self.sign2, values, settling=settling, name="sign2")
        for number, (conv, norm, affine) in enumerate(
            zip(self.conv2, self.bn2, self.affines, strict=True)
        ):
            assert isinstance(norm, BatchNorm)
            assert isinstance(affine, StreamAffine)
            sums = follow(conv, signs, settling=settling, name=f"conv2.{number}")
            with naming(f"affines.{number}: "):
                if settling:
                    slope = self.prelu2.numbers().part(number, len(self.affines))
                    affine.settle(exact_norm(norm, sums), self.stream.placed, values, slope)
                affine.reach(sums, values)
        return self.stream.values
