"""What a toggle takes of energy, as far as can be told without a board: an estimate."""

from dataclasses import dataclass

__all__ = ["Switching"]


@dataclass(frozen=True)
class Switching:
    """The energy of a toggle in a family, with how far it may be off, and why.

    docs/decisions/0025-energy-is-an-estimate.md derives the numbers.

    Examples
    --------
    >>> Switching(capacitance_pf=1.0, volts=1.2, factor=2, source="", static="").picojoules
    0.72
    """

    capacitance_pf: float  # What the output of a table or register, and its wires, have on average.
    volts: float  # Of the core's supply.
    factor: float  # The true energy should lie within this factor, either way.
    source: str  # Where the capacitance comes from, in a sentence.
    static: str  # What is known of the power that is taken whether or not anything toggles.

    def __post_init__(self) -> None:
        if not (self.capacitance_pf > 0 and self.volts > 0 and self.factor > 1):
            raise ValueError("A toggle must take energy, and its estimate must have a band")

    @property
    def picojoules(self) -> float:
        """The energy of a toggle: half of C·V², whether the bit rises or falls."""
        return self.capacitance_pf * self.volts**2 / 2
