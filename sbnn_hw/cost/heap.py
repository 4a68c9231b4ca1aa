"""The cheapest way to ask whether a heap of weighted bits reaches a constant.

A heap is a number of bits in each column, column *c* weighing 2^c. Full adders and wider counters
move bits up; what makes thresholds cheaper than sums is that the lowest column need not be added
up exactly once no lower one is left: whether the sum reaches C depends only on the carry that this
column sends up. The search below chooses the moves; :mod:`sbnn_hw.rtl_gen.build` carries them out.

Moves at the lowest column, whose n bits are the only ones of odd weight (``c`` is C modulo 2):

- *add*: three bits become a sum and a carry.
- *count*: five bits become a sum, a carry and a carry's carry.
- *chain*: as *count*, but another bit of the next column is added on the way: the counter
  (2,5;1,2,1). Both take two LUT6_2: five inputs each.
- *clear*: the last bits, with up to three of the next column, become what they send up,
  ⌊(t + c)/2⌋ and the other bits.
- *saturate*: where C is at most 3, so that counting further is vain, bits become min(t, 3).
"""

from dataclasses import dataclass, replace
from functools import cache

from sbnn_hw.families import Family, LookUp

__all__ = [
    "Counts",
    "Move",
    "Plan",
    "lut_cost",
    "plan",
]

#: Columns with more bits than this are reduced with the densest counter alone, but for a few
#: choices at the end: the search stays fast, and nothing is lost that was found below.
WIDE = 24


@dataclass(frozen=True)
class Move:
    """What to do next with a heap.

    Parameters
    ----------
    adds, counts, chains : int
        How often to use each of the exact counters on the lowest column, in this order.
    cleared, absorbed : int
        Bits of the lowest column, and of the next, that the clearing takes; zero if the last
        bit moves up or away by itself.
    saturated : tuple of int
        Bits of the two lowest columns that become min(t, 3), and then nothing else is done.
    spread : bool
        Whether a sum of at most 2 becomes two bits of the same weight.
    """

    adds: int = 0
    counts: int = 0
    chains: int = 0
    cleared: int = 0
    absorbed: int = 0
    saturated: tuple[int, int] = (0, 0)
    spread: bool = False


@dataclass(frozen=True)
class Plan:
    """A heap's cost in tables, and the first move; ``None`` where one table ends it."""

    cost: int
    move: Move | None


Counts = tuple[int, ...]


def value(counts: Counts) -> int:
    """Return the sum of a heap whose bits are all set."""
    return sum(n << column for column, n in enumerate(counts))


def free_move(counts: Counts, threshold: int) -> str:
    """Name the next thing that can be done without a table, if there is one.

    ``never`` and ``always``: the heap is constant. ``halve``: nothing lies in the lowest column.
    ``drop``: the one bit there cannot matter. ``raise``: it counts as much one column higher.
    ``lower``: bits of the top columns decide alone, and may as well do so from a lower one.
    ``complement``: counting zeros has the smaller threshold. ``wire``: one bit is left.
    """
    most = value(counts)
    if threshold <= 0:
        return "always"
    if threshold > most:
        return "never"
    if counts[-1] == 0:
        return "shorten"
    if sum(counts) == 1:
        return "wire"
    if counts[0] == 0:
        return "halve"
    if counts[0] == 1 and len(counts) > 1:
        return "raise" if threshold % 2 else "drop"
    if 2 * threshold > most + 1:
        return "complement"
    if len(counts) - 1 > (threshold - 1).bit_length():
        return "lower"
    return ""


def settle(counts: Counts, threshold: int) -> tuple[Counts, int]:
    """Take all the free moves; a heap of no more than one bit costs nothing."""
    while move := free_move(counts, threshold):
        if move in ("always", "never", "wire"):
            return (), 0
        counts, threshold = apply_free(counts, threshold, move)
    return counts, threshold


def apply_free(counts: Counts, threshold: int, move: str) -> tuple[Counts, int]:
    """Return the heap, and its threshold, that a free move leaves."""
    match move:
        case "shorten":
            return counts[:-1], threshold
        case "halve" | "drop":
            return counts[1:], (threshold + 1) // 2
        case "raise":
            return (counts[1] + 1, *counts[2:]), (threshold + 1) // 2
        case "complement":
            return counts, value(counts) - threshold + 1
        case "lower":
            top = (threshold - 1).bit_length()
            return (*counts[:top], sum(counts[top:])), threshold
    raise ValueError(f"Free move must be one of a few, not {move!r}")


def plan(counts: Counts, threshold: int, family: Family) -> Plan:
    """Return the cheapest plan for a trimmed heap that is not constant."""
    return _plan(counts, threshold, family.look_up)


def lut_cost(counts: Counts, threshold: int, family: Family) -> int:
    """Return how many tables it takes to know whether a heap reaches a threshold.

    Examples
    --------
    >>> from sbnn_hw.families import FAMILIES
    >>> [lut_cost((n,), n // 2, FAMILIES["xc7"]) for n in (1, 6, 7, 13, 39, 64)]
    [0, 1, 2, 6, 22, 39]
    """
    return _cost(counts, threshold, family.look_up)


def _cost(counts: Counts, threshold: int, look_up: LookUp) -> int:
    counts, threshold = settle(counts, threshold)
    return _plan(counts, threshold, look_up).cost if counts else 0


@cache
def _plan(counts: Counts, threshold: int, look_up: LookUp) -> Plan:
    if sum(counts) <= look_up.inputs:
        return Plan(1, None)
    best = Plan(1 << 60, None)
    for move in _moves(counts, threshold, look_up):
        spent = _spent(move, threshold, counts, look_up)
        if spent >= best.cost:
            continue
        cost = spent + _cost(*after(counts, threshold, move), look_up)
        if cost < best.cost:
            best = Plan(cost, move)
    return best


def outgoing(move: Move, threshold: int) -> int:
    """Return the largest sum that a clearing sends up."""
    return (move.cleared + threshold % 2) // 2 + move.absorbed


def _outputs(most: int) -> int:
    return 1 if most == 1 else 2


def _spent(move: Move, threshold: int, counts: Counts, look_up: LookUp) -> int:
    if any(move.saturated):
        taken = sum(move.saturated)
        return look_up.tables(taken, _outputs(_saturation(counts, threshold, move)))
    exact = look_up.paired >= 5
    spent = move.adds * look_up.tables(3, 2) + (move.counts + move.chains) * (2 if exact else 99)
    if move.cleared:
        taken = move.cleared + move.absorbed
        spent += look_up.tables(taken, _outputs(outgoing(move, threshold)))
    return spent


def _saturation(counts: Counts, threshold: int, move: Move) -> int:
    low, high = move.saturated
    return min(low + 2 * high, threshold, 3)


def after(counts: Counts, threshold: int, move: Move) -> tuple[Counts, int]:
    """Return the heap, and its threshold, that a move leaves."""
    n = [*counts, 0, 0, 0]
    if any(move.saturated):
        most = _saturation(counts, threshold, move)
        n[0] -= move.saturated[0] - 1
        n[1] -= move.saturated[1]
        if most > 1:
            n[0 if move.spread else 1] += 1
        return _short(n), threshold
    n[0] -= 2 * move.adds + 4 * (move.counts + move.chains)
    n[1] += move.adds + move.counts
    n[2] += move.counts + move.chains
    if move.cleared:
        most = outgoing(move, threshold)
        n[0] -= move.cleared
        n[1] -= move.absorbed
        n[1] += 2 if move.spread else 1
        if most > 1 and not move.spread:
            n[2] += 1
        return _short(n[1:]), (threshold + 1) // 2
    return _short(n), threshold


def _short(counts: list[int]) -> Counts:
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


def _moves(counts: Counts, threshold: int, look_up: LookUp) -> list[Move]:
    n0 = counts[0]
    n1 = counts[1] if len(counts) > 1 else 0
    limit = look_up.paired or look_up.inputs
    moves = []
    if threshold <= 3:
        for low in range(2, min(n0, limit) + 1):
            for high in range(min(n1, limit - low) + 1):
                most = min(low + 2 * high, threshold, 3)
                if low + high <= _outputs(most):
                    continue
                moves.append(Move(saturated=(low, high)))
                if most == 2:
                    moves.append(Move(saturated=(low, high), spread=True))
        if threshold == 1:
            wide = range(limit + 1, min(n0, look_up.inputs) + 1)
            moves += [Move(saturated=(low, 0)) for low in wide]
    exact = look_up.paired >= 5
    total = sum(counts)
    for left in range(1, n0 + 1):
        # Each add takes a bit off the heap, each count two, each chain three.
        if (n0 - left) % 2 or (left > limit and total - (n0 - left) > look_up.inputs):
            continue
        pairs = (n0 - left) // 2
        most = pairs // 2 if exact else 0
        least = 0 if n0 <= WIDE else max(0, most - 3)
        for fives in range(most, least - 1, -1):
            for counts5 in range(min(fives, 1 if n0 > WIDE else 2) + 1):
                adds, chains = pairs - 2 * fives, fives - counts5
                if chains and not n1 + adds + counts5:
                    continue
                base = Move(adds, counts5, chains)
                rest = total - adds - 2 * counts5 - 3 * chains
                if (left == 1 or rest <= look_up.inputs) and (adds or fives):
                    moves.append(base)
                if left == 1 or left > limit:
                    continue
                next_column = n1 + adds + counts5
                for absorbed in range(min(limit - left, next_column) + 1):
                    move = replace(base, cleared=left, absorbed=absorbed)
                    sent = outgoing(move, threshold)
                    if sent <= 3:
                        moves.append(move)
                        if sent == 2:
                            moves.append(replace(move, spread=True))
    return moves
