# amaranth: UnusedElaboratable=no
"""Islands: parts that stop together, joined by streams that may stop between them."""

from itertools import pairwise

import numpy as np
import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from random_networks import random_map_network, random_vector_network
from simulated import restless, run_streams

from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.graph import Graph
from sbnn_hw.rtl_gen.island import Island, join
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.parts.part import ENABLE, PAYLOAD, VALID, Part
from sbnn_hw.rtl_gen.verilog import to_verilog


class Islands(wiring.Component):
    """A network whose parts are in several islands."""

    def __init__(self, islands):
        self.islands = islands
        super().__init__({
            "i": In(stream.Signature(islands[0].width_in)),
            "o": Out(stream.Signature(islands[-1].width_out)),
        })  # fmt: skip

    def elaborate(self, platform):
        return join(self, self.islands)


def cut(parts, *places):
    """Part a chain into islands that begin at some places."""
    names, ends = list(parts), [0, *places, len(parts)]
    return [
        Graph.chain({name: parts[name] for name in names[start:end]})
        for start, end in pairwise(ends)
    ]


@pytest.mark.parametrize("make", [random_vector_network, random_map_network])
def test_islands_say_what_one_island_says(make):
    rng = np.random.default_rng(0)
    for seed in range(2):
        network = make(rng)
        lowered = lower(network, Options(levels_per_stage=2))
        assert [dict(graph.parts) for graph in lowered.islands] == [lowered.parts]
        assert lowered.reads == Graph.chain(lowered.parts).reads
        parts, images = lowered.parts, 3
        width = next(iter(parts.values())).width_in
        words = [int.from_bytes(rng.bytes(-(-width // 8))) % (1 << width)
                 for _ in range(images * lowered.beats)]  # fmt: skip
        whole = run_streams(Islands(cut(parts)), words, images)
        assert len(whole) == images
        for places in ((1,), (len(parts) - 1,), range(1, len(parts))):
            for odds in (1.0, 0.5):
                dut = Islands(cut(parts, *places))
                assert run_streams(dut, words, images, odds=odds, seed=seed) == whole


def test_an_island_that_does_not_stop_is_found_out(monkeypatch):
    network = random_vector_network(np.random.default_rng(1))
    parts = lower(network, Options(levels_per_stage=1)).parts
    rng = np.random.default_rng(2)
    width = next(iter(parts.values())).width_in
    words = [int.from_bytes(rng.bytes(-(-width // 8))) % (1 << width) for _ in range(12)]
    islands = cut(parts, 1)
    whole = run_streams(Islands(islands), words, 12, odds=0.5)
    assert whole == run_streams(Islands(cut(parts)), words, 12)
    monkeypatch.setattr("sbnn_hw.rtl_gen.island.core_of", restless)
    assert run_streams(Islands(islands), words, 12, odds=0.5) != whole


def test_parts_that_do_not_fit_each_other_are_refused():
    parts = lower(random_vector_network(np.random.default_rng(1)), Options()).parts
    first, *_, last = parts.values()
    with pytest.raises(ValueError, match=r"^Core b must take \d+ bits, not \d+$"):
        to_verilog(Island(Graph.chain({"a": first, "b": first, "c": last})))


def test_ports_are_called_as_the_description_says():
    """Simulation finds strobes by these names, and nothing else tells them."""
    parts = lower(random_vector_network(np.random.default_rng(3)), Options()).parts
    core = core_of(next(iter(parts.values())))
    assert (core.enable.name, core.o.valid.name, core.o.payload.name) == (ENABLE, VALID, PAYLOAD)


def test_a_part_without_a_core_is_an_error_of_ours():
    class Odd(Part):
        pass

    with pytest.raises(KeyError):
        core_of(Odd(1, 1, 0))
    builds(Odd)(Core)
    assert isinstance(core_of(Odd(1, 1, 0)), Core)
