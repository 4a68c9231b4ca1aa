"""Random networks of every kind, made of what the tests make theirs of."""

from collections.abc import Callable

import numpy as np
from random_networks import (
    _Builder,
    random_encoder,
    random_level_network,
    random_linear,
    random_map_network,
    random_scores,
    random_vector_network,
)
from random_residual import random_residual_network, random_sign, tiny_residual_network

from sbnn_hw.netlist import Edge, Encode, Flatten, Network

__all__ = ["KINDS", "random_chain", "random_kind"]

Rng = np.random.Generator


def _size(rng: Rng, wide: bool) -> int:
    """Return a number of values or neurons: often few, at times one, in wide chains many."""
    least, most = [(1, 2), (2, 12), (12, 40), (64, 400)][
        int(rng.choice(4, p=[0.1, 0.3, 0.3, 0.3] if wide else [0.1, 0.6, 0.3, 0.0]))
    ]
    return int(rng.integers(least, most))


def random_chain(rng: Rng) -> Network:
    """Return a chain of an encoder or none, up to three layers, and scores.

    Its input has 1 to 8 bits; without an encoder the first layer adds integers up.
    """
    wide = rng.random() < 0.1
    bits = int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8], p=[0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2]))
    if rng.random() < 0.5:
        builder = _Builder(Edge.of_bits((_size(rng, wide),), bits))
    else:
        shape = tuple(int(n) for n in rng.integers(1, [7, 7, 4]))
        builder = _Builder(Edge.of_bits(shape, bits, scan="raster"))
    if bits > 1 and rng.random() < 0.6:
        builder.add(_encoder(rng, builder.edge))
    if len(builder.edge.shape) == 3:
        builder.add(Flatten())
    for _ in range(int(rng.choice(4, p=[0.1, 0.4, 0.3, 0.2]))):
        most, constant = int(rng.choice([24, 24, 24, 200])), rng.random() < 0.3
        neurons = _size(rng, wide)
        layer = random_linear(rng, builder.edge, neurons, most=most, most_k=8, constant=constant)
        builder.add(layer)
    builder.add(random_scores(rng, builder.edge, int(rng.choice([1, 2, 2, 3, 5, 10, 17]))))
    return builder.finish()


def _encoder(rng: Rng, edge: Edge) -> Encode:
    """Return an encoder of pixels, or one with flips and bits that never change."""
    if edge.maximum < 4 or rng.random() < 0.3:
        return random_sign(rng, edge, planes=int(rng.integers(1, 4)))
    return random_encoder(rng, edge)


#: How networks are made, and how often.
KINDS: dict[str, tuple[Callable[[Rng], Network], float]] = {
    "chain": (random_chain, 0.6),
    "vector": (random_vector_network, 0.12),
    "map": (random_map_network, 0.12),
    "levels": (random_level_network, 0.04),
    "tiny residual": (tiny_residual_network, 0.08),
    "residual": (lambda rng: random_residual_network(rng, blocks=1), 0.04),
}


def random_kind(rng: Rng) -> str:
    """Return a kind of networks."""
    return str(rng.choice(list(KINDS), p=[odds for _, odds in KINDS.values()]))
