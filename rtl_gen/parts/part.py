"""What every part of a pipeline tells of itself."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from sbnn_hw.cost.cost import Cost

__all__ = ["ENABLE", "PAYLOAD", "VALID", "Part", "Times"]

#: Ports of a part's component, by their names in the text: whether it moves on, whether it hands
#: on a word, and that word.
ENABLE, VALID, PAYLOAD = "enable", "o__valid", "o__payload"

#: Cycles, in the order in which values come.
Times = npt.NDArray[np.int64]


class Part:
    """A part of a pipeline: it can be weighed before anything is built, and is never changed.

    Parameters
    ----------
    width_in, width_out : int
        Bits that come in, and go out, together.
    latency : int
        Cycles from an input to the output that it completes.
    """

    def __init__(self, width_in: int, width_out: int, latency: int):
        self.width_in, self.width_out, self.latency = width_in, width_out, latency

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each input, where there are several."""
        return (self.width_in,)

    @cached_property
    def cost(self) -> Cost:
        """What it takes."""
        return self._weigh()

    def _weigh(self) -> Cost:
        raise NotImplementedError

    def times(self, arrivals: Times) -> Times:
        """Return in which cycles outputs are given, for inputs in some cycles."""
        return arrivals + self.latency

    def waits(self, arrivals: Times) -> bool:
        """Return whether some outputs of a map come with inputs of the next, not by themselves."""
        return False

    def gap(self, between: int) -> int:
        """Return the fewest cycles from one output to the next, if inputs are so far apart."""
        return between
