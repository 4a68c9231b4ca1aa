"""Clocks: what a PLL can make of an oscillator, which baud rate fits, and how deep logic may be.

Frequencies are whole hertz at the door, and exact fractions inside.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sbnn_hw.boards.table import Board
from sbnn_hw.errors import UsageError

__all__ = [
    "BAUD_RATES",
    "LEAST_DIVISOR",
    "Baud",
    "ClockPlan",
    "Pll",
    "choose_baud",
    "levels_for",
    "path_ns",
    "plan_clock",
    "solve_pll",
]

BAUD_RATES = (
    115_200, 230_400, 460_800, 500_000, 921_600, 1_000_000, 1_500_000, 2_000_000, 3_000_000,
)

#: Clocks a bit: with fewer, the middle of a bit is not found well enough.
LEAST_DIVISOR = 8
#: A receiver at the other end of a frame of ten bits still samples the right bit at twice this.
_WORST_BAUD = Fraction(15, 1000)
#: A clock further off than this is not the one that was asked for.
_WORST_CLOCK = Fraction(1, 100)

_MHZ = 1_000_000


@dataclass(frozen=True)
class Baud:
    """A rate of a serial line: bits a second, clocks a bit, and by how much the two are apart."""

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


@dataclass(frozen=True)
class Pll:
    """A PLL's settings, in the words of its data sheet.

    Parameters
    ----------
    primitive : str
        ``PLLE2_BASE``, ``MMCME2_BASE``, ``EHXPLLL`` or ``SB_PLL40``.
    clock_in, clock_out : Fraction
        What comes in and what goes out, exactly, in hertz.
    settings : dict
        By name; those of ``SB_PLL40`` are the register values, one less than the divisors.
    """

    primitive: str
    clock_in: Fraction
    clock_out: Fraction
    settings: dict[str, int | Fraction]


@dataclass(frozen=True)
class _Limits:
    """What a data sheet allows, in hertz: of input, phase detector, oscillator and output."""

    clock_in: tuple[Fraction, Fraction]
    detector: tuple[Fraction, Fraction]
    oscillator: tuple[Fraction, Fraction]
    clock_out: tuple[Fraction, Fraction]


def _mhz(low: float, high: float) -> tuple[Fraction, Fraction]:
    return Fraction(low) * _MHZ, Fraction(high) * _MHZ


#: The slowest speed grade of each family. 7-series (DS181): the output must also pass a global
#: buffer, which ends at 464 MHz. ECP5 (FPGA-DS-02012). iCE40 (FPGA-DS-02029, FPGA-DS-02008).
_LIMITS = {
    "PLLE2_BASE":  _Limits(_mhz(19, 800), _mhz(19, 450), _mhz(800, 1600), _mhz(6.25, 464)),
    "MMCME2_BASE": _Limits(_mhz(10, 800), _mhz(10, 450), _mhz(600, 1200), _mhz(4.6875, 464)),
    "EHXPLLL":     _Limits(_mhz(8, 400), _mhz(10, 400), _mhz(400, 800), _mhz(3.125, 400)),
    "SB_PLL40":    _Limits(_mhz(10, 133), _mhz(10, 133), _mhz(533, 1066), _mhz(16, 275)),
}

_PRIMITIVES = {
    "xc7":   ("PLLE2_BASE", "MMCME2_BASE"),
    "ecp5":  ("EHXPLLL",),
    "ice40": ("SB_PLL40",),
}


def _within(value: Fraction, bounds: tuple[Fraction, Fraction]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _multiples(base: Fraction, most: int, bounds: tuple[Fraction, Fraction]) -> range:
    """Return the factors that bring a frequency within bounds."""
    return range(max(1, -(-bounds[0] // base)), min(most, bounds[1] // base) + 1)


def _divisors(clock: Fraction, target: Fraction, most: int) -> set[int]:
    """Return the one or two divisors that come closest to a frequency."""
    near = int(clock / target)
    return {min(max(divisor, 1), most) for divisor in (near, near + 1)}


def _settings(
    primitive: str, clock: Fraction, target: Fraction
) -> Iterator[tuple[Fraction, dict[str, int | Fraction]]]:
    """List what a primitive can make near a frequency, the most stable settings first."""
    limits = _LIMITS[primitive]
    if not _within(clock, limits.clock_in):
        return
    if primitive == "SB_PLL40":
        for divr in range(16):
            detector = clock / (divr + 1)
            if not _within(detector, limits.detector):
                continue
            # The filter's setting follows from the phase detector's frequency.
            edges = (17, 26, 44, 66, 101)
            band = 1 + sum(detector >= edge * _MHZ for edge in edges)
            for factor in _multiples(detector, 128, limits.oscillator):
                for divq in range(1, 7):
                    yield detector * factor / 2**divq, {
                        "DIVR": divr, "DIVF": factor - 1, "DIVQ": divq, "FILTER_RANGE": band,
                    }
        return
    for divide in range(1, (128 if primitive == "EHXPLLL" else 56) + 1):
        detector = clock / divide
        if not _within(detector, limits.detector):
            continue
        if primitive == "EHXPLLL":
            # CLKOP closes the loop, CLKOS is the output: more frequencies than with one for both.
            for total in _multiples(detector, 80 * 128, limits.oscillator):
                feedback = next((f for f in range(1, 81) if total % f == 0 and total // f <= 128),
                                None)
                if feedback is None:
                    continue
                for out in _divisors(detector * total, target, 128):
                    yield detector * total / out, {
                        "CLKI_DIV": divide, "CLKFB_DIV": feedback, "CLKOP_DIV": total // feedback,
                        "CLKOS_DIV": out,
                    }
        else:
            # An MMCM multiplies by eighths too.
            step = 8 if primitive == "MMCME2_BASE" else 1
            for factor in _multiples(detector / step, 64 * step, limits.oscillator):
                if factor < 2 * step:
                    continue
                oscillator = detector * factor / step
                for out in _divisors(oscillator, target, 128):
                    yield oscillator / out, {
                        "DIVCLK_DIVIDE": divide, "CLKFBOUT_MULT": Fraction(factor, step),
                        "CLKOUT0_DIVIDE": out,
                    }


def solve_pll(family: str, clock_in_hz: int, clock_out_hz: int) -> Pll:
    """Return the PLL settings that come closest to a frequency.

    Among settings that are equally close the one with the smallest divisor at the input is taken,
    then whole factors before fractions, then the first that is found.
    """
    clock, target = Fraction(clock_in_hz), Fraction(clock_out_hz)
    if target <= 0:
        raise UsageError(f"Clock must be above 0 MHz, not {_show(target)} MHz")
    best: tuple[tuple[Fraction, int, bool], Pll] | None = None
    for primitive in _PRIMITIVES[family]:
        for made, settings in _settings(primitive, clock, target):
            if not _within(made, _LIMITS[primitive].clock_out):
                continue
            divide = settings.get("DIVR", settings.get("DIVCLK_DIVIDE", settings.get("CLKI_DIV")))
            whole = Fraction(settings.get("CLKFBOUT_MULT", 1)).denominator == 1
            key = (abs(made - target), int(divide or 0), not whole)
            if best is None or key < best[0]:
                best = key, Pll(primitive, clock, made, settings)
        # The plain PLL is taken wherever it takes the oscillator.
        if best is not None:
            break
    if best is None:
        raise UsageError(
            f"No PLL of {family} accepts an oscillator of {_show(clock)} MHz; omit --clock"
        )
    pll = best[1]
    if abs(pll.clock_out - target) > _WORST_CLOCK * target:
        raise UsageError(
            f"A PLL cannot make {_show(target)} MHz from {_show(clock)} MHz; the closest is "
            f"{_show(pll.clock_out)} MHz"
        )
    return pll


def _show(hz: Fraction) -> str:
    return f"{float(hz / _MHZ):.6g}"


@dataclass(frozen=True)
class ClockPlan:
    """The clock that a design runs at.

    Parameters
    ----------
    hz : int
        Rounded to a hertz.
    pll : Pll, optional
        None where the oscillator is used as it is.
    baud : Baud
        What the serial line makes of it.
    """

    hz: int
    pll: Pll | None
    baud: Baud


def plan_clock(board: Board, target_hz: int | None = None) -> ClockPlan:
    """Plan a board's clock: the oscillator's, or what a PLL makes of it.

    A PLL is never needed for the serial line alone: every clock that one takes, from 8 MHz up,
    comes within 1 % of 115,200 baud by itself.
    """
    if target_hz is None or target_hz == board.clock_hz:
        made, pll = Fraction(board.clock_hz), None
    else:
        pll = solve_pll(board.family, board.clock_hz, target_hz)
        made = pll.clock_out
    baud = choose_baud(made, board.fastest_baud)
    if baud is None:
        raise UsageError(
            f"No usual baud rate can be made from {_show(made)} MHz within 1.5 %; choose another "
            f"clock"
        )
    return ClockPlan(round(made), pll, baud)


@dataclass(frozen=True)
class _Speed:
    """How long a path takes: what it takes in any case, and more for each table, in ns."""

    fixed: float
    level: float


#: Measured with nextpnr, and for 7-series taken from its data sheet; see docs/boards.md.
_SPEEDS = {
    "xc7-1":    _Speed(2.5, 1.30),
    "xc7-2":    _Speed(2.2, 1.10),
    "xc7-3":    _Speed(2.0, 1.00),
    "ecp5-6":   _Speed(8.0, 1.60),
    "ecp5-7":   _Speed(7.4, 1.50),
    "ecp5-8":   _Speed(6.8, 1.35),
    "ice40-hx": _Speed(6.5, 0.85),
    "ice40-lp": _Speed(9.5, 1.30),
    "ice40-up": _Speed(18.0, 2.20),
}
_SLOWEST = {"xc7": "xc7-1", "ecp5": "ecp5-6", "ice40": "ice40-up"}

#: More tables between registers save nothing: networks are rarely deeper.
_MOST_LEVELS = 12


def path_ns(speed: str, levels: int) -> float:
    """Return the time that is allowed for so many tables between two registers."""
    found = _speed(speed)
    return found.fixed + levels * found.level


def _speed(speed: str) -> _Speed:
    found = _SPEEDS.get(_SLOWEST.get(speed, speed))
    if found is None:
        raise UsageError(
            f"Speed class must be one of {', '.join((*_SLOWEST, *_SPEEDS))}, not {speed!r}"
        )
    return found


def levels_for(speed: str, clock_hz: int) -> int:
    """Return how many tables may lie between two registers at a clock.

    Parameters
    ----------
    speed : str
        A board's or part's ``speed_class``, or a family, for the slowest of it.
    clock_hz : int
        The clock. Where even one table is too many the answer is still 1, and timing will tell.
    """
    found = _speed(speed)
    if clock_hz <= 0:
        raise UsageError(f"Clock must be above 0 Hz, not {clock_hz!r}")
    return min(max(int((1e9 / clock_hz - found.fixed) / found.level), 1), _MOST_LEVELS)
