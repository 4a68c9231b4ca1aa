"""What Yosys made of a design still computes the network, cell by cell."""

import re
from functools import lru_cache

import numpy as np
import pytest
from random_networks import (
    _Builder,
    random_conv,
    random_images,
    random_scores,
    random_vector_network,
)
from random_residual import random_residual_network

from sbnn_hw.families import fpga_families
from sbnn_hw.netlist import Edge, Flatten
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.library import compile_design
from sbnn_hw.vectors import pack_images, pack_results
from sbnn_hw.yosys import cell_models, synthesise

IMAGES = 60
FPGAS = [family.name for family in fpga_families()]


def lively(make, wanted):
    """Return, of the wanted ones among some random networks, that with the most answers."""
    networks = [make(np.random.default_rng(seed)) for seed in range(60)]
    networks = [each for each in networks if wanted([stage.operation for stage in each.stages])]
    return max(
        networks,
        key=lambda each: len(np.unique(each.compute(images_for(each)).scores, axis=0)),
    )


def images_for(network):
    return random_images(np.random.default_rng(1), network, IMAGES)


def map_network(width, convolutions):
    """Lines of more than 8 pixels: shift registers in tables, or memories."""

    def make(rng):
        builder = _Builder(Edge.of_bits((4, width, 3), 1, scan="raster"))
        for _ in range(convolutions):
            builder.add(random_conv(rng, builder.edge, 4))
        builder.add(Flatten())
        builder.add(random_scores(rng, builder.edge, 3))
        return builder.finish()

    def wanted(layers):
        window = layers[0].window
        return window.kernel[0] > 2 and any(window.padding) and layers[0].xi

    return lively(make, wanted)


def vector_network():
    def wanted(layers):
        taps = sum(len(layer.taps.indices) for layer in layers if layer.kind == "linear")
        return 15 <= taps <= 100

    return lively(random_vector_network, wanted)


NETWORKS = {
    "vector": vector_network,
    "map": lambda: map_network(20, 1),
    "wide": lambda: map_network(70, 2),
    "residual": lambda: random_residual_network(
        np.random.default_rng(0), blocks=2, shape=(6, 14, 1)
    ),
}


@lru_cache
def synthesised(name, family):
    network = NETWORKS[name]()
    made = generate(network, Options(family=family))
    return network, made.design, synthesise(made.verilog, family)


def wrong_images(name, family, change=lambda netlist: netlist):
    """Simulate a netlist with Yosys's own models of its cells; count the images that differ."""
    network, design, synthesis = synthesised(name, family)
    library = compile_design(
        {"cells.v": cell_models(family), "netlist.v": change(synthesis.netlist)},
        in_width=design.input.width,
        out_width=design.output.width,
    )
    pixels = images_for(network)
    # One word more than is due is waited for: it must not come.
    trace = library.run(
        pack_images(pixels, design.input), expect=IMAGES + 1, valid_odds=0.7, ready_odds=0.7,
        seed=1, limit=4 * design.latency + 1000,
    )  # fmt: skip
    outcome = network.compute(pixels)
    # Images that all get the same answer would show little.
    assert len(np.unique(outcome.scores, axis=0)) > 5
    assert trace.violations == 0
    assert len(trace.outputs) == IMAGES
    wanted = pack_results(outcome.classes, outcome.scores, design.output)
    return int((trace.outputs != wanted).any(axis=1).sum())


@pytest.mark.parametrize("family", FPGAS)
@pytest.mark.parametrize("name", ["vector", "map"])
def test_netlist_says_what_the_network_says(name, family):
    assert wrong_images(name, family) == 0


@pytest.mark.long
@pytest.mark.parametrize("family", FPGAS)
@pytest.mark.parametrize("name", ["wide", "residual"])
def test_large_netlist_says_what_the_network_says(name, family):
    assert wrong_images(name, family) == 0


def test_lines_are_kept_in_what_the_family_has_for_them():
    counts = {family: synthesised("map", family)[2].counts for family in FPGAS}
    assert counts["xc7"].srls > 0
    assert counts["ecp5"].lutram > 0
    assert counts["ice40"].brams > 0


@pytest.mark.parametrize("family", FPGAS)
def test_one_wrong_table_is_seen(family):
    def invert(netlist):
        tables = list(re.finditer(r"INIT\((\d+)'h([0-9a-f]+)\)", netlist))
        # Of the last tables, which make the scores.
        found = tables[-1]
        bits = int(found[1])
        value = int(found[2], 16) ^ ((1 << bits) - 1)
        return f"{netlist[: found.start()]}INIT({bits}'h{value:x}){netlist[found.end() :]}"

    assert wrong_images("vector", family, invert) > 0
