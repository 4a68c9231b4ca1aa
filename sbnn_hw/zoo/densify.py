"""The dense network of weights −1 and +1 beside a sparse one: same stages, same widths."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import Edge, Layer, Network, Scores, Stage, Taps
from sbnn_hw.netlist.layer_form import fewer_taps

__all__ = ["dense_layer", "densify"]


def densify(network: Network, seed: int = 0) -> Network:
    """Return an untrained dense network of the same topology; ``seed`` chooses its weights.

    Weights are −1 and +1 by chance, in equal parts; batch norms do nothing. With ξ = −1/2 and η =
    2, as a fold has it, the weights of one sign are the connections and q stands for the others:
    about half the taps that wiring every input would take.
    """
    rng = np.random.default_rng(seed)
    stages = []
    for number, stage in enumerate(network.stages):
        operation = stage.operation
        if isinstance(operation, Layer | Scores):
            ones = _random_ones(operation, rng)
            operation = dense_layer(operation, network.edge_into(number), ones)
        stages.append(Stage(stage.name, operation, stage.sources))
    return Network(network.input, tuple(stages))


def dense_layer(layer: Layer | Scores, edge: Edge, ones: npt.NDArray[np.bool_]) -> Layer | Scores:
    """Return a layer of weights −1 and +1 that fires where their sum is not negative.

    It has the geometry of ``layer`` and receives ``edge``. The weights of value +1 are ``ones``, of
    shape (neurons, taps).
    """
    taps = Taps.from_dense(ones.astype(np.int8))
    if isinstance(layer, Scores):
        return Scores(taps=taps, negative=False, shift=0, offsets=np.zeros(len(taps), np.int64))
    # Σ w·x ≥ 0 is 2·pc_S − pc_N ≥ |S| − N/2, where what lies in padding of zeros does not count.
    valid = layer.borders(edge).valid
    position = (taps.indices // layer.channels).astype(np.int64)
    tapped = np.array([taps.per_neuron(mask[position]) for mask in valid])
    inputs = valid.sum(axis=1)[:, None] * (layer.channels // layer.groups)
    thresholds = -((edge.maximum * (inputs - 2 * tapped)) // 2)
    made = replace(
        layer,
        taps=taps,
        xi=-1,
        k=1,
        thresholds=thresholds,
        flips=np.zeros(len(taps), bool),
        fixed=np.zeros(0, np.int64),
    )
    # The form that a fold gives: of either sign the one that fewer weights have is tapped.
    return fewer_taps(made, edge, np.full(len(taps), -1, np.int8))


def _random_ones(layer: Layer | Scores, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    neurons = len(layer.taps)
    ones = rng.random((neurons, layer.taps.width)) < 0.5
    channel = np.arange(layer.taps.width) % layer.channels
    group = channel // (layer.channels // layer.groups)
    own: npt.NDArray[np.bool_] = group == (np.arange(neurons) // (neurons // layer.groups))[:, None]
    return ones & own
