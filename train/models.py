"""Models by name. Each is an `nn.Sequential` from raw pixels to class scores."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from torch import nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.domains import DOMAINS, INITS
from sbnn_hw.train.layers import (
    InputEncoder, SignActivation, SparseBinaryConv2d, SparseBinaryLinear, SparseBinaryScores,
)
from sbnn_hw.train.norm import SCALES, BatchNorm
from sbnn_hw.train.signs import GRADIENTS

__all__ = ["MODELS", "ModelConfig", "build_model", "register_model"]

ENCODERS = ("threshold", "thermometer", "integer")


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to make a model anew; plain values, stored in checkpoints.

    Parameters
    ----------
    name : str
        A registered model, or the ``mlp:…`` or ``conv:…`` form.
    shape : tuple
        Height, width and channels of the images.
    encoder : str
        One of ``threshold``, ``thermometer``, ``integer``; or empty for the model's own choice.
    norm_scale : str
        How the batch norm's scale is had; empty chooses ``alternating`` for the domain `zero`,
        which needs neurons of both polarities, else ``learned``.
    """

    name: str
    shape: tuple[int, int, int]
    classes: int
    domain: str = "learned"
    xi_bits: int | None = None
    init: str = "unit"
    gradient: str = "clipped"
    encoder: str = ""
    thresholds: tuple[int, ...] = ()
    padding: int = 0
    padding_value: int = -1
    width: float = 1.0
    norm_scale: str = ""
    offset_bits: int = 4

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("Domain", self.domain, tuple(DOMAINS)),
            ("Init", self.init, INITS),
            ("Gradient", self.gradient, GRADIENTS),
            ("Encoder", self.encoder, ("", *ENCODERS)),
            ("Batch-norm scale", self.norm_scale, ("", *SCALES)),
            ("Padding value", self.padding_value, (-1, 0)),
        ):
            if value not in choices:
                names = ", ".join(str(choice) for choice in choices if choice != "")
                raise ModelRejected(f"{field} must be one of {names}, not {value!r}")
        if self.xi_bits is not None and self.domain != "learned":
            raise ModelRejected(
                f"A grid for ξ (xi-bits) goes with the domain learned, not {self.domain!r}"
            )
        if self.xi_bits is not None and self.xi_bits not in range(1, 17):
            raise ModelRejected(f"Bits of ξ must be between 1 and 16, not {self.xi_bits!r}")
        if not 0 < self.width <= 16:
            raise ModelRejected(f"Width must be above 0 and at most 16, not {self.width!r}")
        if self.padding not in range(8):
            raise ModelRejected(f"Padding must be between 0 and 7, not {self.padding!r}")
        if len(self.shape) != 3 or min(self.shape) < 1 or not 2 <= self.classes <= 100_000:
            raise ModelRejected(
                f"Images must have height, width and channels and 2 classes or more, "
                f"not {self.shape!r} and {self.classes!r}"
            )

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as a checkpoint stores them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: object) -> "ModelConfig":
        """Make a configuration of a checkpoint's values, which may be anything."""
        fields = cls.__dataclass_fields__
        if not isinstance(values, dict) or not set(values) <= set(fields):
            raise ModelRejected("The checkpoint's model description has fields that are unknown")
        kinds = {
            "name": str, "domain": str, "init": str, "gradient": str, "encoder": str,
            "norm_scale": str, "classes": int, "padding": int, "padding_value": int,
            "offset_bits": int, "width": (int, float), "xi_bits": (int, type(None)),
            "shape": (list, tuple), "thresholds": (list, tuple),
        }
        for key, value in values.items():
            inside = value if isinstance(value, list | tuple) else ()
            if not isinstance(value, kinds[key]) or not all(isinstance(x, int) for x in inside):
                raise ModelRejected(f"The checkpoint's {key} must not be {value!r}")
        if not {"name", "shape", "classes"} <= set(values):
            raise ModelRejected("The checkpoint does not say which model it holds")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**values)

    # What the builders below ask for

    def make_encoder(self, default: str) -> InputEncoder:
        """Return the encoder of this configuration, or the model's own choice."""
        kind = self.encoder or default
        thresholds = self.thresholds or {
            "threshold": (128,), "thermometer": (64, 128, 192), "integer": (),
        }[kind]
        try:
            return InputEncoder(kind, thresholds)
        except ValueError as error:
            raise ModelRejected(str(error)) from None

    def _layer_options(self) -> dict[str, object]:
        return {"domain": self.domain, "xi_bits": self.xi_bits, "gradient": self.gradient}

    def linear(self, inputs: int, outputs: int) -> SparseBinaryLinear:
        """Return a hidden linear layer."""
        return SparseBinaryLinear(inputs, outputs, **self._layer_options())  # type: ignore[arg-type]

    def conv(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> SparseBinaryConv2d:
        """Return a hidden convolution, with the configuration's padding."""
        return SparseBinaryConv2d(
            inputs, outputs, kernel, stride=stride, padding=self.padding,
            padding_value=self.padding_value,  # type: ignore[arg-type]
            **self._layer_options(),  # type: ignore[arg-type]
        )

    def scores(self, inputs: int) -> SparseBinaryScores:
        """Return the last layer."""
        return SparseBinaryScores(
            inputs, self.classes, offset_bits=self.offset_bits,
            **self._layer_options(),  # type: ignore[arg-type]
        )

    def norm(self, features: int) -> BatchNorm:
        """Return the batch norm behind a hidden layer."""
        default = "alternating" if self.domain == "zero" else "learned"
        return BatchNorm(features, scale=self.norm_scale or default)

    def scaled(self, features: int) -> int:
        """Return a number of channels times the width, at least one."""
        return max(1, round(features * self.width))


Builder = Callable[[ModelConfig], nn.Sequential]
MODELS: dict[str, Builder] = {}


def register_model(builder: Builder) -> Builder:
    """Make a builder known by the name of its function; its docstring describes it."""
    if builder.__name__ in MODELS:
        raise ValueError(f"Model {builder.__name__!r} is registered already")
    MODELS[builder.__name__] = builder
    return builder


def build_model(config: ModelConfig) -> nn.Sequential:
    """Return a new model for the configuration."""
    kind, colon, form = config.name.partition(":")
    if colon and kind == "mlp":
        widths = _numbers(form, config.name)
        return _mlp(config, [config.scaled(width) for width in widths], "threshold")
    if colon and kind == "conv":
        return _conv_form(config, form)
    if config.name in MODELS:
        return MODELS[config.name](config)
    near = difflib.get_close_matches(config.name, MODELS, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ModelRejected(
        f"Model must be one of {', '.join(MODELS)}, mlp:256,256 or conv:16p,32p/256, "
        f"not {config.name!r}{hint}"
    )


# Building blocks


def _mlp(config: ModelConfig, widths: Sequence[int], encoder: str) -> nn.Sequential:
    first = config.make_encoder(encoder)
    height, width, channels = config.shape
    features = height * width * channels * first.planes
    modules: list[nn.Module] = [first, nn.Flatten()]
    for outputs in widths:
        modules += [config.linear(features, outputs), config.norm(outputs), SignActivation()]
        features = outputs
    return nn.Sequential(*modules, config.scores(features))


@dataclass(frozen=True)
class _Convolution:
    channels: int
    kernel: int = 3
    stride: int = 1
    pool: bool = False


def _convnet(
    config: ModelConfig, convolutions: Sequence[_Convolution], hidden: Sequence[int], encoder: str,
) -> nn.Sequential:
    first = config.make_encoder(encoder)
    height, width, channels = config.shape
    channels *= first.planes
    modules: list[nn.Module] = [first]
    for layer in convolutions:
        modules += [
            config.conv(channels, layer.channels, layer.kernel, layer.stride),
            config.norm(layer.channels), SignActivation(),
        ]
        channels = layer.channels
        height = (height + 2 * config.padding - layer.kernel) // layer.stride + 1
        width = (width + 2 * config.padding - layer.kernel) // layer.stride + 1
        if layer.pool:
            modules.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        if height < 1 or width < 1:
            raise ModelRejected(
                f"Model {config.name} leaves nothing of {config.shape[0]}×{config.shape[1]} "
                f"images after {len(modules)} layers; use fewer layers or --padding"
            )
    modules.append(nn.Flatten())
    features = channels * height * width
    for outputs in hidden:
        modules += [config.linear(features, outputs), config.norm(outputs), SignActivation()]
        features = outputs
    return nn.Sequential(*modules, config.scores(features))


def _numbers(form: str, name: str) -> list[int]:
    parts = form.split(",") if form else []
    if len(parts) > 64 or not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise ModelRejected(f"Model {name!r} must list widths between 1 and 999999, as in mlp:256,256")
    return [int(part) for part in parts]


def _conv_form(config: ModelConfig, form: str) -> nn.Sequential:
    """Build ``conv:16p,32k5s2,64/256``: channels, kernel, stride, pool; hidden widths behind /."""
    convolutions, _, hidden = form.partition("/")
    layers = []
    for part in convolutions.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,4})(?:k([1-9]))?(?:s([1-4]))?(p?)", part)
        if match is None or len(layers) >= 64:
            raise ModelRejected(
                f"Model {config.name!r} must list convolutions as in conv:16p,32k5s2,64/256 "
                f"(channels, kernel, stride, pool; linear widths behind /), not {part!r}"
            )
        channels, kernel, stride, pool = match.groups()
        layers.append(
            _Convolution(
                config.scaled(int(channels)), int(kernel or 3), int(stride or 1), pool == "p"
            )
        )
    widths = [config.scaled(width) for width in _numbers(hidden, config.name)]
    return _convnet(config, layers, widths, "integer")


# The registered models


@register_model
def digits(config: ModelConfig) -> nn.Sequential:
    """Tiny: two hidden layers of 64 for scikit-learn's 8×8 digits."""
    return _mlp(config, [config.scaled(64)] * 2, "threshold")


@register_model
def tfc(config: ModelConfig) -> nn.Sequential:
    """FINN's TFC: three hidden layers of 64."""
    return _mlp(config, [config.scaled(64)] * 3, "threshold")


@register_model
def sfc(config: ModelConfig) -> nn.Sequential:
    """FINN's SFC: three hidden layers of 256."""
    return _mlp(config, [config.scaled(256)] * 3, "threshold")


@register_model
def lfc(config: ModelConfig) -> nn.Sequential:
    """FINN's LFC: three hidden layers of 1024."""
    return _mlp(config, [config.scaled(1024)] * 3, "threshold")


@register_model
def cnv(config: ModelConfig) -> nn.Sequential:
    """FINN's CNV for 32×32×3: six 3×3 convolutions, two pools, two hidden layers of 512."""
    c = [config.scaled(channels) for channels in (64, 128, 256, 512)]
    layers = [
        _Convolution(c[0]), _Convolution(c[0], pool=True),
        _Convolution(c[1]), _Convolution(c[1], pool=True),
        _Convolution(c[2]), _Convolution(c[2]),
    ]
    return _convnet(config, layers, [c[3], c[3]], "integer")

