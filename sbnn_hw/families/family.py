"""What a family of FPGAs is: one value, from which everything that depends on it follows."""

from collections.abc import Callable
from dataclasses import dataclass

from sbnn_hw.families.energy import Switching
from sbnn_hw.families.pll import Cell, Pll, PllKind
from sbnn_hw.families.programs import Platform, Router, Synthesiser
from sbnn_hw.families.resources import Capacity, CellCosts, Memory, Packing, Speed
from sbnn_hw.families.tables import LookUp, Sums, TableCell

__all__ = ["Family", "FpgaFamily", "Part"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """What hardware is written for: a family of FPGAs, or gates for any tool."""

    name: str  # As given to ``--family``.
    look_up: LookUp  # What its tables can do.
    cells: TableCell | None  # How a table is written; as gates if there is none.
    sums: Sums  # What arithmetic takes.
    memory: Memory  # Blocks, and tables that hold bits.
    # The families in Vivado's catalogue that can hold its text; none if it is another vendor's.
    catalogue: tuple[str, ...] = ()

    @property
    def inputs(self) -> int:
        """Inputs of a table with one output."""
        return self.look_up.inputs

    @property
    def paired(self) -> int:
        """Inputs up to which one table gives two outputs; zero if it never does."""
        return self.look_up.paired

    def tables(self, inputs: int, outputs: int) -> int:
        """Return how many tables it takes to compute some functions of the same inputs."""
        return self.look_up.tables(inputs, outputs)


@dataclass(frozen=True, eq=False, kw_only=True)
class FpgaFamily(Family):
    """A family of FPGAs: all that lies between a text and a board."""

    title: str  # Its name in sentences.
    example: str  # A part, as one would order it.
    # Takes apart a part's name; None if it is none of this family's.
    read_part: "Callable[[str], Part | None]"
    costs: CellCosts  # What its cells take.
    synthesis: Synthesiser  # How Yosys is called.
    switching: Switching  # What a toggle is estimated to take.
    packing: Packing  # How tables and registers share cells.
    # Tables and registers of a board's shell, without the network: packets, line, addresses.
    # Measured with Yosys on the shipped models, rounded up.
    shell: tuple[int, int]
    plls: tuple[PllKind, ...]  # Its PLLs; the first that accepts an oscillator is taken.
    platform: Platform  # What a board's top needs to know.
    files: tuple[str, ...]  # The kinds of files that place and route reads, besides the design.
    bitstream: str  # The ending of its bitstreams.
    router: Router | None = None  # Its nextpnr; without one, a toolchain makes the bitstreams.
    # Other programs that make bitstreams, as given to ``--toolchain``.
    toolchains: tuple[str, ...] = ()

    def pll_cell(self, pll: Pll, *, pad: bool) -> Cell:
        """Return a PLL as a cell; with ``pad`` the oscillator's pin belongs to it."""
        (kind,) = (kind for kind in self.plls if kind.name == pll.primitive)
        return kind.cell(pll, pad)


@dataclass(frozen=True)
class Part:
    """An FPGA as it is ordered: what it is, and what it holds where that is known."""

    name: str
    family: FpgaFamily
    device: str
    package: str
    speed: str
    capacity: Capacity | None
    speed_class: Speed
