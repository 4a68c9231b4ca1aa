"""The one form of a layer: neurons that are the same, said otherwise, have the same taps."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.layer import Layer
from sbnn_hw.netlist.taps import Taps

__all__ = ["canonical_layer", "fewer_taps"]


def canonical_layer(layer: Layer, edge: Edge, constants: npt.NDArray[np.int8]) -> Layer:
    """Return the one form of a layer: constants at the end of their range, few inversions."""
    low, high = layer.reach(edge)
    thresholds = np.where(constants == 1, low, np.where(constants == 0, high + 1, layer.thresholds))
    taps, flips = layer.taps, layer.flips.copy()
    if taps.inverted.any():
        # A neuron and the complement of one with all taps inverted are the same; keep the one
        # with fewer inversions, or with a first tap that is not inverted.
        count, fan_in = taps.per_neuron(taps.inverted), taps.fan_in
        first = np.zeros(len(taps), bool)
        wired = fan_in > 0
        first[wired] = taps.inverted[taps.starts[:-1][wired]]
        turn = (2 * count > fan_in) | ((2 * count == fan_in) & first)
        inverted = taps.inverted ^ turn[taps.neurons]
        taps = Taps(taps.width, taps.starts, taps.indices, inverted)
        thresholds = np.where(turn, fan_in * edge.maximum - thresholds + 1, thresholds)
        flips ^= turn
    if (layer.xi, layer.k) == (-1, 1):
        return fewer_taps(replace(layer, thresholds=thresholds), edge, constants)
    return replace(layer, taps=taps, thresholds=thresholds, flips=flips)


def fewer_taps(layer: Layer, edge: Edge, constants: npt.NDArray[np.int8]) -> Layer:
    """Where ξ is −1/2, tap what a neuron has not tapped if that is fewer.

    2·pc_S − pc_N changes its sign when S is exchanged for all the other inputs.
    """
    taps, neurons = layer.taps, len(layer.taps)
    channels, groups, positions = layer.channels, layer.groups, layer.positions
    counted = np.ones(channels, bool)
    counted[layer.fixed] = False
    member = counted.reshape(groups, -1)
    # Which inputs each group counts, in the order of taps: position, then channel.
    places = np.zeros((groups, positions, groups, channels // groups), bool)
    places[np.arange(groups), :, np.arange(groups)] = member[:, None]
    own = places.reshape(groups, positions * channels)
    size = own.sum(axis=1)[np.arange(neurons) * groups // neurons]
    fan_in = taps.fan_in
    first = np.zeros(neurons, np.int64)
    wired = fan_in > 0
    first[wired] = taps.indices[taps.starts[:-1][wired]]
    leading = own.argmax(axis=1)[np.arange(neurons) * groups // neurons]
    turn = (2 * fan_in > size) | ((2 * fan_in == size) & (first != leading))
    turn &= (constants < 0) & wired
    if not turn.any():
        return layer
    parts = []
    for neuron in range(neurons):
        indices = taps.indices[taps.of(neuron)]
        if turn[neuron]:
            mask = own[neuron * groups // neurons].copy()
            mask[indices] = False
            indices = np.flatnonzero(mask).astype(np.uint32)
        parts.append(indices)
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    joined = np.concatenate(parts)
    return replace(
        layer,
        taps=Taps(taps.width, starts, joined, np.zeros(len(joined), bool)),
        thresholds=np.where(turn, 1 - layer.thresholds, layer.thresholds),
        flips=layer.flips ^ turn,
    )
