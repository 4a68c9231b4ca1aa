"""From the integer network to ONNX with QONNX's operators, so that other tools compute the same.

Bits become −1 and +1, thresholds an offset in front of a `BipolarQuant`; all numbers are integers,
halves or quarters that the graph's float type holds, so that whoever evaluates it gets every bit.
What the importer could find in two ways is said in the file's metadata.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.files import write_atomically
from sbnn_hw.netlist import (
    INPUT,
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Layer,
    Levels,
    Linear,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    Taps,
    Window,
)
from sbnn_hw.qonnx.read import DOMAINS, HINT, require_onnx

__all__ = ["export_network", "save_network"]

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
    writer = _Writer(network)
    for number, stage in enumerate(network.stages):
        writer.add(number, stage)
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


@dataclass(frozen=True, eq=False)
class _Sum:
    """A layer as real neurons: they fire iff weights·x, padding included, reaches the level.

    There is a level for each neuron, or for each place in each neuron's map.
    """

    weights: Array
    level: npt.NDArray[np.float64]
    padding: float = 0.0


class _Writer:
    def __init__(self, network: Network) -> None:
        from onnx import TensorProto

        self.network = network
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.kinds: dict[str, str] = {}
        self.hints: dict[str, tuple[int, int]] = {}
        self.tensor = "image"
        known = _constants(network)
        self.sums = {
            stage.name: _sum_of(network, number, known)
            for number, stage in enumerate(network.stages)
            if isinstance(stage.operation, Layer)
        }
        exact = max([0.0, *map(self._largest, range(len(network.stages)))])
        if exact >= 2**50:
            raise ModelRejected("its sums are too large to be exact in float64")
        self.dtype = np.dtype(np.float32 if exact < 2**22 else np.float64)
        self.kind = TensorProto.FLOAT if exact < 2**22 else TensorProto.DOUBLE
        self.kinds["image"] = "UINT8"

    def _largest(self, number: int) -> float:
        """Return a bound of the numbers that occur in a stage."""
        stage, edge = self.network.stages[number], self.network.edge_into(number)
        if isinstance(stage.operation, Scores):
            scores = stage.operation
            reach = (scores.taps.fan_in * edge.maximum).max(initial=0) << (scores.shift + 1)
            return float(reach + np.abs(scores.offsets).max())
        if stage.name not in self.sums:
            return 0.0
        found = self.sums[stage.name]
        size = np.abs(found.weights).reshape(len(found.level), -1).sum(axis=1)
        return float((2 * size * edge.maximum).max() + np.abs(found.level).max())

    # Parts

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

    # Stages

    def add(self, number: int, stage: Stage) -> None:
        edge, name, operation = self.network.edge_into(number), stage.name, stage.operation
        match operation:
            case Encode():
                self._encode(name, operation, edge)
            case Levels():
                self._levels(name, operation)
            case Flatten():
                if len(edge.shape) == 3:
                    self.node(f"{name}_last", "Transpose", perm=[0, 2, 3, 1])
                    shape = self.constant(f"{name}_shape", np.array([0, edge.size], np.int64))
                    self.node(name, "Reshape", shape)
            case MaxPool2d():
                self._pool(name, operation)
            case Linear():
                found = self.sums[name]
                weights = self._weights(name, found.weights[:, 0].T)
                self.node(name, "MatMul", weights)
                self._close(name, operation, found, ())
            case Conv2d():
                self._convolution(name, operation, edge)
            case Scores():
                self._scores(name, operation, edge)

    def _encode(self, name: str, encoder: Encode, edge: Edge) -> None:
        channels, planes = encoder.thresholds.shape
        if planes > 1:
            repeat = np.repeat(np.arange(channels), planes)
            self.node(f"{name}_repeat", "Gather", self.constant(f"{name}_of", repeat), axis=1)
        around = (1, 1) if len(edge.shape) == 3 else ()
        levels = (encoder.thresholds - 0.5).reshape(1, -1, *around)
        self.node(name, "Sub", self.constant(f"{name}_levels", levels))
        self.sign(name)

    def _levels(self, name: str, levels: Levels) -> None:
        # The pixel from which on each level is reached.
        steps = np.searchsorted(levels.table, np.arange(1, levels.table[-1] + 1))
        kind = f"UINT{int(levels.table[-1]).bit_length()}"
        thresholds = self.constant(f"{name}_steps", steps[None].astype(np.float64), "UINT8")
        self.node(name, "MultiThreshold", thresholds, out_dtype=kind)
        self.kinds[self.tensor] = kind

    def _pool(self, name: str, pool: MaxPool2d) -> None:
        signs = np.where(pool.all_of, -1.0, 1.0).reshape(1, -1, 1, 1)
        turned = pool.all_of.any()
        if turned:
            self.node(f"{name}_turn", "Mul", self.constant(f"{name}_signs", signs))
        self.node(name, "MaxPool", **_window(pool.window))
        if turned:
            self.node(f"{name}_back", "Mul", f"{name}_signs")

    def _weights(self, name: str, weights: Array) -> str:
        values = set(np.unique(weights).tolist())
        kinds = (({-1.0, 1.0}, "BIPOLAR"), ({0.0, 1.0}, "BINARY"), ({-1.0, 0.0, 1.0}, "TERNARY"))
        kind = next((kind for allowed, kind in kinds if values <= allowed), None)
        if kind is None:
            most = int(np.abs(weights).max())
            kind = f"INT{most.bit_length() + 1}"
        return self.constant(f"{name}_weights", weights, kind)

    def _convolution(self, name: str, conv: Conv2d, edge: Edge) -> None:
        found = self.sums[name]
        window = conv.window
        if any(window.padding) and found.padding:
            rows, columns = window.padding
            pads = self.constant(
                f"{name}_pads", np.array([0, 0, rows, columns, 0, 0, rows, columns], np.int64)
            )
            value = self.constant(f"{name}_border", np.array(found.padding))
            self.node(f"{name}_pad", "Pad", pads, value, mode="constant")
            window = Window(window.kernel, window.stride)
        shaped = found.weights.reshape(len(conv.taps), *window.kernel, -1).transpose(0, 3, 1, 2)
        weights = self._weights(name, shaped)
        self.node(name, "Conv", weights, group=conv.groups, **_window(window))
        self._close(name, conv, found, (1, 1))

    def _close(self, name: str, layer: Layer, found: _Sum, around: tuple[int, ...]) -> None:
        level = found.level.reshape(1, -1, *around) if found.level.ndim == 1 else found.level[None]
        self.node(f"{name}_level", "Sub", self.constant(f"{name}_levels", level))
        if layer.flips.any():
            signs = np.where(layer.flips, -1.0, 1.0).reshape(1, -1, *around)
            self.node(f"{name}_turn", "Mul", self.constant(f"{name}_signs", signs))
        self.sign(name)
        self.hints[name] = (layer.xi, layer.k)

    def _scores(self, name: str, scores: Scores, edge: Edge) -> None:
        signs = _dense(scores.taps) * (-1 if scores.negative else 1)
        unit = 1 << scores.shift
        offsets = scores.offsets.astype(np.float64)
        if edge.maximum > 1:  # p, of which the score has 2p − maximum
            offsets = offsets - signs.sum(axis=1) * float(edge.maximum * unit)
            unit *= 2
        self.node(name, "MatMul", self._weights(name, signs.T * float(unit)))
        self.node(f"{name}_offset", "Add", self.constant(f"{name}_offsets", offsets[None]))
        self.hints[name] = (0, scores.shift)


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


def _constants(network: Network) -> list[Array]:
    """Return for each stage the bit that each of its channels always has, or −1."""
    found: list[Array] = []
    for number, stage in enumerate(network.stages):
        edge, source = network.edge_into(number), stage.sources[0]
        before = found[source] if source != INPUT else np.full(edge.channels, -1)
        match stage.operation:
            case Layer() as layer:
                low, high = layer.reach(edge)
                always = (layer.thresholds <= low).all(axis=0)
                never = (layer.thresholds > high).all(axis=0)
                bits = np.where(always, 1, 0) ^ layer.flips
                found.append(np.where(always | never, bits, -1))
            case MaxPool2d():
                found.append(before)
            case Flatten():
                found.append(np.tile(before, edge.size // edge.channels))
            case _:
                found.append(np.full(network.edge_from(number).channels, -1))
    return found


def _sum_of(network: Network, number: int, known_bits: list[Array]) -> _Sum:
    """Return weights and a level that decide as a layer does, whatever border a window is at."""
    stage, edge = network.stages[number], network.edge_into(number)
    layer = stage.operation
    assert isinstance(layer, Layer)
    pattern = _dense(layer.taps)
    groups = layer.groups if isinstance(layer, Conv2d) else 1
    channels = edge.channels
    if isinstance(layer, Conv2d):
        pattern = pattern.reshape(len(layer.taps), layer.window.size, groups, -1)
        own = np.arange(len(layer.taps)) * groups // len(layer.taps)
        pattern = pattern[np.arange(len(layer.taps)), :, own]
        valid = layer.borders(edge).valid
    else:
        pattern = pattern[:, None, :]
        valid = np.ones((1, 1), bool)
    weights = pattern * 2.0**layer.k + layer.xi
    # What is constant is not in the thresholds; here it is an input as any other.
    ones = np.zeros(channels)
    source = stage.sources[0]
    if len(layer.fixed):
        before = known_bits[source] if source != INPUT else np.full(channels, -1)
        padded = isinstance(layer, Conv2d) and layer.border == "minus" and any(layer.window.padding)
        if (before[layer.fixed] < 0).any() or (padded and (before[layer.fixed] > 0).any()):
            raise ModelRejected(
                f"Stage {stage.name} does not count some inputs that are not constant, which ONNX "
                f"has no weights for; fold the model again"
            )
        ones[layer.fixed] = before[layer.fixed]
    known = ones.reshape(groups, -1).sum(axis=1)[
        np.arange(len(layer.taps)) * groups // len(layer.taps)
    ]
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
    padded = isinstance(layer, Conv2d) and any(layer.window.padding)
    if padded and isinstance(layer, Conv2d) and layer.border == "zero":
        # What means nothing, or one; the bit 0 and pixel 0 would be a border of minus.
        options = (0.0, 1.0) if edge.bits == 1 else (edge.maximum / 2, float(edge.maximum))
    for padding in options:
        top, bottom = (low + padding * margins).max(axis=0), (high + padding * margins).min(axis=0)
        if (top < bottom).all():
            return _Sum(weights, _between(top, bottom), padding if padded else 0.0)
    # Constant inputs that were folded away count differently at each border.
    assert isinstance(layer, Conv2d)
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
    at = layer.taps.of(neuron)
    if isinstance(layer, Conv2d):
        valid = layer.borders(edge).valid[row]
        position = layer.taps.indices[at] // layer.channels
        tapped = int(valid[position].sum())
        per_group = layer.channels // layer.groups
        group = neuron * layer.groups // len(layer.taps)
        fixed = int((layer.fixed // per_group == group).sum())
        counted = int(valid.sum()) * (per_group - fixed)
    else:
        tapped, counted = at.stop - at.start, layer.taps.width - len(layer.fixed)
    return tapped * edge.maximum, (counted - tapped) * edge.maximum
