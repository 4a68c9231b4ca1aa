"""Draw the figures: kernels by Hamming weight, and what two values cost over sparsity."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sbnn_hw.bops import entropy
from sbnn_hw.drawing import new_figure, save_figure
from sbnn_hw.paper.distortion import Errors, gaussian_errors, sample_errors
from sbnn_hw.paper.measured import LayerKernels, Measured

__all__ = ["Panel", "draw_distortion", "draw_kernels", "panels_of"]

#: Hamming weights, with a colour each: light to dark, readable in grey too.
_WEIGHTS = (("0", "#dfe7ef"), ("1", "#9fc3dd"), ("2", "#4a8fbf"), ("3 and more", "#123a5e"))
#: Lines of trained weights, in order.
_COLOURS = ("#1b7837", "#762a83", "#8c6d1f", "#35978f", "#666666")


@dataclass(frozen=True)
class Panel:
    """A network in the figure of kernels."""

    title: str
    sparsity: float
    layers: tuple[LayerKernels, ...]


def panels_of(measured: Measured) -> list[Panel]:
    """Return one network of each sparsity that was measured, its domain learned."""
    panels = []
    for ec in sorted({run.ec for run in measured.runs}, reverse=True):
        if runs := measured.reaching("learned", ec):
            run = min(runs, key=lambda run: run.seed)
            by = {"none": "", "penalty": ", penalty", "topk": ", top-k"}[run.method]
            title = f"width {run.width:g}, {run.epochs} epochs{by}"
            panels.append(Panel(title, 1 - run.ones, run.layers))
    return panels


def draw_kernels(panels: Sequence[Panel], folder: Path) -> list[Path]:
    """Draw each layer's share of kernels by Hamming weight, one panel a network."""
    ordered = sorted(panels, key=lambda panel: panel.sparsity)
    deepest = max(len(panel.layers) for panel in ordered)
    figure = new_figure(max(4.2, 0.5 + (0.8 + 0.22 * deepest) * len(ordered)), 4.2)
    axes = np.atleast_1d(figure.subplots(1, len(ordered), sharey=True))
    for axis, panel in zip(axes, ordered, strict=True):
        histograms = np.array([layer.histogram for layer in panel.layers], np.float64)
        grouped = np.column_stack([histograms[:, :3], histograms[:, 3:].sum(1)])
        shares = 100 * grouped / grouped.sum(1, keepdims=True)
        at, floor = np.arange(len(shares)), np.zeros(len(shares))
        for (name, colour), height in zip(_WEIGHTS, shares.T, strict=True):
            axis.bar(
                at, height, 0.86, bottom=floor, color=colour, label=name, edgecolor="white", lw=0.4
            )
            floor += height
        axis.set_title(f"{100 * panel.sparsity:.1f} % sparse\n{panel.title}", fontsize=10)
        names = [layer.name for layer in panel.layers]
        axis.set_xticks(at, names, rotation=90, fontsize=7)
        axis.set_xlim(-0.6, len(shares) - 0.4)
        axis.set_ylim(0, 100)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of 3×3 kernels, %")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        title="weights of value one in a kernel",
        loc="outside upper center",
        ncols=len(_WEIGHTS),
        frameon=False,
    )
    return save_figure(figure, folder / "kernels")


def draw_distortion(
    trained: dict[str, npt.NDArray[np.float64]], folder: Path, *, points: int = 120
) -> list[Path]:
    """Draw the error over sparsity and over bits a weight, Gaussian and trained weights."""
    # Even steps of the logarithm: 50 to 99.5 % sparse.
    shares = np.geomspace(0.5, 0.005, points)
    curves: dict[str, tuple[list[Errors], str]] = {
        "Gaussian": ([gaussian_errors(p) for p in shares], "black")
    }
    for number, (name, weights) in enumerate(trained.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        curves[name] = (sample_errors(weights, shares.tolist()), colour)

    figure = new_figure(10.5, 4.4)
    over_sparsity, over_rate = figure.subplots(1, 2, sharey=True)
    rates = np.array([entropy(p) for p in shares])
    for axis, x in ((over_sparsity, 100 * (1 - shares)), (over_rate, rates)):
        for name, (errors, colour) in curves.items():
            axis.plot(x, [e.general for e in errors], color=colour, label=f"{name}, {{α, β}}")
            axis.plot(
                x,
                [e.symmetric for e in errors],
                color=colour,
                linestyle="--",
                label=f"{name}, {{−β, +β}}",
            )
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    over_rate.plot(rates, 2.0 ** (-2 * rates), color="grey", lw=0.9, linestyle=":")
    over_rate.annotate(
        "Gaussian bound $2^{-2h}$",
        (rates[points // 3], 2.0 ** (-2 * rates[points // 3])),
        xytext=(-6, -6),
        textcoords="offset points",
        ha="right",
        va="top",
        color="grey",
        fontsize=9,
    )
    over_sparsity.set_xlabel("sparsity, % of weights that are not one")
    over_sparsity.set_ylabel("mean squared error / variance of the weights")
    over_sparsity.set_ylim(0, 1.05)
    over_rate.set_xlabel("h(p), bits per weight")
    over_sparsity.legend(fontsize=8, loc="lower right")
    return save_figure(figure, folder / "distortion")
