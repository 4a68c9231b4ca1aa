"""What an engine takes of a part, told from its shape.

Blocks are counted: memories are forced into them. Tables and registers have prices that were fitted
to what Yosys 0.70 makes of engines of ``digits`` and ``mnist_sfc_98``: within 10 % of those.
Two models of tables were measured too, and are up to a quarter off: ``letter_3k``
takes more, ``vowel_1k4`` less.
"""

from typing import NamedTuple

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import look_up_cost
from sbnn_hw.engine.banks import bank_sizes, blocks_of
from sbnn_hw.engine.shape import Shape, bits_for
from sbnn_hw.families import Family

__all__ = ["engine_cost"]


class _Prices(NamedTuple):
    """Tables of an engine's pieces."""

    shared: float  # Control, encoder, addresses, ranking.
    lane: float  # A bit of a lane's sums and position.
    choice: float  # A lane's bit that others are chosen against.
    counted: float  # A bit of what is counted and multiplied by Ξ.
    bank: float  # A bit of a program word, for each bank but the first.


#: By whether a table has six inputs.
_PRICES = {True: _Prices(147, 0.68, 0.73, 1.76, 0.5), False: _Prices(273, 1.06, 1.99, 1.84, 1.0)}


#: Tables of a bitmap, for each lane and besides, by whether a table has six inputs; fitted to what
#: Yosys makes of 64 lanes; 16 were within 7 %.
_ROWS = {True: (6, 177), False: (9, 276)}


def engine_cost(shape: Shape, family: Family) -> Cost:
    """Return what an engine takes."""
    return _bitmap_cost(shape, family) if shape.bitmap else _gaps_cost(shape, family)


def _bitmap_cost(shape: Shape, family: Family) -> Cost:
    """Return what a bitmap takes: a program, one memory of activations, a tree, one sum."""
    lanes, words = shape.lanes, max(2, shape.activation_words)
    banks = bank_sizes(shape.depth, shape.word_bits, family)
    # Weights, the halves of a word, and their count's tree for each lane; what tells them what to
    # do, and the ranking.
    each, rest = _ROWS[family.inputs >= 6]
    # A word of weights, what it taps, two words that fill up and one that waits, and counts.
    registers = lanes * 6 + lanes + 4 * shape.sum_bits + 3 * shape.q_bits + 100
    return Cost(
        tables=each * lanes + rest + (len(banks) - 1) * shape.word_bits,
        registers=registers + shape.word_bits,
        memory_bits=shape.depth * shape.word_bits + words * lanes,
        blocks=blocks_of(banks, shape.word_bits, family) + family.memory.blocks(words, lanes),
    )


def _gaps_cost(shape: Shape, family: Family) -> Cost:
    """Return what lanes take that follow gap codes."""
    lanes, prices = shape.lanes, _PRICES[family.inputs >= 6]
    banks = bank_sizes(shape.depth, shape.word_bits, family)
    sums = shape.sum_bits * (2 + shape.counts) + 2 * shape.position_bits
    counted = shape.sum_bits + 3 * shape.q_bits if shape.counts else 0
    tables = (
        prices.shared
        + prices.lane * lanes * sums
        + prices.choice * lanes * (lanes - 1)
        + prices.counted * counted
        + prices.bank * (len(banks) - 1) * shape.word_bits
        + _encoder(shape, family)
    )
    each = (
        shape.sum_bits + shape.position_bits + lanes + 2 * bits_for(lanes) + 6
        + shape.header_words * shape.slot_bits
    )  # fmt: skip
    registers = (
        165 + lanes * each + shape.classes * shape.score_bits + shape.word_bits + 3 * shape.q_bits
    )
    memories = [(size, shape.word_bits, 1) for size in banks]
    if shape.activation_words:
        memories.append((max(2, shape.activation_words), lanes, lanes))
    if shape.integers:
        words = (1 << bits_for(shape.values)) + shape.values
        memories.append((words, shape.value_bits, lanes))
    return Cost(
        tables=round(tables),
        registers=registers,
        memory_bits=sum(words * bits * copies for words, bits, copies in memories),
        blocks=sum(copies * blocks_of([words], bits, family) for words, bits, copies in memories),
    )


def _encoder(shape: Shape, family: Family) -> int:
    """Return the tables that look up thresholds, where channels have different ones."""
    if len(set(shape.thresholds)) == len(set(shape.flips)) == 1 or not shape.thresholds:
        return 0
    number = bits_for(len(shape.thresholds) * shape.planes)
    return shape.value_bits * look_up_cost(number, family)
