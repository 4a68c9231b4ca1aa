"""One trial of a search: train with a budget, and tell each epoch how it goes."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sbnn_hw.data.find import find_data
from sbnn_hw.data.options import DataOptions
from sbnn_hw.datasets import ImageFolder, Images
from sbnn_hw.errors import UsageError
from sbnn_hw.netlist import Network
from sbnn_hw.train.checkpoint import Checkpoint, save_checkpoint
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.data import TrainingImages
from sbnn_hw.train.fold import fold_model
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.trainer import Trainer

__all__ = ["Runner", "save_and_fold"]


class Runner:
    """Trains one network after another on the training images of a data set, read once.

    The test images of the data set are never read.
    """

    def __init__(
        self, data: str, data_root: Path | None = None, options: DataOptions | None = None
    ) -> None:
        source = find_data(data, options, root=data_root)
        images, self.classes = source.open("train", data_root)
        if isinstance(images, ImageFolder):
            raise UsageError(f"Data set {data} is too large to search on; name a smaller one")
        self.images: Images = images
        #: What the data know of themselves.
        self.known: dict[str, Any] = {
            "validation": source.validation,
            "bits": source.bits,
            "meaning": source.meaning,
        }

    def epochs_within(self, config: TrainConfig, seconds: float) -> TrainConfig:
        """Return the same run with as many epochs, up to its own, as take so many seconds.

        One epoch is run and timed, and forgotten.
        """
        trainer = Trainer(config, self.images, classes=self.classes, **self.known)
        started = time.monotonic()
        with Progress(trainer.steps_per_epoch, quiet=True, stream=sys.stderr) as progress:
            trainer.run_epoch(progress)
        each = time.monotonic() - started
        return replace(config, epochs=max(1, min(config.epochs, int(seconds / each))))

    def train(
        self,
        config: TrainConfig,
        begin: Callable[[int], None],
        report: Callable[[float, int], None],
    ) -> tuple[Checkpoint, Images]:
        """Train to the end, unless ``report`` raises; return the validation images too.

        ``begin`` is told the number of weights, ``report`` each epoch's accuracy on validation
        images and its number.
        """
        trainer = Trainer(config, self.images, classes=self.classes, **self.known)
        if not len(trainer.validation):
            raise UsageError("A search needs validation images; set --validation above 0")
        begin(sum(layer.weight.numel() for layer in trainer.layers))
        steps = config.epochs * trainer.steps_per_epoch
        # Elsewhere than on a terminal a line for each trial is enough.
        quiet = not sys.stderr.isatty()
        with Progress(steps, quiet=quiet, stream=sys.stderr) as progress:
            while trainer.epoch < config.epochs:
                row = trainer.run_epoch(progress)
                progress.epoch(row, config.epochs)
                report(row["validation"], trainer.epoch)
        return trainer.checkpoint(), _as_bytes(trainer.validation)


def _as_bytes(images: TrainingImages) -> Images:
    """Return images as data sets have them, channels last."""
    batches = list(images.evaluation_batches())
    pixels = torch.cat([pixels for pixels, _ in batches]).permute(0, 2, 3, 1)
    labels = torch.cat([labels for _, labels in batches])
    wide = torch.int32 if int(pixels.max()) > 255 else torch.uint8
    values = pixels.to(wide).contiguous().numpy()
    return Images(values.astype(np.uint16) if wide == torch.int32 else values, labels.numpy())


def save_and_fold(checkpoint: Checkpoint, path: Path) -> Network:
    """Return the integer network of a checkpoint, which is written."""
    network = fold_model(checkpoint.model, checkpoint.config.shape).network
    save_checkpoint(path, checkpoint)
    return replace(network, meaning=checkpoint.meaning)
