"""Heaps by themselves, without registers: what a proof reads, and which ones a network has."""

from collections.abc import Sequence

from amaranth import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.families import find_family
from sbnn_hw.netlist import Network
from sbnn_hw.rtl_gen.build import reaches
from sbnn_hw.rtl_gen.fabric import emit
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.pairing import pair_tables
from sbnn_hw.rtl_gen.parts.tables import Tables
from sbnn_hw.rtl_gen.pipeline import Ranks
from sbnn_hw.rtl_gen.verilog import to_verilog

__all__ = ["Heaps", "heap_verilog", "heaps_of"]

#: The numbers of a heap's inputs, column by column.
Columns = tuple[tuple[int, ...], ...]


class Heaps(wiring.Component):
    """Heaps side by side, each with inputs of its own; combinational.

    Parameters
    ----------
    heaps : sequence of (columns, int)
        For each heap the numbers of its inputs in each column, from 0, and its threshold. An
        input may be in several columns.

    Members
    -------
    i : :py:`In(width)`
        The inputs of the first heap, then those of the next.
    o : :py:`Out(len(heaps))`
        Whether each heap reaches its threshold.
    """

    # Heaps whose tables were counted and that were never written are no oversight.
    _MustUse__silence = True

    def __init__(self, heaps, *, family, split_pairs=False):
        self._family, self._split_pairs = find_family(family), split_pairs
        self._parts = []
        width = 0
        for number, (columns, threshold) in enumerate(heaps):
            inputs = 1 + max((n for column in columns for n in column), default=-1)
            logic = Logic(inputs)
            logic.owner = f"h{number}"
            literals = [[logic.input(n) for n in column] for column in columns]
            outputs = logic.positive([reaches(logic, literals, threshold, self._family)])
            nets = logic.live(outputs)
            # No ranks: everything is computed in the first, and nothing is kept.
            ranks = Ranks(0, nets, dict.fromkeys(nets, 1), dict.fromkeys(nets, 1))
            self._parts.append((width, logic, outputs, ranks))
            width += inputs
        super().__init__({"i": In(width), "o": Out(len(self._parts))})

    @property
    def tables(self) -> list[int]:
        """Number of look-up tables of each heap, a pair as one."""
        paired = self._family.paired
        return [
            len(pair_tables(logic, [net for net in ranks.nets if logic.reads[net]], ranks, paired))
            for _, logic, _, ranks in self._parts
        ]

    def elaborate(self, platform):
        m = Module()

        for number, (start, logic, outputs, ranks) in enumerate(self._parts):
            inputs = self.i[start : start + logic.inputs]
            fires = emit(
                m,
                logic,
                inputs,
                outputs,
                ranks,
                Const(1, 1),
                self._family,
                split_pairs=self._split_pairs,
            )
            m.d.comb += self.o[number].eq(fires)

        return m


def heap_verilog(
    heaps: Sequence[tuple[Columns, int]], family: str, *, split_pairs: bool = False
) -> str:
    """Return the text of heaps, written as it is for networks; its top module is ``top``."""
    return to_verilog(Heaps(heaps, family=family, split_pairs=split_pairs))


def heaps_of(network: Network, family: str) -> list[tuple[Columns, int]]:
    """Return the distinct heaps of a network, each with its inputs numbered afresh."""
    parts = lower(network, Options(family=family)).parts.values()
    return sorted({heap for part in parts if isinstance(part, Tables) for heap in part.logic.heaps})
