"""The convolution: a window, and the neurons behind it."""

import numpy as np

from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.build import add_up, gather_columns
from sbnn_hw.rtl_gen.candidate import Candidate, realises
from sbnn_hw.rtl_gen.logic import FALSE
from sbnn_hw.rtl_gen.stages.vector import fire
from sbnn_hw.rtl_gen.window import Windows

__all__ = ["conv"]


@realises("conv2d")
def conv(place):
    """Yield a window and the tables behind it; where q is read, each pixel is counted before."""
    layer, edge = place.stage.operation, place.edge
    channels, size, bits = layer.channels, layer.window.size, edge.bits
    groups, count_bits, width = layer.groups if layer.xi else 0, 0, place.width
    parts = {}
    if groups:
        fixed = set(layer.fixed.tolist())
        in_group = [[c for c in range(g * channels // groups, (g + 1) * channels // groups)
                     if c not in fixed] for g in range(groups)]
        largest = max(len(group) for group in in_group) * edge.maximum
        count_bits = max(1, largest.bit_length())

        def count(logic, literals):
            values = place.split(literals)
            found = []
            for number, group in enumerate(in_group):
                logic.owner = f"q{number}"
                columns, _ = gather_columns(
                    (bit, 1 << n) for c in group for n, bit in enumerate(values[c]))
                total = add_up(logic, columns, 0, place.family)
                found += (total + [FALSE] * count_bits)[:count_bits]
            return [*literals, *found]

        parts[f"{place.name}_count"] = place.tables(width, count, least=0)
        width += groups * count_bits
    # The bits of the window that are read: taps, and what each pixel adds to q.
    tapped = np.unique(layer.taps.indices).tolist()
    wanted = [(tap // channels, tap % channels * bits + n)
              for tap in tapped for n in range(bits)]
    counts = [(position, place.width + n)
              for position in range(size) for n in range(groups * count_bits)]
    borders = layer.borders(edge)
    classes = borders.of if len(borders) > 1 else None
    if not wanted and not counts:
        # Constant neurons alone: the window still tells when to give them.
        wanted = [(size - 1, 0)]
    window = Windows(layer.window, *edge.shape[:2], width, [*wanted, *counts],
                     classes=classes, family=place.options.family)

    def function(logic, literals):
        values = [None] * layer.taps.width
        for number, tap in enumerate(tapped):
            values[tap] = literals[number * bits : (number + 1) * bits]
        counted = literals[len(wanted) : len(wanted) + len(counts)]
        border = literals[len(wanted) + len(counts):]
        sums = []
        for group in range(groups):
            weighted = [
                (counted[(position * groups + group) * count_bits + n], 1 << n)
                for position in range(size) for n in range(count_bits)
            ]
            most = size * len(in_group[group]) * edge.maximum
            sums.append(layers.SharedSum(logic, weighted, most, layer.xi, layer.k, place.family))
        return fire(place, logic, values, sums, border, counted)

    neurons = place.tables(len(window.o.payload), function)
    yield Candidate(
        {**parts, f"{place.name}_window": window, place.name: neurons},
        connections=neurons.connections, counted=size * channels if layer.xi else 0,
    )
