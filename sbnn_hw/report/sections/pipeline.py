"""The block diagram of the pipeline."""

import math
from collections.abc import Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, Markup, number, tag
from sbnn_hw.report.schema import NetworkInput, PipelineStage, Report

__all__ = ["pipeline"]


def pipeline(report: Report) -> pieces.Section:
    """Return the block diagram: input, stages, class, with the widths of what lies between."""
    edge, output, stages = report.input, report.output, report.stages
    most = max((stage.tables or 0 for stage in stages), default=0)
    hops = []
    block = _block("Input", [pieces.image(edge)], look="end")
    wires: str | None = _words_in(edge)
    spoken = [f"input {pieces.image(edge)}"]
    for stage in stages:
        hops.append(_hop(block, wires))
        block = _stage_block(stage, most)
        spoken.append(_stage_spoken(stage))
        # A stage without hardware of its own, as flattening, passes on what it gets.
        if stage.width != 0:
            wires = _bits(stage.width)
    if output.width is not None:
        wires = _bits(output.width)
    answer = f"one of {number(output.classes)}"
    last = tag("div", _block("Class", [answer], look="end"), class_="hop")
    hops += [_hop(block, wires), last]
    spoken.append(f"class, {answer}")
    rows = [
        (
            stage.name,
            stage.kind,
            pieces.shape(stage.shape) if stage.shape else "–",
            pieces.dash(stage.width),
            pieces.dash(stage.neurons),
            pieces.dash(stage.connections),
            pieces.dash(stage.tables),
            pieces.dash(stage.registers),
            pieces.dash(stage.latency),
            _xi(stage) or "–",
        )
        for stage in stages
    ]
    head = (
        "Stage",
        "Kind",
        "Shape",
        "Bits out",
        "Neurons",
        "Connections",
        "LUTs",
        "Registers",
        "Cycles",
        "ξ",
    )
    return pieces.section(
        "pipeline",
        "Pipeline",
        _pace(report),
        pieces.figure(
            f"Block diagram of the pipeline: {'; '.join(spoken)}.",
            tag("div", hops, class_="pipeline"),
        ),
        tag(
            "p",
            "LUTs and flip-flops (FFs) are those in the generated Verilog; the bars compare the "
            "LUTs of the stages. Dashed blocks are only wires.",
            class_="quiet",
        ),
        pieces.table(head, rows, "Stages as a table") if rows else None,
    )


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


def _words_in(edge: NetworkInput) -> str:
    if edge.width is None:
        return pieces.plural(math.prod(edge.shape) * edge.bits, "bit")
    width = pieces.plural(edge.width, "bit")
    return width if edge.beats in (None, 1) else f"{width} × {pieces.dash(edge.beats)} words"


def _bits(width: int | None) -> str | None:
    return None if width is None else pieces.plural(width, "bit")


def _hop(block: Markup, wires: str | None) -> Markup:
    """Return a block with the arrow that leaves it: where a line ends, it leads to the next."""
    edge = tag("div", tag("span", wires), tag("span", class_="wire"), class_="edge")
    return tag("div", block, edge, class_="hop")


def _block(name: str, lines: Sequence[str], *rest: Child, look: str = "") -> Markup:
    return tag(
        "div",
        tag("h3", name),
        [tag("p", line) for line in lines],
        *rest,
        class_=f"block {look}".strip(),
    )


def _stage_block(stage: PipelineStage, most: int) -> Markup:
    wires_only = stage.tables == 0 and stage.registers == 0
    kind = stage.kind
    if stage.shape:
        kind += f" · {pieces.shape(stage.shape)}"
    lines = [kind]
    if stage.connections:
        lines.append(pieces.plural(stage.connections, "connection"))
    xi = _xi(stage)
    if xi is not None:
        lines.append(f"ξ = {xi}")
    if wires_only:
        return _block(stage.name, [*lines, "only wires"], look="wires")
    costs = []
    if stage.tables is not None:
        costs.append(pieces.plural(stage.tables, "LUT"))
    if stage.registers is not None:
        costs.append(pieces.plural(stage.registers, "FF"))
    if stage.latency is not None:
        costs.append(pieces.plural(stage.latency, "cycle"))
    picture = None
    if stage.tables is not None and most:
        picture = charts.bar([Bar(0, stage.tables / most, "core")], height=5)
    cost = tag("p", [tag("span", cost) for cost in costs], class_="cost") if costs else None
    return _block(stage.name, lines, cost, picture)


def _stage_spoken(stage: PipelineStage) -> str:
    words = [f"{stage.name}, {stage.kind}"]
    for count, noun in ((stage.tables, "LUT"), (stage.latency, "cycle"), (stage.width, "bit")):
        if count:
            words.append(pieces.plural(count, noun))
    return ", ".join(words)


def _xi(stage: PipelineStage) -> str | None:
    xi, k = stage.xi, stage.k
    if xi is None:
        return None
    whole = number(xi).replace("-", "−")
    return whole if not k or not xi else f"{whole}/{number(2**k)}"
