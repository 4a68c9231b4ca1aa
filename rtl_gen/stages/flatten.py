"""A map as a vector: left to the stage that reads it, which may count pixels as they come.

Where several stages read it, the vector is made once.
"""

from collections.abc import Iterator
from dataclasses import replace

from sbnn_hw.rtl_gen.candidate import Candidate, Place, gather, realises

__all__ = ["flatten"]


@realises("flatten", gathers=True)
def flatten(place: Place) -> Iterator[Candidate]:
    """Yield nothing to build, but what is to be gathered."""
    arrival = place.arrival
    if arrival.raster:
        several = place.edge.size > place.edge.channels
        gathered = (place.name, place.edge) if several else None
        arrival = replace(arrival, raster=False, gathered=gathered)
    if place.shared and arrival.gathered is not None:
        parts = gather(replace(place, arrival=arrival))
        yield Candidate(parts, arrival=arrival.after(parts.values()))
        return
    yield Candidate({}, arrival=arrival)
