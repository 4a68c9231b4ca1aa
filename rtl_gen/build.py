"""Carry out the plans of heaps: from columns of literals to tables."""

from collections.abc import Iterable, Sequence

from sbnn_hw.cost.heap import Move, apply_free, free_move, outgoing, plan
from sbnn_hw.cost.prices import choosing
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.logic import FALSE, TRUE, Logic, table_of

__all__ = ["Columns", "add_up", "gather_columns", "look_up", "reaches", "select"]

#: How many chains in a row may wait for one bit: the more, the cheaper sums are, and the deeper.
CHAINED = 12

#: Literals by weight: column *c* has those that weigh 2^c.
Columns = list[list[int]]

_SUM3, _CARRY3 = table_of((1, 1, 1), 1, 2), table_of((1, 1, 1), 2)
_SUM5 = table_of((1,) * 5, 1, 2)
# The carry of a full adder whose one input is itself the sum of three bits.
_CARRY_OF_SUM = sum(
    1 << i
    for i in range(32)
    if (i.bit_count() - (i >> 3).bit_count()) % 2 + (i >> 3).bit_count() >= 2
)


def _with_carry(table3: int) -> int:
    """Return the table over a, b, c, d, e of a function of (carry of a, b, c), d and e."""
    return sum(
        1 << i
        for i in range(32)
        if table3 >> (((i & 7).bit_count() >= 2) + (i >> 3 << 1)) & 1
    )


_SUM_WITH_CARRY, _CARRY_WITH_CARRY = _with_carry(_SUM3), _with_carry(_CARRY3)


def gather_columns(weighted: Iterable[tuple[int, int]]) -> tuple[Columns, int]:
    """Sort (literal, weight) into columns, each literal once in each; return the constant too.

    Weights may be any integers: a negative one is that of the complement, less a constant. A bit
    that comes twice weighs double, with its complement it is a constant.
    """
    weights: dict[int, int] = {}
    constant = 0
    for literal, weight in weighted:
        net = literal >> 1
        if literal & 1:
            constant += weight
            weight = -weight
        if net:
            weights[net] = weights.get(net, 0) + weight
    columns: Columns = []
    for net, weight in weights.items():
        literal = 2 * net
        if weight < 0:
            constant += weight
            weight, literal = -weight, literal + 1
        while len(columns) < weight.bit_length():
            columns.append([])
        for column in range(weight.bit_length()):
            if weight >> column & 1:
                columns[column].append(literal)
    return columns, constant


class _Heap:
    """Columns under work. Bits are taken earliest first, so that late ones wait at the end."""

    def __init__(self, logic: Logic, columns: Columns):
        self.logic = logic
        self.columns = [self.ordered(column) for column in columns]
        #: What tables that turned out constant have added.
        self.constant = 0
        #: Whether a table turned out constant since this was last reset: plans no longer fit then.
        self.surprised = False

    def ordered(self, column: Iterable[int]) -> list[int]:
        # Latest first: taking from the end takes the earliest. The number breaks ties.
        return sorted(column, key=lambda bit: (-self.logic.level(bit), -bit))

    def take(self, column: int, count: int) -> list[int]:
        bits = self.columns[column]
        taken = bits[len(bits) - count :][::-1]
        del bits[len(bits) - count :]
        return taken

    def put(self, column: int, bit: int) -> None:
        while len(self.columns) <= column:
            self.columns.append([])
        if bit in (FALSE, TRUE):
            self.constant += bit << column
            self.surprised = True
            return
        bits, level = self.columns[column], self.logic.level(bit)
        at = len(bits)
        while at and self.logic.level(bits[at - 1]) < level:
            at -= 1
        bits.insert(at, bit)

    def add(self, column: int) -> None:
        bits = self.take(column, 3)
        self.put(column, self.logic.table(_SUM3, bits))
        self.put(column + 1, self.logic.table(_CARRY3, bits))

    def half_add(self, column: int) -> None:
        bits = self.take(column, 2)
        self.put(column, self.logic.table(0b0110, bits))
        self.put(column + 1, self.logic.table(0b1000, bits))

    def count(self, column: int) -> None:
        self._count(column, FALSE)

    def chain(self, column: int) -> None:
        self._count(column, self.take(column + 1, 1)[0])

    def _count(self, column: int, other: int) -> None:
        bits = self.take(column, 5)
        inputs = [*bits[:3], self.logic.table(_CARRY_OF_SUM, bits), other]
        self.put(column, self.logic.table(_SUM5, bits))
        self.put(column + 1, self.logic.table(_SUM_WITH_CARRY, inputs))
        self.put(column + 2, self.logic.table(_CARRY_WITH_CARRY, inputs))


def reaches(logic: Logic, columns: Columns, threshold: int, family: Family) -> int:
    """Return the literal of whether the weighted bits add up to a threshold or more."""
    number: dict[int, int] = {}
    logic.heaps.add((
        tuple(tuple(number.setdefault(bit >> 1, len(number)) for bit in bits) for bits in columns),
        threshold,
    ))
    heap = _Heap(logic, columns)
    flip = 0
    while True:
        threshold, heap.constant, heap.surprised = threshold - heap.constant, 0, False
        while heap.columns and not heap.columns[-1]:
            heap.columns.pop()
        counts = tuple(map(len, heap.columns))
        free = free_move(counts, threshold) if counts else ("always" if threshold <= 0 else "never")
        if free in ("always", "never"):
            return (TRUE if free == "always" else FALSE) ^ flip
        if free == "wire":
            return next(bits[0] for bits in heap.columns if bits) ^ flip
        if free:
            _, new_threshold = apply_free(counts, threshold, free)
            flip ^= _carry_out_free(heap, free, threshold)
            threshold = new_threshold
            continue
        move = plan(counts, threshold, family).move
        if move is None:
            bits, weights = [], []
            for column, column_bits in enumerate(heap.columns):
                bits += column_bits
                weights += [1 << column] * len(column_bits)
            return logic.table(table_of(tuple(weights), threshold), bits) ^ flip
        threshold = _carry_out(heap, move, threshold)


def _carry_out_free(heap: _Heap, move: str, threshold: int) -> int:
    """Change the heap as the free move says; return whether the answer is turned round."""
    match move:
        case "shorten":
            heap.columns.pop()
        case "halve" | "drop":
            del heap.columns[0]
        case "raise":
            bit = heap.columns.pop(0)[0]
            heap.put(0, bit)
        case "complement":
            heap.columns = [[bit ^ 1 for bit in bits] for bits in heap.columns]
            return 1
        case "lower":
            top = (threshold - 1).bit_length()
            high = [bit for bits in heap.columns[top:] for bit in bits]
            heap.columns[top:] = [heap.ordered(high)]
    return 0


def _carry_out(heap: _Heap, move: Move, threshold: int) -> int:
    """Change the heap as the plan's move says; return the threshold that is left."""
    logic = heap.logic
    if any(move.saturated):
        low, high = move.saturated
        bits = heap.take(0, low) + (heap.take(1, high) if high else [])
        weights = (1,) * low + (2,) * high
        _put_saturated(heap, bits, weights, min(low + 2 * high, threshold, 3), move.spread)
        return threshold
    steps = [heap.add] * move.adds + [heap.count] * move.counts + [heap.chain] * move.chains
    for step in steps:
        step(0)
        if heap.surprised:
            return threshold
    if not move.cleared:
        return threshold
    bits = heap.take(0, move.cleared) + (heap.take(1, move.absorbed) if move.absorbed else [])
    weights = (1,) * move.cleared + (2,) * move.absorbed
    most = outgoing(move, threshold)
    base = threshold % 2
    if most == 1:
        heap.put(1, logic.table(table_of(weights, 2, 0, base), bits))
    elif move.spread:
        heap.put(1, logic.table(table_of(weights, 2, 0, base), bits))
        heap.put(1, logic.table(table_of(weights, 4, 0, base), bits))
    else:
        heap.put(1, logic.table(table_of(weights, 2, 4, base), bits))
        heap.put(2, logic.table(table_of(weights, 4, 0, base), bits))
    del heap.columns[0]
    heap.constant >>= 1
    return (threshold + 1) // 2


def _put_saturated(heap: _Heap, bits: Sequence[int], weights: tuple[int, ...], most: int,
                   spread: bool) -> None:
    """Put min(weighted sum, most) on the lowest columns: most is 1, 2 or 3."""
    logic = heap.logic
    one, two, three = (table_of(weights, least) for least in (1, 2, 3))
    if most == 1 or spread:
        heap.put(0, logic.table(one, bits))
    else:
        heap.put(0, logic.table(one & ~two | (three if most == 3 else 0), bits))
    if most > 1:
        heap.put(0 if spread else 1, logic.table(two, bits))


def add_up(logic: Logic, columns: Columns, constant: int, family: Family) -> list[int]:
    """Return the literals of the sum's bits, least significant first."""
    if constant < 0:
        raise ValueError(f"Constant must not be negative, not {constant!r}")
    most = constant + sum(len(bits) << column for column, bits in enumerate(columns))
    heap = _Heap(logic, columns)
    heap.constant = constant
    result = []
    column = 0
    while any(heap.columns[column:]) or heap.constant >> column:
        while len(heap.columns) < column + 2:
            heap.columns.append([])
        bits, above = heap.columns[column], heap.columns[column + 1]
        while True:
            one = heap.constant >> column & 1
            if family.paired >= 5 and len(bits) >= 5:
                # Chains wait for each other where the next column has few bits.
                (heap.chain if len(above) * CHAINED > len(bits) else heap.count)(column)
            elif len(bits) >= 3:
                heap.add(column)
            elif len(bits) == 2 and not one:
                heap.half_add(column)
            elif bits and one:
                # One more than one or two bits: a sum and a carry, as cheap as without.
                heap.constant -= 1 << column
                pair = (*heap.take(column, len(bits)), FALSE)[:2]
                heap.put(column, logic.table(0b1001, pair))
                heap.put(column + 1, logic.table(0b1110, pair))
            else:
                break
        result.append(bits[0] if bits else one)
        column += 1
    # A carry beyond the largest sum never comes.
    return result[: most.bit_length()]


def look_up(logic: Logic, answers: int, bits: Sequence[int], family: Family) -> int:
    """Return the literal of any function of literals: its parts, and a choice among them."""
    if len(bits) <= family.inputs:
        return logic.table(answers, bits)
    chosen = choosing(len(bits), family.look_up)
    size = 1 << len(bits) - chosen
    parts = [answers >> n * size & (1 << size) - 1 for n in range(1 << chosen)]
    ends = [look_up(logic, part, bits[:-chosen], family) for part in parts]
    return select(logic, ends, bits[-chosen:], family)


def select(logic: Logic, options: Sequence[int], number: Sequence[int], family: Family) -> int:
    """Choose one of some literals by its number; numbers beyond the last never come."""
    number = number[: (len(options) - 1).bit_length()]
    count = len(options)
    if count + len(number) <= family.inputs:
        # Below, the options; above, the bits of the number. What never comes is left at zero.
        table = sum(
            1 << (case | which << count)
            for which in range(count)
            for case in range(1 << count)
            if case >> which & 1
        )
        return logic.table(table, [*options, *number])
    # Four in a table with the two bits that choose among them, where it has six inputs.
    chosen = 2 if family.inputs >= 6 and len(number) % 2 == 0 else 1
    size = 1 << len(number) - chosen
    groups = [options[at : at + size] for at in range(0, count, size)]
    ends = [select(logic, group, number[:-chosen], family) for group in groups]
    return select(logic, ends, number[-chosen:], family)
