"""Where ways through a network meet: a queue for each, and a value when all hold one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.memory import memory_cost
from sbnn_hw.cost.prices import counter_cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.parts.part import Part, Times

__all__ = ["Join", "Queue", "fit_queues", "overflow_name"]


def overflow_name(number: int) -> str:
    """Return the signal that stays 1 once a join's queue was too short."""
    return f"queue{number}_overflow"


@dataclass(frozen=True, eq=False)
class Queue:
    """Values that wait for others.

    Parameters
    ----------
    bits : int
        Of a value.
    words : int
        How many wait behind the first, in a memory; with none, the queue is one register.
    family : Family
        Decides what the memory is made of.
    """

    bits: int
    words: int
    family: Family

    @property
    def latency(self) -> int:
        """Cycles from a value to when it can be taken: a memory is written first, then read."""
        return 2 if self.words else 1

    @property
    def depth(self) -> int:
        """How many values it holds."""
        return self.words + 1

    @property
    def places(self) -> int:
        """Places of its memory: a power of two, so that counters need not start again."""
        return 1 << self.words.bit_length()

    @property
    def cost(self) -> Cost:
        """What it takes."""
        if not self.words:
            return Cost(tables=1, registers=self.bits + 1)
        # The memory's cost has one counter: of places. Another one goes up and down, and their
        # difference is where the first value is.
        level = counter_cost(self.places, self.family)
        control = level + level + Cost(tables=2, registers=1 - level.registers)
        return memory_cost(self.places, self.bits, self.family) + control


class Join(Part):
    """Give a value of each input together, as soon as there is one of each.

    Takes a value of each input in every cycle. Either input may lead: what comes first waits in a
    queue. The queues are as deep as the greatest lead (:func:`fit_queues`). Once a value too many
    has come, a queue's signal ``overflow`` stays 1.

    Parameters
    ----------
    queues : sequence of Queue
        One for each input.
    """

    def __init__(self, queues: Sequence[Queue]):
        self.queues = tuple(queues)
        width = sum(queue.bits for queue in queues)
        super().__init__(width, width, latency=max(queue.latency for queue in queues))

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each input."""
        return tuple(queue.bits for queue in self.queues)

    def _weigh(self) -> Cost:
        return sum((queue.cost for queue in self.queues), Cost(tables=1))

    def meet(self, arrivals: Sequence[Times]) -> Times:
        """Return in which cycles outputs are given, for inputs in some cycles."""
        pairs = zip(arrivals, self.queues, strict=True)
        met: Times = np.max([times + queue.latency for times, queue in pairs], axis=0)
        return met


def fit_queues(bits: Sequence[int], patterns: Sequence[Sequence[Times]], family: Family) -> Join:
    """Return the join whose queues just hold what waits in them.

    Parameters
    ----------
    bits : sequence of int
        Of a value of each input.
    patterns : sequence of sequence of array
        Some ways in which the values of each input may come.
    family : Family
        Decides what memories are made of.
    """
    join = Join([Queue(size, 0, family) for size in bits])
    while True:
        # A memory takes a cycle more, for which the other inputs may have to wait in turn.
        short = [n for n, queue in enumerate(join.queues)
                 if not queue.words and _most(patterns, queue, n, join) > 1]
        if not short:
            break
        join = Join([replace(queue, words=1) if n in short else queue
                     for n, queue in enumerate(join.queues)])
    return Join([
        replace(queue, words=_most(patterns, queue, n, join)) if queue.words else queue
        for n, queue in enumerate(join.queues)
    ])


def _most(patterns: Sequence[Sequence[Times]], queue: Queue, number: int, join: Join) -> int:
    """Return how many values are kept at most, not counting the first that a memory has read."""
    found = 1
    for pattern in patterns:
        entered, left = pattern[number], join.meet(pattern)
        if queue.words:
            # Read when the one before is taken, but not before it is written.
            left = np.maximum(entered + 1, np.concatenate([entered[:1], left[:-1]]))
        # In the cycle behind each arrival: those that have come, without those that have gone.
        gone = np.searchsorted(left, entered + 1)
        found = max(found, int((np.arange(1, len(entered) + 1) - gone).max()))
    return found
