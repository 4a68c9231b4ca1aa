"""Taps that are counted as pixels arrive: what a pixel at a place adds to each neuron."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.build import add_up, gather_columns, look_up, select
from sbnn_hw.rtl_gen.logic import Logic

__all__ = ["Tap", "count_at", "most_at_once", "places_of", "select_part"]

#: The pixel of a tap, the value within that pixel, and whether it is inverted.
Tap = tuple[int, int, bool]


def select_part(logic: Logic, bits: Sequence[int], part: Sequence[int], size: int,
                family: Family) -> list[int]:
    """Choose one part of a pixel: so many of its bits, by the number of the part."""
    return [
        select(logic, bits[number::size], part, family) for number in range(min(size, len(bits)))
    ]


def count_at(logic: Logic, taps: Iterable[Tap], values: Sequence[Sequence[int]],
             place: Sequence[int], name: str, family: Family) -> tuple[list[int], dict[int, int]]:
    """Count the taps of one neuron that the pixel at a place sets.

    Returns the literals of the count, and those that each value adds.

    ``taps`` are the neuron's: pixel, value within the pixel, whether inverted. ``values`` are the
    literals of the pixel's values, ``place`` those of its number.
    """
    logic.owner = name
    tables: dict[int, int] = {}
    for pixel, value, inverted in taps:
        # What a bit of this value adds at each place: itself, its complement, or nothing.
        tables[value] = tables.get(value, 0) | (1 if inverted else 2) << 2 * pixel
    gates = {
        value: [look_up(logic, table, [bit, *place], family) for bit in values[value]]
        for value, table in sorted(tables.items())
    }
    columns, constant = gather_columns(
        (gate, 1 << position) for bits in gates.values() for position, gate in enumerate(bits))
    return add_up(logic, columns, constant, family), {v: bits[0] for v, bits in gates.items()}


def places_of(logic: Logic, gate: int, inputs: Sequence[int],
              places: Sequence[Mapping[int, int]]) -> int:
    """Count the places at which what was built depends on some inputs, by trying them all.

    ``inputs`` are set together; ``places`` gives for each place the values of other inputs, by
    their literals.
    """
    words = [0] * logic.inputs
    for case, place in enumerate(places):
        for literal, value in place.items():
            words[(literal >> 1) - 1] |= value << case
    answers = []
    for value in (0, (1 << len(places)) - 1):
        for literal in inputs:
            words[(literal >> 1) - 1] = value
        (net,) = logic.evaluate(words, [gate >> 1], len(places))
        answers.append(net)
    return (answers[0] ^ answers[1]).bit_count()


def most_at_once(taps: Sequence[Tap], maximum: int) -> tuple[int, int]:
    """Return the largest count that one pixel can make, and that all can make together."""
    if not len(taps):
        return 0, 0
    pixels = np.bincount([pixel for pixel, _, _ in taps])
    return int(pixels.max()) * maximum, len(taps) * maximum
