"""The block diagram of the pipeline, and its tables."""

from collections.abc import Sequence

from sbnn_hw.report import pieces
from sbnn_hw.report.lanes import is_chain
from sbnn_hw.report.markup import Markup, number, tag
from sbnn_hw.report.schema import PipelineStage, Report
from sbnn_hw.report.sections.blocks import (
    class_block,
    flow_of,
    input_block,
    kind_of_values,
    most_tables,
    name_of,
    queue_words,
    shown_xi,
    stage_block,
    word,
    words_in,
)
from sbnn_hw.report.sections.graph import draw_graph

__all__ = ["pipeline"]


def pipeline(report: Report) -> pieces.Section:
    """Return the block diagram: input, stages, class, with what lies between them.

    A chain is drawn as a row, a graph from top to bottom with its forks and joins.
    """
    stages = report.stages
    chain = is_chain(flow_of(stages))
    queues = _queues(stages)
    return pieces.section(
        "pipeline",
        "Pipeline",
        _pace(report),
        pieces.figure(
            f"Block diagram of the pipeline: {'; '.join(_spoken(report, chain))}.",
            _row(report) if chain else draw_graph(report),
        ),
        tag(
            "p",
            "LUTs and flip-flops (FFs) are those in the generated Verilog; the bars compare the "
            "LUTs of the stages. Dashed blocks are only wires.",
            None
            if chain
            else " Lines beside the stages are other ways through the network. Where ways meet, "
            "what comes early waits in a queue; queues of one value are not drawn.",
            class_="quiet",
        ),
        _stages(stages),
        queues,
    )


def _row(report: Report) -> Markup:
    edge, output, stages = report.input, report.output, report.stages
    most = most_tables(stages)
    hops = []
    block = input_block(edge)
    wires: str | None = words_in(edge)
    for stage in stages:
        hops.append(_hop(block, wires))
        block = stage_block(stage, stages, most)
        # A stage without hardware of its own, as flattening, passes on what it gets.
        if stage.width != 0:
            wires = word(stage)
    if output.width is not None:
        wires = pieces.plural(output.width, "bit")
    last = tag("div", class_block(output), class_="hop")
    return tag("div", [*hops, _hop(block, wires), last], class_="pipeline")


def _spoken(report: Report, chain: bool) -> list[str]:
    """Return the picture in words, a few for each stage."""
    stages = report.stages
    words = [f"input {pieces.image(report.input)}"]
    for stage in stages:
        said = [f"{stage.name}, {stage.kind}"]
        if not chain and stage.sources is not None:
            read = dict.fromkeys(name_of(stages, source) for source in stage.sources)
            said.append(f"reads {' and '.join(read)}")
        said += [
            pieces.plural(count, noun)
            for count, noun in ((stage.tables, "LUT"), (stage.latency, "cycle"))
            if count
        ]
        if stage.width:
            said.append(word(stage) or "")
        said += [queue_words(stages, queue) for queue in stage.queues if queue.depth > 1]
        words.append(", ".join(said))
    return [*words, f"class, one of {number(report.output.classes)}"]


def _stages(stages: Sequence[PipelineStage]) -> Markup | None:
    """Return the stages as a table; columns in which no stage has anything are left out."""
    columns: dict[str, list[str]] = {
        "Stage": [stage.name for stage in stages],
        "Kind": [stage.kind for stage in stages],
        "Shape": [pieces.shape(stage.shape) if stage.shape else "–" for stage in stages],
        "Bits out": [pieces.dash(stage.width) for stage in stages],
        "Neurons": [pieces.dash(stage.neurons) for stage in stages],
        "Connections": [pieces.dash(stage.connections) for stage in stages],
        "LUTs": [pieces.dash(stage.tables) for stage in stages],
        "Registers": [pieces.dash(stage.registers) for stage in stages],
        "Cycles": [pieces.dash(stage.latency) for stage in stages],
        "ξ": [shown_xi(stage) or "–" for stage in stages],
    }
    if any(stage.bits is not None and stage.bits > 1 for stage in stages[:-1]):
        columns["Values"] = [kind_of_values(stage) or "–" for stage in stages]
    if any(stage.block_ram for stage in stages):
        columns["Block RAM"] = [pieces.dash(stage.block_ram) for stage in stages]
    for name in ("additions", "multiplications"):
        if any(getattr(stage, name) for stage in stages):
            columns[name.capitalize()] = [pieces.dash(getattr(stage, name)) for stage in stages]
    if not is_chain(flow_of(stages)):
        read = [dict.fromkeys(stage.sources or (n - 1,)) for n, stage in enumerate(stages)]
        columns["Reads"] = [", ".join(name_of(stages, n) for n in each) for each in read]
    rows = list(zip(*columns.values(), strict=True))
    return pieces.table(tuple(columns), rows, "Stages as a table") if rows else None


def _queues(stages: Sequence[PipelineStage]) -> Markup | None:
    rows = [
        (
            stage.name,
            name_of(stages, queue.source),
            number(queue.depth),
            number(queue.bits),
            number(queue.depth * queue.bits),
            number(queue.tables),
            number(queue.registers),
            number(queue.block_ram),
        )
        for stage in stages
        for queue in stage.queues
    ]
    head = (
        *("Stage", "Waits for", "Values", "Bits of a value", "Bits in all", "LUTs", "Registers"),
        "Block RAM",
    )
    return pieces.table(head, rows, "Queues as a table") if rows else None


def _pace(report: Report) -> str | None:
    latency, interval = report.latency_cycles, report.initiation_interval
    words = []
    if latency is not None:
        words.append(
            f"An image takes {pieces.plural(latency, 'cycle')} from its first input word to its "
            "class."
        )
    if interval is not None:
        every = "every cycle" if interval == 1 else f"every {number(interval)} cycles"
        words.append(f"A new image can start {every}.")
    return " ".join(words) or None


def _hop(block: Markup, wires: str | None) -> Markup:
    """Return a block with the arrow that leaves it: where a line ends, it leads to the next."""
    edge = tag("div", tag("span", wires), tag("span", class_="wire"), class_="edge")
    return tag("div", block, edge, class_="hop")
