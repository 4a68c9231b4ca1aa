"""Look-up tables: what one can compute, how it is written, and what arithmetic takes of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LookUp", "PairCell", "Ports", "Sums", "TableCell"]


@dataclass(frozen=True)
class LookUp:
    """What a look-up table can do."""

    inputs: int  # Inputs of a table with one output.
    paired: int  # Inputs up to which one table gives two outputs; zero if it never does.

    def tables(self, inputs: int, outputs: int) -> int:
        """Return how many tables it takes to compute some functions of the same inputs."""
        if inputs <= self.paired:
            return (outputs + 1) // 2
        return outputs


@dataclass(frozen=True)
class Sums:
    """Tables that arithmetic takes for each bit."""

    bit: float  # A bit that is added up.
    choice: float  # Two numbers compared, and the larger one chosen.
    adder: int  # Two numbers added, one of which may be cleared.
    counter: float  # A counter, and comparisons of it.


class Ports(NamedTuple):
    """A cell from outside: its name, the parameter for the answers, and its pins."""

    name: str
    contents: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class PairCell:
    """A table with two outputs, as a cell."""

    # The cell, and its parameter for the answers.
    name: str
    contents: str
    inputs: tuple[str, ...]  # The pins that both outputs share.
    select: str  # One more pin. While it is high, each output has a half of the answers.
    # The outputs with the lower half and the upper half.
    lower: str
    upper: str


@dataclass(frozen=True)
class TableCell:
    """A table as a cell."""

    # The cell. With ``{}`` in it there is a cell for each number of inputs; without, the inputs
    # that are left over are low.
    name: str
    contents: str  # Its parameter for the answers.
    inputs: tuple[str, ...]  # The pins, the lowest first.
    output: str  # The output's pin.
    pair: PairCell | None = None  # The cell with two outputs, if there is one.

    @property
    def sized(self) -> bool:
        """Whether there is a cell for each number of inputs."""
        return "{}" in self.name

    def variants(self) -> Iterator[Ports]:
        """List all cells; of two outputs the one with the lower half of the answers is first."""
        most = len(self.inputs)
        for size in range(1 if self.sized else most, most + 1):
            name = self.name.format(size)
            yield Ports(name, self.contents, self.inputs[:size], (self.output,))
        if pair := self.pair:
            inputs = (*pair.inputs, pair.select)
            yield Ports(pair.name, pair.contents, inputs, (pair.lower, pair.upper))
