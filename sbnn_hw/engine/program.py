"""The words of an engine's memory for a network."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine.chain import Chain, ChainLayer
from sbnn_hw.engine.codes import Gaps, group_lengths
from sbnn_hw.engine.shape import MIN_CODES, Shape
from sbnn_hw.errors import ModelRejected

__all__ = ["Placed", "Program", "check_chain", "check_depth", "compile_gaps", "place_layers"]

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Program:
    """What an engine's memory holds: a word for each clock, a slot of it for each lane."""

    shape: Shape
    #: (words, lanes).
    slots: npt.NDArray[np.uint32]
    #: For each layer the neuron at each place, group by group; −1 where a lane has none.
    orders: tuple[Int, ...]
    #: Code words of each group, layer by layer.
    lengths: tuple[Int, ...]

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.slots)

    @cached_property
    def words(self) -> list[int]:
        """The words as numbers, the first lane's slot lowest."""
        bits, found = self.shape.slot_bits, [0] * len(self.slots)
        for lane in reversed(range(self.shape.lanes)):
            column = self.slots[:, lane].tolist()
            found = [word << bits | slot for word, slot in zip(found, column, strict=True)]
        return found

    def to_bytes(self) -> bytes:
        """Return all words of the memory as they are loaded, each in whole bytes, lowest first."""
        size = self.shape.word_bytes
        filled = self.words + [0] * (self.shape.depth - len(self))
        return b"".join(word.to_bytes(size, "little") for word in filled)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the shape and the words."""
        return hashlib.sha256(self.shape.digest.encode() + self.to_bytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Placed:
    """A layer whose neurons have places."""

    layer: ChainLayer
    gaps: Gaps
    order: Int  # The neuron at each place; −1 where there is none.
    lengths: Int  # Code words of each group.


def place_layers(
    chain: Chain, lanes: int, gap_bits: int, groups: tuple[int, ...] | None = None
) -> Iterator[Placed]:
    """Give the neurons of all layers places; ``groups`` tells how many words each layer hands on.

    Neurons with many codes come first, so that those of a group take about as long. Classes stay
    in order. A neuron that nothing reads has no place.
    """
    places = np.arange(chain.inputs)
    for number, layer in enumerate(chain.layers):
        taps = layer.taps
        kept = layer.needed[taps.neurons]
        gaps = Gaps.of(
            len(taps), taps.neurons[kept], places[taps.indices[kept]], taps.inverted[kept]
        )
        lengths = gaps.lengths(gap_bits)
        if layer.scores:
            order = np.arange(len(taps))
        else:
            order = np.argsort(-lengths, kind="stable")
            order = order[layer.needed[order]]
        needed = max(1, -(-len(order) // lanes)) if groups is None else groups[number]
        padded = np.full(needed * lanes, -1, np.int64)
        padded[: len(order)] = order
        codes = np.zeros(needed * lanes, np.int64)
        codes[: len(order)] = lengths[order]
        yield Placed(layer, gaps, padded, group_lengths(codes, lanes, MIN_CODES))
        places = np.full(len(taps), -1, np.int64)
        places[order] = np.arange(len(order))


def compile_gaps(chain: Chain, shape: Shape) -> Program:
    """Return the program of a chain for a shape of gap codes."""
    check_chain(chain, shape)
    groups = tuple(layer.groups for layer in shape.layers)
    pieces: list[npt.NDArray[np.uint32]] = []
    placed = list(place_layers(chain, shape.lanes, shape.gap_bits, groups))
    for found, layer in zip(placed, shape.layers, strict=True):
        _check_lengths(found, shape)
        if layer.counts:
            xi = found.layer.xi << shape.unit - found.layer.unit
            pieces.append(_headers(shape, np.array([[xi] + [0] * (shape.lanes - 1)]))[0])
        pieces.append(_layer_words(found, shape))
    slots = np.concatenate(pieces)
    check_depth(slots, shape)
    return Program(
        shape, slots, tuple(each.order for each in placed), tuple(each.lengths for each in placed)
    )


def check_depth(slots: npt.NDArray[np.uint32], shape: Shape) -> None:
    """Refuse a program that is longer than a shape's memory."""
    if len(slots) > shape.depth:
        raise ModelRejected(
            f"The network's program has {len(slots):,} words, but the plan holds {shape.depth:,}; "
            "use a network with fewer connections, or build for this one"
        )


def _check_lengths(found: Placed, shape: Shape) -> None:
    """Refuse a layer with a group of more codes than its header can tell."""
    longest = int(found.lengths.max())
    if longest > shape.most_codes:
        raise ModelRejected(
            f"Layer {found.layer.name} has a neuron of {longest:,} codes, but the plan counts to "
            f"{shape.most_codes:,}; use a network with fewer connections, or build for this one"
        )


def _layer_words(found: Placed, shape: Shape) -> npt.NDArray[np.uint32]:
    layer, lanes, head = found.layer, shape.lanes, shape.header_words
    ends = np.cumsum(found.lengths + head)
    begins = ends - found.lengths - head
    # What is not written is an escape: it moves on, and taps nothing.
    slots = np.full((int(ends[-1]), lanes), (1 << shape.gap_bits) - 1, np.uint32)
    held = found.order >= 0
    # A lane without a neuron gives 0, whatever is added to it.
    idle = -1 - max(0, layer.xi) * layer.most
    starts = np.where(held, layer.starts[found.order], idle) << shape.unit - layer.unit
    flips = held & layer.flips[found.order]
    headers = _headers(shape, starts.reshape(-1, lanes), flips.reshape(-1, lanes), found.lengths)
    slots[begins[:, None] + np.arange(head)] = headers
    place = np.zeros(len(layer.taps), np.int64)
    place[found.order[held]] = np.flatnonzero(held)
    gaps = found.gaps
    if layer.scores and layer.negative != shape.negative:
        gaps = Gaps(gaps.neurons, gaps.neuron, gaps.steps, ~gaps.inverted)
    gaps.write(shape.gap_bits, (begins + head)[place // lanes], place % lanes, slots)
    return slots


def _headers(
    shape: Shape,
    starts: Int,
    flips: npt.NDArray[np.bool_] | None = None,
    lengths: Int | None = None,
) -> npt.NDArray[np.uint32]:
    """Return the header words of groups: (groups, words, lanes).

    A lane's header is, from its lowest bit on, the start value, the flip, and a part of the count,
    which is two less than the number of code words. Its highest slot comes first.
    """
    lanes, bits = shape.lanes, shape.slot_bits
    found = starts.astype(object) % (1 << shape.sum_bits)
    if flips is not None and lengths is not None:
        spare = shape.spare_bits
        parts = (lengths[:, None] - 2 >> spare * np.arange(lanes)) & (1 << spare) - 1
        found += flips.astype(object) << shape.sum_bits
        found += parts.astype(object) << shape.sum_bits + 1
    rows = [found >> bits * n & (1 << bits) - 1 for n in reversed(range(shape.header_words))]
    return np.stack(rows, axis=1).astype(np.uint32)


def check_chain(chain: Chain, shape: Shape) -> None:
    """Refuse a chain that a shape cannot hold, with the number that does not fit."""
    if len(chain.layers) != len(shape.layers):
        raise ModelRejected(
            f"The network has {len(chain.layers)} layers, but the plan {len(shape.layers)}; use a "
            "network of the plan's shape"
        )
    for what, own, held in (
        ("values", chain.values, shape.values),
        ("bits a value", chain.value_bits, shape.value_bits),
        ("score shift", chain.shift, shape.shift),
    ):
        if own != held:
            raise ModelRejected(
                f"The network has {what} {own}, but the plan {held}; use a network of the plan's "
                "shape"
            )
    if chain.thresholds.tolist() != [
        list(each) for each in shape.thresholds
    ] or chain.flips.tolist() != [list(each) for each in shape.flips]:
        raise ModelRejected(
            "The network's encoder has other thresholds than the plan's; train it with the same "
            "encoder"
        )
    if chain.score_bits > shape.score_bits:
        raise ModelRejected(
            f"The network's scores have {chain.score_bits} bits, but the plan's "
            f"{shape.score_bits}; build for this one"
        )
    for layer, planned in zip(chain.layers, shape.layers, strict=True):
        if len(layer.taps) != planned.neurons:
            raise ModelRejected(
                f"Layer {layer.name} has {len(layer.taps)} neurons, but the plan "
                f"{planned.neurons}; use a network of the plan's shape"
            )
        if layer.needed.sum() > planned.groups * shape.at_once:
            raise ModelRejected(
                f"Layer {layer.name} has {layer.needed.sum()} neurons that are read, but the plan "
                f"has room for {planned.groups * shape.at_once}; build for this one"
            )
    for number, layer in enumerate(chain.layers):
        _check_layer(layer, shape, number)


def _check_layer(layer: ChainLayer, shape: Shape, number: int) -> None:
    held = shape.layers[number]
    if layer.xi and not held.counts:
        raise ModelRejected(
            f"Layer {layer.name} adds up all its inputs (ξ is not 0), and the plan does not; train "
            "it with ξ = 0, or build for this one"
        )
    if layer.xi and not number and tuple(layer.fixed.tolist()) != shape.fixed:
        raise ModelRejected(
            f"Layer {layer.name} leaves out {len(layer.fixed)} inputs of its sum, and not those of "
            "the plan; build for this one"
        )
    if layer.unit > shape.unit:
        raise ModelRejected(
            f"Layer {layer.name} has {layer.unit} bits of fraction, but the plan {shape.unit}; "
            "train it with fewer --xi-bits, or build for this one"
        )
    needed = sum_bits_of(layer, shape.unit)
    if needed > shape.sum_bits:
        raise ModelRejected(
            f"Layer {layer.name} needs sums of {needed} bits, but the plan has {shape.sum_bits}; "
            "build for this one"
        )
    inverted = layer.taps.inverted ^ (layer.scores and layer.negative != shape.negative)
    if inverted.any() and not shape.signed and not shape.bitmap:
        raise ModelRejected(
            f"Layer {layer.name} has {inverted.sum()} inverted connections, and the plan holds "
            "none; build for this one"
        )


def sum_bits_of(layer: ChainLayer, unit: int) -> int:
    """Return the bits of the values that a layer's neurons may end with.

    What comes before the end may wrap.
    """
    # A lane without a neuron must stay negative.
    scale = unit - layer.unit
    low = min([-1 - abs(layer.xi) * layer.most, *layer.low[layer.needed].tolist()]) << scale
    high = max([0, *layer.high[layer.needed].tolist()]) << scale
    return int(max(~low, high)).bit_length() + 1
