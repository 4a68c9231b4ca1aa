"""The pool: OR or AND of the bits in a window."""

from collections.abc import Iterator

from sbnn_hw.netlist import MaxPool2d
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.parts.window import Scan, Windows

__all__ = ["max_pool"]


@realises("max_pool2d")
def max_pool(place: Place) -> Iterator[Candidate]:
    """Yield a window and the tables behind it."""
    pool, edge = place.operation(MaxPool2d), place.edge
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
