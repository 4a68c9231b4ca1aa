"""The paper's backbones, by name: binary convolutions between a real first and last layer."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.blocks import (
    BiRealBlock,
    IRNetBlock,
    Normalise,
    RawPixels,
    ReActBlock,
    ReActMobileBlock,
    XnorBlock,
)
from sbnn_hw.train.catalogue import Residual, find_residual
from sbnn_hw.train.integers import MeanOfMap

if TYPE_CHECKING:
    from sbnn_hw.train.models import ModelConfig

__all__ = ["build_backbone"]

#: Images of at least this side get the first layers of ImageNet, which shrink them fourfold.
LARGE = 64
#: Channels of the four stages of a ResNet-18.
_WIDTHS = (64, 128, 256, 512)
_RESNET18 = Residual(_WIDTHS, 2)


def build_backbone(config: "ModelConfig") -> nn.Sequential:
    """Return a new backbone: an `nn.Sequential` from raw pixels to class scores."""
    if residual := find_residual(config.name):
        return nn.Sequential(_resnet(config, residual))
    return nn.Sequential(_BUILDERS[config.name](config))


def _stages(
    config: "ModelConfig",
    block: Callable[["ModelConfig", int, int, int], nn.Module],
    depth: int,
    layers: OrderedDict[str, nn.Module],
    widths: tuple[int, ...] = _WIDTHS,
) -> int:
    """Add a stage of ``depth`` blocks for each width; each but the first halves the map."""
    inputs = config.scaled(widths[0])
    for number, width in enumerate(widths):
        outputs = config.scaled(width)
        blocks = []
        for position in range(depth):
            stride = 2 if number and not position else 1
            blocks.append(block(config, inputs, outputs, stride))
            inputs = outputs
        layers[f"layer{number + 1}"] = nn.Sequential(*blocks)
    return inputs


def _input(config: "ModelConfig") -> Normalise:
    return (RawPixels if config.stream_bits else Normalise)(config.normalise)


def _pool(config: "ModelConfig") -> nn.Module:
    return MeanOfMap() if config.stream_bits else nn.AdaptiveAvgPool2d(1)


def _start(config: "ModelConfig", width_of_first: int = _WIDTHS[0]) -> OrderedDict[str, nn.Module]:
    """Return the normalisation of pixels and a first convolution for the size of the images."""
    height, width, channels = config.shape
    large = min(height, width) >= LARGE
    outputs = config.scaled(width_of_first)
    kernel, stride, padding = (7, 2, 3) if large else (3, 1, 1)
    return OrderedDict(
        input=_input(config),
        conv1=config.first_conv(channels, outputs, kernel, stride, padding),
        bn1=config.stream_norm(outputs, scale="learned"),
    )


def _resnet(config: "ModelConfig", residual: Residual = _RESNET18) -> OrderedDict[str, nn.Module]:
    if min(config.shape[:2]) >= LARGE:
        raise ModelRejected(
            f"Model {config.name} is for images below {LARGE}×{LARGE}, such as CIFAR's, not "
            f"{config.shape[0]}×{config.shape[1]}; use reactnet18"
        )
    layers = _start(config, residual.widths[0])
    block = partial(IRNetBlock, wider=residual.wider)
    features = _stages(config, block, residual.depth, layers, residual.widths)
    norm = config.class_norm(features)
    layers["pool"] = _pool(config)
    layers["flatten"] = nn.Flatten()
    layers["bn2"] = norm
    layers["linear"] = config.classifier(features, norm)
    return layers


def _of_single_blocks(
    block: type[nn.Module], depth: int
) -> Callable[["ModelConfig"], OrderedDict[str, nn.Module]]:
    """Return a builder for Bi-Real Net's plan: a pool in front, no batch norm at the end."""

    def build(config: "ModelConfig") -> OrderedDict[str, nn.Module]:
        layers = _start(config)
        layers["maxpool"] = nn.MaxPool2d(3, 2, 1)
        features = _stages(config, block, depth, layers)
        layers["pool"] = _pool(config)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = config.classifier(features)
        return layers

    return build


#: Channels of ReActNet-A's blocks as multiples of the first convolution's, and their strides.
_MOBILE = (
    (2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2),
    *((16, 1),) * 5,
    (32, 2), (32, 1),
)  # fmt: skip


def _reactnet_a(config: "ModelConfig") -> OrderedDict[str, nn.Module]:
    base = config.scaled(32)
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        input=_input(config),
        conv1=config.first_conv(config.shape[2], base, 3, 2, 1),
        bn1=config.stream_norm(base, scale="learned"),
    )
    inputs = base
    for number, (multiple, stride) in enumerate(_MOBILE, start=1):
        layers[f"block{number}"] = ReActMobileBlock(config, inputs, base * multiple, stride)
        inputs = base * multiple
    layers["pool"] = _pool(config)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = config.classifier(inputs)
    return layers


_BUILDERS: dict[str, Callable[["ModelConfig"], OrderedDict[str, nn.Module]]] = {
    "resnet18": _resnet,
    "reactnet18": _of_single_blocks(ReActBlock, 4),
    "reactnet_a": _reactnet_a,
    "birealnet18": _of_single_blocks(BiRealBlock, 4),
    "xnor_resnet18": _of_single_blocks(XnorBlock, 2),
}
