"""Draw accuracy over look-up tables: ours, dense ones and published ones; labels keep apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sbnn_hw.drawing import new_figure, save_figure
from sbnn_hw.pareto.points import Point, front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

__all__ = ["draw_points", "make_figure", "text_box"]

#: Mark, colour and words of each kind.
_KINDS = {
    "ours": ("o", "#0b5394", "sbnn-hw, an image a clock"),
    "pixels": ("D", "#38761d", "sbnn-hw, a pixel a clock"),
    "found": ("o", "#0b5394", "sbnn-hw: validation, LUTs estimated"),
    "beaten": (".", "#9fc5e8", "other trials"),
    "dense": ("s", "#b45f06", "dense ±1, same generator"),
    "untrained": ("|", "#b45f06", "dense ±1, untrained: no accuracy"),
    "published": ("^", "#555555", "published"),
    "unverified": ("v", "#999999", "published, not verified"),
}

#: Networks of this toolkit: a panel is for a data set that has one; a line joins the best of a
#: kind.
_OWN = ("ours", "pixels", "found")

#: Where a label may stand next to its point, in points; nearest and plainest first.
_PLACES = [
    (dx * reach, dy * reach)
    for reach in (1, 1.8, 2.8, 4, 5.5, 7.5, 10)
    for dx, dy in ((8, 3), (8, -9), (-8, 3), (-8, -9), (0, 9), (0, -15), (14, 10), (-14, -16))
]


def make_figure(points: Sequence[Point]) -> tuple["Figure", list["Annotation"]]:
    """Draw one panel for each data set that has a network of ours; return the labels too."""
    ours = {point.data for point in points if point.kind in _OWN}
    panels = [d for d in dict.fromkeys(p.data for p in points) if d in ours]
    # The data set with most points first, and with most room.
    panels.sort(key=lambda data: -sum(point.data == data for point in points))
    heights = [_height(sum(point.data == data for point in points)) for data in panels]
    figure = new_figure(9, max(3.0, sum(heights)) + 0.5)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights or [1])
    labels: list[Annotation] = []
    for axis, data in zip(axes[:, 0], panels, strict=True):
        labels += _panel(axis, data, [p for p in points if p.data == data])
    # Where things are is known only once they are laid out.
    figure.canvas.draw()
    figure.set_layout_engine("none")
    for axis, data in zip(axes[:, 0], panels, strict=True):
        # Points of a series have no label of their own, but they are not to be covered either.
        series = [(p.luts, p.accuracy or 0) for p in points if p.series and p.data == data]
        _keep_apart(axis, [label for label in labels if label.axes is axis], series)
    return figure, labels


def _height(points: int) -> float:
    """Return how high a panel is, in inches, so that the labels of its points find room."""
    return 3.0 if points <= 6 else 5.2 if points <= 24 else 7.0


def _panel(axis: "Axes", data: str, points: Sequence[Point]) -> list["Annotation"]:
    known = [point.accuracy for point in points if point.accuracy is not None]
    low, high = min(known), max(known)
    room = max(0.5, 0.12 * (high - low))
    # The lowest line is for networks whose accuracy nobody knows.
    bottom, top = low - 2 * room, high + room
    axis.set_xscale("log")
    axis.set_ylim(bottom, top)
    luts = [point.luts for point in points]
    axis.set_xlim(min(luts) / 1.6, max(luts) * 2.5)
    labels = []
    for kind, (mark, colour, words) in _KINDS.items():
        chosen = [point for point in points if point.kind == kind]
        if not chosen:
            continue
        heights = [bottom + 0.3 * room if p.accuracy is None else p.accuracy for p in chosen]
        size = 140 if kind == "untrained" else 42
        axis.scatter(
            [p.luts for p in chosen],
            heights,
            s=size,
            marker=mark,
            color=colour,
            label=words,
            zorder=3,
        )
        for point, height in zip(chosen, heights, strict=True):
            if not point.name:
                continue
            labels.append(
                axis.annotate(
                    point.name,
                    (point.luts, height),
                    xytext=(8, 3),
                    textcoords="offset points",
                    fontsize=8,
                    color=colour,
                    arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.4, "shrinkB": 3},
                )
            )
    # What takes a pixel a clock is slower: it does not beat what takes an image.
    for kind in _OWN:
        best = front([point for point in points if point.kind == kind])
        x, y = [p.luts for p in best], [p.accuracy or 0 for p in best]
        axis.step(x, y, where="post", color=_KINDS[kind][1], lw=1)
    for series in dict.fromkeys(point.series for point in points if point.series):
        chosen = sorted((p for p in points if p.series == series), key=lambda p: p.luts)
        x, y = [p.luts for p in chosen], [p.accuracy or 0 for p in chosen]
        axis.plot(x, y, color=_KINDS[chosen[0].kind][1], lw=0.6, alpha=0.6)
    axis.set_title(data, loc="left", fontsize=11)
    axis.set_xlabel("look-up tables")
    found = any(point.kind == "found" for point in points)
    published = any(point.kind in ("published", "unverified") for point in points)
    both = "accuracy, %: validation here, test elsewhere" if published else "validation accuracy, %"
    axis.set_ylabel(both if found else "test accuracy, %")
    axis.grid(which="both", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    return labels


def _keep_apart(
    axis: "Axes", labels: Sequence["Annotation"], others: Sequence[tuple[float, float]]
) -> None:
    """Move each label to the first place where it covers neither a point nor another label."""
    from matplotlib.transforms import Bbox

    inside = axis.get_window_extent()
    taken: list[Bbox] = []
    for place in (*(label.xy for label in labels), *others):
        x, y = axis.transData.transform(place)
        taken.append(Bbox.from_extents(x - 5, y - 5, x + 5, y + 5))
    for label in labels:
        for dx, dy in _PLACES:
            label.set_position((dx, dy))
            label.set_horizontalalignment("left" if dx > 0 else "right" if dx < 0 else "center")
            box = text_box(label)
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0
            if within and box.y1 <= inside.y1 and not any(box.overlaps(other) for other in taken):
                break
        taken.append(text_box(label))


def text_box(label: "Annotation") -> "Bbox":
    """Return where a label's text is, without the line to its point."""
    from matplotlib.text import Text

    # Agg's canvas, which every figure here has, can draw; its base class cannot.
    label.update_positions(label.figure.canvas.get_renderer())  # type: ignore[attr-defined]
    return Text.get_window_extent(label)


def draw_points(points: Sequence[Point], stem: Path) -> list[Path]:
    """Draw networks as PNG and SVG, if one of them is of this toolkit; same points, same bytes."""
    if not any(point.kind in _OWN for point in points):
        return []
    return save_figure(make_figure(points)[0], stem)
