"""What an import knows on its way through a graph, and the netlist as far as it is built."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Assembler
from sbnn_hw.netlist import Operation
from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Graph, Node
from sbnn_hw.qonnx.pixels import PIXELS, guess
from sbnn_hw.qonnx.quantisers import rule_of
from sbnn_hw.qonnx.tensors import Sums, Values
from sbnn_hw.qonnx.weights import Hint

__all__ = ["LAYERS", "QUANTISERS", "Build", "Given", "State", "Trace"]

Int = npt.NDArray[np.int64]
State = Values | Sums
#: The constants that a node reads, by their places among its inputs.
Given = dict[int, Constant]

QUANTISERS = ("BipolarQuant", "Quant", "MultiThreshold", "Sign")
LAYERS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a stage's bits are in the graph.

    Element *e* of the tensor, without its batch, is ``high[e]`` where bit ``index[e]`` of the
    stage is set, else ``low[e]``.
    """

    tensor: str
    index: Int
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class Build:
    """A network that is being built, and what is known of each tensor of the graph.

    ``pixels`` tells how pixels are fed, where the graph does not say.
    """

    def __init__(self, graph: Graph, pixels: str | None) -> None:
        self.graph = graph
        self.pixels = pixels or graph.hints.get("pixels")
        if self.pixels is None and (graph.input.kind == "uint8" or _is_uint8(graph)):
            self.pixels = "raw"
        if self.pixels is not None and self.pixels not in PIXELS:
            raise ModelRejected(
                f"its metadata say that pixels are fed as {self.pixels!r:.40}, not one of "
                f"{', '.join(PIXELS)}"
            )
        self.hints = _hints(graph)
        edge, index = shapes.image_of(graph)
        self.assembler = Assembler(edge)
        #: What the last stage hands on.
        self.at = self.assembler.input
        lanes = edge.channels
        self.tensors: dict[str, State | Constant] = dict(graph.constants)
        self.tensors[graph.input.name] = Values(
            index=index,
            lane=index % lanes,
            scale=(Fraction(1),) * lanes,
            offset=(Fraction(0),) * lanes,
            pixels=self.pixels or "auto",
            integer=graph.input.kind == "uint8",
        )
        self.traces: dict[str, Trace] = {}
        self.numbers: dict[str, int] = {}
        self.finished: Node | None = None
        #: Tensors that hold the class, and the ends of those that a Clip has cut.
        self.classes: set[str] = set()
        self.clips: dict[str, tuple[Constant | None, Constant | None]] = {}

    def name(self, kind: str) -> str:
        """Return the next name of a stage of a kind."""
        number = self.numbers[kind] = self.numbers.get(kind, -1) + 1
        return f"{kind}{number}"

    def add(self, name: str, operation: Operation) -> None:
        """Add a stage behind the last one."""
        self.at = self.assembler.add(name, operation, self.at)

    def trace(self, stage: str, node: Node, x: Values) -> None:
        """Note where the bits of a stage are in the graph."""
        if x.pad is not None:
            return
        scale, offset = (np.array([float(n) for n in part]) for part in (x.scale, x.offset))
        low, high = (offset - scale)[x.lane], (offset + scale)[x.lane]
        self.traces[stage] = Trace(node.outputs[0], x.index, low, high)

    # Pixels

    def settled(self, node: Node, x: State) -> Values:
        """Return values that a layer can read; the manner of pixels is decided by now."""
        if isinstance(x, Sums):
            raise node.refuse(
                f"reads the sums of {x.layer.name}, which no quantiser has made binary"
            )
        return self.decided(x)

    def decided(self, x: Values) -> Values:
        """Return the values; of pixels it is decided now how they are fed."""
        if x.pixels == "auto":
            try:
                self.pixels = guess(x.scale, x.offset)
            except ModelRejected:
                self._check_quantisers()
                raise
            return replace(x, pixels=self.pixels)
        return x

    def _check_quantisers(self) -> None:
        """Refuse the first quantiser of sums that cannot be mapped, however pixels are fed."""
        images, sums = {self.graph.input.name}, set[str]()
        for node in self.graph.nodes:
            given, made = set(node.inputs[:2]), set(node.outputs)
            if node.op in LAYERS and given & images:
                sums |= made
            elif node.op in QUANTISERS and given & sums:
                if all(name in self.tensors for name in node.inputs[1:] if name):
                    found = {at: self.tensors.get(name) for at, name in enumerate(node.inputs)}
                    rule_of(node, {at: c for at, c in found.items() if isinstance(c, Constant)})
                images |= made
            elif given & sums:
                sums |= made
            elif given & images:
                images |= made

    def last(self, node: Node) -> bool:
        """Whether no quantiser follows, so that the sums are scores."""
        names = set(filter(None, node.outputs))
        for other in self.graph.nodes:
            if names & set(other.inputs):
                if other.op in QUANTISERS:
                    return False
                names |= set(filter(None, other.outputs))
        return True


def _is_uint8(graph: Graph) -> bool:
    return graph.input.annotation == "UINT8"


def _hints(graph: Graph) -> dict[str, Hint]:
    """Return what the file says of its layers; a hint that is no hint is none."""
    try:
        given = json.loads(graph.hints.get("layers", "{}"))
        return {
            str(name): Hint(int(xi), int(k))
            for name, (xi, k) in given.items()
            if abs(int(xi)) < 1 << 42 and 0 <= int(k) <= 40
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
