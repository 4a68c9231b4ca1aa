"""Bitmaps: dense layers, a neuron at a time, by words of weights."""

from dataclasses import replace

import numpy as np
import pytest
from random_chains import random_chain, random_images
from random_networks import _Builder, random_encoder, random_linear
from test_engine_program import agrees

from sbnn_hw.engine import compile_program, fold
from sbnn_hw.engine.evaluate import evaluate
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Edge, Linear, Scores, Taps

LANES = (16, 32, 64, 128)


def dense_chain(rng, *, inputs=None, sizes=None, classes=None, encoder=True):
    """Return a network whose layers are dense: all ±1, or half of their inputs with ξ = −1/2."""
    inputs = int(rng.integers(1, 200)) if inputs is None else inputs
    sizes = [int(n) for n in rng.integers(1, 90, rng.integers(0, 4))] if sizes is None else sizes
    classes = int(rng.choice([2, 3, 10])) if classes is None else classes
    builder = _Builder(Edge.of_bits((inputs,), 8 if encoder else 1))
    if encoder:
        builder.add(random_encoder(rng, builder.edge))
    for neurons in sizes:
        width = builder.edge.size
        kind = rng.integers(4)
        if kind == 0:
            builder.add(random_linear(rng, builder.edge, neurons))
            continue
        signs = rng.choice([-1, 1], (neurons, width))
        flips = rng.random(neurons) < 0.5
        if kind == 1:
            # 2·pc of what is +1, less pc of all.
            taps, xi, k = Taps.from_dense((signs > 0).astype(np.int8)), -1, 1
            middle = 0
        else:
            if kind == 3:
                signs = signs * (rng.random(signs.shape) < 0.8)
            taps, xi, k, middle = Taps.from_dense(signs), 0, 0, width // 2
        spread = int(np.sqrt(width)) + 1
        thresholds = (middle + rng.integers(-spread, spread + 1, neurons))[None]
        layer = Linear(taps=taps, xi=xi, k=k, thresholds=thresholds, flips=flips,
                       fixed=np.zeros(0, np.int64))  # fmt: skip
        low, high = layer.reach(builder.edge)
        builder.add(replace(layer, thresholds=np.clip(thresholds, low, high + 1)))
    signs = rng.choice([-1, 1], (classes, builder.edge.size))
    offsets = rng.integers(-9, 10, classes)
    builder.add(Scores(taps=Taps.from_dense(signs), negative=bool(rng.random() < 0.5),
                       shift=int(rng.integers(0, 3)), offsets=offsets))  # fmt: skip
    return builder.finish()


def folded_of(rng, network):
    return fold(network, form="bitmap", lanes=int(rng.choice(LANES)),
                loadable=bool(rng.random() < 0.3))  # fmt: skip


def one(rng):
    """Return a random chain that is dense, or of bits at least."""
    while True:
        network = dense_chain(rng) if rng.random() < 0.6 else random_chain(rng)
        try:
            return network, folded_of(rng, network)
        except ModelRejected as error:
            assert "reads bits" in str(error)


@pytest.mark.parametrize("part", range(3))
def test_bitmaps_compute_what_networks_do(part):
    kinds = set()
    for seed in range(part * 50, part * 50 + 50):
        rng = np.random.default_rng(seed)
        network, folded = one(rng)
        assert agrees(network, folded, random_images(rng, network, 30)), seed
        kinds |= {(layer.weights, layer.counts) for layer in folded.shape.layers}
    assert {kind for kind, _ in kinds} == {"plain", "full", "masked"}
    assert ("plain", True) in kinds


@pytest.mark.long
def test_many_bitmaps_compute_what_networks_do():
    for seed in range(1000, 3000):
        rng = np.random.default_rng(seed)
        network, folded = one(rng)
        assert agrees(network, folded, random_images(rng, network, 30)), seed
