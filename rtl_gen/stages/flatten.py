"""A map as a vector: left to the stage that reads it, which may count pixels as they come."""

from collections.abc import Iterator
from dataclasses import replace

from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises

__all__ = ["flatten"]


@realises("flatten", gathers=True)
def flatten(place: Place) -> Iterator[Candidate]:
    """Yield nothing to build, but what is to be gathered."""
    arrival = place.arrival
    if arrival.raster:
        several = place.edge.size > place.edge.channels
        gathered = (place.name, place.edge) if several else None
        arrival = replace(arrival, raster=False, gathered=gathered)
    yield Candidate({}, arrival=arrival)
