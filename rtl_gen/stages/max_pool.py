"""The pool: OR or AND of the bits in a window, or the greatest of its numbers."""

from collections.abc import Iterator

import numpy as np

from sbnn_hw.netlist import MaxPool2d
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.numbers import greatest
from sbnn_hw.rtl_gen.parts.window import Scan, Windows

__all__ = ["max_pool"]


@realises("max_pool2d")
def max_pool(place: Place) -> Iterator[Candidate]:
    """Yield a window and the tables behind it."""
    pool, edge = place.operation(MaxPool2d), place.edge
    if not edge.binary:
        yield _of_numbers(place, pool)
        return
    absent = set(place.stage.absent.tolist())
    size = pool.window.size
    kept = [channel for channel in range(edge.channels) if channel not in absent]
    wanted = [(position, channel) for channel in kept for position in range(size)]
    fill = [int(pool.all_of[channel]) for _, channel in wanted]
    window = Windows(Scan.of(pool.window, edge), place.width, wanted, fill=fill,
                     family=place.family)

    def function(logic: Logic, literals: list[int]) -> list[int]:
        outputs = [FALSE] * edge.channels
        for number, channel in enumerate(kept):
            bits = literals[number * size : (number + 1) * size]
            outputs[channel] = layers.pool(logic, bits, bool(pool.all_of[channel]), channel,
                                           place.family)
        return outputs

    tables = place.tables(window.width_out, function)
    yield Candidate({f"{place.name}_window": window, place.name: tables})


def _of_numbers(place: Place, pool: MaxPool2d) -> Candidate:
    edge, size, bits = place.edge, pool.window.size, place.edge.bits
    kept = np.flatnonzero(place.read_together).tolist()
    wanted = [(position, channel * bits + n)
              for channel in kept for position in range(size) for n in range(bits)]
    fill = [edge.low >> n & 1 for _ in range(len(kept) * size) for n in range(bits)]
    if not wanted:
        wanted, fill = [(size - 1, 0)], [0]
    window = Windows(Scan.of(pool.window, edge), place.width, wanted, fill=fill,
                     family=place.family)

    def function(logic: Logic, literals: list[int]) -> list[int]:
        found = {}
        for number, channel in enumerate(kept):
            logic.owner = f"n{channel}"
            own = literals[number * size * bits : (number + 1) * size * bits]
            values = [own[n : n + bits] for n in range(0, len(own), bits)]
            found[channel] = greatest(logic, values, edge.signed, place.family)
        return [bit for channel in range(edge.channels)
                for bit in found.get(channel, [FALSE] * bits)]

    tables = place.tables(window.width_out, function)
    return Candidate({f"{place.name}_window": window, place.name: tables})
