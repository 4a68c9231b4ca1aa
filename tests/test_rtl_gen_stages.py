"""Each stage by itself, in Amaranth's own simulator: another simulator than all the other tests."""

import random

import numpy as np
import pytest
from random_networks import (
    random_conv,
    random_encoder,
    random_levels,
    random_linear,
    random_map_network,
    random_vector_network,
    random_window,
)
from simulated import run_streams

from sbnn_hw.netlist import Edge, Flatten, MaxPool2d, Stage
from sbnn_hw.rtl_gen.island import Single
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.pairing import pair_tables
from sbnn_hw.rtl_gen.parts.tables import Tables
from sbnn_hw.rtl_gen.streams import Narrow, Widen


def pack(values, bits):
    return sum(int(value) << bits * n for n, value in enumerate(values))


def random_stage(kind, rng):
    """Return an operation, and the edge that it receives."""
    bits = int(rng.choice([1, 4]))
    shape = (int(rng.integers(4, 8)), int(rng.integers(4, 8)), int(rng.integers(1, 4)))
    match kind:
        case "linear":
            edge = Edge.of_bits((int(rng.integers(3, 20)),), bits)
            return random_linear(rng, edge, 5), edge
        case "encode":
            edge = Edge.of_bits(shape, 8, scan="raster")
            return random_encoder(rng, edge), edge
        case "levels":
            edge = Edge.of_bits(shape, 8, scan="raster")  # more than a table has inputs
            return random_levels(rng, edge), edge
        case "conv2d":
            edge = Edge.of_bits(shape, bits, scan="raster")
            return random_conv(rng, edge, 4), edge
        case "max_pool2d":
            edge = Edge(shape, scan="raster")
            return MaxPool2d(
                random_window(rng, *shape[:2], pool=True), rng.random(shape[2]) < 0.4
            ), edge


@pytest.mark.parametrize("odds", [1.0, 0.5], ids=["steady", "stalls"])
@pytest.mark.parametrize("kind", ["linear", "encode", "levels", "conv2d", "max_pool2d"])
def test_a_stage_alone_says_what_its_operation_computes(kind, odds):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        operation, edge = random_stage(kind, rng)
        dut = Single(Stage("alone", operation, (-1,)), edge, Options(levels_per_stage=2))
        x = rng.integers(0, edge.maximum + 1, (3, *edge.shape)).astype(np.uint8)
        words = [pack(row, edge.bits) for row in x.reshape(-1, edge.channels)]
        wanted = operation.compute(x, edge)
        bits = operation.infer(edge).bits
        wanted = [pack(row, bits) for row in wanted.reshape(-1, wanted.shape[-1])]
        assert run_streams(dut, words, len(wanted), odds=odds, seed=seed) == wanted, seed


def test_flatten_is_no_stage_by_itself():
    with pytest.raises(ValueError, match=r"^Stage must compute bits by itself, not flatten$"):
        Single(Stage("alone", Flatten(), (-1,)), Edge((2, 2, 1), scan="raster"))


@pytest.mark.parametrize("odds", [1.0, 0.4], ids=["steady", "stalls"])
def test_words_are_widened_and_narrowed_in_order(odds):
    rng = random.Random(0)
    small = [rng.getrandbits(8) for _ in range(24)]
    wide = [pack(small[n : n + 4], 8) for n in range(0, 24, 4)]
    assert run_streams(Widen(8, 4), small, 6, odds=odds) == wide
    assert run_streams(Narrow(8, 4), wide, 24, odds=odds) == small


def loops(part, family):
    """Return the tables that depend on themselves through a cell that they share."""
    logic, ranks = part.logic, part.ranks
    nets = [net for net in ranks.nets if logic.reads[net]]
    groups = pair_tables(logic, nets, ranks, 5 if family == "xc7" else 0)
    cell = {net: number for number, group in enumerate(groups) for net in group}
    needs = {
        number: {
            cell[read] for net in group for read in logic.reads[net]
            if read in cell and ranks.rank[read] == ranks.rank[net]
        }
        for number, group in enumerate(groups)
    }  # fmt: skip
    while ready := [number for number, needed in needs.items() if not needed]:
        for number in ready:
            del needs[number]
        for needed in needs.values():
            needed.difference_update(ready)
    return list(needs)


def test_no_path_leads_from_a_cell_back_to_itself():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        network = (random_map_network if seed % 3 == 0 else random_vector_network)(rng)
        for part in lower(network, Options(family="xc7", share=40)).parts.values():
            if isinstance(part, Tables):
                assert loops(part, "xc7") == []
