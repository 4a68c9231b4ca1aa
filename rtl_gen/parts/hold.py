"""Pixels that wait until the image in front of them needs no more of them than there are."""

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import counter_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.join import Queue
from sbnn_hw.rtl_gen.parts.part import Part

__all__ = ["HOLD", "Hold"]

#: The part's name in an island.
HOLD = "i_hold"


class Hold(Part):
    """Hold an image back until nothing can keep the one in front of it waiting.

    Windows over the lower border come by themselves, or with the next image's pixels once there
    are any. So an image begins when the one in front is done, or when as many of its pixels have
    come as that one can need. Pixels come at most one in a cycle, and leave so too; those of an
    image that has begun are not held back.

    Parameters
    ----------
    pixels, bits : int
        Pixels of an image, and bits of each.
    needed : int
        The pixels that make sure of the image in front.
    cycles : int
        How long an image takes from its last pixel to its result, if nothing comes behind it.
    """

    def __init__(self, pixels: int, bits: int, needed: int, cycles: int, family: Family):
        self.pixels, self.needed, self.cycles, self.family = pixels, needed, cycles, family
        #: As soon as so many have come, one leaves in each cycle; the first is outside the memory.
        self.queue = Queue(bits, max(1, needed - 1), family)
        super().__init__(bits, bits, latency=self.queue.latency)

    def _weigh(self) -> Cost:
        sizes = (self.pixels, self.cycles + 1, self.queue.depth + 1)
        counters = [counter_cost(size, self.family) for size in sizes]
        return sum(counters, self.queue.cost + Cost(tables=3))
