"""What flows between stages: payload, shape and scan order."""

from dataclasses import dataclass
from typing import Literal

from sbnn_hw.errors import ModelRejected

__all__ = ["Edge"]


@dataclass(frozen=True)
class Edge:
    """The values that one stage hands to another.

    Parameters
    ----------
    shape : tuple of int
        (height, width, channels) of a map, or (length,) of a vector.
    bits : int
        Bits of each value: 1 for activations, 8 for pixels, more for scores.
    signed : bool
        Whether the values are two's complement.
    scan : str
        ``raster``: a pixel at a time, row by row, channels together. ``vector``: all at once.
    """

    shape: tuple[int, ...]
    bits: int = 1
    signed: bool = False
    scan: Literal["raster", "vector"] = "vector"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        if len(self.shape) not in (1, 3) or min(self.shape) < 1:
            raise ModelRejected(
                f"An edge's shape must be (length,) or (height, width, channels), "
                f"not {self.shape!r}"
            )
        if self.size >= 1 << 31:
            raise ModelRejected(f"An edge must have fewer than 2^31 values, not {self.shape!r}")
        if self.bits not in range(1, 63):
            raise ModelRejected(f"An edge's values must have 1 to 62 bits, not {self.bits!r}")
        if self.scan not in ("raster", "vector") or (
            len(self.shape) == 1 and self.scan != "vector"
        ):
            raise ModelRejected(f"An edge's scan must be raster or vector, not {self.scan!r}")

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
        """The largest value of an unsigned edge."""
        return (1 << self.bits) - 1
