"""Programs of engines: what their words say is what the network computes, and nothing else fits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_chains import places_of, random_chain, random_images
from random_networks import _network, random_linear, random_map_network, random_scores

from sbnn_hw.engine import compile_program, fold, foldable
from sbnn_hw.engine.banks import bank_sizes, blocks_of
from sbnn_hw.engine.chain import first_foldable
from sbnn_hw.engine.codes import Gaps, take_steps
from sbnn_hw.engine.evaluate import evaluate
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.families import find_family
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Edge, Encode, Scores, Taps

LANES = (1, 2, 4, 8, 16, 32)


def agrees(network, folded, pixels):
    """Whether a program computes every score and every hidden bit that is read."""
    names = [layer.name for layer in folded.chain.layers]
    outcome, found = network.compute(pixels, keep=names), folded.compute(pixels)
    same = np.array_equal(found.scores, outcome.scores)
    for wanted, given in zip(places_of(network, folded, outcome), found.places, strict=True):
        same &= bool(((wanted == given) | (wanted < 0)).all())
    return same


@pytest.mark.parametrize("part", range(4))
def test_programs_compute_what_networks_do(part):
    for seed in range(part * 60, part * 60 + 60):
        rng = np.random.default_rng(seed)
        network = random_chain(rng)
        folded = fold(network, lanes=int(rng.choice(LANES)), loadable=bool(rng.random() < 0.3))
        assert agrees(network, folded, random_images(rng, network, 30)), seed


@pytest.mark.long
def test_many_programs_compute_what_networks_do():
    for seed in range(1000, 4000):
        rng = np.random.default_rng(seed)
        network = random_chain(rng)
        folded = fold(network, lanes=int(rng.choice(LANES)), loadable=bool(rng.random() < 0.3))
        assert agrees(network, folded, random_images(rng, network, 30)), seed


def test_every_connection_is_issued_once():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        network = random_chain(rng)
        folded = fold(network, lanes=4)
        taps = [int(layer.needed[layer.taps.neurons].sum()) for layer in folded.chain.layers]
        assert folded.compute(random_images(rng, network, 1)).taps == taps


@pytest.mark.parametrize("bits", [2, 3, 7])
def test_steps_lead_to_their_places(bits):
    rng = np.random.default_rng(bits)
    for _ in range(20):
        size = int(rng.integers(1, 300))
        places = np.sort(rng.choice(300, size, replace=False))
        gaps = Gaps.of(1, np.zeros(size, np.int64), places, rng.random(size) < 0.5)
        length = int(gaps.lengths(bits)[0])
        slots = np.zeros((length, 1), np.uint32)
        gaps.write(bits, np.zeros(1, np.int64), np.zeros(1, np.int64), slots)
        found, taps, inverted = take_steps(slots, bits)
        assert found[taps[:, 0], 0].tolist() == places.tolist()
        assert inverted[taps[:, 0], 0].tolist() == gaps.inverted.tolist()


@pytest.fixture(scope="module")
def example():
    """A network with a hidden layer that counts all its inputs, and images."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        network = random_chain(rng)
        folded = fold(network, lanes=4)
        layers = folded.shape.layers
        if len(layers) > 2 and layers[0].counts and layers[1].counts and folded.shape.depth < 400:
            return network, folded, random_images(rng, network, 60)
    raise AssertionError("no such network")


def test_changed_bits_are_seen(example):
    """Most bits of a program decide something: few of them can be turned unseen."""
    network, folded, pixels = example
    rng, shape = np.random.default_rng(0), folded.shape
    outcome = network.compute(pixels).scores
    seen = 0
    for _ in range(150):
        slots = folded.program.slots.copy()
        row, lane = int(rng.integers(len(slots))), int(rng.integers(shape.lanes))
        slots[row, lane] ^= 1 << int(rng.integers(shape.slot_bits))
        try:
            broken = evaluate(replace(folded.program, slots=slots), pixels)
            seen += not np.array_equal(broken.scores, outcome)
        except IndexError:
            seen += 1  # it leads beyond all inputs
    assert seen > 75


def test_words_and_bytes_are_the_slots(example):
    program = example[1].program
    shape = program.shape
    size = shape.word_bytes
    loaded = program.to_bytes()
    assert len(loaded) == shape.depth * size
    for n, word in enumerate(program.words):
        assert int.from_bytes(loaded[n * size : (n + 1) * size], "little") == word
        slots = [word >> shape.slot_bits * k & (1 << shape.slot_bits) - 1 for k in range(4)]
        assert slots == program.slots[n].tolist()


def test_the_same_network_gives_the_same_program(example):
    network, folded, _ = example
    again = fold(network, lanes=4)
    assert again.program.digest == folded.program.digest
    assert again.shape.digest == folded.shape.digest
    assert fold(network, lanes=8).shape.digest != folded.shape.digest


# Other networks for the same shape


def family_of(rng, *, xi=0, neurons=12, classes=3, inputs=30):
    """Return a network that others made the same way can take the place of."""
    edge = Edge.of_bits((inputs,), 8)
    encoder = Encode(np.full((inputs, 1), 100))
    bits = encoder.infer(edge)
    while True:
        layer = random_linear(rng, bits, neurons)
        if bool(layer.xi) == bool(xi) and not layer.taps.inverted.any():
            break
    while True:
        scores = random_scores(rng, layer.infer(bits), classes)
        if not scores.taps.inverted.any():
            break
    scores = Scores(taps=scores.taps, negative=False, shift=1, offsets=scores.offsets)
    return _network(edge, [encoder, layer, scores])


def test_another_network_of_the_shape_is_compiled():
    done = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        xi = seed % 2
        first, second = family_of(rng, xi=xi), family_of(rng, xi=xi)
        shape = fold(first, lanes=4, loadable=True).shape
        # With room for what the other has more of.
        shape = replace(
            shape,
            depth=2 * shape.depth,
            sum_bits=shape.sum_bits + 6,
            unit=shape.unit + 2,
            fixed=_fixed(second),
            score_bits=shape.score_bits + 3,
        )
        try:
            program = compile_program(second, shape)
        except ModelRejected:
            continue
        done += 1
        pixels = random_images(rng, second, 40)
        assert np.array_equal(evaluate(program, pixels).scores, second.compute(pixels).scores)
    assert done > 30


def _fixed(network):
    return tuple(network.stages[1].operation.fixed.tolist())


def refusals():
    rng = np.random.default_rng(5)
    plain = family_of(rng)
    shape = fold(plain, lanes=4, loadable=True).shape
    counted = family_of(rng, xi=1)
    yield counted, shape, "adds up all its inputs"
    yield family_of(rng, neurons=13), shape, "has 13 neurons, but the plan 12"
    yield family_of(rng, classes=4), shape, "has 4 neurons, but the plan 3"
    yield family_of(rng, inputs=31), shape, "has values 31, but the plan 30"
    yield plain, replace(shape, depth=9), "words, but the plan holds 9"
    yield plain, replace(shape, shift=2), "has score shift 1, but the plan 2"
    yield plain, replace(shape, sum_bits=3), "but the plan has 3"
    yield plain, replace(shape, score_bits=2), "but the plan's 2"
    yield plain, replace(shape, unit=0), "bits of fraction, but the plan 0"
    yield plain, replace(shape, thresholds=((99,),) * 30), "other thresholds"
    yield plain, replace(shape, layers=shape.layers[1:]), "has 2 layers, but the plan 1"
    yield plain, replace(shape, count_bits=1, lanes=shape.lanes), "codes, but the plan holds"
    yield plain, replace(shape, negative=True), "inverted connections"


@pytest.mark.parametrize(("network", "shape", "sentence"), list(refusals()))
def test_a_network_that_does_not_fit_is_refused_with_the_number(network, shape, sentence):
    with pytest.raises(ModelRejected, match=sentence):
        compile_program(network, shape)


# What is refused


def test_only_chains_are_folded():
    network = random_map_network(np.random.default_rng(1))
    with pytest.raises(ModelRejected, match="an engine computes linear layers and scores"):
        fold(network)
    assert "unroll it" in foldable(network)
    first = first_foldable(network)
    assert network.stages[first].operation.kind in ("flatten", "linear", "scores")
    assert not foldable(network, first)


def test_weighted_scores_are_refused():
    taps = Taps.from_dense(np.ones((2, 3), np.int8))
    scores = Scores(taps=taps, offsets=np.zeros(2, np.int64), weights=np.arange(1, 7))
    network = _network(Edge.of_bits((3,), 1), [scores])
    with pytest.raises(ModelRejected, match="not weighted scores"):
        fold(network)


def test_lanes_and_forms_are_checked(example):
    with pytest.raises(UsageError, match="must be one of 1, 2, 4, 8, 16, 32, not 3"):
        fold(example[0], lanes=3)
    with pytest.raises(UsageError, match="Form must be"):
        fold(example[0], form="rows")


# Memory


@pytest.mark.parametrize("family", ["ice40", "ecp5", "xc7"])
def test_banks_hold_all_words_and_begin_at_multiples(family):
    found = find_family(family)
    for words in (1, 7, 256, 257, 1000, 2651, 5310, 9497):
        sizes = bank_sizes(words, 28, found)
        assert sum(sizes) == words
        begin = 0
        for size in sizes:
            assert begin % (1 << (size - 1).bit_length()) == 0
            begin += size
        assert blocks_of(sizes, 28, found) <= found.memory.blocks(words, 28)


def test_regions_do_not_overlap():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shape = fold(random_chain(rng), lanes=int(rng.choice(LANES))).shape
        used = set()
        inputs = 0 if shape.integers else -(-shape.inputs // shape.lanes)
        sizes = [inputs, inputs, max((x.groups for x in shape.layers[:-1:2]), default=0),
                 max((x.groups for x in shape.layers[1:-1:2]), default=0)]  # fmt: skip
        for begin, size in zip(shape.regions, sizes, strict=True):
            words = {begin | n for n in range(size)}
            assert len(words) == size
            assert not words & used
            used |= words
        assert max(used, default=-1) < max(1, shape.activation_words)


#: Tables and blocks that Yosys 0.70 made, by model, lanes and family.
MEASURED = {
    ("digits", 2): {"xc7": (276, 1.5), "ecp5": (427, 3), "ice40": (407, 5)},
    ("mnist_sfc_98", 4): {"xc7": (415, 4.5), "ecp5": (685, 9), "ice40": (647, 21)},
    ("mnist_sfc_98", 16): {"xc7": (1075, 11), "ecp5": (1974, 22), "ice40": (1994, 34)},
}


@pytest.mark.parametrize(("model", "lanes"), MEASURED)
def test_estimates_are_near_what_was_measured(model, lanes):
    path = Path(__file__).parent.parent / "models" / f"{model}.pt"
    folded = fold(open_network(path), lanes=lanes)
    for family, (tables, blocks) in MEASURED[model, lanes].items():
        cost = folded.cost(find_family(family))
        assert abs(cost.tables / tables - 1) < 0.1, (family, cost.tables, tables)
        assert cost.blocks == blocks
