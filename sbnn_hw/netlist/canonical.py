"""The one form of a network: graphs that are the same, said otherwise, have the same bytes.

The order of stages, their names, and how an operation says what it computes are chosen here. What a
network computes is not changed: the scores are the same, and so are the values of every stage that
is left.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from sbnn_hw.netlist.affine import Affine
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.encode import Encode
from sbnn_hw.netlist.form import Array
from sbnn_hw.netlist.neurons import neurons_of
from sbnn_hw.netlist.operation import Operation
from sbnn_hw.netlist.stage import INPUT, Stage
from sbnn_hw.netlist.sums import Sums

__all__ = ["canonical_stages"]


@dataclass(frozen=True, eq=False)
class _Node:
    """A stage whose sources are named by what they compute."""

    stage: Stage
    sources: tuple[str, ...]
    edge: Edge


def canonical_stages(input: Edge, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the stages of a network in their one form.

    Each operation is simplified, reads each source once, and comes once; those that hand on what
    they receive are left out. Sums, an affine and an encoder that nothing else reads are neurons.
    Sources whose order does not matter are sorted by what they compute. Stages follow each other
    as the last one needs them.
    """
    try:
        simple = _simplified(input, stages)
    except _NarrowedError:
        simple = _simplified(input, stages, narrow=False)
    fused = _fused(input, simple)
    return simple if fused is None else _simplified(input, fused)


class _NarrowedError(Exception):
    """Complements would be taken in fewer bits than before."""


def _edges(input: Edge, stages: tuple[Stage, ...]) -> dict[int, Edge]:
    edges = {INPUT: input}
    for number, stage in enumerate(stages):
        edges[number] = stage.operation.infer(*(edges[source] for source in stage.sources))
    return edges


def _simplified(
    input: Edge, stages: tuple[Stage, ...], *, narrow: bool = True
) -> tuple[Stage, ...]:
    """Return the stages, each in its one form.

    To read a source once may narrow a range, which is left alone where a complement is taken in it.
    """
    given_edges = _edges(input, stages)
    nodes: dict[str, _Node] = {}
    given = _key("input", [str(input)], [])
    keys = {INPUT: given}

    def edge_of(key: str) -> Edge:
        return input if key == given else nodes[key].edge

    for number, stage in enumerate(stages):
        before = [keys[source] for source in stage.sources]
        edges = [edge_of(key) for key in before]
        if stage.operation.complements(*edges) and any(
            edge.maximum != given_edges[source].maximum
            for edge, source in zip(edges, stage.sources, strict=True)
        ):
            raise _NarrowedError
        simple = stage.operation.simplified(*edges)
        operation, read = simple.once(before)
        if not narrow and operation.infer(*(edges[n] for n in read)) != given_edges[number]:
            operation, read = simple, tuple(range(len(before)))
        sources = tuple(before[which] for which in read)
        edges = [edge_of(key) for key in sources]
        operation = operation.simplified(*edges)
        if operation.passes(*edges):
            keys[number] = sources[0]
            continue
        keys[number] = _structure(operation, sources)
        made = replace(stage, operation=operation, sources=tuple(range(len(sources))))
        if (same := nodes.get(keys[number])) is not None:
            # What either is read for is built.
            absent = np.intersect1d(same.stage.absent, stage.absent)
            made = replace(same.stage, absent=absent)
        nodes[keys[number]] = _Node(made, sources, operation.infer(*edges))
    return _in_order(nodes, keys[len(stages) - 1], given)


def _in_order(nodes: dict[str, _Node], last: str, given: str) -> tuple[Stage, ...]:
    """Return the stages that the last one needs, each behind its sources."""
    numbers = {given: INPUT}
    found: list[Stage] = []
    waiting = [last]
    while waiting:
        key = waiting[-1]
        missing = [source for source in nodes[key].sources if source not in numbers]
        if missing:
            waiting.append(missing[0])
            continue
        waiting.pop()
        sources = tuple(numbers[source] for source in nodes[key].sources)
        numbers[key] = len(found)
        found.append(replace(nodes[key].stage, sources=sources))
    return tuple(found)


def _structure(operation: Operation, sources: tuple[str, ...]) -> str:
    """Return the digest of what a stage computes of the input."""
    arrays: list[bytes] = []

    def write(array: Array) -> list[int]:
        kind = "|b1" if array.dtype == bool else "<i8"
        arrays.append(array.astype(kind).tobytes())
        return list(array.shape)

    text = json.dumps(operation.describe(write), sort_keys=True)
    return _key(operation.kind, [text, *sources], arrays)


def _key(kind: str, texts: list[str], arrays: list[bytes]) -> str:
    digest = hashlib.sha256(json.dumps([kind, *texts]).encode("ascii"))
    for array in arrays:
        digest.update(array)
    return digest.hexdigest()


def _fused(input: Edge, stages: tuple[Stage, ...]) -> tuple[Stage, ...] | None:
    """Return the stages in which neurons stand for sums with a threshold; None if none do."""
    readers = Counter(source for stage in stages for source in stage.sources)
    edges = _edges(input, stages)
    made = list(stages)
    for number, stage in enumerate(stages):
        if not isinstance(stage.operation, Encode):
            continue
        source, affine = stage.sources[0], None
        if source != INPUT and isinstance(found := stages[source].operation, Affine):
            affine = found
            if affine.arity != 1 or readers[source] != 1:
                continue
            source = stages[source].sources[0]
        if source == INPUT or readers[source] != 1:
            continue
        sums = stages[source]
        if not isinstance(sums.operation, Sums):
            continue
        (behind,) = sums.sources
        layer = neurons_of(sums.operation, affine, stage.operation, edges[behind])
        if layer is not None:
            counts = {name: getattr(sums, name) for name in ("ones", "kernels", "absent")}
            made[number] = replace(stage, operation=layer, sources=(behind,), **counts)
    return tuple(made) if made != list(stages) else None
