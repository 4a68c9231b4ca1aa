"""The files of a run: checkpoint, state, log and plot."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbnn_hw.errors import ModelRejected, OutputRefused
from sbnn_hw.files import check_writable, remove_partials, write_text
from sbnn_hw.train.checkpoint import Checkpoint, save_checkpoint, write_tensors
from sbnn_hw.train.parallel import is_first
from sbnn_hw.train.state import read_state
from sbnn_hw.train.trainer import Trainer

__all__ = ["Outputs"]


@dataclass(frozen=True)
class Outputs:
    """Where a run writes: the other files are named after its checkpoint."""

    checkpoint: Path

    def _beside(self, ending: str) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.stem}.{ending}")

    @property
    def state(self) -> Path:
        """What a run that was stopped goes on from."""
        return self._beside("state.pt")

    @property
    def log(self) -> Path:
        """One JSON object an epoch."""
        return self._beside("log.jsonl")

    @property
    def plot(self) -> Path:
        """The log as a picture."""
        return self._beside("log.png")

    def keep(self, *, resume: bool) -> None:
        """Refuse to write over what a run has left, and say how it is kept or given up."""
        out = self.checkpoint
        if resume and (self.state.exists() or not out.exists()):
            return
        if resume:
            raise OutputRefused(
                f"{out} already exists, and there is no state at {self.state} to resume "
                f"from; add --replace to overwrite it, or choose another --out"
            )
        try:
            state = read_state(self.state)
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

    def prepare(self) -> None:
        """Make sure, before the first step, that all files can be written."""
        for path in (self.checkpoint, self.state, self.log, self.plot):
            check_writable(path)
            if is_first():
                remove_partials(path)

    def write(self, trainer: Trainer) -> None:
        """Write what a run has reached."""
        write_tensors(self.state, trainer.state())
        save_checkpoint(self.checkpoint, trainer.checkpoint())
        _write_log(self.log, trainer.history)

    def finish(self, trainer: Trainer, checkpoint: Checkpoint) -> None:
        """Write what a run has come to, with the picture of its log."""
        from sbnn_hw.train.plot import draw_log

        save_checkpoint(self.checkpoint, checkpoint)
        _write_log(self.log, trainer.history)
        draw_log(trainer.history, self.plot, chosen=trainer.best.epoch)


def _write_log(path: Path, history: list[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in history))
