"""Weighted sums: a window if there is one, and a heap for each neuron behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sbnn_hw.netlist import Edge, Sums, find_borders
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.candidate import Candidate, Place, realises
from sbnn_hw.rtl_gen.logic import FALSE, Logic
from sbnn_hw.rtl_gen.numbers import Weighted, add, weigh
from sbnn_hw.rtl_gen.parts.part import Part
from sbnn_hw.rtl_gen.parts.tables import Wired
from sbnn_hw.rtl_gen.parts.window import Scan, Windows

__all__ = ["sums"]


@dataclass(frozen=True)
class _Counts:
    """What every pixel adds to q, for each group of channels."""

    groups: list[list[int]]
    #: The range of a pixel's sum.
    edge: Edge

    @classmethod
    def of(cls, layer: Sums, edge: Edge) -> "_Counts":
        """Make what a layer counts: nothing where Ξ is zero."""
        fixed, size = set(layer.fixed.tolist()), layer.channels // layer.groups
        groups = [[c for c in range(g * size, (g + 1) * size) if c not in fixed]
                  for g in range(layer.groups if layer.xi else 0)]
        most = max(map(len, groups), default=0)
        return cls(groups, Edge((1,), most * min(edge.low, 0), most * edge.high))


@realises("sums")
def sums(place: Place) -> Iterator[Candidate]:
    """Yield a window and the heaps behind it; where q is read, each pixel is counted before."""
    layer, edge = place.operation(Sums), place.edge
    counts = _Counts.of(layer, edge)
    positions = 1 if layer.window is None else layer.window.size
    parts: dict[str, Part] = {}
    if counts.groups:

        def count(logic: Logic, literals: list[int]) -> list[int]:
            values, found = place.split(literals), list[int]()
            for number, group in enumerate(counts.groups):
                logic.owner = f"q{number}"
                weighted = [each for c in group for each in weigh(values[c], 1, edge.signed)]
                found += add(logic, weighted, 0, counts.edge.bits, place.family)
            return [*literals, *found]

        parts[f"{place.name}_count"] = place.tables(place.width, count, least=0)
    tapped = np.unique(layer.taps.indices).tolist()
    border_bits, width = 0, place.width + len(counts.groups) * counts.edge.bits
    if layer.window is not None:
        window = _window(place, layer, tapped, counts)
        parts[f"{place.name}_window"] = window
        border_bits, width = window.class_bits, window.width_out

    def function(logic: Logic, literals: list[int]) -> Wired:
        values: list[list[int]] = [[]] * layer.taps.width
        if layer.window is None:
            values, at = place.split(literals[: place.width]), place.width
        else:
            for number, tap in enumerate(tapped):
                values[tap] = literals[number * edge.bits : (number + 1) * edge.bits]
            at = len(tapped) * edge.bits
        end = len(literals) - border_bits
        counted, border = literals[at:end], literals[end:]
        shared = [
            _product(logic, place, layer, counts, counted[group * counts.edge.bits :], group)
            for group in range(len(counts.groups))
        ]
        return _add_up(logic, place, values, shared, border, counted)

    heaps = place.tables(width, function)
    parts[place.name] = heaps
    yield Candidate(parts, heaps.connections, positions * layer.channels if layer.xi else 0)


def _window(place: Place, layer: Sums, tapped: list[int], counts: _Counts) -> Windows:
    """Return the window: the bits that taps read, and what each pixel adds to q."""
    edge, more = place.edge, len(counts.groups) * counts.edge.bits
    assert layer.window is not None
    pad = layer.pad if layer.pad is not None else np.zeros(layer.channels, np.int64)
    wanted = [
        (tap // layer.channels, tap % layer.channels * edge.bits + n)
        for tap in tapped for n in range(edge.bits)
    ]
    fill = [int(pad[tap % layer.channels]) >> n & 1 for tap in tapped for n in range(edge.bits)]
    outside = [int(pad[group].sum()) for group in counts.groups]
    wanted += [(position, place.width + n)
               for position in range(layer.window.size) for n in range(more)]
    fill += [each >> n & 1 for _ in range(layer.window.size)
             for each in outside for n in range(counts.edge.bits)]
    if not wanted:
        # Constant sums alone: the window still tells when to give them.
        wanted, fill = [(layer.window.size - 1, 0)], [0]
    borders = find_borders(layer.window, *edge.shape[:2])
    classes = borders.of if layer.border == "zero" and len(borders) > 1 else None
    return Windows(Scan.of(layer.window, edge), place.width + more, wanted, fill=fill,
                   classes=classes, family=place.family)


@dataclass(frozen=True)
class _Product:
    """Ξ times the sum of all inputs, which neurons share, less a constant."""

    bits: list[int]
    less: int

    @property
    def nets(self) -> set[int]:
        """The nets that neurons read."""
        return {bit >> 1 for bit in self.bits}


def _product(logic: Logic, place: Place, layer: Sums, counts: _Counts, counted: list[int],
             group: int) -> _Product:
    logic.owner = logic.scope = f"q{group}"
    size, step = counts.edge.bits, len(counts.groups) * counts.edge.bits
    positions = 1 if layer.window is None else layer.window.size
    # Bits of a border that is nothing are −1 and 1: twice the bit, less a constant.
    factor = layer.xi * (2 if layer.border == "zero" else 1)
    weighted: list[Weighted] = []
    for position in range(positions):
        bits = counted[position * step : position * step + size]
        weighted += weigh(bits, factor, counts.edge.signed)
    every = positions * len(counts.groups[group])
    ends = sorted(factor * every * end for end in (min(place.edge.low, 0), place.edge.high))
    bits = add(logic, weighted, -ends[0], max(1, (ends[1] - ends[0]).bit_length()), place.family)
    logic.scope = ""
    return _Product(bits, -ends[0])


def _add_up(logic: Logic, place: Place, values: Sequence[Sequence[int]],
            shared: Sequence[_Product], border: list[int], counted: list[int]) -> Wired:
    """Make the sums of all neurons."""
    layer, edge, size = place.operation(Sums), place.edge, place.out.bits
    taps, weights = layer.taps, layer.weights
    constants = _constants(layer, edge)
    absent = set(place.stage.absent.tolist())
    outputs: list[list[int]] = []
    for neuron in range(len(taps)):
        if neuron in absent:
            outputs.append([FALSE] * size)
            continue
        weighted: list[Weighted] = []
        own = taps.of(neuron)
        factors = [1] * int(taps.fan_in[neuron]) if weights is None else weights[own].tolist()
        for tap, inverted, factor in zip(taps.indices[own].tolist(), taps.inverted[own].tolist(),
                                         factors, strict=True):
            factor <<= layer.k + (layer.border == "zero")
            weighted += weigh([bit ^ inverted for bit in values[tap]], factor, edge.signed)
        constant = int(constants[:, neuron].min())
        if shared:
            product = shared[neuron * len(shared) // len(taps)]
            weighted += weigh(product.bits, 1, False)
            constant -= product.less
        logic.owner = f"n{neuron}_border"
        more = (constants[:, neuron] - constants[:, neuron].min()).tolist()
        for position in range(max(more).bit_length()):
            ones = [each >> position & 1 for each in more]
            weighted.append((layers.choose(logic, border, ones, place.family), 1 << position))
        logic.owner = f"n{neuron}"
        outputs.append(add(logic, weighted, constant, size, place.family))
    wired = layers.count_connections(logic, outputs, [each.nets for each in shared],
                                     [*border, *counted], edge.bits)
    return Wired([bit for bits in outputs for bit in bits], wired)


def _constants(layer: Sums, edge: Edge) -> np.ndarray:
    """Return what each neuron's sum has in every border class, besides its taps and q's."""
    if layer.border != "zero" or layer.window is None:
        return np.zeros((1, len(layer.taps)), np.int64)
    taps, valid = layer.taps, find_borders(layer.window, *edge.shape[:2]).valid
    position = taps.indices // layer.channels
    # A bit stands for −1 or 1. Padding, which reads 0, is nothing, also where it is inverted.
    one = np.where(valid[:, position], 1, 2 * taps.inverted)
    found = -np.array([taps.per_neuron(each) for each in one]) << layer.k
    groups = [len(group) for group in _Counts.of(layer, edge).groups]
    if groups:
        each = np.repeat(groups, len(taps) // len(groups))
        found -= layer.xi * valid.sum(axis=1)[:, None] * each
    return found
