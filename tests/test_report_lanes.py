"""The picture of a graph has every edge, and no line that could be read as another one."""

import random
import re

import pytest
from report_samples import change, deep, residual, sample
from test_report_page import Page, words

from sbnn_hw.report import Report, lanes, render
from sbnn_hw.report.lanes import Lanes, Way, arrange, is_chain


def random_graph(rng):
    """Return what each node reads; the last one reads, in the end, all others."""
    count = rng.randint(2, 24)
    sources = [[]]
    for node in range(1, count):
        near = rng.random() < 0.7
        most = min(node, rng.choice([1, 1, 2, 2, 3]))
        read = rng.sample(range(node), most)
        sources.append([node - 1, *read] if near else read)
    read = {n for each in sources for n in each}
    sources[-1] = [*sources[-1], *(n for n in range(count - 1) if n not in read)]
    return sources


def drawn_edges(arranged):
    """Return the edges that a reader of the picture finds, following lines from above."""
    found = set()
    for node, (row, lane) in enumerate(zip(arranged.rows, arranged.lanes, strict=True)):
        at = {lane}
        for above in range(row, arranged.height - 1):
            gap = arranged.gap(above)
            below = {each for each in at if each in gap.straight}
            for track in gap.tracks:
                if at & track.above:
                    below |= track.below
            at = set()
            for each in below:
                end = arranged.node(above + 1, each)
                if end is None:
                    at.add(each)
                    assert arranged.passing(above + 1, each) is not None
                else:
                    found.add((node, end))
    return found


def edges(sources):
    return {(before, node) for node, read in enumerate(sources) for before in read}


def test_every_edge_is_drawn_and_no_other():
    rng = random.Random(0)
    widths = set()
    for _ in range(400):
        sources = random_graph(rng)
        arranged = arrange(sources)
        assert drawn_edges(arranged) == edges(sources), sources
        places = list(zip(arranged.rows, arranged.lanes, strict=True))
        assert len(set(places)) == len(places)
        # The longest way has a stage in every row of the first lane.
        assert all(arranged.node(row, 0) is not None for row in range(arranged.height))
        widths.add(arranged.width)
    assert widths >= {1, 2, 3, 4, 5}


def test_ways_that_share_a_lane_are_found_out(monkeypatch):
    """Planted: every way has lane 1, taken or not."""
    right = lanes._in_lanes

    def squeezed(sources, rows, lane_of, ways):
        made = right(sources, rows, lane_of, ways)
        ways = [Way(w.start, w.through, w.end, min(w.lane, 1)) for w in made.ways]
        return Lanes(made.rows, tuple(min(lane, 1) for lane in made.lanes), tuple(ways))

    monkeypatch.setattr(lanes, "_in_lanes", squeezed)
    # Two shortcuts that overlap.
    sources = [[], [0], [1], [2, 0], [3], [4, 1]]
    assert drawn_edges(arrange(sources)) != edges(sources)


def test_lines_turn_between_rows_only():
    """A line across a gap leads to lanes in which something begins, goes on or ends."""
    rng = random.Random(1)
    for _ in range(100):
        arranged = arrange(random_graph(rng))
        for above in range(arranged.height - 1):
            gap = arranged.gap(above)
            for track in gap.tracks:
                for lane in track.above:
                    assert arranged.node(above, lane) is not None or arranged.passing(above, lane)
                for lane in track.below:
                    reached = arranged.node(above + 1, lane), arranged.passing(above + 1, lane)
                    assert reached != (None, None)
            assert gap.arrivals == {
                lane for lane in range(arranged.width) if arranged.node(above + 1, lane) is not None
            }


def test_residual_blocks_share_one_lane():
    arranged = arrange([[], [0], [1], [2], [3, 1], [4], [5], [6, 4], [7]])
    assert [(way.start, way.end, way.lane) for way in arranged.ways] == [(1, 4, 1), (4, 7, 1)]
    assert arranged.width == 2


def test_chains_are_chains():
    assert is_chain([[], [0], [1, 1]])
    assert not is_chain([[], [0], [1, 0]])
    assert not is_chain([[], [0], [0], [1, 2]])


def pipeline(report):
    text = render(report)
    start = text.index('<section id="pipeline">')
    return text[start : text.index("</section>", start) + len("</section>")]


def test_a_chain_is_drawn_as_a_row():
    section = pipeline(sample())
    assert 'class="pipeline"' in section
    assert 'class="graph"' not in section
    assert "Reads" not in Page(section).text


def test_a_residual_network_is_drawn_with_its_fork_and_its_join():
    section = pipeline(residual(2))
    assert 'class="pipeline"' not in section
    page = Page(section)
    text, label = words(page.text), words(page.labels[0])
    # Input, sums0, affine0, twice three, pool, concat, affine; scores and class.
    assert section.count('<div class="block') == 1 + 2 + 4 + 6 + 1 + 1
    # Both ways of the two blocks leave from one point each.
    assert section.count("<circle") == 2
    assert section.count('class="queue"') == 2
    assert text.count("queue of28 × 96 bits") == 2
    assert "12-bit integers × 16" in text
    assert "Additions" in text
    assert "Multiplications" in text
    assert (
        "affine1, affine, reads sums1 and affine0, 240 LUTs, 6 cycles, 6-bit integers × 16, "
        in label
    )
    assert "queue of 28 × 96 bits for affine0" in label
    # A concatenation that reads the same twice is said to read it once.
    assert "concat2, concat, reads pool2, 6 cycles" in label
    rows = re.findall(r"<tr><th scope=\"row\">affine1</th>(.*?)</tr>", section)
    cells = [re.findall("<td>(.*?)</td>", row) for row in rows]
    assert cells[0][-1] == "sums1, affine0"
    assert cells[1:] == [
        ["sums1", "1", "96", "96", "64", "103", "0"],
        ["affine0", "28", "96", "2,688", "64", "103", "0"],
    ]


def test_a_queue_without_room_beside_is_told_on_its_block():
    stages = residual(1).to_dict()["stages"]
    stages[4]["queues"] = [
        {"source": 3, "depth": 7, "bits": 6, "tables": 1, "registers": 1, "block_ram": 0}
    ]
    stages[4]["sources"] = [3]
    stages[5] |= {"sources": [4, 1], "queues": []}
    section = pipeline(change(stages=stages))
    assert 'class="queue"' not in section
    assert "queue of 7 × 6 bits for conv1" in words(Page(section).text)


def test_a_network_as_deep_as_resnet_18_stays_small():
    text = render(deep())
    assert len(deep().stages) > 60
    assert len(text) < 400_000
    assert arrange([[]] + [[n + 1 for n in s.sources] for s in deep().stages]).width == 5


@pytest.mark.parametrize(
    ("change_stage", "said"),
    [
        ({"sources": []}, "Field stages[2].sources of the report must be one or more, not []"),
        (
            {"sources": [2]},
            "Field stages[2].sources of the report must be numbers of earlier stages, or −1, not 2",
        ),
        ({"sources": [0]}, "Field stages[1] of the report must be read by a later stage"),
    ],
)
def test_sources_that_cannot_be_are_named(change_stage, said):
    written = sample().to_dict()
    written["stages"][2] |= {"queues": []} | change_stage
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Report.read(written)


def test_a_queue_is_of_a_source():
    written = sample().to_dict()
    written["stages"][2]["queues"][0]["source"] = 0
    said = "Field stages[2].queues of the report must be of stages that it reads, not 0"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Report.read(written)
