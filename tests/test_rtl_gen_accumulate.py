"""Taps that are counted as pixels arrive: each part against numpy, with and without stalls."""

import numpy as np
import pytest
from random_networks import random_map_network
from simulated import restless, run_core, run_part

from sbnn_hw.families import FAMILIES
from sbnn_hw.families.generic import GENERIC
from sbnn_hw.rtl_gen.counting import count_at, most_at_once, places_of
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.lower import lower
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.outline import outline
from sbnn_hw.rtl_gen.parts.accumulate import Accumulate, Number, Repeat
from sbnn_hw.rtl_gen.parts.gather import Gather

stalls = pytest.mark.parametrize("odds", [1.0, 0.4], ids=["steady", "stalls"])


@stalls
@pytest.mark.parametrize("pixels", [1, 2, 5, 8])
def test_pixels_are_numbered(pixels, odds):
    words = np.random.default_rng(pixels).integers(0, 8, 3 * pixels).tolist()
    given, times, arrivals = run_part(Number(pixels, 3, GENERIC), words, odds=odds)
    assert given == [word | (n % pixels) << 3 for n, word in enumerate(words)]
    assert times == arrivals


@stalls
@pytest.mark.parametrize(("pixels", "times"), [(1, 2), (3, 2), (4, 3), (2, 4)])
def test_pixels_are_repeated_with_their_part_and_number(pixels, times, odds):
    words = np.random.default_rng(times).integers(0, 8, 3 * pixels).tolist()
    core = Repeat(pixels, 3, times, GENERIC)
    given, cycles, arrivals = run_part(core, words, odds=odds, apart=times)
    part_bits = (times - 1).bit_length()
    assert given == [
        word | part << 3 | ((n % pixels) * times + part) << 3 + part_bits
        for n, word in enumerate(words)
        for part in range(times)
    ]
    assert cycles == core.times(np.array(arrivals)).tolist()


def accumulated(pixels, counts, maps=4):
    """Return what adds up counts of so many bits, words of maps, and the sums that must come."""
    rng = np.random.default_rng(pixels)
    values = np.stack([rng.integers(0, 1 << bits, (maps, pixels)) for bits in counts], axis=-1)
    # The largest sum is one of them.
    values[0] = (1 << np.array(counts)) - 1
    sums = [(pixels * ((1 << bits) - 1)).bit_length() for bits in counts]

    def words(rows, widths):
        ends = np.cumsum([0, *widths[:-1]])
        return [sum(int(v) << int(at) for v, at in zip(row, ends, strict=True)) for row in rows]

    core = Accumulate(pixels, counts, sums, GENERIC)
    return core, words(values.reshape(-1, len(counts)), counts), words(values.sum(axis=1), sums)


@stalls
@pytest.mark.parametrize(("pixels", "counts"), [(1, [2]), (2, [1, 3]), (7, [1, 1, 4]), (8, [2, 5])])
def test_counts_are_added_up_over_a_map(pixels, counts, odds):
    core, words, wanted = accumulated(pixels, counts)
    given, times, arrivals = run_part(core, words, odds=odds)
    assert given == wanted
    ends = [core.times(np.array(arrivals[at : at + pixels])).tolist()
            for at in range(0, len(arrivals), pixels)]  # fmt: skip
    assert times == [time for end in ends for time in end]


def test_sums_that_do_not_stop_or_are_too_narrow_are_found_out():
    core, words, wanted = accumulated(7, [1, 4])
    assert run_core(restless(core), words, odds=0.4)[0] != wanted
    narrow = Accumulate(7, [1, 4], [3, 6], GENERIC)
    assert run_part(narrow, words)[0] != wanted


def counted(taps, pixels, values, bits, family):
    """Return what ``count_at`` counts of random maps, pixel by pixel, and what numpy counts."""
    rng = np.random.default_rng(0)
    place_bits = max(1, (pixels - 1).bit_length())
    logic = Logic(values * bits + place_bits)
    literals = [logic.input(n) for n in range(logic.inputs)]
    split = [literals[v * bits : (v + 1) * bits] for v in range(values)]
    place = literals[values * bits :]
    total, gates = count_at(logic, taps, split, place, "n", family)
    cases = rng.integers(0, 1 << bits, (40, pixels, values))
    found, wanted = [], []
    for pixel in range(pixels):
        words = [
            sum(int(case[pixel, v] >> b & 1) << n for n, case in enumerate(cases))
            for v in range(values)
            for b in range(bits)
        ]
        words += [(pixel >> n & 1) * ((1 << 40) - 1) for n in range(place_bits)]
        answers = logic.evaluate(words, logic.positive(total), 40)
        found.append([sum((a >> n & 1) << b for b, a in enumerate(answers)) for n in range(40)])
        most = (1 << bits) - 1
        wanted.append([
            sum(int(most - case[p, v] if inverted else case[p, v])
                for p, v, inverted in taps if p == pixel)
            for case in cases
        ])  # fmt: skip
    return logic, gates, place, found, wanted


TAPS = [(0, 0, False), (0, 1, True), (2, 0, True), (2, 2, False), (4, 1, False)]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("bits", [1, 3])
@pytest.mark.parametrize("taps", [TAPS, TAPS[:1], []], ids=["many", "one", "none"])
def test_each_pixel_counts_the_taps_at_its_place(taps, bits, name):
    _, _, _, found, wanted = counted(taps, 5, 3, bits, FAMILIES[name])
    assert found == wanted


def test_a_tap_at_another_place_is_found_out():
    _, _, _, found, wanted = counted(TAPS, 5, 3, 1, FAMILIES["xc7"])
    _, _, _, other, _ = counted([(1, 0, False), *TAPS[1:]], 5, 3, 1, FAMILIES["xc7"])
    assert found == wanted
    assert other != wanted


def test_places_at_which_a_value_counts_are_those_of_its_taps():
    logic, gates, place, _, _ = counted(TAPS, 5, 3, 1, FAMILIES["xc7"])
    places = [{bit: pixel >> n & 1 for n, bit in enumerate(place)} for pixel in range(5)]
    found = {v: places_of(logic, gate, [logic.input(v)], places) for v, gate in gates.items()}
    assert found == {0: 2, 1: 2, 2: 1}


def test_the_largest_counts_are_of_one_pixel_and_of_all():
    assert most_at_once(TAPS, 1) == (2, 5)
    assert most_at_once(TAPS, 15) == (30, 75)
    assert most_at_once([], 15) == (0, 0)


@pytest.mark.parametrize(
    ("part", "counted"),
    [
        (lambda family: Gather(49, 8, family), {"xc7": (7, 399), "ecp5": (12, 399), "ice40": (12, 399)}),
        (lambda family: Number(196, 8, family), {"xc7": (7, 8), "ecp5": (16, 8), "ice40": (12, 8)}),
        (lambda family: Repeat(49, 8, 4, family), {"xc7": (11, 19), "ecp5": (20, 19), "ice40": (17, 19)}),
        (lambda family: Accumulate(49, [4] * 10, [8] * 10, family), {"xc7": (91, 87), "ecp5": (173, 87), "ice40": (163, 87)}),
    ],
    ids=["gather", "number", "repeat", "accumulate"],
)  # fmt: skip
def test_costs_are_what_yosys_counted(part, counted):
    """Tables and registers that Yosys 0.70 made of these parts."""
    for family, (tables, registers) in counted.items():
        cost = part(FAMILIES[family]).cost
        assert cost.registers == registers
        assert cost.tables == pytest.approx(tables, rel=0.2, abs=3)


def test_a_stage_is_as_late_as_all_its_parts():
    several = 0
    for seed in range(5):
        network = random_map_network(np.random.default_rng(seed))
        options = Options(levels_per_stage=2)
        chosen = lower(network, options).chosen
        for stage in outline(network, options).stages:
            parts = [part.latency for part in chosen[stage.name].parts.values()]
            assert stage.latency == sum(parts)
            several += sum(1 for latency in parts if latency) > 1
    assert several
