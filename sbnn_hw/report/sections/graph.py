"""The picture of a graph: stages from top to bottom, and lines beside them where ways part."""

from collections.abc import Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.lanes import Gap, Lanes, Way, arrange
from sbnn_hw.report.markup import Markup, number, tag
from sbnn_hw.report.schema import PipelineStage, Report, StageQueue
from sbnn_hw.report.sections.blocks import (
    class_block,
    flow_of,
    input_block,
    most_tables,
    stage_block,
    word,
    words_in,
)

__all__ = ["draw_graph"]

#: Pixels from a row to the first line across, from line to line, and from there to the next row.
ABOVE, BETWEEN, BELOW = 12, 9, 22


def draw_graph(report: Report) -> Markup:
    """Return the picture of a network with forks and joins.

    Each row has the blocks of one depth, the longest way in the first lane. Between rows are lines.
    """
    stages = report.stages
    lanes = arrange(flow_of(stages))
    most = most_tables(stages)
    said = _said(report)
    rows = []
    for row in range(lanes.height):
        cells: list[Markup | None] = []
        for lane in range(lanes.width):
            node, way = lanes.node(row, lane), lanes.passing(row, lane)
            if node is not None:
                cells.append(_node(report, lanes, node, most))
            elif way is not None:
                cells.append(_passing(_queue_beside(stages, lanes, way, row)))
            else:
                cells.append(None)
        rows.append(_level(lanes, cells))
        if row < lanes.height - 1:
            rows.append(_level(lanes, _gap(lanes, row, said)))
    # It may be wider than a phone; what scrolls must be reachable by keyboard.
    graph = tag("div", rows, class_="graph")
    return tag("div", graph, class_="scroll", tabindex=0)


def _level(lanes: Lanes, cells: Sequence[Markup | None]) -> Markup:
    """Return cells beside each other; lanes without stages are narrow."""
    looks = ["lane stages" if lane in lanes.lanes else "lane lines" for lane in range(lanes.width)]
    looks[0] = "lane"
    pairs = zip(cells, looks, strict=True)
    return tag("div", [tag("div", cell, class_=look) for cell, look in pairs], class_="level")


def _node(report: Report, lanes: Lanes, node: int, most: int) -> Markup:
    stages = report.stages
    if node == 0:
        return input_block(report.input)
    if node > len(stages):
        return class_block(report.output)
    ways = [way for way in lanes.ways if way.end == node]
    beside = (_queue_beside(stages, lanes, way, lanes.rows[node] - 1) for way in ways)
    return stage_block(
        stages[node - 1], stages, most, drawn=[queue for queue in beside if queue is not None]
    )


def _queue_beside(
    stages: Sequence[PipelineStage], lanes: Lanes, way: Way, row: int
) -> StageQueue | None:
    """Return the queue at the end of a way, if the row is the last one before and has room."""
    end = lanes.rows[way.end]
    if row != end - 1 or way.end > len(stages) or lanes.passing(row, way.lane) is not way:
        return None
    source = (way.start, *way.through)[-1] - 1
    queues = stages[way.end - 1].queues
    return next((q for q in queues if q.source == source and q.depth > 1), None)


def _passing(queue: StageQueue | None) -> Markup:
    if queue is None:
        return tag("div", class_="passing")
    words = ("queue of", f"{number(queue.depth)} × {pieces.plural(queue.bits, 'bit')}")
    box = tag("p", [tag("span", each) for each in words], class_="queue")
    return tag("div", box, class_="passing")


def _said(report: Report) -> dict[int, str]:
    """Return what leaves each block, by its number."""
    stages = report.stages
    said = {0: words_in(report.input)}
    for number_, stage in enumerate(stages):
        words = word(stage)
        # A stage without hardware of its own, as flattening, passes on what it gets.
        if stage.width == 0 and stage.sources is not None:
            words = said.get(stage.sources[0] + 1)
        if words is not None:
            said[number_ + 1] = words
    if report.output.width is not None:
        said[len(stages)] = pieces.plural(report.output.width, "bit")
    return said


def _gap(lanes: Lanes, above: int, said: dict[int, str]) -> list[Markup | None]:
    """Return the cells between two rows, one for each lane."""
    gap = lanes.gap(above)
    height = ABOVE + BETWEEN * max(0, len(gap.tracks) - 1) + BELOW
    cells: list[Markup | None] = []
    for lane in range(lanes.width):
        node = lanes.node(above, lane)
        shapes = _lines(gap, lane, height)
        if lane in gap.arrivals:
            shapes.append(charts.arrow_down(0.5, height, "head" if lane == 0 else "head beside"))
        if node is not None and node in said:
            shapes += _label(said[node], lane, height)
        cells.append(tag("svg", shapes, width="100%", height=height, aria_hidden="true"))
    return cells


def _lines(gap: Gap, lane: int, height: int) -> list[Markup]:
    """Return the lines in a cell: down its middle, and across to its neighbours."""
    shapes = []
    if lane in gap.straight:
        shapes.append(charts.line_down(0.5, 0, height, _look(lane)))
    for number_, track in enumerate(gap.tracks):
        level = ABOVE + BETWEEN * number_
        ends = track.above | track.below
        # What leads beside the longest way has the colour of its own lane all along.
        look = _look(max(ends))
        if lane in track.above and lane not in gap.straight:
            shapes.append(charts.line_down(0.5, 0, level, look))
        if lane in track.below and lane not in gap.straight:
            shapes.append(charts.line_down(0.5, level, height, look))
        left, right = min(ends) < lane <= max(ends), min(ends) <= lane < max(ends)
        if left or right:
            start, end = 0.0 if left else 0.5, 1.0 if right else 0.5
            shapes.append(charts.line_across(start, end, level, look))
        if lane == track.fork and lane in gap.straight:
            shapes.append(charts.dot(0.5, level, "head beside"))
    return shapes


def _look(lane: int) -> str:
    return "way" if lane == 0 else "way beside"


def _label(words: str, lane: int, height: int) -> list[Markup]:
    """Return what leaves a block, beside its line: on the side to which no line turns."""
    if lane == 0:
        return [charts.label(0.5, height / 2 + 4, "said end", words, dx=-10)]
    first, times, count = words.partition(" × ")
    lines = [first, f"× {count}"] if times else [first]
    top = height / 2 + 4 - 6 * (len(lines) - 1)
    return [
        charts.label(0.5, top + 12 * number_, "said start", line, dx=8)
        for number_, line in enumerate(lines)
    ]
