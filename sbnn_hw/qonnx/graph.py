"""A small graph of our own: nodes in an order in which each comes after what it reads."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx.constants import Constant

__all__ = ["Graph", "Input", "Node"]


@dataclass(frozen=True, eq=False)
class Node:
    """An operator with the names of what it reads and makes.

    Parameters
    ----------
    name : str
        For people; the first output's name where the file gives none.
    op : str
        The operator.
    inputs, outputs : tuple of str
        Names of tensors; an input that is left out is empty.
    attributes : mapping
        Plain values: numbers, strings, tuples of them, or a :class:`Constant`.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def refuse(self, reason: str) -> ModelRejected:
        """Return the error that names this node and its operator."""
        return ModelRejected(f"Node {self.name} ({self.op}) {reason}")


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

    ``hints`` are the file's metadata that are ours.
    """

    input: Input
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    hints: Mapping[str, str]

    def __post_init__(self) -> None:
        maker: dict[str, Node] = {}
        for node in self.nodes:
            for name in node.outputs:
                if name in maker or name in self.constants or name == self.input.name:
                    raise node.refuse(f"makes {name!r}, which is already there")
                maker[name] = node
        for node in self.nodes:
            for name in node.inputs:
                if name and not self._known(name, maker):
                    raise node.refuse(
                        f"reads {name!r}, which nothing makes: an initialiser is missing"
                    )
        for name in self.outputs:
            if not self._known(name, maker):
                raise ModelRejected(f"Output {name!r} is made by no node")
        object.__setattr__(self, "nodes", _in_order(self._needed(maker), maker))

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
        return [node for node in self.nodes if name in node.inputs]


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
        raise stuck.refuse("is part of a cycle, or waits for one")
    return tuple(ordered)
