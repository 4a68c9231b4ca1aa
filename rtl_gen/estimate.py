"""What a network will take of an FPGA, told from its netlist alone.

Neurons are looked up in the heaps' exact costs; what is shared between them is not known yet, so
the estimate is a little high. Generating the hardware gives the count itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Layer,
    Levels,
    Linear,
    MaxPool2d,
    Network,
    Scores,
    Taps,
    Window,
)
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.build import look_up_cost
from sbnn_hw.rtl_gen.heap import FAMILIES, Family, comparison_cost, lut_cost
from sbnn_hw.rtl_gen.logic import Logic

__all__ = ["Estimate", "dense_costs", "estimate"]

#: Tables for each bit that is added up, as sums are built.
_SUM = {"xc7": 0.75, "ecp5": 2.0, "ice40": 2.0, "generic": 0.75}

#: Tables of one bit of two scores compared, and the larger one chosen.
_COMPARE = {"xc7": 1.1, "ecp5": 2.0, "ice40": 2.0, "generic": 1.1}

#: Above this fan-in the cost of a heap grows evenly; searching it would only take time.
_SEARCHED = 128


@dataclass(frozen=True)
class Estimate:
    """Look-up tables, stage by stage.

    Parameters
    ----------
    stages : dict of str to int
        By the stage's name.
    """

    stages: dict[str, int]

    @property
    def luts(self) -> int:
        """Tables in all."""
        return sum(self.stages.values())


def estimate(network: Network, family: str, *, searched: int = _SEARCHED) -> Estimate:
    """Estimate the look-up tables of a network, without a shell.

    Parameters
    ----------
    network : Network
        What would be built.
    family : str
        For which FPGAs.
    searched : int
        The largest fan-in that is looked up; above it the cost is taken to grow evenly.
    """
    kind = FAMILIES[family]
    stages = {}
    windows = any(isinstance(stage.operation, Conv2d | MaxPool2d) for stage in network.stages)
    # The map that a vector was made of, and the cycles between two of its pixels.
    flat: Edge | None = None
    between = 1
    for number, stage in enumerate(network.stages):
        edge = network.edge_into(number)
        operation = stage.operation
        cost = 0.0
        if isinstance(operation, Conv2d | MaxPool2d):
            padded = any(operation.window.padding)
            between = 1 if padded else between * operation.window.stride[1]
        match operation:
            case Encode():
                cost = _encoder(operation, edge, kind, pixels=windows)
            case Levels():
                cost = _levels(operation, edge, kind, pixels=windows)
            case Linear() | Conv2d():
                cost = _neurons(operation, edge, kind, searched)
                if isinstance(operation, Conv2d):
                    cost += _lines(operation.window, edge, kind)
                elif flat is not None:
                    # Counted as pixels arrive, or gathered first.
                    cost = min(cost, _counted(operation.taps, flat, between, kind))
            case MaxPool2d():
                cost = _lines(operation.window, edge, kind)
                each = lut_cost((operation.window.size,), 1, kind)
                cost += edge.channels * each
            case Scores():
                cost = operation.connections * edge.bits * _SUM[kind.name]
                if flat is not None:
                    cost = min(cost, _counted(operation.taps, flat, between, kind))
                cost += _argmax(operation, network.edge_from(number), kind)
        flat = edge if windows and isinstance(operation, Flatten) else None
        stages[stage.name] = round(cost)
    return Estimate(stages)


def _heap(fan_in: int, threshold: int, bits: Sequence[int], kind: Family, searched: int) -> float:
    """Return the tables of a neuron: its taps in the lowest column, and some bits of q."""
    if fan_in > searched:
        full = _heap(searched, searched // 2, bits, kind, searched)
        return full * fan_in / searched
    columns = [fan_in]
    for column in bits:
        columns += [0] * (column + 1 - len(columns))
        columns[column] += 1
    most = sum(count << column for column, count in enumerate(columns))
    if not 0 < threshold <= most:
        return 0
    return lut_cost(tuple(columns), threshold, kind)


def _neurons(layer: Layer, edge: Edge, kind: Family, searched: int) -> float:
    """Return the tables of all neurons of a layer, and of the q that they share."""
    fan_in = layer.taps.fan_in
    bits: list[int] = []
    shared = 0.0
    if layer.xi:
        inputs = layer.inputs_per_neuron(edge)
        most = inputs * edge.maximum
        whole = (abs(layer.xi) * most >> layer.k).bit_length()
        # V / 2^k, and the bit of the remainder.
        bits = [*range(whole), 0]
        groups = layer.groups if isinstance(layer, Conv2d) else 1
        width = most.bit_length()
        product = (bin(abs(layer.xi)).count("1") - 1) * (width + layer.k) / 2
        shared = groups * (inputs * edge.bits + max(0, product)) * _SUM[kind.name]
    thresholds = layer.thresholds[0]
    excess = sum(1 << bit for bit in bits)
    # With q the constant is not the taps' own; the middle is where heaps are dear.
    middle = (fan_in + excess) // 2 if bits else thresholds
    pairs, counts = np.unique(np.stack([fan_in, middle]), axis=1, return_counts=True)
    cost = sum(
        _heap(int(size), int(threshold), bits, kind, searched) * int(count)
        for (size, threshold), count in zip(pairs.T, counts, strict=True)
    )
    if edge.bits > 1:
        cost += layer.connections * (edge.bits - 1) * _SUM[kind.name]
    return cost + shared


def _counted(taps: Taps, edge: Edge, between: int, kind: Family) -> float:
    """Return the tables of taps that are counted as the pixels of a map arrive."""
    pixels = edge.size // edge.channels
    owner = np.repeat(np.arange(len(taps)), taps.fan_in)
    channel = taps.indices % edge.channels
    costs = []
    for cycles in range(1, min(between, edge.channels, 4) + 1):
        size = -(-edge.channels // cycles)
        # A bit of a pixel and where it is; each neuron has a table for each bit that it reads.
        inputs = 1 + (pixels * cycles - 1).bit_length()
        table = look_up_cost(inputs, kind)
        read = len(np.unique(owner * size + channel % size))
        bits = sum(int(n * edge.maximum).bit_length() for n in taps.fan_in)
        cost = read * edge.bits * (table + _SUM[kind.name]) + bits
        costs.append(cost + (size * edge.bits if cycles > 1 else 0))
    return float(min(costs))


def _argmax(scores: Scores, out: Edge, kind: Family) -> float:
    classes = len(scores.taps)
    index_bits = max(1, (classes - 1).bit_length())
    return (classes - 1) * (out.bits + index_bits / 4) * _COMPARE[kind.name]


def _encoder(encoder: Encode, edge: Edge, kind: Family, *, pixels: bool) -> float:
    """Return the tables of comparisons with constants."""
    repeats = 1 if pixels else edge.size // edge.channels
    thresholds = encoder.thresholds.ravel().tolist()
    return repeats * sum(comparison_cost(threshold, edge.bits, kind) for threshold in thresholds)


def _levels(levels: Levels, edge: Edge, kind: Family, *, pixels: bool) -> float:
    """Return the tables of a function of pixels, as they are built."""
    logic = Logic(edge.bits)
    layers.levels(logic, levels, [[logic.input(n) for n in range(edge.bits)]], kind)
    return len(logic) * (edge.channels if pixels else edge.size)


def _lines(window: Window, edge: Edge, kind: Family) -> float:
    """Return the tables of lines that are shift registers; elsewhere they are memories."""
    rows = window.kernel[0] - 1
    width = edge.shape[1]
    bits = edge.channels * edge.bits
    counters = 20 if kind.inputs == 6 else 35
    if kind.name == "xc7" and width <= 64:
        return counters + rows * bits * -(-width // 32)
    return counters


def dense_costs(fan_in: Sequence[int], inputs: int, groups: int, bits: int) -> tuple[float, float]:
    """Return what neurons of dense weights ± take with q and without, on 7-series.

    Parameters
    ----------
    fan_in : sequence of int
        Taps of each neuron where only the weights of one sign are tapped and q is added up too.
    inputs : int
        Taps of each neuron where all inputs are tapped, those of negative weights inverted.
    groups : int
        How many q there are.
    bits : int
        Bits of an input.
    """
    kind = FAMILIES["xc7"]
    wide = (bits - 1) * _SUM[kind.name]
    all_of = _heap(inputs, inputs // 2, (), kind, _SEARCHED) + inputs * wide
    whole = (inputs * ((1 << bits) - 1) >> 1).bit_length()
    columns = [*range(whole), 0]
    excess = sum(1 << column for column in columns)
    with_q = groups * inputs * bits * _SUM[kind.name]
    for size, count in zip(*np.unique(fan_in, return_counts=True), strict=True):
        heap = _heap(int(size), (int(size) + excess) // 2, columns, kind, _SEARCHED)
        with_q += int(count) * (heap + int(size) * wide)
    return with_q, len(fan_in) * all_of
