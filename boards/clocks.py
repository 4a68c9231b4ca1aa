"""Clocks: what a PLL can make of an oscillator, which baud rate fits, and how deep logic may be.

Frequencies are whole hertz at the door, and exact fractions inside.
"""

from dataclasses import dataclass
from fractions import Fraction

from sbnn_hw.boards.links import SPI, UART, Link
from sbnn_hw.boards.table import Board
from sbnn_hw.errors import UsageError
from sbnn_hw.families import FpgaFamily, Speed
from sbnn_hw.families.pll import MHZ, Pll

__all__ = [
    "BAUD_RATES", "LEAST_DIVISOR", "SPI_DIVISOR", "Baud", "ClockPlan", "choose_baud", "levels_for",
    "path_ns", "plan_clock", "solve_pll",
]

BAUD_RATES = (
    115_200, 230_400, 460_800, 500_000, 921_600, 1_000_000, 1_500_000, 2_000_000, 3_000_000,
)

#: Clocks a bit: with fewer, the middle of a bit is not found well enough.
LEAST_DIVISOR = 8
#: Clocks a bit on SPI, at least: four for each half of the line's clock (:mod:`shell.spi`).
SPI_DIVISOR = 8
#: A receiver at the other end of a frame of ten bits still samples the right bit at twice this.
_WORST_BAUD = Fraction(15, 1000)
#: A clock further off than this is not the one that was asked for.
_WORST_CLOCK = Fraction(1, 100)


@dataclass(frozen=True)
class Baud:
    """A rate of a line: bits a second, clocks a bit, and by how much the two are apart."""

    rate: int
    divisor: int
    error: float


def choose_baud(clock_hz: int | Fraction, fastest: int) -> Baud | None:
    """Return the fastest usual rate that a clock can make, or nothing if it makes none."""
    for rate in sorted(BAUD_RATES, reverse=True):
        divisor = round(Fraction(clock_hz) / rate)
        if rate > fastest or divisor < LEAST_DIVISOR:
            continue
        error = abs(Fraction(clock_hz) / divisor / rate - 1)
        if error <= _WORST_BAUD:
            return Baud(rate, divisor, float(error))
    return None


def solve_pll(family: FpgaFamily, clock_in_hz: int, clock_out_hz: int) -> Pll:
    """Return the PLL settings that come closest to a frequency.

    Among settings that are equally close the one with the smallest divisor at the input is taken,
    then whole factors before fractions, then the first that is found.
    """
    clock, target = Fraction(clock_in_hz), Fraction(clock_out_hz)
    if target <= 0:
        raise UsageError(f"Clock must be above 0 MHz, not {_show(target)} MHz")
    best: tuple[tuple[Fraction, int, bool], Pll] | None = None
    for kind in family.plls:
        if not _within(clock, kind.limits.clock_in):
            continue
        for made, settings in kind.settings(kind.limits, clock, target):
            if not _within(made, kind.limits.clock_out):
                continue
            divide = int(next(iter(settings.values())))
            whole = all(Fraction(value).denominator == 1 for value in settings.values())
            key = (abs(made - target), divide, not whole)
            if best is None or key < best[0]:
                best = key, Pll(kind.name, clock, made, settings)
        # The first kind is taken wherever it takes the oscillator.
        if best is not None:
            break
    if best is None:
        raise UsageError(
            f"No PLL of {family.name} accepts an oscillator of {_show(clock)} MHz; omit --clock"
        )
    pll = best[1]
    if abs(pll.clock_out - target) > _WORST_CLOCK * target:
        raise UsageError(
            f"A PLL cannot make {_show(target)} MHz from {_show(clock)} MHz; the closest is "
            f"{_show(pll.clock_out)} MHz"
        )
    return pll


def _within(value: Fraction, bounds: tuple[Fraction, Fraction]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _show(hz: Fraction) -> str:
    return f"{float(hz / MHZ):.6g}"


@dataclass(frozen=True)
class ClockPlan:
    """The clock that a design runs at."""

    #: Rounded to a hertz.
    hz: int
    #: None where the oscillator is used as it is.
    pll: Pll | None
    #: What the line to the host makes of it; on SPI the highest rate.
    baud: Baud
    #: That line.
    link: Link = UART


def plan_clock(board: Board, target_hz: int | None = None, link: Link = UART) -> ClockPlan:
    """Plan a board's clock: the oscillator's, or what a PLL makes of it.

    A PLL is never needed for the serial line alone: every clock that one takes, from 8 MHz up,
    comes within 1 % of 115,200 baud by itself.
    """
    if target_hz is None or target_hz == board.clock_hz:
        made, pll = Fraction(board.clock_hz), None
    else:
        pll = solve_pll(board.family, board.clock_hz, target_hz)
        made = pll.clock_out
    if link is SPI:
        return ClockPlan(round(made), pll, Baud(int(made / SPI_DIVISOR), SPI_DIVISOR, 0.0), link)
    baud = choose_baud(made, board.fastest_baud)
    if baud is None:
        raise UsageError(
            f"No usual baud rate can be made from {_show(made)} MHz within 1.5 %; choose another "
            f"clock"
        )
    return ClockPlan(round(made), pll, baud)


#: More tables between registers save nothing: networks are rarely deeper.
_MOST_LEVELS = 12


def path_ns(speed: Speed, levels: int) -> float:
    """Return the time that is allowed for so many tables between two registers."""
    return speed.fixed + levels * speed.level


def levels_for(speed: Speed, clock_hz: int) -> int:
    """Return how many tables may lie between two registers at a clock.

    Where even one table is too many the answer is still 1, and timing will tell.
    """
    if clock_hz <= 0:
        raise UsageError(f"Clock must be above 0 Hz, not {clock_hz!r}")
    return min(max(int((1e9 / clock_hz - speed.fixed) / speed.level), 1), _MOST_LEVELS)
