"""The one form of a network: what computes the same is described by the same bytes."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import INPUT, Edge, Layer, Network, Operation, Taps

__all__ = ["canonical", "drop_unread", "fewer_taps"]


def canonical(layer: Layer, edge: Edge, constants: npt.NDArray[np.int8]) -> Layer:
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


def drop_unread(network: Network) -> Network:
    """Strip what nothing reads, from the last stage to the first.

    Where Ξ is not zero every input counts in pc_N, so nothing is unread there.
    """
    stages = list(network.stages)
    read = [np.zeros(network.edge_from(number).shape, bool) for number in range(len(stages))]
    read[-1][:] = True
    unread: list[npt.NDArray[np.bool_]] = [np.zeros(0, bool)] * len(stages)
    left: list[Operation] = [stage.operation for stage in stages]
    for number in reversed(range(len(stages))):
        edges = network.edges_into(number)
        channels = read[number].reshape(-1, read[number].shape[-1])
        unread[number] = np.logical_not(channels.any(axis=0))
        if unread[number].any():
            left[number] = left[number].without(unread[number], *edges)
        masks = left[number].reads(read[number], *edges)
        for source, mask in zip(stages[number].sources, masks, strict=True):
            if source != INPUT:
                read[source] |= mask
    absent: dict[int, npt.NDArray[np.int64]] = {INPUT: np.zeros(0, np.int64)}
    for number, stage in enumerate(stages):
        before = tuple(absent[source] for source in stage.sources)
        absent[number] = stage.operation.absent(unread[number], before)
        stages[number] = replace(stage, operation=left[number], absent=absent[number])
    return replace(network, stages=tuple(stages))
