"""The encoder: comparisons with constants."""

from collections.abc import Iterator

from sbnn_hw.cost.prices import comparison_cost
from sbnn_hw.netlist import Encode
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Estimated, Place, estimates, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic

__all__ = ["encode", "encode_estimate"]


@realises("encode")
def encode(place: Place) -> Iterator[Candidate]:
    """Yield the encoder; bits that are not read are not built."""
    encoder = place.operation(Encode)
    read = place.read.reshape(-1)
    if place.arrival.raster:
        read = read.reshape(-1, place.out.channels).max(axis=0)

    def function(logic: Logic, bits: list[int]) -> list[int]:
        found = layers.encode(logic, encoder, place.split(bits), place.family)
        return [bit if wanted else FALSE for bit, wanted in zip(found, read, strict=True)]

    # Thresholds of a power of two are wires, and need no registers.
    core = place.tables(place.width, function, least=1 if place.alone else 0)
    yield Candidate({place.name: core})


@estimates("encode")
def encode_estimate(place: Place, searched: int) -> Estimated:
    """Estimate comparisons with constants."""
    repeats = place.values // place.edge.channels
    thresholds = place.operation(Encode).thresholds.ravel().tolist()
    each = sum(comparison_cost(threshold, place.edge.bits, place.family)
               for threshold in thresholds)
    return Estimated(repeats * each, place.arrival.after([]))
