"""Sums with a threshold are neurons: what they compare is brought back to their taps."""

from dataclasses import replace

import numpy as np

from sbnn_hw.netlist.affine import Affine
from sbnn_hw.netlist.conv import Conv2d
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.encode import Encode
from sbnn_hw.netlist.layer import Int, Layer
from sbnn_hw.netlist.layer_form import canonical_layer
from sbnn_hw.netlist.linear import Linear
from sbnn_hw.netlist.operation import Mask
from sbnn_hw.netlist.sums import Sums

__all__ = ["neurons_of"]

# Values of all neurons' taps, at all borders, that are gone through.
_MOST = 1 << 28


def neurons_of(sums: Sums, affine: Affine | None, encode: Encode, edge: Edge) -> Layer | None:
    """Return the layer that computes the bits of sums; None if none does.

    A layer has neither weights nor signed inputs, its padding is 0, and each of its neurons has one
    threshold, so that the bit may change only once as the sum grows. With Ξ, the values that a
    neuron's taps add up to are gone through, so that there must not be too many of them.
    """
    if sums.weights is not None or sums.pad is not None or edge.signed:
        return None
    if encode.thresholds.shape[1] != 1:
        return None
    if affine is not None and affine.slopes is not None and (affine.slopes < 0).any():
        return None
    count = len(sums.taps)
    draft = _layer(sums, np.zeros((1, count), np.int64), np.zeros(count, bool))
    classes = len(draft.borders(edge))
    draft = replace(draft, thresholds=np.zeros((classes, count), np.int64))
    if sums.xi and classes * _values(sums, edge) > _MOST:
        return None
    low, high = draft.reach(edge)
    base, always = _borders(sums, draft, edge)
    thresholds = np.zeros((classes, count), np.int64)
    flips = np.zeros(count, bool)
    constants = np.full(count, -1, np.int8)
    for neuron in range(count):
        threshold = int(encode.thresholds[neuron, 0])
        flip = encode.flips is not None and bool(encode.flips[neuron, 0])
        from_, falls = _sum_from(affine, neuron, threshold)
        if isinstance(from_, bool):
            constants[neuron] = from_ ^ flip
            continue
        for border in range(classes):
            at = from_
            if sums.border == "zero":
                # The sum is twice what a layer compares, less what it would be without any bit.
                at = -(-(from_ + int(base[border, neuron])) // 2) + int(always[border, neuron])
            least, most = int(low[border, neuron]), int(high[border, neuron])
            thresholds[border, neuron] = min(max(at, least), most + 1)
        flips[neuron] = flip ^ falls
    fires = (thresholds <= low).all(axis=0)
    rests = (thresholds > high).all(axis=0)
    varies = constants < 0
    constants[varies & fires] = 1 ^ flips[varies & fires]
    constants[varies & rests] = flips[varies & rests]
    gone = constants >= 0
    layer = replace(draft, taps=sums.taps.only(~gone[sums.taps.neurons]), flips=flips & ~gone)
    layer = replace(layer, thresholds=_occurring(layer, edge, thresholds, ~gone))
    return canonical_layer(layer, edge, constants)


def _values(sums: Sums, edge: Edge) -> int:
    """Return how many values the taps of all neurons can add up to."""
    return len(sums.taps.indices) * edge.maximum + len(sums.taps)


def _layer(sums: Sums, thresholds: Int, flips: Mask) -> Layer:
    fields = {name: getattr(sums, name) for name in ("taps", "xi", "k", "fixed")}
    fields |= {"thresholds": thresholds, "flips": flips}
    if sums.window is None:
        return Linear(**fields)
    return Conv2d(
        **fields,
        channels=sums.channels,
        window=sums.window,
        groups=sums.groups,
        border=sums.border,
    )


def _sum_from(affine: Affine | None, channel: int, threshold: int) -> tuple[int | bool, bool]:
    """Return the sum from which a value reaches its threshold, and whether it does so below it.

    A constant has True or False in the place of the sum. In Python's integers.
    """
    if affine is None:
        return threshold, False
    if threshold <= affine.low or threshold > affine.high:
        return threshold <= affine.low, False
    wanted = threshold << affine.shift
    if affine.slopes is not None and affine.offsets_behind is not None:
        slope = int(affine.slopes[channel])
        wanted = (wanted << affine.slope_shift) - int(affine.offsets_behind[channel])
        if wanted > 0:
            wanted = -(-wanted >> affine.slope_shift)
        elif slope:
            wanted = -(-wanted // slope)
        else:  # t·0 is as large as t·2^h at zero
            return True, False
    factor = int(affine.multipliers[0, channel])
    wanted -= int(affine.offsets[channel])
    if not factor:
        return wanted <= 0, False
    if factor > 0:
        return -(-wanted // factor), False
    return wanted // factor + 1, True


def _borders(sums: Sums, layer: Layer, edge: Edge) -> tuple[Int, Int]:
    """Return, for each class and neuron, 2^k·|S| + Ξ·N inside the map, and what padding adds."""
    valid, taps = layer.borders(edge).valid, sums.taps
    position = (taps.indices // sums.channels).astype(np.int64)
    per_group = sums.channels // sums.groups
    counted = per_group - np.bincount(sums.fixed // per_group, minlength=sums.groups)
    inputs = np.repeat(counted, len(taps) // sums.groups) * valid.sum(axis=1)[:, None]
    inside = np.array([taps.per_neuron(mask[position]) for mask in valid])
    outside = np.array([taps.per_neuron(~mask[position] & taps.inverted) for mask in valid])
    return (inside << sums.k) + sums.xi * inputs, outside << sums.k


def _occurring(layer: Layer, edge: Edge, thresholds: Int, which: Mask) -> Int:
    """Return thresholds that are values which occur, or one above the greatest of them."""
    if not layer.xi:
        return thresholds  # every value between the ends occurs
    low, high = layer.reach(edge)
    found = thresholds.copy()
    valid = layer.borders(edge).valid
    position = (layer.taps.indices // layer.channels).astype(np.int64)
    per_group = layer.channels // layer.groups
    counted = per_group - np.bincount(layer.fixed // per_group, minlength=layer.groups)
    for border, mask in enumerate(valid):
        tapped = layer.taps.per_neuron(mask[position])
        inputs = np.repeat(counted, len(layer.taps) // layer.groups) * mask.sum()
        for neuron in np.flatnonzero(which).tolist():
            at = int(thresholds[border, neuron])
            if low[border, neuron] < at <= high[border, neuron]:
                others = int(inputs[neuron] - tapped[neuron]) * edge.maximum
                own = np.arange(int(tapped[neuron]) * edge.maximum + 1) * (2**layer.k + layer.xi)
                found[border, neuron] = _least_from(at, own, layer.xi, others)
    return found


def _least_from(at: int, own: Int, xi: int, most: int) -> int:
    """Return the least of own + Ξ·j, 0 ≤ j ≤ most, that is not below a number."""
    if xi > 0:
        steps = np.maximum(-((own - at) // xi), 0)
        right = steps <= most
    else:
        steps = np.minimum((own - at) // -xi, most)
        right = steps >= 0
    return int((own + xi * steps)[right].min())
