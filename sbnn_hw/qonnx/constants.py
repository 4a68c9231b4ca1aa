"""Constant tensors as exact numbers: codes into a list of rationals.

A layer of a million weights has two or three different numbers once it is quantised, so each
operation is done once for each different number, by rationals.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected

__all__ = ["Constant", "bounded", "joined_shape"]

Codes = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

#: So many different numbers are made rationals; more are only rounded or compared.
MOST_RATIONALS = 1 << 18
#: So many bits a numerator or denominator may have; squares of squares would double them for ever.
MOST_BITS = 4096


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor of exact numbers."""

    #: For each element its place in the numbers.
    codes: Codes
    #: The different numbers; doubles that are exact, until something needs more.
    numbers: npt.NDArray[np.float64] | tuple[Fraction, ...]
    #: The type of integers, such as ``int64``, which wrap and truncate; empty for floats.
    kind: str = ""

    @classmethod
    def of(cls, array: Array) -> "Constant":
        """Make a constant of an array whose numbers doubles hold exactly."""
        values = np.asarray(array)
        if values.dtype.itemsize == 1:
            return cls._of_bytes(values)
        if values.dtype.kind in "iu" and values.size and np.abs(values).max() > 2**53:
            # Ends of slices are like this; no weight is.
            values = np.clip(values, -(2**53), 2**53)
        doubles = values.astype(np.float64)
        if not np.isfinite(doubles).all():
            where = tuple(np.argwhere(~np.isfinite(doubles))[0].tolist())
            raise ModelRejected("is not finite" + (f" at {where}" if where else ""))
        numbers, codes = np.unique(doubles, return_inverse=True)
        kind = values.dtype.name if values.dtype.kind in "iu" else ""
        return cls(codes.reshape(values.shape).astype(np.int64), numbers, kind)

    @classmethod
    def _of_bytes(cls, values: Array) -> "Constant":
        """Make a constant of numbers of a byte by a table, without sorting doubles."""
        numbers = np.unique(values)
        table = np.zeros(256, np.int64)
        table[numbers.view(np.uint8)] = np.arange(len(numbers))
        kind = values.dtype.name if values.dtype.kind in "iu" else ""
        return cls(table[values.view(np.uint8)], numbers.astype(np.float64), kind)

    @classmethod
    def full(cls, number: Fraction, shape: tuple[int, ...] = ()) -> "Constant":
        """Make a constant of one number."""
        return cls(np.zeros(shape, np.int64), (number,))

    @classmethod
    def listed(cls, numbers: Sequence[Fraction]) -> "Constant":
        """Make a vector of rationals."""
        return cls(np.arange(len(numbers)), tuple(numbers)).tidy()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.codes.shape

    @cached_property
    def rationals(self) -> tuple[Fraction, ...]:
        """The different numbers, as rationals."""
        if len(self.numbers) > MOST_RATIONALS:
            raise ModelRejected(
                f"has {len(self.numbers):,} different numbers, too many to compute with; "
                f"quantise it to one bit"
            )
        return tuple(Fraction(number) for number in self.numbers)

    def integers(self) -> Codes:
        """Return the elements as integers, such as a shape has."""
        if any(number.denominator != 1 for number in self.rationals):
            raise ModelRejected("must be integers")
        table = np.array([int(number) for number in self.rationals], np.int64)
        return table[self.codes] if len(table) else self.codes

    def scalar(self) -> Fraction:
        """Return the one number that all elements are."""
        if len(self.tidy().numbers) != 1:
            raise ModelRejected("must be one number")
        return self.tidy().rationals[0]

    def to_float32(self) -> "Constant":
        """Return the numbers as float32 holds them."""
        with np.errstate(over="ignore"):
            return Constant.of(self.doubles().astype(np.float32))

    def doubles(self) -> npt.NDArray[np.float64]:
        """Return the elements, rounded to doubles."""
        if isinstance(self.numbers, np.ndarray):
            return self.numbers[self.codes]
        try:
            numbers = np.array([float(number) for number in self.numbers])
        except OverflowError:
            raise ModelRejected("has numbers that no float holds") from None
        return numbers[self.codes]

    def of_kind(self, kind: str) -> "Constant":
        """Return the same numbers as integers of a type, which must hold them."""
        limits = np.iinfo(kind)
        for number in self.rationals:
            if number.denominator != 1:
                raise ModelRejected(
                    f"gives {float(number):g}, but ONNX computes with integers here ({kind}); "
                    f"cast to float first"
                )
            if not limits.min <= number <= limits.max:
                raise ModelRejected(
                    f"gives {float(number):g}, which {kind} does not hold; cast to float first"
                )
        return replace(self, kind=kind)

    def tidy(self) -> "Constant":
        """Return the same tensor, its numbers increasing and each in use."""
        if isinstance(self.numbers, np.ndarray):
            used, codes = np.unique(self.codes, return_inverse=True)
            return Constant(codes.reshape(self.shape), self.numbers[used], self.kind)
        return _merge(self.codes, self.rationals)

    # Operations

    def map(self, function: Callable[[Fraction], Fraction]) -> "Constant":
        """Apply a function to each number."""
        return _merge(self.codes, [function(number) for number in self.rationals])

    def sign(self, zero: float = 1.0) -> "Constant":
        """Return −1 below zero, +1 above, and of zero what is said."""
        if isinstance(self.numbers, np.ndarray):
            signs = np.sign(self.numbers)
        else:
            signs = np.array([float((n > 0) - (n < 0)) for n in self.numbers])
        return Constant.of(np.where(signs == 0, zero, signs)[self.codes])

    def at_least(self, other: "Constant") -> "Constant":
        """Return 1 where the numbers reach those of another tensor, else 0."""
        if isinstance(self.numbers, np.ndarray) and isinstance(other.numbers, np.ndarray):
            joined_shape(self, other)
            return Constant.of((self.doubles() >= other.doubles()).astype(np.float64))
        return self.combine(other, lambda a, b: Fraction(a >= b))

    def combine(
        self, other: "Constant", operation: Callable[[Fraction, Fraction], Fraction]
    ) -> "Constant":
        """Apply an operation to two tensors that are broadcast against each other."""
        shape = joined_shape(self, other)
        pairs = self.codes * len(other.numbers) + other.codes
        used, codes = np.unique(pairs, return_inverse=True)
        if len(used) > MOST_RATIONALS:
            raise ModelRejected(
                f"has {len(used):,} different numbers, too many to compute with; quantise to "
                f"one bit first"
            )
        left, right = self._some(used // len(other.numbers)), other._some(used % len(other.numbers))
        results = [operation(a, b) for a, b in zip(left, right, strict=True)]
        return _merge(codes.reshape(shape), results)

    def _some(self, codes: Codes) -> list[Fraction]:
        if isinstance(self.numbers, np.ndarray):
            return [Fraction(number) for number in self.numbers[codes]]
        return [self.numbers[code] for code in codes]

    def reshaped(self, change: Callable[[Array], Array]) -> "Constant":
        """Apply a change of shape or order."""
        return replace(self, codes=change(self.codes))


def joined_shape(*constants: Constant) -> tuple[int, ...]:
    """Return the shape of tensors that are broadcast against each other: that of the largest."""
    names = " and ".join(str(constant.shape) for constant in constants)
    try:
        shape = np.broadcast_shapes(*(constant.shape for constant in constants))
    except ValueError:
        raise ModelRejected(f"joins shapes {names}") from None
    if int(np.prod(shape)) > max(constant.codes.size for constant in constants):
        raise ModelRejected(f"joins shapes {names} to a larger one")
    return shape


def bounded(numbers: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Return numbers none of which has too many digits to compute with."""
    found = tuple(numbers)
    for number in found:
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
            raise ModelRejected(
                f"gives a number of more than {MOST_BITS:,} bits, too many to compute with; "
                f"fold scales and offsets into fewer numbers"
            )
    return found


def _merge(codes: Codes, numbers: Sequence[Fraction]) -> Constant:
    """Return a constant whose numbers increase, each in use and each once."""
    used = np.unique(codes)
    ordered = sorted(set(bounded(numbers[code] for code in used)))
    place = {number: index for index, number in enumerate(ordered)}
    table = np.zeros(len(numbers), np.int64)
    for code in used:
        table[code] = place[numbers[code]]
    return Constant(table[codes] if len(table) else codes, tuple(ordered))
