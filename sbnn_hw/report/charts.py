"""Pictures as SVG. Lengths across are percentages, so that text keeps its size on any screen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sbnn_hw.report.markup import Child, Markup, number, share, tag

__all__ = [
    "Bar",
    "Histogram",
    "arrow_down",
    "bar",
    "bin_counts",
    "bin_matrix",
    "dot",
    "histogram",
    "label",
    "line_across",
    "line_down",
    "log_axis",
    "matrix",
    "matrix_with_numbers",
    "proportion",
    "scale",
    "share_labels",
]

#: Bars of a histogram that a phone still tells apart.
MOST_BARS = 48

#: Columns of a histogram up to which each carries its number.
MOST_COUNTED = 12

#: Classes up to which the cells of a confusion matrix carry their numbers.
MOST_NUMBERED = 20

#: Cells along a side of a confusion matrix without numbers.
MOST_CELLS = 100


@dataclass(frozen=True)
class Bar:
    """A part of a bar: from where to where, in shares of its width, and its look."""

    start: float
    end: float
    look: str


def _percent(value: float) -> str:
    return f"{100 * value:.3f}".rstrip("0").rstrip(".") + "%"


def _rect(x: float, y: float, width: float, height: float, look: str) -> Markup:
    """Return a rectangle; across it is measured in shares, downwards in pixels."""
    return tag(
        "rect",
        class_=look,
        x=_percent(x),
        y=f"{y:g}",
        width=_percent(max(0.0, width)),
        height=f"{height:g}",
    )


def line_down(x: float, top: float, bottom: float, look: str) -> Markup:
    """Return a line downwards."""
    across = _percent(x)
    return tag("line", class_=look, x1=across, x2=across, y1=f"{top:g}", y2=f"{bottom:g}")


def line_across(start: float, end: float, y: float, look: str) -> Markup:
    """Return a line across."""
    at = f"{y:g}"
    return tag("line", class_=look, x1=_percent(start), x2=_percent(end), y1=at, y2=at)


def arrow_down(x: float, y: float, look: str) -> Markup:
    """Return the head of an arrow whose point is at a place."""
    head = tag("path", class_=look, d="M-5 -8L0 0L5 -8z")
    # What is inside is measured in pixels from there.
    return tag("svg", head, x=_percent(x), y=f"{y:g}")


def dot(x: float, y: float, look: str) -> Markup:
    """Return a small disc."""
    return tag("circle", class_=look, cx=_percent(x), cy=f"{y:g}", r=4)


def label(x: float, y: float, look: str, *text: Child, dx: int | None = None) -> Markup:
    """Return a text; ``dx`` moves it by pixels."""
    return tag("text", *text, class_=look, x=_percent(x), y=f"{y:g}", dx=dx)


def bar(
    parts: Sequence[Bar], *, mark: float | None = None, grid: Sequence[float] = (), height: int = 18
) -> Markup:
    """Return a bar on a faint track, with thin lines and a mark across it if they are given.

    What is there at all can be seen: a part is never thinner than a pixel or two.
    """
    shapes = [_rect(0, 0, 1, height, "track")]
    for part in parts:
        if part.end > part.start:
            shapes.append(
                _rect(part.start, 0, max(part.end - part.start, 0.004), height, part.look)
            )
    shapes += [line_down(at, 0, height, "grid") for at in grid]
    if mark is not None:
        shapes.append(line_down(mark, -4, height + 4, "mark"))
    return tag("svg", shapes, class_="bar", width="100%", height=height, aria_hidden="true")


def scale(labels: Sequence[tuple[float, str]]) -> Markup:
    """Return the numbers below bars that share a scale."""
    shapes = []
    for middle, words in labels:
        at, side = _anchor(middle)
        shapes.append(label(at, 12, f"tick {side}", words))
    return tag("svg", shapes, class_="scale", width="100%", height=16, aria_hidden="true")


def log_axis(values: Sequence[int]) -> tuple[int, int]:
    """Return the powers of ten, as exponents, that hold all values above zero.

    Examples
    --------
    >>> log_axis([222, 401408])
    (2, 6)
    """
    positive = [value for value in values if value > 0]
    if not positive:
        return 0, 1
    low = math.floor(math.log10(min(positive)))
    high = math.ceil(math.log10(max(positive)))
    return low, max(high, low + 1)


@dataclass(frozen=True)
class Histogram:
    """Counts in bins of equal width; ``first`` is where the first one begins."""

    first: int
    width: int
    counts: tuple[int, ...]

    def label(self, index: int) -> str:
        """Return what a bin holds."""
        low = self.first + index * self.width
        return number(low) if self.width == 1 else f"{number(low)}–{number(low + self.width - 1)}"


def bin_counts(counts: dict[int, int], most_bars: int = MOST_BARS) -> Histogram:
    """Put counts into bins from zero up, one value each if there are not too many.

    Examples
    --------
    >>> bin_counts({0: 1, 2: 5})
    Histogram(first=0, width=1, counts=(1, 0, 5))
    >>> bin_counts({0: 1, 99: 5}, most_bars=4)
    Histogram(first=0, width=25, counts=(1, 0, 0, 5))
    """
    most = max((value for value, count in counts.items() if count), default=0)
    width = -(-(most + 1) // most_bars)
    bins = [0] * (most // width + 1)
    for value, count in counts.items():
        if count:
            bins[value // width] += count
    return Histogram(0, width, tuple(bins))


def histogram(data: Histogram, *, muted: int = 0, height: int = 96) -> Markup:
    """Return columns with a scale below and the highest count above its column.

    The first ``muted`` columns are drawn faint: they are not like the rest, and are cut where they
    are higher than all of it. The highest column has ``height`` pixels.
    """
    columns, top = len(data.counts), 18
    peak = max(data.counts[muted:], default=0) or max(data.counts, default=0)
    gap, base = 0.12 / columns, top + height
    shapes = [_rect(0, base, 1, 1, "axis")]
    for index, count in enumerate(data.counts):
        if not count:
            continue
        tall = max(1.5, height * min(1.0, count / peak))
        look = "column muted" if index < muted else "column"
        shapes.append(_rect(index / columns + gap, base - tall, 1 / columns - 2 * gap, tall, look))
        if count > peak:
            # The gap tells that the column goes on.
            shapes.append(_rect(index / columns, base - tall + 9, 1 / columns, 3, "gap"))
        # Over many columns only the first of the highest has room for its number.
        if columns <= MOST_COUNTED or index == data.counts.index(peak) or count > peak:
            at, side = _anchor((index + 0.5) / columns)
            shapes.append(label(at, base - tall - 5, f"count {side}", number(count)))
    # Labels of wider bins are twice as long.
    ticks = (MOST_COUNTED if columns <= MOST_COUNTED else 9) if data.width == 1 else 4
    for index in range(0, columns, _step(columns, ticks)):
        at, side = _anchor((index + 0.5) / columns)
        shapes.append(label(at, base + 16, f"tick {side}", data.label(index)))
    return tag(
        "svg", shapes, class_="histogram", width="100%", height=base + 22, aria_hidden="true"
    )


def _anchor(middle: float) -> tuple[float, str]:
    """Return where a label goes and its side: at the edges it would hang over."""
    if middle < 0.03:
        return 0.0, "start"
    return (1.0, "end") if middle > 0.97 else (middle, "middle")


def _step(columns: int, most: int) -> int:
    """Return a round number of columns between labels, so that there are at most so many."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if -(-columns // (scale * factor)) <= most:
                return scale * factor
        scale *= 10


def _look(row: int, column: int) -> str:
    return "hit" if row == column else "miss"


def _shades(rows: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return how dark each cell is, by its share of its row.

    Mistakes have a scale of their own, up to the most frequent one; where all are rare, none is
    dark.
    """
    shares = [[count / (sum(counts) or 1) for count in counts] for counts in rows]
    most = max(
        (
            part
            for row, parts in enumerate(shares)
            for column, part in enumerate(parts)
            if row != column
        ),
        default=0.0,
    )
    scale_of_mistakes = max(most, 0.01)
    return [
        [
            part if row == column else 0.8 * part / scale_of_mistakes
            for column, part in enumerate(parts)
        ]
        for row, parts in enumerate(shares)
    ]


def matrix_with_numbers(rows: Sequence[Sequence[int]]) -> Markup:
    """Return a heat map with a number in each cell: true classes down, answers across."""
    classes, tall, top = len(rows), 30, 22
    # A column of the same width as the others, on the left, has the true classes.
    across = 1 / (classes + 1)
    shades = _shades(rows)
    # Six pixels a digit: where a screen has less, the picture scrolls.
    longest = max((len(number(count)) for counts in rows for count in counts), default=1)
    least = (classes + 1) * max(20, 6 * longest + 2)
    shapes = []
    for index in range(classes):
        shapes.append(label((index + 1.5) * across, top - 8, "tick middle", number(index)))
        shapes.append(
            label(0.5 * across, top + tall * (index + 0.65), "tick middle", number(index))
        )
    for row, counts in enumerate(rows):
        for column, count in enumerate(counts):
            x, y = (column + 1) * across, top + tall * row
            shade = shades[row][column]
            shapes.append(_rect(x, y, across, tall, "cell"))
            if not count:
                continue
            shapes.append(
                tag(
                    "rect",
                    class_=_look(row, column),
                    x=_percent(x),
                    y=y,
                    width=_percent(across),
                    height=tall,
                    fill_opacity=f"{shade:.3f}",
                )
            )
            look = f"inside on-{_look(row, column)}" if shade > 0.45 else "inside"
            shapes.append(label(x + across / 2, y + tall * 0.65, look, number(count)))
    return tag(
        "svg",
        shapes,
        class_="matrix",
        style=f"min-width:{least}px",
        width="100%",
        height=top + tall * classes,
        aria_hidden="true",
    )


def bin_matrix(rows: Sequence[Sequence[int]], most: int = MOST_CELLS) -> list[list[int]]:
    """Add up blocks of a square table, so that its sides have at most so many cells.

    Examples
    --------
    >>> bin_matrix([[1, 0, 2], [0, 3, 0], [0, 0, 4]], most=2)
    [[4, 2], [0, 4]]
    """
    size = -(-len(rows) // most)
    cells = -(-len(rows) // size)
    binned = [[0] * cells for _ in range(cells)]
    for row, counts in enumerate(rows):
        for column, count in enumerate(counts):
            binned[row // size][column // size] += count
    return binned


def matrix(rows: Sequence[Sequence[int]]) -> Markup:
    """Return a heat map without numbers, for many classes; cells of one shade are one path."""
    rows = bin_matrix(rows)
    steps, shades = 12, _shades(rows)
    paths: dict[tuple[str, int], list[str]] = {}
    for row, counts in enumerate(rows):
        for column, count in enumerate(counts):
            if count:
                shade = max(1, round(steps * shades[row][column]))
                paths.setdefault((_look(row, column), shade), []).append(f"M{column} {row}h1v1h-1z")
    shapes = [tag("rect", class_="cell", width=len(rows), height=len(rows))]
    for (look, shade), path in sorted(paths.items()):
        shapes.append(
            tag("path", class_=look, fill_opacity=f"{shade / steps:.3f}", d="".join(path))
        )
    return tag(
        "svg",
        shapes,
        class_="matrix many",
        viewBox=f"0 0 {len(rows)} {len(rows)}",
        aria_hidden="true",
    )


def proportion(good: int, bad: int) -> Markup:
    """Return a bar of what is right and what is wrong; a single wrong one can be seen."""
    total = good + bad
    wrong = max(bad / total, 0.01) if bad else 0.0
    return bar([Bar(0, 1 - wrong, "right"), Bar(1 - wrong, 1, "wrong")], height=10)


def share_labels(counts: Sequence[int]) -> list[str]:
    """Return each count as its share of all."""
    total = sum(counts)
    return [share(count / total, 1) if total else "–" for count in counts]
