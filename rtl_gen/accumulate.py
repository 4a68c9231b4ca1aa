"""A layer behind a stream of pixels that counts its taps as they arrive, so nothing is gathered."""

import numpy as np
from amaranth import *

from sbnn_hw.rtl_gen.build import add_up, gather_columns
from sbnn_hw.rtl_gen.core import Core

__all__ = ["Accumulate", "Number", "count_at"]


class Number(Core):
    """Give each pixel its number in the map, behind its bits. The latency is zero."""

    latency = 0

    def __init__(self, pixels, bits):
        self._pixels, self._bits = pixels, bits
        super().__init__(bits, bits + (pixels - 1).bit_length())

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self._pixels))
        with m.If(self.enable & self.i.valid):
            m.d.sync += index.eq(Mux(index == self._pixels - 1, 0, index + 1))
        m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(Cat(self.i.payload, index))]

        return m


class Accumulate(Core):
    """Add up what each pixel of a map counts for each neuron.

    Takes a pixel in every cycle; gives the sums one cycle after the last.

    Parameters
    ----------
    pixels : int
        Pixels of the map.
    counts, sums : sequence of int
        Bits of each neuron's count, and of the sum of all of them.
    """

    latency = 1

    def __init__(self, pixels, counts, sums):
        self._pixels, self._counts, self._sums = pixels, list(counts), list(sums)
        super().__init__(sum(self._counts), sum(self._sums))

    @property
    def tables(self) -> int:
        """Number of look-up tables, an adder's bit as one."""
        return sum(self._sums)

    @property
    def registers(self) -> int:
        """Number of register bits."""
        return sum(self._sums) + 1

    def times(self, arrivals):
        """Return when outputs are given, for arrivals of one map by itself."""
        return arrivals[-1:] + self.latency

    def elaborate(self, platform):
        m = Module()

        index = Signal(range(self._pixels))
        valid = Signal(name="o_valid")
        sums = []
        at = 0
        for number, (count_bits, sum_bits) in enumerate(zip(self._counts, self._sums, strict=True)):
            total = Signal(sum_bits, name=f"n{number}_sum", reset_less=True)
            count = self.i.payload[at : at + count_bits]
            at += count_bits
            # The first pixel's count is the first sum: nothing is cleared in between.
            before = Signal(sum_bits, name=f"n{number}_before")
            m.d.comb += before.eq(Mux(index == 0, 0, total))
            with m.If(self.enable & self.i.valid):
                m.d.sync += total.eq(before + count)
            sums.append(total)
        with m.If(self.enable):
            m.d.sync += valid.eq(self.i.valid & (index == self._pixels - 1))
            with m.If(self.i.valid):
                m.d.sync += index.eq(Mux(index == self._pixels - 1, 0, index + 1))
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(Cat(*sums))]

        return m


def _look_up(logic, code, table, family):
    """Return the literal of a function of any number of literals."""
    if len(code) <= family.inputs:
        return logic.table(table, code)
    half = 1 << len(code) - 1
    low, high = table & (1 << half) - 1, table >> half
    if low == high:
        return _look_up(logic, code[:-1], low, family)
    ends = [_look_up(logic, code[:-1], part, family) for part in (low, high)]
    return logic.table(0b11001010, [*ends, code[-1]])


def count_at(logic, taps, values, place, name, family):
    """Count the taps of one neuron that the pixel at a place sets.

    Returns the literals of the count, and how many taps the tables hold for all places.

    ``taps`` are the neuron's: pixel, value within the pixel, whether inverted. ``values`` are the
    literals of the pixel's values, ``place`` those of its number.
    """
    logic.owner = name
    tables = {}
    for pixel, value, inverted in taps:
        # What a bit of this value adds at each place: itself, its complement, or nothing.
        tables[value] = tables.get(value, 0) | (1 if inverted else 2) << 2 * pixel
    gates = {
        value: [_look_up(logic, [bit, *place], table, family) for bit in values[value]]
        for value, table in sorted(tables.items())
    }
    columns, constant = gather_columns(
        (gate, 1 << position) for bits in gates.values() for position, gate in enumerate(bits))
    wired = sum(_places(logic, bits[0], values[value][0], place) for value, bits in gates.items())
    return add_up(logic, columns, constant, family), wired


def _places(logic, gate, bit, place):
    """Count the places at which what was built depends on a bit, by trying them all."""
    cases = 1 << len(place)
    words = [0] * logic.inputs
    for number, literal in enumerate(place):
        words[(literal >> 1) - 1] = sum((case >> number & 1) << case for case in range(cases))
    answers = []
    for value in (0, (1 << cases) - 1):
        words[(bit >> 1) - 1] = value
        (net,) = logic.evaluate(words, [gate >> 1], cases)
        answers.append(net)
    return (answers[0] ^ answers[1]).bit_count()


def most_at_once(taps, maximum):
    """Return the largest count that one pixel can make, and that all can make together."""
    if not len(taps):
        return 0, 0
    pixels = np.bincount([pixel for pixel, _, _ in taps])
    return int(pixels.max()) * maximum, len(taps) * maximum
