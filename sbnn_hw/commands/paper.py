"""``sbnn-hw paper``: the paper's tables and figures, and what is counted or measured here."""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.commands.common import add_json
from sbnn_hw.errors import ModelRejected, ToolMissing, UsageError
from sbnn_hw.models import require_torch
from sbnn_hw.paper import measured as measured_runs
from sbnn_hw.paper import published as published_numbers
from sbnn_hw.paper.figures import Panel, draw_distortion, draw_kernels, panels_of
from sbnn_hw.paper.layout import LAYOUTS
from sbnn_hw.paper.measured import LayerKernels, Measured, load_measured
from sbnn_hw.paper.published import load_published
from sbnn_hw.paper.tables import make_tables
from sbnn_hw.paper.text import legend, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--table",
        metavar="N",
        type=int,
        choices=[layout.number for layout in LAYOUTS],
        help="print only this table; draw figures only with --out, --models or --state. Tables: "
        + "; ".join(f"{layout.number} {layout.title}" for layout in LAYOUTS).replace("%", "%%"),
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="folder for the figures (default: build/paper)"
    )
    parser.add_argument(
        "--models",
        metavar="CKPT",
        type=Path,
        nargs="+",
        default=[],
        help="checkpoints (.pt) to show in the figure of kernels, for example with 50, 95 and 99 "
        "%% sparsity (default: the runs measured here)",
    )
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=Path,
        help="training state (.state.pt) whose latent weights to show in the figure of distortion "
        "(default: those of the runs measured here)",
    )
    parser.add_argument(
        "--published",
        metavar="FILE",
        type=Path,
        help="file with more published numbers, in the form of sbnn_hw/paper/published.toml",
    )
    parser.add_argument(
        "--measured",
        metavar="FILE",
        type=Path,
        default=measured_runs.SHIPPED,
        help="file with the results of bench/cifar_ablation.py, instead of the installed one",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Print the tables and draw the figures."""
    require_torch()
    draw = args.table is None or bool(args.out or args.models or args.state)
    if draw and importlib.util.find_spec("matplotlib") is None:
        raise ToolMissing("Figures need Matplotlib (pip install 'sbnn-hw[train]')")
    extra = () if args.published is None else (args.published,)
    published = load_published(published_numbers.SHIPPED, *extra)
    measured = load_measured(args.measured)
    numbers = tuple(layout.number for layout in LAYOUTS) if args.table is None else (args.table,)
    tables = make_tables(published, measured, numbers)
    figures: dict[str, dict[str, Any]] = {}
    if draw:
        figures = _draw(args.out or Path("build/paper"), args.models, args.state, measured)
    if args.json:
        print(
            json.dumps(
                {
                    "tables": [table.to_dict() for table in tables],
                    "sources": {
                        source.key: {"title": source.title, "where": source.where}
                        for source in published.sources.values()
                    },
                    "figures": figures,
                }
            )
        )
        return
    for table in tables:
        print(render(table), end="\n\n")
    print(legend(published))
    for name, figure in figures.items():
        files = ", ".join(figure["files"]) or "not drawn"
        print(f"\nFigure of {name}: {files} ({figure['shows']})")


def _draw(
    folder: Path, models: list[Path], state: Path | None, measured: Measured
) -> dict[str, dict[str, Any]]:
    panels = [_panel(path) for path in models] if models else panels_of(measured)
    shows = "not measured yet; give checkpoints with --models"
    files: list[Path] = []
    if panels:
        files = draw_kernels(panels, folder)
        shows = ", ".join(map(str, models)) if models else measured.what
    figures = {"kernels": {"files": [str(path) for path in files], "shows": shows}}

    trained, shows = _trained(state, measured)
    files = draw_distortion(trained, folder)
    figures["distortion"] = {"files": [str(path) for path in files], "shows": shows}
    return figures


def _trained(
    state: Path | None, measured: Measured
) -> tuple[dict[str, npt.NDArray[np.float64]], str]:
    """Return the trained weights to show, and what to say of them."""
    if state is not None:
        from sbnn_hw.train.distortion import pooled_quantiles, read_latents

        weights = pooled_quantiles(read_latents(state))
        return {state.name.removesuffix(".state.pt"): weights}, f"Gaussian, and weights of {state}"
    if measured.quantiles:
        weights_of = {
            f"trained ({domain.replace('_', ' ')})": np.array(values)
            for domain, values in measured.quantiles.items()
        }
        return weights_of, f"Gaussian, and latent weights measured here: {measured.what}"
    return {}, "Gaussian; trained weights not measured yet, give a training state with --state"


def _panel(path: Path) -> Panel:
    """Count the kernels of a checkpoint."""
    if path.suffix != ".pt":
        raise UsageError(f"Only checkpoints (.pt) have kernels to count, not {str(path)!r}")
    from sbnn_hw.train.checkpoint import load_checkpoint
    from sbnn_hw.train.metrics import count_model

    checkpoint = load_checkpoint(path)
    counted = count_model(checkpoint.model, checkpoint.config.shape)
    layers = tuple(
        LayerKernels(layer.name, layer.positions, layer.histogram)
        for layer in counted.layers
        if layer.histogram is not None
    )
    if not layers or counted.density is None:
        raise ModelRejected(f"{path} has no binary 3×3 convolutions, so it has no kernels to show")
    return Panel(path.name, 1 - counted.density, layers)
