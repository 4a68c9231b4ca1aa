"""Blocks of common taps: they count the same, and only ever save."""

import itertools

import numpy as np
import pytest

from sbnn_hw.cost.heap import lut_cost
from sbnn_hw.families import FAMILIES
from sbnn_hw.rtl_gen.share import _counter, find_blocks

FAMILY = FAMILIES["xc7"]


def left_over(taps, blocks):
    """Return which taps neurons count by themselves; a tap that is counted wrongly is an error."""
    left = taps.astype(int)
    for block, users in blocks:
        left[np.ix_(users, block)] -= 1
    assert left.min() >= 0, "a neuron counts a tap that it does not have, or one twice"
    return left


def cost(taps, goals, blocks, family=FAMILY):
    """Return the tables of all neurons and blocks."""
    left = left_over(taps, blocks)
    total = sum(_counter(len(block), family)[0] for block, _ in blocks)
    for neuron, goal in enumerate(goals):
        counts = [int(left[neuron].sum()), 0, 0, 0]
        for block, users in blocks:
            if neuron in users:
                for column, number in enumerate(_counter(len(block), family)[1]):
                    counts[column] += number
        total += lut_cost(tuple(counts), goal, family)
    return total


def random_layer(seed, neurons=12, inputs=40, density=0.4):
    taps = np.random.default_rng(seed).random((neurons, inputs)) < density
    return taps, [max(1, int(n) // 2) for n in taps.sum(axis=1)]


def find(taps, goals, steps=200, family=FAMILY):
    return find_blocks(taps, [((0,), goal) for goal in goals], steps, family)


@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_only_ever_save(name):
    saved = 0
    for seed in range(4):
        taps, goals = random_layer(seed)
        blocks = find(taps, goals, family=FAMILIES[name])
        before, after = (cost(taps, goals, each, FAMILIES[name]) for each in ([], blocks))
        assert after <= before
        assert (after < before) == bool(blocks)
        saved += before - after
    assert saved > 0


def test_each_block_saves_by_itself():
    taps, goals = random_layer(0)
    blocks = find(taps, goals)
    costs = [cost(taps, goals, blocks[:n]) for n in range(len(blocks) + 1)]
    assert len(blocks) > 2
    assert all(late < early for early, late in itertools.pairwise(costs))


def test_every_neuron_counts_what_it_counted():
    rng = np.random.default_rng(1)
    for seed in range(6):
        taps, goals = random_layer(seed)
        blocks = find(taps, goals)
        bits = rng.integers(0, 2, (50, taps.shape[1]))
        counted = bits @ left_over(taps, blocks).T
        for block, users in blocks:
            assert len(users) > 1
            assert len(set(block)) == len(block)
            counted[:, list(users)] += bits[:, list(block)].sum(axis=1, keepdims=True)
        assert (counted == bits @ taps.T.astype(int)).all()


def test_equal_neurons_share_as_much_as_a_counter_takes():
    taps = np.zeros((4, 20), bool)
    taps[:, :7] = True
    # Apart from what they have in common they differ, so that nothing else can be shared.
    for neuron in range(4):
        taps[neuron, 8 + 3 * neuron : 11 + 3 * neuron] = True
    blocks = find(taps, [5] * 4)
    assert blocks == [(tuple(range(7)), (0, 1, 2, 3))]


def test_the_same_layer_gives_the_same_blocks_and_more_steps_no_fewer():
    taps, goals = random_layer(3)
    found = [find(taps, goals, steps) for steps in (0, 1, 5, 200, 200)]
    assert found[0] == []
    assert found[3] == found[4]
    for few, many in itertools.pairwise(found):
        assert many[: len(few)] == few


@pytest.mark.parametrize("common", [0, 1, 2])
def test_too_few_taps_in_common_are_not_shared(common):
    taps = np.zeros((2, 30), bool)
    taps[:, :common] = True
    taps[0, 10:20] = taps[1, 20:30] = True
    assert find(taps, [5, 5]) == []


def test_what_a_neuron_has_besides_taps_counts_too():
    taps, goals = random_layer(2)
    heaps = [((0, 2, 1), goal + 4) for goal in goals]
    blocks = find_blocks(taps, heaps, 200, FAMILY)
    assert blocks
    left_over(taps, blocks)


def test_a_block_that_takes_a_foreign_tap_is_found_out():
    taps, goals = random_layer(0)
    (block, users), *others = find(taps, goals)
    foreign = next(n for n in range(taps.shape[1]) if not taps[users[0], n])
    with pytest.raises(AssertionError, match="does not have"):
        left_over(taps, [((*block[:-1], foreign), users), *others])
    with pytest.raises(AssertionError, match="twice"):
        left_over(taps, [(block, users), (block, users), *others])
