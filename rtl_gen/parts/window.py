"""Windows of a map that arrives a pixel at a time, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.memory import SHORT, line_cost
from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import Family
from sbnn_hw.netlist import Edge, Window
from sbnn_hw.rtl_gen.parts.part import Part, Times

__all__ = ["SHORT", "Scan", "Windows"]

@dataclass(frozen=True)
class Scan:
    """When the windows of a map are complete, counted in pixels.

    A window is complete with its last pixel, or where that lies beyond the right or lower border,
    at the moment when a pixel there would have come. Windows that hang over the lower border come
    while the next map arrives, or, if none does, by themselves.
    """

    window: Window
    height: int
    width: int
    #: Windows down and across, where more are wanted than lie within the map and its padding.
    more: tuple[int, int] | None = None

    @classmethod
    def of(cls, window: Window, edge: Edge, more: tuple[int, int] | None = None) -> "Scan":
        """Make the scan of a map."""
        height, width, _ = edge.shape
        return cls(window, height, width, more)

    def __post_init__(self) -> None:
        columns, across = self.output[1], self.window.stride[1]
        if (
            self.first >= self.height * self.width
            or self.last - self.first >= self.height * self.width
            or (columns - 1) * across >= self.width
        ):
            raise ModelRejected(
                f"a window of {self.window.kernel[0]}×{self.window.kernel[1]} with padding "
                f"{self.window.padding[0]}, {self.window.padding[1]} on a map of "
                f"{self.height}×{self.width} cannot be streamed at one pixel per clock; use less "
                f"padding or a larger map"
            )

    @property
    def output(self) -> tuple[int, int]:
        """Windows down and across."""
        return self.more or self.window.output(self.height, self.width)

    def _when(self, row: int, column: int) -> int:
        y = row * self.window.stride[0] - self.window.padding[0] + self.window.kernel[0] - 1
        x = column * self.window.stride[1] - self.window.padding[1] + self.window.kernel[1] - 1
        return y * self.width + x

    @property
    def first(self) -> int:
        """The pixel with which the first window is complete."""
        return self._when(0, 0)

    @property
    def last(self) -> int:
        """The pixel, perhaps one beyond the map, with which the last window is complete."""
        rows, columns = self.output
        return self._when(rows - 1, columns - 1)

    @property
    def whens(self) -> Times:
        """For each window the pixel with which it is complete."""
        rows, columns = self.output
        whens = [[self._when(row, column) for column in range(columns)] for row in range(rows)]
        return np.array(whens, np.int64).ravel()

    def gap(self, between: int) -> int:
        """Return the fewest cycles between two windows, if pixels are ``between`` cycles apart.

        Beyond the lower border there may be a window in every cycle.
        """
        when = self.whens
        size = self.height * self.width
        # Those that come with a pixel of the map, and those of the next map behind the last one.
        cycles = np.minimum(when, size - 1) * between + np.maximum(when - (size - 1), 0)
        following = (size + when[0] - when[-1]) * between
        return int(min([*np.diff(cycles), following]))

    @property
    def beyond(self) -> int:
        """How many steps behind the map's last pixel the last window is complete."""
        return max(0, self.last + 1 - self.height * self.width)

    def waits(self, arrivals: Times) -> bool:
        """Return whether a next map begins before the last window of the one before is complete."""
        maps = arrivals.reshape(-1, self.height * self.width)
        return bool((maps[1:, 0] - maps[:-1, -1] <= self.beyond).any())

    def times(self, arrivals: Times) -> Times:
        """Return in which cycle each window is complete, for arrivals of whole maps."""
        maps, beyond = arrivals.reshape(-1, self.height * self.width), self.beyond
        when, found = self.whens, []
        for number, pixels in enumerate(maps):
            # Beyond the border there is a window in every cycle, until the next map begins; then
            # there is one with each of its pixels.
            alone = beyond
            if number + 1 < len(maps):
                alone = min(beyond, int(maps[number + 1][0] - pixels[-1]) - 1)
            steps = [pixels, pixels[-1] + np.arange(1, alone + 1)]
            if alone < beyond:
                steps.append(maps[number + 1][: beyond - alone])
            found.append(np.concatenate(steps)[when])
        return np.concatenate(found)


class Windows(Part):
    """The bits of each window that somebody reads.

    Takes a pixel in every cycle; gives at most one window for each. Windows are given in raster
    order: one cycle after they are complete, or two with padding.

    Parameters
    ----------
    scan : Scan
        The window, and the map that it moves over.
    bits : int
        Bits of a pixel.
    taps : sequence of (int, int)
        For each bit of the output the position in the window, and the bit of the pixel there.
    fill : sequence of int
        For each bit of the output what padding reads as.
    classes : array (rows, columns), optional
        A number for each window, given behind the bits.
    family : Family
        Decides what keeps a line.
    """

    def __init__(self, scan: Scan, bits: int, taps: Sequence[tuple[int, int]], *, family: Family,
                 fill: Sequence[int] | None = None,
                 classes: npt.NDArray[np.int64] | None = None):
        self.scan = scan
        self.taps = list(taps)
        self.fill = list(fill) if fill is not None else [0] * len(self.taps)
        self.classes, self.family = classes, family
        self.class_bits = 0 if classes is None else int(classes.max()).bit_length()
        super().__init__(bits, len(self.taps) + self.class_bits, latency=2 if self.padded else 1)

    @property
    def padded(self) -> bool:
        """Whether windows hang over the map's border."""
        return any(self.scan.window.padding)

    @property
    def shifted(self) -> bool:
        """Whether lines move through registers, not through a memory."""
        return self.scan.width <= max(SHORT, self.family.memory.shifted)

    def times(self, arrivals: Times) -> Times:
        """Return when outputs are given, for arrivals of whole maps."""
        return self.scan.times(arrivals) + self.latency

    def waits(self, arrivals: Times) -> bool:
        """Return whether windows over the lower border come with pixels of the next map."""
        return self.scan.waits(arrivals)

    def gap(self, between: int) -> int:
        """Return the fewest cycles from one window to the next."""
        return self.scan.gap(between)

    @cached_property
    def reach(self) -> list[dict[int, int]]:
        """How far back each bit is read in each line, lines counted from the newest."""
        rows, columns = self.scan.window.kernel
        reach: list[dict[int, int]] = [{} for _ in range(rows)]
        for position, bit in self.taps:
            row, column = divmod(position, columns)
            line, back = reach[rows - 1 - row], columns - 1 - column
            line[bit] = max(line.get(bit, 0), back)
        return reach

    def kept(self, line: int) -> list[int]:
        """Return the bits that a line, or an older one, reads."""
        return sorted({bit for further in self.reach[line:] for bit in further})

    def _weigh(self) -> Cost:
        scan, found = self.scan, Cost()
        # What the window holds itself, of its first line the newest pixel too.
        held = sum(back for line in self.reach for back in line.values()) + len(self.kept(0))
        if self.padded:
            held += self.width_out
        for line in range(1, len(self.reach)):
            wanted = self.kept(line)
            before = {bit: self.reach[line - 1].get(bit, 0) for bit in wanted}
            found += line_cost(scan.width, before, self.family)
        # Counters of pixels, rows and columns, and what is compared with them.
        strides = [stride for stride in scan.window.stride if stride > 1]
        last = (scan.output[0] - 1) * scan.window.stride[0]
        bits = sum(n.bit_length() for n in (scan.height * scan.width - 1, scan.width - 1, last))
        control = round(self.family.sums.counter * bits) + 2 * len(strides) + 6 * self.padded
        return found + Cost(control, held + bits + 2 + self.padded + len(strides))
