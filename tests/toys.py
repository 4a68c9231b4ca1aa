"""Toy operations: of one source, and of two."""

from dataclasses import dataclass
from typing import ClassVar

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Operation, Work
from sbnn_hw.rtl_gen.candidate import Candidate, realises


@dataclass(frozen=True, eq=False)
class Invert(Operation):
    """Hand on the complement of every bit."""

    kind: ClassVar[str] = "invert"

    def infer(self, edge):
        if (edge.low, edge.high) != (0, 1):
            raise ModelRejected(
                f"It takes bits, but receives values from {edge.low} to {edge.high}"
            )
        return edge

    def compute(self, x, edge):
        return 1 - x

    def reads(self, wanted, edge):
        return (wanted,)


@realises("invert")
def invert(place):
    """Yield inverters, which vanish into the tables behind them."""
    yield Candidate({place.name: place.tables(place.width, lambda _, bits: [b ^ 1 for b in bits])})


@dataclass(frozen=True, eq=False)
class Either(Operation):
    """The OR of two sources."""

    kind: ClassVar[str] = "either"
    arity: ClassVar[int] = 2

    def infer(self, left, right):
        if left != right:
            raise ModelRejected(f"It takes two equal edges, but receives {left} and {right}")
        return left

    def compute(self, x, y, left, right):
        return x | y

    def reads(self, wanted, left, right):
        return wanted, wanted

    def work(self, left, right):
        return Work(additions=left.size, multiplications=2)


@realises("either")
def either(place):
    """Yield a table for each pair of bits."""

    def function(logic, bits):
        pairs = zip(*place.split_sources(bits), strict=True)
        return [logic.table(0b1110, [left, right]) for (left,), (right,) in pairs]

    yield Candidate({place.name: place.tables(place.width, function)})
