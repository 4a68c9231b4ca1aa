"""Fold a trained model to the integer network that is exactly it; torch ends here."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.fold.assemble import Assembler, LayerReport, Trained
from sbnn_hw.fold.exact import Norm
from sbnn_hw.netlist import Edge, Encode, Flatten, MaxPool2d, Network, Taps, Window
from sbnn_hw.train.blocks import BiRealBlock, IRNetBlock, ReActBlock, ReActMobileBlock, XnorBlock
from sbnn_hw.train.checkpoint import Checkpoint, load_checkpoint
from sbnn_hw.train.exact import has_integers
from sbnn_hw.train.fold_streams import fold_streams
from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryLinear,
    SparseBinaryScores,
)
from sbnn_hw.train.norm import BatchNorm

__all__ = [
    "NORMS",
    "Folded",
    "check_modules",
    "flat_modules",
    "fold_checkpoint",
    "fold_model",
    "norm_values",
]

NORMS = (BatchNorm, nn.BatchNorm1d, nn.BatchNorm2d)
_BLOCKS = (BiRealBlock, IRNetBlock, ReActBlock, ReActMobileBlock, XnorBlock)
_NOTHING = (nn.Identity, nn.Dropout, nn.Dropout2d)  # at evaluation they change nothing


@dataclass(frozen=True)
class Folded:
    """The network of a model, what folding it found, and which module each stage is."""

    #: The integer network.
    network: Network
    #: What was found in each layer.
    reports: tuple[LayerReport, ...]
    #: The module whose output has the bits, or the integers, of a stage, by the stage's name.
    modules: dict[str, str]


def flat_modules(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the modules of nested `nn.Sequential` in order, with their names."""
    if not isinstance(model, nn.Sequential):
        raise ModelRejected(
            f"The model must be an nn.Sequential to be folded, not {type(model).__name__}"
        )
    flat: list[tuple[str, nn.Module]] = []

    def walk(prefix: str, module: nn.Module) -> None:
        for name, child in module.named_children():
            if isinstance(child, nn.Sequential):
                walk(f"{prefix}{name}.", child)
            else:
                flat.append((f"{prefix}{name}", child))

    walk("", model)
    return flat


def fold_checkpoint(source: str | Path | Checkpoint) -> Folded:
    """Fold a checkpoint, or the file of one.

    Parameters
    ----------
    source : str, Path or Checkpoint
        What :func:`fit` returned, or the file that it wrote (``.pt``).

    Returns
    -------
    Folded
        Its ``network`` is the integer network, with the names of its classes. It makes exactly the
        decisions that the model makes.
    """
    checkpoint = source if isinstance(source, Checkpoint) else load_checkpoint(source)
    with naming("" if isinstance(source, Checkpoint) else f"{source}: "):
        folded = fold_model(checkpoint.model, checkpoint.config.shape)
        named = replace(folded.network, meaning=checkpoint.meaning)
        return replace(folded, network=named)


def fold_model(
    model: nn.Module, shape: tuple[int, int, int], *, drop_unread: bool = True
) -> Folded:
    """Fold a model of raw pixels to the integer network that makes exactly its decisions.

    Parameters
    ----------
    model : nn.Sequential
        The model, in evaluation mode, from an :class:`InputEncoder` to the scores; or a residual
        network with integer streams.
    shape : tuple of int
        Height, width and channels of the images.
    drop_unread : bool
        Remove neurons that nothing reads. Otherwise they keep their taps, so that every hidden bit
        of the model can be compared. A network with integer streams is then not brought into its
        one form either: it has a stage for each stream of the model.

    Returns
    -------
    Folded
        Its ``network`` computes with integers alone.
    """
    modules = flat_modules(model)
    if has_integers(model):
        network, reports, stages = fold_streams(modules, shape, drop_unread=drop_unread)
        return Folded(network, tuple(reports), stages)
    _refuse_real_values(model)
    return _Fold(modules, shape).run(drop_unread)


def check_modules(model: nn.Module) -> None:
    """Refuse a model with modules that are folded nowhere, by the first of them."""
    modules = flat_modules(model)
    if has_integers(model):
        raise ModelRejected(
            "The model has integer streams, which are trained by the name of the model "
            "(`sbnn-hw train --model`)"
        )
    _refuse_real_values(model)
    if not modules or not isinstance(modules[0][1], InputEncoder):
        first = type(modules[0][1]).__name__ if modules else "nothing"
        raise ModelRejected(f"The first layer must be an InputEncoder, not {first}")
    folded = (InputEncoder, SparseBinaryLayer, SignActivation, nn.Flatten, nn.MaxPool2d)
    for name, module in modules:
        if not isinstance(module, (*folded, *NORMS, *_NOTHING)):
            raise _unknown(name, module)


def _unknown(name: str, module: nn.Module) -> ModelRejected:
    return ModelRejected(
        f"Layer {name} is a {type(module).__name__}, which cannot be folded here; use the layers "
        f"of sbnn_hw.train"
    )


def _refuse_real_values(model: nn.Module) -> None:
    """Refuse a model with real-valued layers or shortcuts, naming the first of them."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (nn.Conv2d, "is a real-valued convolution"),
        (nn.Linear, "is a real-valued linear layer"),
    )
    named = list(model.named_modules())
    # `info` counts backbones as they are, and all else as the netlist that there is none of.
    backbone = any(isinstance(module, _BLOCKS) for _, module in named)
    cure = (
        "make its streams integers with `sbnn-hw quantise` before it is built (evaluate with "
        "--using torch, count with info)"
        if backbone
        else "for which no hardware is generated yet (evaluate with --using torch, or train a "
        "binary network with this one as its --teacher)"
    )
    # Blocks last: the layer in a block's shortcut says more than the block that it is in.
    for group in (kinds, ((_BLOCKS, "has a real-valued shortcut"),)):
        for name, module in named:
            for kind, what in group:
                if isinstance(module, kind):
                    raise ModelRejected(f"Layer {name} {what}{'; ' if backbone else ', '}{cure}")


class _Fold:
    def __init__(self, modules: list[tuple[str, nn.Module]], shape: tuple[int, int, int]) -> None:
        self.modules = [pair for pair in modules if not isinstance(pair[1], _NOTHING)]
        encoder = self.modules[0][1] if self.modules else None
        bits = encoder.most.bit_length() if isinstance(encoder, InputEncoder) else 8
        self.assembler = Assembler(Edge.of_bits(shape, bits, scan="raster"))
        #: What the last stage hands on.
        self.at = self.assembler.input
        #: The map that the last flatten read, as torch orders it: (channels, height, width).
        self.flattened: tuple[int, int, int] | None = None
        self.outputs: dict[str, str] = {}
        self.numbers: dict[str, int] = {}

    def name(self, kind: str) -> str:
        number = self.numbers[kind] = self.numbers.get(kind, -1) + 1
        return f"{kind}{number}"

    def run(self, drop_unread: bool) -> Folded:
        at = 0
        if not self.modules or not isinstance(self.modules[0][1], InputEncoder):
            first = type(self.modules[0][1]).__name__ if self.modules else "nothing"
            raise ModelRejected(f"The first layer must be an InputEncoder, not {first}")
        while at < len(self.modules):
            name, module = self.modules[at]
            at += 1
            if isinstance(module, InputEncoder):
                if at > 1:
                    raise ModelRejected(f"Layer {name}: an InputEncoder must be the first layer")
                self._encoder(module, name)
            elif isinstance(module, nn.Flatten):
                self._flatten(name, module)
            elif isinstance(module, nn.MaxPool2d):
                stage = self.name("pool")
                with naming(f"Layer {name}: "):
                    self._pool(stage, module, np.zeros(self.at.edge.channels, bool))
                self.outputs[stage] = name
            elif isinstance(module, SparseBinaryLayer):
                at = self._layer(at, name, module)
            else:
                raise _unknown(name, module)
        network = self.assembler.finish(drop=drop_unread)
        return Folded(network, tuple(self.assembler.reports), self.outputs)

    def _encoder(self, module: InputEncoder, name: str) -> None:
        if module.kind == "integer":
            return  # the first layer adds up the pixels themselves
        channels = self.at.edge.channels
        thresholds = np.array(module.table(channels), np.int64)
        self.at = self.assembler.add("encode", Encode(thresholds), self.at)
        self.outputs["encode"] = name

    def _flatten(self, name: str, module: nn.Flatten) -> None:
        if module.start_dim != 1 or module.end_dim not in (-1, 3):
            raise ModelRejected(f"Layer {name} must flatten all axes after the first")
        if len(self.at.edge.shape) == 3:
            height, width, channels = self.at.edge.shape
            self.flattened = (channels, height, width)
            self.at = self.assembler.add(self.name("flatten"), Flatten(), self.at)

    def _pool(self, stage: str, pool: nn.MaxPool2d, all_of: npt.NDArray[np.bool_]) -> None:
        """Add a pool: OR, but AND in the channels of ``all_of``."""
        self.at = self.assembler.add(stage, MaxPool2d(_pool_window(pool), all_of), self.at)

    def _layer(self, at: int, name: str, layer: SparseBinaryLayer) -> int:
        """Fold a layer with the pool, batch norm and sign behind it; return what comes next."""
        norm: nn.Module | None = None
        pools: list[tuple[str, nn.MaxPool2d, bool]] = []
        end = at
        for other, module in self.modules[at:]:
            end += 1
            if isinstance(module, NORMS) and norm is None:
                norm, norm_name = module, other
            elif isinstance(module, nn.MaxPool2d):
                pools.append((other, module, norm is None))
            elif isinstance(module, SignActivation):
                break
            else:
                raise ModelRejected(
                    f"Layer {other}, a {type(module).__name__}, is between {name} and its sign, "
                    f"where only a batch norm and pools can be folded"
                )
        else:
            if norm is not None or pools:
                raise ModelRejected(
                    f"Layer {norm_name if norm is not None else pools[0][0]} gives the scores "
                    f"of {name} a different scale for each class, which cannot be folded; end "
                    f"with SparseBinaryScores"
                )
            self._scores(name, layer)
            return end
        if isinstance(layer, SparseBinaryScores):
            raise ModelRejected(f"Layer {name}: SparseBinaryScores must be the last layer")
        with naming(f"Layer {name}: "):
            affine = layer.domain.exact()
            values = norm_values(norm, len(layer.weight))
            taps = self._taps(layer)
            trained = Trained(eta=affine.eta, xi=affine.xi, norm=values)
            stage = self.name("conv" if isinstance(layer, SparseBinaryConv2d) else "linear")
            if isinstance(layer, SparseBinaryConv2d):
                self.at = self.assembler.conv(
                    self.at,
                    stage,
                    taps,
                    trained,
                    window=Window(layer.kernel_size, layer.stride, layer.padding),
                    groups=layer.groups,
                    border="minus" if layer.padding_value == -1 else "zero",
                )
            else:
                self.at = self.assembler.linear(self.at, stage, taps, trained)
        for other, pool, before_norm in pools:
            # The largest z is the smallest y where the batch norm's scale is negative.
            all_of = values.gain < 0 if before_norm else np.zeros(len(taps), bool)
            stage = self.name("pool")
            with naming(f"Layer {other}: "):
                self._pool(stage, pool, all_of)
        self.outputs[stage] = self.modules[end - 1][0]
        return end

    def _scores(self, name: str, layer: SparseBinaryLayer) -> None:
        if not isinstance(layer, SparseBinaryLinear):
            raise ModelRejected(f"Layer {name}: the last layer must be linear")
        with naming(f"Layer {name}: "):
            affine = layer.domain.exact()
            taps = self._taps(layer)
            offsets = [Fraction(0)] * len(taps)
            if isinstance(layer, SparseBinaryScores):
                layer.check_scale()
                values = layer.rounded_offset().detach().double().tolist()
                if not all(np.isfinite(values)):
                    raise ModelRejected("its offsets are not finite; train it again")
                offsets = [abs(affine.eta) * Fraction(value) for value in values]
            self.at = self.assembler.scores(
                self.at, "scores", taps, eta=affine.eta, offsets=offsets
            )

    @torch.no_grad()
    def _taps(self, layer: SparseBinaryLayer) -> Taps:
        """Return the taps of a layer, in the netlist's order: channels last."""
        if not bool(torch.isfinite(layer.weight).all()):
            raise ModelRejected("its weights are not finite; train it again")
        signs = layer.signs().to(torch.int8).numpy()
        weights = signs if layer.domain.signed else (signs > 0).astype(np.int8)
        if isinstance(layer, SparseBinaryConv2d):
            outputs, per_group, rows, columns = weights.shape
            last = weights.transpose(0, 2, 3, 1).reshape(outputs, rows * columns, per_group)
            return Taps.from_windows(last, layer.groups)
        if self.flattened is not None and len(self.at.edge.shape) == 1:
            channels, height, width = self.flattened
            if channels * height * width == weights.shape[1]:
                maps = weights.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
                weights = np.ascontiguousarray(maps).reshape(len(weights), -1)
            self.flattened = None
        return Taps.from_dense(weights)


def norm_values(norm: nn.Module | None, neurons: int) -> Norm:
    """Return the numbers of a batch norm, exactly as they are stored."""
    if norm is None:
        return Norm.none(neurons)
    if norm.running_mean is None or norm.running_var is None:
        raise ModelRejected("its batch norm keeps no statistics, so it cannot be folded")
    zeros, ones = torch.zeros(neurons), torch.ones(neurons)
    gain = ones if norm.weight is None else norm.weight
    bias = zeros if norm.bias is None else norm.bias
    values: dict[str, Any] = {
        name: tensor.detach().double().numpy()  # type: ignore[operator]
        for name, tensor in (
            ("gain", gain),
            ("mean", norm.running_mean),
            ("variance", norm.running_var),
            ("bias", bias),
        )
    }
    return Norm(**values, eps=float(norm.eps))  # type: ignore[arg-type]


def _pool_window(pool: nn.MaxPool2d) -> Window:
    if pool.ceil_mode or pool.return_indices or _pair(pool.dilation) != (1, 1):
        raise ModelRejected("a pool with ceil_mode, dilation or indices cannot be folded")
    return Window(_pair(pool.kernel_size), _pair(pool.stride), _pair(pool.padding))


def _pair(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, int) else (int(value[0]), int(value[1]))
