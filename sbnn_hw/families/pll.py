"""PLLs: what a data sheet allows, which settings there are, and the cell that they make.

Frequencies are exact fractions, in hertz.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

__all__ = ["MHZ", "Bounds", "Cell", "Limits", "Pll", "PllKind", "Settings", "nearest_divisors"]

MHZ = 1_000_000

Bounds = tuple[Fraction, Fraction]
Settings = dict[str, int | Fraction]


@dataclass(frozen=True)
class Pll:
    """A PLL's settings, in the words of its data sheet."""

    primitive: str  # ``PLLE2_BASE``, ``MMCME2_BASE``, ``EHXPLLL`` or ``SB_PLL40``.
    # What comes in and what goes out, exactly, in hertz.
    clock_in: Fraction
    clock_out: Fraction
    # By name; those of ``SB_PLL40`` are the register values, one less than the divisors.
    settings: Settings


@dataclass(frozen=True)
class Limits:
    """What a data sheet allows: of input, phase detector, oscillator and output."""

    clock_in: Bounds
    detector: Bounds
    oscillator: Bounds
    clock_out: Bounds

    @classmethod
    def of_mhz(cls, *bounds: tuple[float, float]) -> "Limits":
        """Take the bounds in megahertz."""
        return cls(*((Fraction(low) * MHZ, Fraction(high) * MHZ) for low, high in bounds))

    def detectors(self, clock: Fraction, most: int) -> Iterator[tuple[int, Fraction]]:
        """List the divisors at the input, and what reaches the phase detector."""
        for divide in range(1, most + 1):
            if self.detector[0] <= clock / divide <= self.detector[1]:
                yield divide, clock / divide

    def factors(self, base: Fraction, most: int) -> range:
        """Return the factors with which a frequency is one that the oscillator makes."""
        low, high = self.oscillator
        return range(max(1, -(-low // base)), min(most, high // base) + 1)


def nearest_divisors(clock: Fraction, target: Fraction, most: int) -> set[int]:
    """Return the one or two divisors that come closest to a frequency."""
    near = int(clock / target)
    return {min(max(divisor, 1), most) for divisor in (near, near + 1)}


@dataclass(frozen=True)
class Cell:
    """A PLL as a cell.

    Nets have names: ``pin`` is the oscillator's pin and ``source`` what comes from its buffer;
    ``feedback`` closes the loop; ``made`` must still be put on a global net, and ``clock`` is on
    one already; ``locked`` tells that the clock is stable.
    """

    name: str  # The cell.
    # By name; a number that needs a width is a pair of both.
    parameters: Mapping[str, str | int | float | tuple[int, int]]
    inputs: Mapping[str, str | int]  # A net, or a constant, for each pin.
    outputs: Mapping[str, str]  # A net for each pin.
    attributes: Mapping[str, str] = field(default_factory=dict)  # By name.


@dataclass(frozen=True)
class PllKind:
    """A kind of PLL."""

    name: str  # The primitive.
    limits: Limits  # Of the slowest speed grade.
    # Takes limits, input and target; lists what can be made near the target, the most stable
    # settings first. The divisor at the input is the first of the settings.
    settings: Callable[[Limits, Fraction, Fraction], Iterator[tuple[Fraction, Settings]]]
    # Takes a PLL, and whether the oscillator's pin belongs to it; returns its cell.
    cell: Callable[[Pll, bool], Cell]
