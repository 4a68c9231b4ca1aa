"""What memories take: the lines that windows keep, and whatever is addressed.

Yosys chooses between tables and blocks by weights; the family has them, and the choice below is
the same but for borderline cases. `python bench/parts.py` measures it, and tests compare.
"""

from collections.abc import Mapping

from sbnn_hw.cost.cost import Cost
from sbnn_hw.families import Family

__all__ = ["SHORT", "line_cost", "memory_cost"]

#: Lines up to this long are registers everywhere: a memory would cost more.
SHORT = 8

#: Registers in a row from which synthesis makes a shift register in tables, and how many a table
#: holds.
_IN_A_ROW, _LENGTH = 3, 32


def line_cost(width: int, reach: Mapping[int, int], family: Family) -> Cost:
    """Return what a line takes that gives a map's bits once more, a row later.

    Parameters
    ----------
    width : int
        Pixels of a row.
    reach : mapping of int to int
        For each bit that the line keeps, how many registers of the window hold it already.
    family : Family
        Decides what keeps them.
    """
    if width > max(SHORT, family.memory.shifted):
        return memory_cost(width, len(reach), family)
    chains = [width - back for back in reach.values()]
    if not family.memory.shifted:
        return Cost(registers=sum(chains))
    return Cost(
        tables=sum(-(-left // _LENGTH) for left in chains if left >= _IN_A_ROW),
        registers=sum(left for left in chains if left < _IN_A_ROW),
    )


def memory_cost(words: int, bits: int, family: Family) -> Cost:
    """Return what a memory takes that is written and read at one place, a word in every cycle."""
    memory, size = family.memory, words * bits
    address = (words - 1).bit_length()
    if size <= memory.in_registers:
        # A choice whether to keep each bit, and one among the words.
        return Cost(tables=size + words + address, registers=size + bits + address)
    blocks = memory.blocks(words, bits)
    least = blocks / memory.piece * memory.weight
    found = Cost(address, address, memory_bits=size, blocks=float(blocks))
    for kind in memory.in_tables:
        rows = -(-words // kind.words)
        pieces = rows * -(-bits // kind.bits)
        weight = pieces * kind.weight + (rows - 1) * bits / 2
        if weight < least:
            # A table chooses among as many rows as it has room for.
            choice = bits * -(-(rows - 1) // (3 if family.inputs >= 6 else 1))
            least = weight
            found = Cost(pieces * kind.tables + choice + 2 * address, bits + address)
    return found
