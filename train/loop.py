"""The training loop: deterministic, resumable, the same in one process or several."""

import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sbnn_hw import datasets
from sbnn_hw.datasets import ImageFolder, Images
from sbnn_hw.errors import ChoiceRejected, ModelRejected, OutputRefused, UsageError
from sbnn_hw.files import check_writable, exclusive, remove_partials, write_atomically
from sbnn_hw.train.budget import LutBudget, input_costs
from sbnn_hw.train.checkpoint import (
    Checkpoint,
    check_fit,
    load_checkpoint,
    read_tensors,
    save_checkpoint,
    write_tensors,
)
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.data import TrainingImages, split_validation, to_tensors
from sbnn_hw.train.folder import open_folder
from sbnn_hw.train.idle import replace_idle
from sbnn_hw.train.layers import InputEncoder, SignActivation, SparseBinaryLayer
from sbnn_hw.train.memory import check_memory, out_of_memory
from sbnn_hw.train.models import build_model
from sbnn_hw.train.norm import recompute_statistics
from sbnn_hw.train.parallel import average, is_first, local_rank, process_group, world_size
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.signs import ede_steepness
from sbnn_hw.train.sparsity import (
    TOLERANCE,
    SparsityPenalty,
    TopK,
    layers_of,
    ones_share,
    scheduled_ec,
)
from sbnn_hw.train.teacher import teacher_from

__all__ = [
    "Trainer",
    "accuracy",
    "begin_from",
    "budget_of",
    "choose_device",
    "images_of",
    "train",
    "training_loss",
]

STATE_FORMAT = "sbnn-hw training state"
#: Top-k moves the cut every so many steps: sorting all the weights is not free.
TOPK_EVERY = 10
#: Training images on which a neuron must say the same to count as constant.
IDLE_IMAGES = 10_000
#: Choices that change no weight, so that a run may go on with others.
FREE = ("workers",)
#: What is read of every epoch's row again.
ROW = {"epoch", "loss", "penalty", "accuracy", "validation", "ones", "ec"}


def images_of(source: Images | ImageFolder, *, workers: int = 0) -> TrainingImages:
    """Return images as the loop takes them: from memory, or decoded by ``workers`` processes."""
    if isinstance(source, ImageFolder):
        return open_folder(source, workers=workers)
    return to_tensors(source)


@torch.no_grad()
def accuracy(model: nn.Module, images: TrainingImages) -> float:
    """Return the share of images that the model, as it is, puts in the right class."""
    training = model.training
    model.eval()
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    right = sum(
        int((model(pixels.to(device)).argmax(1).cpu() == labels).sum())
        for pixels, labels in images.evaluation_batches()
    )
    model.train(training)
    return right / len(images)


def training_loss(
    outputs: Tensor,
    targets: Tensor,
    *,
    teacher: Tensor | None,
    distill: float,
    temperature: float,
) -> Tensor:
    """Return cross-entropy with the targets, mixed with that with a teacher's softened outputs.

    The teacher's part is −Σ softmax(teacher)·log softmax(outputs), ReActNet's distribution loss. It
    has the gradients of the Kullback-Leibler divergence but not its value, and the sparsity loss is
    scaled by the value.
    """
    if teacher is None:
        return F.cross_entropy(outputs, targets)
    soft = F.cross_entropy(outputs / temperature, (teacher / temperature).softmax(1))
    if distill == 1:
        return temperature**2 * soft
    return (1 - distill) * F.cross_entropy(outputs, targets) + distill * temperature**2 * soft


@dataclass
class _Best:
    """The epoch chosen so far, by accuracy on validation images among those sparse enough."""

    epoch: int = -1
    accuracy: float = -1.0
    met: bool = False
    state: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, epoch: int, accuracy: float, met: bool, model: nn.Module) -> None:
        """Take the epoch if it is at least as good; until one is sparse enough, the latest."""
        better = accuracy >= self.accuracy if met and self.met else met >= self.met
        if better:
            self.epoch, self.accuracy, self.met = epoch, accuracy, met
            self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}


class Trainer:
    """One training run: its data, model, optimiser and where it has got to.

    Parameters
    ----------
    config : TrainConfig
        Every choice of the run.
    images : Images or ImageFolder
        Training images; the validation images are taken from them.
    classes : int
        Number of classes.
    teacher : nn.Module, optional
        A module from raw pixels to class scores, whose outputs are learned from too.
    """

    def __init__(
        self,
        config: TrainConfig,
        images: Images | ImageFolder,
        *,
        classes: int,
        teacher: nn.Module | None = None,
    ) -> None:
        if config.batch % world_size():
            raise ChoiceRejected(
                f"Batch must be a multiple of the {world_size()} processes, not {config.batch}"
            )
        if isinstance(images, ImageFolder) and (config.crop or config.augmentation.affine):
            raise ChoiceRejected(
                "Image files are cropped at random sizes; train without --crop, --rotate, "
                "--shift, --scale and --shear"
            )
        self.config, self.classes = config, classes
        whole = images_of(images, workers=config.workers)
        self.device = choose_device(config.device)
        with _choices():
            self.model_config = config.model_config(whole.shape, classes)
            check_memory(self.model_config, self.device)
        held_out = min(config.validation, len(whole) // 5)
        by = config.seed if config.validation_seed < 0 else config.validation_seed
        self.images, self.validation = split_validation(whole, held_out, seed=by)
        if len(self.images) < config.batch:
            raise ChoiceRejected(
                f"Batch must be at most the {len(self.images)} training images, not {config.batch}"
            )
        if config.threads:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        self.model = build_model(self.model_config)
        if config.start:
            begin_from(self.model, Path(config.start))
        self.model.to(self.device)
        self.layers = layers_of(self.model)
        for layer in self.layers:
            layer.initialise_domain(config.init, ones_share=config.ec)
        #: What has EDE's steepness, which grows during the run.
        self.steep = [
            module
            for module in self.model.modules()
            if isinstance(module, SparseBinaryLayer | SignActivation) and module.gradient == "ede"
        ]
        self.teacher = teacher.eval().to(self.device) if teacher is not None else None
        self.optimiser = torch.optim.Adam(
            _by_decay(self.model, config.weight_decay),
            lr=config.lr,
            betas=(0.9, config.beta2),
            fused=True,
        )
        self.forward: nn.Module = (
            DistributedDataParallel(self.model, **_own_buffers())
            if world_size() > 1
            else self.model
        )
        self.penalty = SparsityPenalty(config.gamma if config.method == "penalty" else 0.0)
        self.topk = TopK() if config.method == "topk" else None
        with _choices():
            self.budget = (
                budget_of(config, self.model, whole.shape[2]) if config.method == "luts" else None
            )
        self.steps_per_epoch = len(self.images) // config.batch
        self.epoch = 0
        self.best = _Best()
        self.history: list[dict[str, Any]] = []
        #: How long the epochs took; unknown where a state does not tell.
        self.seconds: float | None = 0.0

    # One step, one epoch

    def _progress(self, step: int) -> float:
        return step / max(1, self.config.epochs * self.steps_per_epoch)

    def _ec(self, step: int) -> float:
        return scheduled_ec(
            self.config.ec,
            self._progress(step),
            schedule=self.config.ec_schedule,
            until=self.config.ec_until,
        )

    def _lr(self, step: int) -> float:
        remaining = 1 - self._progress(step)
        factor = {
            "cosine": 0.5 - 0.5 * math.cos(math.pi * remaining),
            "linear": remaining,
            "constant": 1.0,
        }[self.config.lr_schedule]
        return self.config.lr * factor

    def _precision(self) -> torch.autocast:
        """Return the context in which the products of a step are computed."""
        few = self.config.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=few)

    def _spend(self, step: int) -> None:
        """Choose the taps that the budget at this step allows."""
        assert self.budget is not None
        slack = 2 * (
            scheduled_ec(
                0.0,
                self._progress(step),
                schedule=self.config.ec_schedule,
                until=self.config.ec_until,
            )
        )
        self.budget.reprice()
        luts = self.config.luts + (self.budget.largest - self.config.luts) * slack
        self.budget.refresh(luts, slack=slack)

    def step(self, step: int, pixels: Tensor, targets: Tensor) -> dict[str, Any]:
        """Take one step of the optimiser; return what happened."""
        config = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = self._lr(step)
        for module in self.steep:
            module.steepness = ede_steepness(self._progress(step))
        # Bytes travel as bytes, a quarter of what they become.
        pixels = pixels.to(self.device).to(torch.get_default_dtype())
        targets = targets.to(self.device)
        ec = self._ec(step)
        if self.topk and step % TOPK_EVERY == 0:
            self.topk.refresh(self.layers, ec)
        if self.budget and step % TOPK_EVERY == 0:
            self._spend(step)
        with self._precision():
            with torch.no_grad():
                teacher = self.teacher(pixels) if self.teacher is not None else None
            outputs = self.forward(pixels)
        # The loss is not computed in few bits.
        outputs = outputs.to(pixels.dtype)
        teacher = teacher.to(pixels.dtype) if teacher is not None else None
        loss = training_loss(
            outputs,
            targets,
            teacher=teacher,
            distill=config.distill,
            temperature=config.temperature,
        )
        penalty = self.penalty(self.layers, ec, loss)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss + penalty)
        self.optimiser.step()
        if config.clamp and not self.topk and not self.budget:
            with torch.no_grad():
                for layer in self.layers:
                    layer.weight.clamp_(-config.clamp, config.clamp)
        right = (outputs.detach().argmax(1) == targets.argmax(1)).float().mean()
        return {"loss": loss.detach(), "penalty": penalty.detach(), "accuracy": right, "ec": ec}

    def run_epoch(self, progress: Progress) -> dict[str, Any]:
        """Train for one epoch, choose statistics anew, validate; return the log's row."""
        started = time.monotonic()
        self.model.train()
        sums: dict[str, float] = {"loss": 0.0, "penalty": 0.0, "accuracy": 0.0}
        step = self.epoch * self.steps_per_epoch
        share = ones_share(self.layers)
        for count, (pixels, targets) in enumerate(
            self.images.batches(
                self.config.batch,
                classes=self.classes,
                seed=self.config.seed,
                epoch=self.epoch,
                augmentation=self.config.augmentation,
            ),
            start=1,
        ):
            result = self.step(step, pixels, targets)
            for key in sums:
                sums[key] += result[key].item()
            if not math.isfinite(sums["loss"]):
                raise ModelRejected(
                    f"The loss is {sums['loss']} at step {step} of epoch {self.epoch + 1}; "
                    f"train with a lower --lr"
                )
            step += 1
            if count % 20 == 0:
                share = ones_share(self.layers)
            progress.step(
                epoch=self.epoch + 1,
                loss=sums["loss"] / count,
                accuracy=sums["accuracy"] / count,
                ones=share,
            )
        if self.topk:
            self.topk.project(self.layers, self._ec(step))
        if self.budget:
            self._spend(step)
        self._recalibrate()
        replaced = self._replace_idle() if self.config.replace_idle else 0
        self.epoch += 1
        means = {
            key: average(torch.tensor(value / self.steps_per_epoch)).item()
            for key, value in sums.items()
        }
        row = {
            "epoch": self.epoch,
            **means,
            "validation": accuracy(self.model, self.validation) if len(self.validation) else None,
            "ones": ones_share(self.layers),
            "ec": self._ec(step),
            "lr": self._lr(step),
        }
        if self.config.replace_idle:
            row["replaced"] = replaced
        self.history.append(row)
        share = ones_share(self.layers)
        if self.budget:
            luts = row["luts"] = self.budget.luts()
            met = luts <= self.config.luts
        else:
            met = self.config.method == "none" or share <= self.config.ec + TOLERANCE
        # Without validation images the latest epoch is chosen.
        self.best.offer(self.epoch, row["validation"] or 0.0, met, self.model)
        if self.seconds is not None:
            self.seconds += time.monotonic() - started
        return row

    def _calibration(self, most: int) -> Iterator[Tensor]:
        """Yield training images as they are."""
        return (pixels.to(self.device) for pixels, _ in self.images.evaluation_batches(most))

    def _recalibrate(self) -> None:
        if self.config.recalibrate:
            recompute_statistics(self.model, lambda: self._calibration(self.config.recalibrate))

    def _replace_idle(self) -> int:
        """Take away what says nothing, and give what it took to others; return how many neurons."""
        # A seed for each epoch, so that a run that goes on draws what it would have drawn.
        seed = (self.config.seed + self.epoch) % 2**63
        images = self._calibration(IDLE_IMAGES)
        # What would grow behind the last step is never trained.
        last = self.epoch + 1 == self.config.epochs
        found = replace_idle(self.model, images, self.optimiser, seed=seed, grow=not last)
        if found.changed:
            if self.budget and not last:
                self._spend((self.epoch + 1) * self.steps_per_epoch)
            if self.topk and not last:
                self.topk.project(self.layers, self._ec((self.epoch + 1) * self.steps_per_epoch))
            self._recalibrate()
        return found.neurons

    # The state of a run

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on exactly from here."""
        return {
            "format": STATE_FORMAT,
            "config": self.config.to_dict(),
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best": vars(self.best),
            "history": self.history,
            "seconds": self.seconds,
        }

    def restore(self, state: dict[str, Any], path: Path) -> None:
        """Go on from a state; it must be one of the same run."""
        if state.get("format") != STATE_FORMAT or not isinstance(state.get("config"), dict):
            raise ModelRejected(f"{path} is not a training state; use --replace to start over")
        mine = self.config.to_dict()
        for key, value in state["config"].items():
            if key in FREE:
                continue
            if (tuple(value) if isinstance(value, list) else value) != mine.get(key):
                raise ModelRejected(
                    f"{path} was trained with {key} = {value!r}, not {mine.get(key)!r}; "
                    f"resume with the same options, or use --replace to start over"
                )
        if what := self._contradiction(state):
            raise ModelRejected(f"{path} is damaged ({what}); use --replace to start over")
        try:
            self.epoch, self.history = state["epoch"], state["history"]
            self.seconds = state.get("seconds")
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.best = _Best(**state["best"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
            raise ModelRejected(f"{path} is damaged; use --replace to start over") from None

    def _contradiction(self, state: dict[str, Any]) -> str:
        """Return what a state says that cannot be, or nothing."""
        epoch, history, best = (state.get(key) for key in ("epoch", "history", "best"))
        # True is an int to Python, and no number here.
        if type(epoch) is not int:
            return f"its epoch is {epoch!r}"
        if not 1 <= epoch <= self.config.epochs:
            return f"its epoch is {epoch} of {self.config.epochs}"
        if not isinstance(history, list):
            return "its history is not a list"
        if len(history) != epoch:
            return f"its history has {len(history)} epochs, not {epoch}"
        if not all(isinstance(row, dict) and row.keys() >= ROW for row in history):
            return "its history is incomplete"
        if [row["epoch"] for row in history] != list(range(1, epoch + 1)):
            return "its history is out of order"
        seconds = state.get("seconds")
        if seconds is not None and not (isinstance(seconds, int | float) and 0 <= seconds < 1e12):
            return f"its seconds are {seconds!r}"
        if not isinstance(best, dict) or best.keys() != vars(_Best()).keys():
            return "its best epoch is incomplete"
        if type(best["epoch"]) is not int:
            return f"its best epoch is {best['epoch']!r}"
        if not 1 <= best["epoch"] <= epoch:
            return f"its best epoch is {best['epoch']} of {epoch}"
        kinds = {"accuracy": float, "met": bool, "state": dict}
        if not all(isinstance(best[key], kind) for key, kind in kinds.items()) or not all(
            isinstance(value, Tensor) for value in best["state"].values()
        ):
            return "its best epoch is incomplete"
        try:
            check_fit(best["state"], self.model.state_dict())
        except ModelRejected as error:
            return f"in its best epoch {error}"
        return ""

    def checkpoint(self) -> Checkpoint:
        """Return the chosen epoch's model as a checkpoint."""
        model = build_model(self.model_config)
        model.load_state_dict(self.best.state)
        row = self.history[self.best.epoch - 1]
        layers = layers_of(model)
        ones = [int(layer.ones().item()) for layer in layers]
        metrics = {
            "epoch": self.best.epoch,
            "validation": row["validation"],
            "ones": sum(ones),
            "weights": sum(layer.weight.numel() for layer in layers),
            "constraint_met": self.best.met,
        }
        return Checkpoint(self.model_config, model.eval(), self.config.to_dict(), metrics)


def _own_buffers() -> dict[str, Any]:
    """Return the option that leaves every process its buffers; a later torch renamed it."""
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    renamed = "forward_sync_buffers" in known
    return {"forward_sync_buffers" if renamed else "broadcast_buffers": False}


@contextmanager
def _choices() -> Iterator[None]:
    """Blame the choices of a run for a model that cannot be made of them."""
    try:
        yield
    except ModelRejected as error:
        raise ChoiceRejected(str(error)) from None


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is a GPU if there is one, one for each process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device(name)
    if ":" in name and world_size() > 1:
        raise ChoiceRejected(f"Several processes cannot share {name}; use --device cuda")
    device = torch.device(name if ":" in name else f"cuda:{local_rank()}")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.index >= found:
        raise ChoiceRejected(
            f"There is no device {device} (torch finds {found or 'no'} GPU{'s' * (found > 1)}); "
            f"use another --device, such as cpu, or fewer processes"
        )
    return device


def budget_of(config: TrainConfig, model: nn.Sequential, channels: int) -> LutBudget:
    """Return the budget for the layers of a model; pixels that are integers have eight bits."""
    encoder = model[0]
    integers = isinstance(encoder, InputEncoder) and encoder.kind == "integer"
    encoded = input_costs(encoder) * channels if isinstance(encoder, InputEncoder) else ()
    layers = layers_of(model)
    if len(config.fan_in) > len(layers):
        raise ModelRejected(
            f"--fan-in has {len(config.fan_in)} values, but {config.model} has {len(layers)} "
            f"layers, the scores included; give at most one per layer"
        )
    budget = LutBudget(layers, caps=config.fan_in, input_bits=8 if integers else 1, encoded=encoded)
    if budget.constant:
        most = budget.caps[-1]
        raise ModelRejected(
            f"With all {most:,} taps every class has the same score in the domain {config.domain}; "
            f"cap the taps of the scores with a last --fan-in of about {most // 2:,}"
        )
    if config.luts < budget.least:
        raise ModelRejected(
            f"A budget of {config.luts:,} LUTs is less than the {math.ceil(budget.least):,} that "
            f"q, the scores and the search for the largest need; raise --luts, or cap the taps of "
            f"the scores with a last --fan-in below {budget.caps[-1]}"
        )
    return budget


def _by_decay(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return the parameters in groups: decay is for weights of convolutions and linear layers."""
    if not decay:
        return [{"params": list(model.parameters())}]
    weighted = (nn.Conv2d, nn.Linear, SparseBinaryLayer)
    decayed = [m.weight for m in model.modules() if isinstance(m, weighted)]
    kept = {id(parameter) for parameter in decayed}
    others = [p for p in model.parameters() if id(p) not in kept]
    return [{"params": others}, {"params": decayed, "weight_decay": decay}]


@torch.no_grad()
def begin_from(model: nn.Module, path: str | Path) -> None:
    """Copy a checkpoint's values: all but those of the domain, which may be another one."""
    given = load_checkpoint(path).model.state_dict()
    own = model.state_dict()
    for name, value in own.items():
        if ".domain." in name or name.endswith(".cut"):
            given.pop(name, None)
        elif name not in given or given[name].shape != value.shape:
            shape = tuple(given[name].shape) if name in given else "nothing"
            raise ModelRejected(
                f"{path} cannot be used for --start: for {name} it has {shape}, but the new model "
                f"has {tuple(value.shape)}; give a checkpoint of the same model and width"
            )
    model.load_state_dict({k: v for k, v in given.items() if k in own}, strict=False)


def train(
    config: TrainConfig,
    out: str | Path,
    *,
    data_root: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    teacher: nn.Module | None = None,
    talk: Callable[[str], None] | None = None,
) -> Checkpoint:
    """Train to the end; write the checkpoint, the state to resume from, the log and its plot.

    Parameters
    ----------
    config : TrainConfig
        Every choice of the run.
    out : str or Path
        Where to write the checkpoint; the other files are named after it.
    data_root : str or Path, optional
        Where data sets are.
    resume : bool
        Whether to go on from the state of a run that was stopped.
    replace : bool
        Whether to start over where a run has left its files, which is refused otherwise.
    teacher : nn.Module, optional
        A module from raw pixels to class scores, in place of the one that ``config`` names.
    talk : callable, optional
        Takes a line for people.
    """
    out = Path(out)
    root = None if data_root is None else Path(data_root)
    with process_group(), exclusive(out) if is_first() else nullcontext(), out_of_memory():
        if is_first() and not replace:
            _keep(out, resume)
        return _train(config, out, root, resume, teacher, talk)


def _state_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}.state.pt")


def _keep(out: Path, resume: bool) -> None:
    """Refuse to write over what a run has left, and say how it is kept or given up."""
    state_path = _state_path(out)
    if resume and (state_path.exists() or not out.exists()):
        return
    if resume:
        raise OutputRefused(
            f"{out} already exists, and there is no state at {state_path} to resume "
            f"from; add --replace to overwrite it, or choose another --out"
        )
    try:
        state = read_tensors(state_path, "training state")
        epoch, epochs = state["epoch"], state["config"]["epochs"]
        stopped = epoch < epochs
    except (ModelRejected, KeyError, TypeError):
        stopped = False
    if stopped:
        raise OutputRefused(
            f"The run of {out} was stopped after epoch {epoch} of {epochs}; add --resume to "
            f"continue it, --replace to start over, or choose another --out"
        )
    if out.exists():
        raise OutputRefused(
            f"{out} already exists; add --replace to overwrite it, or choose another --out"
        )


def _train(
    config: TrainConfig,
    out: Path,
    data_root: Path | None,
    resume: bool,
    teacher: nn.Module | None,
    talk: Callable[[str], None] | None,
) -> Checkpoint:
    talk = talk if talk is not None and is_first() else lambda _: None
    state_path = _state_path(out)
    log_path = out.with_name(f"{out.stem}.log.jsonl")
    plot_path = out.with_name(f"{out.stem}.log.png")
    for path in (out, state_path, log_path, plot_path):
        check_writable(path)
        if is_first():
            remove_partials(path)
    images, classes = datasets.find(config.data).open("train", data_root)
    if teacher is None and config.teacher:
        teacher = _load_teacher(Path(config.teacher), config.data, images.shape, classes)
    if teacher is None and config.distill == 1:
        raise UsageError(
            "--distill 1, which takes the whole loss from the teacher, needs a --teacher"
        )
    trainer = Trainer(config, images, classes=classes, teacher=teacher)
    if resume and state_path.exists():
        trainer.restore(read_tensors(state_path, "training state"), state_path)
        talk(f"continuing after epoch {trainer.epoch} of {config.epochs}")
    elif resume:
        talk(f"no state at {state_path}; starting from the beginning")
    steps = (config.epochs - trainer.epoch) * trainer.steps_per_epoch
    with Progress(steps, quiet=not is_first(), stream=sys.stderr) as progress:
        while trainer.epoch < config.epochs:
            row = trainer.run_epoch(progress)
            if is_first():
                write_tensors(state_path, trainer.state())
                save_checkpoint(out, trainer.checkpoint())
                write_log(log_path, trainer.history)
            progress.epoch(row, config.epochs)
    checkpoint = trainer.checkpoint()
    if is_first():
        save_checkpoint(out, checkpoint)
        write_log(log_path, trainer.history)
        from sbnn_hw.train.plot import draw_log

        draw_log(trainer.history, plot_path, chosen=trainer.best.epoch)
    if not checkpoint.metrics["constraint_met"]:
        talk(
            f"the budget of {config.luts:,} LUTs was never met; raise --luts or --epochs"
            if config.method == "luts"
            else f"the share of ones never fell to {config.ec:.4g}; raise --gamma or "
            f"--epochs, or use --method topk"
        )
    if trainer.seconds is not None:
        talk(f"trained for {trainer.seconds:.0f} s")
    return checkpoint


def _load_teacher(path: Path, data: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return the model of a checkpoint, or the ResNet-34 of torchvision's state dict."""
    content = read_tensors(
        path,
        "teacher",
        absent="give a checkpoint, or torchvision's state dict of resnet34",
        damaged="give a checkpoint, or fetch torchvision's file again",
    )
    if "format" not in content:
        model: nn.Module = teacher_from(content, path)
        given = (shape, content["fc.weight"].shape[0])
    else:
        checkpoint = load_checkpoint(path)
        model, given = checkpoint.model, (checkpoint.config.shape, checkpoint.config.classes)
    if given != (shape, classes):
        raise ModelRejected(
            f"Teacher {path} takes images of {'×'.join(map(str, given[0]))} in {given[1]} classes, "
            f"but {data} has {'×'.join(map(str, shape))} in {classes}"
        )
    return model


def write_log(path: Path, history: list[dict[str, Any]]) -> None:
    """Write the log, one JSON object an epoch."""
    text = "".join(json.dumps(row) + "\n" for row in history)
    write_atomically(path, lambda file: file.write(text.encode()))
