"""What an engine takes of a part, told from its shape."""

from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine.banks import bank_sizes, blocks_of
from sbnn_hw.engine.shape import Shape, bits_for
from sbnn_hw.families import Family

__all__ = ["engine_cost"]

#: Tables of a bitmap, for each lane and besides, by the inputs of a table.
_ROWS = {4: (9, 276), 6: (6, 177)}


def engine_cost(shape: Shape, family: Family) -> Cost:
    """Return what an engine takes."""
    banks = bank_sizes(shape.depth, shape.word_bits, family)
    memory = Cost(
        tables=(len(banks) - 1) * shape.word_bits,
        registers=shape.word_bits,
        memory_bits=shape.depth * shape.word_bits,
        blocks=blocks_of(banks, shape.word_bits, family),
    )
    return memory + (_rows(shape, family) if shape.bitmap else _lanes(shape, family))


def _rows(shape: Shape, family: Family) -> Cost:
    """Return what a bitmap takes besides its program: one memory, a tree, one sum."""
    lanes, words = shape.lanes, max(2, shape.activation_words)
    # Weights, the halves of a word, and their count's tree for each lane; what tells them what to
    # do, and the ranking. Fitted to what Yosys makes of 64 lanes; 16 were within 7 %.
    each, rest = _ROWS[6 if family.inputs > 4 else 4]
    # A word of weights, what it taps, two words that fill up and one that waits, and counts.
    registers = lanes * 6 + 4 * lanes // 8 * 2 + 4 * shape.sum_bits + 3 * shape.q_bits
    return Cost(
        tables=each * lanes + rest,
        registers=registers + 100,
        memory_bits=words * lanes,
        blocks=family.memory.blocks(words, lanes),
    )


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
