import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_networks import (
    random_level_network,
    random_map_network,
    random_scores,
    random_vector_network,
)
from random_residual import random_residual_network
from shells import small_network

from sbnn_hw.boards import fit
from sbnn_hw.boards.fit import check_fit, check_size, need
from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.cost.cost import Cost
from sbnn_hw.errors import ModelRejected
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Conv2d, Edge, Encode, Flatten, Network, Stage, Taps, Window
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import outline
from sbnn_hw.yosys import synthesise

MODELS = Path(__file__).parents[1] / "models"


def counted(network, family, **options):
    return outline(network, Options(family=family, **options)).cost.tables


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
@pytest.mark.parametrize("name", ["digits", "mnist_sfc_98", "mnist_sfc_95"])
def test_the_estimate_is_within_a_tenth_of_what_is_generated(name, family):
    network = open_network(MODELS / f"{name}.pt")
    assert estimate(network, family).luts == pytest.approx(counted(network, family), rel=0.1)


def residual_networks(seeds):
    return [
        random_residual_network(np.random.default_rng(seed), blocks=2, shape=(8, 8, 2))
        for seed in seeds
    ]


def errors_of_estimates(networks):
    """Return the error of all estimates together, and the largest one, as shares."""
    pairs = [(estimate(each, "xc7").luts, counted(each, "xc7")) for each in networks]
    together = sum(guess for guess, _ in pairs) / sum(count for _, count in pairs) - 1
    return together, max(abs(guess / count - 1) for guess, count in pairs)


def test_the_estimate_of_residual_networks_is_near_what_is_generated(monkeypatch):
    """With the queues where ways meet, and what holds pixels back in front of all."""
    networks = residual_networks(range(12))
    together, largest = errors_of_estimates(networks)
    assert abs(together) < 0.03
    assert largest < 0.15
    # A planted fault: nothing holds pixels back.
    monkeypatch.setattr("sbnn_hw.rtl_gen.estimate.hold_of", lambda *_: None)
    assert errors_of_estimates(networks)[0] < -0.03


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 3, 9])
def test_residual_networks_take_what_was_counted(seed):
    """Yosys finds the tables that were laid out, and no more registers.

    It removes registers of bits that are constant or that no later stage needs.
    """
    (network,) = residual_networks([seed])
    made = generate(network, Options(family="xc7"))
    found, cost = synthesise(made.verilog, "xc7").counts, made.design.cost
    assert cost.tables == pytest.approx(found.luts, rel=0.05)
    assert 0.6 * cost.registers < found.flip_flops <= cost.registers
    assert cost.blocks == found.brams == 0
    assert estimate(network, "xc7").luts == pytest.approx(found.luts, rel=0.06)


@pytest.mark.parametrize(
    "make",
    [random_vector_network, random_map_network, random_level_network, random_residual_network],
)
def test_every_network_that_can_be_built_can_be_estimated(make):
    rng = np.random.default_rng(3)
    for _ in range(40):
        found = estimate(make(rng), "xc7")
        assert all(cost >= 0 for cost in found.stages.values())


def test_what_fits_is_told_in_numbers():
    network = open_network(MODELS / "mnist_sfc_98.pt")
    board = BOARDS["arty_a7"]
    design = outline(network, Options(family="xc7", levels_per_stage=5))
    quick, exact = check_fit(network, board), check_fit(network, board, design)
    assert exact.network == design.cost.tables
    assert quick.luts == pytest.approx(exact.luts, rel=0.1)
    # One bit of each pixel is read; the others need no registers.
    assert exact.registers > 784 + design.cost.registers
    assert exact.registers == 784 + design.cost.registers + board.family.shell[1]


def test_a_network_that_is_too_large_is_refused_with_a_way_out():
    network = open_network(MODELS / "mnist_sfc_95.pt")
    with pytest.raises(ModelRejected) as caught:
        check_fit(network, BOARDS["cmod_a7_15"])
    words = str(caught.value)
    found = re.fullmatch(
        r"The network needs ([\d,]+) of 10,400 LUTs on cmod_a7_15 \(estimated, 600 LUTs of it for "
        r"the shell\); it would fit ([\w, ]+); on cmod_a7_15, this shape fits from about ([\d.]+)% sparsity "
        r"\(([\d,]+) ones\); train it so, or train a smaller one \(--luts\), or add --force to continue",
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
    design = outline(network, Options(family="xc7"))
    *others, last = design.stages
    design = replace(design, stages=(*others, replace(last, cost=Cost(registers=50_000))))
    with pytest.raises(ModelRejected, match=r"^The network needs [\d,]+ of 41,600 flip-flops on "):
        check_fit(network, BOARDS["arty_a7"], design)


def wide_map(xi=0):
    """Return a network whose lines are too long for registers."""
    rng = np.random.default_rng(0)
    edge = Edge.of_bits((4, 28, 1), 8, scan="raster")
    encode = Encode([[40, 80, 120, 160]])
    inner = encode.infer(edge)
    conv = Conv2d(
        taps=Taps.from_dense((rng.random((5, 36)) < 0.4).astype(int)), xi=xi, k=0,
        thresholds=[[-8 if xi else 4] * 5], flips=[False] * 5, fixed=[], channels=4, window=Window((3, 3)),
    )  # fmt: skip
    scores = random_scores(rng, Flatten().infer(conv.infer(inner)), 3)
    stages = [encode, conv, Flatten(), scores]
    return Network(edge, tuple(Stage(f"s{n}", o, (n - 1,)) for n, o in enumerate(stages)))


@pytest.mark.parametrize("xi", [0, -1], ids=["plain", "q"])
def test_lines_of_the_network_need_memory_too(xi):
    """On iCE40 lines are in block RAM: as many blocks as Yosys finds, and the shell's."""
    network, board = wide_map(xi), BOARDS["icebreaker"]
    design = outline(network, Options(family="ice40"))
    counted = synthesise(generate(network, Options(family="ice40")).verilog, "ice40").counts
    blocks = board.family.memory.count(counted.cells)
    assert design.cost.blocks == blocks > 0
    assert estimate(network, "ice40").blocks == blocks
    for found in (need(network, board, design), need(network, board)):
        assert (found.brams - found.image_brams, found.image_brams) == (blocks, 2)


@pytest.mark.parametrize(
    ("blocks", "target", "words"),
    [
        (7, BOARDS["icebreaker"], "30 of 30 memory blocks|"),
        (7.25, BOARDS["icebreaker"], ("31 of 30 memory blocks on icebreaker, 2 of them for an image "
         "and its results; build for a part without a board (--part), whose AXI4-Stream face keeps "
         "no image, or add --force to continue")),
        (10, BOARDS["icebreaker"], ("42 of 30 memory blocks on icebreaker for lines of its maps; "
         "build for a larger part, or train it for smaller maps, or add --force to continue")),
        (10, part_family("iCE40UP5K-SG48"), ("40 of 30 memory blocks on iCE40UP5K-SG48 for lines of "
         "its maps; build for a larger part, or train it for smaller maps, or add --force to "
         "continue")),
    ],
)  # fmt: skip
def test_memory_can_be_what_is_missing(blocks, target, words):
    network = wide_map()
    design = outline(network, Options(family="ice40"))
    # With little else, so that memory decides.
    stages = tuple(replace(stage, cost=Cost(tables=9, blocks=blocks)) for stage in design.stages)
    design = replace(design, stages=stages)
    if words.endswith("|"):
        assert check_fit(network, target, design).brams == 30
        return
    with pytest.raises(ModelRejected, match=f"^{re.escape('The network needs ' + words)}$"):
        check_fit(network, target, design)
    assert check_fit(network, target, design, force=True).brams > 30


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


def test_a_residual_network_that_is_too_large_has_a_way_out_of_its_own():
    """A budget of tables is not for it, and sparsity shrinks only a part of it."""
    network = max(residual_networks(range(4)), key=lambda each: counted(each, "xc7"))
    board = BOARDS["cmod_a7_15"]
    small = replace(board, capacity=replace(board.capacity, luts=900))
    with pytest.raises(ModelRejected) as refused:
        check_fit(network, small)
    said = str(refused.value)
    assert said.endswith(
        "; more sparsity does not shrink the arithmetic of its integers, so train it with fewer "
        "channels, or with fewer bits (--stream-bits, --weight-bits), or add --force to continue"
    )
    assert "it would fit arty_a7, " in said
    assert "--luts" not in said
