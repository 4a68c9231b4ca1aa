"""Layers that read a vector, neurons or scores; it may have to be made of pixels first."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import largest_tables, look_up_cost, neuron_tables, shared_sum
from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import Family
from sbnn_hw.netlist import Edge, Layer, Linear, Scores, Taps
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.build import select as choose_bit
from sbnn_hw.rtl_gen.candidate import (
    Arrival,
    Candidate,
    Estimated,
    Place,
    estimates,
    gather,
    realises,
)
from sbnn_hw.rtl_gen.counting import Tap, count_at, most_at_once, places_of, select_part
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.numbers import Weighted, digits, weigh
from sbnn_hw.rtl_gen.parts.accumulate import Accumulate, Number, Repeat
from sbnn_hw.rtl_gen.parts.best import Best
from sbnn_hw.rtl_gen.parts.dot import Dot
from sbnn_hw.rtl_gen.parts.part import Part
from sbnn_hw.rtl_gen.parts.tables import Function, Wired

__all__ = [
    "cycles_between", "cycles_of", "fire", "linear", "linear_estimate", "neurons_estimate",
    "scores", "scores_estimate",
]

L = TypeVar("L", Linear, Scores)

#: Makes the function of a layer, on a vector or on counts of so many bits.
Decide = Callable[[Place, L, Sequence[int] | None], Function]

#: Numbers of cycles over which a layer behind pixels is tried to be counted.
SERIAL = (1, 2, 3, 4, 6, 8, 12, 16)


@realises("linear", gathers=True)
def linear(place: Place) -> Iterator[Candidate]:
    """Yield neurons, on a vector or on counts of taps."""
    layer = place.operation(Linear)
    counted = layer.taps.width if layer.xi else 0
    yield from _on_vector(place, layer, _neurons, counted)


@realises("scores", gathers=True)
def scores(place: Place) -> Iterator[Candidate]:
    """Yield scores and the class, on a vector or on counts of taps."""
    layer = place.operation(Scores)
    yield from _on_vector(place, layer, _scores, 0)
    if layer.weights is not None and place.options.serial != 1:
        yield from _over_cycles(place, layer)


def cycles_between(arrival: Arrival) -> int:
    """Return the fewest cycles from one image's vector to the next one's.

    Nothing brings them closer than an image that waits for the next one's pixels, and a next one
    that is the last.
    """
    return min(int(np.diff(times).min()) for times in arrival.patterns)


def _over_cycles(place: Place, layer: Scores) -> Iterator[Candidate]:
    """Yield weighted scores that take a bit in each cycle, of as few values as time allows."""
    taps, edge, before = layer.taps, place.edge, gather(place)
    assert layer.weights is not None
    apart = cycles_between(place.arrival.after(before.values()))
    weights = np.zeros((len(taps), taps.width), np.int64)
    weights[taps.neurons, taps.indices] = layer.weights
    lanes = next((n for n in range(1, taps.width + 1)
                  if -(-taps.width // n) * edge.bits < apart), None)
    if lanes is None:
        return
    size, offsets = place.out.bits, layer.offsets
    if edge.signed:
        # The complement of a sign is taken: in every sum, that is as much more than the value.
        offsets = offsets - (weights.sum(axis=1) << edge.bits - 1)
    dot = Dot(edge.bits, weights, offsets, size, lanes, place.family)
    numbered = Repeat(1, place.width, dot.cycles, place.family, watched=True)

    def select(logic: Logic, literals: list[int]) -> list[int]:
        bits, number = literals[: place.width], literals[place.width :]
        if edge.signed:
            bits = [bit ^ (n % edge.bits == edge.bits - 1) for n, bit in enumerate(bits)]
        bits += [FALSE] * (lanes * dot.cycles - place.width)
        found = []
        for lane in range(lanes):
            logic.owner = f"lane{lane}"
            own = bits[lane * dot.cycles : (lane + 1) * dot.cycles]
            found.append(choose_bit(logic, own, number, place.family))
        return found

    name, best = place.name, Best(len(taps), size, place.options.scores, place.family)
    if len(taps) < 2 or best.latency > apart:
        return
    yield Candidate({
        **before, f"{name}_number": numbered,
        f"{name}_bits": place.tables(numbered.width_out, select), f"{name}_sums": dot, name: best,
    }, dot.connections)


def fire(place: Place, logic: Logic, layer: Layer, values: Sequence[layers.Bits],
         sums: Sequence[layers.SharedSum], border: layers.Bits, counts: layers.Bits = ()) -> Wired:
    """Make the neurons' bits; ``counts`` are inputs that hold what was counted before."""
    absent = set(place.stage.absent.tolist())
    fires = layers.fire(logic, layer, values, sums, border, place.family, place.options.share)
    shared = [each.nets for each in sums]
    wired = layers.count_connections(logic, fires, shared, [*border, *counts], place.edge.bits,
                                     layer.taps)
    return Wired([FALSE if n in absent else bit for n, bit in enumerate(fires)], wired)


def _on_vector(place: Place, layer: L, function: Decide[L], counted: int) -> Iterator[Candidate]:
    """Yield a layer that reads a vector, which may have to be made of pixels first."""
    flatten = place.options.flatten
    # Pixels are counted where a tap is a pixel's bits, or not.
    counts = place.arrival.gathered is not None and layer.wiring.weights is None
    if not counts or flatten != "accumulate":
        tables = place.tables(place.width, function(place, layer, None))
        yield Candidate({**gather(place), place.name: tables}, tables.connections, counted)
    if counts and place.arrival.gathered is not None and flatten != "gather":
        _, edge = place.arrival.gathered
        for cycles in cycles_of(place, edge):
            yield _accumulated(place, layer, edge, function, cycles, counted)


def cycles_of(place: Place, edge: Edge) -> list[int]:
    """Return the numbers of cycles over which a map's pixel may be counted, to choose among."""
    between, serial = place.arrival.between, place.options.serial
    if serial > between:
        raise ModelRejected(
            f"its pixels come every {between} cycles, so each cannot be counted in "
            f"{serial} cycles; use a smaller --serial, or 0"
        )
    if serial:
        return [serial]
    return [n for n in SERIAL if n <= min(between, edge.channels)]


def _accumulated(place: Place, layer: L, edge: Edge, function: Decide[L], cycles: int,
                 counted: int) -> Candidate:
    """Return parts that count taps as pixels arrive, each over some cycles, and then decide."""
    bits, maximum = edge.bits, edge.maximum
    pixels = edge.size // edge.channels
    # A part of a pixel is like a pixel of fewer channels.
    channels = -(-edge.channels // cycles)
    width, beats = edge.channels * bits, pixels * cycles

    def tap(index: int, inverted: bool) -> Tap:
        pixel, channel = divmod(index, edge.channels)
        part, value = divmod(channel, channels)
        return pixel * cycles + part, value, inverted

    neurons = [
        list(map(tap, layer.taps.indices[layer.taps.of(n)].tolist(),
                 layer.taps.inverted[layer.taps.of(n)].tolist()))
        for n in range(len(layer.taps))
    ]
    if isinstance(layer, Linear) and layer.xi:
        others = np.setdiff1d(np.arange(edge.size), layer.fixed).tolist()
        neurons.append([tap(index, False) for index in others])
    limits = [most_at_once(taps, maximum) for taps in neurons]
    count_bits = [max(1, once.bit_length()) for once, _ in limits]
    sum_bits = [max(1, total.bit_length()) for _, total in limits]
    part_bits, place_bits = (cycles - 1).bit_length(), (beats - 1).bit_length()

    def count(logic: Logic, literals: list[int]) -> Wired:
        wired = 0
        pixel, part, number = _parts(literals, [width, part_bits, place_bits])
        chosen = select_part(logic, pixel, part, channels * bits, place.family)
        values = [chosen[n * bits : (n + 1) * bits] for n in range(channels)]
        places = [
            {literal: beat >> n & 1 for n, literal in enumerate(number)}
            | {literal: beat % cycles >> n & 1 for n, literal in enumerate(part)}
            for beat in range(beats)
        ]
        found: list[int] = []
        for neuron, (taps, size) in enumerate(zip(neurons, count_bits, strict=True)):
            total, gates = count_at(logic, taps, values, number, f"n{neuron}", place.family)
            found += (total + [FALSE] * size)[:size]
            if neuron < len(layer.taps):
                wired += sum(places_of(logic, gate, pixel[value * bits :: channels * bits],
                                       places) for value, gate in gates.items())
        return Wired(found, wired)

    first = _first(pixels, width, cycles, place.family)
    counts = place.tables(first.width_out, count)
    sums = Accumulate(beats, count_bits, sum_bits, place.family)
    decide = place.tables(sum(sum_bits), function(place, layer, sum_bits))
    name = place.name
    return Candidate(
        {f"{name}_number": first, f"{name}_taps": counts, f"{name}_sums": sums, name: decide},
        counts.connections, counted,
    )


def _first(pixels: int, bits: int, cycles: int, family: Family) -> Part:
    """Return what numbers the pixels, and gives each as often as it is counted."""
    return Repeat(pixels, bits, cycles, family) if cycles > 1 else Number(pixels, bits, family)


def _neurons(place: Place, layer: Linear, sum_bits: Sequence[int] | None) -> Function:
    edge = place.edge

    def shared(logic: Logic, weighted: list[tuple[int, int]]) -> list[layers.SharedSum]:
        most = layer.counted_inputs(edge) * edge.maximum
        return [layers.SharedSum(logic, weighted, most, layer.xi, layer.k, place.family)]

    def function(logic: Logic, bits: list[int]) -> Wired | list[int]:
        if sum_bits is not None:
            # Each neuron's taps are counted already, and last what all share.
            counts = _parts(bits, sum_bits)
            weighted = [(bit, 1 << n) for n, bit in enumerate(counts[-1])]
            sums = shared(logic, weighted) if layer.xi else []
            return layers.decide(logic, layer, counts, sums, place.family)
        values, sums = place.split(bits), list[layers.SharedSum]()
        if layer.xi:
            counted = np.setdiff1d(np.arange(layer.taps.width), layer.fixed).tolist()
            weighted = [(bit, 1 << n) for i in counted for n, bit in enumerate(values[i])]
            sums = shared(logic, weighted)
        return fire(place, logic, layer, values, sums, [])

    return function


def _scores(place: Place, layer: Scores, sum_bits: Sequence[int] | None) -> Function:
    edge, score_bits = place.edge, place.out.bits

    def function(logic: Logic, bits: list[int]) -> Wired:
        if sum_bits is not None:
            weighted = [[(bit, 1 << n) for n, bit in enumerate(count)]
                        for count in _parts(bits, sum_bits)]
        elif layer.weights is not None:
            weighted = _weigh(layer, place.split(bits), edge)
        else:
            weighted = layers.weigh_taps(layer.taps, place.split(bits))
        flat = layers.score(logic, layer, weighted, edge.maximum, score_bits, place.family)
        each = _parts(flat, [score_bits] * len(layer.taps))
        wired = 0
        if sum_bits is None:
            wired = layers.count_connections(logic, each, [], [], edge.bits)
        index = layers.argmax(logic, each, place.family)
        return Wired(index + (flat if place.options.scores else []), wired)

    return function


def _weigh(layer: Scores, values: Sequence[layers.Bits], edge: Edge) -> list[list[Weighted]]:
    """Return for each class the bits of its taps, with what they weigh."""
    taps, weights = layer.taps, layer.weights
    assert weights is not None
    return [
        [each for tap, weight in zip(taps.indices[taps.of(n)].tolist(),
                                     weights[taps.of(n)].tolist(), strict=True)
         for each in weigh(values[tap], weight, edge.signed)]
        for n in range(len(taps))
    ]


def neurons_estimate(place: Place, layer: Layer, sums: int, searched: int) -> float:
    """Estimate the tables of a layer's neurons, and of the ``sums`` of inputs that they share."""
    edge, family, fan_in = place.edge, place.family, layer.taps.fan_in
    q_bits, shared = 0, 0.0
    thresholds = layer.thresholds[0]
    if layer.xi:
        inputs = layer.inputs_per_neuron(edge)
        q_bits, shared = shared_sum(inputs, edge.bits, abs(layer.xi), layer.k, sums, family)
        # With q the constant is not the taps' own; the middle is where heaps are dear.
        thresholds = (fan_in + (1 << q_bits)) // 2
    pairs, counts = np.unique(np.stack([fan_in, thresholds]), axis=1, return_counts=True)
    tables = sum(
        neuron_tables(int(taps), int(threshold), q_bits, family, searched) * int(count)
        for (taps, threshold), count in zip(pairs.T, counts, strict=True)
    )
    return tables + shared + layer.connections * (edge.bits - 1) * family.sums.bit


@estimates("linear")
def linear_estimate(place: Place, searched: int) -> Estimated:
    """Estimate neurons on a vector, or counted as pixels arrive."""
    layer = place.operation(Linear)
    tables = _fewest(place, layer.taps, neurons_estimate(place, layer, 1, searched))
    return Estimated(Cost(round(tables)), place.arrival.after(gather(place).values()))


@estimates("scores")
def scores_estimate(place: Place, searched: int) -> Estimated:
    """Estimate sums of taps, and the search for the largest."""
    layer, family = place.operation(Scores), place.family
    taps = layer.taps
    best = largest_tables(len(taps), place.out.bits, family)
    arrival = place.arrival.after(gather(place).values())
    if layer.weights is None:
        sums = len(taps.indices) * place.edge.bits * family.sums.bit
        return Estimated(Cost(round(_fewest(place, taps, sums) + best)), arrival)
    ones = sum(len(digits(weight)) for weight in layer.weights.tolist())
    others = [float(each.cost.tables) for each in _over_cycles(place, layer)]
    fewest = min([ones * place.edge.bits * family.sums.bit + best, *others])
    return Estimated(Cost(round(fewest)), arrival)


def _fewest(place: Place, taps: Taps, tables: float) -> float:
    """Return the tables of taps that are gathered first, or counted as the pixels of a map come."""
    if place.arrival.gathered is None:
        return tables
    (_, edge), family = place.arrival.gathered, place.family
    pixels = edge.size // edge.channels
    channel = taps.indices % edge.channels
    total = sum(int(n * edge.maximum).bit_length() for n in taps.fan_in)
    costs = [tables]
    for cycles in range(1, min(place.arrival.between, edge.channels, 4) + 1):
        size = -(-edge.channels // cycles)
        # A bit of a pixel and where it is; each neuron has a table for each bit that it reads.
        each = look_up_cost(1 + (pixels * cycles - 1).bit_length(), family) + family.sums.bit
        read = len(np.unique(taps.neurons * size + channel % size))
        chosen = size * edge.bits if cycles > 1 else 0
        costs.append(read * edge.bits * each + total + chosen)
    return min(costs)


def _parts(bits: list[int], sizes: Sequence[int]) -> list[list[int]]:
    """Part literals into pieces of some sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [bits[start:end] for start, end in pairwise(ends)]
