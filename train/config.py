"""What a training run is: every choice by name, in one flat value.

Loads no torch by itself, so that the command line can show the defaults.
"""

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from sbnn_hw.data.options import DataOptions
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.catalogue import is_backbone

if TYPE_CHECKING:
    from sbnn_hw.train.data import Augmentation
    from sbnn_hw.train.models import ModelConfig

__all__ = ["LR_SCHEDULES", "METHODS", "SCHEDULES", "STREAMS", "TrainConfig", "check_device"]

METHODS = ("penalty", "topk", "luts", "none")
SCHEDULES = ("constant", "cubic")
PRECISIONS = ("float32", "bfloat16")
LR_SCHEDULES = ("cosine", "linear", "constant")
#: What residual networks say of their integers, and no other model does.
STREAMS = (
    "stream_bits", "weight_bits", "multiplier_digits", "sign_planes", "shortcut", "first",
)  # fmt: skip
#: The grid of ξ in networks with integer streams, unless told otherwise.
XI_BITS = 8


def check_device(name: str) -> None:
    """Refuse what is no name of a device."""
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise ModelRejected(f"Device must be auto, cpu, cuda or cuda:N, not {name!r}")


@dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults suit short runs on a CPU.

    Each field is an option of ``sbnn-hw train``, whose ``--help`` explains it. ``ec`` is one minus
    the sparsity.
    """

    model: str
    data: str
    #: How data of one's own are read; :class:`sbnn_hw.data.options.DataOptions` tells.
    label: str = ""
    size: str = ""
    gray: bool = False
    split: str = ""
    split_seed: int = 0
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    header: str = "auto"
    input_bits: int = 0
    scaling: str = "auto"
    kind: str = ""
    domain: str = "learned"
    xi_bits: int | None = None
    init: str = "unit"
    #: Gradient through the weights' sign. Empty chooses ``clipped``, and with top-k ``identity``:
    #: top-k moves latents far beyond one, where a clipped gradient would freeze them.
    gradient: str = ""
    activation: str = ""
    normalise: str = ""
    encoder: str = ""
    thresholds: tuple[int, ...] = ()
    #: With the encoder ``quantile``, the thresholds of each column (0: up to 15).
    planes: int = 0
    padding: int = 0
    padding_value: int | None = None
    width: float = 1.0
    norm_scale: str = ""
    #: Of backbones: bits of the integers between blocks, and of the weights of real layers.
    stream_bits: int = 0
    weight_bits: int = 0
    #: Of how many powers of two the multipliers in front of streams are sums.
    multiplier_digits: int = 0
    #: Of IR-Net's blocks, the bits that a value of a stream becomes in front of a convolution.
    sign_planes: int = 1
    shortcut: str = "real"
    first: str = "real"
    #: The constraint on the share of ones: 0.05 is 95 % sparse.
    ec: float = 0.5
    #: ``penalty`` is the paper's loss, ``topk`` the projection, ``luts`` a budget of look-up
    #: tables, ``none`` leaves U free.
    method: str = "penalty"
    #: The budget of the method ``luts``, for a 7-series FPGA. It falls from as many as the caps
    #: allow, as ``ec_schedule`` says.
    luts: int = 0
    #: With that method, the most taps of a neuron, layer by layer (0: as many as pay).
    fan_in: tuple[int, ...] = ()
    #: Share of the whole loss that the penalty holds.
    gamma: float = 0.5
    #: ``constant``, or ``cubic`` from 0.5 down to ``ec`` over that share of the run.
    ec_schedule: str = "constant"
    ec_until: float = 0.5
    #: Latent weights are kept within ± this (0: not at all; always off with top-k).
    clamp: float = 1.5
    #: After each epoch, neurons that are constant on training images, or the same as another, are
    #: taken away, and their tables left to others; they may grow again, but in the last one.
    replace_idle: bool = False
    epochs: int = 10
    batch: int = 256
    lr: float = 0.01
    lr_schedule: str = "cosine"
    beta2: float = 0.99
    #: Adam's L2 term on the weights of convolutions and of linear layers.
    weight_decay: float = 0.0
    crop: int = 0
    #: For the first share of the run, training sees windows of that many pixels a side (0: whole
    #: images). Small windows take less time; only networks that take any size can be trained so.
    window: int = 0
    window_until: float = 0.7
    #: Training images are turned by up to that many degrees, moved by up to that share of their
    #: side, scaled by up to that share, slanted by up to that many degrees, either way.
    rotate: float = 0.0
    shift: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    flip: bool = False
    #: Noise on the values, in deviations of each channel or column over the training rows.
    jitter: float = 0.0
    mixup: float = 0.0
    teacher: str = ""
    #: Share of the teacher in the loss, and the temperature that softens both outputs.
    distill: float = 0.5
    temperature: float = 4.0
    #: The teacher is asked before the run, once about each image and its mirror image, not in each
    #: step about what the network sees.
    teach_once: bool = False
    #: A checkpoint to begin from: whatever has the same name and shape is taken, such as the
    #: real-valued weights of ReActNet's first step.
    start: str = ""
    #: Training images held out to choose the epoch by.
    validation: int = 5000
    #: Chooses them; −1 leaves that to the seed.
    validation_seed: int = -1
    #: Training images from which the batch-norm statistics are recomputed after each epoch.
    recalibrate: int = 20000
    #: Epochs before this share of the run are neither recalibrated nor validated, and not chosen
    #: if others are: what takes time and says little.
    measure_from: float = 0.0
    seed: int = 0
    #: Where to train: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:1``.
    device: str = "auto"
    #: What convolutions and matrix products of a training step are computed in. Statistics,
    #: validation and the fold never use ``bfloat16``, which is faster where the processor has it.
    precision: str = "float32"
    #: Processes that decode the images of a folder (0: none but this one). They change no batch.
    workers: int = 0
    #: Threads of torch (0: as many as it chooses). Weights are the same bit for bit only for the
    #: same number.
    threads: int = 0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("Method", self.method, METHODS),
            ("EC schedule", self.ec_schedule, SCHEDULES),
            ("Learning-rate schedule", self.lr_schedule, LR_SCHEDULES),
            ("Precision", self.precision, PRECISIONS),
        ):
            if value not in choices:
                raise ModelRejected(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        for name, number, low, high in (
            ("Clamp", self.clamp, 0, 1e6),
            ("Crop", self.crop, 0, 16),
            ("Distill", self.distill, 0, 1),
            ("EC until", self.ec_until, 1e-9, 1),
            ("EC (the share of ones, 1 − sparsity)", self.ec, 1e-9, 1),
            ("Epochs", self.epochs, 1, 10**6),
            ("Batch", self.batch, 2, 10**6),
            ("Beta2", self.beta2, 0.1, 0.999999),
            ("Gamma", self.gamma, 0, 0.999),
            ("Jitter", self.jitter, 0, 100),
            ("LUTs", self.luts, 0, 10**9),
            ("Learning rate", self.lr, 1e-9, 10),
            ("Measure from", self.measure_from, 0, 1),
            ("MixUp", self.mixup, 0, 10),
            ("Rotate", self.rotate, 0, 180),
            ("Scale", self.scale, 0, 0.9),
            ("Shear", self.shear, 0, 80),
            ("Shift", self.shift, 0, 1),
            ("Weight decay", self.weight_decay, 0, 1),
            ("Window", self.window, 0, 4096),
            ("Window until", self.window_until, 0, 1),
            ("Recalibrate", self.recalibrate, 0, 10**9),
            ("Seed", self.seed, 0, 2**63 - 1),
            ("Temperature", self.temperature, 1e-3, 1e3),
            ("Threads", self.threads, 0, 1024),
            ("Validation", self.validation, 0, 10**9),
            ("Validation seed", self.validation_seed, -1, 2**63 - 1),
            ("Workers", self.workers, 0, 1024),
        ):
            if not low <= number <= high:
                raise ModelRejected(f"{name} must be between {low} and {high}, not {number!r}")
        check_device(self.device)
        if (self.method == "luts") != bool(self.luts):
            raise ModelRejected("--luts and --method luts must be given together")
        if self.fan_in and self.method != "luts":
            raise ModelRejected("--fan-in needs --method luts")
        if not all(0 <= cap <= 10**6 for cap in self.fan_in):
            raise ModelRejected(f"Caps on the fan-in must not be negative, not {self.fan_in!r}")
        if self.domain == "real" and self.method != "none":
            raise ModelRejected("Real weights have no ones to count; use --method none")
        if self.domain == "signed" and self.method == "penalty":
            raise ModelRejected(
                "The sparsity penalty is not defined for signed taps; use --method topk"
            )
        if self.method == "luts" and is_backbone(self.model):
            raise ModelRejected(
                f"A budget of LUTs (--method luts) does not work for residual networks such as "
                f"{self.model}; use --method topk or penalty"
            )
        if self.window and not is_backbone(self.model):
            raise ModelRejected(
                f"Windows (--window) need a network that takes images of any size, such as "
                f"resnet18, not {self.model}; omit the option"
            )
        if self.replace_idle:
            self._check_idle()

    def _check_idle(self) -> None:
        """Refuse to look for idle neurons where none could be taken away."""
        if is_backbone(self.model):
            raise ModelRejected(
                f"Idle neurons (--replace-idle) are not searched for in the backbone "
                f"{self.model}; omit the option"
            )
        # Both of their values count: −1 in place of +1 takes nothing away.
        if self.domain in ("real", "bnn", "symmetric"):
            raise ModelRejected(
                f"Weights of the domain {self.domain} cannot be removed (--replace-idle); omit "
                f"the option, or use another --domain"
            )
        if self.domain == "signed" and self.method == "none":
            raise ModelRejected(
                "With this --method no signed tap can be removed (--replace-idle); use --method "
                "topk or luts"
            )

    @property
    def augmentation(self) -> "Augmentation":
        """What is done to the training images."""
        from sbnn_hw.train.data import Augmentation

        return Augmentation(**{f.name: getattr(self, f.name) for f in fields(Augmentation)})

    @property
    def data_options(self) -> DataOptions:
        """How data of one's own are read."""
        return DataOptions(**{f.name: getattr(self, f.name) for f in fields(DataOptions)})

    def model_config(
        self, shape: tuple[int, int, int], classes: int, bits: int = 8
    ) -> "ModelConfig":
        """Return the part that makes the model, for images of a shape and values of some bits."""
        from sbnn_hw.train.models import ModelConfig

        own = {f.name for f in fields(ModelConfig)}
        same = {k: v for k, v in asdict(self).items() if k in own}
        if not self.gradient:
            same["gradient"] = "identity" if self.method in ("topk", "luts") else "clipped"
        if self.stream_bits and self.domain == "learned" and self.xi_bits is None:
            # Sums that go into a stream of integers need a grid.
            same["xi_bits"] = XI_BITS
        if self.stream_bits:
            same["weight_bits"] = self.weight_bits or 8
        return ModelConfig(name=self.model, shape=shape, classes=classes, bits=bits, **same)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
