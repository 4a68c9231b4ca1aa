"""How a program's memory is cut into banks, so that few blocks hold it."""

from sbnn_hw.families import Family

__all__ = ["bank_sizes", "blocks_of"]

#: Banks that a memory has at most: what is read of them must be chosen among.
_MOST = 3


def bank_sizes(words: int, bits: int, family: Family) -> list[int]:
    """Return the words of each bank; all but the last are powers of two, and smaller ones follow.

    Yosys takes one shape of blocks for a memory, so that one whose depth is no power of two would
    waste much of them.
    """
    best = min(_cuts(words, words, _MOST), key=lambda sizes: (blocks_of(sizes, bits, family), len(sizes)))
    return list(best)


def blocks_of(sizes: "list[int] | tuple[int, ...]", bits: int, family: Family) -> float:
    """Return the blocks that banks take."""
    return sum(family.memory.blocks(size, bits) for size in sizes)


def _cuts(words: int, largest: int, banks: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [(words,)]
    if banks > 1:
        size = 256
        while size < words and size <= largest:
            found += [(size, *rest) for rest in _cuts(words - size, size, banks - 1)]
            size *= 2
    return found
