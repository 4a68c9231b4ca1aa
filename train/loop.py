"""A training run from its options to its files: it can be stopped at any moment, and resumed."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from torch import nn

from sbnn_hw.data.find import find_data
from sbnn_hw.data.own import OwnData
from sbnn_hw.datasets import Dataset
from sbnn_hw.errors import UsageError
from sbnn_hw.files import exclusive
from sbnn_hw.train.checkpoint import Checkpoint
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.memory import out_of_memory
from sbnn_hw.train.outputs import Outputs
from sbnn_hw.train.parallel import is_first, process_group
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.state import read_state
from sbnn_hw.train.teacher import load_teacher
from sbnn_hw.train.trainer import Trainer

__all__ = ["train"]


def train(
    config: TrainConfig,
    out: str | Path | None,
    *,
    data_root: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    teacher: nn.Module | None = None,
    data: OwnData | Dataset | None = None,
    model: nn.Sequential | None = None,
    talk: Callable[[str], None] | None = None,
    quiet: bool = False,
) -> Checkpoint:
    """Train to the end; write the checkpoint, the state to resume from, the log and its plot.

    ``out`` is where to write the checkpoint; the other files are named after it. Without it nothing
    is written. ``resume`` goes on
    from the state of a run that was stopped. ``replace`` starts over where a run has left its
    files, which is refused otherwise. ``teacher``, a module from raw pixels to class scores, takes
    the place of the one that ``config`` names, ``data`` that of its data, and ``model`` that of its
    model. ``talk`` takes a line for people. ``quiet`` shows no progress.
    """
    outputs = None if out is None else Outputs(Path(out))
    root = None if data_root is None else Path(data_root)
    with (
        process_group(),
        exclusive(outputs.checkpoint) if outputs and is_first() else nullcontext(),
        out_of_memory(),
    ):
        say: Callable[[str], None] = talk if talk is not None and is_first() else lambda _: None
        if outputs is not None:
            if is_first() and not replace:
                outputs.keep(resume=resume)
            outputs.prepare()
        trainer = _make_trainer(config, root, teacher, data, model)
        if outputs is not None and resume:
            _go_on(trainer, outputs.state, say)
        _run_epochs(trainer, outputs, quiet=quiet or not is_first())
        checkpoint = trainer.checkpoint()
        if outputs is not None and is_first():
            outputs.finish(trainer, checkpoint)
        if not checkpoint.metrics["constraint_met"]:
            say(trainer.method.unmet())
        if trainer.seconds is not None:
            say(f"trained for {trainer.seconds:.0f} s")
        return checkpoint


def _make_trainer(
    config: TrainConfig,
    data_root: Path | None,
    teacher: nn.Module | None,
    data: OwnData | Dataset | None,
    model: nn.Sequential | None,
) -> Trainer:
    source = data or find_data(config.data, config.data_options, root=data_root)
    images, classes = source.open("train", data_root)
    if teacher is None and config.teacher:
        teacher = load_teacher(Path(config.teacher), config.data, images.shape, classes)
    if teacher is None and config.distill == 1:
        raise UsageError(
            "--distill 1, which takes the whole loss from the teacher, needs a --teacher"
        )
    if teacher is None and config.teach_once:
        raise UsageError("--teach-once, which asks the teacher before the run, needs a --teacher")
    return Trainer(
        config,
        images,
        classes=classes,
        teacher=teacher,
        validation=source.validation,
        bits=source.bits,
        meaning=source.meaning,
        model=model,
    )


def _go_on(trainer: Trainer, state: Path, say: Callable[[str], None]) -> None:
    """Continue where the state says that the run was stopped, if there is one."""
    if not state.exists():
        say(f"no state at {state}; starting from the beginning")
        return
    trainer.restore(read_state(state), state)
    say(f"continuing after epoch {trainer.epoch} of {trainer.config.epochs}")


def _run_epochs(trainer: Trainer, outputs: Outputs | None, *, quiet: bool) -> None:
    """Run the epochs that are left; after each the files are those of a run that may stop."""
    epochs = trainer.config.epochs
    steps = (epochs - trainer.epoch) * trainer.steps_per_epoch
    with Progress(steps, quiet=quiet, stream=sys.stderr) as progress:
        while trainer.epoch < epochs:
            row = trainer.run_epoch(progress)
            if outputs is not None and is_first():
                outputs.write(trainer)
            progress.epoch(row, epochs)
