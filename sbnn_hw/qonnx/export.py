"""From the integer network to ONNX with QONNX's operators, so that other tools compute the same.

Bits become −1 and +1, thresholds an offset in front of a `BipolarQuant`; all numbers are integers,
halves or quarters that the graph's float type holds, so that whoever evaluates it gets every bit.
What the importer could find in two ways is said in the file's metadata.
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
from sbnn_hw.netlist import INPUT, Constants, Edge, Layer, Network, Taps, Window
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
    writer = Writer(max(part.largest for part in parts))
    tensors = {INPUT: writer.tensor}
    for number, (stage, part) in enumerate(zip(network.stages, parts, strict=True)):
        writer.tensor = tensors[stage.sources[0]]
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

    No number that occurs in the network is above ``largest``.
    """

    def __init__(self, largest: float) -> None:
        from onnx import TensorProto

        if largest >= 2**50:
            raise ModelRejected("its sums are too large to be exact in float64")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.tensor = "image"
        self.kinds = {self.tensor: "UINT8"}
        self.hints: dict[str, tuple[int, int]] = {}
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
    """A stage that is exported, what it receives, and which channels of that are constant."""

    name: str
    operation: Any
    edge: Edge
    before: Constants


@dataclass(frozen=True, eq=False)
class Exported:
    """How a stage is written, and a bound of the numbers that occur in it."""

    write: Callable[[Writer], None]
    largest: float = 0.0


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
    parts = []
    known = {INPUT: Constants.none(network.input.channels)}
    for number, stage in enumerate(network.stages):
        operation, edges = stage.operation, network.edges_into(number)
        if operation.kind not in EXPORTS:
            raise ModelRejected(
                f"Stage {stage.name}: the operation {operation.kind!r} cannot be exported to ONNX"
            )
        if operation.needs(*edges) > 1:
            raise ModelRejected(
                f"Stage {stage.name}: the operation {operation.kind!r} on integer streams cannot "
                f"be exported to ONNX"
            )
        before = [known[source] for source in stage.sources]
        known[number] = operation.constants(*before, *edges)
        parts.append(EXPORTS[operation.kind](Exporting(stage.name, operation, edges[0], before[0])))
    return parts


@exports("encode")
def _encode(place: Exporting) -> Exported:
    name, thresholds = place.name, place.operation.thresholds

    def write(writer: Writer) -> None:
        channels, planes = thresholds.shape
        if planes > 1:
            repeat = writer.constant(f"{name}_of", np.repeat(np.arange(channels), planes))
            writer.node(f"{name}_repeat", "Gather", repeat, axis=1)
        around = (1, 1) if len(place.edge.shape) == 3 else ()
        levels = (thresholds - 0.5).reshape(1, -1, *around)
        writer.node(name, "Sub", writer.constant(f"{name}_levels", levels))
        writer.sign(name)

    return Exported(write)


@exports("levels")
def _levels(place: Exporting) -> Exported:
    name, table = place.name, place.operation.table

    def write(writer: Writer) -> None:
        # The pixel from which on each level is reached.
        steps = np.searchsorted(table, np.arange(1, table[-1] + 1))
        kind = f"UINT{int(table[-1]).bit_length()}"
        thresholds = writer.constant(f"{name}_steps", steps[None].astype(np.float64), "UINT8")
        writer.node(name, "MultiThreshold", thresholds, out_dtype=kind)
        writer.kinds[writer.tensor] = kind

    return Exported(write)


@exports("flatten")
def _flatten(place: Exporting) -> Exported:
    name, edge = place.name, place.edge

    def write(writer: Writer) -> None:
        if len(edge.shape) == 3:
            writer.node(f"{name}_last", "Transpose", perm=[0, 2, 3, 1])
            shape = writer.constant(f"{name}_shape", np.array([0, edge.size], np.int64))
            writer.node(name, "Reshape", shape)

    return Exported(write)


@exports("max_pool2d")
def _pool(place: Exporting) -> Exported:
    name, pool = place.name, place.operation

    def write(writer: Writer) -> None:
        signs = np.where(pool.all_of, -1.0, 1.0).reshape(1, -1, 1, 1)
        turned = pool.all_of.any()
        if turned:
            writer.node(f"{name}_turn", "Mul", writer.constant(f"{name}_signs", signs))
        writer.node(name, "MaxPool", **_window(pool.window))
        if turned:
            writer.node(f"{name}_back", "Mul", f"{name}_signs")

    return Exported(write)


@exports("linear")
def _linear(place: Exporting) -> Exported:
    name, layer, found = place.name, place.operation, _sum_of(place)

    def write(writer: Writer) -> None:
        writer.node(name, "MatMul", writer.weights(name, found.weights[:, 0].T))
        _close(writer, name, layer, found, ())

    return Exported(write, found.largest(place.edge))


@exports("conv2d")
def _convolution(place: Exporting) -> Exported:
    name, conv, found = place.name, place.operation, _sum_of(place)

    def write(writer: Writer) -> None:
        window = conv.window
        if any(window.padding) and found.padding:
            rows, columns = window.padding
            pads = writer.constant(
                f"{name}_pads", np.array([0, 0, rows, columns, 0, 0, rows, columns], np.int64)
            )
            value = writer.constant(f"{name}_border", np.array(found.padding))
            writer.node(f"{name}_pad", "Pad", pads, value, mode="constant")
            window = Window(window.kernel, window.stride)
        shaped = found.weights.reshape(len(conv.taps), *window.kernel, -1).transpose(0, 3, 1, 2)
        weights = writer.weights(name, shaped)
        writer.node(name, "Conv", weights, group=conv.groups, **_window(window))
        _close(writer, name, conv, found, (1, 1))

    return Exported(write, found.largest(place.edge))


@exports("scores")
def _scores(place: Exporting) -> Exported:
    name, scores, maximum = place.name, place.operation, place.edge.maximum
    reach = (scores.taps.fan_in * maximum).max(initial=0) << (scores.shift + 1)

    def write(writer: Writer) -> None:
        signs = _dense(scores.taps) * (-1 if scores.negative else 1)
        unit = 1 << scores.shift
        offsets = scores.offsets.astype(np.float64)
        if maximum > 1:  # p, of which the score has 2p − maximum
            offsets = offsets - signs.sum(axis=1) * float(maximum * unit)
            unit *= 2
        writer.node(name, "MatMul", writer.weights(name, signs.T * float(unit)))
        writer.node(f"{name}_offset", "Add", writer.constant(f"{name}_offsets", offsets[None]))
        writer.hints[name] = (0, scores.shift)

    return Exported(write, float(reach + np.abs(scores.offsets).max()))


def _window(window: Window) -> dict[str, Any]:
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "pads": [*window.padding, *window.padding],
    }


def _dense(taps: Taps) -> npt.NDArray[np.float64]:
    dense = np.zeros((len(taps), taps.width))
    dense[taps.neurons, taps.indices] = np.where(taps.inverted, -1.0, 1.0)
    return dense


# Layers as real neurons


@dataclass(frozen=True, eq=False)
class _Sum:
    """A layer as real neurons: they fire iff weights·x, padding included, reaches the level.

    There is a level for each neuron, or for each place in each neuron's map.
    """

    weights: Array
    level: npt.NDArray[np.float64]
    padding: float = 0.0

    def largest(self, edge: Edge) -> float:
        """Return a bound of the numbers that occur."""
        size = np.abs(self.weights).reshape(len(self.level), -1).sum(axis=1)
        return float((2 * size * edge.maximum).max() + np.abs(self.level).max())


def _close(writer: Writer, name: str, layer: Layer, found: _Sum, around: tuple[int, ...]) -> None:
    """Write the comparison of sums with their level."""
    level = found.level.reshape(1, -1, *around) if found.level.ndim == 1 else found.level[None]
    writer.node(f"{name}_level", "Sub", writer.constant(f"{name}_levels", level))
    if layer.flips.any():
        signs = np.where(layer.flips, -1.0, 1.0).reshape(1, -1, *around)
        writer.node(f"{name}_turn", "Mul", writer.constant(f"{name}_signs", signs))
    writer.sign(name)
    writer.hints[name] = (layer.xi, layer.k)


def _sum_of(place: Exporting) -> _Sum:
    """Return weights and a level that decide as a layer does, whatever border a window is at."""
    layer, edge, before = place.operation, place.edge, place.before
    neurons, groups = len(layer.taps), layer.groups
    own = np.arange(neurons) * groups // neurons
    pattern = _dense(layer.taps).reshape(neurons, layer.positions, groups, -1)
    pattern = pattern[np.arange(neurons), :, own]
    valid = layer.borders(edge).valid
    weights = pattern * 2.0**layer.k + layer.xi
    # What is constant is not in the thresholds; here it is an input as any other.
    ones = np.zeros(edge.channels)
    ones[layer.fixed] = before.value[layer.fixed]
    if not before.known[layer.fixed].all() or (layer.pads_zeros and ones.any()):
        raise ModelRejected(
            f"Stage {place.name} does not count some inputs that are not constant, which ONNX "
            f"has no weights for; fold the model again"
        )
    known = ones.reshape(groups, -1).sum(axis=1)[own]
    places = valid.sum(axis=1)[:, None]
    reached = layer.thresholds + layer.xi * places * known
    below = _greatest_below(layer, edge) + layer.xi * places * known
    # 2^k·pc_S + Ξ·pc_N as a sum of what is fed: −1 and +1, or the pixels themselves.
    inverted = np.where(pattern < 0, 1.0, 0.0)
    outside = np.array([inverted[:, ~mask].sum(axis=(1, 2)) for mask in valid]) * edge.maximum
    inside = np.array([inverted[:, mask].sum(axis=(1, 2)) for mask in valid]) * edge.maximum
    totals = np.array([weights[:, mask].sum(axis=(1, 2)) for mask in valid])
    margins = np.array([weights[:, ~mask].sum(axis=(1, 2)) for mask in valid])
    low, high = (side - outside - inside for side in (below, reached))
    if edge.bits == 1:
        low, high = 2 * low - totals, 2 * high - totals
    options: tuple[float, ...] = (-1.0,) if edge.bits == 1 else (0.0,)
    hangs_over = not valid.all()
    padded = hangs_over or layer.pads_zeros
    if hangs_over:
        # What means nothing, or one; the bit 0 and pixel 0 would be a border of minus.
        options = (0.0, 1.0) if edge.bits == 1 else (edge.maximum / 2, float(edge.maximum))
    for padding in options:
        top, bottom = (low + padding * margins).max(axis=0), (high + padding * margins).min(axis=0)
        if (top < bottom).all():
            return _Sum(weights, _between(top, bottom), padding if padded else 0.0)
    # Constant inputs that were folded away count differently at each border.
    shift = options[0] * margins
    levels = _between(low + shift, high + shift)[layer.borders(edge).of]
    return _Sum(weights, levels.transpose(2, 0, 1), options[0])


def _between(top: Array, bottom: Array) -> npt.NDArray[np.float64]:
    """Return a number above ``top``, at most ``bottom``; either may be infinite."""
    top = np.where(np.isfinite(top), top, np.where(np.isfinite(bottom), bottom - 1, -1.0))
    bottom = np.where(np.isfinite(bottom), bottom, top + 1)
    level: npt.NDArray[np.float64] = (top + np.minimum(bottom, top + 1)) / 2
    return level


def _greatest_below(layer: Layer, edge: Edge) -> npt.NDArray[np.float64]:
    """Return for each class and neuron the greatest value that stays below the threshold."""
    low, high = layer.reach(edge)
    thresholds = layer.thresholds
    if not layer.xi:
        below = (thresholds - 1).astype(np.float64)
        return np.where(thresholds <= low, -np.inf, np.minimum(below, high))
    result = np.full(thresholds.shape, -np.inf)
    per_tap = 2**layer.k + layer.xi
    for (row, neuron), threshold in np.ndenumerate(thresholds):
        tapped, others = _ranges(layer, edge, row, neuron)
        a = np.arange(tapped + 1, dtype=np.int64) * per_tap
        # The b that brings a row's value just below the threshold.
        if layer.xi > 0:
            b = np.minimum((threshold - 1 - a) // layer.xi, others)
        else:
            b = np.maximum(-((threshold - 1 - a) // -layer.xi), 0)
        fits = (b >= 0) & (b <= others)
        if fits.any():
            result[row, neuron] = (a + layer.xi * b)[fits].max()
    return result


def _ranges(layer: Layer, edge: Edge, row: int, neuron: int) -> tuple[int, int]:
    """Return how large pc_S and pc_N − pc_S can be."""
    valid = layer.borders(edge).valid[row]
    position = layer.taps.indices[layer.taps.of(neuron)] // layer.channels
    tapped = int(valid[position].sum())
    per_group = layer.channels // layer.groups
    group = neuron * layer.groups // len(layer.taps)
    fixed = int((layer.fixed // per_group == group).sum())
    counted = int(valid.sum()) * (per_group - fixed)
    return tapped * edge.maximum, (counted - tapped) * edge.maximum
