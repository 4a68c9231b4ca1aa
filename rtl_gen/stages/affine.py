"""The affine: constants multiplied by shifts and adds, all of a channel in one heap."""

from collections.abc import Iterator

from sbnn_hw.netlist import Affine
from sbnn_hw.rtl_gen import numbers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic

__all__ = ["affine"]


@realises("affine")
def affine(place: Place) -> Iterator[Candidate]:
    """Yield the tables of all channels; what is not read is not built."""
    operation, read = place.operation(Affine), place.read_together

    def function(logic: Logic, bits: list[int]) -> list[int]:
        sources, found = place.split_sources(bits), list[int]()
        for number, wanted in enumerate(read):
            logic.owner = f"n{number}"
            made = [FALSE] * place.out.bits
            if wanted:
                made = numbers.affine(
                    logic, operation, number % place.out.channels,
                    [values[number] for values in sources], place.edges, place.out, place.family,
                )
            found += made
        return found

    yield Candidate({place.name: place.tables(place.width, function)})
