"""Random networks, many in one Verilated design: hardware and software say the same."""

import contextlib
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from packed import Pack
from random_networks import random_map_network, random_vector_network

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Linear,
    Network,
    Scores,
    Stage,
    Taps,
    Window,
)
from sbnn_hw.rtl_gen.lower import Options, lower


def random_pair(seed):
    """Return a random network, and random ways to build it."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.3:
        network = random_map_network(rng, wild=bool(rng.random() < 0.3))
    else:
        network = random_vector_network(rng)
    options = Options(
        family=str(rng.choice(["xc7", "ecp5", "ice40", "generic"])),
        levels_per_stage=int(rng.integers(1, 5)),
        split_pairs=bool(rng.random() < 0.3),
        input=str(rng.choice(["auto", "pixel"])),
        flatten=str(rng.choice(["auto", "gather", "accumulate"])),
        share=int(rng.choice([0, 40])),
        scores=bool(rng.random() < 0.8),
    )
    return network, options


def seeds(count):
    return st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count, unique=True)


def streamable(seed):
    """Return the first network from a seed on that is not refused, and its seed."""
    for attempt in range(seed, seed + 100):
        network, options = random_pair(attempt)
        with contextlib.suppress(ModelRejected):
            lower(network, options)
            return attempt, network, options
    raise AssertionError("a hundred networks in a row were refused")


def no_differences(drawn):
    found = [streamable(seed) for seed in drawn]
    pack = Pack([(network, options) for _, network, options in found])
    assert [found[n][0] for n in pack.differing()] == []
    assert [found[n][0] for n in pack.differing(ready_odds=0.6, valid_odds=0.7, seed=1)] == []
    for (seed, network, _), hardware in zip(found, pack.hardware, strict=True):
        if all(wired_in_full(stage.operation) for stage in network.stages):
            assert sum(hardware.lowered.connections.values()) == network.connections, seed


def wired_in_full(operation):
    """Return whether no tap can be left out: whole Ξ and border classes can make one vain."""
    return getattr(operation, "border", "") != "zero" and not (
        getattr(operation, "xi", 0) and operation.k == 0
    )


# A pack is compiled as a whole, so there is nothing to shrink; its seeds are printed instead.
ONCE = {"phases": [Phase.generate], "deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=1, derandomize=True, **ONCE)
@given(seeds(120))
def test_more_than_a_hundred_random_networks_agree_with_software_with_and_without_stalls(drawn):
    no_differences(drawn)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=20, **ONCE)
@given(seeds(100))
def test_thousands_of_random_networks_agree_with_software_with_and_without_stalls(drawn):
    no_differences(drawn)


def chain(edge, *operations):
    stages = [Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(operations)]
    return Network(edge, tuple(stages))


def test_what_was_counted_for_q_is_no_connection():
    """A 1×1 window's count is the sum itself, and comes in beside the taps.

    Nothing taps the second channel, so that the count comes in where a tap's number would be.
    """
    both = Taps.from_dense(np.array([[1, 0, 1], [1, 0, 1]]))
    convolution = Conv2d(
        taps=both, xi=1, k=1, thresholds=[[3, 4]], flips=[False, True], fixed=[], channels=3,
        window=Window((1, 1)),
    )  # fmt: skip
    scores = Scores(
        taps=Taps.from_dense(np.eye(3, 12, dtype=int)), negative=False, shift=0, offsets=[0] * 3
    )
    edge = Edge.of_bits((2, 3, 3), 8, scan="raster")
    network = chain(edge, Encode([[128]] * 3), convolution, Flatten(), scores)
    wired = lower(network, Options(family="ice40", share=40)).connections
    assert wired["s1"] == convolution.connections == 4


def test_an_input_that_is_q_alone_is_a_connection_only_where_it_is_tapped():
    """One input, so that q is that input itself; the first neuron does not tap it."""
    layer = Linear(
        taps=Taps.from_dense(np.array([[0], [1], [1], [1]])), xi=7, k=5,
        thresholds=[[3, 35, 11, 11]], flips=[False, True, False, False], fixed=[],
    )  # fmt: skip
    scores = Scores(
        taps=Taps.from_dense(np.ones((2, 4), int)), negative=False, shift=0, offsets=[0, 1]
    )
    network = chain(Edge((1, 1, 1), scan="raster"), Flatten(), layer, scores)
    wired = lower(network, Options(family="ecp5", input="pixel")).connections
    assert wired["s1"] == layer.connections == 3


def test_a_single_wrong_table_is_seen():
    """Flip the last bit of one table, in each of a few networks, and look who complains."""
    rng = np.random.default_rng(5)
    pairs = [(random_vector_network(rng), Options(family="xc7")) for _ in range(4)]

    def spoil(text):
        # The table that gives bit 0 of the class, in the second network.
        start = text.index(r"module \top.net1.scores")
        table = re.compile(r"\.INIT\((\d+)'h([0-9a-f]+)\)")
        found = list(table.finditer(text, start, text.index("endmodule", start)))[-1]
        size, value = int(found[1]), int(found[2], 16)
        return f"{text[: found.start(2)]}{value ^ (1 << size) - 1:x}{text[found.end(2) :]}"

    assert Pack(pairs).differing() == []
    assert Pack(pairs, change=spoil).differing() == [1]
