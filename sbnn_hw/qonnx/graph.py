"""A small graph of our own: nodes in an order in which each comes after what it reads."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx.constants import Constant

__all__ = ["Graph", "Input", "Node", "shown"]


def shown(text: str, most: int = 80) -> str:
    """Return a file's text as a terminal may have it: printable, and not longer than this."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:most])
    return plain + "…" if len(text) > most else plain


@dataclass(frozen=True, eq=False)
class Node:
    """An operator with the names of what it reads and makes."""

    #: For people; the first output's name where the file gives none.
    name: str
    op: str
    #: Names of tensors; what is left out is empty, so that the others keep their places.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Plain values: numbers, strings, tuples of them; a tensor is a function that reads it.
    attributes: Mapping[str, Any]

    def refuse(self, reason: str) -> ModelRejected:
        """Return the error that names this node and its operator."""
        return ModelRejected(f"Node {shown(self.name)} ({shown(self.op)}) {reason}")

    def integer(self, key: str, default: int) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes.get(key, default)
        if not isinstance(value, int):
            raise self._wrong(key, "an integer")
        return value

    def integers(self, key: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, or None."""
        value = self.attributes.get(key)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(n, int) for n in value):
            raise self._wrong(key, "a list of integers")
        return value

    def number(self, key: str, default: float) -> float:
        """Return an attribute that is a number."""
        value = self.attributes.get(key, default)
        if not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return value

    def text(self, key: str, default: str) -> str:
        """Return an attribute that is text."""
        value = self.attributes.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def _wrong(self, key: str, kind: str) -> ModelRejected:
        return self.refuse(f"has an attribute {key!r} that is not {kind}")


@dataclass(frozen=True)
class Input:
    """What the graph receives: its name, type, shape with the batch first, and annotation."""

    name: str
    kind: str
    shape: tuple[int, ...]
    annotation: str | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in order, the constants that they read, one input, and what is made of it.

    Nodes and constants that no output depends on are dropped; of a mapping that reads constants
    when asked for them, those are never read. ``hints`` are the file's metadata that are ours.
    """

    input: Input
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    hints: Mapping[str, str]
    _readers: Mapping[str, list[Node]] = field(init=False)
    _ends: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        maker: dict[str, Node] = {}
        for node in self.nodes:
            for name in filter(None, node.outputs):
                if name in maker or name in self.constants or name == self.input.name:
                    raise node.refuse(f"makes {name!r:.80}, which already exists")
                maker[name] = node
        for node in self.nodes:
            for name in node.inputs:
                if name and not self._known(name, maker):
                    raise node.refuse(
                        f"reads {name!r:.80}, which nothing makes: an initialiser is missing"
                    )
        for name in self.outputs:
            if not self._known(name, maker):
                raise ModelRejected(f"Output {name!r:.80} is not made by any node")
        nodes = _in_order(self._needed(maker), maker)
        readers: dict[str, list[Node]] = {}
        for node in nodes:
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        used = [name for name in (*readers, *self.outputs) if name in self.constants]
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "constants", {name: self.constants[name] for name in used})
        object.__setattr__(self, "_readers", readers)
        object.__setattr__(self, "_ends", frozenset(self.outputs))

    def _known(self, name: str, maker: Mapping[str, Node]) -> bool:
        return name in maker or name in self.constants or name == self.input.name

    def _needed(self, maker: Mapping[str, Node]) -> list[Node]:
        """Return the nodes that the outputs depend on."""
        seen: set[int] = set()
        pending = [maker[name] for name in self.outputs if name in maker]
        while pending:
            node = pending.pop()
            if id(node) not in seen:
                seen.add(id(node))
                pending += [maker[name] for name in node.inputs if name in maker]
        return [node for node in self.nodes if id(node) in seen]

    def readers(self, name: str) -> list[Node]:
        """Return the nodes that read a tensor."""
        return self._readers.get(name, [])

    def ends_with(self, name: str) -> bool:
        """Whether a tensor is an output."""
        return name in self._ends


def _in_order(nodes: list[Node], maker: Mapping[str, Node]) -> tuple[Node, ...]:
    """Sort the nodes; a cycle is refused with one of its nodes."""
    wanting = {id(n): len({id(maker[i]) for i in n.inputs if i in maker}) for n in nodes}
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for source in {id(maker[i]) for i in node.inputs if i in maker}:
            readers.setdefault(source, []).append(node)
    ready = deque(node for node in nodes if not wanting[id(node)])
    ordered = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for reader in readers.get(id(node), []):
            wanting[id(reader)] -= 1
            if not wanting[id(reader)]:
                ready.append(reader)
    if len(ordered) != len(nodes):
        done = {id(node) for node in ordered}
        stuck = next(node for node in nodes if id(node) not in done)
        raise stuck.refuse("is part of a cycle, or depends on one")
    return tuple(ordered)
