"""From the stages of a netlist to cores in a chain."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.netlist import Conv2d, Encode, Flatten, Layer, Levels, Linear, MaxPool2d, Scores
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
from sbnn_hw.rtl_gen.build import add_up, gather_columns
from sbnn_hw.rtl_gen.core import Core, Tables
from sbnn_hw.rtl_gen.gather import Gather
from sbnn_hw.rtl_gen.heap import FAMILIES
from sbnn_hw.rtl_gen.logic import FALSE
from sbnn_hw.rtl_gen.window import Windows

__all__ = ["Lowered", "Options", "lower", "lower_stage"]

#: Numbers of cycles over which a layer behind pixels is tried to be counted.
SERIAL = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a network becomes hardware.

    Parameters
    ----------
    family : str
        ``xc7``, ``ecp5``, ``ice40`` or ``generic``.
    levels_per_stage : int
        Tables in a row between two registers.
    split_pairs : bool
        Whether two LUT5 take the place of each LUT6_2.
    input : str
        ``image``: a whole image a clock; ``pixel``: a pixel a clock, row by row. ``auto``: images
        where no stage has windows.
    flatten : str
        How a linear layer behind a stream of pixels gets its taps. ``gather``: the map becomes
        one vector first; ``accumulate``: counted as pixels arrive; ``auto``: what is smaller.
    serial : int
        Cycles over which such a layer counts one pixel, part by part; no more than lie between two
        pixels. Zero: as many as make it smallest.
    share : int
        Pairs of neurons, in each layer, to search for taps that they can count together; zero
        counts each neuron's taps apart.
    scores : bool
        Whether scores are given with the class.
    """

    family: str = "generic"
    levels_per_stage: int = 3
    split_pairs: bool = False
    input: str = "auto"
    flatten: str = "auto"
    serial: int = 0
    share: int = 0
    scores: bool = True

    def __post_init__(self):
        if self.family not in FAMILIES:
            raise UsageError(
                f"Family must be one of {', '.join(FAMILIES)}, not {self.family!r}"
            )
        if self.input not in ("auto", "image", "pixel"):
            raise UsageError(f"Input must be auto, image or pixel, not {self.input!r}")
        if self.flatten not in ("auto", "gather", "accumulate"):
            raise UsageError(f"Flatten must be auto, gather or accumulate, not {self.flatten!r}")
        if self.serial < 0:
            raise UsageError(f"Serial must not be negative, not {self.serial!r}")
        if self.share < 0:
            raise UsageError(f"Share must not be negative, not {self.share!r}")
        if self.levels_per_stage < 1:
            raise UsageError(
                f"Levels per stage must be 1 or more, not {self.levels_per_stage!r}"
            )


@dataclass
class Lowered:
    """The cores of a network.

    Parameters
    ----------
    cores : dict
        By name, in order. A stage's last core bears the stage's name.
    beats : int
        Inputs that make an image.
    latency : int
        Cycles from the first of them to the result, if they come in every cycle.
    parts : dict
        The names of each stage's cores.
    connections : dict
        For each stage with taps, the connections that were wired.
    unread : dict
        For each encoder, the bits that nothing reads and that are not built.
    counted : dict
        For each stage that reads q, the inputs that q is the sum of.
    """

    unread: dict[str, list[int]] = field(default_factory=dict)
    cores: dict[str, Core] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    beats: int = 1
    latency: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    index_bits: int = 1
    score_bits: int = 1


def lower(network, options):
    """Return the cores that compute a network."""
    windows = any(isinstance(stage.operation, Conv2d | MaxPool2d) for stage in network.stages)
    if windows and options.input == "image":
        raise UsageError(
            "A network with windows takes its input one pixel per clock, not one image; use "
            "--input pixel or auto"
        )
    raster = (windows or options.input == "pixel") and len(network.input.shape) == 3
    result = Lowered()
    result.beats = network.input.size // network.input.channels if raster else 1
    gathered = None
    for number, stage in enumerate(network.stages):
        edge = network.edge_into(number)
        writer = _Writer(stage, edge, options, raster, result, gathered)
        try:
            writer.write(network, number)
        except ModelRejected as error:
            raise ModelRejected(f"Stage {stage.name}: {error}") from None
        if not isinstance(stage.operation, Flatten):
            gathered = None
        elif raster:
            raster = False
            if edge.size > edge.channels:
                gathered = (stage.name, edge)
    result.latency = int(_times(result)[-1])
    return result


def lower_stage(stage, edge, options):
    """Return the cores that compute one stage by itself."""
    result = Lowered()
    raster = len(edge.shape) == 3
    writer = _Writer(stage, edge, options, raster, result, None)
    match stage.operation:
        case Encode() as encoder:
            planes = encoder.thresholds.size if raster else encoder.infer(edge).size
            writer.encode(encoder, np.ones(planes, bool), least=1)
        case Linear() | Conv2d() | MaxPool2d() | Levels():
            writer.write(None, 0)
        case _:
            raise ValueError(f"Stage must compute bits by itself, not {stage.operation.kind}")
    return result.cores


def _times(lowered):
    """Return when results are given, if one image comes by itself, a beat in every cycle."""
    times = np.arange(lowered.beats)
    for core in lowered.cores.values():
        times = core.times(times)
    return times


class _Writer:
    """Writes the cores of one stage."""

    def __init__(self, stage, edge, options, raster, result, gathered):
        self.stage, self.edge, self.options, self.raster = stage, edge, options, raster
        self.result = result
        # The stage that makes a vector of this one's map, and that map; if there is one.
        self.gathered = gathered
        self.family = FAMILIES[options.family]
        # What arrives together.
        self.values = edge.channels if raster else edge.size
        self.width = self.values * edge.bits

    def write(self, network, number):
        """Write the cores of the stage."""
        match self.stage.operation:
            case Encode() as encoder:
                self._gather()
                self.encode(encoder, _read_of(network, number, self.raster))
            case Levels() as levels:
                self._gather()
                self._levels(levels)
            case Flatten():
                # Left to the stage that reads the vector.
                pass
            case Linear() as layer:
                self._vector(layer, self._linear)
            case Conv2d() as layer:
                self._conv(layer)
            case MaxPool2d() as pool:
                self._pool(pool)
            case Scores() as scores:
                self.score_bits = network.edge_from(number).bits
                self._vector(scores, self._scores)

    def _gather(self):
        """Write what makes a vector of a map, if the stage reads one."""
        if self.gathered is not None:
            name, edge = self.gathered
            self._add(name, Gather(edge.size // edge.channels, edge.channels * edge.bits))

    def _vector(self, layer, function):
        """Write a layer that reads a vector, which may have to be made of pixels first."""
        if self.gathered is None:
            self._add(self.stage.name, self._tables(self.width, function(layer)))
            return
        name, edge = self.gathered
        pixels = edge.size // edge.channels
        choices = []
        if self.options.flatten != "accumulate":
            vector = self._tables(self.width, function(layer))
            wired = dict(self.result.connections)
            gather = Gather(pixels, edge.channels * edge.bits)
            choices.append(({name: gather, self.stage.name: vector}, wired))
        if self.options.flatten != "gather":
            for cycles in self._cycles(edge):
                cores = self._accumulated(layer, function, edge, pixels, cycles)
                choices.append((cores, dict(self.result.connections)))
        cores, wired = min(choices, key=lambda choice: _area(choice[0].values()))
        for part, core in cores.items():
            self._add(part, core)
        self.result.connections = wired

    def _cycles(self, edge):
        """Return the numbers of cycles over which a pixel may be counted, to choose among."""
        between = 1
        for core in self.result.cores.values():
            between = core.gap(between)
        if self.options.serial > between:
            raise ModelRejected(
                f"its pixels come every {between} cycles, so each cannot be counted in "
                f"{self.options.serial} cycles; use a smaller --serial, or 0"
            )
        if self.options.serial:
            return [self.options.serial]
        return [n for n in SERIAL if n <= min(between, edge.channels)]

    def _accumulated(self, layer, function, edge, pixels, cycles):
        """Return cores that count taps as pixels arrive, each over some cycles, and then decide."""
        bits, maximum = edge.bits, edge.maximum
        # A part of a pixel is like a pixel of fewer channels.
        channels = -(-edge.channels // cycles)
        width, beats = edge.channels * bits, pixels * cycles

        def place(index):
            pixel, channel = divmod(index, edge.channels)
            part, value = divmod(channel, channels)
            return pixel * cycles + part, value

        neurons = [
            [(*place(index), inverted) for index, inverted in zip(
                layer.taps.indices[layer.taps.of(n)].tolist(),
                layer.taps.inverted[layer.taps.of(n)].tolist(), strict=True)]
            for n in range(len(layer.taps))
        ]
        if getattr(layer, "xi", 0):
            counted = np.setdiff1d(np.arange(edge.size), layer.fixed).tolist()
            neurons.append([(*place(index), False) for index in counted])
        limits = [most_at_once(taps, maximum) for taps in neurons]
        count_bits = [max(1, once.bit_length()) for once, _ in limits]
        sum_bits = [max(1, total.bit_length()) for _, total in limits]
        part_bits, place_bits = (cycles - 1).bit_length(), (beats - 1).bit_length()
        wired = 0

        def count(logic, literals):
            nonlocal wired
            pixel, part, number = _parts(literals, [width, part_bits, place_bits])
            chosen = select_part(logic, pixel, part, channels * bits, self.family)
            values = [chosen[n * bits : (n + 1) * bits] for n in range(channels)]
            places = [
                {literal: beat >> n & 1 for n, literal in enumerate(number)}
                | {literal: beat % cycles >> n & 1 for n, literal in enumerate(part)}
                for beat in range(beats)
            ]
            found = []
            for neuron, (taps, size) in enumerate(zip(neurons, count_bits, strict=True)):
                counted, gates = count_at(logic, taps, values, number, f"n{neuron}", self.family)
                found += (counted + [FALSE] * size)[:size]
                if neuron < len(layer.taps):
                    wired += sum(places_of(logic, gate, pixel[value * bits :: channels * bits],
                                           places) for value, gate in gates.items())
            return found

        first = Repeat(pixels, width, cycles) if cycles > 1 else Number(pixels, width)
        counts = self._tables(len(first.o.payload), count)
        sums = Accumulate(beats, count_bits, sum_bits)
        decide = self._tables(sum(sum_bits), function(layer, sum_bits))
        self.result.connections[self.stage.name] = wired
        name = self.stage.name
        return {
            f"{name}_number": first, f"{name}_taps": counts, f"{name}_sums": sums, name: decide,
        }

    def _add(self, name, core):
        if name in ("clk", "rst", "enable") or "__" in name:
            raise ModelRejected("its name is also the name of a port; rename it")
        if name in self.result.cores:
            raise ModelRejected(f"its part {name} has the name of another stage; rename that stage")
        self.result.cores[name] = core
        self.result.parts.setdefault(self.stage.name, []).append(name)

    def _tables(self, width, function, least=1):
        return Tables(width, function, family=self.options.family,
                      levels_per_stage=self.options.levels_per_stage,
                      split_pairs=self.options.split_pairs, least=least)

    def _split(self, bits, count=None):
        """Part literals into values."""
        size = self.edge.bits
        return [bits[n : n + size] for n in range(0, (count or self.values) * size, size)]

    def encode(self, encoder, read, least=0):
        """Write an encoder; bits that are not read are not built."""
        def function(logic, bits):
            found = layers.encode(logic, encoder, self._split(bits), self.family)
            return [bit if wanted else FALSE for bit, wanted in zip(found, read, strict=True)]

        # Thresholds of a power of two are wires, and need no registers.
        self._add(self.stage.name, self._tables(self.width, function, least))
        self.result.unread[self.stage.name] = np.flatnonzero(~read).tolist()

    def _levels(self, levels):
        def function(logic, bits):
            return layers.levels(logic, levels, self._split(bits), self.family)

        self._add(self.stage.name, self._tables(self.width, function))

    def _linear(self, layer, sum_bits=None):
        def function(logic, bits):
            sums = []
            if sum_bits is not None:
                # Each neuron's taps are counted already, and last what all share.
                counts = _parts(bits, sum_bits)
                if layer.xi:
                    weighted = [(bit, 1 << n) for n, bit in enumerate(counts[-1])]
                    most = layer.counted_inputs(self.edge) * self.edge.maximum
                    sums = [layers.SharedSum(logic, weighted, most, layer.xi, layer.k, self.family)]
                    self.result.counted[self.stage.name] = self.edge.size
                return layers.decide(logic, layer, counts, sums, self.family)
            values = self._split(bits)
            if layer.xi:
                counted = np.setdiff1d(np.arange(layer.taps.width), layer.fixed).tolist()
                weighted = [(bit, 1 << n) for i in counted for n, bit in enumerate(values[i])]
                most = len(counted) * self.edge.maximum
                sums = [layers.SharedSum(logic, weighted, most, layer.xi, layer.k, self.family)]
            return self._fire(logic, layer, values, sums, [])

        return function

    def _fire(self, logic, layer, values, sums, border, counts=()):
        """Make the neurons' bits; ``counts`` are inputs that hold what was counted before."""
        absent = set(self.stage.absent.tolist())
        if sums:
            self.result.counted[self.stage.name] = (
                self.edge.size if isinstance(layer, Linear) else layer.window.size * layer.channels)
        fires = layers.fire(logic, layer, values, sums, border, self.family, self.options.share)
        self.result.connections[self.stage.name] = layers.count_connections(
            logic, fires, sums, [*border, *counts], self.edge.bits, layer.taps)
        return [FALSE if n in absent else bit for n, bit in enumerate(fires)]

    def _scores(self, scores, sum_bits=None):
        def function(logic, bits):
            if sum_bits is not None:
                weighted = [[(bit, 1 << n) for n, bit in enumerate(count)]
                            for count in _parts(bits, sum_bits)]
            else:
                weighted = layers.weigh_taps(scores.taps, self._split(bits))
            flat = layers.score(logic, scores, weighted, self.edge.maximum, self.score_bits,
                                self.family)
            each = _parts(flat, [self.score_bits] * len(scores.taps))
            if sum_bits is None:
                self.result.connections[self.stage.name] = layers.count_connections(
                    logic, each, [], [], self.edge.bits)
            index = layers.argmax(logic, each, self.family)
            self.result.index_bits, self.result.score_bits = len(index), self.score_bits
            return index + (flat if self.options.scores else [])

        return function

    def _conv(self, layer):
        channels, size, bits = layer.channels, layer.window.size, self.edge.bits
        groups, count_bits = layer.groups if layer.xi else 0, 0
        width = self.width
        if groups:
            in_group = [[c for c in range(g * channels // groups, (g + 1) * channels // groups)
                         if c not in set(layer.fixed.tolist())] for g in range(groups)]
            largest = max(len(group) for group in in_group) * self.edge.maximum
            count_bits = max(1, largest.bit_length())

            def count(logic, literals):
                values = self._split(literals)
                found = []
                for number, group in enumerate(in_group):
                    logic.owner = f"q{number}"
                    columns, _ = gather_columns(
                        (bit, 1 << n) for c in group for n, bit in enumerate(values[c]))
                    total = add_up(logic, columns, 0, self.family)
                    found += (total + [FALSE] * count_bits)[:count_bits]
                return [*literals, *found]

            self._add(f"{self.stage.name}_count", self._tables(width, count, least=0))
            width += groups * count_bits
        # The bits of the window that are read: taps, and what each pixel adds to q.
        tapped = np.unique(layer.taps.indices).tolist()
        wanted = [(tap // channels, tap % channels * bits + n)
                  for tap in tapped for n in range(bits)]
        counts = [(position, self.width + n)
                  for position in range(size) for n in range(groups * count_bits)]
        borders = layer.borders(self.edge)
        classes = borders.of if len(borders) > 1 else None
        if not wanted and not counts:
            # Constant neurons alone: the window still tells when to give them.
            wanted = [(size - 1, 0)]
        window = Windows(layer.window, *self.edge.shape[:2], width, [*wanted, *counts],
                         classes=classes, family=self.options.family)
        self._add(f"{self.stage.name}_window", window)

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
                most = size * len(in_group[group]) * self.edge.maximum
                sums.append(layers.SharedSum(logic, weighted, most, layer.xi, layer.k, self.family))
            return self._fire(logic, layer, values, sums, border, counted)

        self._add(self.stage.name, self._tables(len(window.o.payload), function))

    def _pool(self, pool):
        absent = set(self.stage.absent.tolist())
        size = pool.window.size
        kept = [channel for channel in range(self.edge.channels) if channel not in absent]
        wanted = [(position, channel) for channel in kept for position in range(size)]
        fill = [int(pool.all_of[channel]) for _, channel in wanted]
        window = Windows(pool.window, *self.edge.shape[:2], self.width, wanted, fill=fill,
                         family=self.options.family)
        self._add(f"{self.stage.name}_window", window)

        def function(logic, literals):
            outputs = [FALSE] * self.edge.channels
            for number, channel in enumerate(kept):
                bits = literals[number * size : (number + 1) * size]
                outputs[channel] = layers.pool(logic, bits, bool(pool.all_of[channel]), channel,
                                               self.family)
            return outputs

        self._add(self.stage.name, self._tables(len(window.o.payload), function))


def _parts(bits, sizes):
    """Part literals into pieces of some sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [bits[start:end] for start, end in pairwise(ends)]


def _area(cores):
    """Return what cores take: a table comes with two registers."""
    tables = sum(core.tables for core in cores)
    registers = sum(core.registers for core in cores)
    return max(tables, registers / 2)


def _read_of(network, number, raster):
    """Return which of an encoder's bits are read by the stage behind it."""
    edge = network.edge_from(number)
    flat = False
    for stage in network.stages[number + 1 :]:
        operation = stage.operation
        if not isinstance(operation, Flatten):
            break
        flat = True
    every = np.zeros(edge.size if flat or len(edge.shape) == 1 else edge.channels, bool)
    if isinstance(operation, Layer) and operation.xi:
        every[:] = True
        every[operation.fixed] = False
    elif isinstance(operation, Layer | Scores):
        every[operation.taps.indices % len(every)] = True
    else:
        every[:] = True
    if raster:
        return every.reshape(-1, edge.channels).any(axis=0)
    return np.resize(every, edge.size)
