"""What the pieces of a network take, told from their sizes alone.

Neurons are looked up in the heaps' exact costs. Sums and comparisons of numbers have a price for
each bit, which the family knows.
"""

from functools import cache

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.heap import Counts, lut_cost
from sbnn_hw.families import Family, LookUp

__all__ = [
    "SEARCHED",
    "choosing",
    "comparison_cost",
    "counter_cost",
    "heap_columns",
    "largest_tables",
    "look_up_cost",
    "neuron_tables",
    "shared_sum",
]

#: Above this fan-in the cost of a heap grows evenly; searching it would only take time.
SEARCHED = 128


def heap_columns(taps: int, q_bits: int) -> Counts:
    """Return the heap of a neuron: taps below, q's whole bits, and one that tells its remainder."""
    columns = [taps + (1 if q_bits else 0), *[0] * (q_bits - 1)]
    for column in range(q_bits):
        columns[column] += 1
    return tuple(columns)


def neuron_tables(
    taps: int, threshold: int, q_bits: int, family: Family, searched: int = SEARCHED
) -> float:
    """Return the tables of a neuron.

    Parameters
    ----------
    taps, threshold : int
        How many there are, and what their sum must reach.
    q_bits : int
        Whole bits of q that are added to them.
    family : Family
        Whose tables are counted.
    searched : int
        The largest fan-in that is looked up.
    """
    if taps > searched:
        full = neuron_tables(searched, searched // 2, q_bits, family, searched)
        return full * taps / searched
    columns = heap_columns(taps, q_bits)
    most = sum(count << column for column, count in enumerate(columns))
    return lut_cost(columns, threshold, family) if 0 < threshold <= most else 0


def shared_sum(
    inputs: int, input_bits: int, step: int, k: int, sums: int, family: Family
) -> tuple[int, float]:
    """Return the whole bits of q·Ξ/2^k that each neuron adds, and the tables that make them.

    Parameters
    ----------
    inputs, input_bits : int
        How many inputs q is the sum of, and the bits of each.
    step, k : int
        The absolute value of Ξ, and k.
    sums : int
        How many such sums a layer has: one for each group.
    family : Family
        Whose tables are counted.
    """
    most = inputs * (2**input_bits - 1)
    product = max(0, (step.bit_count() - 1) * (most.bit_length() + k) / 2)
    tables = sums * (inputs * input_bits + product) * family.sums.bit
    return max(1, (step * most >> k).bit_length()), tables


def counter_cost(size: int, family: Family) -> Cost:
    """Return what a counter takes that starts again from zero after so many steps."""
    bits = (size - 1).bit_length()
    # Two thirds of it count; the rest compares with something else, which there is not here.
    return Cost(tables=round(bits * family.sums.counter * 2 / 3), registers=bits)


def largest_tables(classes: int, score_bits: int, family: Family) -> float:
    """Return the tables that find the largest of some scores."""
    index_bits = max(1, (classes - 1).bit_length())
    return (classes - 1) * (score_bits + index_bits / 4) * family.sums.choice


def comparison_cost(threshold: int, bits: int, family: Family) -> float:
    """Return the tables of a comparison of a number with a constant: a power of two is a wire."""
    # What lies below the constant's lowest one has no say.
    bits -= (threshold & -threshold).bit_length() - 1
    if bits <= 1:
        return 0.0
    tables = 1.0 if bits <= family.inputs else 2.0
    # Two with the same inputs share a table where it has two outputs.
    return tables / 2 if bits <= family.paired else tables


def look_up_cost(inputs: int, family: Family) -> int:
    """Return the most tables that any function of some bits takes."""
    return _look_up_cost(inputs, family.look_up)


@cache
def _look_up_cost(inputs: int, look_up: LookUp) -> int:
    if inputs <= look_up.inputs:
        return 1
    chosen = choosing(inputs, look_up)
    return 1 + (_look_up_cost(inputs - chosen, look_up) << chosen)


def choosing(inputs: int, look_up: LookUp) -> int:
    """Return how many bits choose among parts: a table of six inputs has room for two of them.

    One too many inputs are two parts, not four: three tables, not five.
    """
    return 2 if look_up.inputs >= 6 and (inputs - look_up.inputs) % 2 == 0 else 1
