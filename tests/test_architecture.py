"""The import graph between rooms has no cycle, and docs/architecture.md shows it as it is."""

import itertools
import xml.etree.ElementTree as ET

import pytest
import rooms


@pytest.fixture(scope="module")
def edges():
    return rooms.graph()


def test_every_room_says_what_it_is_for():
    missing = {rooms.room_of(name) for name in rooms.sources()} - set(rooms.ROOMS)
    assert not missing, f"say in tests/rooms.py what these rooms are for: {sorted(missing)}"


def test_no_room_imports_itself_by_way_of_others(edges):
    cycle = rooms.find_cycle(edges)
    assert cycle is None, rooms.tell_cycle(edges, cycle)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from sbnn_hw.commands.doctor import run\n",
        "if TYPE_CHECKING:\n    import sbnn_hw.flow.plan\n",
        "from sbnn_hw.netlist import Network\n",
    ],
)
def test_a_cycle_is_told_with_its_imports(text):
    texts = rooms.sources()
    path, before = texts["sbnn_hw.errors"]
    texts["sbnn_hw.errors"] = path, f"{before}\n{text}"
    edges = rooms.graph(texts)
    said = rooms.tell_cycle(edges, rooms.find_cycle(edges))
    assert said.startswith("These rooms import each other: basics → ")
    line = before.count("\n") + 1 + text.count("\n")
    assert f"  sbnn_hw/errors.py:{line}: sbnn_hw.errors imports sbnn_hw." in said
    assert said.count("\n") >= 2


def test_the_picture_leaves_out_only_what_a_longer_way_shows():
    under = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"d"}}
    assert rooms.reduce(under) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"d"}}


def test_the_page_shows_the_imports_as_they_are(edges):
    how = "run `python tests/rooms.py`, and look at the picture"
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.draw(edges), how
    page = rooms.PAGE.read_text(encoding="utf-8")
    assert page == rooms.put_table(page, edges), how


def test_every_room_of_the_picture_is_above_what_it_imports(edges):
    spots, _, (wide, tall) = rooms.place(rooms.below(edges))
    for above, below in edges:
        assert spots[above][1] < spots[below][1], (above, below)
    for x, y in spots.values():
        assert 0 < x < wide
        assert 0 < y < tall
    boxes = sorted(spots.values(), key=lambda spot: (spot[1], spot[0]))
    for (x, y), (next_x, next_y) in itertools.pairwise(boxes):
        assert y != next_y or next_x - x > rooms.WIDTH
    ET.fromstring(rooms.draw(edges))
