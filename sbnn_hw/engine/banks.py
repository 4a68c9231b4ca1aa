"""How a program's memory is cut into banks, so that few blocks hold it."""

from sbnn_hw.engine.shape import bits_for
from sbnn_hw.families import Family

__all__ = ["bank_sizes", "blocks_of"]

#: Banks that a memory has at most, and one of very many words: what is read of them must be chosen
#: among.
_MOST, _MANY = 3, 6

#: Words of the smallest bank that others follow.
_LEAST = 256


def bank_sizes(words: int, bits: int, family: Family) -> list[int]:
    """Return the words of each bank; all but the last are powers of two, and smaller ones follow.

    Yosys takes one shape of blocks for a memory, so that one whose depth is no power of two would
    waste much of them. Of a memory deeper than a block, no more blocks than must be stand one above
    the other: each of them would be one more to choose among.
    """
    deepest = max(deep for deep, _ in family.memory.shapes)
    large = words > deepest
    cuts = _cuts(words, 1 << bits_for(words), _MANY if large else _MOST)
    best: tuple[int, ...] = min(
        cuts,
        key=lambda cut: (
            blocks_of(cut, bits, family), large and _stacked(cut, bits, family), len(cut)
        ),
    )  # fmt: skip
    return list(best)


def blocks_of(sizes: "list[int] | tuple[int, ...]", bits: int, family: Family) -> float:
    """Return the blocks that banks take."""
    return sum(family.memory.blocks(size, bits) for size in sizes)


def _stacked(sizes: tuple[int, ...], bits: int, family: Family) -> int:
    """Return how many blocks of banks stand one above the other."""
    return sum(
        min(
            (-(-size // deep) * -(-bits // wide), -(-size // deep))
            for deep, wide in family.memory.shapes
        )[1]
        for size in sizes
    )


def _cuts(words: int, largest: int, banks: int) -> list[tuple[int, ...]]:
    """Return ways to cut words into banks, each of which begins at a multiple of its size."""
    found: list[tuple[int, ...]] = [(words,)] if words <= largest else []
    size = _LEAST
    while banks > 1 and size <= min(largest, words - 1):
        found += [(size, *rest) for rest in _cuts(words - size, size, banks - 1)]
        size *= 2
    return found
