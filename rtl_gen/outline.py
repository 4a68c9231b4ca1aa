"""What is known of a design before its text is written: its ports, its stages, what they take."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.design import (
    Design,
    InputStream,
    OutputStream,
    ProgramPort,
    QueueDesign,
    StageDesign,
)
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.engines.outline import AHEAD, describe_engine
from sbnn_hw.rtl_gen.lower import Lowered, lower
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.parts.accumulate import OVERFLOW, Repeat
from sbnn_hw.rtl_gen.parts.hold import Hold
from sbnn_hw.rtl_gen.parts.join import Join, Queue, overflow_name
from sbnn_hw.rtl_gen.parts.part import ENABLE, PAYLOAD, VALID, Part

__all__ = ["describe", "describe_output", "outline", "tables_of"]


def outline(network: Network, options: Options) -> Design:
    """Return the description of a design without generating its text."""
    return describe(network, lower(network, options), options)


def tables_of(network: Network, family: str = "xc7") -> int:
    """Return the look-up tables of a network, laid out as `sbnn-hw generate` does.

    Of a network that takes an image a clock Yosys finds hardly anything to add or to take away.
    """
    return lower(network, Options(family=family)).cost.tables


def describe(network: Network, lowered: Lowered, options: Options) -> Design:
    """Return what a user of the design must know, and what its simulation measures."""
    return Design(
        network=network.digest,
        options=asdict(options),
        input=InputStream(
            beats=lowered.beats,
            held=lowered.held,
            width=lowered.width_in,
            value_bits=network.input.bits,
            shape=tuple(network.input.shape),
            ahead=0 if lowered.engine is None else AHEAD,
        ),
        output=describe_output(network, lowered, options),
        latency=lowered.latency,
        interval=lowered.interval,
        stages=tuple(_describe_stages(network, lowered, options)),
        program=_describe_program(lowered),
    )


def _describe_program(lowered: Lowered) -> ProgramPort | None:
    if lowered.engine is None or not lowered.engine.shape.loadable:
        return None
    shape, words = lowered.engine.shape, len(lowered.engine.program)
    # A word takes a cycle.
    return ProgramPort(shape.program_bytes, shape.short_digest, shape.depth - words)


def describe_output(network: Network, lowered: Lowered, options: Options) -> OutputStream:
    """Return what brings results out."""
    score_bits = lowered.score_bits if options.scores else 0
    return OutputStream(
        width=lowered.index_bits + network.classes * score_bits,
        index_bits=lowered.index_bits,
        score_bits=score_bits,
        classes=network.classes,
    )


def _describe_stages(
    network: Network, lowered: Lowered, options: Options
) -> Iterator[StageDesign]:
    first = len(network.stages) if lowered.engine is None else lowered.engine.first
    for number in range(first):
        yield _describe_stage(network, lowered, number)
    if lowered.engine is not None:
        yield from describe_engine(network, lowered.engine, options)


def _describe_stage(network: Network, lowered: Lowered, number: int) -> StageDesign:
    stage, edge = network.stages[number], network.edge_from(number)
    bits = edge.bits
    sources = tuple("" if n == INPUT else network.stages[n].name for n in stage.sources)
    chosen = lowered.chosen[stage.name]
    parts = list(chosen.parts.values())
    width = parts[-1].width_out if parts else 0
    # The last stage's word is the result: the class, and only then the stage's values.
    last = number == len(network.stages) - 1
    unread: list[int] = []
    if width and not last:
        read = network.read[number].reshape(-1, width // bits).any(axis=0)
        unread = np.flatnonzero(np.logical_not(read)).tolist()
    strobes: tuple[str, ...] = ()
    payload = None
    # Where nothing is computed there is no register, and nothing to look at.
    if parts and parts[-1].latency > 0 and [*chosen.parts][-1] == stage.name:
        strobes = tuple(f"{stage.name}.{port}" for port in (VALID, ENABLE))
        payload = None if last else f"{stage.name}.{PAYLOAD}"
    return StageDesign(
        name=stage.name,
        kind=stage.operation.kind,
        sources=sources,
        queues=tuple(_describe_queues(chosen.parts, tuple(dict.fromkeys(sources)))),
        cores=tuple(chosen.parts),
        connections=chosen.connections,
        counted=chosen.counted,
        cost=chosen.cost,
        latency=sum(part.latency for part in parts),
        words=1 if last or not width else edge.size * bits // width,
        width=width,
        value_bits=bits,
        signed=edge.signed,
        unread=tuple(unread),
        strobes=strobes,
        payload=payload,
    )


def _describe_queues(parts: Mapping[str, Part], sources: tuple[str, ...]) -> Iterator[QueueDesign]:
    """Yield where values wait: for those of other sources, or until the one in front is done."""
    for name, part in parts.items():
        if isinstance(part, Join):
            for n, (source, queue) in enumerate(zip(sources, part.queues, strict=True)):
                yield _describe_queue(source, queue, f"{name}.{overflow_name(n)}")
        elif isinstance(part, Hold):
            yield _describe_queue("", part.queue, f"{name}.{overflow_name(0)}")
        elif isinstance(part, Repeat) and part.watched:
            # A register, and one that tells whether there is a value in it.
            cost = Cost(registers=part.bits + 1)
            yield QueueDesign(sources[0], 1, part.bits, cost, f"{name}.{OVERFLOW}")


def _describe_queue(source: str, queue: Queue, overflow: str) -> QueueDesign:
    return QueueDesign(source, queue.depth, queue.bits, queue.cost, overflow)
