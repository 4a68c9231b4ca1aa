"""Random chains of linear layers: what an engine computes."""

import numpy as np
from random_networks import (
    _Builder,
    random_encoder,
    random_images,
    random_linear,
    random_scores,
    random_vector_network,
)

from sbnn_hw.netlist import Edge, Flatten

__all__ = ["random_chain", "random_images"]


def random_chain(rng, *, largest=40):
    """Return a network of layers of all sizes; none of them may be hidden."""
    if rng.random() < 0.4:
        return random_vector_network(rng, layers=int(rng.integers(0, 4)))
    if rng.random() < 0.3:
        shape = (int(rng.integers(1, 3 * largest)),)
    else:
        shape = (int(rng.integers(1, 8)), int(rng.integers(1, 8)), int(rng.integers(1, 4)))
    scan = "raster" if len(shape) == 3 else "vector"
    builder = _Builder(Edge.of_bits(shape, int(rng.choice([8, 4, 1])), scan=scan))
    if rng.random() < 0.8 and builder.input.bits > 2:
        builder.add(random_encoder(rng, builder.edge))
    if len(shape) == 3:
        builder.add(Flatten())
    for _ in range(int(rng.integers(0, 4))):
        builder.add(random_linear(rng, builder.edge, int(rng.integers(1, largest))))
    builder.add(random_scores(rng, builder.edge, int(rng.choice([2, 3, 5, 10, 17]))))
    return builder.finish()


def places_of(network, folded, outcome):
    """Return what each hidden layer's places hold, by the netlist; −1 where they hold nothing."""
    found = []
    for layer, order in zip(folded.chain.layers[:-1], folded.program.orders[:-1], strict=True):
        values = outcome.values[layer.name].astype(np.int64)
        padded = np.concatenate([values, np.full((len(values), 1), -1)], axis=1)
        found.append(padded[:, order])
    return found
