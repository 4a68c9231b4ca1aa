"""What is constant in front of an operation goes into its own constants, and is not read."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import Affine, Constants, Edge, Encode, Scores, Sums

__all__ = ["absorb_affine", "absorb_encode", "absorb_scores", "absorb_sums"]

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def absorb_sums(sums: Sums, edge: Edge, before: Constants) -> tuple[Sums, Int]:
    """Return sums that read no constants, and what is to be added to each of them.

    A channel is constant to a window that hangs over the border only if padding holds the same.
    """
    known = before.known & _same_outside(sums, before)
    channel = sums.taps.indices % sums.channels
    dropped = known[channel]
    value = before.value[channel]
    reads = np.where(sums.taps.inverted, edge.maximum - value, value)
    factors = 1 << sums.k if sums.weights is None else sums.weights
    moved = sums.taps.per_neuron(np.where(dropped, factors * reads, 0))
    if sums.xi:
        by_group = np.where(known, before.value, 0).reshape(sums.groups, -1).sum(axis=1)
        counted = np.repeat(by_group, len(sums.taps) // sums.groups)
        moved = moved + sums.xi * sums.wiring.positions * counted
    made = replace(
        sums,
        taps=sums.taps.only(~dropped),
        weights=None if sums.weights is None else sums.weights[~dropped],
        fixed=np.flatnonzero(known) if sums.xi else sums.fixed,
    )
    return made, moved


def _same_outside(sums: Sums, before: Constants) -> Bool:
    """Tell for each channel whether padding, if there is any, holds its constant."""
    if sums.window is None or not any(sums.window.padding):
        return np.ones(sums.channels, bool)
    if sums.border == "zero":  # neither −1 nor 1 is nothing
        return np.zeros(sums.channels, bool)
    found: Bool = before.value == (0 if sums.pad is None else sums.pad)
    return found


def absorb_affine(affine: Affine, *before: Constants) -> Affine:
    """Return an affine whose constant inputs are in its offsets."""
    known = np.array([each.known for each in before])
    value = np.array([each.value for each in before])
    terms = np.where(known, affine.multipliers * value, 0)
    return replace(
        affine,
        multipliers=np.where(known, 0, affine.multipliers),
        offsets=affine.offsets + terms.sum(axis=0),
    )


def absorb_encode(encode: Encode, edge: Edge, before: Constants) -> Encode:
    """Return an encoder of thresholds within reach; bits of constants are always or never set.

    Where thresholds would decrease, they stay as they are.
    """
    thresholds = np.clip(encode.thresholds, edge.low, edge.high + 1)
    found = replace(encode, thresholds=thresholds)
    bits = found.constants(before, edge)
    known, value = (array.reshape(thresholds.shape) for array in (bits.known, bits.value))
    if not known.any():
        return found
    ends = np.where(value > 0, edge.low, edge.high + 1)
    flips = None if encode.flips is None else np.where(known, False, encode.flips)
    absorbed = np.where(known, ends, thresholds)
    return found if (np.diff(absorbed, axis=1) < 0).any() else Encode(absorbed, flips)


def absorb_scores(scores: Scores, before: Constants) -> Scores:
    """Return scores with weights whose constant inputs are in the offsets."""
    assert scores.weights is not None
    dropped = before.known[scores.taps.indices]
    terms = np.where(dropped, scores.weights * before.value[scores.taps.indices], 0)
    return replace(
        scores,
        taps=scores.taps.only(~dropped),
        weights=scores.weights[~dropped],
        offsets=scores.offsets + scores.taps.per_neuron(terms),
    )
