"""The pool: OR or AND of the bits in a window."""

from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, realises
from sbnn_hw.rtl_gen.logic import FALSE
from sbnn_hw.rtl_gen.window import Windows

__all__ = ["max_pool"]


@realises("max_pool2d")
def max_pool(place):
    """Yield a window and the tables behind it."""
    pool, edge = place.stage.operation, place.edge
    absent = set(place.stage.absent.tolist())
    size = pool.window.size
    kept = [channel for channel in range(edge.channels) if channel not in absent]
    wanted = [(position, channel) for channel in kept for position in range(size)]
    fill = [int(pool.all_of[channel]) for _, channel in wanted]
    window = Windows(pool.window, *edge.shape[:2], place.width, wanted, fill=fill,
                     family=place.options.family)

    def function(logic, literals):
        outputs = [FALSE] * edge.channels
        for number, channel in enumerate(kept):
            bits = literals[number * size : (number + 1) * size]
            outputs[channel] = layers.pool(logic, bits, bool(pool.all_of[channel]), channel,
                                           place.family)
        return outputs

    tables = place.tables(len(window.o.payload), function)
    yield Candidate({f"{place.name}_window": window, place.name: tables})
