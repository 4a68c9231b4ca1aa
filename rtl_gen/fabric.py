"""Write tables and registers for an FPGA family."""

from collections.abc import Sequence

from amaranth import *

from sbnn_hw.families import Family
from sbnn_hw.families.tables import PairCell, TableCell
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.pairing import pair_tables
from sbnn_hw.rtl_gen.pipeline import Ranks

__all__ = ["emit"]

#: Registers in a row from which synthesis makes a shift register in tables.
SHIFTED = 3
#: Bits of a register. Tools take a time that grows with the square of it.
WIDEST = 512


def emit(m: Module, logic: Logic, inputs: Value, outputs: Sequence[int], ranks: Ranks,
         enable: Value, family: Family, *, split_pairs: bool = False) -> Value:
    """Add tables and registers to a module; return the last register.

    Registers follow only while ``enable`` is set. With ``split_pairs`` a table with two outputs
    becomes two tables, for tools that cannot place it.
    """
    signals: dict[tuple[int, int], Value] = {}
    kept: list[list[int]] = [[] for _ in range(ranks.count + 1)]
    for net in ranks.nets:
        rank = ranks.rank[net]
        if logic.reads[net]:
            signals[net, rank] = Signal(name=logic.names[net])
        elif 0 < net <= logic.inputs:
            signals[net, rank] = inputs[net - 1]
        else:
            for at in range(1, ranks.count + 2):
                signals[net, at] = Const(logic.tables[net], 1)
        for later in range(rank, min(ranks.last[net], ranks.count)):
            kept[later].append(net)
    for rank in range(1, ranks.count):
        # Data need no reset: valid tells what counts. What waits long has one all the same, so that
        # synthesis does not spend tables on shift registers where flip-flops are at hand.
        waits = {net for net in kept[rank] if ranks.last[net] - ranks.rank[net] >= SHIFTED}
        for name, nets in (
            (f"rank{rank}", [net for net in kept[rank] if net not in waits]),
            (f"wait{rank}", [net for net in kept[rank] if net in waits]),
        ):
            for part, at in enumerate(range(0, len(nets), WIDEST)):
                some = nets[at : at + WIDEST]
                called = f"{name}_{part}" if len(nets) > WIDEST else name
                held = Signal(len(some), name=called, reset_less=name.startswith("rank"))
                with m.If(enable):
                    m.d.sync += held.eq(Cat(signals[net, rank] for net in some))
                for net, bit in zip(some, held, strict=True):
                    signals[net, rank + 1] = bit

    computed = [net for net in ranks.nets if logic.reads[net]]
    pair = None if family.cells is None or split_pairs else family.cells.pair
    for group in pair_tables(logic, computed, ranks, family.paired):
        rank = ranks.rank[group[0]]
        if len(group) == 2 and pair is not None:
            reads = sorted({read for net in group for read in logic.reads[net]})
            _write_pair(m, pair, logic, group, reads, [signals[read, rank] for read in reads],
                        [signals[net, rank] for net in group])
            continue
        for net in group:
            sources = [signals[read, rank] for read in logic.reads[net]]
            if family.cells is None:
                m.d.comb += signals[net, rank].eq(_gates(logic.tables[net], sources))
            else:
                _write_table(m, family.cells, logic, net, sources, signals[net, rank])
    results = Cat(*(signals[net, max(1, ranks.count)] for net in outputs))
    if not ranks.count:
        return results
    last = Signal(len(outputs), name="o_payload", reset_less=True)
    with m.If(enable):
        m.d.sync += last.eq(results)
    return last


def _spread(table: int, reads: Sequence[int], over: Sequence[int]) -> int:
    """Return a table over more inputs, which answers the same; −1 is an input left free."""
    place = [over.index(read) for read in reads]
    return sum(
        (table >> sum((i >> p & 1) << n for n, p in enumerate(place)) & 1) << i
        for i in range(1 << len(over))
    )


def _write_table(m, cell: TableCell, logic: Logic, net: int, sources: Sequence[Value],
                 target: Value) -> None:
    """Write one table; pins that it has too many are low."""
    reads = logic.reads[net]
    free = 0 if cell.sized else len(cell.inputs) - len(reads)
    table = _spread(logic.tables[net], reads, [*reads, *([-1] * free)])
    _add_cell(m, cell.name.format(len(reads)), cell.contents, logic.names[net], table,
              dict(zip(cell.inputs, [*sources, *([Const(0, 1)] * free)], strict=False)),
              {cell.output: target})


def _write_pair(m, cell: PairCell, logic: Logic, group: Sequence[int], reads: Sequence[int],
                sources: Sequence[Value], targets: Sequence[Value]) -> None:
    """Write two tables as one with two outputs; pins that it has too many are low."""
    free = len(cell.inputs) - len(reads)
    over = [*reads, *([-1] * free)]
    low, high = (_spread(logic.tables[net], logic.reads[net], over) for net in group)
    pins = dict(zip(cell.inputs, [*sources, *([Const(0, 1)] * free)], strict=True))
    _add_cell(m, cell.name, cell.contents, logic.names[group[0]],
              high << (1 << len(cell.inputs)) | low, pins | {cell.select: Const(1, 1)},
              {cell.lower: targets[0], cell.upper: targets[1]})


def _add_cell(m, cell: str, contents: str, name: str, table: int, inputs: dict[str, Value],
              outputs: dict[str, Value]) -> None:
    m.submodules[f"{name}_lut"] = Instance(
        cell, ("p", contents, Const(table, 1 << len(inputs))),
        *(("i", pin, source) for pin, source in inputs.items()),
        *(("o", pin, target) for pin, target in outputs.items()))


def _gates(table: int, sources: Sequence[Value]) -> Value:
    """Return an expression of a table, taking out one input at a time, the simplest first."""
    size = 1 << len(sources)
    ones = (1 << size) - 1
    if table in (0, ones):
        return Const(table & 1, 1)
    every = (1 << size // 2) - 1
    best = None
    for n in range(len(sources)):
        low, high = _cofactors(table, n, len(sources))
        rest = [*sources[:n], *sources[n + 1:]]
        source = sources[n]
        if low == high:
            return _gates(low, rest)
        if low == high ^ every:
            return source ^ _gates(low, rest) if low else source
        if low == 0:
            return source & _gates(high, rest)
        if high == 0:
            return ~source & _gates(low, rest)
        if low == every:
            return ~source | _gates(high, rest)
        if high == every:
            return source | _gates(low, rest)
        if best is None:
            best = source, low, high, rest
    source, low, high, rest = best
    return Mux(source, _gates(high, rest), _gates(low, rest))


def _cofactors(table: int, n: int, inputs: int) -> tuple[int, int]:
    halves = [0, 0]
    for i in range(1 << inputs):
        j = (i & ((1 << n) - 1)) | (i >> n + 1 << n)
        halves[i >> n & 1] |= (table >> i & 1) << j
    return halves[0], halves[1]
