"""From the integer network to ONNX with QONNX's operators, so that other tools compute the same.

Bits become −1 and +1, thresholds an offset in front of a `BipolarQuant`; integers of a stream stay
what they are. All numbers are integers, halves or quarters that the graph's float type holds, so
that whoever evaluates it gets every bit. What the importer could find in two ways is said in the
file's metadata.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.files import write_atomically
from sbnn_hw.netlist import INPUT, Constants, Edge, Network
from sbnn_hw.qonnx.read import DOMAINS, HINT, require_onnx

__all__ = ["Exported", "Exporting", "Writer", "export_network", "exports", "save_network"]

Array = npt.NDArray[Any]

#: What the graph is written for: old enough for most tools.
_OPSET, _IR = 13, 8


def save_network(network: Network, path: str | Path) -> None:
    """Write the ONNX file of a network, whole or not at all."""
    content = export_network(network)
    write_atomically(path, lambda file: file.write(content))


def export_network(network: Network) -> bytes:
    """Return the ONNX file of a network; the same network gives the same bytes."""
    require_onnx()
    from onnx import helper

    if network.input.bits != 8:
        raise ModelRejected(f"Pixels must have 8 bits to be exported, not {network.input.bits}")
    parts = _parts(network)
    writer = Writer(max(part.largest for part in parts), kept=network.schema > 1)
    tensors = {INPUT: writer.tensor}
    for number, (stage, part) in enumerate(zip(network.stages, parts, strict=True)):
        writer.sources = tuple(tensors[source] for source in stage.sources)
        writer.tensor = writer.sources[0]
        part.write(writer)
        tensors[number] = writer.tensor
    scores = helper.make_tensor_value_info(writer.tensor, writer.kind, [1, network.classes])
    shape = _onnx_shape(network.input)
    image = helper.make_tensor_value_info("image", writer.kind, [1, *shape])
    graph = helper.make_graph(writer.nodes, "network", [image], [scores], writer.constants)
    for name, kind in writer.kinds.items():
        annotation = graph.quantization_annotation.add()
        annotation.tensor_name = name
        pair = annotation.quant_parameter_tensor_names.add()
        pair.key, pair.value = "finn_datatype", kind
    model = helper.make_model(
        graph,
        producer_name="sbnn-hw",
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAINS[0], 1)],
    )
    hints = {"pixels": "raw", "layout": "NCHW", "layers": json.dumps(writer.hints, sort_keys=True)}
    if writer.kept:
        hints["streams"] = "kept"
    helper.set_model_props(model, {f"{HINT}{key}": value for key, value in hints.items()})
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _onnx_shape(edge: Edge) -> list[int]:
    if len(edge.shape) == 1:
        return list(edge.shape)
    height, width, channels = edge.shape
    return [channels, height, width]


class Writer:
    """Collects nodes and constants; ``tensor`` is what the next node reads.

    ``sources`` are what the stage reads that is being written. No number that occurs in the network
    is above ``largest``.
    """

    def __init__(self, largest: float, *, kept: bool = False) -> None:
        from onnx import TensorProto

        if largest >= 2**50:
            raise ModelRejected(
                f"its sums are too large to be exact in float64: they may reach {int(largest)}"
            )
        #: Whether the netlist is to come back with all that nothing reads.
        self.kept = kept
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.tensor = "image"
        self.sources: tuple[str, ...] = (self.tensor,)
        self.kinds = {self.tensor: "UINT8"}
        self.hints: dict[str, tuple[Any, ...]] = {}
        self.dtype = np.dtype(np.float32 if largest < 2**22 else np.float64)
        self.kind = TensorProto.FLOAT if largest < 2**22 else TensorProto.DOUBLE

    def constant(self, name: str, array: Array, kind: str | None = None) -> str:
        from onnx import numpy_helper

        values = array if array.dtype == np.int64 else array.astype(self.dtype)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        if kind is not None:
            self.kinds[name] = kind
        return name

    def node(self, name: str, op: str, *more: str, **attributes: Any) -> None:
        from onnx import helper

        domain = DOMAINS[0] if op in ("BipolarQuant", "MultiThreshold") else None
        node = helper.make_node(
            op, [self.tensor, *more], [f"{name}_out"], name=name, domain=domain, **attributes
        )
        self.nodes.append(node)
        self.tensor = f"{name}_out"

    def sign(self, name: str) -> None:
        self.node(f"{name}_sign", "BipolarQuant", self.constant(f"{name}_one", np.ones(1)))
        self.kinds[self.tensor] = "BIPOLAR"

    def integers(self, edge: Edge) -> None:
        """Say which integers the last tensor has."""
        self.kinds[self.tensor] = f"{'INT' if edge.signed else 'UINT'}{edge.bits}"

    def weights(self, name: str, weights: Array) -> str:
        values = set(np.unique(weights).tolist())
        kinds = (({-1.0, 1.0}, "BIPOLAR"), ({0.0, 1.0}, "BINARY"), ({-1.0, 0.0, 1.0}, "TERNARY"))
        kind = next((kind for allowed, kind in kinds if values <= allowed), None)
        if kind is None:
            most = int(np.abs(weights).max())
            kind = f"INT{most.bit_length() + 1}"
        return self.constant(f"{name}_weights", weights, kind)


# Operations, one function for each kind


@dataclass(frozen=True, eq=False)
class Exporting:
    """A stage that is exported, what it receives, and which channels of that are constant.

    ``signs`` tells for each source whether its tensor has bits as −1 and +1.
    """

    name: str
    operation: Any
    edges: tuple[Edge, ...]
    before: Constants
    signs: tuple[bool, ...]

    @property
    def edge(self) -> Edge:
        """What it receives first."""
        return self.edges[0]


@dataclass(frozen=True, eq=False)
class Exported:
    """How a stage is written, and a bound of the numbers that occur in it.

    ``signs``: whether it gives bits as −1 and +1; None if it does so where it receives them.
    """

    write: Callable[[Writer], None]
    largest: float = 0.0
    signs: bool | None = False


#: Exports a stage.
Export = Callable[[Exporting], Exported]

#: By the kind of an operation, the function that exports it.
EXPORTS: dict[str, Export] = {}


def exports(kind: str) -> Callable[[Export], Export]:
    """Enter a function as the export of an operation."""

    def enter(export: Export) -> Export:
        EXPORTS[kind] = export
        return export

    return enter


def _parts(network: Network) -> list[Exported]:
    from sbnn_hw.qonnx import export_layers, export_plain, export_streams  # noqa: F401 (they enter)

    parts = []
    known, signs = {INPUT: Constants.none(network.input.channels)}, {INPUT: False}
    for number, stage in enumerate(network.stages):
        operation, edges = stage.operation, network.edges_into(number)
        if operation.kind not in EXPORTS:
            raise ModelRejected(
                f"Stage {stage.name}: the operation {operation.kind!r} cannot be exported to ONNX"
            )
        before = [known[source] for source in stage.sources]
        given = tuple(signs[source] for source in stage.sources)
        known[number] = operation.constants(*before, *edges)
        place = Exporting(stage.name, operation, edges, before[0], given)
        part = EXPORTS[operation.kind](place)
        signs[number] = given[0] if part.signs is None else part.signs
        parts.append(part)
    return parts
