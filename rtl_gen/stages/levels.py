"""A table of values, as look-up tables."""

from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, realises
from sbnn_hw.rtl_gen.stages.flatten import gather

__all__ = ["levels"]


@realises("levels")
def levels(place):
    """Yield a function of each value."""
    def function(logic, bits):
        return layers.levels(logic, place.stage.operation, place.split(bits), place.family)

    yield Candidate({**gather(place), place.name: place.tables(place.width, function)})
