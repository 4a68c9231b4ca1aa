"""Taps that several neurons have in common, counted once for all of them.

Two neurons of a wide layer often share a handful of inputs. Such a block is added up once, and its
sum, a few bits, takes the place of the taps in each of these neurons' heaps.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from sbnn_hw.cost.heap import Counts, lut_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.build import add_up
from sbnn_hw.rtl_gen.logic import Logic

__all__ = ["Block", "find_blocks"]

#: Taps (by column of the incidence matrix) and the neurons that count them together.
Block = tuple[tuple[int, ...], tuple[int, ...]]

# Sizes worth trying, the largest first: what a counter takes in whole.
_SIZES = (7, 6, 5, 3)


@cache
def _counter(size: int, family: Family) -> tuple[int, Counts]:
    """Return what it costs to count some bits, and how many bits come out in each column."""
    logic = Logic(size)
    total = add_up(logic, [[logic.input(n) for n in range(size)]], 0, family)
    nets = logic.live([bit >> 1 for bit in total])
    reads: dict[tuple[int, ...], int] = {}
    for net in nets:
        if logic.reads[net]:
            reads[logic.reads[net]] = reads.get(logic.reads[net], 0) + 1
    cost = sum(family.tables(len(read), outputs) for read, outputs in reads.items())
    return cost, (1,) * len(total)


def find_blocks(taps: np.ndarray, heaps: Sequence[tuple[Counts, int]], steps: int,
                family: Family) -> list[Block]:
    """Choose blocks greedily, each only if it makes the neurons cheaper by more than it costs.

    Parameters
    ----------
    taps : array of bool (neurons, inputs)
        Which neuron has which tap.
    heaps : sequence of (counts, int)
        Each neuron's heap without its taps, and what it must reach.
    steps : int
        Pairs of neurons to look at. It bounds the time, and unlike a clock gives the same result
        everywhere.
    family : Family
        Decides what heaps and blocks cost.
    """
    left = taps.astype(np.float32)
    extra = [list(counts) for counts, _ in heaps]
    goals = [goal for _, goal in heaps]

    def cost(neuron: int, taken: int = 0, put: Counts = ()) -> int:
        counts = [*extra[neuron], 0, 0, 0, 0][: max(4, len(extra[neuron]))]
        counts[0] += int(left[neuron].sum()) - taken
        for column, number in enumerate(put):
            counts[column] += number
        return lut_cost(tuple(counts), goals[neuron], family)

    common = left @ left.T
    np.fill_diagonal(common, 0)
    blocks: list[Block] = []
    for _ in range(steps):
        first, second = (int(at) for at in np.unravel_index(common.argmax(), common.shape))
        overlap = np.flatnonzero((left[first] > 0) & (left[second] > 0))
        if len(overlap) < min(_SIZES):
            break
        best_gain, best = 0, None
        for size in _SIZES:
            if size > len(overlap):
                continue
            # Inputs that most neurons have are the likeliest to be shared by a third.
            order = np.argsort(-left[:, overlap].sum(axis=0), kind="stable")
            block = overlap[order[:size]]
            price, put = _counter(size, family)
            gain, users = -price, []
            for neuron in np.flatnonzero(left[:, block].all(axis=1)).tolist():
                saved = cost(neuron) - cost(neuron, size, put)
                if saved > 0:
                    gain += saved
                    users.append(neuron)
            if gain > best_gain and len(users) > 1:
                best_gain, best = gain, (block, users, put)
        if best is None:
            common[first, second] = common[second, first] = 0
            continue
        block, users, put = best
        left[np.ix_(np.array(users), np.array(block))] = 0
        for neuron in users:
            wide = max(len(put), len(extra[neuron]))
            extra[neuron] += [0] * (wide - len(extra[neuron]))
            for column, number in enumerate(put):
                extra[neuron][column] += number
        blocks.append((tuple(block.tolist()), tuple(users)))
        again = left[users] @ left.T
        # Pairs that were given up stay so: a block only takes taps away.
        common[users] = np.minimum(again, common[users])
        common[:, users] = common[users].T
    return blocks
