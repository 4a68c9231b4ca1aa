"""A table of values, as look-up tables."""

from collections.abc import Iterator

from sbnn_hw.netlist import Recode
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import Logic

__all__ = ["recode"]


@realises("levels")
def recode(place: Place) -> Iterator[Candidate]:
    """Yield a function of each value."""
    operation = place.operation(Recode)

    def function(logic: Logic, bits: list[int]) -> list[int]:
        return layers.recode(logic, operation, place.split(bits), place.family)

    yield Candidate({place.name: place.tables(place.width, function)})
