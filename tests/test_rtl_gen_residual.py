"""Random residual networks, many in one Verilated design: hardware and software say the same."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from packed import Pack, results
from random_networks import random_images, random_taps
from random_residual import (
    Graph,
    random_residual_network,
    random_sign,
    tiny_residual_network,
)

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Affine, Edge, Flatten, Scores, Sums, Taps, Window
from sbnn_hw.rtl_gen import lower as lowering
from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.parts.hold import HOLD
from sbnn_hw.rtl_gen.parts.join import Join, overflow_name

FAMILIES = ["xc7", "ecp5", "ice40", "generic"]

#: Tables of a network in CI, at most: compiling takes a time that grows with them.
SMALL = 130


def random_options(rng):
    return Options(
        family=str(rng.choice(FAMILIES)),
        levels_per_stage=int(rng.integers(1, 5)),
        split_pairs=bool(rng.random() < 0.3),
        serial=int(rng.choice([0, 1])),
        scores=bool(rng.random() < 0.8),
    )


def first_from(seed, make, most):
    """Return the first network from a seed on that takes few tables: its seed, it, its options."""
    for attempt in range(seed, seed + 100):
        rng = np.random.default_rng(attempt)
        network, options = make(rng), random_options(rng)
        try:
            if lower(network, options).cost.tables <= most:
                return attempt, network, options
        except ModelRejected:
            continue
    raise AssertionError("a hundred networks in a row were refused")


def no_differences(make, seeds, most=10**9):
    """Simulate networks from some seeds on, and return them; those that are wrong are told."""
    found = [first_from(seed, make, most) for seed in seeds]
    pack = Pack([(network, options) for _, network, options in found])
    for ready_odds, valid_odds in ((1.0, 1.0), (0.6, 0.7), (0.9, 0.2)):
        wrong = pack.differing(ready_odds=ready_odds, valid_odds=valid_odds, seed=1)
        assert [found[n][0] for n in wrong] == [], "seeds of networks that are wrong"
    return found, pack


def features(found, pack):
    """Return how many of some networks have what a residual network may have."""
    counts = Counter()
    for (_, network, options), top in zip(found, pack.hardware, strict=True):
        has = {options.family, f"levels {options.levels_per_stage}"}
        if top.lowered.held:
            has.add("held")
        for part in top.lowered.parts.values():
            if isinstance(part, Join):
                deep = [queue.words > 0 for queue in part.queues]
                has.add({(True, False): "left waits", (False, True): "right waits"}.get(
                    tuple(deep), "both wait" if all(deep) else "no queue"))  # fmt: skip
        for stage in network.stages:
            operation = stage.operation
            if isinstance(operation, Affine) and operation.slopes is not None:
                has.add("slope")
            if isinstance(operation, Sums) and operation.border == "zero":
                has.add("zero border")
            if isinstance(operation, Sums) and operation.window.padding != (0, 0):
                has.add("padding")
            if max(operation.window.stride if operation.windowed else (1,)) > 1:
                has.add("stride")
            if len(set(stage.sources)) == 2 and -1 in stage.sources:
                has.add("input is joined")
            has.add(operation.kind)
        counts.update(has)
    return counts


@pytest.mark.parametrize("pack", range(3))
def test_a_hundred_random_residual_networks_agree_with_software_with_and_without_stalls(pack):
    """Three times: every result, and no queue too short, at full rate and with stalls."""
    drawn = np.random.default_rng(pack).integers(0, 2**32, 100).tolist()
    counts = features(*no_differences(tiny_residual_network, drawn, SMALL))
    for name in (
        *FAMILIES, *(f"levels {n}" for n in range(1, 5)), "held", "left waits", "right waits",
        "slope", "zero border", "padding", "stride", "input is joined", "sum_pool2d", "max_pool2d",
    ):  # fmt: skip
        assert counts[name] >= 5, (name, counts)


# A pack is compiled as a whole, so there is nothing to shrink; its seeds are printed instead.
ONCE = {"phases": [Phase.generate], "deadline": None, "suppress_health_check": list(HealthCheck)}


def seeds(count):
    return st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count, unique=True)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("make", [tiny_residual_network, random_residual_network])
@settings(max_examples=6, **ONCE)
@given(drawn=seeds(50))
def test_hundreds_of_larger_residual_networks_agree_with_software(make, drawn):
    no_differences(make, drawn)


def test_a_bit_that_is_always_the_same_does_not_need_its_value():
    """A stream from 1 to 3 never lies below 1: nothing reads it, so that it is not built."""
    _, network, options = first_from(42, tiny_residual_network, SMALL)
    (encode,) = [stage for stage in network.stages if stage.name == "encode4"]
    source = network.edge_from(encode.sources[0])
    assert source.low == encode.operation.thresholds.item() == 1
    assert not network.read[encode.sources[0]].any()
    assert Pack([(network, options)]).differing() == []


def with_short_queue(network, options, wanted):
    """Return hardware in which one queue, told by its number among all, is one too short."""
    meet, hold = lowering.meet, lowering.hold_of
    number = -1
    told = []

    def shorten(queue, path):
        nonlocal number
        if not queue.words:
            return queue
        number += 1
        if number != wanted:
            return queue
        told.append(path)
        return replace(queue, words=queue.words - 1)

    def short(name, *rest):
        found = meet(name, *rest)
        parts = {
            called: Join([shorten(queue, f"{called}.{overflow_name(n)}")
                          for n, queue in enumerate(part.queues)])
            for called, part in found.parts.items()
        }  # fmt: skip
        return replace(found, parts=parts)

    def short_hold(*rest):
        found = hold(*rest)
        if found is not None:
            found.queue = shorten(found.queue, f"{HOLD}.{overflow_name(0)}")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "meet", short)
        patch.setattr(lowering, "hold_of", short_hold)
        made = Datapath(network, options)
    return (made, *told) if told else None


def test_each_queue_of_a_random_network_is_just_long_enough():
    """A planted fault: each in turn is one too short, and is the first that says so."""
    pairs, hardware, wanted = [], [], []
    for seed in range(14):
        _, network, options = first_from(100 * seed, tiny_residual_network, SMALL)
        number = 0
        while made := with_short_queue(network, options, number):
            pairs.append((network, options))
            hardware.append(made[0])
            wanted.append(made[1])
            number += 1
    assert len(wanted) >= 12
    assert {path.rpartition(".")[2] for path in wanted} == {overflow_name(0), overflow_name(1)}
    pack = Pack(pairs, hardware=hardware)
    # Some queues are longest at full rate, others where pixels come slowly.
    runs = [pack.overflows(valid_odds=odds, ready_odds=1.0, seed=2) for odds in (1.0, 0.3, 0.05)]
    told = [[paths[0] for paths in each if paths][:1] for each in zip(*runs, strict=True)]
    assert told == [[path] for path in wanted]


def appear(made, rng, network, *, images, odds, seed=0):
    """Assert that every result appears, whatever number of the next image's pixels has come."""
    size = made.design.input.beats
    pixels = random_images(rng, network, max(images) + 1)
    words = [count * size + more for count in images for more in {0, 1, 2, size // 2, size - 1}]
    for each in odds:
        found = results(made.design, made.verilog, pixels, words, odds=each, seed=seed)
        assert found == [(count // size, 0) for count in words], each


def test_results_of_random_networks_appear_without_further_input():
    """Whole images, and some pixels of the next one: none, the first, all but the last."""
    left = {True: 2, False: 1}
    for seed in range(0, 4000, 100):
        _, network, options = first_from(seed, tiny_residual_network, SMALL)
        held = lower(network, options).held > 0
        if left[held]:
            left[held] -= 1
            made = generate(network, options)
            appear(made, np.random.default_rng(seed), network, images=(1, 3), odds=(1.0, 0.3))
    assert left == {True: 0, False: 0}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 112))
def test_every_result_of_a_random_network_appears_without_further_input(seed):
    rng = np.random.default_rng(seed)
    make = random_residual_network if seed % 2 else tiny_residual_network
    network = make(rng)
    made = generate(network, Options(levels_per_stage=1 + seed % 4))
    appear(made, rng, network, images=(1, 3, 8), odds=(1.0, 0.5, 0.1), seed=seed)


def test_a_chain_may_need_some_pixels_of_the_next_image():
    """For each padded window a row and a pixel, once a pixel has come; none if none has."""
    rng = np.random.default_rng(4)
    graph = Graph(Edge.of_bits((5, 6, 1), 2, scan="raster"))
    stream = -1
    for _ in range(2):
        bits = graph.add(random_sign(rng, graph.edges[stream]), stream)
        taps = Taps.from_dense(np.ones((1, 9), int))
        window = Window((3, 3), (1, 1), (1, 1))
        stream = graph.add(Sums(taps=taps, channels=1, window=window), bits)
    flat = graph.add(Flatten(), stream)
    taps = random_taps(rng, 2, graph.edges[flat].size, most=6)
    graph.add(Scores(taps=taps, weights=np.ones(len(taps.indices), int), offsets=[0, 1]), flat)
    network = graph.finish()
    made = generate(network, Options(family="generic"))
    size, needed = 30, 2 * (6 + 1)
    pixels = random_images(rng, network, 3)
    for odds in (1.0, 0.2):
        words = [size + more for more in range(size)]
        found = [count for count, _ in results(made.design, made.verilog, pixels, words, odds=odds)]
        assert (found[0], found[1]) == (1, 0)
        assert found[needed:] == [1] * (size - needed)
