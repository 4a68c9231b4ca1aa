"""Models by name. Each is an `nn.Sequential` from raw pixels to class scores."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.backbones import build_backbone
from sbnn_hw.train.blocks import STATISTICS, RealConv2d
from sbnn_hw.train.catalogue import BACKBONES, OWN, find_topology, is_backbone
from sbnn_hw.train.columns import ColumnEncoder
from sbnn_hw.train.domains import DOMAINS, INITS
from sbnn_hw.train.integers import (
    ClassNorm,
    IntegerConv2d,
    IntegerLinear,
    PixelConv2d,
    SignNorm,
    StreamNorm,
    SumConv2d,
)
from sbnn_hw.train.layers import (
    InputEncoder,
    LearnedEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLinear,
    SparseBinaryScores,
)
from sbnn_hw.train.norm import SCALES, BatchNorm
from sbnn_hw.train.signs import ACTIVATION_GRADIENTS, GRADIENTS
from sbnn_hw.train.streams import MULTIPLIER_DIGITS, STREAM_BITS, WEIGHT_BITS

__all__ = ["ModelConfig", "build_model"]

ENCODERS = (
    "threshold", "thermometer", "learned", "integer", "quantile", "learned_quantile",
)  # fmt: skip
SHORTCUTS = ("real", "duplicate")
FIRSTS = ("real", "binary")
SIGN_PLANES = range(1, 8)


@dataclass(frozen=True)
class ModelConfig:
    """All that is needed to rebuild a model; plain values, stored in checkpoints."""

    #: A model of the catalogue, the ``mlp:…`` or ``conv:…`` form, or :data:`catalogue.OWN`.
    name: str
    #: Height, width and channels of the images.
    shape: tuple[int, int, int]
    classes: int
    #: The two values that weights take. Or ``real``: of backbones weights that are not binary yet,
    #: the first of ReActNet's two steps; of other models real weights and ReLUs, a teacher.
    domain: str = "learned"
    xi_bits: int | None = None
    init: str = "unit"
    gradient: str = "clipped"
    #: What stands in for the gradient of the activations' sign; empty chooses the model's own.
    activation: str = ""
    #: Whose mean and deviation of pixels a backbone's first layer expects: ``cifar10``,
    #: ``cifar100``, ``imagenet``, or empty for pixels between −1 and 1.
    normalise: str = ""
    #: One of ``threshold``, ``thermometer``, ``learned`` (a thermometer whose thresholds are
    #: learned), ``integer``, ``quantile`` (thresholds of its own for each channel, where the
    #: training values are parted evenly), ``learned_quantile`` (the same, learned from there); or
    #: empty for the model's own choice.
    encoder: str = ""
    thresholds: tuple[int, ...] = ()
    #: With quantiles, the thresholds of each channel (0: as many as there are values, up to 15).
    planes: int = 0
    #: Bits of each value of the input.
    bits: int = 8
    padding: int = 0
    #: What convolutions pad with, −1 or 0. None chooses 0 for backbones, as the authors have it,
    #: and else −1.
    padding_value: int | None = None
    width: float = 1.0
    #: Where the batch norm's scale comes from; empty chooses ``alternating`` for the domain `zero`,
    #: which needs neurons of both polarities, else ``learned``.
    norm_scale: str = ""
    offset_bits: int = 4
    #: Of a backbone, the bits of the integers between its blocks (0: real values), and those of
    #: the integer weights of its real layers (0: 8 where streams are integers, else real).
    stream_bits: int = 0
    weight_bits: int = 0
    #: Of how many powers of two, of either sign, the multipliers in front of streams are sums (0:
    #: as many as ten bits have). Hardware multiplies with as many adders.
    multiplier_digits: int = 0
    #: What a backbone's shortcuts do where maps shrink: ``real`` weights as in its paper, or
    #: ``duplicate``, the mean of 2×2 pixels with all channels used several times.
    shortcut: str = "real"
    #: Of IR-Net's blocks, the bits that each value of a stream becomes in front of a convolution:
    #: its sign, or whether it reaches each of some levels.
    sign_planes: int = 1
    #: A backbone's first convolution: ``real`` weights, or ``binary`` ones as sparse as the others.
    first: str = "real"

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("Domain", self.domain, (*DOMAINS, "real")),
            ("Init", self.init, INITS),
            ("Gradient", self.gradient, GRADIENTS),
            ("Activations' gradient", self.activation, ("", *ACTIVATION_GRADIENTS)),
            ("Normalisation", self.normalise, tuple(STATISTICS)),
            ("Encoder", self.encoder, ("", *ENCODERS)),
            ("Batch-norm scale", self.norm_scale, ("", *SCALES)),
            ("Padding value", self.padding_value, (None, -1, 0)),
            ("Shortcut", self.shortcut, SHORTCUTS),
            ("First convolution", self.first, FIRSTS),
        ):
            if value not in choices:
                names = ", ".join(str(c) for c in choices if c not in ("", None))
                raise ModelRejected(f"{field} must be one of {names}, not {value!r}")
        if self.xi_bits is not None and self.domain != "learned":
            raise ModelRejected(
                f"A grid for ξ (xi-bits) needs the domain learned, not {self.domain!r}"
            )
        if self.xi_bits is not None and self.xi_bits not in range(1, 17):
            raise ModelRejected(f"Bits of ξ must be between 1 and 16, not {self.xi_bits!r}")
        if not 0 < self.width <= 16:
            raise ModelRejected(f"Width must be above 0 and at most 16, not {self.width!r}")
        if self.padding not in range(8):
            raise ModelRejected(f"Padding must be between 0 and 7, not {self.padding!r}")
        if self.offset_bits not in range(17):
            raise ModelRejected(
                f"Bits of offsets must be between 0 and 16, not {self.offset_bits!r}"
            )
        if len(self.shape) != 3 or not all(1 <= size <= 4096 for size in self.shape):
            raise ModelRejected(
                f"Images must have height, width and channels between 1 and 4096, "
                f"not {self.shape!r}"
            )
        if not 2 <= self.classes <= 100_000:
            raise ModelRejected(f"Classes must be between 2 and 100000, not {self.classes!r}")
        if self.bits not in range(1, 17):
            raise ModelRejected(f"Values must have 1 to 16 bits, not {self.bits!r}")
        if not 0 <= self.planes <= 255:
            raise ModelRejected(f"Planes must be between 0 and 255, not {self.planes!r}")
        if len(self.thresholds) > 255:
            raise ModelRejected(f"Thresholds must be at most 255, not {len(self.thresholds)}")

        for field, number, allowed in (
            ("Bits of streams", self.stream_bits, STREAM_BITS),
            ("Bits of weights", self.weight_bits, WEIGHT_BITS),
            ("Digits of multipliers", self.multiplier_digits, MULTIPLIER_DIGITS),
        ):
            if number and number not in allowed:
                raise ModelRejected(
                    f"{field} must be between {allowed[0]} and {allowed[-1]}, not {number!r}"
                )
        grid = self.domain != "learned" or self.xi_bits is not None
        if self.stream_bits and (not grid or self.domain in ("closed_form", "real")):
            raise ModelRejected(
                f"Integer streams (stream-bits) need binary weights with ξ on a grid, not the "
                f"domain {self.domain}{'' if grid else ' without xi-bits'}; use learned with "
                f"xi-bits, or symmetric, bnn, zero or signed"
            )
        if self.weight_bits and not self.stream_bits:
            raise ModelRejected("Integer weights (weight-bits) need integer streams (stream-bits)")
        if self.multiplier_digits and not self.stream_bits:
            raise ModelRejected(
                "Multipliers of few digits (multiplier-digits) need integer streams (stream-bits)"
            )
        if self.first == "binary" and (self.normalise or self.domain == "real"):
            raise ModelRejected(
                "A binary first convolution reads pixels as they are, with binary weights; omit "
                "the normalisation, or use another domain"
            )

        if self.sign_planes not in SIGN_PLANES:
            raise ModelRejected(
                f"Planes of signs must be between {SIGN_PLANES[0]} and {SIGN_PLANES[-1]}, not "
                f"{self.sign_planes!r}"
            )
        if self.sign_planes > 1 and not self.stream_bits:
            raise ModelRejected(
                "Several planes of signs (sign-planes) need integer streams (stream-bits)"
            )
        if self.multiplier_digits and self.name in ("xnor_resnet18", "reactnet_a"):
            raise ModelRejected(
                f"Multipliers of few digits (multiplier-digits) cannot be trained in {self.name}; "
                f"omit them"
            )
        if self.sign_planes > 1 and not self.name.startswith("resnet"):
            raise ModelRejected(
                f"Only resnet18 and resnet:… have a choice of planes of signs (sign-planes), not "
                f"{self.name}"
            )

        if self.is_backbone:
            for field, given, cure in (
                ("an encoder", self.encoder, "its first layer is real-valued"),
                ("thresholds", self.thresholds, "its first layer is real-valued"),
                ("planes", self.planes, "its first layer is real-valued"),
                ("bits", self.bits != 8 and self.bits, "it takes pictures of bytes"),
                ("padding", self.padding, "each convolution keeps the size of its map"),
            ):
                if given:
                    raise ModelRejected(
                        f"Model {self.name} does not support a choice of {field}, not {given!r}: "
                        f"{cure}"
                    )
            if len(STATISTICS[self.normalise][0]) not in (1, self.shape[2]):
                raise ModelRejected(
                    f"The normalisation of {self.normalise} is for 3 channels, not {self.shape[2]}"
                )
        elif self.stream_bits or self.shortcut != "real" or self.first != "real":
            raise ModelRejected(
                f"Only backbones ({', '.join(BACKBONES)} and resnet:…) have streams, shortcuts and "
                f"a choice of the first convolution, not {self.name}"
            )
        elif self.normalise:
            raise ModelRejected(
                f"Only backbones ({', '.join(BACKBONES)}) normalise pixels, not {self.name}; its "
                f"encoder does what is needed"
            )

    @property
    def is_own(self) -> bool:
        """Whether the model is a module of the user's own, which only its Python code can build."""
        return self.name == OWN

    @property
    def is_backbone(self) -> bool:
        """Whether this is a residual network: one of the paper's backbones, or ``resnet:…``."""
        return is_backbone(self.name)

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as a checkpoint stores them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: object) -> "ModelConfig":
        """Make a configuration of a checkpoint's values, which may be anything."""
        fields = cls.__dataclass_fields__
        if not isinstance(values, dict) or not set(values) <= set(fields):
            raise ModelRejected("The checkpoint's model description has unknown fields")
        kinds: dict[str, Any] = {
            "name": str,
            "domain": str,
            "init": str,
            "gradient": str,
            "activation": str,
            "normalise": str,
            "encoder": str,
            "norm_scale": str,
            "classes": int,
            "padding": int,
            "padding_value": (int, type(None)),
            "offset_bits": int,
            "planes": int,
            "bits": int,
            "width": (int, float),
            "xi_bits": (int, type(None)),
            "stream_bits": int,
            "weight_bits": int,
            "sign_planes": int,
            "multiplier_digits": int,
            "shortcut": str,
            "first": str,
            "shape": (list, tuple),
            "thresholds": (list, tuple),
        }
        for key, value in values.items():
            inside = value if isinstance(value, list | tuple) else ()
            # True is an int to Python, and no number here.
            right = isinstance(value, kinds[key]) and not isinstance(value, bool)
            if not right or not all(type(x) is int for x in inside):
                raise ModelRejected(f"The checkpoint's {key} must not be {value!r}")
        if not {"name", "shape", "classes"} <= set(values):
            raise ModelRejected("The checkpoint does not say which model it holds")
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**plain)

    # What the builders below ask for

    def make_encoder(self, default: str) -> InputEncoder:
        """Return the encoder of this configuration, or the model's own choice."""
        kind, most = self.encoder or default, (1 << self.bits) - 1
        if kind.endswith("quantile"):
            if self.thresholds:
                raise ModelRejected(
                    f"Thresholds are chosen by the encoder {kind}; omit --thresholds, or use "
                    f"--encoder thermometer"
                )
            planes = min(self.planes or 15, most)
            return ColumnEncoder(self.shape[2], planes, most=most, learn=kind != "quantile")
        if self.planes:
            raise ModelRejected(f"--planes is for the encoder quantile, not {kind}")
        quarters = tuple(sorted({max(1, (most + 1) * n // 4) for n in (1, 2, 3)}))
        thresholds = (
            self.thresholds
            or {
                "threshold": ((most + 1) // 2,),
                "thermometer": quarters,
                "learned": quarters,
                "integer": (),
            }[kind]
        )
        try:
            if kind == "learned":
                return LearnedEncoder(thresholds, most=most)
            return InputEncoder(kind, thresholds, most=most)
        except ValueError as error:
            raise ModelRejected(str(error)) from None

    def _layer_options(self) -> dict[str, object]:
        return {"domain": self.domain, "xi_bits": self.xi_bits, "gradient": self.gradient}

    def linear(self, inputs: int, outputs: int) -> SparseBinaryLinear | nn.Linear:
        """Return a hidden linear layer."""
        if self.domain == "real":
            return nn.Linear(inputs, outputs, bias=False)
        return SparseBinaryLinear(inputs, outputs, **self._layer_options())  # type: ignore[arg-type]

    @property
    def flat(self) -> bool:
        """Whether the input is a signal, one row high, which windows go along."""
        return self.shape[0] == 1

    def along(self, size: int, across: int) -> tuple[int, int]:
        """Return a size of a window: the same both ways, or along a signal alone."""
        return (across if self.flat else size, size)

    def conv(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1
    ) -> SparseBinaryConv2d | nn.Conv2d:
        """Return a hidden convolution, with the configuration's padding."""
        window, step = self.along(kernel, 1), self.along(stride, 1)
        padding = self.along(self.padding, 0)
        if self.domain == "real":
            return nn.Conv2d(inputs, outputs, window, step, padding, bias=False)
        return SparseBinaryConv2d(
            inputs,
            outputs,
            window,
            stride=step,
            padding=padding,
            padding_value=-1 if self.padding_value is None else self.padding_value,  # type: ignore[arg-type]
            **self._layer_options(),  # type: ignore[arg-type]
        )

    def binary_conv(
        self, inputs: int, outputs: int, kernel: int, stride: int
    ) -> SparseBinaryConv2d | RealConv2d:
        """Return a convolution of a backbone, padded so that only the stride shrinks the map."""
        padding, value = kernel // 2, self.padding_value or 0
        if self.domain == "real":
            return RealConv2d(inputs, outputs, kernel, stride, padding, value)
        kind = SumConv2d if self.stream_bits else SparseBinaryConv2d
        return kind(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=padding,
            padding_value=value,  # type: ignore[arg-type]
            **self._layer_options(),  # type: ignore[arg-type]
        )

    def scores(self, inputs: int) -> SparseBinaryScores | nn.Linear:
        """Return the last layer."""
        if self.domain == "real":
            return nn.Linear(inputs, self.classes)
        return SparseBinaryScores(
            inputs,
            self.classes,
            offset_bits=self.offset_bits,
            **self._layer_options(),  # type: ignore[arg-type]
        )

    def norm(self, features: int) -> BatchNorm:
        """Return the batch norm behind a hidden layer."""
        default = "alternating" if self.domain == "zero" else "learned"
        return BatchNorm(features, scale=self.norm_scale or default)

    def sign_norm(self, features: int) -> BatchNorm | SignNorm:
        """Return the batch norm of a backbone in front of a sign."""
        norm = self.norm(features)
        return SignNorm(features, scale=norm.scale) if self.stream_bits else norm

    def stream_norm(
        self, features: int, *, scale: str = "", within_one: bool = False, slope: bool = False
    ) -> BatchNorm | StreamNorm:
        """Return the batch norm of a backbone in front of what goes on to the next block."""
        scale = scale or self.norm(0).scale
        bits = self.stream_bits
        if not bits:
            return BatchNorm(features, scale=scale)
        return StreamNorm(
            features,
            scale=scale,
            bits=bits,
            within_one=within_one,
            slope=slope,
            digits=self.multiplier_digits,
        )

    def class_norm(self, features: int) -> BatchNorm | ClassNorm:
        """Return the batch norm of a backbone in front of the classifier."""
        return ClassNorm(features) if self.stream_bits else BatchNorm(features)

    def real_conv(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: int
    ) -> nn.Conv2d:
        """Return a convolution of a backbone that is not binary."""
        if not self.stream_bits:
            return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        return IntegerConv2d(inputs, outputs, kernel, stride, padding, bits=self.weight_bits or 8)

    def first_conv(
        self, inputs: int, outputs: int, kernel: int, stride: int, padding: int
    ) -> nn.Module:
        """Return the convolution of a backbone that reads pixels."""
        if self.first == "binary":
            options: Any = self._layer_options()
            return PixelConv2d(inputs, outputs, kernel, stride, padding, **options)
        if not self.stream_bits:
            return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        mean, deviation = STATISTICS[self.normalise]
        return IntegerConv2d(
            inputs,
            outputs,
            kernel,
            stride,
            padding,
            bits=self.weight_bits or 8,
            mean=mean,
            deviation=deviation,
        )

    def classifier(self, inputs: int, norm: BatchNorm | None = None) -> nn.Linear:
        """Return the last layer of a backbone, behind a batch norm or not."""
        if not self.stream_bits:
            return nn.Linear(inputs, self.classes)
        return IntegerLinear(inputs, self.classes, bits=self.weight_bits or 8, norm=norm)

    def activate(self) -> nn.Module:
        """Return what comes behind the batch norm: the sign, or a ReLU between real values."""
        if self.domain == "real":
            return nn.ReLU()
        return SignActivation(self.activation or "clipped")

    def scaled(self, features: int) -> int:
        """Return a number of channels times the width, at least one."""
        return max(1, round(features * self.width))


def build_model(config: ModelConfig) -> nn.Sequential:
    """Return a new model for the configuration.

    Parameters
    ----------
    config : ModelConfig
        Its name, its shape and all else that decides its layers.

    Examples
    --------
    >>> len(build_model(ModelConfig("mlp:64", shape=(8, 8, 1), classes=10)))
    6
    """
    if config.is_backbone:
        return build_backbone(config)
    topology = find_topology(config.name)
    first = config.make_encoder("integer" if config.domain == "real" else topology.encoder)
    height, width, channels = config.shape
    channels *= first.planes
    modules: list[nn.Module] = [first]
    for layer in topology.convolutions:
        outputs = config.scaled(layer.channels)
        modules += [
            config.conv(channels, outputs, layer.kernel, layer.stride),
            config.norm(outputs),
            config.activate(),
        ]
        channels = outputs
        if not config.flat:
            height = (height + 2 * config.padding - layer.kernel) // layer.stride + 1
        width = (width + 2 * config.padding - layer.kernel) // layer.stride + 1
        if layer.pool:
            modules.append(nn.MaxPool2d(config.along(2, 1) if config.flat else 2))
            height, width = height if config.flat else height // 2, width // 2
        if height < 1 or width < 1:
            raise ModelRejected(
                f"Model {config.name} shrinks {config.shape[0]}×{config.shape[1]} images to "
                f"nothing; use fewer layers or --padding"
            )
    modules.append(nn.Flatten())
    features = channels * height * width
    for hidden in topology.hidden:
        outputs = config.scaled(hidden)
        modules += [
            config.linear(features, outputs),
            config.norm(outputs),
            config.activate(),
        ]
        features = outputs
    return nn.Sequential(*modules, config.scores(features))
