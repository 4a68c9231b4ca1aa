"""The chain of stages that an engine computes, as integers in one unit."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Encode, Flatten, Linear, Network, Scores, Stage, Taps

__all__ = ["Chain", "ChainLayer", "first_foldable", "read_chain"]

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ChainLayer:
    """A layer of a chain, neurons or scores, before a unit is chosen.

    Neuron *n* has the value starts[n] + Σ 2^unit·tap + Ξ·pc_N, and fires if it is not negative, or
    else where it is flipped. A class's score is that value.
    """

    #: The stage's number and name.
    number: int
    name: str
    taps: Taps
    #: log2 of what a tap adds.
    unit: int
    starts: Int
    flips: npt.NDArray[np.bool_]
    xi: int
    #: Inputs that Ξ does not count, and the greatest sum of all others.
    fixed: Int
    most: int
    #: The least and the greatest value of each neuron.
    low: Int
    high: Int
    #: Neurons that something reads.
    needed: npt.NDArray[np.bool_]
    #: The values of classes: every tap reads the complement where they are negative.
    scores: bool
    negative: bool


@dataclass(frozen=True, eq=False)
class Chain:
    """What an engine computes: values of bits or integers, then layers."""

    #: The first stage's number.
    first: int
    #: Values that come for an image, and the bits of each.
    values: int
    value_bits: int
    #: (channels, planes) of the encoder, and which bits are set below; empty if there is none.
    thresholds: Int
    flips: npt.NDArray[np.bool_]
    #: The name of the stage whose bits are the first layer's inputs, if one makes them.
    encoder: str | None
    layers: tuple[ChainLayer, ...]
    score_bits: int
    shift: int

    @property
    def planes(self) -> int:
        """Bits that are made of a value; 1 where values are taken as they are."""
        return self.thresholds.shape[1] if self.thresholds.size else 1

    @property
    def integers(self) -> bool:
        """Whether the first layer's inputs are integers of several bits."""
        return not self.thresholds.size and self.value_bits > 1

    @property
    def inputs(self) -> int:
        """Inputs of the first layer."""
        return self.values * self.planes


def first_foldable(network: Network) -> int:
    """Return the number of the first stage from which on an engine can compute a network.

    It is the number of the last stage or less; where even that one cannot be folded, the number of
    stages.
    """
    found = len(network.stages)
    for number in reversed(range(len(network.stages))):
        try:
            read_chain(network, number)
        except ModelRejected:
            continue
        found = number
    return found


def read_chain(network: Network, first: int = 0) -> Chain:
    """Return the chain from a stage on; refuse what an engine does not compute."""
    stages = network.stages
    for number in range(first, len(stages)):
        stage = stages[number]
        if stage.sources != (number - 1,):
            raise ModelRejected(
                f"Stage {stage.name}: an engine computes chains, but it does not read the stage "
                "in front of it alone; unroll it"
            )
    edge = network.edge_from(first - 1)
    if edge.signed:
        raise ModelRejected(
            f"Stage {stages[first].name}: an engine takes no signed integers; fold from a later "
            "stage on"
        )
    values, bits = edge.size, edge.bits
    thresholds, flips, encoder = np.zeros((0, 0), np.int64), np.zeros((0, 0), bool), None
    at = first
    for stage in stages[first:]:
        operation = stage.operation
        if isinstance(operation, Encode) and encoder is None:
            encoder, thresholds = stage.name, operation.thresholds
            flips = np.zeros(thresholds.shape, bool) if operation.flips is None else operation.flips
        elif not isinstance(operation, Flatten):
            break
        at += 1
    layers = tuple(_layers(network, at))
    last = stages[-1].operation
    assert isinstance(last, Scores)
    return Chain(first, values, bits, thresholds, flips, encoder, layers,
                 network.edge_from(len(stages) - 1).bits, last.shift)  # fmt: skip


def _layers(network: Network, at: int) -> Iterator[ChainLayer]:
    for number in range(at, len(network.stages)):
        stage = network.stages[number]
        if isinstance(stage.operation, Linear):
            yield _neurons(network, number, stage)
        elif isinstance(stage.operation, Scores) and stage.operation.weights is None:
            yield _scores(network, number, stage)
        else:
            what = "weighted scores" if stage.operation.scoring else stage.operation.kind
            raise ModelRejected(
                f"Stage {stage.name}: an engine computes linear layers and scores, not {what}; "
                "unroll it"
            )


def _neurons(network: Network, number: int, stage: Stage) -> ChainLayer:
    layer, edge = stage.operation, network.edge_into(number)
    assert isinstance(layer, Linear)
    low, high = (ends[0] for ends in layer.reach(edge))
    needed = network.read[number].reshape(-1)
    starts = -layer.thresholds[0]
    return ChainLayer(
        number, stage.name, layer.taps, layer.k, starts, layer.flips, layer.xi, layer.fixed,
        layer.counted_inputs(edge) * edge.maximum, low + starts, high + starts, needed,
        scores=False, negative=False,
    )  # fmt: skip


def _scores(network: Network, number: int, stage: Stage) -> ChainLayer:
    layer, edge = stage.operation, network.edge_into(number)
    assert isinstance(layer, Scores)
    # A score is ±2^shift·(2·pc − most) + offset; with a minus, pc counts complements.
    most = (layer.taps.fan_in * edge.maximum) << layer.shift
    starts, classes = layer.offsets - most, len(layer.taps)
    return ChainLayer(
        number, stage.name, layer.taps, layer.shift + 1, starts, np.zeros(classes, bool), 0,
        np.zeros(0, np.int64), 0, starts, starts + 2 * most, np.ones(classes, bool), scores=True,
        negative=layer.negative,
    )  # fmt: skip
