"""Class scores of integers: the last linear layer, by integer weights."""

from fractions import Fraction
from math import gcd, lcm

import numpy as np

from sbnn_hw.netlist import Scores
from sbnn_hw.netlist.wiring import EXACT
from sbnn_hw.qonnx.build import Build
from sbnn_hw.qonnx.conversion import to_rationals
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.streams import Stream, Wired

__all__ = ["end_with_weights"]

#: Offsets get so many more bits than weights at most.
LARGEST_SHIFT = 30


def end_with_weights(build: Build, node: Node, x: Stream) -> None:
    """Make the class scores of a stream that a linear layer gives."""
    wired = x.terms[0].source
    if len(x.terms) != 1 or x.bends or x.floored or x.chosen is not None:
        raise node.refuse("is the last and does not give scores; end with a linear layer")
    if not isinstance(wired, Wired) or wired.sums.window is not None or wired.sums.groups != 1:
        raise node.refuse("is the last and not a linear layer, whose largest output is the class")
    if x.index.shape != (x.channels,) or (x.index != np.arange(x.channels)).any():
        raise node.refuse("must give the scores as a vector, in their order")
    sums = wired.sums
    taps, weights = sums.taps, sums.weights
    if weights is None:  # a wrong hint, or binary weights
        raise node.refuse("is the last, and its weights are not integers")
    factors, offsets = (to_rationals(node, part) for part in (x.terms[0].factors, x.offset))
    products = [int(w) * factors[n] for w, n in zip(weights, taps.neurons, strict=True)]
    unit = _unit(products, offsets)
    if not unit:
        raise node.refuse("gives every class the same score")
    shift, rounded = _aligned(node, [offset / unit for offset in offsets])
    whole = [int(product / unit) << shift for product in products]
    if max(map(abs, (*whole, *rounded)), default=0) >= EXACT:
        raise node.refuse("gives scores of more than 53 bits; quantise weights and offsets")
    scores = Scores(taps=taps, offsets=np.array(rounded), weights=np.array(whole, np.int64))
    if build.kept:
        build.add("scores", scores, wired.source)
    else:
        build.assembler.weighted_scores(wired.source, "scores", scores)


def _unit(products: list[Fraction], offsets: list[Fraction]) -> Fraction:
    """Return what all products are multiples of; one, if all numbers are integers."""
    if all(number.denominator == 1 for number in (*products, *offsets)):
        return Fraction(1)
    common = lcm(*(number.denominator for number in products))
    return Fraction(gcd(*(int(number * common) for number in products)), common)


def _aligned(node: Node, offsets: list[Fraction]) -> tuple[int, list[int]]:
    """Return the least shift, and integers, that order the scores as the exact offsets do.

    The other parts of two scores differ by an integer, so that it only matters between which
    integers, or on which, the difference of their offsets lies.
    """
    if len(set(offsets)) == 1 and offsets[0].denominator != 1:
        return 0, [0] * len(offsets)  # what every class has decides nothing
    for shift in range(LARGEST_SHIFT + 1):
        rounded = [round(offset * (1 << shift)) for offset in offsets]
        if all(
            _place(a - b) == _place(Fraction(p - q, 1 << shift))
            for n, (a, p) in enumerate(zip(offsets, rounded, strict=True))
            for b, q in zip(offsets[:n], rounded[:n], strict=True)
        ):
            return shift, rounded
    raise node.refuse("adds offsets that are too fine for integer scores; round them to fewer bits")


def _place(number: Fraction) -> tuple[int, bool]:
    whole = number.numerator // number.denominator
    return whole, whole == number
