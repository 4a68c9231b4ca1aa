"""A function of one vector, as tables in ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sbnn_hw.cost.cost import Cost
from sbnn_hw.families import Family
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.pairing import pair_tables
from sbnn_hw.rtl_gen.parts.part import Part
from sbnn_hw.rtl_gen.pipeline import cut

__all__ = ["Function", "Tables", "Wired"]


@dataclass(frozen=True)
class Wired:
    """The literals of a function's outputs, and the connections that were wired for them."""

    outputs: list[int]
    connections: int = 0


#: Takes a :class:`Logic` and the literals of the input's bits, returns those of the output's.
Function = Callable[[Logic, list[int]], Wired | Sequence[int]]


class Tables(Part):
    """A function of one vector, as tables in ranks. Takes a vector in every cycle.

    The latency is the number of ranks: the depth in tables divided by ``levels_per_stage``,
    rounded up.

    Parameters
    ----------
    function : callable
        What is computed.
    family : Family
        Whose tables it is made of.
    split_pairs : bool
        Whether a pair of small tables is two tables.
    least : int
        The fewest ranks: with one, the output is a register even where nothing is computed.
    """

    def __init__(self, width_in: int, function: Function, *, family: Family, levels_per_stage: int,
                 split_pairs: bool = False, least: int = 0):
        self.logic = Logic(width_in)
        made = function(self.logic, [self.logic.input(n) for n in range(width_in)])
        wired = made if isinstance(made, Wired) else Wired(list(made))
        self.connections = wired.connections
        self.outputs = self.logic.positive(wired.outputs)
        self.ranks = cut(self.logic, self.outputs, levels_per_stage, least)
        self.family, self.split_pairs = family, split_pairs
        super().__init__(width_in, len(self.outputs), latency=self.ranks.count)

    def _weigh(self) -> Cost:
        nets = [net for net in self.ranks.nets if self.logic.reads[net]]
        tables = len(nets)
        if not self.split_pairs:
            tables = len(pair_tables(self.logic, nets, self.ranks, self.family.paired))
        # The valid chain has registers too.
        return Cost(tables, self.ranks.registers + self.latency)
