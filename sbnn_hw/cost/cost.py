"""What hardware takes of a part."""

from dataclasses import dataclass

__all__ = ["Cost"]


@dataclass(frozen=True)
class Cost:
    """What a design, or a part of one, takes.

    Parameters
    ----------
    tables : int
        Look-up tables; memories that are made of tables count here too.
    registers : int
        Register bits.
    memory_bits : int
        Bits that are kept in block RAM.
    blocks : float
        Blocks of that RAM, as the family counts them; halves occur.
    multipliers : int
        Multipliers (DSPs).

    Examples
    --------
    >>> sum([Cost(3, 4), Cost(tables=1, blocks=0.5)], Cost()).tables
    4
    """

    tables: int = 0
    registers: int = 0
    memory_bits: int = 0
    blocks: float = 0.0
    multipliers: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.tables + other.tables,
            self.registers + other.registers,
            self.memory_bits + other.memory_bits,
            self.blocks + other.blocks,
            self.multipliers + other.multipliers,
        )

    @property
    def area(self) -> float:
        """What tables and registers take together: a table comes with two registers."""
        return max(self.tables, self.registers / 2)
