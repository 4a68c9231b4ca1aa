"""How layers of neurons and class scores are written: bits are −1 and +1, thresholds offsets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Edge, Layer, Window
from sbnn_hw.qonnx.export import Exported, Exporting, Writer, exports
from sbnn_hw.qonnx.export_parts import as_integers, as_signs, dense_of, pad, window_of

Array = npt.NDArray[Any]


@exports("linear")
def _linear(place: Exporting) -> Exported:
    name, layer, found = place.name, place.operation, _sum_of(place)

    def write(writer: Writer) -> None:
        as_signs(writer, place)
        writer.node(name, "MatMul", writer.weights(name, found.weights[:, 0].T))
        _close(writer, name, layer, found, ())

    return Exported(write, found.largest(place.edge), signs=True)


@exports("conv2d")
def _convolution(place: Exporting) -> Exported:
    name, conv, found = place.name, place.operation, _sum_of(place)

    def write(writer: Writer) -> None:
        as_signs(writer, place)
        window = conv.window
        if any(window.padding) and found.padding:
            pad(writer, name, window, found.padding)
            window = Window(window.kernel, window.stride)
        shaped = found.weights.reshape(len(conv.taps), *window.kernel, -1).transpose(0, 3, 1, 2)
        weights = writer.weights(name, shaped)
        writer.node(name, "Conv", weights, group=conv.groups, **window_of(window))
        _close(writer, name, conv, found, (1, 1))

    return Exported(write, found.largest(place.edge), signs=True)


@exports("scores")
def _scores(place: Exporting) -> Exported:
    name, scores, maximum = place.name, place.operation, place.edge.maximum
    if scores.weights is not None:
        return _weighted_scores(place)
    reach = (scores.taps.fan_in * maximum).max(initial=0) << (scores.shift + 1)

    def write(writer: Writer) -> None:
        as_signs(writer, place)
        signs = dense_of(scores.taps) * (-1 if scores.negative else 1)
        unit = 1 << scores.shift
        offsets = scores.offsets.astype(np.float64)
        if maximum > 1:  # p, of which the score has 2p − maximum
            offsets = offsets - signs.sum(axis=1) * float(maximum * unit)
            unit *= 2
        writer.node(name, "MatMul", writer.weights(name, signs.T * float(unit)))
        writer.node(f"{name}_offset", "Add", writer.constant(f"{name}_offsets", offsets[None]))
        writer.hints[name] = (0, scores.shift)

    return Exported(write, float(reach + np.abs(scores.offsets).max()))


def _weighted_scores(place: Exporting) -> Exported:
    name, scores = place.name, place.operation
    weights = np.zeros((len(scores.taps), scores.taps.width))
    weights[scores.taps.neurons, scores.taps.indices] = scores.weights

    def write(writer: Writer) -> None:
        as_integers(writer, place)
        writer.node(name, "MatMul", writer.weights(name, weights.T))
        offsets = scores.offsets.astype(np.float64)[None]
        writer.node(f"{name}_offset", "Add", writer.constant(f"{name}_offsets", offsets))
        writer.hints[name] = (0, 0, "weights")

    largest = scores.wiring.largest(place.edge) + int(np.abs(scores.offsets).max())
    return Exported(write, float(largest))


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
    if writer.kept:
        writer.hints[name] += ("layer", layer.fixed.tolist())


def _sum_of(place: Exporting) -> _Sum:
    """Return weights and a level that decide as a layer does, whatever border a window is at."""
    layer, edge, before = place.operation, place.edge, place.before
    neurons, groups = len(layer.taps), layer.groups
    own = np.arange(neurons) * groups // neurons
    pattern = dense_of(layer.taps).reshape(neurons, layer.positions, groups, -1)
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
