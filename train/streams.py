"""Streams of integers: what a residual network carries between its blocks.

A stream is a map of signed integers r of a few bits that stand for the values r·2^−f. Each stream
has a fraction f of its own. In training the values stay real; they are rounded and clamped to what
the integers can say, and gradients pass through the rounding unchanged.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.exact import Values, real_valued
from sbnn_hw.train.parallel import all_sum

__all__ = [
    "MULTIPLIER_DIGITS",
    "STREAM_BITS",
    "WEIGHT_BITS",
    "Stream",
    "place_streams",
    "rounded_weights",
    "weight_scale",
]

#: The bits that the integers of a stream, and those of real layers' weights, may have.
STREAM_BITS = range(2, 17)
WEIGHT_BITS = range(2, 9)
#: Of how many powers of two multipliers may be sums.
MULTIPLIER_DIGITS = range(1, 6)
#: Stands for a fraction that no data have decided yet.
UNPLACED = 1 << 15
#: Fractions that are tried lie this far around the one whose integers reach from −1 to 1.
_FURTHER = range(-12, 9)


class _Rounded(torch.autograd.Function):
    """Round to a multiple of 2^−fraction and clamp; where nothing is clamped, gradients pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, fraction: int, low: int, high: int) -> Tensor:
        ctx.ends = (low - 0.5) * 2.0**-fraction, (high + 0.5) * 2.0**-fraction
        ctx.save_for_backward(x)
        # In one buffer: faster on a CPU than torch's own function for it.
        return x.mul(2.0**fraction).round_().clamp_(low, high).mul_(2.0**-fraction)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(grad, x, *ctx.ends), None, None, None


class Stream(nn.Module):
    """Round and clamp to integers of ``bits`` bits, times 2^−f.

    With ``within_one`` the values lie in [−1, 1), as behind a hardtanh, and f = bits − 1. Else f is
    the one of least squared error: on the first batch that comes, and from then on by
    :func:`place_streams`.
    """

    fraction: Tensor

    def __init__(self, bits: int, *, within_one: bool = False) -> None:
        super().__init__()
        self.bits, self.within_one = bits, within_one
        self.register_buffer("fraction", torch.tensor(bits - 1 if within_one else UNPLACED))

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest integer."""
        return (1 << (self.bits - 1)) - 1

    @property
    def placed(self) -> int:
        """The fraction, once there is one."""
        fraction = int(self.fraction)
        if abs(fraction) > 64:
            raise ModelRejected("no image has passed its stream yet")
        return fraction

    @property
    def values(self) -> Values:
        """The integers, and what they stand for."""
        return Values.stream(self.placed, 1 << (self.bits - 1))

    def forward(self, x: Tensor) -> Tensor:
        if x.is_meta:
            return x  # there is nothing to round
        if int(self.fraction) == UNPLACED:
            self.place(all_sum(self.errors(x.detach())))
        # Few bits of precision hold few bits of an integer.
        x = x if x.dtype != torch.bfloat16 or self.bits <= 8 else x.float()
        return self._rounded(x, int(self.fraction))

    def _rounded(self, x: Tensor, fraction: int) -> Tensor:
        return _Rounded.apply(x, fraction, self.low, self.high)  # type: ignore[no-any-return,no-untyped-call]

    @torch.no_grad()
    def errors(self, x: Tensor) -> Tensor:
        """Return the sum of squared errors for each fraction that may be chosen."""
        x = x.float() if x.dtype == torch.bfloat16 else x
        found = [
            (self._rounded(x, self.bits - 1 + further) - x).square().sum().double()
            for further in _FURTHER
        ]
        return torch.stack(found)

    def place(self, errors: Tensor) -> bool:
        """Take the fraction of least error; tell whether it is another one."""
        fraction = self.bits - 1 + _FURTHER[int(errors.argmin())]
        changed = fraction != int(self.fraction)
        self.fraction.fill_(fraction)
        return changed

    def extra_repr(self) -> str:
        return f"{self.bits} bits"


@torch.no_grad()
def place_streams(model: nn.Module, batches: Callable[[], Iterable[Tensor]]) -> bool:
    """Choose the fraction of every stream by what the model makes of ``batches``.

    Returns whether any has changed. Streams within one keep theirs.
    """
    streams = [m for m in model.modules() if isinstance(m, Stream) and not m.within_one]
    if not streams:
        return False
    errors: dict[Stream, Tensor] = {}

    def observe(stream: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(stream, Stream)
        found = stream.errors(inputs[0])
        errors[stream] = errors[stream] + found if stream in errors else found
        if int(stream.fraction) == UNPLACED:
            stream.place(found)  # what follows needs one

    training = model.training
    model.eval()
    with ExitStack() as hooks:
        hooks.enter_context(real_valued(model))
        for stream in streams:
            hooks.callback(stream.register_forward_pre_hook(observe).remove)
        for batch in batches():
            model(batch)
    model.train(training)
    changed = [stream.place(found) for stream, found in errors.items()]
    return any(changed)


def rounded_weights(weight: Tensor, bits: int, *, common: bool = False) -> Tensor:
    """Round weights to integers of some bits times a scale; gradients pass unchanged.

    The largest weight of a channel, or with ``common`` of all, is the largest integer.
    """
    if weight.is_meta:
        return weight
    most = (1 << (bits - 1)) - 1
    scale = weight_scale(weight.detach(), bits, common=common)
    zeros = torch.zeros_like(scale, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, scale.float(), zeros, 0, -most, most)


def weight_scale(weight: Tensor, bits: int, *, common: bool = False) -> Tensor:
    """Return what one unit of a channel's integer weights stands for."""
    largest = weight.abs().flatten(1).amax(1)
    if common:
        largest = largest.amax().expand_as(largest)
    # Where all are zero any scale will do.
    return largest.clamp_min(torch.finfo(torch.float32).tiny * 1024) / ((1 << (bits - 1)) - 1)
