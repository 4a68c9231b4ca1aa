"""Make figures and write them; the same figure gives the same bytes."""

from pathlib import Path
from typing import TYPE_CHECKING

from sbnn_hw.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["new_figure", "save_figure"]


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG; return their paths."""
    import matplotlib as mpl

    paths = []
    with mpl.rc_context({"svg.hashsalt": "sbnn-hw", "svg.fonttype": "none"}):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            path = stem.with_suffix(f".{kind}")
            write_atomically(
                path,
                lambda file, kind=kind, metadata=metadata: figure.savefig(  # type: ignore[misc]
                    file, format=kind, dpi=130, metadata=metadata
                ),
            )
            paths.append(path)
    return paths
