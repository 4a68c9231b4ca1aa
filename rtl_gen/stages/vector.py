"""Layers that read a vector, neurons or scores; it may have to be made of pixels first."""

from itertools import pairwise

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.accumulate import (
    Accumulate,
    Number,
    Repeat,
    count_at,
    most_at_once,
    places_of,
    select_part,
)
from sbnn_hw.rtl_gen.candidate import Candidate, gather, realises
from sbnn_hw.rtl_gen.core import Wired
from sbnn_hw.rtl_gen.logic import FALSE

__all__ = ["cycles_of", "fire", "linear", "scores"]

#: Numbers of cycles over which a layer behind pixels is tried to be counted.
SERIAL = (1, 2, 3, 4, 6, 8, 12, 16)


@realises("linear", gathers=True)
def linear(place):
    """Yield neurons, on a vector or on counts of taps."""
    layer = place.stage.operation
    counted = layer.taps.width if layer.xi else 0
    yield from _on_vector(place, _neurons, counted)


@realises("scores", gathers=True)
def scores(place):
    """Yield scores and the class, on a vector or on counts of taps."""
    yield from _on_vector(place, _scores, 0)


def fire(place, logic, values, sums, border, counts=()):
    """Make the neurons' bits; ``counts`` are inputs that hold what was counted before."""
    layer, absent = place.stage.operation, set(place.stage.absent.tolist())
    fires = layers.fire(logic, layer, values, sums, border, place.family, place.options.share)
    wired = layers.count_connections(logic, fires, sums, [*border, *counts], place.edge.bits,
                                     layer.taps)
    return Wired([FALSE if n in absent else bit for n, bit in enumerate(fires)], wired)


def _on_vector(place, function, counted):
    """Yield a layer that reads a vector, which may have to be made of pixels first."""
    flatten = place.options.flatten
    if place.arrival.gathered is None or flatten != "accumulate":
        core = place.tables(place.width, function(place))
        yield Candidate({**gather(place), place.name: core}, core.connections, counted)
    if place.arrival.gathered is not None and flatten != "gather":
        for cycles in cycles_of(place):
            yield _accumulated(place, function, cycles, counted)


def cycles_of(place):
    """Return the numbers of cycles over which a pixel may be counted, to choose among."""
    _, edge = place.arrival.gathered
    between, serial = place.arrival.between, place.options.serial
    if serial > between:
        raise ModelRejected(
            f"its pixels come every {between} cycles, so each cannot be counted in "
            f"{serial} cycles; use a smaller --serial, or 0"
        )
    if serial:
        return [serial]
    return [n for n in SERIAL if n <= min(between, edge.channels)]


def _accumulated(place, function, cycles, counted):
    """Return cores that count taps as pixels arrive, each over some cycles, and then decide."""
    layer, (_, edge) = place.stage.operation, place.arrival.gathered
    bits, maximum = edge.bits, edge.maximum
    pixels = edge.size // edge.channels
    # A part of a pixel is like a pixel of fewer channels.
    channels = -(-edge.channels // cycles)
    width, beats = edge.channels * bits, pixels * cycles

    def place_of(index):
        pixel, channel = divmod(index, edge.channels)
        part, value = divmod(channel, channels)
        return pixel * cycles + part, value

    neurons = [
        [(*place_of(index), inverted) for index, inverted in zip(
            layer.taps.indices[layer.taps.of(n)].tolist(),
            layer.taps.inverted[layer.taps.of(n)].tolist(), strict=True)]
        for n in range(len(layer.taps))
    ]
    if layer.xi:
        others = np.setdiff1d(np.arange(edge.size), layer.fixed).tolist()
        neurons.append([(*place_of(index), False) for index in others])
    limits = [most_at_once(taps, maximum) for taps in neurons]
    count_bits = [max(1, once.bit_length()) for once, _ in limits]
    sum_bits = [max(1, total.bit_length()) for _, total in limits]
    part_bits, place_bits = (cycles - 1).bit_length(), (beats - 1).bit_length()

    def count(logic, literals):
        wired = 0
        pixel, part, number = _parts(literals, [width, part_bits, place_bits])
        chosen = select_part(logic, pixel, part, channels * bits, place.family)
        values = [chosen[n * bits : (n + 1) * bits] for n in range(channels)]
        places = [
            {literal: beat >> n & 1 for n, literal in enumerate(number)}
            | {literal: beat % cycles >> n & 1 for n, literal in enumerate(part)}
            for beat in range(beats)
        ]
        found = []
        for neuron, (taps, size) in enumerate(zip(neurons, count_bits, strict=True)):
            total, gates = count_at(logic, taps, values, number, f"n{neuron}", place.family)
            found += (total + [FALSE] * size)[:size]
            if neuron < len(layer.taps):
                wired += sum(places_of(logic, gate, pixel[value * bits :: channels * bits],
                                       places) for value, gate in gates.items())
        return Wired(found, wired)

    first = Repeat(pixels, width, cycles) if cycles > 1 else Number(pixels, width)
    counts = place.tables(len(first.o.payload), count)
    sums = Accumulate(beats, count_bits, sum_bits)
    decide = place.tables(sum(sum_bits), function(place, sum_bits))
    name = place.name
    return Candidate(
        {f"{name}_number": first, f"{name}_taps": counts, f"{name}_sums": sums, name: decide},
        counts.connections, counted,
    )


def _neurons(place, sum_bits=None):
    layer, edge = place.stage.operation, place.edge

    def shared(logic, weighted):
        most = layer.counted_inputs(edge) * edge.maximum
        return [layers.SharedSum(logic, weighted, most, layer.xi, layer.k, place.family)]

    def function(logic, bits):
        if sum_bits is not None:
            # Each neuron's taps are counted already, and last what all share.
            counts = _parts(bits, sum_bits)
            weighted = [(bit, 1 << n) for n, bit in enumerate(counts[-1])]
            sums = shared(logic, weighted) if layer.xi else []
            return layers.decide(logic, layer, counts, sums, place.family)
        values, sums = place.split(bits), []
        if layer.xi:
            counted = np.setdiff1d(np.arange(layer.taps.width), layer.fixed).tolist()
            weighted = [(bit, 1 << n) for i in counted for n, bit in enumerate(values[i])]
            sums = shared(logic, weighted)
        return fire(place, logic, values, sums, [])

    return function


def _scores(place, sum_bits=None):
    layer, edge, score_bits = place.stage.operation, place.edge, place.out.bits

    def function(logic, bits):
        if sum_bits is not None:
            weighted = [[(bit, 1 << n) for n, bit in enumerate(count)]
                        for count in _parts(bits, sum_bits)]
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


def _parts(bits, sizes):
    """Part literals into pieces of some sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [bits[start:end] for start, end in pairwise(ends)]
