"""What a neuron or a class takes for each number of taps, before its threshold is known.

Training spends a budget of tables by these costs.
"""

from sbnn_hw.cost.heap import lut_cost
from sbnn_hw.cost.prices import heap_columns
from sbnn_hw.families import Family

__all__ = ["CLASS", "class_costs", "neuron_costs", "remainder_tables", "wide_costs"]

#: Tables of a class in the search for the largest score.
CLASS = 11
#: Tables of the bits of a class's sum, where pixels are counted as they arrive.
_TOTAL = 10
#: Bits of a map for which a table tells what they count, wherever they are in it.
_PLACES = 32
#: A tap alone needs no table, but a register; the price of one in tables.
_WIRE = 0.25


def neuron_costs(fan_in: int, family: Family, *, q_bits: int = 0) -> list[float]:
    """Return the tables of a neuron with 0, 1, … ``fan_in`` taps, and ``q_bits`` bits of q.

    The threshold is taken in the middle of its range, where heaps are dear. With q it may lie
    anywhere near there, so the mean of four thresholds is taken. Otherwise neurons would choose
    numbers of taps that happen to be cheap at one of them.
    """
    near = range(-1, 3) if q_bits else range(1)
    costs = [0.0]
    for taps in range(1, fan_in + 1):
        columns = heap_columns(taps, q_bits)
        most = sum(count << column for column, count in enumerate(columns))
        middle = (most + 1) // 2
        heaps = [lut_cost(columns, middle + at, family) for at in near]
        cost = sum(heaps) / len(heaps) if most > 1 else _WIRE
        costs.append(max(cost, costs[-1]))
    return costs


def wide_costs(fan_in: int, bits: int, family: Family, *, q_bits: int = 0) -> list[float]:
    """Return the same where inputs have several bits: all of them are added up."""
    return [family.sums.bit * (bits * n + q_bits) if n else 0.0 for n in range(fan_in + 1)]


def class_costs(
    fan_in: int, family: Family, map_before: tuple[int, int] | None = None
) -> list[float]:
    """Return the tables of a class with 0, 1, … ``fan_in`` taps.

    ``map_before`` is the number of pixels and channels, where those arrive one after the other.
    """
    costs = [family.sums.bit * taps for taps in range(fan_in + 1)]
    if map_before is not None:
        pixels, channels = map_before
        # Over as many cycles as a table has room for, but no more than a map usually leaves.
        cycles = max(1, min(4, _PLACES // pixels))
        # A table tells what a bit counts where it arrives, and the count is added up.
        most = (1 + family.sums.bit) * -(-channels // cycles) + _TOTAL
        costs = [min(cost, most) for cost in costs]
    return costs


def remainder_tables(k: int, family: Family) -> float:
    """Return the tables of a comparison of q's remainder, of k bits, with a constant."""
    if k <= 1:
        return 0.0
    tables = float(lut_cost((1,) * k, (1 << k) // 3 | 1, family))
    # Two with the same inputs share a table where it has two outputs.
    return tables / 2 if k <= family.paired else tables
