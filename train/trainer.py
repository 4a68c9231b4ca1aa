"""The training itself: a step, an epoch, and where a run has got to.

It is deterministic, and the same in one process or several.
"""

import copy
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sbnn_hw.datasets import ImageFolder, Images
from sbnn_hw.errors import ChoiceRejected, ModelRejected
from sbnn_hw.netlist.meaning import Meaning
from sbnn_hw.train.checkpoint import Checkpoint, begin_from
from sbnn_hw.train.columns import ColumnEncoder
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.data import Augmentation
from sbnn_hw.train.exact import has_integers, real_valued, settle
from sbnn_hw.train.idle import replace_idle
from sbnn_hw.train.images import images_to_train
from sbnn_hw.train.layers import SignActivation, SparseBinaryLayer
from sbnn_hw.train.loss import training_loss
from sbnn_hw.train.memory import check_memory
from sbnn_hw.train.method import make_method
from sbnn_hw.train.models import build_model
from sbnn_hw.train.norm import recompute_statistics
from sbnn_hw.train.parallel import average, choose_device, together
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.schedule import Schedule
from sbnn_hw.train.sparsity import layers_of, ones_share
from sbnn_hw.train.state import STATE_FORMAT, damaged, require_same_run
from sbnn_hw.train.streams import place_streams
from sbnn_hw.train.teacher import taught
from sbnn_hw.train.validation import Best, accuracy

__all__ = ["Trainer"]

#: Training images on which a neuron must say the same to count as constant.
IDLE_IMAGES = 10_000
#: Training images by whose values the fractions of streams are chosen.
STREAM_IMAGES = 1_000
#: Training images at whose quantiles the thresholds of columns begin.
PLACED = 50_000


class Trainer:
    """One training run: its data, model, optimiser and where it has got to.

    The validation images are taken from ``images``, unless ``validation`` has them. The teacher, a
    module from raw pixels to class scores, is learned from too. Values of the input have ``bits``;
    ``meaning`` goes into the checkpoint. A copy of ``model`` is trained in place of the model that
    ``config`` describes.
    """

    def __init__(
        self,
        config: TrainConfig,
        images: Images | ImageFolder,
        *,
        classes: int,
        teacher: nn.Module | None = None,
        validation: Images | None = None,
        bits: int = 8,
        meaning: Meaning | None = None,
        model: nn.Sequential | None = None,
    ) -> None:
        self.config, self.classes, self.meaning = config, classes, meaning
        self.images, self.validation = images_to_train(config, images, validation)
        self.device = choose_device(config.device)
        with _choices():
            self.model_config = config.model_config(self.images.shape, classes, bits)
            if model is None:
                check_memory(self.model_config, self.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        self.model = build_model(self.model_config) if model is None else copy.deepcopy(model)
        if isinstance(self.model[0], ColumnEncoder):
            self.model[0].place(self._first(PLACED))
        if config.start:
            begin_from(self.model, Path(config.start))
        self.model.to(self.device)
        self.layers = layers_of(self.model)
        if model is not None:
            _unfreeze(self.layers, self.model_config.gradient)
        for layer in self.layers:
            layer.initialise_domain(config.init, ones_share=config.ec)
        #: What has EDE's steepness, which grows during the run.
        self.steep = [
            module
            for module in self.model.modules()
            if isinstance(module, SparseBinaryLayer | SignActivation) and module.gradient == "ede"
        ]
        self.teacher = teacher.eval().to(self.device) if teacher is not None else None
        if config.teach_once and self.teacher is not None:
            self.images = taught(self.images, self.teacher, classes, config, self.device)
            self.teacher = None
        groups = _by_decay(self.model, config.weight_decay)
        self.optimiser = torch.optim.Adam(
            groups, lr=config.lr, betas=(0.9, config.beta2), fused=True
        )
        self.forward = together(self.model)
        self.steps_per_epoch = len(self.images) // config.batch
        self.schedule = Schedule(config, config.epochs * self.steps_per_epoch)
        with _choices():
            self.method = make_method(self.schedule, self.model, self.images.shape[2])
        self.epoch = 0
        self.best = Best()
        self.history: list[dict[str, Any]] = []
        #: How long the epochs took; unknown where a state does not tell.
        self.seconds: float | None = 0.0

    # One step, one epoch

    def _precision(self) -> torch.autocast:
        """Return the context in which the products of a step are computed."""
        few = self.config.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=few)

    def step(self, step: int, pixels: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Take one step of the optimiser; return what happened."""
        config = self.config
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule.lr(step)
        for module in self.steep:
            module.steepness = self.schedule.steepness(step)
        # Bytes travel as bytes, a quarter of what they become.
        pixels = pixels.to(self.device).to(torch.get_default_dtype())
        targets = targets.to(self.device)
        self.method.begin_step(step)
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
        penalty = self.method.penalty(step, loss)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss + penalty)
        self.optimiser.step()
        self.method.end_step()
        right = (outputs.detach().argmax(1) == targets.argmax(1)).float().mean()
        return {"loss": loss.detach(), "penalty": penalty.detach(), "accuracy": right}

    def run_epoch(self, progress: Progress) -> dict[str, Any]:
        """Train for one epoch, recompute statistics, validate; return the log's row."""
        started = time.monotonic()
        means = self._train_epoch(progress)
        end = (self.epoch + 1) * self.steps_per_epoch
        self.method.settle(end)
        measured = self._measured()
        if measured:
            self._recalibrate()
        self._settle_integers(measured)
        replaced = {"replaced": self._replace_idle(end)} if self.config.replace_idle else {}
        self.epoch += 1
        row: dict[str, Any] = {
            "epoch": self.epoch,
            **means,
            "validation": self._validate() if measured else None,
            "ones": ones_share(self.layers),
            "ec": self.schedule.ec(end),
            "lr": self.schedule.lr(end),
            **replaced,
            **self.method.facts(),
        }
        self.history.append(row)
        # Without validation images the latest epoch is chosen.
        self.best.offer(self.epoch, row["validation"] or 0.0, self.method.met(row), self.model)
        if self.seconds is not None:
            self.seconds += time.monotonic() - started
        return row

    def _train_epoch(self, progress: Progress) -> dict[str, float]:
        """Take the steps of one epoch; return the means of what happened."""
        self.model.train()
        sums: dict[str, float] = {"loss": 0.0, "penalty": 0.0, "accuracy": 0.0}
        share = ones_share(self.layers)
        batches = self.images.batches(
            self.config.batch,
            classes=self.classes,
            seed=self.config.seed,
            epoch=self.epoch,
            augmentation=self._augmentation(),
        )
        for count, (pixels, targets) in enumerate(batches, start=1):
            step = self.epoch * self.steps_per_epoch + count - 1
            result = self.step(step, pixels, targets)
            for key in sums:
                sums[key] += result[key].item()
            if not math.isfinite(sums["loss"]):
                raise ModelRejected(
                    f"The loss is {sums['loss']} at step {step} of epoch {self.epoch + 1}; "
                    f"train with a lower --lr"
                )
            if count % 20 == 0:
                share = ones_share(self.layers)
            progress.step(
                epoch=self.epoch + 1,
                loss=sums["loss"] / count,
                accuracy=sums["accuracy"] / count,
                ones=share,
            )
        return {
            key: average(torch.tensor(value / self.steps_per_epoch)).item()
            for key, value in sums.items()
        }

    def _augmentation(self) -> Augmentation:
        """Return what is done to the images of this epoch."""
        found = self.config.augmentation
        whole = self.epoch >= self.config.window_until * self.config.epochs
        return replace(found, window=0) if whole else found

    def _first(self, most: int) -> Tensor:
        """Return the first training images."""
        return torch.cat([pixels for pixels, _ in self.images.evaluation_batches(most)])

    def _calibration(self, most: int) -> Iterator[Tensor]:
        """Yield training images as they are."""
        return (pixels.to(self.device) for pixels, _ in self.images.evaluation_batches(most))

    def _measured(self) -> bool:
        """Whether the epoch that ends is one to choose from."""
        epochs = self.config.epochs
        return self.epoch + 1 > self.config.measure_from * epochs or self.epoch + 1 == epochs

    def _validate(self) -> float | None:
        return accuracy(self.model, self.validation) if len(self.validation) else None

    def _recalibrate(self) -> None:
        if self.config.recalibrate:
            with real_valued(self.model):
                recompute_statistics(self.model, lambda: self._calibration(self.config.recalibrate))

    def _settle_integers(self, measured: bool) -> None:
        """Choose what a unit of each stream stands for, and compute all integers."""
        if not has_integers(self.model):
            return
        if place_streams(self.model, lambda: self._calibration(STREAM_IMAGES)) and measured:
            self._recalibrate()
        settle(self.model)

    def _replace_idle(self, end: int) -> int:
        """Take away what says nothing, and give what it took to others; return how many neurons."""
        # A seed for each epoch, so that a run that goes on draws what it would have drawn.
        seed = (self.config.seed + self.epoch) % 2**63
        images = self._calibration(IDLE_IMAGES)
        # What would grow behind the last step is never trained.
        last = self.epoch + 1 == self.config.epochs
        found = replace_idle(self.model, images, self.optimiser, seed=seed, grow=not last)
        if found.changed:
            if not last:
                self.method.settle(end)
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
        require_same_run(state, path, self.config, self.model)
        try:
            self.epoch, self.history = state["epoch"], state["history"]
            self.seconds = state.get("seconds")
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.best = Best(**state["best"])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
            raise damaged(path) from None

    def checkpoint(self) -> Checkpoint:
        """Return the chosen epoch's model as a checkpoint."""
        if self.model_config.is_own:
            model = copy.deepcopy(self.model).cpu()
        else:
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
        return Checkpoint(
            self.model_config, model.eval(), self.config.to_dict(), metrics, self.meaning
        )


@contextmanager
def _choices() -> Iterator[None]:
    """Blame the choices of a run for a model that cannot be made of them."""
    try:
        yield
    except ModelRejected as error:
        raise ChoiceRejected(str(error)) from None


def _unfreeze(layers: list[SparseBinaryLayer], gradient: str) -> None:
    """Give layers the gradient that their method needs, where they have the usual one."""
    for layer in layers:
        if layer.gradient == "clipped":
            layer.gradient = gradient


def _by_decay(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return the parameters in groups: decay is for weights of convolutions and linear layers."""
    if not decay:
        return [{"params": list(model.parameters())}]
    weighted = (nn.Conv2d, nn.Linear, SparseBinaryLayer)
    decayed = [m.weight for m in model.modules() if isinstance(m, weighted)]
    kept = {id(parameter) for parameter in decayed}
    others = [p for p in model.parameters() if id(p) not in kept]
    return [{"params": others}, {"params": decayed, "weight_decay": decay}]
