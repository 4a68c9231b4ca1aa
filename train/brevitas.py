"""Networks of Brevitas as ours: the same bits, to be folded, or trained on.

Taken are `QuantLinear`, `QuantConv2d` and `QuantIdentity` with binary quantisers that have one
scale, in an `nn.Sequential` with batch norms and pools; quantisers of a layer's own input and
output are read as a `QuantIdentity` there. What would not be exactly the same is refused;
the way through a QONNX file takes more.
"""

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import nn

from sbnn_hw.errors import ModelRejected, ToolMissing
from sbnn_hw.train.fold import flat_modules
from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryLinear,
    SparseBinaryScores,
)

__all__ = ["from_brevitas"]

_KEPT = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.MaxPool2d,
    nn.Flatten,
    nn.Dropout,
    nn.Dropout2d,
    nn.Identity,
)
_ELSE = "export it with brevitas.export.export_qonnx and use the .onnx file"


def from_brevitas(module: nn.Module) -> nn.Sequential:
    """Return our model of a Brevitas network whose images lie in [−1, 1].

    The first `QuantIdentity` becomes the comparator of raw pixels with 128; without one, the first
    layer adds up the pixels. The result shares no tensor with what it was made of.

    Parameters
    ----------
    module : nn.Module
        An `nn.Sequential` of Brevitas's layers.
    """
    return _Conversion().run(flat_modules(module))


class _Conversion:
    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.encoder: InputEncoder | None = None
        #: What the last activation was multiplied by.
        self.scale = Fraction(1)

    def run(self, modules: list[tuple[str, nn.Module]]) -> nn.Sequential:
        try:
            from brevitas.nn import QuantConv2d, QuantIdentity, QuantLinear
        except ImportError:
            raise ToolMissing("Brevitas is not installed (pip install brevitas)") from None
        layers = [n for n, (_, m) in enumerate(modules) if isinstance(m, QuantLinear | QuantConv2d)]
        if not layers:
            raise ModelRejected("The model has no QuantLinear or QuantConv2d of Brevitas")
        for number, (name, module) in enumerate(modules):
            if isinstance(module, QuantIdentity):
                self._sign(name, module.act_quant, before=number < layers[0])
            elif isinstance(module, QuantLinear | QuantConv2d):
                conv, last = isinstance(module, QuantConv2d), number == layers[-1]
                if module.input_quant.is_quant_enabled:
                    self._sign(f"{name}.input_quant", module.input_quant, number == layers[0])
                self.modules.append(self._layer(name, module, conv, last))
                if module.output_quant.is_quant_enabled:
                    if last:
                        raise ModelRejected(
                            f"Layer {name} quantises the scores (output_quant), which decide "
                            f"without quantisation; remove it"
                        )
                    self._sign(f"{name}.output_quant", module.output_quant, before=False)
            elif type(module) in _KEPT:
                self.modules.append(copy.deepcopy(module))
            else:
                raise ModelRejected(
                    f"Layer {name} is a {type(module).__name__}, which has no equivalent here; "
                    f"{_ELSE}"
                )
        first = self.encoder or InputEncoder("integer", ())
        return nn.Sequential(first, *self.modules).train(modules[0][1].training)

    def _sign(self, name: str, proxy: Any, before: bool) -> None:
        quantiser = getattr(proxy.fused_activation_quant_proxy, "tensor_quant", None)
        scale = _one_scale(name, proxy.is_quant_enabled, quantiser, proxy.scale())
        if before:
            if self.encoder is not None or scale < 0:
                raise ModelRejected(f"Layer {name} quantises the image twice, or inverts it")
            self.encoder = InputEncoder("threshold", [128])
        else:
            self.modules.append(SignActivation())
        self.scale = scale

    @torch.no_grad()
    def _layer(self, name: str, module: Any, conv: bool, last: bool) -> SparseBinaryLayer:
        proxy = module.weight_quant
        # Asking for the quantised weights clamps them in place: a copy is asked.
        asked = copy.deepcopy(module).quant_weight().scale
        scale = _one_scale(name, proxy.is_quant_enabled, proxy.tensor_quant, asked)
        if module.bias is not None:
            raise ModelRejected(
                f"Layer {name} has a bias, which would have to be rounded into the batch norm; "
                f"{_ELSE}"
            )
        tau = scale * self.scale
        if tau != Fraction(float(np.float32(float(tau)))):
            raise ModelRejected(
                f"Layer {name} has weights of ±{float(tau)!r} with the scale before it, which is "
                f"not a float32; {_ELSE}"
            )
        domain = "bnn" if tau == 1 else "symmetric"
        layer: SparseBinaryLayer
        if conv:
            if module.dilation not in (1, (1, 1)) or module.padding_mode != "zeros":
                raise ModelRejected(
                    f"Layer {name} has a dilation, or a padding mode other than zeros"
                )
            layer = SparseBinaryConv2d(
                module.in_channels,
                module.out_channels,
                module.kernel_size,
                stride=module.stride,
                padding=_padding(name, module),
                padding_value=0,
                groups=module.groups,
                domain=domain,
            )
        elif last:
            layer = SparseBinaryScores(module.in_features, module.out_features, domain=domain)
        else:
            layer = SparseBinaryLinear(module.in_features, module.out_features, domain=domain)
        layer.weight.copy_(module.weight)
        if domain == "symmetric":
            layer.domain.tau.fill_(float(tau))  # type: ignore[operator]
        return layer


def _padding(name: str, module: Any) -> tuple[int, int]:
    """Return the rows and columns of zeros that a convolution adds on each side."""
    if module.padding == "valid":
        return (0, 0)
    # Brevitas takes "same" with a stride too, and then keeps no padding.
    if module.is_same_padded_strided or module.padding == "same":
        if module.is_same_padded_strided or not all(size % 2 for size in module.kernel_size):
            raise ModelRejected(
                f"Layer {name} has padding='same' with a stride or an even kernel, which may pad "
                f"one side more than the other; give it a number"
            )
        return (module.kernel_size[0] // 2, module.kernel_size[1] // 2)
    rows, columns = module.padding
    return (rows, columns)


def _one_scale(name: str, enabled: bool, quantiser: Any, scale: Any) -> Fraction:
    """Return the scale of a binary quantiser, which must be one number."""
    if not enabled or type(quantiser).__name__ not in ("BinaryQuant", "ClampedBinaryQuant"):
        kind = type(quantiser).__name__ if enabled and quantiser is not None else "no quantiser"
        raise ModelRejected(
            f"Layer {name} must have a binary quantiser, such as SignedBinaryWeightPerTensorConst "
            f"or SignedBinaryActPerTensorConst, not {kind}"
        )
    numbers = set(scale.detach().double().flatten().tolist())
    if len(numbers) != 1 or not np.isfinite(list(numbers)).all() or 0 in numbers:
        raise ModelRejected(
            f"Layer {name} has {len(numbers)} scales, one per channel, but the layers here have "
            f"one; {_ELSE}"
        )
    return Fraction(numbers.pop())
