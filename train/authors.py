"""The checkpoints of the paper's authors: their state dicts as models of ours.

Their code (github.com/robustml-eurecom/SBNN) has three networks, each with names of its own. Their
activations have sign(0) = 0 and ours +1, which no weight of theirs can express: a real-valued sum
that is exactly zero does not occur in practice.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sbnn_hw.errors import ModelRejected, UsageError, naming
from sbnn_hw.train.checkpoint import Checkpoint, check_state, named_tensors, read_tensors
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.sparsity import count_weights, layers_of

__all__ = ["CLASSES", "LAYOUTS", "SHAPES", "Conversion", "Layout", "convert"]

#: Images of the data sets that the authors trained on: height, width and channels.
SHAPES = {"cifar10": (32, 32, 3), "cifar100": (32, 32, 3), "imagenet": (224, 224, 3)}
#: Their classes. The authors' network for CIFAR-100 has a thousand outputs all the same.
CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}


@dataclass(frozen=True)
class Layout:
    """How the authors' file of one network differs from ours."""

    #: Their first convolution, whose shape tells the width, and their classifier.
    first: str
    last: str
    #: Channels of the first convolution at the width of the paper.
    channels: int
    #: What they train the weights' sign with.
    gradient: str
    #: Their sign of a weight that is exactly zero: 0, which is no binary weight, or −1.
    zero: int
    #: Whether their file has τ and φ even where the run used a scale for each channel instead.
    scaled_unless_learned: bool
    #: What turns our names into theirs: patterns with what replaces them, one after the other.
    names: tuple[tuple[str, str], ...]


LAYOUTS = {
    "resnet18": Layout(
        first="conv1.weight",
        last="linear.weight",
        channels=64,
        gradient="ede",
        zero=0,
        scaled_unless_learned=False,
        names=((r"\.domain\.", "."),),
    ),
    "reactnet18": Layout(
        first="conv1.weight",
        last="fc.weight",
        channels=64,
        gradient="identity",
        zero=-1,
        scaled_unless_learned=True,
        names=(
            (r"\.domain\.", "."),
            (r"\.sign\.shift\.", ".move0."),
            (r"\.conv\.", ".binary_conv."),
            (r"\.bn\.", ".bn1."),
            (r"\.shortcut\.", ".downsample."),
            (r"\.prelu\.before\.", ".move1."),
            (r"\.prelu\.behind\.", ".move2."),
            (r"\.prelu\.prelu\.", ".prelu."),
        ),
    ),
    "reactnet_a": Layout(
        first="feature.0.conv1.weight",
        last="fc.weight",
        channels=32,
        gradient="clipped",
        zero=0,
        scaled_unless_learned=False,
        names=(
            (r"^(conv1|bn1)\.", r"feature.0.\1."),
            (r"^block(\d+)\.", r"feature.\1."),
            (r"\.domain\.", "."),
            (r"\.sign([12])\.shift\.", r".move\g<1>1."),
            (r"\.prelu([12])\.before\.", r".move\g<1>2."),
            (r"\.prelu([12])\.behind\.", r".move\g<1>3."),
            (r"\.prelu([12])\.prelu\.", r".prelu\1."),
            (r"^(feature\.[1-9]\d*)\.conv1\.weight$", r"\1.binary_3x3.weights"),
            (r"^(feature\.[1-9]\d*)\.conv1\.", r"\1.binary_3x3."),
            (r"\.conv2\.(\d)\.weight$", r".conv2.\1.weights"),
            (r"\.conv2\.0\.", ".binary_pw_down1."),
            (r"\.conv2\.1\.", ".binary_pw_down2."),
            (r"\.bn2\.0\.", ".bn2_1."),
            (r"\.bn2\.1\.", ".bn2_2."),
        ),
    ),
}


@dataclass(frozen=True)
class Conversion:
    """A converted checkpoint, and what was found on the way."""

    checkpoint: Checkpoint
    #: How many weights were exactly zero, by their name of the layer; only layers with some.
    zeros: dict[str, int]


def convert(path: str | Path, model: str, data: str) -> Conversion:
    """Read a file of the authors as a checkpoint of ours.

    ``model`` is one of their networks (:data:`LAYOUTS`). ``data`` is the data set that it was
    trained on (:data:`SHAPES`), which tells how pixels are normalised.
    """
    for what, name, known in (("Model", model, LAYOUTS), ("Data set", data, SHAPES)):
        if name not in known:
            raise UsageError(f"{what} must be one of {', '.join(known)}, not {name!r}")
    content = read_tensors(
        path,
        "checkpoint of the authors",
        absent="name a file that their code wrote",
        damaged="fetch it again",
    )
    with naming(f"{path} as the authors' {model}: "):
        return _converted(content, Path(path).name, model, data)


def _converted(content: dict[str, Any], file: str, name: str, data: str) -> Conversion:
    layout = LAYOUTS[name]
    state = _state(content)
    if any(key.endswith(".patterns") for key in state):
        raise ModelRejected(
            "it was trained with their Subbit option (Sub-bit Neural Networks, Wang et al., 2021), "
            "which gives each kernel one of a few patterns; that method is not supported"
        )
    config = ModelConfig(
        name=name,
        shape=SHAPES[data],
        classes=_rows(state, layout.last),
        gradient=layout.gradient,
        normalise=data,
        padding_value=0,
        width=_rows(state, layout.first) / layout.channels,
    )
    if not any(key.endswith((".tau", ".phi")) for key in state):
        raise ModelRejected(
            "it has no τ and φ, so its binary domain is not learned; only networks with a learned "
            "domain can be converted"
        )
    # On the meta device nothing is allocated: the file's tensors must fit first.
    with torch.device("meta"):
        model = build_model(config)
    ours = model.state_dict()
    binary = [key.removesuffix(".cut") for key in ours if key.endswith(".cut")]
    theirs = _names([key for key in ours if not key.endswith(".cut")], layout)
    flat = {key for key in theirs if theirs[key].endswith(".weights")}
    check_state(state, {theirs[k]: ours[k].view(-1, 1) if k in flat else ours[k] for k in theirs})
    for key, value in state.items():
        if not torch.isfinite(value).all():
            raise ModelRejected(f"{key} has values that are not finite, so its training has failed")
    _check_learned(state, layout)
    weights = {theirs[f"{layer}.weight"] for layer in binary}
    zeros = _zeros(state, weights, layout)
    for key in weights:
        state[key] = torch.where(state[key] == 0, -1.0, state[key])
    filled = {key: state[theirs[key]].reshape(ours[key].shape).clone() for key in theirs}
    filled |= {f"{layer}.cut": torch.zeros(ours[f"{layer}.cut"].shape) for layer in binary}
    model.load_state_dict(filled, assign=True)
    layers = layers_of(model)
    metrics = {
        "ones": sum(int(layer.ones().item()) for layer in layers),
        "weights": count_weights(layers),
        **_claims(content),
    }
    training = {"converted": file, "model": name, "data": data}
    return Conversion(Checkpoint(config, model.eval(), training, metrics), zeros)


def _state(content: dict[str, Any]) -> dict[str, Tensor]:
    """Return the state dict of a file, without what `nn.DataParallel` puts before its names."""
    inside = next((content[key] for key in ("net", "state_dict") if key in content), content)
    state = named_tensors(inside)
    if all(key.startswith("module.") for key in state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    # How many batches a batch norm has seen plays no part in what it computes.
    return {k: v for k, v in state.items() if not k.endswith(".num_batches_tracked")}


def _rows(state: Mapping[str, Tensor], key: str) -> int:
    if key not in state:
        raise ModelRejected(f"it lacks {key}")
    if not state[key].dim():
        raise ModelRejected(f"{key} must have rows, but is a single number")
    return len(state[key])


def _names(keys: list[str], layout: Layout) -> dict[str, str]:
    """Return their name for each of ours."""
    names = {}
    for key in keys:
        name = key
        for pattern, replacement in layout.names:
            name = re.sub(pattern, replacement, name)
        names[key] = name
    # Where the channels do not double there is one 1×1 convolution, and it has no number.
    doubled = {name.split(".binary_pw_down2.")[0] for name in names.values() if "_down2." in name}
    for key, name in names.items():
        block = ".".join(name.split(".")[:2])
        if block not in doubled:
            name = name.replace(".binary_pw_down1.", ".binary_pw.").replace(".bn2_1.", ".bn2.")
        names[key] = name
    return names


def _check_learned(state: Mapping[str, Tensor], layout: Layout) -> None:
    untouched = all(
        bool((value == start).all())
        for end, start in ((".tau", 1.0), (".phi", 0.0))
        for key, value in state.items()
        if key.endswith(end)
    )
    if layout.scaled_unless_learned and untouched:
        raise ModelRejected(
            "every τ is 1 and every φ is 0, where training starts: it was trained with --learn=0, "
            "which scales each channel separately; only networks of --learn=1 can be converted"
        )


def _zeros(state: Mapping[str, Tensor], weights: set[str], layout: Layout) -> dict[str, int]:
    """Count the weights that are exactly zero, layer by layer; refuse them if none could be."""
    counts = {
        key.rpartition(".")[0]: int((value == 0).sum())
        for key, value in state.items()
        if key in weights
    }
    counts = {layer: count for layer, count in counts.items() if count}
    if counts and layout.zero == 0:
        raise ModelRejected(
            f"it has weights that are exactly zero ({_listed(counts)}), which its code leaves at "
            f"zero, so they are in no binary domain; train it for one more step, or give them a "
            f"sign"
        )
    return counts


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} in {layer}" for layer, count in counts.items())


def _claims(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the file says of itself: the accuracy in percent, and the epoch."""
    accuracy = content.get("acc", content.get("best_top1_acc"))
    if isinstance(accuracy, Tensor) and accuracy.numel() == 1:
        accuracy = accuracy.item()
    epoch = content.get("epoch")
    claims: dict[str, Any] = {}
    if isinstance(accuracy, int | float) and math.isfinite(accuracy):
        claims["claimed_accuracy"] = accuracy / 100
    if isinstance(epoch, int):
        claims["epoch"] = epoch
    return claims
