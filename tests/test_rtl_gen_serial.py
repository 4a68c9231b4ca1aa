# amaranth: UnusedElaboratable=no
"""Layers behind pixels that count a pixel over several cycles."""

import contextlib

import numpy as np
import pytest
from packed import Pack
from random_networks import random_map_network

from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import FAMILIES
from sbnn_hw.netlist import Conv2d, Edge, Encode, Flatten, Network, Scores, Stage, Taps, Window
from sbnn_hw.rtl_gen.counting import select_part
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.parts.accumulate import Repeat
from sbnn_hw.rtl_gen.parts.window import Scan
from sbnn_hw.rtl_gen.stages import vector
from sbnn_hw.sim.agreement import check_agreement


def serial_pairs(count, *, first=0):
    """Return random networks whose layer behind pixels can be counted over two cycles or more."""
    found = []
    for seed in range(first, first + 100 * count):
        rng = np.random.default_rng(seed)
        network = random_map_network(rng)
        options = Options(
            family=str(rng.choice(["xc7", "ecp5", "ice40", "generic"])),
            flatten="accumulate",
            serial=int(rng.integers(2, 5)),
            levels_per_stage=int(rng.integers(1, 4)),
        )
        with contextlib.suppress(ModelRejected):
            parts = lower(network, options).parts.values()
            # A map of one pixel is a vector already.
            if any(isinstance(part, Repeat) for part in parts):
                found.append((network, options))
        if len(found) == count:
            return found
    raise AssertionError("too few networks leave time between pixels")


def strided(channels=5, stride=3, classes=4, size=10):
    """Return a network of one convolution with a stride, and scores of all its bits."""
    rng = np.random.default_rng(channels)
    conv = Conv2d(
        taps=Taps.from_dense(rng.choice([-1, 0, 1], (channels, 4)).astype(np.int8)),
        xi=0,
        k=0,
        thresholds=[[1] * channels],
        flips=[False] * channels,
        fixed=[],
        channels=1,
        window=Window((2, 2), (stride, stride)),
    )
    across = (size - 2) // stride + 1
    weights = rng.choice([-1, 1], (classes, channels * across**2)).astype(np.int8)
    scores = Scores(taps=Taps.from_dense(weights), negative=False, shift=0, offsets=[0] * classes)
    operations = [Encode([[128]]), conv, Flatten(), scores]
    stages = tuple(Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(operations))
    return Network(Edge.of_bits((size, size, 1), 8, scan="raster"), stages)


def test_random_networks_agree_with_and_without_stalls():
    pairs = serial_pairs(40)
    pack = Pack(pairs)
    assert pack.differing() == []
    assert pack.differing(ready_odds=0.6, valid_odds=0.7, seed=1) == []


@pytest.mark.parametrize("cycles", [1, 2, 3])
def test_every_connection_is_counted_and_every_score_agrees(cycles):
    network = strided()
    made = generate(network, Options(family="xc7", flatten="accumulate", serial=cycles))
    stages = {stage.name: stage for stage in made.design.stages}
    assert stages["s3"].connections == network.stages[3].operation.connections
    pixels = np.random.default_rng(1).integers(0, 256, (200, 10, 10, 1)).astype(np.uint8)
    found = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert found.equal


def test_a_pixel_that_comes_too_soon_would_be_seen(monkeypatch):
    """Count over one cycle more than there are: the next pixel comes while one is counted."""
    monkeypatch.setattr(vector, "cycles_of", lambda place, edge: [4])
    pack = Pack([(strided(), Options(flatten="accumulate"))])
    assert pack.differing() == [0]


def test_more_cycles_than_lie_between_pixels_are_refused():
    message = "Stage s3: its pixels come every 3 cycles, so each cannot be counted in 4 cycles"
    with pytest.raises(ModelRejected, match=message):
        lower(strided(), Options(flatten="accumulate", serial=4))


def test_the_smallest_number_of_cycles_is_chosen():
    """A dense layer is smaller the longer it may take."""
    network = strided(channels=16, classes=10)

    def tables(**options):
        lowered = lower(network, Options(family="xc7", flatten="accumulate", **options))
        return lowered.chosen["s3"].cost.tables

    each = {cycles: tables(serial=cycles) for cycles in (1, 2, 3)}
    assert each[3] < each[1]
    assert tables() <= min(each.values())


@pytest.mark.parametrize(
    ("window", "between", "gap"),
    [
        (Window((3, 3)), 1, 1),
        (Window((3, 3)), 4, 4),
        (Window((2, 2), (2, 2)), 3, 6),
        # Windows over the lower border come by themselves, in every cycle.
        (Window((3, 3), (1, 1), (1, 1)), 4, 1),
        (Window((3, 3), (2, 2), (1, 1)), 4, 8),
        # The whole map: from one image to the next.
        (Window((6, 6)), 2, 72),
    ],
)
def test_the_time_between_windows(window, between, gap):
    assert Scan(window, 6, 6).gap(between) == gap


@pytest.mark.parametrize("family", ["xc7", "ecp5"])
@pytest.mark.parametrize(
    ("bits", "cycles"), [(5, 1), (5, 4), (7, 3), (10, 10), (33, 8), (64, 4), (64, 12), (64, 16)]
)
def test_a_part_of_a_pixel_is_chosen_by_its_number(family, bits, cycles):
    size = -(-bits // cycles)
    width = (cycles - 1).bit_length()
    logic = Logic(bits + width)
    literals = [logic.input(n) for n in range(bits + width)]
    chosen = select_part(logic, literals[:bits], literals[bits:], size, FAMILIES[family])
    # Four for a table, and a table for four of those.
    if family == "xc7" and (bits, cycles) == (64, 16):
        assert len(logic) == 5 * size
    rng = np.random.default_rng(bits + cycles)
    values = rng.integers(0, 2, (100, bits))
    parts = rng.integers(0, -(-bits // size), 100)
    words = [sum(int(v) << case for case, v in enumerate(values[:, n])) for n in range(bits)]
    words += [sum(int(p >> n & 1) << case for case, p in enumerate(parts)) for n in range(width)]
    found = logic.evaluate(words, logic.positive(chosen), 100)
    for case, part in enumerate(parts):
        wanted = values[case, part * size : (part + 1) * size].tolist()
        assert [word >> case & 1 for word in found][: len(wanted)] == wanted
