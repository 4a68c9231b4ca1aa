"""Arithmetic on numbers of several bits, of either sign, as tables.

A number is the literals of its bits, least significant first; a signed one is two's complement.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from sbnn_hw.families import Family
from sbnn_hw.netlist import Affine, Edge
from sbnn_hw.rtl_gen.build import Columns, add_up, gather_columns, reaches
from sbnn_hw.rtl_gen.logic import FALSE, Logic

__all__ = [
    "Weighted", "add", "affine", "at_least", "compare", "digits", "extend", "gather_digits",
    "greatest", "weigh",
]

#: The literals of a number's bits.
Bits = Sequence[int]

#: A literal, and what it weighs.
Weighted = tuple[int, int]


def digits(weight: int) -> list[tuple[int, int]]:
    """Return a weight as a sum of few powers of two: signs and exponents.

    Examples
    --------
    >>> digits(7), digits(3), digits(-6), digits(0)
    ([(-1, 0), (1, 3)], [(1, 0), (1, 1)], [(-1, 1), (-1, 2)], [])
    """
    sign, left = (1, weight) if weight >= 0 else (-1, -weight)
    plain = [(sign, n) for n in range(left.bit_length()) if left >> n & 1]
    found, n = [], 0
    while left:
        if left & 1:
            # Of a run of ones, the one behind it less the first.
            digit = 2 - left % 4
            found.append((sign * digit, n))
            left -= digit
        left >>= 1
        n += 1
    return found if len(found) < len(plain) else plain


def gather_digits(weighted: Iterable[Weighted]) -> tuple[Columns, int]:
    """Sort (literal, weight) into columns, with few digits for each; return the constant too."""
    weights: dict[int, int] = {}
    constant = 0
    for literal, weight in weighted:
        if literal & 1:
            constant += weight
            weight = -weight
        if literal >> 1:
            weights[literal >> 1] = weights.get(literal >> 1, 0) + weight
    columns: Columns = []
    for net, weight in weights.items():
        for sign, exponent in digits(weight):
            while len(columns) <= exponent:
                columns.append([])
            # A bit taken away is its complement added, less one.
            columns[exponent].append(2 * net + (sign < 0))
            constant -= (sign < 0) << exponent
    return columns, constant


def weigh(bits: Bits, factor: int, signed: bool) -> list[Weighted]:
    """Return the bits of a number, each with what it weighs times a factor."""
    weights = [factor << n for n in range(len(bits))]
    if signed:
        weights[-1] = -weights[-1]
    return list(zip(bits, weights, strict=True))


def add(logic: Logic, weighted: Iterable[Weighted], constant: int, size: int,
        family: Family) -> list[int]:
    """Return so many bits of a sum, that of a constant included."""
    columns, more = gather_digits(weighted)
    total = add_up(logic, columns[:size], (constant + more) % (1 << size), family)
    return (total + [FALSE] * size)[:size]


def extend(bits: Bits, size: int, signed: bool) -> list[int]:
    """Return a number in more bits."""
    return [*bits, *[bits[-1] if signed else FALSE] * (size - len(bits))]


def at_least(logic: Logic, bits: Bits, signed: bool, threshold: int, family: Family) -> int:
    """Return the literal of whether a number reaches a threshold."""
    columns, constant = gather_columns(weigh(bits, 1, signed))
    return reaches(logic, columns, threshold - constant, family)


def compare(logic: Logic, left: Bits, right: Bits, family: Family) -> int:
    """Return the literal of left ≥ right, both in two's complement and equally wide."""
    # left − right ≥ 0, with the complement of right, and the signs' weight turned round.
    weighted = [(bit, 1 << n) for n, bit in enumerate(left[:-1])]
    weighted += [(bit ^ 1, 1 << n) for n, bit in enumerate(right[:-1])]
    top = len(left) - 1
    weighted += [(left[-1] ^ 1, 1 << top), (right[-1], 1 << top)]
    columns, constant = gather_columns(weighted)
    return reaches(logic, columns, (2 << top) - 1 - constant, family)


def greatest(logic: Logic, numbers: Sequence[Bits], signed: bool, family: Family) -> list[int]:
    """Return the greatest of some numbers of the same size."""
    left = [list(bits) for bits in numbers]
    while len(left) > 1:
        pairs = zip_longest(left[::2], left[1::2])
        left = [a if b is None else _greater(logic, a, b, signed, family) for a, b in pairs]
    return left[0]


def _greater(logic: Logic, a: Bits, b: Bits, signed: bool, family: Family) -> list[int]:
    size = len(a) + (not signed)
    keep = compare(logic, extend(a, size, signed), extend(b, size, signed), family)
    return [logic.table(0b11001010, [y, x, keep]) for x, y in zip(a, b, strict=True)]


class _Raised:
    """A number that is never negative: what is meant, and a multiple of a power of two.

    Parameters
    ----------
    bits : sequence of int
        Its literals.
    by : int
        What it has more than what is meant: the lowest bits are those of what is meant.
    """

    def __init__(self, bits: Bits, by: int):
        self.bits, self.by = list(bits), by

    def clamp(self, logic: Logic, ends: tuple[int, int], clamp: tuple[int, int], size: int,
              family: Family) -> list[int]:
        """Return the number, which lies between its ends, as near as it is within the clamp."""
        (least, most), (low, high) = ends, clamp
        over = under = FALSE
        if most > high:
            over = at_least(logic, self.bits, False, high + 1 + self.by, family)
        if least < low:
            under = at_least(logic, self.bits, False, low + self.by, family) ^ 1
        found = []
        for n, bit in enumerate((self.bits + [FALSE] * size)[:size]):
            top, bottom = high >> n & 1, low >> n & 1
            # By bit, over and under; both never come together.
            table = sum((top if case >> 1 & 1 else bottom if case >> 2 else case & 1) << case
                        for case in range(8))
            found.append(logic.table(table, [bit, over, under]))
        return found


def affine(logic: Logic, operation: Affine, channel: int, numbers: Sequence[Bits],
           edges: Sequence[Edge], out: Edge, family: Family) -> list[int]:
    """Return one channel of an affine: multiplied, added, shifted and clamped."""
    factors = [int(row[channel]) for row in operation.multipliers]
    offset, shift = int(operation.offsets[channel]), operation.shift
    weighted = [
        pair for bits, factor, edge in zip(numbers, factors, edges, strict=True)
        for pair in weigh(bits, factor, edge.signed)
    ]
    terms = [(m * edge.low, m * edge.high) for m, edge in zip(factors, edges, strict=True)]
    low, high = (offset + sum(map(end, terms)) for end in (min, max))

    def scaled(factor: int, more: int, by: int) -> tuple[_Raised, tuple[int, int]]:
        """Return ⌊(t·factor + more)/2^by⌋, and its ends."""
        ends = sorted(t * factor + more >> by for t in (low, high))
        made = _shifted(logic, [(bit, weight * factor) for bit, weight in weighted],
                        offset * factor + more, by, (ends[0], ends[1]), out.bits, family)
        return made, (ends[0], ends[1])

    clamp = (operation.low, operation.high)
    if operation.slopes is None or operation.offsets_behind is None:
        weighted, offset = _looked_up(logic, numbers, factors, edges, offset, shift + out.bits,
                                      family)
        made, ends = scaled(1, 0, shift)
        return made.clamp(logic, ends, clamp, out.bits, family)
    slope, by = int(operation.slopes[channel]), operation.slope_shift
    behind = int(operation.offsets_behind[channel])
    if low >= 0 or slope == 1 << by:
        made, ends = scaled(1, behind >> by, shift)
        return made.clamp(logic, ends, clamp, out.bits, family)
    if high < 0:
        made, ends = scaled(slope, behind, shift + by)
        return made.clamp(logic, ends, clamp, out.bits, family)
    # Both sides of zero, of which the sign chooses.
    t = add(logic, weighted, offset, Edge((1,), low, high).bits, family)
    above = 0 + (behind >> by) >> shift, high + (behind >> by) >> shift
    below = sorted(t * slope + behind >> shift + by for t in (low, -1))
    ends = min(above[0], below[0]), max(above[1], below[1])
    sides = [
        _shifted(logic, weigh(t, factor, True), more, places, ends, out.bits, family)
        for factor, more, places in ((1, behind >> by, shift), (slope, behind, shift + by))
    ]
    bits = [logic.table(0b11001010, [a, b, t[-1]])
            for a, b in zip(*(side.bits for side in sides), strict=True)]
    return _Raised(bits, sides[0].by).clamp(logic, ends, clamp, out.bits, family)


def _looked_up(logic: Logic, numbers: Sequence[Bits], factors: Sequence[int],
               edges: Sequence[Edge], offset: int, size: int, family: Family,
               ) -> tuple[list[Weighted], int]:
    """Return sources times their factors as weighted bits, and the offset that is left.

    A source that has no more bits than a table has inputs is multiplied by one table for each bit
    of the product, if its factor has several digits. The first one takes the offset with it, but
    for a multiple of 2^size: where nothing else is added, no carry has to pass.
    """
    weighted: list[Weighted] = []
    for bits, factor, edge in zip(numbers, factors, edges, strict=True):
        if len(bits) > family.inputs or len(digits(factor)) < 3:
            weighted += weigh(bits, factor, edge.signed)
            continue
        ends = sorted((factor * edge.low + offset, factor * edge.high + offset))
        left = ends[0] >> size << size
        # What lies outside of the edge never comes.
        values = [factor * min(max(n - (edge.signed and n >> len(bits) - 1) * (1 << len(bits)),
                                   edge.low), edge.high) + offset - left
                  for n in range(1 << len(bits))]
        for place in range((ends[1] - left).bit_length()):
            answers = sum((value >> place & 1) << n for n, value in enumerate(values))
            weighted.append((logic.table(answers, bits), 1 << place))
        offset = left
    return weighted, offset


def _shifted(logic: Logic, weighted: Sequence[Weighted], constant: int, by: int,
             ends: tuple[int, int], size: int, family: Family) -> _Raised:
    """Return ⌊sum/2^by⌋, which lies between its ends wherever it matters."""
    # Raised such that nothing is negative, and the lowest bits stay what they are.
    raised = -(min(ends[0], 0) >> size) << size
    width = max(size, (ends[1] + raised).bit_length())
    total = add(logic, weighted, constant + (raised << by), by + width, family)
    return _Raised(total[by:], raised)
