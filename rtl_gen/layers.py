"""What the stages without state compute, as tables: neurons, scores, encoders, pools, argmax."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sbnn_hw.families import Family
from sbnn_hw.netlist import Edge, Encode, Layer, Recode, Scores, Taps
from sbnn_hw.rtl_gen.build import add_up, gather_columns, look_up, reaches
from sbnn_hw.rtl_gen.logic import FALSE, TRUE, Logic
from sbnn_hw.rtl_gen.numbers import add, at_least, compare
from sbnn_hw.rtl_gen.share import find_blocks

__all__ = [
    "SharedSum", "argmax", "choose", "count_connections", "decide", "encode", "fire",
    "pool", "recode", "score", "weigh_taps",
]

#: The literals of a value's bits, least significant first.
Bits = Sequence[int]


class SharedSum:
    """q, once for all the neurons that share it: what Ξ·pc_N adds to each of their heaps.

    Ξ·pc_N becomes V, which is never negative, and a constant: where Ξ is negative, zeros are
    counted in place of ones. Neurons read V / 2^k rounded down, and one bit that tells whether
    the remainder, with what their own threshold has left over, makes one more.

    Parameters
    ----------
    counted : sequence of (int, int)
        The bits that pc_N adds up, weighted; the largest sum that comes is ``most``.
    xi, k : int
        The layer's Ξ and k.
    """

    def __init__(self, logic: Logic, counted: Sequence[tuple[int, int]], most: int, xi: int,
                 k: int, family: Family):
        self.logic, self.family, self.k, self.most = logic, family, k, most
        self.step = abs(xi)
        logic.owner, logic.scope = "q", "q"
        # The zeros are the complements' ones.
        sign = 1 if xi > 0 else -1
        columns, constant = gather_columns((bit, sign * weight) for bit, weight in counted)
        bits = most.bit_length()
        constant = (constant + (most if sign < 0 else 0)) % (1 << bits)
        total = add_up(logic, columns, constant, family)[:bits]
        columns, constant = gather_columns(
            (bit, self.step << position) for position, bit in enumerate(total)
        )
        self.bits = add_up(logic, columns, constant, family)[: (self.step * most).bit_length()]
        #: What V has more than Ξ·pc_N.
        self.excess = self.step * most if sign < 0 else 0
        self._fractions: dict[int, int] = {}
        logic.scope = ""

    @cached_property
    def remainders(self) -> np.ndarray:
        """The values that V modulo 2^k takes, in order."""
        size = 1 << self.k
        steps = np.arange(min(self.most, size - 1) + 1, dtype=np.int64)
        return np.unique(steps * (self.step % size) % size)

    @property
    def whole(self) -> list[tuple[int, int]]:
        """The bits of V / 2^k, rounded down, each with its weight."""
        return [(bit, 1 << n) for n, bit in enumerate(self.bits[self.k :])]

    def split(self, threshold: int) -> tuple[int, int]:
        """Return what a neuron of threshold C compares with, in whole taps, and what is left."""
        goal = threshold + self.excess
        whole = -(-goal >> self.k)
        return whole, (whole << self.k) - goal

    def fraction(self, left: int) -> int:
        """Return the literal of whether V modulo 2^k, with what is left over, reaches 2^k."""
        if not left:
            return FALSE
        # Thresholds that no remainder tells apart are one.
        at = int(np.searchsorted(self.remainders, (1 << self.k) - left))
        if at not in self._fractions:
            self.logic.owner, self.logic.scope = "f", "q"
            columns = [[bit] if bit > 1 else [] for bit in self.bits[: self.k]]
            low = sum(1 << n for n, bit in enumerate(self.bits[: self.k]) if bit == 1)
            self._fractions[at] = (
                reaches(self.logic, columns, int(self.remainders[at]) - low, self.family)
                if at < len(self.remainders) else FALSE
            )
            self.logic.scope = ""
        return self._fractions[at]

    @property
    def nets(self) -> set[int]:
        """The nets that neurons read."""
        return {bit >> 1 for bit in (*self.bits, *self._fractions.values())}


def choose(logic: Logic, code: Bits, options: Sequence[int], family: Family) -> int:
    """Return the option that a binary code selects; codes beyond the options never come."""
    if len(set(options)) == 1:
        return options[0]
    if len(code) <= family.inputs and set(options) <= {0, 1}:
        table = sum(option << n for n, option in enumerate(options))
        return logic.table(table, code)
    half = 1 << len(code) - 1
    low, high = options[:half], options[half:] or options[:1]
    ends = [choose(logic, code[:-1], part, family) for part in (low, high)]
    return logic.table(0b11001010, [*ends, code[-1]])


def fire(logic: Logic, layer: Layer, values: Sequence[Bits], sums: Sequence[SharedSum],
         border: Bits, family: Family, share: int = 0) -> list[int]:
    """Return the literals of a layer's neurons.

    ``values`` are the bits of each of the layer's inputs, ``sums`` what the neurons of each group
    share (nothing where Ξ is zero), ``border`` the number of the border class, where there are
    several. ``share`` bounds the search for taps that neurons can count together.
    """
    thresholds, flips = layer.thresholds.T.tolist(), layer.flips.tolist()
    neurons = len(layer.taps)
    heaps, goals = weigh_taps(layer.taps, values), []
    for neuron, weighted in enumerate(heaps):
        shared = sums[neuron * len(sums) // neurons] if sums else None
        added, goal = _needed(logic, shared, thresholds[neuron], border, layer.k, family, neuron)
        weighted += added
        goals.append(goal)
    if share:
        _share_blocks(logic, layer, values, heaps, goals, share, family)
    outputs = []
    for neuron, (weighted, goal, flip) in enumerate(zip(heaps, goals, flips, strict=True)):
        columns, constant = gather_columns(weighted)
        logic.owner = f"n{neuron}"
        outputs.append(reaches(logic, columns, goal - constant, family) ^ flip)
    return outputs


def _share_blocks(logic: Logic, layer: Layer, values: Sequence[Bits],
                  heaps: list[list[tuple[int, int]]], goals: list[int], steps: int,
                  family: Family) -> None:
    """Put sums of common taps in their place, in the heaps of neurons that gain by it."""
    taps = layer.taps
    if any(len(bits) != 1 for bits in values if bits):
        return
    # A tap and its complement are two different things to share.
    incidence = np.zeros((len(taps), 2 * taps.width), bool)
    incidence[taps.neurons, 2 * taps.indices.astype(np.int64) + taps.inverted] = True
    others = []
    for neuron, weighted in enumerate(heaps):
        columns, constant = gather_columns(weighted[int(taps.fan_in[neuron]):])
        others.append((tuple(map(len, columns)), goals[neuron] - constant))
    for number, (block, users) in enumerate(find_blocks(incidence, others, steps, family)):
        logic.owner = f"block{number}"
        literals = [values[tap // 2][0] ^ tap % 2 for tap in block]
        columns, constant = gather_columns((literal, 1) for literal in literals)
        total = add_up(logic, columns, constant, family)
        for neuron in users:
            # Taking bits away is adding them with negative weight: both meet in one heap.
            heaps[neuron] += [(literal, -1) for literal in literals]
            heaps[neuron] += [(bit, 1 << n) for n, bit in enumerate(total)]


def _needed(logic: Logic, shared: SharedSum | None, thresholds: Sequence[int], border: Bits,
            k: int, family: Family, neuron: int) -> tuple[list[tuple[int, int]], int]:
    """Return what a neuron adds to its taps, and what the sum must reach."""
    if shared is None:
        # Ξ is zero, and so is k: the threshold counts taps.
        wholes, fractions, added = list(thresholds), [FALSE], []
    else:
        goals = [shared.split(threshold) for threshold in thresholds]
        wholes = [whole for whole, _ in goals]
        fractions = [shared.fraction(left) for _, left in goals]
        added = list(shared.whole)
    most = max(wholes)
    if len(thresholds) > 1:
        logic.owner = f"n{neuron}_border"
        less = [most - whole for whole in wholes]
        for position in range(max(less).bit_length()):
            ones = [one >> position & 1 for one in less]
            added.append((choose(logic, border, ones, family), 1 << position))
        if shared is not None:
            added.append((choose(logic, border, fractions, family), 1))
    else:
        added.append((fractions[0], 1))
    return added, most


def decide(logic: Logic, layer: Layer, counts: Sequence[Bits], sums: Sequence[SharedSum],
           family: Family) -> list[int]:
    """Return the literals of a layer's neurons whose taps have been counted already."""
    outputs = []
    for neuron, (threshold, flip) in enumerate(zip(layer.thresholds[0].tolist(),
                                                   layer.flips.tolist(), strict=True)):
        shared = sums[0] if sums else None
        added, goal = _needed(logic, shared, [threshold], [], layer.k, family, neuron)
        weighted = [(bit, 1 << n) for n, bit in enumerate(counts[neuron])]
        columns, constant = gather_columns(weighted + added)
        logic.owner = f"n{neuron}"
        outputs.append(reaches(logic, columns, goal - constant, family) ^ flip)
    return outputs


def weigh_taps(taps: Taps, values: Sequence[Bits]) -> list[list[tuple[int, int]]]:
    """Return for each neuron the bits of its taps, weighted."""
    starts, indices, inverted = (
        array.tolist() for array in (taps.starts, taps.indices, taps.inverted)
    )
    return [
        [
            (bit ^ inverted[tap], 1 << position)
            for tap in range(starts[neuron], starts[neuron + 1])
            for position, bit in enumerate(values[indices[tap]])
        ]
        for neuron in range(len(taps))
    ]


def score(logic: Logic, scores: Scores, weighted: Sequence[Sequence[tuple[int, int]]],
          maximum: int, bits: int, family: Family) -> list[int]:
    """Return the literals of all scores, each in two's complement, one behind the other.

    ``weighted`` has for each class the bits that add up to its count of taps.
    """
    fan_in = scores.taps.fan_in.tolist()
    outputs = []
    for number, counted in enumerate(weighted):
        logic.owner = f"n{number}"
        if scores.weights is not None:
            outputs += add(logic, counted, int(scores.offsets[number]), bits, family)
            continue
        step = (-2 if scores.negative else 2) << scores.shift
        columns, constant = gather_columns((bit, weight * step) for bit, weight in counted)
        half = fan_in[number] * maximum << scores.shift
        constant += int(scores.offsets[number]) + (half if scores.negative else -half)
        total = add_up(logic, columns, constant % (1 << bits), family)
        outputs += (total + [FALSE] * bits)[:bits]
    return outputs


def argmax(logic: Logic, scores: Sequence[Bits], family: Family) -> list[int]:
    """Return the literals of the number of the first largest score: a tree of comparisons."""
    index_bits = max(1, (len(scores) - 1).bit_length())
    entries = [
        (list(bits), [number >> n & 1 for n in range(index_bits)])
        for number, bits in enumerate(scores)
    ]
    level = 0
    while len(entries) > 1:
        winners = []
        for number in range(0, len(entries) - 1, 2):
            logic.owner = f"best{level}_{number // 2}"
            (left, left_index), (right, right_index) = entries[number : number + 2]
            # The earlier one wins a tie.
            keep = compare(logic, left, right, family)

            def pick(a: int, b: int, keep: int = keep) -> int:
                return logic.table(0b11001010, [b, a, keep])

            winners.append((
                [pick(a, b) for a, b in zip(left, right, strict=True)],
                [pick(a, b) for a, b in zip(left_index, right_index, strict=True)],
            ))
        if len(entries) % 2:
            winners.append(entries[-1])
        entries, level = winners, level + 1
    return entries[0][1]


def pool(logic: Logic, bits: Bits, all_of: bool, number: int, family: Family) -> int:
    """Return the literal of the OR, or the AND, of bits."""
    logic.owner = f"n{number}"
    columns, constant = gather_columns((bit, 1) for bit in bits)
    return reaches(logic, columns, (len(bits) if all_of else 1) - constant, family)


def count_connections(logic: Logic, neurons: Sequence[int | Bits], shared: Sequence[set[int]],
                      apart: Bits, bits: int, taps: Taps | None = None) -> int:
    """Count the inputs that each neuron's tables reach, but not through nets that neurons share.

    It is the tables that are followed, not the netlist's taps. The inputs ``apart`` are none:
    they tell where the window lies, or hold what was counted before. Where q is an input itself,
    being the sum of that one alone, no table tells a tap on it from q: there ``taps`` are asked.
    """
    stop = {bit >> 1 for bit in apart}
    alone = set()
    for nets in shared:
        stop |= {net for net in nets if net > logic.inputs}
        alone |= {(net - 1) // bits for net in nets if 0 < net <= logic.inputs}
    total = 0
    for number, neuron in enumerate(neurons):
        stack = [bit >> 1 for bit in ([neuron] if isinstance(neuron, int) else neuron)]
        seen = set(stack)
        found = set()
        while stack:
            net = stack.pop()
            if net in stop or not net:
                continue
            if net <= logic.inputs:
                found.add((net - 1) // bits)
                continue
            for read in logic.reads[net]:
                if read not in seen:
                    seen.add(read)
                    stack.append(read)
        if alone and taps is not None:
            found -= alone - set(taps.indices[taps.of(number)].tolist())
        total += len(found)
    return total


def encode(logic: Logic, encoder: Encode, values: Sequence[Bits], edge: Edge,
           family: Family) -> list[int]:
    """Return the literals of the encoder's bits.

    A bit that is always the same reads nothing: its value need not have been built.
    """
    thresholds, flips = encoder.thresholds.tolist(), encoder.flips
    outputs = []
    for number, bits in enumerate(values):
        channel = number % len(thresholds)
        for plane, threshold in enumerate(thresholds[channel]):
            logic.owner = f"p{number}_{plane}"
            flip = flips is not None and bool(flips[channel, plane])
            if not edge.low < threshold <= edge.high:
                outputs.append((TRUE if threshold <= edge.low else FALSE) ^ flip)
                continue
            outputs.append(at_least(logic, bits, edge.signed, threshold, family) ^ flip)
    return outputs


def recode(logic: Logic, operation: Recode, values: Sequence[Bits], family: Family) -> list[int]:
    """Return the literals of what values become by a table."""
    numbers = operation.table.tolist()
    outputs = []
    for number, bits in enumerate(values):
        logic.owner = f"p{number}"
        for place in range(numbers[-1].bit_length()):
            answers = sum((n >> place & 1) << value for value, n in enumerate(numbers))
            outputs.append(look_up(logic, answers, bits, family))
    return outputs
