"""Bitmaps: dense layers, a neuron at a time, by words of weights."""

from dataclasses import replace

import numpy as np
import pytest
from random_chains import random_chain, random_images
from random_networks import _Builder, _network, random_encoder, random_linear
from test_engine_program import agrees

from sbnn_hw.engine import compile_program, fold
from sbnn_hw.engine.bitmap import handed_places
from sbnn_hw.engine.chain import read_chain
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
    """Return a random chain that is dense, or of bits at least, and how it is folded."""
    while True:
        network = dense_chain(rng) if rng.random() < 0.6 else random_chain(rng)
        if not read_chain(network).integers:
            return network, folded_of(rng, network)


@pytest.mark.parametrize("part", range(3))
def test_bitmaps_compute_what_networks_do(part):
    kinds = set()
    for seed in range(part * 20, part * 20 + 20):
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


def test_every_connection_is_issued_once():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        network, folded = one(rng)
        taps = [int(layer.needed[layer.taps.neurons].sum()) for layer in folded.chain.layers]
        assert folded.compute(random_images(rng, network, 1)).taps == taps


def test_every_word_has_a_place_in_the_program():
    for seed in range(8):
        folded = one(np.random.default_rng(seed))[1]
        assert len(folded.program) == folded.shape.depth


def test_results_fill_words_from_above():
    assert handed_places(3, 4).tolist() == [1, 2, 3]
    assert handed_places(4, 4).tolist() == [0, 1, 2, 3]
    assert handed_places(6, 4).tolist() == [0, 1, 2, 3, 6, 7]


@pytest.fixture(scope="module")
def example():
    """A network that uses all ways to tell weights, and images."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        network = dense_chain(rng, inputs=40, sizes=[20, 30, 40], classes=3)
        folded = fold(network, form="bitmap", lanes=16)
        kinds = [layer.weights for layer in folded.shape.layers[:3]]
        if sorted(kinds) == ["full", "masked", "plain"] and folded.shape.counts:
            return network, folded, random_images(rng, network, 60)
    raise AssertionError("no such network")


def places_of_words(shape):
    """Yield the number of each layer's first neuron's header, and the words of a neuron."""
    at = 0
    for layer in shape.layers:
        at += shape.header_words * layer.counts
        size = shape.header_words + shape.steps(layer)
        yield at, size
        at += layer.groups * size


def test_a_changed_header_turns_its_neuron_and_nothing_else(example):
    """The sign of a start value, and the flip."""
    _, folded, pixels = example
    shape, wanted = folded.shape, folded.compute(pixels)
    heads = list(places_of_words(shape))[:-1]
    for n, (first, size) in enumerate(heads):
        for neuron in range(0, shape.layers[n].groups, 7):
            for bit in (shape.sum_bits - 1, shape.sum_bits):
                slots = folded.program.slots.copy()
                word = shape.header_words - 1 - bit // 16
                slots[first + neuron * size + word, bit % 16] ^= 1
                found = evaluate(replace(folded.program, slots=slots), pixels)
                turned = found.places[n] != wanted.places[n]
                place = handed_places(shape.layers[n].groups, 16)[neuron]
                assert turned[:, place].all()
                assert turned.sum() == len(pixels)


def test_a_changed_weight_of_a_class_is_seen(example):
    _, folded, pixels = example
    shape, wanted = folded.shape, folded.compute(pixels)
    first, size = list(places_of_words(shape))[-1]
    assert shape.layers[-1].weights == "full"
    # What was read as it is, is inverted now: that differs for every image.
    for place in np.flatnonzero(folded.program.orders[-2] >= 0):
        slots = folded.program.slots.copy()
        slots[first + size + shape.header_words + place // 16, place % 16] ^= 1
        found = evaluate(replace(folded.program, slots=slots), pixels).scores
        assert (found[:, 1] != wanted.scores[:, 1]).all()
        assert np.array_equal(found[:, ::2], wanted.scores[:, ::2])


def test_integers_are_refused():
    edge = Edge.of_bits((4,), 8)
    scores = Scores(taps=Taps.from_dense(np.ones((2, 4), np.int8)), offsets=np.zeros(2, np.int64))
    network = _network(edge, [scores])
    with pytest.raises(ModelRejected, match="reads integers of 8 bits, and a bitmap reads bits"):
        fold(network, form="bitmap", lanes=16)


def signed(rng, kept=1.0, values=(-1, 1)):
    """Return a network of 40 inputs with a layer of some weights."""
    builder = _Builder(Edge.of_bits((40,), 1))
    weights = rng.choice(values, (20, 40)) * (rng.random((20, 40)) < kept)
    builder.add(Linear(taps=Taps.from_dense(weights), xi=0, k=0, thresholds=np.full((1, 20), 9),
                       flips=np.zeros(20, bool), fixed=np.zeros(0, np.int64)))  # fmt: skip
    builder.add(Scores(taps=Taps.from_dense(rng.choice([-1, 1], (3, 20))),
                       offsets=rng.integers(-9, 9, 3)))  # fmt: skip
    return builder.finish()


def test_another_network_of_the_shape_is_compiled():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        kept = 1.0 if seed % 2 else 0.7
        shape = fold(signed(rng, kept), form="bitmap", lanes=16, loadable=True).shape
        assert shape.layers[0].weights == ("full" if seed % 2 else "masked")
        other = signed(rng, kept)
        pixels = random_images(rng, other, 40)
        found = evaluate(compile_program(other, shape), pixels)
        assert np.array_equal(found.scores, other.compute(pixels).scores)


def test_a_network_that_does_not_fit_is_refused_with_the_number():
    rng = np.random.default_rng(1)
    shape = fold(signed(rng), form="bitmap", lanes=16, loadable=True).shape
    with pytest.raises(ModelRejected, match=r"lacks [0-9]+ of all connections that the plan has"):
        compile_program(signed(rng, 0.7), shape)
    shape = fold(signed(rng, values=(0, 1)), form="bitmap", lanes=16, loadable=True).shape
    with pytest.raises(ModelRejected, match="inverted connections, and the plan holds none"):
        compile_program(signed(rng), shape)
