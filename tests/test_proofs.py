"""Heaps are proved equal to plain sums, for all inputs; a fault makes the proof fail."""

import re
from random import Random

import numpy as np
import pytest
from heaps import heap_verilog, heaps_of
from proofs import Heap, prove_heap, prove_heaps, prove_network, prove_text
from random_networks import random_map_network, random_vector_network

from sbnn_hw.families import FAMILIES


def ends(counts):
    """Thresholds never, always, first, last and in the middle."""
    most = sum(n << column for column, n in enumerate(counts))
    return sorted({0, 1, 2, most // 2, most - 1, most, most + 1})


def sample(limit, number, seed):
    """Columns as neurons have them: many taps, and a few bits of a shared sum."""
    random = Random(seed)
    heaps = []
    for _ in range(number):
        counts = [random.randrange(1, limit)]
        while sum(counts) < limit and random.random() < 0.7:
            counts.append(random.randrange(min(4, limit - sum(counts)) + 1))
        most = sum(n << column for column, n in enumerate(counts))
        heaps.append(Heap.of_counts(counts, random.randrange(1, most + 1)))
    return heaps


def unproved(heaps, family, **options):
    found = prove_heaps(heaps, family, **options)
    assert len(found) == len(set(heaps))
    return [heap for heap, proved in found.items() if not proved]


@pytest.mark.parametrize("family", FAMILIES)
def test_heaps_are_what_plain_sums_are(family):
    heaps = [Heap.of_counts((n,), c) for n in (1, 2, 6, 7, 9) for c in ends((n,))]
    heaps += [Heap.of_counts((5, 2, 1, 1), c) for c in ends((5, 2, 1, 1))]
    heaps += [Heap.of_counts((16,), c) for c in (1, 3, 16)]
    heaps += [Heap.of_counts((12, 1, 1, 1, 1), c) for c in (1, 42)]
    # A bit of weight 3 and one of weight 5, beside others.
    heaps += [Heap(((0, 1, 2, 3, 4), (0, 5, 6), (1, 7)), c) for c in (1, 6, 9, 19)]
    assert not unproved(heaps, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_heaps_are_what_plain_sums_are(family):
    assert not unproved(sample(11, 10, seed=1), family)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_threshold_of_every_fan_in_is_proved(family):
    heaps = [Heap.of_counts((n,), c) for n in range(1, 13) for c in range(n + 2)]
    heaps += [Heap.of_counts((16,), c) for c in (5, 8)]
    assert not unproved(heaps + sample(14, 16, seed=2), family)


def test_split_pairs_are_proved_too():
    heaps = [Heap.of_counts((13,), 6), Heap.of_counts((9, 2, 1), 8)]
    assert "LUT6_2" in heap_verilog([(heap.columns, heap.threshold) for heap in heaps], "xc7")
    assert not unproved(heaps, "xc7", split_pairs=True)


def test_one_heap_by_its_counts():
    assert prove_heap((7, 2), 5, "xc7")


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_constant_is_not_proved(family):
    right, wrong = Heap.of_counts((11, 1, 1), 7), Heap.of_counts((11, 1, 1), 8)
    text = heap_verilog([(right.columns, right.threshold)] * 2, family)
    assert prove_text(text, [right, wrong]) == [True, False]


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
def test_one_wrong_bit_of_a_table_is_not_proved(family):
    heap = Heap.of_counts((12,), 5)
    text = heap_verilog([(heap.columns, heap.threshold)], family)
    assert prove_text(text, [heap]) == [True]
    # The first table's answer where all its inputs are zero.
    found = re.search(r"INIT\((\d+)'h([0-9a-f]+)\)", text)
    flipped = f"INIT({found[1]}'h{int(found[2], 16) ^ 1:x})"
    assert prove_text(text[: found.start()] + flipped + text[found.end() :], [heap]) == [False]


def test_heaps_above_the_limit_are_left_out():
    small, large = Heap.of_counts((5,), 2), Heap.of_counts((17,), 9)
    assert prove_heaps([small, large, small], "xc7") == {small: True}
    assert prove_heaps([large], "xc7") == {}


@pytest.mark.parametrize("make", [random_vector_network, random_map_network])
def test_heaps_of_a_network_are_proved(make):
    for seed in (5, 6):
        network = make(np.random.default_rng(seed))
        found = prove_network(network, "xc7", limit=12)
        assert found
        assert all(found.values())


def test_heaps_of_a_network_are_those_of_its_neurons():
    layers = 0
    for seed in range(10):
        network = random_vector_network(np.random.default_rng(seed))
        heaps = heaps_of(network, "xc7")
        assert len(heaps) == len(set(heaps))
        sizes = {sum(map(len, columns)) for columns, _ in heaps}
        for number, stage in enumerate(network.stages):
            layer = stage.operation
            if layer.kind == "linear" and not layer.xi and network.edge_into(number).bits == 1:
                layers += 1
                assert set(layer.taps.fan_in.tolist()) <= sizes
    assert layers > 2
