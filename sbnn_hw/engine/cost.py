"""What an engine takes of a part, told from its shape."""

from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine.banks import bank_sizes, blocks_of
from sbnn_hw.engine.shape import Shape, bits_for
from sbnn_hw.families import Family

__all__ = ["engine_cost"]


def engine_cost(shape: Shape, family: Family) -> Cost:
    """Return what an engine takes."""
    banks = bank_sizes(shape.depth, shape.word_bits, family)
    memory = Cost(
        tables=(len(banks) - 1) * shape.word_bits,
        registers=shape.word_bits,
        memory_bits=shape.depth * shape.word_bits,
        blocks=blocks_of(banks, shape.word_bits, family),
    )
    return memory + _lanes(shape, family)


def _lanes(shape: Shape, family: Family) -> Cost:
    lanes, bits = shape.lanes, family.memory
    adds = 2 + shape.counts
    tables = shape.sum_bits * adds + shape.position_bits * 2 + lanes
    registers = (
        shape.sum_bits
        + shape.position_bits
        + lanes
        + 8
        + 2 * bits_for(lanes)
        + shape.header_words * shape.slot_bits
    )
    words = shape.activation_words
    return Cost(
        tables=lanes * tables,
        registers=lanes * registers,
        memory_bits=lanes * words * lanes,
        blocks=lanes * bits.blocks(max(1, words), lanes),
    )
