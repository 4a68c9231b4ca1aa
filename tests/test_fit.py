import re
from pathlib import Path

import numpy as np
import pytest
from random_networks import random_level_network, random_map_network, random_vector_network
from shells import small_network

from sbnn_hw import fit
from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.errors import ModelRejected
from sbnn_hw.fit import check_fit, check_size, need
from sbnn_hw.models import open_network
from sbnn_hw.rtl_gen.design import outline
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.lower import Options

MODELS = Path(__file__).parents[1] / "models"


def counted(network, family, **options):
    stages = outline(network, Options(family=family, **options))["stages"]
    return sum(stage["tables"] for stage in stages)


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
@pytest.mark.parametrize("name", ["digits", "mnist_sfc_98", "mnist_sfc_95"])
def test_the_estimate_is_within_a_tenth_of_what_is_generated(name, family):
    network = open_network(MODELS / f"{name}.pt")
    assert estimate(network, family).luts == pytest.approx(counted(network, family), rel=0.1)


@pytest.mark.parametrize("make", [random_vector_network, random_map_network, random_level_network])
def test_every_network_that_can_be_built_can_be_estimated(make):
    rng = np.random.default_rng(3)
    for _ in range(40):
        found = estimate(make(rng), "xc7")
        assert all(cost >= 0 for cost in found.stages.values())


def test_what_fits_is_told_in_numbers():
    network = open_network(MODELS / "mnist_sfc_98.pt")
    board = BOARDS["arty_a7"]
    description = outline(network, Options(family="xc7", levels_per_stage=5))
    quick, exact = check_fit(network, board), check_fit(network, board, description)
    assert exact.core == sum(stage["tables"] for stage in description["stages"])
    assert quick.luts == pytest.approx(exact.luts, rel=0.1)
    # One bit of each pixel is read; the others need no registers.
    assert exact.registers > 784 + sum(stage["registers"] for stage in description["stages"])


def test_a_network_that_is_too_large_is_refused_with_a_way_out():
    network = open_network(MODELS / "mnist_sfc_95.pt")
    with pytest.raises(ModelRejected) as caught:
        check_fit(network, BOARDS["cmod_a7_15"])
    words = str(caught.value)
    found = re.fullmatch(
        r"The network needs ([\d,]+) of 10,400 LUTs on cmod_a7_15 \(estimated, 600 LUTs of it for "
        r"the shell\); it would fit ([\w, ]+); on cmod_a7_15, this shape fits from about ([\d.]+)% sparsity "
        r"\(([\d,]+) ones\), or add --force to continue",
        words,
    )
    assert found, words
    needed, boards, sparsity, ones = found.groups()
    assert int(needed.replace(",", "")) > 12_000
    assert boards.split(", ") == [
        *("arty_a7", "arty_a7_100", "cmod_a7", "nexys4ddr", "ulx3s_45f", "ulx3s_85f"),
        "orangecrab_85f",
    ]
    # What it advises does fit: as many connections, or fewer, in the same shape.
    assert 95 < float(sparsity) < 98
    assert int(ones.replace(",", "")) < 16_427
    assert check_fit(network, BOARDS["cmod_a7_15"], force=True).luts > 12_000


def test_flip_flops_can_be_what_is_missing():
    network = small_network((8, 8, 1))
    description = outline(network, Options(family="xc7"))
    description["stages"][-1]["registers"] = 50_000
    with pytest.raises(ModelRejected, match=r"^The network needs [\d,]+ of 41,600 flip-flops on "):
        check_fit(network, BOARDS["arty_a7"], description)


def test_cells_of_an_ice40_hold_registers_too():
    network = open_network(MODELS / "digits.pt")
    board = BOARDS["icebreaker"]
    options = Options(family="ice40", levels_per_stage=12)
    whole = need(network, board, outline(network, options))
    pixels = need(
        network,
        board,
        outline(network, Options(family="ice40", levels_per_stage=12, input="pixel")),
    )
    assert not whole.fits(board)
    assert pixels.fits(board)
    with pytest.raises(ModelRejected, match=r"of 5,280 logic cells on icebreaker \(counted, "):
        check_fit(network, board, outline(network, options))


def test_a_part_without_a_board_has_no_shell():
    with pytest.raises(ModelRejected) as caught:
        check_fit(open_network(MODELS / "mnist_sfc_95.pt"), part_family("xc7a15tcpg236-1"))
    assert "60 LUTs of it for the AXI4-Stream face" in str(caught.value)
    assert "shell" not in str(caught.value)


def test_a_network_that_takes_too_much_memory_to_generate_is_refused(monkeypatch):
    network = small_network((8, 8, 1))
    check_size(network)
    monkeypatch.setattr(fit, "LARGEST", network.connections - 1)
    with pytest.raises(ModelRejected) as caught:
        check_size(network)
    assert re.fullmatch(
        rf"The network has {network.connections:,} connections, and generating more than "
        rf"{network.connections - 1:,} takes a lot of memory and time \(here up to [\d.]+ GB and \d+ "
        r"minutes?\); train it sparser, or add --force to continue",
        str(caught.value),
    )
    check_size(network, force=True)


def test_a_part_of_unknown_size_has_room_for_all():
    part = part_family("xc7k999tffg901-2")
    assert part.capacity is None
    check_fit(open_network(MODELS / "mnist_sfc_95.pt"), part)
