"""How 8-bit pixels are fed to a graph, and which comparisons of them are comparators."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from sbnn_hw.errors import ModelRejected

__all__ = ["PIXELS", "fed", "guess", "ramp", "threshold_of"]

#: Name, and what a pixel p is fed as.
PIXELS = {
    "signed": "(2p − 255)/255, from −1 to 1",
    "unit": "p/255, from 0 to 1",
    "raw": "p itself",
    "fixed": "(p − 128)/128, signed 8-bit numbers",
}


@cache
def fed(pixels: str, maximum: int = 255) -> tuple[Fraction, ...]:
    """Return the number that each pixel is fed as: a float32, as an executor is given.

    Pixels that were rounded are ``raw``, and may have another maximum.
    """
    if maximum != 255:
        return tuple(Fraction(value) for value in range(maximum + 1))
    p = np.arange(256)
    exact = {
        "signed": (2 * p - 255) / 255,
        "unit": p / 255,
        "raw": p.astype(float),
        "fixed": (p - 128) / 128,
    }[pixels]
    return tuple(Fraction(float(value)) for value in exact.astype(np.float32))


def ramp(pixels: str, maximum: int = 255) -> tuple[Fraction, Fraction]:
    """Return a and b, where a·x + b is what is fed and x = (2p − 255)/255; without rounding.

    Of pixels with another maximum, that takes the place of 255.
    """
    if maximum != 255:
        return Fraction(maximum, 2), Fraction(maximum, 2)
    return {
        "signed": (Fraction(1), Fraction(0)),
        "unit": (Fraction(1, 2), Fraction(1, 2)),
        "raw": (Fraction(255, 2), Fraction(255, 2)),
        "fixed": (Fraction(255, 256), Fraction(-1, 256)),
    }[pixels]


def guess(scale: Sequence[Fraction], offset: Sequence[Fraction]) -> str:
    """Return how pixels must be fed so that what the graph makes of them lies in [−1, 1]."""
    for name in ("signed", "unit", "raw"):
        a, b = ramp(name)
        ends = [
            (float(s * (b - a) + o), float(s * (b + a) + o))
            for s, o in zip(scale, offset, strict=True)
        ]
        if all(abs(low + 1) < 1e-5 and abs(high - 1) < 1e-5 for low, high in ends):
            return name
    choices = "; ".join(f"{name}: {text}" for name, text in PIXELS.items())
    raise ModelRejected(
        f"reads pixels p that the graph does not scale to −1…1, so it is not known how pixels are "
        f"fed; choose with --pixels ({choices})"
    )


def threshold_of(
    numbers: Sequence[Fraction], scale: Fraction, offset: Fraction, threshold: Fraction, ties: str
) -> tuple[int, bool]:
    """Return the least pixel of a comparator, and whether it must be turned round.

    The comparison is ``scale·x + offset`` with the threshold, on the numbers that are fed.
    """
    values = [scale * x + offset for x in numbers]
    if ties == "refuse" and threshold in values:
        raise ModelRejected(
            f"gives pixel {values.index(threshold)} the sign 0, which is not a bit; use "
            f"BipolarQuant"
        )
    bits = [value > threshold or (value == threshold and ties != "rest") for value in values]
    if all(bits) or not any(bits):
        raise ModelRejected(
            f"gives every pixel the same bit, {int(bits[0])}, if pixels are fed from "
            f"{float(numbers[0]):g} to {float(numbers[-1]):g}; choose another way with --pixels"
        )
    least = bits.index(not bits[0])
    return least, bits[0]
