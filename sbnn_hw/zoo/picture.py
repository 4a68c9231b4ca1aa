"""The picture of the zoo: accuracy over look-up tables, next to dense and published networks."""

from pathlib import Path
from typing import Any

from sbnn_hw.datasets import DATASETS
from sbnn_hw.pareto.picture import draw_points
from sbnn_hw.pareto.points import Point, points_of_peers
from sbnn_hw.zoo.numbers import value_of

__all__ = ["draw", "points_of"]


def draw(results: dict[str, Any], stem: Path) -> list[Path]:
    """Draw the picture as PNG and SVG; the same results give the same bytes."""
    return draw_points(points_of(results), stem)


def points_of(results: dict[str, Any]) -> list[Point]:
    """Return every network that has a place in the picture: those for images."""
    found = []
    for entry in results["models"]:
        luts = value_of(entry, "luts")
        if luts:
            accuracy = 100 * value_of(entry, "accuracy")
            kind = "pixels" if entry["input"] == "pixel" else "ours"
            found.append(Point(entry["name"], entry["data"], kind, luts, accuracy))
    for entry in results["dense"]:
        accuracy = value_of(entry, "accuracy")
        luts, kind = value_of(entry, "luts"), "untrained" if accuracy is None else "dense"
        percent = None if accuracy is None else 100 * accuracy
        found.append(Point(entry["name"], entry["data"], kind, luts, percent))
    found += points_of_peers(results["published"])
    # Networks for tables have a page of their own.
    return [point for point in found if point.data in DATASETS]
