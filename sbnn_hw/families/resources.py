"""What FPGAs hold, how it is counted, and how fast it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Capacity", "CellCosts", "Memory", "Packing", "Speed", "TableMemory"]


@dataclass(frozen=True)
class Capacity:
    """What an FPGA holds."""

    luts: int  # Look-up tables: of six inputs in 7-series, of four in ECP5 and iCE40.
    flip_flops: int  # Registers of one bit.
    brams: int  # Memory blocks: 36 kbit in 7-series, 18 kbit in ECP5, 4 kbit in iCE40.
    multipliers: int | None = None  # DSP blocks.


@dataclass(frozen=True)
class Speed:
    """How long a path takes: what it takes in any case, and more for each table, in ns."""

    fixed: float
    level: float


@dataclass(frozen=True)
class Packing:
    """How tables and registers share the cells of an FPGA."""

    unit: str = "LUTs"  # What a place for a table is called.
    alone: float = 0.0  # The share of registers that take such a place of their own.
    # What nextpnr calls a place for a table and a register; empty if they are counted apart.
    cell: str = ""


@dataclass(frozen=True)
class TableMemory:
    """A small memory that is made of tables."""

    # How many words it has, and the bits of each.
    words: int
    bits: int
    tables: int  # What it takes.
    weight: int  # What Yosys weighs it with when it chooses between tables and blocks.


@dataclass(frozen=True)
class Memory:
    """What a family's memory looks like."""

    byte_bits: int  # Bits of a block that is as wide as a byte.
    # Words, and bits of a word, that the smallest piece of a block can have.
    shapes: tuple[tuple[int, int], ...]
    cells: Mapping[str, float]  # What share of a block each cell takes.
    piece: float = 1  # What share of a block the smallest piece is.
    # What Yosys weighs the smallest piece with when it chooses between tables and blocks.
    weight: int = 0
    # Words up to which a line is a shift register in tables; zero if there are none.
    shifted: int = 0
    in_tables: tuple[TableMemory, ...] = ()  # Memories that tables can be.
    in_registers: int = 0  # Bits up to which a memory becomes registers.

    def blocks(self, words: int, bits: int) -> float:
        """Return the fewest blocks that hold so many words of so many bits."""
        return self.piece * min(-(-words // deep) * -(-bits // wide) for deep, wide in self.shapes)

    def count(self, cells: Mapping[str, int]) -> float:
        """Return how many blocks a design takes whose cells were counted."""
        return float(sum(number * self.cells.get(name, 0) for name, number in cells.items()))


@dataclass(frozen=True, kw_only=True)
class CellCosts:
    """What is counted of the cells that synthesis leaves, besides memory blocks."""

    # Tables that a cell takes which computes, and one which is the carry of an adder.
    logic: Mapping[str, int]
    carries: Mapping[str, int]
    # Patterns of the names of cells that lie beside the tables.
    flip_flops: str
    muxes: str = ""
    multipliers: str = ""
    # Tables that a cell takes which is a shift register, and one which holds bits.
    shift: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, int]:
        """Tables that a cell takes, whatever it is."""
        return {**self.logic, **self.shift, **self.memory, **self.carries}
