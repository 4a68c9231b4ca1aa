"""The blocks of the pipeline's picture, and the words on them and between them."""

import math
from collections.abc import Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, Markup, number, tag
from sbnn_hw.report.schema import NetworkInput, NetworkOutput, PipelineStage, StageQueue

__all__ = [
    "class_block",
    "flow_of",
    "input_block",
    "kind_of_values",
    "most_tables",
    "name_of",
    "queue_words",
    "shown_xi",
    "stage_block",
    "word",
    "words_in",
]


def flow_of(stages: Sequence[PipelineStage]) -> list[list[int]]:
    """Return what each block reads: 0 is the input, stages follow, and the last is the class."""
    read = [
        [source + 1 for source in (stage.sources or (number - 1,))]
        for number, stage in enumerate(stages)
    ]
    return [[], *read, [len(stages)]]


def name_of(stages: Sequence[PipelineStage], source: int) -> str:
    """Return what a source of a stage is called."""
    return "the input" if source < 0 else stages[source].name


def most_tables(stages: Sequence[PipelineStage]) -> int:
    """Return the LUTs of the largest stage, with which the others are compared."""
    return max((stage.tables or 0 for stage in stages), default=0)


def words_in(edge: NetworkInput) -> str:
    """Return what leaves the input."""
    if edge.width is None:
        return pieces.plural(math.prod(edge.shape) * edge.bits, "bit")
    width = pieces.plural(edge.width, "bit")
    return width if edge.beats in (None, 1) else f"{width} × {pieces.dash(edge.beats)} words"


def kind_of_values(stage: PipelineStage) -> str | None:
    """Return what kind of values a stage hands on."""
    if stage.bits is None:
        return None
    if stage.bits == 1:
        return "bits"
    return f"{stage.bits}-bit {'signed' if stage.signed else 'unsigned'}"


def word(stage: PipelineStage) -> str | None:
    """Return what leaves a stage together: bits, or so many integers of some bits."""
    if stage.width is None:
        return None
    many = stage.bits is not None and stage.bits > 1 and stage.width % stage.bits == 0
    # The last stage hands on the class too.
    if not many or stage.kind == "scores":
        return pieces.plural(stage.width, "bit")
    return f"{stage.bits}-bit integers × {number(stage.width // (stage.bits or 1))}"


def queue_words(stages: Sequence[PipelineStage], queue: StageQueue) -> str:
    """Return what waits in a queue, and where that comes from."""
    return (
        f"queue of {number(queue.depth)} × {pieces.plural(queue.bits, 'bit')} for "
        f"{name_of(stages, queue.source)}"
    )


def input_block(edge: NetworkInput) -> Markup:
    """Return the block of what the network reads."""
    return _block("Input", [pieces.image(edge)], look="end")


def class_block(output: NetworkOutput) -> Markup:
    """Return the block of what the network answers."""
    return _block("Class", [f"one of {number(output.classes)}"], look="end")


def stage_block(
    stage: PipelineStage,
    stages: Sequence[PipelineStage],
    most: int,
    drawn: Sequence[StageQueue] = (),
) -> Markup:
    """Return the block of a stage; ``drawn`` are the queues that are shown elsewhere."""
    wires_only = stage.tables == 0 and stage.registers == 0
    kind = stage.kind
    if stage.shape:
        kind += f" · {pieces.shape(stage.shape)}"
    lines = [kind]
    if stage.connections:
        lines.append(pieces.plural(stage.connections, "connection"))
    xi = shown_xi(stage)
    if xi is not None:
        lines.append(f"ξ = {xi}")
    for queue in stage.queues:
        if queue.depth > 1 and queue not in drawn:
            lines.append(queue_words(stages, queue))
    if wires_only and stage.latency:
        # The first stage of an engine bears what all of them share.
        return _block(stage.name, [*lines, "same engine", pieces.plural(stage.latency, "cycle")])
    if wires_only:
        return _block(stage.name, [*lines, "only wires"], look="wires")
    costs = []
    if stage.tables is not None:
        costs.append(pieces.plural(stage.tables, "LUT"))
    if stage.registers is not None:
        costs.append(pieces.plural(stage.registers, "FF"))
    if stage.block_ram:
        costs.append(pieces.plural(stage.block_ram, "block RAM"))
    if stage.latency is not None:
        costs.append(pieces.plural(stage.latency, "cycle"))
    picture = None
    if stage.tables is not None and most:
        picture = charts.bar([Bar(0, stage.tables / most, "core")], height=5)
    cost = tag("p", [tag("span", cost) for cost in costs], class_="cost") if costs else None
    return _block(stage.name, lines, cost, picture)


def _block(name: str, lines: Sequence[str], *rest: Child, look: str = "") -> Markup:
    return tag(
        "div",
        tag("h3", name),
        [tag("p", line) for line in lines],
        *rest,
        class_=f"block {look}".strip(),
    )


def shown_xi(stage: PipelineStage) -> str | None:
    """Return ξ as it is written."""
    xi, k = stage.xi, stage.k
    if xi is None:
        return None
    whole = number(xi).replace("-", "−")
    return whole if not k or not xi else f"{whole}/{number(2**k)}"
