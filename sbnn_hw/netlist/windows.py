"""Where the windows of a convolution or pool lie, and which of them hang over the border."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.form import Arrays, Damaged, Schema, Write, get, list_of, object_of

__all__ = ["Borders", "Window", "find_borders"]

# Border classes, times positions in the window, that there may be.
_MASKS = 1 << 24


@dataclass(frozen=True)
class Window:
    """The geometry of a convolution or pool: pairs of (rows, columns)."""

    schema: ClassVar[Schema] = object_of(
        **dict.fromkeys(
            ("kernel", "stride", "padding"),
            list_of({"type": "integer", "minimum": 0}, minItems=2, maxItems=2),
        )
    )

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        pairs = (self.kernel, self.stride, self.padding)
        kernel, stride, padding = (f"{rows}×{columns}" for rows, columns in pairs)
        return f"{kernel} with stride {stride} and padding {padding}"

    def __post_init__(self) -> None:
        for name in ("kernel", "stride", "padding"):
            rows, columns = getattr(self, name)
            object.__setattr__(self, name, (int(rows), int(columns)))
        if min(*self.kernel, *self.stride) < 1 or min(self.padding) < 0:
            raise ModelRejected(f"A window must have sizes above zero, not {self}")
        if self.padding[0] >= self.kernel[0] or self.padding[1] >= self.kernel[1]:
            raise ModelRejected(f"Padding must be smaller than the kernel, not {self}")

    def describe(self, write: Write) -> dict[str, Any]:
        """Return the window as plain values; it has no arrays."""
        return {name: list(getattr(self, name)) for name in ("kernel", "stride", "padding")}

    @classmethod
    def read(cls, text: Any, read: Arrays) -> "Window":
        """Make a window of its description."""
        pairs = []
        for key in ("kernel", "stride", "padding"):
            pair = get(text, key, list)
            if len(pair) != 2 or not all(type(x) is int and 0 <= x < 1 << 16 for x in pair):
                raise Damaged(f"{key} must not be {pair!r:.80}")
            pairs.append((pair[0], pair[1]))
        return cls(*pairs)

    @property
    def size(self) -> int:
        """Positions in the window."""
        return self.kernel[0] * self.kernel[1]

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Return how many windows fit in a map, down and across."""
        rows, columns = (
            (size + 2 * pad - kernel) // stride + 1
            for size, pad, kernel, stride in zip(
                (height, width), self.padding, self.kernel, self.stride, strict=True
            )
        )
        if rows < 1 or columns < 1:
            raise ModelRejected(
                f"A window of {self.kernel[0]}×{self.kernel[1]} does not fit a map of "
                f"{height}×{width} with padding {self.padding[0]}, {self.padding[1]}"
            )
        return rows, columns

    def pad(self, x: npt.NDArray[Any], value: Any = 0) -> npt.NDArray[Any]:
        """Pad maps (…, height, width, last) on both sides."""
        if not any(self.padding):
            return x
        rows, columns = self.padding
        around = [(0, 0)] * (x.ndim - 3) + [(rows, rows), (columns, columns), (0, 0)]
        return np.pad(x, around, constant_values=value)

    def shifted(
        self, x: npt.NDArray[Any], position: int, output: tuple[int, int]
    ) -> npt.NDArray[Any]:
        """Return the view of padded maps that a position in the window sees, for all windows."""
        dy, dx = divmod(position, self.kernel[1])
        (rows, columns), (down, across) = output, self.stride
        return x[
            ...,
            dy : dy + (rows - 1) * down + 1 : down,
            dx : dx + (columns - 1) * across + 1 : across,
            :,
        ]


@dataclass(frozen=True, eq=False)
class Borders:
    """The distinct sets of window positions that lie inside the map.

    ``valid`` (classes, positions) tells which positions of the window are inside; ``of``
    (rows, columns) tells the class of each window. Classes are numbered in raster order.
    """

    valid: npt.NDArray[np.bool_]
    of: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.valid)


@lru_cache(maxsize=256)
def find_borders(window: Window, height: int, width: int) -> Borders:
    """Return the border classes of a window on a map."""
    down, across = (
        _classes(count, size, kernel, stride, padding)
        for count, size, kernel, stride, padding in zip(
            window.output(height, width), (height, width), window.kernel, window.stride,
            window.padding, strict=True,
        )
    )  # fmt: skip
    (above, below, row), (left, right, column) = down, across
    if len(above) * len(left) * window.size > _MASKS:
        raise ModelRejected(
            f"A window of {window} has too many borders on a map of {height}×{width}; use a "
            f"smaller one"
        )
    # A window that begins beyond the border reaches into the map all the same, so that no two
    # pairs of a class of rows and one of columns have the same positions inside.
    masks = [
        (np.arange(kernel) >= first[:, None]) & (np.arange(kernel) < last[:, None])
        for kernel, first, last in zip(window.kernel, (above, left), (below, right), strict=True)
    ]
    valid = (masks[0][:, None, :, None] & masks[1][None, :, None, :]).reshape(-1, window.size)
    classes = row[:, None] * len(left) + column
    valid.setflags(write=False)
    classes.setflags(write=False)
    return Borders(valid, classes)


def _classes(
    count: int, size: int, kernel: int, stride: int, padding: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the windows along an axis begin and end to be inside, and each one's class.

    Classes are numbered as they occur.
    """
    at = np.arange(count) * stride - padding
    ends = np.stack([np.maximum(-at, 0), np.minimum(size - at, kernel)], axis=1)
    _, first, of = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    kinds = ends[first[order]]
    return kinds[:, 0], kinds[:, 1], rank[of.reshape(-1)]
