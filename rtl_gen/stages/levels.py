"""A table of values, as look-up tables."""

from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, realises

__all__ = ["levels"]


@realises("levels")
def levels(place):
    """Yield a function of each value."""
    def function(logic, bits):
        return layers.levels(logic, place.stage.operation, place.split(bits), place.family)

    yield Candidate({place.name: place.tables(place.width, function)})
