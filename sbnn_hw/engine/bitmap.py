"""Bitmaps: the weights of dense layers as bits, a neuron at a time, many inputs in a word."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine.chain import Chain, ChainLayer
from sbnn_hw.engine.program import Program, check_chain, check_depth, sum_bits_of
from sbnn_hw.engine.shape import LayerShape, Shape
from sbnn_hw.errors import ModelRejected

__all__ = ["compile_bitmap", "fit_bitmap", "handed_places"]

Int = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The weights of a layer by the places of its inputs: a row for each neuron that is needed."""

    layer: ChainLayer
    neurons: Int  # Of each row.
    tapped: npt.NDArray[np.bool_]
    inverted: npt.NDArray[np.bool_]
    places: int  # Inputs that hold something.
    computed: int  # Inputs that the hardware has; those that nothing reads hold nothing.

    @property
    def full(self) -> bool:
        """Whether every neuron taps every input that there is."""
        return bool((self.tapped.sum(axis=1) == self.computed).all())

    @property
    def width(self) -> int:
        """Places that it reads, with those that hold nothing."""
        return int(self.tapped.shape[1])


def fit_bitmap(chain: Chain, lanes: int, loadable: bool) -> Shape:
    """Return the shape of a bitmap for a chain."""
    if chain.integers:
        raise ModelRejected(
            f"Layer {chain.layers[0].name} reads integers of {chain.value_bits} bits, and a bitmap "
            "reads bits; use form gaps, or train with an encoder"
        )
    unit = max(layer.unit for layer in chain.layers)
    drop = unit - chain.shift - 1
    sums = max(chain.score_bits + drop, *(sum_bits_of(layer, unit) for layer in chain.layers))
    draft = Shape(
        form="bitmap", lanes=lanes, gap_bits=1, signed=False, sum_bits=sums, unit=unit,
        count_bits=0, depth=0, loadable=loadable, values=chain.values, value_bits=chain.value_bits,
        thresholds=tuple(map(tuple, chain.thresholds.tolist())),
        flips=tuple(map(tuple, chain.flips.tolist())),
        fixed=tuple(chain.layers[0].fixed.tolist()), layers=(), score_bits=chain.score_bits,
        shift=chain.shift, negative=False,
    )  # fmt: skip
    sizes = [
        len(layer.taps) if loadable else max(1, int(layer.needed.sum())) for layer in chain.layers
    ]
    layers = []
    for rows, groups in zip(_rows(chain, lanes, sizes), sizes, strict=True):
        own = rows.layer
        layers.append(LayerShape(
            rows.width, groups, len(own.taps), bool(own.xi), _weights(rows, lanes, groups),
            rows.places,
        ))  # fmt: skip
    shape = replace(draft, layers=tuple(layers))
    heads = shape.header_words
    words = sum(
        layer.groups * (heads + shape.steps(layer)) + heads * layer.counts for layer in layers
    )
    return replace(shape, depth=words)


def _weights(rows: _Rows, lanes: int, groups: int) -> str:
    """Return how the weights of a layer are told."""
    if not rows.inverted.any():
        return "plain"
    # Where neurons have one word of weights alone, masks cost no more than a word that fills up.
    # A neuron that is not there must tap nothing.
    short = rows.width <= lanes
    return "full" if rows.full and not short and groups == len(rows.neurons) else "masked"


def handed_places(groups: int, lanes: int) -> Int:
    """Return the place of each neuron in the words that a layer hands on.

    Results are shifted in from above, so that a last word that is not full has its first places
    empty.
    """
    each = np.arange(groups)
    empty = -groups % lanes
    found: Int = each + np.where(each >= groups - groups % lanes, empty, 0)
    return found


def _rows(chain: Chain, lanes: int, sizes: list[int]) -> Iterator[_Rows]:
    """Yield the weights of all layers, which compute so many neurons."""
    places = np.arange(chain.inputs)
    width = held = computed = chain.inputs
    for layer, groups in zip(chain.layers, sizes, strict=True):
        taps = layer.taps
        neurons = np.flatnonzero(layer.needed)
        row = np.full(len(taps), -1, np.int64)
        row[neurons] = np.arange(len(neurons))
        kept = layer.needed[taps.neurons]
        tapped = np.zeros((len(neurons), -(-width // lanes) * lanes), bool)
        inverted = np.zeros_like(tapped)
        at = row[taps.neurons[kept]], places[taps.indices[kept]]
        tapped[at] = True
        inverted[at] = taps.inverted[kept] ^ (layer.scores and layer.negative)
        yield _Rows(layer, neurons, tapped, inverted, held, computed)
        places = np.full(len(taps), -1, np.int64)
        places[neurons] = handed_places(groups, lanes)[: len(neurons)]
        width, held, computed = -(-groups // lanes) * lanes, len(neurons), groups


def compile_bitmap(chain: Chain, shape: Shape) -> Program:
    """Return the program of a chain for the shape of a bitmap."""
    check_chain(chain, shape)
    pieces, orders, lengths = [], [], []
    sizes = [layer.groups for layer in shape.layers]
    for rows, layer in zip(_rows(chain, shape.lanes, sizes), shape.layers, strict=True):
        _check_weights(rows, layer)
        if layer.counts:
            xi = rows.layer.xi << shape.unit - rows.layer.unit
            pieces.append(_headers(shape, np.array([xi]), np.array([False]))[0])
        pieces.append(_layer_words(rows, layer, shape))
        order = np.full(-(-layer.groups // shape.lanes) * shape.lanes, -1, np.int64)
        order[handed_places(layer.groups, shape.lanes)[: len(rows.neurons)]] = rows.neurons
        orders.append(order)
        lengths.append(np.full(layer.groups, shape.steps(layer)))
    slots = np.concatenate(pieces)
    check_depth(slots, shape)
    return Program(shape, slots, tuple(orders), tuple(lengths))


def _check_weights(rows: _Rows, held: LayerShape) -> None:
    """Refuse weights that the words of a layer cannot tell."""
    name = rows.layer.name
    if held.weights == "plain" and rows.inverted.any():
        raise ModelRejected(
            f"Layer {name} has {rows.inverted.sum()} inverted connections, and the plan holds "
            "none; build for this one"
        )
    if held.weights == "full" and not (rows.full and len(rows.neurons) == held.groups):
        missing = held.groups * held.places - int(rows.tapped.sum())
        raise ModelRejected(
            f"Layer {name} lacks {missing:,} of all connections that the plan has; build for this "
            "one"
        )


def _layer_words(rows: _Rows, held: LayerShape, shape: Shape) -> Bits:
    layer, lanes, groups, heads = rows.layer, shape.lanes, held.groups, shape.header_words
    words = np.zeros((groups, heads + shape.steps(held), lanes), np.uint32)
    # A neuron that is not there gives 0, whatever is added to it.
    starts = np.full(groups, -1 - max(0, layer.xi) * layer.most)
    flips = np.zeros(groups, bool)
    count = len(rows.neurons)
    starts[:count], flips[:count] = layer.starts[rows.neurons], layer.flips[rows.neurons]
    words[:, :heads] = _headers(shape, starts << shape.unit - layer.unit, flips)
    steps = rows.width // lanes
    tapped = rows.tapped.reshape(count, steps, lanes)
    inverted = rows.inverted.reshape(count, steps, lanes)
    if held.weights == "masked":
        words[:count, heads::2], words[:count, heads + 1 :: 2] = tapped, inverted
    elif held.weights == "full":
        words[:count, heads:] = ~inverted
    else:
        words[:count, heads : heads + tapped.shape[1]] = tapped
    return words.reshape(-1, lanes)


def _headers(shape: Shape, starts: Int, flips: npt.NDArray[np.bool_]) -> Bits:
    """Return the header words of neurons, (neurons, words, lanes), the highest first."""
    bits = np.arange(shape.header_words * shape.lanes)
    values = starts[:, None] >> np.minimum(bits, 62) & 1
    values[:, bits >= shape.sum_bits] = 0
    values[:, shape.sum_bits] = flips
    return values.reshape(len(starts), -1, shape.lanes)[:, ::-1].astype(np.uint32)
