"""Baud rates, PLLs and depths: legal everywhere, and as close as can be."""

import random
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sbnn_hw.boards.clocks import BAUD_RATES, choose_baud, levels_for, plan_clock, solve_pll
from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.errors import UsageError
from sbnn_hw.families import find_fpga_family

MHZ = 1_000_000


def check_limits(pll):
    """Compute a PLL from its settings alone, and hold it against the data sheets once more."""
    s, fin = pll.settings, pll.clock_in
    if pll.primitive == "EHXPLLL":
        assert 1 <= s["CLKI_DIV"] <= 128
        assert 1 <= s["CLKFB_DIV"] <= 80
        assert 1 <= s["CLKOP_DIV"] <= 128
        assert 1 <= s["CLKOS_DIV"] <= 128
        pfd = fin / s["CLKI_DIV"]
        vco = pfd * s["CLKFB_DIV"] * s["CLKOP_DIV"]
        out = vco / s["CLKOS_DIV"]
        ranges = (8, 400), (10, 400), (400, 800), (3.125, 400)
    elif pll.primitive == "SB_PLL40":
        assert 0 <= s["DIVR"] <= 15
        assert 0 <= s["DIVF"] <= 127
        assert 1 <= s["DIVQ"] <= 6
        pfd = fin / (s["DIVR"] + 1)
        vco = pfd * (s["DIVF"] + 1)
        out = vco / 2 ** s["DIVQ"]
        ranges = (10, 133), (10, 133), (533, 1066), (16, 275)
        assert s["FILTER_RANGE"] == next(
            n for n, edge in enumerate((17, 26, 44, 66, 101, 134), 1) if pfd < edge * MHZ
        )
    else:
        assert 1 <= s["DIVCLK_DIVIDE"] <= 56
        assert 2 <= s["CLKFBOUT_MULT"] <= 64
        assert 1 <= s["CLKOUT0_DIVIDE"] <= 128
        pfd = fin / s["DIVCLK_DIVIDE"]
        vco = pfd * s["CLKFBOUT_MULT"]
        out = vco / s["CLKOUT0_DIVIDE"]
        if pll.primitive == "PLLE2_BASE":
            assert s["CLKFBOUT_MULT"].denominator == 1
            ranges = (19, 800), (19, 450), (800, 1600), (6.25, 464)
        else:
            assert pll.primitive == "MMCME2_BASE"
            assert 8 % s["CLKFBOUT_MULT"].denominator == 0
            ranges = (10, 800), (10, 450), (600, 1200), (4.6875, 464)
    for value, (low, high) in zip((fin, pfd, vco, out), ranges, strict=True):
        assert low * MHZ <= value <= high * MHZ
    assert out == pll.clock_out


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
def test_settings_are_legal_and_close_over_many_frequencies(family):
    rng = random.Random(0)
    solved = 0
    for _ in range(400):
        source = rng.choice([10, 12, 16, 24, 25, 27, 48, 50, 100, 125]) * MHZ
        target = rng.randrange(4 * MHZ, 300 * MHZ)
        try:
            pll = solve_pll(find_fpga_family(family), source, target)
        except UsageError:
            continue
        check_limits(pll)
        assert abs(pll.clock_out / target - 1) <= Fraction(1, 100)
        solved += 1
    assert solved > 200


def best_by_trying(family, fin, target):
    """Try every setting there is."""
    fin, best = Fraction(fin), None

    def consider(out, low, high):
        nonlocal best
        if low * MHZ <= out <= high * MHZ and (best is None or abs(out - target) < best):
            best = abs(out - target)

    if family == "ice40":
        for r in range(16):
            for f in range(128):
                pfd = fin / (r + 1)
                if pfd >= 10 * MHZ and 533 * MHZ <= pfd * (f + 1) <= 1066 * MHZ:
                    for q in range(1, 7):
                        consider(pfd * (f + 1) / 2**q, 16, 275)
    elif family == "ecp5":
        products = {f * p for f in range(1, 81) for p in range(1, 129)}
        for i in range(1, 129):
            pfd = fin / i
            for total in products if pfd >= 10 * MHZ else ():
                if 400 * MHZ <= pfd * total <= 800 * MHZ:
                    for o in range(1, 129):
                        consider(pfd * total / o, 3.125, 400)
    else:
        for d in range(1, 57):
            pfd = fin / d
            for m in range(2, 65) if pfd >= 19 * MHZ else ():
                if 800 * MHZ <= pfd * m <= 1600 * MHZ:
                    for o in range(1, 129):
                        consider(pfd * m / o, 6.25, 464)
    return best


@pytest.mark.parametrize(
    ("family", "source"), [("ice40", 12), ("ice40", 48), ("ecp5", 25), ("ecp5", 48), ("xc7", 100)]
)
def test_no_setting_comes_closer(family, source):
    for target in (17_300_001, 33_000_000, 61_440_000, 99_999_999, 148_500_000):
        try:
            error = abs(
                solve_pll(find_fpga_family(family), source * MHZ, target).clock_out - target
            )
        except UsageError:
            assert best_by_trying(family, source * MHZ, target) > target / 100
            continue
        assert error == best_by_trying(family, source * MHZ, target)


def tool(name):
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"needs {name}, of the flow extra")
    return str(path)


def test_as_close_as_icepll():
    for target in (16.5, 24, 39.75, 60, 100):
        said = subprocess.run(
            [tool("yowasp-icepll"), "-i", "12", "-o", str(target)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        theirs = float(re.search(r"F_PLLOUT:\s+([\d.]+) MHz \(achieved\)", said)[1])
        ours = solve_pll(find_fpga_family("ice40"), 12 * MHZ, round(target * MHZ)).clock_out / MHZ
        assert abs(ours - target) <= abs(theirs - target) + 1e-3


def test_as_close_as_ecppll(tmp_path):
    for target in (33, 50, 62.5, 80):
        said = subprocess.run(
            [tool("yowasp-ecppll"), "-i", "25", "-o", str(target), "-f", "pll.v"],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        ).stdout  # fmt: skip
        theirs = float(re.search(r"clkout0 frequency: ([\d.]+) MHz", said)[1])
        ours = solve_pll(find_fpga_family("ecp5"), 25 * MHZ, round(target * MHZ)).clock_out / MHZ
        assert abs(ours - target) <= abs(theirs - target) + 1e-3


def test_slow_oscillators_get_an_mmcm():
    assert solve_pll(find_fpga_family("xc7"), 12 * MHZ, 100 * MHZ).primitive == "MMCME2_BASE"
    assert solve_pll(find_fpga_family("xc7"), 100 * MHZ, 125 * MHZ).primitive == "PLLE2_BASE"


def test_what_no_pll_makes_is_refused_with_the_closest():
    with pytest.raises(
        UsageError,
        match=r"^A PLL cannot make 5 MHz from 12 MHz; the closest is 16\.125 MHz$",
    ):
        solve_pll(find_fpga_family("ice40"), 12 * MHZ, 5 * MHZ)
    with pytest.raises(
        UsageError,
        match=r"^No PLL of ecp5 accepts an oscillator of 1 MHz; omit --clock$",
    ):
        solve_pll(find_fpga_family("ecp5"), MHZ, 5 * MHZ)
    with pytest.raises(UsageError, match=r"^Clock must be above 0 MHz, not 0 MHz$"):
        solve_pll(find_fpga_family("ecp5"), 25 * MHZ, 0)


def test_baud_is_the_fastest_that_fits():
    for clock in range(1 * MHZ, 130 * MHZ, 777_777):
        for fastest in (115_200, 921_600, 3_000_000):
            chosen = choose_baud(clock, fastest)
            fits = [
                rate
                for rate in BAUD_RATES
                if rate <= fastest
                and (divisor := round(Fraction(clock, rate))) >= 8
                and abs(clock / divisor / rate - 1) <= 0.015
            ]
            assert (chosen.rate if chosen else None) == max(fits, default=None)
            if chosen:
                assert chosen.divisor == round(clock / chosen.rate)
                assert chosen.error == pytest.approx(
                    abs(clock / chosen.divisor / chosen.rate - 1), abs=1e-12
                )
    assert choose_baud(900_000, 3_000_000) is None


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_boards_run_from_their_oscillator_unless_told_otherwise(board):
    plan = plan_clock(board)
    assert (plan.hz, plan.pll) == (board.clock_hz, None)
    assert plan == plan_clock(board, board.clock_hz)
    faster = plan_clock(board, 2 * board.clock_hz)
    check_limits(faster.pll)
    assert abs(faster.hz / (2 * board.clock_hz) - 1) <= 0.01
    for each in (plan, faster):
        assert each.baud.rate <= board.fastest_baud
        assert each.baud.error <= 0.015


def test_what_a_pll_takes_needs_none_for_the_serial_line():
    for clock in range(8 * MHZ, 20 * MHZ, 12_345):
        assert choose_baud(clock, 115_200).error <= 0.01


def test_a_clock_that_makes_no_rate_is_refused():
    slow = replace(BOARDS["cmod_a7"], clock_hz=1_300_000)
    with pytest.raises(
        UsageError,
        match=r"^No usual baud rate can be made from 1\.3 MHz within 1\.5 %; choose "
        r"another clock$",
    ):
        plan_clock(slow)


def test_depth_falls_with_the_clock_and_rises_with_the_speed():
    speeds = {
        part: part_family(part).speed_class
        for part in (
            *("xc7a35tcpg236-1", "LFE5U-25F-6BG381C", "LFE5U-25F-8BG381C"),
            *("iCE40HX8K-CT256", "iCE40UP5K-SG48", "iCE40LP8K-CM81"),
        )
    }
    for speed in speeds.values():
        depths = [levels_for(speed, mhz * MHZ) for mhz in range(1, 400)]
        assert depths == sorted(depths, reverse=True)
        assert depths[0] == 12
        assert depths[-1] == 1
    _, slow, fast, hx, up, _ = speeds.values()
    assert levels_for(hx, 48 * MHZ) > levels_for(up, 48 * MHZ)
    assert levels_for(fast, 100 * MHZ) > levels_for(slow, 100 * MHZ)
    for board in BOARDS.values():
        assert levels_for(board.speed_class, board.clock_hz) >= 2
    with pytest.raises(UsageError, match=r"^Clock must be above 0 Hz, not 0$"):
        levels_for(slow, 0)
