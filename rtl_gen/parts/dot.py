"""Weighted sums of a vector's values, whose bits come one after the other."""

import numpy as np
import numpy.typing as npt

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import counter_cost, look_up_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.part import Part, Times

__all__ = ["Dot"]


class Dot(Part):
    """Weighted sums of a vector's values.

    The values are parted into lanes. Takes a bit of one value of every lane in every cycle: the
    lowest first, and the first value first; between two vectors there must be a cycle in which
    nothing comes. Gives the sums one cycle after the last bit.

    Parameters
    ----------
    bits : int
        Of a value, which is not negative.
    weights : array (sums, values)
        What each value weighs in each sum.
    offsets : array (sums,)
        What each sum begins with.
    sum_bits : int
        Of each sum, in two's complement.
    lanes : int
        Values of which a bit comes at a time.
    """

    def __init__(self, bits: int, weights: npt.NDArray[np.int64],
                 offsets: npt.NDArray[np.int64], sum_bits: int, lanes: int, family: Family):
        self.bits, self.sum_bits, self.lanes, self.family = bits, sum_bits, lanes, family
        sums, values = weights.shape
        #: Values of a lane.
        self.values = -(-values // lanes)
        #: (lanes, values of a lane, sums)
        self.weights = np.zeros((lanes * self.values, sums), np.int64)
        self.weights[:values] = weights.T
        self.weights = self.weights.reshape(lanes, self.values, sums)
        self.offsets = offsets
        self.cycles = self.values * bits
        super().__init__(lanes, sums * sum_bits, latency=1)

    @property
    def connections(self) -> int:
        """Weights that are not zero."""
        return int(np.count_nonzero(self.weights))

    @property
    def weight_bits(self) -> int:
        """Bits of each weight, in two's complement."""
        ends = int(self.weights.min()), int(self.weights.max())
        return 1 + max((each if each >= 0 else ~each).bit_length() for each in ends)

    def times(self, arrivals: Times) -> Times:
        """Return when outputs are given, for arrivals of whole vectors."""
        return arrivals[self.cycles - 1 :: self.cycles] + self.latency

    def _weigh(self) -> Cost:
        family, lanes, width = self.family, self.lanes, self.width_out
        place = max(1, (self.values - 1).bit_length())
        kept = lanes * len(self.offsets) * self.weight_bits * look_up_cost(place, family)
        # Each weight moves up a place in every cycle, and is added or not.
        moved, added = lanes * width, lanes * width * family.sums.adder
        counters = sum((counter_cost(size, family) for size in (self.values, self.bits)), Cost())
        return counters + Cost(round(kept + moved + added), moved + width + 1)
