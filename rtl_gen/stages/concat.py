"""Channels side by side: wires, and signs where values become wider."""

from collections.abc import Iterator

from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.numbers import extend

__all__ = ["concat"]


@realises("concat")
def concat(place: Place) -> Iterator[Candidate]:
    """Yield wires."""
    size, read = place.out.bits, place.read_together

    def function(logic: Logic, bits: list[int]) -> list[int]:
        sources = zip(place.split_sources(bits), place.edges, strict=True)
        every = [extend(value, size, edge.signed) for values, edge in sources for value in values]
        return [bit if wanted else FALSE
                for value, wanted in zip(every, read, strict=True) for bit in value]

    core = place.tables(place.width, function, least=1 if place.alone else 0)
    yield Candidate({place.name: core})
