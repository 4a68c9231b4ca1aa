"""Accuracy over look-up tables: the front, and what others published."""

import pytest

from sbnn_hw.errors import UsageError
from sbnn_hw.pareto.markdown import markdown_table
from sbnn_hw.pareto.points import Point, front, points_of_peers
from sbnn_hw.pareto.published import load_peers

PEER = """
[sources.s]
title = "t"
where = "w"
[[peers]]
name = "x"
source = "s"
data = "mnist"
includes = "all"
"""


def test_the_front_leaves_out_what_is_beaten_or_the_same():
    sizes = {"a": (1, 90), "b": (2, 80), "c": (3, 95), "again": (3, 95), "d": (2, 92)}
    points = [Point(name, "", "ours", luts, right) for name, (luts, right) in sizes.items()]
    unknown = Point("untrained", "", "untrained", 0, None)
    assert [point.name for point in front([unknown, *points])] == ["a", "d", "c"]


def test_a_bar_does_not_begin_a_cell():
    assert markdown_table(["a"], [["x|y"]]) == "| a |\n|---|\n| x\\|y |\n"


def test_one_of_a_series_bears_its_name():
    points = [point for point in points_of_peers(load_peers()) if point.series]
    (named,) = (point for point in points if point.name)
    assert named.name == named.series
    assert named.accuracy == max(point.accuracy for point in points)


def test_what_was_not_read_again_is_unverified():
    peers = {peer["name"]: peer["numbers"] for peer in load_peers()}
    unverified = {
        (name, key)
        for name, numbers in peers.items()
        for key, found in numbers.items()
        if not found["verified"]
    }
    assert unverified == {
        ("FINN SFC-max", "brams"),
        ("FINN LFC-max", "luts"),
        ("FINN LFC-max", "brams"),
        ("FINN SFC-fix", "luts"),
        ("FINN LFC-fix", "luts"),
        ("FINN LFC-fix", "brams"),
        ("FINN LFC-fix", "images_per_second"),
        ("FINN CNV-max", "luts"),
        ("FINN CNV-max", "brams"),
    }
    assert peers["FINN SFC-max"]["luts"]["value"] == 91_131
    assert peers["TreeLUT (I)"]["luts"]["value"] == 4_478


def test_a_sweep_of_others_is_there_as_a_whole():
    """Rows that beat models of ours must not be left out."""
    sweep = {
        numbers["luts"]["value"]: (
            numbers["accuracy"]["value"],
            numbers.get("mhz", {}).get("value"),
        )
        for peer in load_peers()
        if peer["name"].startswith("DWN with encoder")
        for numbers in [peer["numbers"]]
    }
    assert sweep == {
        1_597: (96.77, None), 2_246: (97.70, None), 3_464: (97.76, None),
        3_118: (97.91, 95.4), 3_310: (98.05, 90.6), 3_883: (98.13, 91.5),
        5_195: (98.23, 92.8), 6_294: (98.26, 94.0), 5_670: (98.32, 92.3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[peers]]\nname = 'x'", r"peer 'x' must say its source"),
        (
            PEER + "accuracy=90",
            r"peer 'x' must have accuracy, and luts, gates or images_per_second",
        ),
        (
            PEER + "luts=90",
            r"peer 'x' must have accuracy, and luts, gates or images_per_second",
        ),
        (
            PEER + "accuracy=90\nluts=0",
            r"peer 'x' must have a number above zero as luts, not 0",
        ),
        ("[[peers]]\nname = 'x'\nfps = 3", r"peer 'x' must have no 'fps', only"),
    ],
)
def test_refuses_published_numbers_without_what_they_need(tmp_path, text, says):
    path = tmp_path / "published.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_peers(path)
