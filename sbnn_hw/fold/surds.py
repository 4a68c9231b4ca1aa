"""Exact numbers with square roots: what batch norms make of rationals."""

from collections.abc import Iterable
from fractions import Fraction
from math import isqrt

from sbnn_hw.errors import ModelRejected

__all__ = ["Surd"]

# Bits to which roots are computed first, and at most: numbers that differ do so long before.
_BITS, _MOST_BITS = 96, 1 << 16


class Surd:
    """A sum of rationals times roots of integers, such as 1/2 − 3·√5.

    No two of the integers have a product that is a square. Their roots are then independent, so
    that the number is zero only if it has no parts, and a sign is found by enough digits.
    """

    __slots__ = ("parts",)

    def __init__(self, number: Fraction | int = 0) -> None:
        #: By the integer under the root, one for the rational part, what it is multiplied by.
        self.parts: dict[int, Fraction] = {1: Fraction(number)} if number else {}

    @classmethod
    def _of(cls, parts: Iterable[tuple[int, Fraction]]) -> "Surd":
        made = cls()
        for under, factor in parts:
            made._add(under, factor)
        return made

    def _add(self, under: int, factor: Fraction) -> None:
        root = isqrt(under)
        if root * root == under:
            under, factor = 1, factor * root
        elif under not in self.parts:
            for other in self.parts:
                root = isqrt(other * under)
                if root * root == other * under:  # √under = root/other · √other
                    under, factor = other, factor * root / other
                    break
        total = self.parts.get(under, Fraction(0)) + factor
        if total:
            self.parts[under] = total
        else:
            self.parts.pop(under, None)

    @classmethod
    def root(cls, number: Fraction) -> "Surd":
        """Return the root of a rational that is not negative."""
        below = number.denominator
        return cls._of([(number.numerator * below, Fraction(1, below))] if number else [])

    @property
    def rational(self) -> Fraction | None:
        """The number, if it is rational."""
        if not self.parts:
            return Fraction(0)
        return self.parts.get(1) if len(self.parts) == 1 else None

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __neg__(self) -> "Surd":
        return self * Fraction(-1)

    def __add__(self, other: "Surd | Fraction") -> "Surd":
        right = other if isinstance(other, Surd) else Surd(other)
        return self._of((*self.parts.items(), *right.parts.items()))

    def __sub__(self, other: "Surd | Fraction") -> "Surd":
        return self + -other

    def __mul__(self, other: "Surd | Fraction | int") -> "Surd":
        if not isinstance(other, Surd):
            made = Surd()
            if other:
                made.parts = {under: factor * other for under, factor in self.parts.items()}
            return made
        return self._of(
            (a * b, p * q) for a, p in self.parts.items() for b, q in other.parts.items()
        )

    def inverse(self) -> "Surd":
        """Return one over the number, which must have one part."""
        if len(self.parts) != 1:
            raise ModelRejected("divides by zero, or by a sum of different roots")
        ((under, factor),) = self.parts.items()
        return self._of([(under, 1 / (factor * under))])

    def near(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return a rational near the number, and what it differs by at most."""
        value, error = Fraction(0), Fraction(0)
        for under, factor in self.parts.items():
            if under == 1:
                value += factor
                continue
            value += factor * Fraction(isqrt(under << 2 * bits), 1 << bits)
            error += abs(factor) / (1 << bits)
        return value, error

    def sign(self) -> int:
        """Return −1, 0 or 1."""
        bits = _BITS
        while bits <= _MOST_BITS:
            value, error = self.near(bits)
            if abs(value) > error or not self.parts:
                return (value > 0) - (value < 0)
            bits *= 2
        raise ModelRejected("has numbers that are too close to each other to be compared")

    def __float__(self) -> float:
        try:
            return float(self.near(_BITS)[0])
        except OverflowError:
            raise ModelRejected("has a number that is too large for a double") from None

    def key(self) -> tuple[tuple[int, Fraction], ...]:
        """Return what equal numbers that were made alike have in common."""
        return tuple(sorted(self.parts.items()))

    def __repr__(self) -> str:
        return " + ".join(f"{factor}·√{under}" for under, factor in self.parts.items()) or "0"
