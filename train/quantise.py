"""From real-valued streams to integers: a trained backbone becomes one with integer streams."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected, UsageError, naming
from sbnn_hw.train.blocks import RealConv2d
from sbnn_hw.train.checkpoint import Checkpoint, is_computed
from sbnn_hw.train.config import XI_BITS
from sbnn_hw.train.data import TrainingImages
from sbnn_hw.train.domains import LearnedOnGrid
from sbnn_hw.train.exact import StreamAffine, real_valued, settle
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.norm import recompute_statistics
from sbnn_hw.train.streams import Stream, place_streams

__all__ = ["Measured", "Quantised", "StreamReport", "count_clamped", "measure", "quantise"]

#: Images that pass the network at a time: integers are held in float64, which takes room.
_PART = 250


@dataclass(frozen=True)
class Quantised:
    """A checkpoint with integer streams, and by how much each layer's ξ was moved."""

    checkpoint: Checkpoint
    moved: dict[str, float]


@dataclass(frozen=True)
class StreamReport:
    """A stream, what its integers stand for, and how many of its values were clamped."""

    name: str
    bits: int
    #: f: an integer r stands for r·2^−f.
    fraction: int
    clamped: int
    values: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "share": self.clamped / self.values if self.values else 0.0}


@dataclass(frozen=True)
class Measured:
    """What integers have changed, on some images."""

    images: int
    #: Images in their right class, by the real values and by the integers.
    before: int
    after: int
    #: Images that are in another class than before.
    changed: int
    streams: tuple[StreamReport, ...]


def quantise(
    checkpoint: Checkpoint,
    training: TrainingImages,
    *,
    stream_bits: int = 8,
    weight_bits: int = 8,
    multiplier_digits: int = 0,
    xi_bits: int | None = None,
    images: int = 1000,
    recalibrate: int = 0,
) -> Quantised:
    """Return a backbone with integer streams, computed from the real values of a checkpoint.

    The fraction of each stream is chosen by the first ``images`` of the training images, and with
    ``recalibrate`` the statistics of the batch norms are computed again from the first that many.
    ``xi_bits`` puts ξ on multiples of 2^−xi_bits; where ξ
    is not on a grid, it is put on one of 8 bits if nothing is said. With ``multiplier_digits`` the
    multipliers in front of streams are sums of at most that many powers of two.
    """
    config = replace(
        _config(checkpoint, stream_bits, weight_bits, xi_bits), multiplier_digits=multiplier_digits
    )
    model = build_model(config).eval()
    moved = _copy(checkpoint.model, model)

    def first(most: int) -> Iterator[Tensor]:
        batches = (pixels for pixels, _ in training.evaluation_batches(most))
        return (part for pixels in batches for part in torch.split(pixels, _PART))

    with real_valued(model):
        place_streams(model, lambda: first(images))
        if recalibrate:
            if multiplier_digits:
                settle(model)  # the statistics are those of the rounded scales
            recompute_statistics(model, lambda: first(recalibrate))
            place_streams(model, lambda: first(images))
    settle(model)
    metrics = {k: v for k, v in checkpoint.metrics.items() if k in ("ones", "weights")}
    history = {**checkpoint.training, "quantised": {"images": images, "recalibrate": recalibrate}}
    made = Checkpoint(config, model, history, metrics, checkpoint.meaning)
    return Quantised(made, moved)


def _config(
    checkpoint: Checkpoint, stream_bits: int, weight_bits: int, xi_bits: int | None
) -> ModelConfig:
    config = checkpoint.config
    if not config.is_backbone:
        raise ModelRejected(f"Model {config.name} has no streams to quantise; build it as it is")
    for name, module in checkpoint.model.named_modules():
        if isinstance(module, RealConv2d):
            raise ModelRejected(
                f"Layer {name} is a convolution of signs with real weights, which has no integers; "
                f"train it with binary weights (--start), and quantise that"
            )
    if config.domain in ("learned", "closed_form"):
        grid = xi_bits or config.xi_bits or XI_BITS
        config = replace(config, domain="learned", xi_bits=grid)
    elif xi_bits is not None:
        raise UsageError(
            f"Weights of the domain {config.domain} have a ξ that is on a grid already; omit "
            f"--xi-bits"
        )
    return replace(config, stream_bits=stream_bits, weight_bits=weight_bits)


@torch.no_grad()
def _copy(given: nn.Module, model: nn.Module) -> dict[str, float]:
    """Copy all real values; return by how much ξ was moved, layer by layer."""
    values, moved = given.state_dict(), {}
    layers = {n: m for n, m in given.named_modules() if isinstance(m, SparseBinaryLayer)}
    for name, layer in model.named_modules():
        if not isinstance(layer, SparseBinaryLayer) or not isinstance(layer.domain, LearnedOnGrid):
            continue
        with naming(f"Layer {name}: "):
            xi = layers[name].domain.exact().xi
        if abs(xi) >= 1 << 7:
            raise ModelRejected(f"Layer {name}: ξ is {float(xi):g}, too large for a grid")
        layer.domain.xi.fill_(float(xi))
        values[f"{name}.domain.xi"] = layer.domain.xi.detach().clone()
        moved[name] = float(abs(layer.domain.exact().xi - xi))
    own = model.state_dict()
    # What is computed from the others is computed again.
    model.load_state_dict(
        {k: v if is_computed(k, v) else values[k] for k, v in own.items()},
        strict=True,
    )
    return moved


@contextmanager
def count_clamped(model: nn.Module) -> Iterator[list[StreamReport]]:
    """Count the values that streams clamp; the list is filled at the end."""
    affines = {n: m for n, m in model.named_modules() if isinstance(m, StreamAffine)}
    for affine in affines.values():
        affine.clamped = (0, 0)
    found: list[StreamReport] = []
    try:
        yield found
        for name, affine in affines.items():
            stream = _stream_of(model, name)
            clamped, values = affine.clamped or (0, 0)
            short = name.removesuffix(".affine")
            found.append(StreamReport(short, affine.bits, stream.placed, clamped, values))
    finally:
        for affine in affines.values():
            affine.clamped = None


def _stream_of(model: nn.Module, affine: str) -> Stream:
    """Return the stream that the integers of an affine are those of."""
    parent = affine.rpartition(".")[0]
    if parent.endswith(".affines"):
        parent = parent.rpartition(".")[0]
    stream = model.get_submodule(f"{parent}.stream")
    assert isinstance(stream, Stream)
    return stream


def measure(
    before: nn.Module,
    after: nn.Module,
    images: TrainingImages,
    *,
    watch: Callable[[str], Callable[[int], None]] = lambda which: lambda done: None,
) -> Measured:
    """Evaluate a model before and after, on the same images.

    ``watch`` is called with what is evaluated, and returns what is called with the number of images
    that are done.
    """
    labels = torch.cat([labels for _, labels in images.evaluation_batches()])
    one = _classes(before, images, watch("the model as it is"))
    with count_clamped(after) as streams:
        two = _classes(after, images, watch("its integers"))
    return Measured(
        images=len(labels),
        before=int((one == labels).sum()),
        after=int((two == labels).sum()),
        changed=int((one != two).sum()),
        streams=tuple(streams),
    )


@torch.no_grad()
def _classes(model: nn.Module, images: TrainingImages, progress: Callable[[int], None]) -> Tensor:
    """Return the class that a model, as it is, gives each image."""
    found: list[Tensor] = []
    for pixels, _ in images.evaluation_batches():
        for part in torch.split(pixels, _PART):
            found.append(model(part).argmax(1))
            progress(sum(map(len, found)))
    return torch.cat(found)
