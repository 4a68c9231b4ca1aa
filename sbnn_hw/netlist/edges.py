"""What flows between stages: the range of its values, its shape and its scan order."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sbnn_hw.errors import ModelRejected

__all__ = ["Edge"]


@dataclass(frozen=True)
class Edge:
    """The values that one stage hands to another.

    Examples
    --------
    >>> Edge((10,), -3, 4).bits, Edge((10,), 0, 5).bits, Edge((10,), 0, 5).maximum
    (4, 3, 7)
    """

    #: (height, width, channels) of a map, or (length,) of a vector.
    shape: tuple[int, ...]
    #: The least and the greatest value that can occur: 0 and 1 for activations, 0 and 255 for
    #: pixels, what the taps can reach for scores. Width and sign follow from them.
    low: int = 0
    high: int = 1
    #: ``raster``: a pixel at a time, row by row, channels together. ``vector``: all at once.
    scan: Literal["raster", "vector"] = "vector"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        if len(self.shape) not in (1, 3) or min(self.shape) < 1:
            raise ModelRejected(
                f"An edge's shape must be (length,) or (height, width, channels), "
                f"not {self.shape!r:.80}"
            )
        if self.size >= 1 << 24:
            raise ModelRejected(f"An edge must have fewer than 2^24 values, not {self.shape!r}")
        if self.low > self.high:
            raise ModelRejected(f"An edge's range must rise, not from {self.low} to {self.high}")
        if self.bits not in range(1, 63):
            raise ModelRejected(f"An edge's values must have 1 to 62 bits, not {self.bits!r}")
        if self.scan not in ("raster", "vector") or (
            len(self.shape) == 1 and self.scan != "vector"
        ):
            raise ModelRejected(f"An edge's scan must be raster or vector, not {self.scan!r}")

    @classmethod
    def of_bits(
        cls,
        shape: tuple[int, ...],
        bits: int,
        signed: bool = False,
        scan: Literal["raster", "vector"] = "vector",
    ) -> "Edge":
        """Make an edge whose values take the whole range of some bits."""
        if bits not in range(1, 63):
            raise ModelRejected(f"An edge's values must have 1 to 62 bits, not {bits!r}")
        half = 1 << (bits - 1)
        return cls(shape, -half, half - 1, scan) if signed else cls(shape, 0, 2 * half - 1, scan)

    @property
    def signed(self) -> bool:
        """Whether the values are two's complement."""
        return self.low < 0

    @property
    def bits(self) -> int:
        """Bits of each value."""
        if not self.signed:
            return max(1, self.high.bit_length())
        return max((-self.low - 1).bit_length(), max(self.high, 0).bit_length()) + 1

    @property
    def binary(self) -> bool:
        """Whether the values are bits."""
        return self.low >= 0 and self.high <= 1

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The smallest type of arrays that holds the values."""
        for name in ("u1", "i1", "i2", "i4"):
            info = np.iinfo(name)
            if info.min <= self.low and self.high <= info.max:
                return np.dtype(name)
        return np.dtype("i8")

    @property
    def channels(self) -> int:
        """Values that arrive together: the channels of a map, or the length of a vector."""
        return self.shape[-1]

    @property
    def size(self) -> int:
        """Number of values for one image."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def maximum(self) -> int:
        """The largest number that the bits of an unsigned edge can say.

        The complement that an inverted tap reads is this less the value.
        """
        return (1 << self.bits) - 1
