"""Bitmaps in hardware: every value as in the netlist, timing as computed."""

import re

import numpy as np
import pytest
from random_chains import random_images
from test_engine_bitmap import dense_chain

from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.sim.agreement import check_agreement

SHAPES = [
    (16, 1, {"inputs": 20, "sizes": [40, 35], "classes": 3}),
    (64, 2, {"inputs": 150, "sizes": [70, 130, 30], "classes": 10}),
]
MORE = [
    (128, 3, {"inputs": 200, "sizes": [20], "classes": 2}),
    (32, 4, {"inputs": 33, "sizes": [], "classes": 3}),
    (16, 5, {"inputs": 16, "sizes": [16, 1, 5], "classes": 10}),
    (64, 6, {"inputs": 5, "sizes": [3, 150], "classes": 2}),
    (128, 7, {"inputs": 300, "sizes": [140, 129, 128], "classes": 10}),
    (32, 8, {"encoder": False}),
]


def made_of(lanes, seed, kinds, **options):
    rng = np.random.default_rng(seed)
    network = dense_chain(rng, **kinds)
    made = generate(network, Options(family="ecp5", form="bitmap", lanes=lanes, **options))
    return network, made, random_images(rng, network, 6)


def check(lanes, seed, kinds):
    """Compare one image by itself, several, and several with stalls."""
    network, made, pixels = made_of(lanes, seed, kinds)
    for images, stalls in ((1, False), (6, False), (6, True)):
        found = check_agreement(
            network, made.verilog, made.design, pixels[:images], inside=True, stalls=stalls
        )
        assert found.stopped is None
        assert not found.mismatches
        assert not found.value_mismatches
        assert not found.violations
        assert found.values >= images * sum(kinds.get("sizes", []))
        for number, stage in enumerate(network.stages):
            if stage.name in found.operations:
                counted = found.operations[stage.name]
                assert counted["measured"] == counted["connections"] + counted["shared"]
                # Neurons that nothing reads are left out.
                whole = bool(network.read[number].all())
                assert (counted["measured"] == counted["static"]) == whole
        if not stalls:
            assert found.latency == made.design.latency
            assert images == 1 or found.interval == made.design.interval


@pytest.mark.parametrize(("lanes", "seed", "kinds"), SHAPES)
def test_hardware_agrees(lanes, seed, kinds):
    check(lanes, seed, kinds)


@pytest.mark.long
@pytest.mark.parametrize(("lanes", "seed", "kinds"), MORE)
def test_more_hardware_agrees(lanes, seed, kinds):
    check(lanes, seed, kinds)


def spoilt(text, pattern, new):
    """Return Verilog with one thing changed."""
    found, count = re.subn(pattern, new, text)
    assert count == 1
    return found


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r"(assign fires = \\?\$\d+ +)\^ flip;", r"\1;"),  # flips are forgotten
        (r"begins4 \? \\held\$\d+ +\[\d+:0\] : sum", "sum"),  # and start values
    ],
)
def test_planted_faults_are_seen(pattern, new):
    network, made, pixels = made_of(*SHAPES[0])
    text = spoilt(made.verilog, pattern, new)
    found = check_agreement(network, text, made.design, pixels, inside=True)
    assert found.value_mismatches
