"""The encoder: comparisons with constants."""

import numpy as np

from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, realises
from sbnn_hw.rtl_gen.logic import FALSE

__all__ = ["encode"]


@realises("encode")
def encode(place):
    """Yield the encoder; bits that are not read are not built."""
    encoder = place.stage.operation
    read = place.read.reshape(-1, place.out.channels).any(axis=0)
    if not place.arrival.raster:
        read = place.read.reshape(-1)

    def function(logic, bits):
        found = layers.encode(logic, encoder, place.split(bits), place.family)
        return [bit if wanted else FALSE for bit, wanted in zip(found, read, strict=True)]

    # Thresholds of a power of two are wires, and need no registers.
    core = place.tables(place.width, function, least=1 if place.alone else 0)
    yield Candidate({place.name: core}, unread=tuple(np.flatnonzero(~read).tolist()))
