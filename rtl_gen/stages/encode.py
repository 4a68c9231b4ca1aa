"""The encoder: comparisons with constants."""

from collections.abc import Iterator

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import comparison_cost
from sbnn_hw.netlist import Encode
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Estimated, Place, estimates, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic

__all__ = ["encode", "encode_estimate"]


@realises("encode")
def encode(place: Place) -> Iterator[Candidate]:
    """Yield the encoder; bits that are not read are not built."""
    encoder, read = place.operation(Encode), place.read_together

    def function(logic: Logic, bits: list[int]) -> list[int]:
        found = layers.encode(logic, encoder, place.split(bits), place.edge, place.family)
        return [bit if wanted else FALSE for bit, wanted in zip(found, read, strict=True)]

    # Thresholds of a power of two are wires, and need no registers.
    core = place.tables(place.width, function, least=1 if place.alone else 0)
    yield Candidate({place.name: core})


@estimates("encode")
def encode_estimate(place: Place, searched: int) -> Estimated:
    """Estimate comparisons with constants."""
    repeats = place.values // place.edge.channels
    edge, thresholds = place.edge, place.operation(Encode).thresholds.ravel().tolist()
    # Of signed values the sign's complement is compared.
    lift = 1 << edge.bits - 1 if edge.signed else 0
    each = sum(comparison_cost(threshold + lift, edge.bits, place.family)
               for threshold in thresholds if edge.low < threshold <= edge.high)
    return Estimated(Cost(round(repeats * each)), place.arrival.after([]))
