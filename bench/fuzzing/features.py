"""What a network has that hardware has to get right, seen in the network itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine import Folded
from sbnn_hw.netlist import (
    Affine,
    Conv2d,
    Edge,
    Encode,
    Linear,
    MaxPool2d,
    Network,
    Scores,
    Sums,
)
from sbnn_hw.netlist.layer import Layer

__all__ = ["FEATURES", "features_of", "folded_features"]

#: All that a run of some length must hit, in the order of the table.
FEATURES = (
    "inverted taps", "flips", *(f"ξ ≠ 0, k = {k}" for k in range(9)), "fixed inputs",
    "thermometer", "thresholds a channel", "flipped encoder bits",
    *(f"integers of {bits} bits" for bits in range(2, 9)), "neurons without taps",
    "neurons that never change", "thresholds at the low end", "thresholds at the high end",
    "more than 100 inputs", "more than 100 neurons", "one input", "one neuron", "no hidden layer",
    "one class", "ties between classes", "negative scores", "score shift", "weighted scores",
    "window with padding", "window with stride", "groups", "zero border", "pool of integers",
    "all-of pool", "two sources", "slopes",
    "escape codes", "two headers or more", "end of a network", "lanes without a neuron",
)  # fmt: skip


def features_of(network: Network, scores: npt.NDArray[Any]) -> set[str]:
    """Return the features of a network that gave some scores."""
    found = set[str]()
    hidden = False
    for number, stage in enumerate(network.stages):
        operation, edges = stage.operation, network.edges_into(number)
        if isinstance(operation, Encode):
            found |= set(_encoder(operation))
        if isinstance(operation, Linear | Conv2d | Sums | Scores):
            found |= set(_tapped(operation, edges[0]))
        if isinstance(operation, Layer):
            hidden = True
            found |= set(_neurons(operation, edges[0]))
        if isinstance(operation, Scores):
            found |= set(_scores(operation))
        if isinstance(operation, MaxPool2d):
            found |= {"all-of pool"} if operation.all_of.any() else set()
            found |= set() if edges[0].binary else {"pool of integers"}
        if isinstance(operation, Affine) and operation.slopes is not None:
            found.add("slopes")
        if len(set(stage.sources)) > 1:
            found.add("two sources")
        window = getattr(operation, "window", None)
        if window is not None:
            found |= {"window with padding"} if any(window.padding) else set()
            found |= {"window with stride"} if max(window.stride) > 1 else set()
    if not hidden:
        found.add("no hidden layer")
    if ((scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1).any():
        found.add("ties between classes")
    return found


def folded_features(folded: Folded) -> set[str]:
    """Return the features of a network in an engine."""
    shape, program = folded.shape, folded.program
    found = {f"{shape.lanes} lanes"}
    if shape.header_words > 1:
        found.add("two headers or more")
    if folded.first:
        found.add("end of a network")
    if any((order < 0).any() for order in program.orders):
        found.add("lanes without a neuron")
    reach = (1 << shape.gap_bits) - 1
    for layer in folded.chain.layers if shape.form == "gaps" else ():
        starts, indices = layer.taps.starts, layer.taps.indices.astype(np.int64)
        steps = np.diff(indices, prepend=-1)
        firsts = starts[:-1][layer.taps.fan_in > 0]
        steps[firsts] = indices[firsts] + 1
        if layer is folded.chain.layers[0] and (steps > reach).any():
            found.add("escape codes")
    return found


def _encoder(encoder: Encode) -> Iterator[str]:
    if encoder.thresholds.shape[1] > 1:
        yield "thermometer"
    if (encoder.thresholds != encoder.thresholds[:1]).any():
        yield "thresholds a channel"
    if encoder.flips is not None:
        yield "flipped encoder bits"


def _tapped(layer: Linear | Conv2d | Sums | Scores, edge: Edge) -> Iterator[str]:
    taps = layer.taps
    if taps.inverted.any():
        yield "inverted taps"
    if layer.xi:
        yield f"ξ ≠ 0, k = {layer.k}"
    if layer.xi and layer.wiring.fixed.size:
        yield "fixed inputs"
    if not edge.binary and not edge.signed and edge.bits <= 8:
        yield f"integers of {edge.bits} bits"
    if (taps.fan_in == 0).any():
        yield "neurons without taps"
    if taps.width > 100:
        yield "more than 100 inputs"
    if taps.width == 1:
        yield "one input"
    if layer.groups > 1:
        yield "groups"
    if getattr(layer, "border", "") == "zero" and any(layer.window.padding):  # type: ignore[union-attr]
        yield "zero border"


def _neurons(layer: Layer, edge: Edge) -> Iterator[str]:
    low, high = layer.reach(edge)
    if layer.flips.any():
        yield "flips"
    if ((layer.thresholds <= low) | (layer.thresholds > high)).any():
        yield "neurons that never change"
    if ((layer.thresholds == low + 1) & (high > low)).any():
        yield "thresholds at the low end"
    if ((layer.thresholds == high) & (high > low)).any():
        yield "thresholds at the high end"
    if len(layer.taps) > 100:
        yield "more than 100 neurons"
    if len(layer.taps) == 1:
        yield "one neuron"


def _scores(layer: Scores) -> Iterator[str]:
    if len(layer.taps) == 1:
        yield "one class"
    if layer.negative:
        yield "negative scores"
    if layer.shift:
        yield "score shift"
    if layer.weights is not None:
        yield "weighted scores"
