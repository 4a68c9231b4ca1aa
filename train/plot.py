"""Draw a training log."""

from pathlib import Path
from typing import Any

from sbnn_hw.drawing import new_figure
from sbnn_hw.files import write_atomically

__all__ = ["draw_log"]


def draw_log(history: list[dict[str, Any]], path: Path, *, chosen: int) -> None:
    """Draw loss, accuracy and the share of ones over the epochs, and which epoch was kept."""
    from matplotlib.ticker import FuncFormatter

    epochs = [row["epoch"] for row in history]
    figure = new_figure(10, 3.2)
    loss, right, ones = figure.subplots(1, 3)
    marker = "o" if len(epochs) == 1 else ""

    loss.plot(epochs, [row["loss"] for row in history], marker=marker, label="task")
    if any(row["penalty"] for row in history):
        loss.plot(epochs, [row["penalty"] for row in history], marker=marker, label="sparsity")
    loss.set_ylabel("loss")

    right.plot(epochs, [100 * row["accuracy"] for row in history], marker=marker, label="training")
    measured = [row for row in history if row["validation"] is not None]
    if measured:
        values = [100 * row["validation"] for row in measured]
        dots = "o" if len(measured) == 1 else ""
        right.plot([row["epoch"] for row in measured], values, marker=dots, label="validation")
    right.set_ylabel("accuracy, %")

    ones.semilogy(epochs, [100 * row["ones"] for row in history], marker=marker, label="ones")
    ones.semilogy(epochs, [100 * row["ec"] for row in history], "--", label="constraint")
    ones.set_ylabel("share of ones, %")
    for axis in (ones.yaxis.set_major_formatter, ones.yaxis.set_minor_formatter):
        axis(FuncFormatter(lambda value, _: f"{value:g}"))
    right.axvline(chosen, color="grey", linestyle=":", label=f"kept: epoch {chosen}")

    for axes in (loss, right, ones):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend()
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=110))
