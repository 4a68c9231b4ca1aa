"""The state from which a stopped run goes on: whether it is whole, and of the same run."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.checkpoint import check_state, read_tensors
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.validation import Best

__all__ = ["STATE_FORMAT", "damaged", "read_state", "require_same_run"]

STATE_FORMAT = "sbnn-hw training state"
#: Choices that change no weight, so that a run may go on with others.
FREE = ("workers",)
#: What is read of every epoch's row again.
ROW = {"epoch", "loss", "penalty", "accuracy", "validation", "ones", "ec"}


def read_state(path: Path) -> dict[str, Any]:
    """Read the file of a state, whatever it says."""
    return read_tensors(path, "training state")


def require_same_run(
    state: dict[str, Any], path: Path, config: TrainConfig, model: nn.Module
) -> None:
    """Refuse a state that is damaged, or not of the run of these choices."""
    if state.get("format") != STATE_FORMAT or not isinstance(state.get("config"), dict):
        raise ModelRejected(f"{path} is not a training state; use --replace to start over")
    mine = config.to_dict()
    for key, value in state["config"].items():
        if key in FREE:
            continue
        if (tuple(value) if isinstance(value, list) else value) != mine.get(key):
            raise ModelRejected(
                f"{path} was trained with {key} = {value!r}, not {mine.get(key)!r}; "
                f"resume with the same options, or use --replace to start over"
            )
    if what := _contradiction(state, config.epochs, model):
        raise damaged(path, f" ({what})")


def damaged(path: Path, what: str = "") -> ModelRejected:
    """Return the error that a state is damaged."""
    return ModelRejected(f"{path} is damaged{what}; use --replace to start over")


def _contradiction(state: dict[str, Any], epochs: int, model: nn.Module) -> str:
    """Return what a state says that cannot be, or nothing."""
    epoch, history, best = (state.get(key) for key in ("epoch", "history", "best"))
    # True is an int to Python, and no number here.
    if type(epoch) is not int:
        return f"its epoch is {epoch!r}"
    if not 1 <= epoch <= epochs:
        return f"its epoch is {epoch} of {epochs}"
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
    if not isinstance(best, dict) or best.keys() != vars(Best()).keys():
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
        check_state(best["state"], model.state_dict())
    except ModelRejected as error:
        return f"in its best epoch {error}"
    return ""
