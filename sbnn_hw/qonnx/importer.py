"""From a graph of ONNX and QONNX operators to the integer network that is exactly it.

The nodes are walked in order. Of every tensor it is known, exactly, what it holds: constants,
`Values`, `Sums` of a binary layer, or a `Stream` of integers. A quantiser makes bits or integers of
them, which adds stages to the netlist.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.fold.assemble import LayerReport
from sbnn_hw.netlist import Network
from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.build import Build, State, Trace
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.conversion import to_stream
from sbnn_hw.qonnx.fold_constants import fold_constants
from sbnn_hw.qonnx.graph import Graph, Node, shown
from sbnn_hw.qonnx.nodes import MEANINGS, SUPPORTED, end_with_scores
from sbnn_hw.qonnx.pixels import PIXELS
from sbnn_hw.qonnx.read import read_graph
from sbnn_hw.qonnx.stream_nodes import JOINS
from sbnn_hw.qonnx.streams import Stream
from sbnn_hw.qonnx.tensors import Sums, Values

__all__ = ["Imported", "import_graph", "import_network"]

#: What ONNX computes in the type of what it is given.
_TYPED = ("Mul", "Div", "Add", "Sub", "Neg", "Sign", "MatMul", "Gemm", "Conv", "BatchNormalization")


@dataclass(frozen=True, eq=False)
class Imported:
    """The network of a graph, what folding it found, and where each stage's bits are in it."""

    network: Network
    reports: tuple[LayerReport, ...]
    traces: dict[str, Trace]
    pixels: str


def import_network(
    path: str | Path, *, pixels: str | None = None, drop_unread: bool = True
) -> Imported:
    """Import a file; ``pixels`` tells how pixels are fed, where the file does not."""
    if pixels is not None and pixels not in PIXELS:
        raise UsageError(f"Pixels must be one of {', '.join(PIXELS)}, not {pixels!r}")
    graph = read_graph(path)
    try:
        return import_graph(graph, pixels=pixels, drop_unread=drop_unread)
    except ModelRejected as error:
        raise ModelRejected(f"{path}: {shown(str(error), 1000)}") from None


def import_graph(graph: Graph, *, pixels: str | None = None, drop_unread: bool = True) -> Imported:
    """Import a graph."""
    build = Build(graph, pixels)
    for node in graph.nodes:
        with _naming(node):
            _step(build, node)
    last = build.tensors.get(graph.outputs[0])
    if build.finished is None:
        maker = next((n for n in graph.nodes if graph.outputs[0] in n.outputs), None)
        if not isinstance(last, Sums | Stream):
            name = maker.name if maker else shown(graph.outputs[0])
            raise ModelRejected(
                f"Node {name} is the last and does not give scores; a network must end with a "
                f"linear layer, whose largest output is the class"
            )
        assert maker is not None
        with _naming(maker):
            end_with_scores(build, maker, last)
    network = build.assembler.finish(drop=drop_unread and not build.kept)
    return Imported(network, tuple(build.assembler.reports), build.traces, build.pixels or "auto")


def _step(build: Build, node: Node) -> None:
    """Find out what a node's output holds."""
    given = [build.tensors.get(name) if name else None for name in node.inputs]
    states = [(at, x) for at, x in enumerate(given) if isinstance(x, Values | Sums | Stream)]
    constants = {at: x for at, x in enumerate(given) if isinstance(x, Constant)}
    for name in node.inputs:
        if name and name not in build.tensors and build.finished is None:
            raise node.refuse(f"reads {name!r:.80}, a second output, which cannot be mapped")
    if node.op == "Shape" and states:
        shape = shapes.shape_of(states[0][1], build.graph.input)
        build.tensors[node.outputs[0]] = shapes.sizes_of(node, shape)
        return
    if build.classes & set(node.inputs):
        _behind_class(build, node)
        return
    if not states:
        build.tensors[node.outputs[0]] = fold_constants(node, constants)
        return
    if build.finished is not None:
        raise node.refuse(f"follows {build.finished.name}, which gives the class")
    states = [(at, _forked(build, node, node.inputs[at])) for at, _ in states]
    if len(states) > 1 or node.op in ("Concat", "Sum"):
        _join(build, node, states, constants)
        return
    at, state = states[0]
    meaning = MEANINGS.get(node.op)
    if meaning is None:
        raise node.refuse(f"cannot be mapped; supported are {SUPPORTED}")
    if isinstance(state, Values) and state.integer and node.op in _TYPED:
        raise node.refuse(
            f"computes with integers ({build.graph.input.kind}), which ONNX wraps and "
            f"truncates; insert a Cast to float32 before it"
        )
    result = meaning(build, node, at, state, constants)
    if result is not None:
        build.tensors[node.outputs[0]] = result


def _behind_class(build: Build, node: Node) -> None:
    """Accept what changes the class's shape or type, and not the class."""
    assert build.finished is not None
    cast = node.op == "Cast" and node.attributes.get("to") in (1, 6, 7, 11)
    if not cast and node.op not in ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"):
        raise node.refuse(f"follows {build.finished.name}, which gives the class")
    build.classes.update(node.outputs)


def _join(
    build: Build, node: Node, states: list[tuple[int, State]], constants: dict[int, Constant]
) -> None:
    """Find out what a node holds that joins tensors."""
    if node.op not in JOINS:
        raise node.refuse(
            f"joins two tensors that depend on the image; only {', '.join(JOINS)} may do so"
        )
    if constants:
        raise node.refuse("joins constants with tensors that depend on the image")
    build.tensors[node.outputs[0]] = JOINS[node.op](build, node, [state for _, state in states])


def _forked(build: Build, node: Node, name: str) -> State:
    """Return what a tensor holds; sums that several nodes read are stages, so that all have them.

    No network has two ends.
    """
    state = build.tensors[name]
    assert not isinstance(state, Constant)
    if build.graph.ends_with(name):
        raise node.refuse(f"reads {name!r:.80}, which is also an output of the network")
    readers = [n for n in build.graph.readers(name) if n.op != "Shape"]
    if isinstance(state, Sums) and (len(readers) > 1 or node.inputs.count(name) > 1):
        state = build.tensors[name] = to_stream(build, node, state)
    return state


@contextmanager
def _naming(node: Node) -> Iterator[None]:
    """Name the node in what is refused."""
    try:
        yield
    except ModelRejected as error:
        text = str(error)
        raise (error if text.startswith("Node ") else node.refuse(text)) from None
