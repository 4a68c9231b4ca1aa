"""The pixels of a map as one vector."""

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import counter_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.part import Part, Times

__all__ = ["Gather"]


class Gather(Part):
    """Collect the pixels of a map into one vector, the first one least significant.

    Takes a pixel in every cycle; gives the vector one cycle after the last.
    """

    def __init__(self, pixels: int, bits: int, family: Family):
        self.pixels, self.bits, self.family = pixels, bits, family
        super().__init__(bits, pixels * bits, latency=1)

    def _weigh(self) -> Cost:
        # One register more tells the end.
        return Cost(registers=self.width_out + 1) + counter_cost(self.pixels, self.family)

    def times(self, arrivals: Times) -> Times:
        """Return when outputs are given, for arrivals of whole maps."""
        return arrivals[self.pixels - 1 :: self.pixels] + self.latency
