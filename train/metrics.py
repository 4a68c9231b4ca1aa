"""Count what any model has and does for one image, also where layers are real-valued.

One image of no content goes through the model on torch's meta device, where only shapes are
computed. Convolutions and linear layers count, encoders, batch norms, activations and pools count
nothing, as in the paper's tables: a multiplication with its addition is one operation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sbnn_hw.bops import Kernels, count_kernels, entropy
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.exact import real_valued
from sbnn_hw.train.layers import (
    InputEncoder,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryLinear,
)
from sbnn_hw.train.models import ModelConfig, build_model

__all__ = ["LayerMetrics", "ModelCount", "count_architecture", "count_model"]

#: Binary operations that a processor does in one: the 64 of OPs = FLOPs + BOPs/64.
WORD = 64


@dataclass(frozen=True)
class LayerMetrics:
    """What a layer has and does for one image.

    ``kind`` is ``binary``, or ``real`` for real weights, or ``pixels`` for binary weights that
    multiply raw pixels, which is no binary operation: its ``pixel_macs`` are counted apart.
    ``positions`` is the number of outputs each neuron has. ``ones`` counts weights of value one
    (signed taps: of either sign); it is None for real weights, and for a model that has shapes
    alone. So are ``sparse``, which is ones × positions, and ``histogram``, the number of 3×3
    kernels for each Hamming weight.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    positions: int
    weights: int
    ones: int | None
    binary_macs: int
    sparse: int | None
    flops: int
    pixel_macs: int
    histogram: tuple[int, ...] | None


@dataclass(frozen=True)
class ModelCount:
    """The counts of a model, layer by layer and in all.

    Examples
    --------
    >>> count_architecture("resnet18", (32, 32, 3), 10).weights
    10985472
    """

    layers: tuple[LayerMetrics, ...]
    signed: bool

    @property
    def _with_ones(self) -> list[LayerMetrics]:
        return [layer for layer in self.layers if layer.kind != "real"]

    @property
    def weights(self) -> int:
        """N, the number of two-valued weights."""
        return sum(layer.weights for layer in self._with_ones)

    @property
    def ones(self) -> int | None:
        """U, the number of weights of value one."""
        return _sum([layer.ones for layer in self._with_ones])

    @property
    def density(self) -> float | None:
        """U/N."""
        return None if self.ones is None or not self.weights else self.ones / self.weights

    @property
    def entropy(self) -> float | None:
        """h(U/N), the bits that a weight takes."""
        return None if self.density is None else entropy(self.density)

    @property
    def binary_macs(self) -> int:
        """Binary multiplications with their additions, zeros included."""
        return sum(layer.binary_macs for layer in self.layers)

    @property
    def flops(self) -> int:
        """Real multiplications with their additions."""
        return sum(layer.flops for layer in self.layers)

    @property
    def pixel_macs(self) -> int:
        """Multiplications of raw pixels with binary weights."""
        return sum(layer.pixel_macs for layer in self.layers)

    @property
    def ops(self) -> float:
        """FLOPs + binary MACs/64."""
        return self.flops + self.binary_macs / WORD

    @property
    def sparse(self) -> int | None:
        """Binary operations if all zeros are skipped."""
        return _sum([layer.sparse for layer in self.layers if layer.kind == "binary"])

    @property
    def sparse_pr(self) -> float | None:
        """The share of binary MACs that skipping all zeros saves."""
        if self.sparse is None or not self.binary_macs:
            return None
        return 1 - self.sparse / self.binary_macs

    @property
    def kernels(self) -> Kernels | None:
        """The measures of 3×3 kernels, or None where there are none or no weights are known."""
        known = [
            (layer.histogram, layer.positions)
            for layer in self.layers
            if layer.histogram is not None
        ]
        return count_kernels(known) if known else None

    def flops_of(self, *names: str) -> int:
        """Return the FLOPs of the layers whose name has one of these words in it."""
        return sum(layer.flops for layer in self.layers if set(layer.name.split(".")) & set(names))

    def to_dict(self) -> dict[str, Any]:
        """Return all counts as plain values, for JSON."""
        kernels = self.kernels
        return {
            "weights": self.weights,
            "ones": self.ones,
            "density": self.density,
            "entropy": self.entropy,
            "signed": self.signed,
            "bops": {
                "binary_macs": self.binary_macs,
                "sparse": self.sparse,
                "pixel_macs": self.pixel_macs,
            },
            "flops": self.flops,
            "ops": self.ops,
            "sparse_pr": self.sparse_pr,
            "kernels": asdict(kernels) if kernels else None,
            "layers": [asdict(layer) for layer in self.layers],
        }


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


@lru_cache
def count_architecture(name: str, shape: tuple[int, int, int], classes: int) -> ModelCount:
    """Count a model of the catalogue by its shapes alone; nothing is allocated."""
    with torch.device("meta"):
        model = build_model(ModelConfig(name, shape, classes))
    return count_model(model, shape)


@torch.no_grad()
def count_model(model: nn.Module, shape: tuple[int, int, int]) -> ModelCount:
    """Count a model of raw pixels of shape (height, width, channels), for one image."""
    names = {module: name for name, module in model.named_modules()}
    positions: dict[nn.Module, int] = {}
    pixels: set[nn.Module] = set()
    encoders: list[InputEncoder] = []

    def see(module: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(module, InputEncoder):
            encoders.append(module)
            return
        if not positions and encoders and encoders[-1].kind == "integer":
            pixels.add(module)
        # A linear layer has its outputs in the last axis, a convolution in the second.
        axis = -1 if isinstance(module, nn.Linear | SparseBinaryLinear) else 1
        seen = output.numel() // output.shape[axis]
        positions[module] = positions.get(module, 0) + seen

    height, width, channels = shape
    image = torch.empty(1, channels, height, width, device="meta")
    values = {
        name: value.to("meta")
        for name, value in (*model.named_parameters(), *model.named_buffers())
    }
    with _evaluating(model), real_valued(model), _hooks(model, names, see):
        functional_call(model, values, (image,))
    return ModelCount(
        tuple(
            _count(names[module], module, number, module in pixels)
            for module, number in positions.items()
        ),
        signed=any(isinstance(m, SparseBinaryLayer) and m.domain.signed for m in positions),
    )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluate, and put every module back to what it did before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _hooks(model: nn.Module, names: dict[nn.Module, str], see: Any) -> Iterator[None]:
    """Let ``see`` see each layer that counts; refuse layers whose weights nobody would count."""
    counted = (SparseBinaryLayer, nn.Conv2d, nn.Linear)
    for module, name in names.items():
        matrices = any(value.squeeze().dim() > 1 for value in module.parameters(recurse=False))
        if matrices and not isinstance(module, counted):
            raise ModelRejected(
                f"Layer {name} is a {type(module).__name__}, whose operations cannot be counted; "
                f"use convolutions and linear layers"
            )
    hooks = [
        module.register_forward_hook(see)
        for module in names
        if isinstance(module, (*counted, InputEncoder))
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _count(name: str, module: nn.Module, positions: int, adds_pixels: bool) -> LayerMetrics:
    weight = module.weight
    assert isinstance(weight, Tensor)
    weights = weight.numel()
    ones, histogram, kind = None, None, "real"
    if isinstance(module, SparseBinaryLayer):
        kind = "pixels" if adds_pixels else "binary"
        if not weight.is_meta:
            taps = module.signs() != 0 if module.domain.signed else module.signs() > 0
            ones = int(taps.sum())
            if kind == "binary" and isinstance(module, SparseBinaryConv2d):
                histogram = _histogram(taps)
    return LayerMetrics(
        name=name,
        kind=kind,
        shape=tuple(weight.shape),
        positions=positions,
        weights=weights,
        ones=ones,
        binary_macs=weights * positions if kind == "binary" else 0,
        sparse=None if ones is None else ones * positions if kind == "binary" else 0,
        flops=weights * positions if kind == "real" else 0,
        pixel_macs=weights * positions if kind == "pixels" else 0,
        histogram=histogram,
    )


def _histogram(taps: Tensor) -> tuple[int, ...] | None:
    """Return how many 3×3 kernels there are of each Hamming weight; None of other kernels."""
    if tuple(taps.shape[-2:]) != (3, 3):
        return None
    return tuple(torch.bincount(taps.sum((2, 3)).flatten(), minlength=10).tolist())
