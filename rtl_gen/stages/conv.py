"""The convolution: a window, and the neurons behind it."""

from collections.abc import Iterator

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.netlist import Conv2d
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.build import add_up, gather_columns
from sbnn_hw.rtl_gen.candidate import Candidate, Estimated, Place, estimates, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.parts.part import Part
from sbnn_hw.rtl_gen.parts.tables import Wired
from sbnn_hw.rtl_gen.parts.window import Scan, Windows
from sbnn_hw.rtl_gen.stages.vector import fire, neurons_estimate

__all__ = ["conv", "conv_estimate"]


@realises("conv2d")
def conv(place: Place) -> Iterator[Candidate]:
    """Yield a window and the tables behind it; where q is read, each pixel is counted before."""
    layer, edge = place.operation(Conv2d), place.edge
    channels, size = layer.channels, layer.window.size
    in_group, count_bits = _counted(place)
    groups = len(in_group)
    parts: dict[str, Part] = {}
    if groups:

        def count(logic: Logic, literals: list[int]) -> list[int]:
            values = place.split(literals)
            found: list[int] = []
            for number, group in enumerate(in_group):
                logic.owner = f"q{number}"
                columns, _ = gather_columns(
                    (bit, 1 << n) for c in group for n, bit in enumerate(values[c]))
                total = add_up(logic, columns, 0, place.family)
                found += (total + [FALSE] * count_bits)[:count_bits]
            return [*literals, *found]

        parts[f"{place.name}_count"] = place.tables(place.width, count, least=0)
    window = _window(place)
    tapped = np.unique(layer.taps.indices).tolist()
    taps = len(window.taps) - size * groups * count_bits

    def function(logic: Logic, literals: list[int]) -> Wired:
        values: list[list[int]] = [[]] * layer.taps.width
        for number, tap in enumerate(tapped):
            values[tap] = literals[number * edge.bits : (number + 1) * edge.bits]
        counted = literals[taps : len(window.taps)]
        border = literals[len(window.taps):]
        sums = []
        for group in range(groups):
            weighted = [
                (counted[(position * groups + group) * count_bits + n], 1 << n)
                for position in range(size) for n in range(count_bits)
            ]
            most = size * len(in_group[group]) * edge.maximum
            sums.append(layers.SharedSum(logic, weighted, most, layer.xi, layer.k, place.family))
        return fire(place, logic, layer, values, sums, border, counted)

    neurons = place.tables(window.width_out, function)
    yield Candidate(
        {**parts, f"{place.name}_window": window, place.name: neurons},
        connections=neurons.connections, counted=size * channels if layer.xi else 0,
    )


@estimates("conv2d")
def conv_estimate(place: Place, searched: int) -> Estimated:
    """Estimate the window, and the neurons behind it."""
    layer = place.operation(Conv2d)
    window = _window(place)
    neurons = Cost(round(neurons_estimate(place, layer, layer.groups, searched)))
    return Estimated(window.cost + neurons, place.arrival.after([window]))


def _counted(place: Place) -> tuple[list[list[int]], int]:
    """Return the channels that each q is the sum of, and the bits of a pixel's share of it."""
    layer = place.operation(Conv2d)
    if not layer.xi:
        return [], 0
    fixed, size = set(layer.fixed.tolist()), layer.channels // layer.groups
    in_group = [[c for c in range(g * size, (g + 1) * size) if c not in fixed]
                for g in range(layer.groups)]
    largest = max(len(group) for group in in_group) * place.edge.maximum
    return in_group, max(1, largest.bit_length())


def _window(place: Place) -> Windows:
    """Return the window: the bits that taps read, and what each pixel adds to q."""
    layer, edge = place.operation(Conv2d), place.edge
    in_group, count_bits = _counted(place)
    more = len(in_group) * count_bits
    counts = [(position, place.width + n)
              for position in range(layer.window.size) for n in range(more)]
    wanted = [
        (tap // layer.channels, tap % layer.channels * edge.bits + n)
        for tap in np.unique(layer.taps.indices).tolist() for n in range(edge.bits)
    ]
    if not wanted and not counts:
        # Constant neurons alone: the window still tells when to give them.
        wanted = [(layer.window.size - 1, 0)]
    borders = layer.borders(edge)
    return Windows(Scan.of(layer.window, edge), place.width + more, [*wanted, *counts],
                   family=place.family, classes=borders.of if len(borders) > 1 else None)
