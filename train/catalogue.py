"""The models by name, as plain data: what is listed without loading torch."""

import difflib
import re
from dataclasses import dataclass

from sbnn_hw.errors import ModelRejected

__all__ = [
    "BACKBONES",
    "FORMS",
    "MODELS",
    "OWN",
    "Convolution",
    "Residual",
    "Topology",
    "find_residual",
    "find_topology",
    "is_backbone",
]

#: In place of a name: a module of the user's own, which is in no list.
OWN = "own"


@dataclass(frozen=True)
class Convolution:
    """A square convolution, with a 2×2 pool behind it or not."""

    channels: int
    kernel: int = 3
    stride: int = 1
    pool: bool = False


@dataclass(frozen=True)
class Topology:
    """Convolutions, then hidden linear layers, then the scores."""

    name: str
    description: str
    convolutions: tuple[Convolution, ...] = ()
    hidden: tuple[int, ...] = ()
    encoder: str = "threshold"


MODELS: dict[str, Topology] = {
    topology.name: topology
    for topology in (
        Topology("digits", "two hidden layers of 64, for 8×8 digits", (), (64, 64)),
        Topology("tfc", "FINN's TFC: three hidden layers of 64", (), (64,) * 3),
        Topology("sfc", "FINN's SFC: three hidden layers of 256", (), (256,) * 3),
        Topology("lfc", "FINN's LFC: three hidden layers of 1024", (), (1024,) * 3),
        Topology(
            "cnv",
            "FINN's CNV for 32×32×3: six 3×3 convolutions, two pools, two hidden layers of 512",
            (
                Convolution(64),
                Convolution(64, pool=True),
                Convolution(128),
                Convolution(128, pool=True),
                Convolution(256),
                Convolution(256),
            ),
            (512, 512),
            "integer",
        ),
    )
}

#: The paper's backbones, which :mod:`sbnn_hw.train.backbones` builds. They have real-valued
#: shortcuts, first and last layers, or with ``--stream-bits`` integers in their place.
BACKBONES = {
    "resnet18": "the paper's ResNet-18 for CIFAR-10: IR-Net's blocks, 16 binary convolutions",
    "reactnet18": "ReActNet-18, the paper's network for CIFAR-100",
    "reactnet_a": "ReActNet-A, the paper's network for ImageNet: like MobileNet, binary 3×3 and "
    "1×1",
    "birealnet18": "Bi-Real Net 18, for comparison",
    "xnor_resnet18": "XNOR-Net's ResNet-18, for comparison",
}


@dataclass(frozen=True)
class Residual:
    """A residual network: a stage for each width, of ``depth`` blocks.

    Between its two convolutions a block has ``wider`` times as many channels as its stream. These
    are bits, which take far less hardware than the integers of a stream.
    """

    widths: tuple[int, ...]
    depth: int
    wider: int = 1


#: The forms that make a model of one's own, with what they mean.
FORMS = {
    "mlp:256,256": "with hidden layers of these widths",
    "conv:16p,32k5s2,64/256": "with convolutions of these channels (k kernel, s stride, p 2×2 "
    "pool), then hidden layers of the widths after /",
    "resnet:16,32,64x2e3": "residual, for hardware: a stage for each width, here of two of "
    "IR-Net's blocks, with three times as many channels between a block's convolutions (e3 may be "
    "omitted); each stage but the first halves the map",
}


def is_backbone(name: str) -> bool:
    """Tell whether a model has real-valued layers and shortcuts, or streams of integers."""
    return name in BACKBONES or name.startswith("resnet:")


def find_residual(name: str) -> Residual | None:
    """Return what the form ``resnet:…`` describes; None for other names."""
    kind, colon, form = name.partition(":")
    if kind != "resnet" or not colon:
        return None
    some = r"[1-9][0-9]{0,3}(?:,[1-9][0-9]{0,3}){0,7}"
    match = re.fullmatch(rf"({some})x([1-9][0-9]?)(?:e([1-9]))?", form)
    if match is None:
        raise ModelRejected(
            f"Model {name!r} must list up to eight widths and the blocks of a stage, as in "
            f"resnet:16,32,64x2 or resnet:16,32,64x2e3"
        )
    widths = tuple(int(width) for width in match[1].split(","))
    return Residual(widths, int(match[2]), int(match[3] or 1))


def find_topology(name: str) -> Topology:
    """Return the model of a name, or the one that a form describes."""
    kind, colon, form = name.partition(":")
    if colon and kind == "mlp" and form:
        return Topology(name, FORMS["mlp:256,256"], (), _widths(form, name))
    if colon and kind == "conv":
        convolutions, _, hidden = form.partition("/")
        layers = tuple(_convolution(part, name) for part in convolutions.split(","))
        return Topology(name, "", layers, _widths(hidden, name), "integer")
    if name in MODELS:
        return MODELS[name]
    if colon and kind == "mlp":
        raise ModelRejected(f"Model {name!r} must list one width or more, as in mlp:256,256")
    find_residual(name)
    known = [*MODELS, *BACKBONES]
    near = difflib.get_close_matches(name, known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ModelRejected(
        f"Model must be one of {', '.join(known)}, or {' or '.join(FORMS)}, not {name!r}{hint}"
    )


def _widths(form: str, name: str) -> tuple[int, ...]:
    parts = form.split(",") if form else []
    if len(parts) > 64 or not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise ModelRejected(
            f"Model {name!r} must list widths between 1 and 999999, as in mlp:256,256"
        )
    return tuple(int(part) for part in parts)


def _convolution(part: str, name: str) -> Convolution:
    match = re.fullmatch(r"([1-9][0-9]{0,4})(?:k([1-9]))?(?:s([1-4]))?(p?)", part)
    if match is None:
        raise ModelRejected(
            f"Model {name!r} must list convolutions as in conv:16p,32k5s2,64/256, not {part!r}"
        )
    channels, kernel, stride, pool = match.groups()
    return Convolution(int(channels), int(kernel or 3), int(stride or 1), pool == "p")
