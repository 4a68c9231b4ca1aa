"""The first largest of some scores, looked at one after the other."""

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import counter_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.part import Part

__all__ = ["Best"]


class Best(Part):
    """Give the number of the first largest score, and behind it the scores.

    Looks at a score in each cycle. Words must be at least :py:`latency` cycles apart.

    Parameters
    ----------
    classes, bits : int
        Number of scores in a word, and bits of each, in two's complement.
    scores : bool
        Whether scores are given behind the number.
    """

    def __init__(self, classes: int, bits: int, scores: bool, family: Family):
        self.classes, self.bits, self.scores, self.family = classes, bits, scores, family
        width = classes * bits
        number = max(1, (classes - 1).bit_length())
        # A score is chosen, and then compared with the best; the last one ends it.
        super().__init__(width, number + (width if scores else 0), latency=classes + 2)

    def _weigh(self) -> Cost:
        family = self.family
        # A table of six inputs chooses among four.
        choice = self.bits * -(-(self.classes - 1) // (3 if family.inputs >= 6 else 1))
        compared = round(self.bits * family.sums.adder)
        number = (self.classes - 1).bit_length()
        held = self.width_in + 2 * self.bits + 2 * number + 3
        return counter_cost(self.classes, family) + Cost(choice + compared + 4, held)
