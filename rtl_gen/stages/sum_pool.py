"""Sums of windows: a window and adders behind it, or adders alone where it is the whole map."""

from collections.abc import Iterator

import numpy as np

from sbnn_hw.netlist import SumPool2d, Window
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.numbers import add, weigh
from sbnn_hw.rtl_gen.parts.accumulate import Accumulate
from sbnn_hw.rtl_gen.parts.window import Scan, Windows

__all__ = ["sum_pool"]


@realises("sum_pool2d")
def sum_pool(place: Place) -> Iterator[Candidate]:
    """Yield sums of what a window holds, and of a whole map also sums as its pixels come."""
    pool, edge = place.operation(SumPool2d), place.edge
    window, bits, size = pool.window, edge.bits, pool.window.size
    output = pool.output(edge)
    if output == (1, 1) and window.kernel == edge.shape[:2]:
        counts = [bits] * edge.channels
        yield Candidate({place.name: Accumulate(
            size, counts, [place.out.bits] * edge.channels, place.family, signed=edge.signed)})
    kept = np.flatnonzero(place.read_together).tolist()
    wanted = [(position, channel * bits + n)
              for channel in kept for position in range(size) for n in range(bits)]
    if not wanted:
        wanted = [(size - 1, 0)]
    # Which windows hang over the border, and so read their last row or column again.
    over = [(np.arange(count) * stride + kernel > side).astype(np.int64)
            for count, stride, kernel, side in zip(output, window.stride, window.kernel,
                                                   edge.shape[:2], strict=True)]
    classes = 2 * over[0][:, None] + over[1][None, :]
    hangs = pool.ceil and bool(classes.any())
    windows = Windows(Scan.of(window, edge, output), place.width, wanted, family=place.family,
                      classes=classes if hangs else None)
    again = [_inside(window, output, edge.shape, code) for code in range(classes.max() + 1)]

    def function(logic: Logic, literals: list[int]) -> list[int]:
        found, border = {}, literals[len(windows.taps):]
        for number, channel in enumerate(kept):
            logic.owner = f"n{channel}"
            own = literals[number * size * bits : (number + 1) * size * bits]
            values = [own[n : n + bits] for n in range(0, len(own), bits)]
            weighted = []
            for position in range(size):
                # By the class of the border, the position that is read.
                options = [values[places[position]] for places in again]
                value = [layers.choose(logic, border, list(each), place.family)
                         for each in zip(*options, strict=True)]
                weighted += weigh(value, 1, edge.signed)
            found[channel] = add(logic, weighted, 0, place.out.bits, place.family)
        return [bit for channel in range(edge.channels)
                for bit in found.get(channel, [FALSE] * place.out.bits)]

    yield Candidate({f"{place.name}_window": windows,
                     place.name: place.tables(windows.width_out, function)})


def _inside(window: Window, output: tuple[int, int], shape: tuple[int, ...],
            code: int) -> list[int]:
    """Return for each position of a window of a border class the one that is read there."""
    places = []
    for position in range(window.size):
        at = list(divmod(position, window.kernel[1]))
        for axis, hangs in enumerate((code >> 1, code & 1)):
            if hangs:
                last = shape[axis] - 1 - (output[axis] - 1) * window.stride[axis]
                at[axis] = min(at[axis], last)
        places.append(at[0] * window.kernel[1] + at[1])
    return places
