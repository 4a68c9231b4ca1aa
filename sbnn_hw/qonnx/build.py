"""What an import knows on its way through a graph, and the netlist as far as it is built."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Assembler, Handle, Summed
from sbnn_hw.netlist import Affine, Encode, Flatten, Operation
from sbnn_hw.qonnx import shapes
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Graph, Node
from sbnn_hw.qonnx.pixels import PIXELS, guess
from sbnn_hw.qonnx.streams import Stream, Term, Wired
from sbnn_hw.qonnx.tensors import Sums, Values
from sbnn_hw.qonnx.weights import Hint

__all__ = ["LAYERS", "QUANTISERS", "Build", "Given", "State", "Trace"]

Int = npt.NDArray[np.int64]
State = Values | Sums | Stream
#: The constants that a node reads, by their places among its inputs.
Given = dict[int, Constant]

QUANTISERS = ("BipolarQuant", "Quant", "MultiThreshold", "Sign")
LAYERS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a stage's values are in the graph.

    Element *e* of the tensor, without its batch, is ``scale[e]`` times value ``index[e]`` of the
    stage, plus ``offset[e]``.
    """

    tensor: str
    index: Int
    scale: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]


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
        #: Whether the file is of a netlist that is to stay as it is, with what nothing reads.
        self.kept = graph.hints.get("streams") == "kept"
        edge, index = shapes.image_of(graph)
        self.assembler = Assembler(edge)
        lanes = edge.channels
        self.tensors: dict[str, State | Constant] = dict(graph.constants)
        self.tensors[graph.input.name] = Values(
            at=self.assembler.input,
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
        self._flat: dict[int, Handle] = {}
        # What is placed stays in memory, so that no other has its place there.
        self._placed: dict[int, tuple[Wired, Summed]] = {}

    def name(self, kind: str) -> str:
        """Return the next name of a stage of a kind."""
        number = self.numbers[kind] = self.numbers.get(kind, -1) + 1
        return f"{kind}{number}"

    # Stages

    def add(self, name: str, operation: Operation, *sources: Handle) -> Handle:
        """Add a stage."""
        return self.assembler.add(name, operation, *sources)

    def flattened(self, at: Handle) -> Handle:
        """Return the vector of a map's values, or the vector that is there."""
        if len(at.edge.shape) == 1:
            return at
        if at.stage not in self._flat:
            self._flat[at.stage] = self.add(self.name("flatten"), Flatten(), at)
        return self._flat[at.stage]

    def affine(self, affine: Affine, *sources: Handle) -> tuple[str, Handle]:
        """Add an affine of streams; return its name too."""
        name = self.name("affine")
        if self.kept:
            return name, self.add(name, affine, *sources)
        first = Summed(sources[0], 1, np.zeros(sources[0].edge.channels, np.int64))
        return name, self.assembler.affine(name, affine, first, *sources[1:])

    def encode(self, encode: Encode, source: Handle) -> tuple[str, Handle]:
        """Add an encoder of a stream; return its name too."""
        name = self.name("sign")
        if self.kept:
            return name, self.add(name, encode, source)
        return name, self.assembler.encode(source, name, encode)

    def read(self, source: Handle, fixed: tuple[int, ...] = ()) -> Handle:
        """Return what a layer reads; of a netlist that is kept, only ``fixed`` is constant."""
        if not self.kept:
            return source
        known = np.isin(np.arange(source.edge.channels), fixed) & source.constants.known
        return replace(source, constants=replace(source.constants, known=known))

    def placed(self, x: Stream) -> tuple[Stream, list[Handle]]:
        """Return a stream all of whose terms are stages, and those stages."""
        terms, handles, offset = [], [], x.offset
        for term in x.terms:
            source = term.source
            if isinstance(source, Wired):
                summed = self._summed(source)
                moved = summed.moved.tolist()
                offset = tuple(
                    o + f * m for o, f, m in zip(offset, term.factors, moved, strict=True)
                )
                source = summed.handle
            terms.append(Term(source, term.factors))
            handles.append(source)
        return replace(x, terms=tuple(terms), offset=offset), handles

    def _summed(self, wired: Wired) -> Summed:
        if id(wired) not in self._placed:
            name = self.name("sums")
            if self.kept:
                handle = self.add(name, wired.sums, wired.source)
                summed = Summed(handle, 1, np.zeros(handle.edge.channels, np.int64))
            else:
                summed = self.assembler.sums(wired.source, name, wired.sums)
            self._placed[id(wired)] = wired, summed
        return self._placed[id(wired)][1]

    def trace(self, stage: str, node: Node, x: Values | Stream) -> None:
        """Note where the values of a stage are in the graph."""
        if x.pad is not None:
            return
        if isinstance(x, Stream):
            scale, offset = (
                np.array([float(n) for n in part]) for part in (x.terms[0].factors, x.offset)
            )
        else:
            half, middle = (np.array([float(n) for n in part]) for part in (x.scale, x.offset))
            scale, offset = 2 * half, middle - half
        self.traces[stage] = Trace(node.outputs[0], x.index, scale[x.lane], offset[x.lane])

    # Pixels

    def decided(self, x: Values) -> Values:
        """Return the values; of pixels it is decided now how they are fed."""
        if x.pixels == "auto":
            if self.pixels is None:
                self.pixels = guess(x.scale, x.offset)
            return replace(x, pixels=self.pixels)
        return x

    def last(self, node: Node) -> bool:
        """Whether no quantiser follows, so that the sums are scores."""
        names = set(filter(None, node.outputs))
        for other in self.graph.nodes:
            if names & set(other.inputs):
                if other.op in (*QUANTISERS, "Floor"):
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
            str(name): _hint(int(xi), int(k), *more)
            for name, (xi, k, *more) in given.items()
            if abs(int(xi)) < 1 << 42 and 0 <= int(k) <= 40
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _hint(
    xi: int, k: int, kind: str = "layer", fixed: tuple[int, ...] = (), groups: int = 1
) -> Hint:
    """Return what a file says of a layer; whatever is wrong with it is an error."""
    if kind not in ("layer", "sums", "weights", "pool"):
        raise ValueError(kind)
    channels = sorted({int(channel) for channel in fixed})
    return Hint(xi, k, None, kind, tuple(channels), max(1, int(groups)))
