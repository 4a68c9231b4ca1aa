"""Fold a network with integer streams: its stored integers become the operations of a netlist.

Nothing is solved or rounded here. A binary convolution's V = Σ (2^k·w01 + Ξ)·x of signs x is
2·P − (2^k·|S| + Ξ·N), where P are sums of bits, |S| a neuron's taps and N its inputs; where padding
is zero the netlist's sums are V themselves.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected, naming
from sbnn_hw.fold.assemble import Assembler, Handle, LayerReport, Summed
from sbnn_hw.netlist import (
    Affine,
    Concat,
    Edge,
    Flatten,
    MaxPool2d,
    Network,
    Scores,
    SumPool2d,
    Sums,
    Taps,
    Window,
)
from sbnn_hw.train.blocks import (
    BiRealBlock,
    IRNetBlock,
    LevelSign,
    RawPixels,
    ReActBlock,
    ReActMobileBlock,
    ThresholdSign,
    XnorBlock,
)
from sbnn_hw.train.exact import StreamAffine
from sbnn_hw.train.integers import (
    ClassNorm,
    IntegerConv2d,
    IntegerLinear,
    MeanOfFour,
    MeanOfMap,
    PixelConv2d,
    Repeat,
    SignNorm,
    StreamNorm,
    SumConv2d,
)
from sbnn_hw.train.layers import SignActivation

__all__ = ["fold_streams"]

Int = npt.NDArray[np.int64]


@torch.no_grad()
def fold_streams(
    modules: list[tuple[str, nn.Module]], shape: tuple[int, int, int], *, drop_unread: bool
) -> tuple[Network, list[LayerReport], dict[str, str]]:
    """Return the network of modules, reports, and the module whose output each stage has."""
    fold = _Fold(shape)
    at = fold.assembler.input
    sums: Summed | None = None
    for name, module in modules:
        with naming(f"Layer {name}: "):
            if isinstance(module, RawPixels | ClassNorm):
                continue  # what they do is in the integers of the layer behind them
            if isinstance(module, PixelConv2d | IntegerConv2d):
                sums = fold.sums(name, module, at)
            elif isinstance(module, StreamNorm) and sums is not None:
                at = fold.affine(f"{name}.affine", module.affine, sums)
            elif isinstance(module, IntegerLinear):
                at = fold.scores(name, module, at)
            elif isinstance(module, nn.MaxPool2d | MeanOfMap | nn.Flatten):
                at = fold.whole_map(name, module, at)
            else:
                at = fold.block(name, module, at)
    network = fold.assembler.finish_streams(drop=drop_unread)
    kept = {stage.name for stage in network.stages}
    outputs = {stage: module for stage, module in fold.modules.items() if stage in kept}
    return network, fold.assembler.reports, outputs


class _Fold:
    """Adds the stages of modules: each takes handles of what it reads and returns its own."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.assembler = Assembler(Edge.of_bits(shape, 8, scan="raster"))
        #: The module whose output each stage has, by the stage's name.
        self.modules: dict[str, str] = {}

    def _name(self, module: str) -> str:
        """Return the name of the stage that has a module's output."""
        stage = module.replace(".", "_")
        self.modules[stage] = module
        return stage

    # Sums

    def sums(self, name: str, conv: nn.Module, at: Handle) -> Summed:
        """Add the sums of a convolution."""
        stage = name.replace(".", "_")
        if isinstance(conv, IntegerConv2d):
            weight = _integers(conv.integers)
            window = Window(conv.kernel_size, conv.stride, (conv.border, conv.border))  # type: ignore[arg-type]
            pad = np.array(conv.pixels or [0] * conv.in_channels) if conv.border else None
            return self.assembler.sums(at, stage, _weighted(weight, window, pad))
        assert isinstance(conv, SumConv2d)
        signs = _integers(conv.signs())
        xi = conv.domain.exact().xi
        if conv.domain.signed:
            numerator, k, ones = 0, 0, signs
        else:
            numerator, k = xi.numerator, xi.denominator.bit_length() - 1
            ones = (signs > 0).astype(np.int64)
        if isinstance(conv, PixelConv2d):
            border = (conv.border, conv.border)
            window = Window(conv.kernel_size, conv.stride, border)
            pad = np.full(conv.in_channels, conv.PIXEL) if conv.border else None
            if conv.domain.signed:
                return self.assembler.sums(at, stage, _weighted(signs, window, pad))
            made = Sums(
                taps=_taps(ones), channels=conv.in_channels, window=window, xi=numerator, k=k,
                pad=pad,
            )  # fmt: skip
            return self.assembler.sums(at, stage, made)
        zero = conv.padding_value == 0 and any(conv.padding)
        made = Sums(
            taps=_taps(ones),
            channels=conv.in_channels,
            window=Window(conv.kernel_size, conv.stride, conv.padding),
            xi=numerator,
            k=k,
            border="zero" if zero else "minus",
        )
        found = self.assembler.sums(at, stage, made)
        if zero:
            return found
        # With inverted taps P counts complements, so that |S| is the number of all taps.
        least = (made.taps.fan_in.astype(np.int64) << k) + numerator * ones[0].size
        return Summed(found.handle, 2, 2 * found.moved - least)

    # Streams

    def affine(self, name: str, affine: nn.Module, sums: Summed, *joined: Handle) -> Handle:
        """Add what scales sums, and joins a shortcut."""
        assert isinstance(affine, StreamAffine)
        rows = [_integers(affine.multiplier)]
        rows += [np.full(affine.channels, 1 << int(affine.second)) for _ in joined]
        shift, slope_shift = int(affine.shift), 0
        slopes = behind = None
        if affine.slope:
            slope_shift = int(affine.slope_bits)
            slopes, behind = _integers(affine.below), _integers(affine.behind)
        if shift < slope_shift:
            raise ModelRejected(
                f"its shift of {shift} is less than that of its slopes, {slope_shift}; use "
                f"`sbnn-hw quantise` again"
            )
        made = Affine(
            multipliers=np.array(rows),
            offsets=_integers(affine.offset),
            shift=shift - slope_shift,
            low=affine.low,
            high=affine.high,
            slopes=slopes,
            slope_shift=slope_shift,
            offsets_behind=behind,
        )
        return self.assembler.affine(self._name(name), made, sums, *joined)

    def shortcut(self, name: str, module: nn.Module, at: Handle) -> Handle:
        """Add what a stream passes on its way round a block."""
        if isinstance(module, nn.Identity):
            return at
        single = not isinstance(module, nn.Sequential)
        parts = [(name, module)] if single else [
            (f"{name}.{part}", child) for part, child in module.named_children()
        ]  # fmt: skip
        sums: Summed | None = None
        for part, child in parts:
            if isinstance(child, MeanOfFour):
                pool = SumPool2d(Window((2, 2), (2, 2), (0, 0)), ceil=True)
                at = self.assembler.add(self._name(part), pool, at)
            elif isinstance(child, Repeat):
                if child.times > 1:
                    at = self.assembler.add(
                        self._name(part), Concat(child.times), *[at] * child.times
                    )
            elif isinstance(child, IntegerConv2d):
                sums = self.sums(part, child, at)
            elif isinstance(child, StreamNorm) and sums is not None:
                at = self.affine(f"{part}.affine", child.affine, sums)
            else:
                raise _unknown(part, child)
        return at

    def whole_map(self, name: str, module: nn.Module, at: Handle) -> Handle:
        """Add a pool of a stream, or what makes a vector of it."""
        if isinstance(module, nn.MaxPool2d):
            window = Window(
                *(_pair(v) for v in (module.kernel_size, module.stride, module.padding))
            )
            none = np.zeros(at.edge.channels, bool)
            return self.assembler.add(self._name(name), MaxPool2d(window, none), at)
        if isinstance(module, MeanOfMap):
            size = (at.edge.shape[0], at.edge.shape[1])
            return self.assembler.add(self._name(name), SumPool2d(Window(size, size, (0, 0))), at)
        return self.assembler.add(self._name(name), Flatten(), at)

    def scores(self, name: str, layer: IntegerLinear, at: Handle) -> Handle:
        """Add the classifier; the batch norm in front of it is in its integers."""
        weight = _integers(layer.integers)
        made = Scores(
            taps=Taps.from_dense((weight != 0).astype(np.int8)),
            weights=weight[np.nonzero(weight)],
            offsets=_integers(layer.offsets),
        )
        self.modules["scores"] = name
        return self.assembler.weighted_scores(at, "scores", made)

    # Bits

    def bits(self, name: str, module: nn.Module, sums: Summed | Handle) -> Handle:
        """Add the signs that a module gives of sums, or of a stream."""
        if isinstance(sums, Handle):
            sums = Summed(sums, 1, np.zeros(sums.edge.channels, np.int64))
        thresholds, flips = np.zeros_like(sums.moved), None
        if isinstance(module, SignNorm):
            thresholds, flips = _integers(module.threshold), module.flip.cpu().numpy()
        elif isinstance(module, ThresholdSign):
            thresholds = _integers(module.threshold)
        elif isinstance(module, LevelSign):
            levels = _integers(module.thresholds)
            thresholds = np.broadcast_to(levels, (len(thresholds), len(levels)))
        elif not isinstance(module, SignActivation):
            raise _unknown(name, module)
        return self.assembler.signs(self._name(name), thresholds, sums, flips)

    # Blocks

    def block(self, name: str, block: nn.Module, at: Handle) -> Handle:
        """Add a residual block."""
        if isinstance(block, IRNetBlock):
            assert isinstance(block.bn2, StreamNorm)
            bits = self.bits(f"{name}.sign1", block.sign1, at)
            sums = self.sums(f"{name}.conv1", block.conv1, bits)
            bits = self.bits(f"{name}.bn1", block.bn1, sums)
            sums = self.sums(f"{name}.conv2", block.conv2, bits)
            shortcut = self.shortcut(f"{name}.shortcut", block.shortcut, at)
            return self.affine(f"{name}.bn2.affine", block.bn2.affine, sums, shortcut)
        if isinstance(block, BiRealBlock | ReActBlock):
            assert isinstance(block.bn, StreamNorm)
            bits = self.bits(f"{name}.sign", block.sign, at)
            sums = self.sums(f"{name}.conv", block.conv, bits)
            shortcut = self.shortcut(f"{name}.shortcut", block.shortcut, at)
            return self.affine(f"{name}.bn.affine", block.bn.affine, sums, shortcut)
        if isinstance(block, XnorBlock):
            assert block.affine is not None
            bits = self.bits(f"{name}.bn1", block.bn1, at)
            sums = self.sums(f"{name}.conv1", block.conv1, bits)
            bits = self.bits(f"{name}.bn2", block.bn2, sums)
            sums = self.sums(f"{name}.conv2", block.conv2, bits)
            shortcut = self.shortcut(f"{name}.shortcut", block.shortcut, at)
            return self.affine(f"{name}.affine", block.affine, sums, shortcut)
        if isinstance(block, ReActMobileBlock):
            return self._mobile(name, block, at)
        raise _unknown(name, block)

    def _mobile(self, name: str, block: ReActMobileBlock, at: Handle) -> Handle:
        assert isinstance(block.bn1, StreamNorm)
        bits = self.bits(f"{name}.sign1", block.sign1, at)
        sums = self.sums(f"{name}.conv1", block.conv1, bits)
        shortcut = self.shortcut(f"{name}.pool", block.pool, at)
        at = self.affine(f"{name}.bn1.affine", block.bn1.affine, sums, shortcut)
        bits = self.bits(f"{name}.sign2", block.sign2, at)
        parts = [
            self.affine(
                f"{name}.affines.{number}",
                affine,
                self.sums(f"{name}.conv2.{number}", conv, bits),
                at,
            )
            for number, (conv, affine) in enumerate(zip(block.conv2, block.affines, strict=True))
        ]
        if len(parts) == 1:
            return parts[0]
        return self.assembler.add(self._name(name), Concat(len(parts)), *parts)


def _unknown(name: str, module: nn.Module) -> ModelRejected:
    return ModelRejected(
        f"{name} is a {type(module).__name__}, which cannot be folded between integer streams"
    )


def _integers(values: Tensor) -> Int:
    return values.cpu().numpy().astype(np.int64)


def _last(weight: Int) -> Int:
    """Return weights (outputs, inputs, rows, columns) with their channels last, as taps have it."""
    outputs, inputs, rows, columns = weight.shape
    return weight.transpose(0, 2, 3, 1).reshape(outputs, rows * columns, inputs)


def _taps(weight: Int) -> Taps:
    return Taps.from_windows(_last(weight).astype(np.int8))


def _weighted(weight: Int, window: Window, pad: Int | None) -> Sums:
    last = _last(weight)
    taps = Taps.from_windows((last != 0).astype(np.int8))
    weights = last[np.nonzero(last)]
    return Sums(taps=taps, weights=weights, channels=weight.shape[1], window=window, pad=pad)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
