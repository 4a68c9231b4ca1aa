"""Does the integer network say what the trained model says? Every hidden bit, every image.

A model with integer streams computes with integers, in double precision, which has them exactly:
every value of every stream, every bit and every score is compared as it is. Any other
model is evaluated in double precision, layer by layer. Where a pre-activation comes within
1e-9 of zero, doubles may be wrong about its sign: rational arithmetic on the stored numbers
decides, straight from the definition (batch norm of Σ w·x), not by the fold's formulas.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.fold.exact import compare_with_root
from sbnn_hw.netlist import Edge, Encode, Layer, Network, Outcome
from sbnn_hw.train.exact import has_integers
from sbnn_hw.train.fold import NORMS, Folded, flat_modules, norm_values
from sbnn_hw.train.layers import (
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLayer,
    SparseBinaryScores,
)

__all__ = ["FoldCheck", "check_fold"]

#: Pre-activations closer to zero than this are decided by rationals.
CLOSE = 1e-9
# Values of a netlist with streams that are held to be compared.
_VALUES = 1 << 28
# Values of the largest tensor of a torch model: more takes memory, less prepares weights often.
_TENSORS = 1 << 22


@dataclass
class FoldCheck:
    """What the comparison of a model and its network found.

    ``bits`` counts the hidden bits that were compared, those of the encoder and of neurons that
    are not built left out, and ``values`` the integers of streams and scores. ``close`` lists
    (stage, image, index) of the pre-activations, and of the images whose two best scores, rationals
    decided, and whether doubles had them right; ``first`` is the first mismatch.
    """

    images: int = 0
    bits: int = 0
    values: int = 0
    mismatches: int = 0
    class_mismatches: int = 0
    first: str | None = None
    close: list[tuple[str, int, tuple[int, ...], bool]] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether every hidden bit, every value and every class agreed."""
        return self.images > 0 and not self.mismatches and not self.class_mismatches


def check_fold(
    model: nn.Module,
    folded: Folded,
    pixels: np.ndarray[Any, Any],
    *,
    same: Network | None = None,
    chunk: int = 1000,
    progress: Callable[[int], None] = lambda done: None,
) -> FoldCheck:
    """Compare a model and its network on images (count, height, width, channels).

    ``same`` is another network that must give the same scores, such as the one without neurons
    that nothing reads. ``progress`` is called with the number of images that are done.
    """
    result = FoldCheck()
    streams = has_integers(model)
    exact = model if streams else copy.deepcopy(model).double().eval()
    if streams:
        chunk = min(chunk, max(1, _VALUES // sum(e.size for e in _edges(folded.network))))
    for start in range(0, len(pixels), chunk):
        part = pixels[start : start + chunk]
        outcome = folded.network.compute(part, keep=tuple(folded.modules))
        if streams:
            _check_streams(model, folded, part, outcome, start, result, progress)
        else:
            _check_chunk(exact, model, folded, part, outcome, start, result)
        if same is not None and not np.array_equal(outcome.scores, same.compute(part).scores):
            result.class_mismatches += 1
            result.first = result.first or "the scores change when unread neurons are left out"
        progress(start + len(part))
    return result


def _edges(network: Network) -> list[Edge]:
    return [network.edge_from(number) for number in range(len(network.stages))]


@torch.no_grad()
def _check_chunk(
    doubles: nn.Module,
    model: nn.Module,
    folded: Folded,
    pixels: np.ndarray[Any, Any],
    outcome: Outcome,
    start: int,
    result: FoldCheck,
) -> None:
    names = [name for name, _ in flat_modules(model)]
    stage_of = {names.index(module): stage for stage, module in folded.modules.items()}
    absent = {stage.name: stage.absent for stage in folded.network.stages}
    x = torch.from_numpy(np.array(pixels.transpose(0, 3, 1, 2))).double()
    run = _Run([module for _, module in flat_modules(doubles)])
    originals = [module for _, module in flat_modules(model)]
    for index, module in enumerate(run.modules):
        if isinstance(module, SparseBinaryLayer):
            run.begin(index, originals[index], x)
        if isinstance(module, SignActivation):
            bits = x >= 0
            for where in torch.nonzero(x.abs() < CLOSE).tolist():
                right = run.decide(index, where)
                name = stage_of.get(index, "?")
                result.close.append(
                    (name, start + where[0], tuple(where[1:]), bool(bits[tuple(where)]) == right)
                )
                bits[tuple(where)] = right
            # What follows sees the decided bits, as exact arithmetic would.
            x = torch.where(bits, 1.0, -1.0).double()
        else:
            x = module(x)
        if index in stage_of:
            _compare(stage_of[index], x, outcome.values[stage_of[index]], absent, start, result)
    result.images += len(pixels)
    classes = x.argmax(1).numpy()
    best = x.topk(2, dim=1).values
    for image in torch.nonzero(best[:, 0] - best[:, 1] < CLOSE).flatten().tolist():
        winner = run.best_class(image)
        result.close.append(("scores", start + image, (winner,), bool(classes[image] == winner)))
        classes[image] = winner
    _compare_classes(classes, outcome.classes, start, result)


def _compare_classes(
    want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], start: int, result: FoldCheck
) -> None:
    wrong = np.flatnonzero(want != got)
    result.class_mismatches += len(wrong)
    if len(wrong) and result.first is None:
        result.first = (
            f"image {start + wrong[0]}: model says {want[wrong[0]]}, netlist says {got[wrong[0]]}"
        )


@torch.no_grad()
def _check_streams(
    model: nn.Module,
    folded: Folded,
    pixels: np.ndarray[Any, Any],
    outcome: Outcome,
    start: int,
    result: FoldCheck,
    progress: Callable[[int], None],
) -> None:
    network = folded.network
    # What nothing reads may be left out; then only what is read is compared.
    whole = not any(len(stage.absent) for stage in network.stages)
    at, seen = 0, set[int]()

    def compare(number: int) -> Any:
        stage = network.stages[number]
        bits = isinstance(stage.operation, Encode | Layer)
        read = np.True_ if whole else network.read[number]
        count = network.edge_from(number).size if whole else int(read.sum())
        values = outcome.values[stage.name]

        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            seen.add(number)
            x = output.numpy()
            want = x.transpose(0, 2, 3, 1) if x.ndim == 4 else x
            different = ((want > 0) if bits else want) != values[at : at + len(x)]
            _note(stage.name, different & read, start + at, result)
            if bits:
                result.bits += len(x) * count
            else:
                result.values += len(x) * count

        return hook

    modules = {
        number: folded.modules[stage.name]
        for number, stage in enumerate(network.stages)
        if stage.name in folded.modules
    }
    hooks = [
        model.get_submodule(name).register_forward_hook(compare(number))
        for number, name in modules.items()
    ]
    few = max(1, _TENSORS // max(edge.size for edge in _edges(network)))
    classes = []
    try:
        while at < len(pixels):
            images = np.ascontiguousarray(pixels[at : at + few].transpose(0, 3, 1, 2))
            seen.clear()
            classes.append(model(torch.from_numpy(images)).argmax(1).numpy())
            if missing := [name for number, name in modules.items() if number not in seen]:
                raise RuntimeError(f"Module {missing[0]} of the model was not run")
            at += len(images)
            progress(start + at)
    finally:
        for each in hooks:
            each.remove()
    result.images += len(pixels)
    _compare_classes(np.concatenate(classes), outcome.classes, start, result)


def _compare(
    name: str,
    x: Tensor,
    got: np.ndarray[Any, Any],
    absent: dict[str, Any],
    start: int,
    result: FoldCheck,
) -> None:
    want = (x > 0).numpy()
    if want.ndim == 4:
        want = want.transpose(0, 2, 3, 1)
    different = want != (got > 0)
    different[..., absent[name]] = False  # nothing reads them, so they are not built
    if name != "encode":
        built = different.shape[-1] - len(absent[name])
        result.bits += different[..., 0].size * built
    _note(name, different, start, result)


def _note(name: str, different: np.ndarray[Any, Any], start: int, result: FoldCheck) -> None:
    """Count the values of a stage that differ."""
    count = int(different.sum())
    result.mismatches += count
    if count and result.first is None:
        image, *where = (int(axis[0]) for axis in np.nonzero(different))
        result.first = f"image {start + image}: stage {name} differs at {tuple(where)}"


class _Run:
    """Where in the model the check is, so that a close call can be traced back to its layer."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        #: The largest value of the input.
        self.most = getattr(modules[0], "most", 255)

    def begin(self, index: int, layer: nn.Module, x: Tensor) -> None:
        assert isinstance(layer, SparseBinaryLayer)
        self.start, self.layer, self.x = index, layer, x

    def decide(self, sign: int, where: list[int]) -> bool:
        """Decide by rationals whether the pre-activation at (image, channel, …) is ≥ 0."""
        between = self.modules[self.start + 1 : sign]
        norm = next((module for module in between if isinstance(module, NORMS)), None)
        image, channel, *position = where
        return self._bit(between, norm, image, channel, position)

    def _bit(
        self,
        between: list[nn.Module],
        norm: nn.Module | None,
        image: int,
        channel: int,
        position: list[int],
    ) -> bool:
        last = between[-1] if between else None
        if isinstance(last, nn.MaxPool2d):
            # The largest of the window fires if any fires; before a negative scale, if all do.
            cells = _window_cells(last, self._map_size(between[:-1]), position)
            bits = [self._bit(between[:-1], norm, image, channel, cell) for cell in cells]
            behind_norm = any(isinstance(module, NORMS) for module in between[:-1])
            negative = norm is not None and not behind_norm and bool(norm.weight[channel] < 0)  # type: ignore[index]
            return all(bits) if negative else any(bits)
        if last is not None and isinstance(last, NORMS):
            rest = between[:-1]
            if any(isinstance(module, nn.MaxPool2d) for module in rest):
                return self._bit(rest, norm, image, channel, position)
        elif last is not None:
            return self._bit(between[:-1], norm, image, channel, position)
        return self._fires(norm, image, channel, position)

    def _map_size(self, modules: list[nn.Module]) -> tuple[int, int]:
        y = self.modules[self.start](self.x[:1])
        for module in modules:
            y = module(y)
        return y.shape[2], y.shape[3]

    def _fires(self, norm: nn.Module | None, image: int, channel: int, position: list[int]) -> bool:
        z = self._exact_z(image, channel, position)
        values = norm_values(norm, len(self.layer.weight))
        gain, mean, bias = (Fraction(v[channel]) for v in (values.gain, values.mean, values.bias))
        spread = Fraction(values.variance[channel]) + Fraction(values.eps)
        return compare_with_root(gain * (z - mean), -bias, spread) >= 0

    def _exact_z(self, image: int, channel: int, position: list[int]) -> Fraction:
        """Return Σ w·x of a neuron, exactly."""
        layer = self.layer
        affine = layer.domain.exact()
        signs = layer.signs()[channel]
        x, inside = self._inputs(layer, image, channel, position)
        total = Fraction(0)
        for weight, value, valid in zip(
            signs.flatten().tolist(), x.flatten().tolist(), inside.flatten().tolist(), strict=True
        ):
            if valid:
                one = weight if layer.domain.signed else (weight > 0)
                total += (int(one) + affine.xi) * _exact_input(value, self.most)
        return affine.eta * total

    def best_class(self, image: int) -> int:
        """Return the first class of largest score, by rationals; the scale is positive."""
        layer = self.layer
        scores = [self._exact_z(image, c, []) for c in range(len(layer.weight))]
        if isinstance(layer, SparseBinaryScores):
            unit = abs(layer.domain.exact().eta)
            offsets = layer.rounded_offset().double().tolist()
            scores = [z + unit * Fraction(o) for z, o in zip(scores, offsets, strict=True)]
        return scores.index(max(scores))

    def _inputs(
        self, layer: SparseBinaryLayer, image: int, channel: int, position: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Return the window that a neuron sees, and which of it is inside the map."""
        x = self.x[image]
        if not isinstance(layer, SparseBinaryConv2d):
            return x, torch.ones_like(x, dtype=torch.bool)
        rows, columns = layer.padding
        around = (columns, columns, rows, rows)
        padded = F.pad(x, around, value=float(layer.padding_value))
        valid = F.pad(torch.ones_like(x), around, value=float(layer.padding_value == -1)) > 0
        per_group = layer.in_channels // layer.groups
        first = channel // (layer.out_channels // layer.groups) * per_group
        top, left = position[0] * layer.stride[0], position[1] * layer.stride[1]
        window = (
            slice(first, first + per_group),
            slice(top, top + layer.kernel_size[0]),
            slice(left, left + layer.kernel_size[1]),
        )
        return padded[window], valid[window]


def _exact_input(value: float, most: int) -> Fraction:
    """Return an activation, −1 or +1, or a pixel (2p − most)/most exactly."""
    return Fraction(round((value * most + most) / 2) * 2 - most, most)


def _window_cells(
    pool: nn.MaxPool2d, size: tuple[int, int], position: list[int]
) -> list[list[int]]:
    kernel, stride, padding = (
        (v, v) if isinstance(v, int) else (v[0], v[1])
        for v in (pool.kernel_size, pool.stride, pool.padding)
    )
    ranges = [
        [i for i in range(p * s - q, p * s - q + k) if 0 <= i < n]
        for p, s, q, k, n in zip(position, stride, padding, kernel, size, strict=True)
    ]
    return [[row, column] for row in ranges[0] for column in ranges[1]]
