"""Parts of a layer behind a stream of pixels that counts its taps as they arrive."""

from collections.abc import Sequence

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import counter_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.part import Part, Times

__all__ = ["OVERFLOW", "Accumulate", "Number", "Repeat"]

#: The signal that stays 1 once a pixel has come before there was time for it.
OVERFLOW = "overflow"


class Number(Part):
    """Give each pixel its number in the map, behind its bits. The latency is zero."""

    def __init__(self, pixels: int, bits: int, family: Family):
        self.pixels, self.family = pixels, family
        super().__init__(bits, bits + (pixels - 1).bit_length(), latency=0)

    def _weigh(self) -> Cost:
        return counter_cost(self.pixels, self.family)


class Repeat(Part):
    """Give each pixel in several cycles, and behind its bits which of them it is, and a number.

    The number counts all cycles of a map. Pixels must be at least ``cycles`` cycles apart; if it is
    watched, a signal tells whether they were.
    """

    def __init__(self, pixels: int, bits: int, cycles: int, family: Family, watched: bool = False):
        self.pixels, self.bits, self.cycles, self.family = pixels, bits, cycles, family
        self.watched = watched
        numbers = (cycles - 1).bit_length() + (pixels * cycles - 1).bit_length()
        super().__init__(bits, bits + numbers, latency=1)

    def _weigh(self) -> Cost:
        # The pixel, and one register that tells whether there is one.
        held = Cost(registers=self.bits + 1)
        number = counter_cost(self.pixels * self.cycles, self.family)
        return held + counter_cost(self.cycles, self.family) + number

    def times(self, arrivals: Times) -> Times:
        """Return when outputs are given."""
        found: Times = (arrivals[:, None] + self.latency + np.arange(self.cycles)).ravel()
        return found

    def gap(self, between: int) -> int:
        """Return the fewest cycles from one output to the next."""
        return 1


class Accumulate(Part):
    """Add up what each pixel of a map counts for each neuron.

    Takes a pixel in every cycle; gives the sums one cycle after the last.

    Parameters
    ----------
    pixels : int
        Pixels of the map.
    counts, sums : sequence of int
        Bits of each neuron's count, and of the sum of all of them.
    signed : bool
        Whether counts and sums are two's complement.
    """

    def __init__(self, pixels: int, counts: Sequence[int], sums: Sequence[int], family: Family,
                 signed: bool = False):
        self.pixels, self.counts, self.sums = pixels, tuple(counts), tuple(sums)
        self.family, self.signed = family, signed
        super().__init__(sum(counts), sum(sums), latency=1)

    def _weigh(self) -> Cost:
        # One register more tells the end.
        adders = Cost(self.width_out * self.family.sums.adder, self.width_out + 1)
        return adders + counter_cost(self.pixels, self.family)

    def times(self, arrivals: Times) -> Times:
        """Return when outputs are given, for arrivals of whole maps."""
        return arrivals[self.pixels - 1 :: self.pixels] + self.latency
