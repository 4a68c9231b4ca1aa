"""Write tables and registers for an FPGA family."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from amaranth import *

from sbnn_hw.rtl_gen.heap import FAMILIES
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.pipeline import Ranks

__all__ = ["emit", "pair_tables"]

#: Registers in a row from which synthesis makes a shift register in tables.
SHIFTED = 3
#: Bits of a register. Tools take a time that grows with the square of it.
WIDEST = 512


def pair_tables(logic: Logic, nets: Iterable[int], ranks: Ranks,
                paired: int) -> list[tuple[int, ...]]:
    """Group tables so that two with few inputs between them share one of the FPGA's.

    Those with the same inputs go together first, as the two outputs of a full adder do; then
    small ones that share an input; then any two that are small enough. Two tables of different
    levels never share: one may depend on the other, and through a common cell on itself.
    """
    groups: list[tuple[int, ...]] = []
    waiting: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for net in nets:
        reads = logic.reads[net]
        if len(reads) > paired:
            groups.append((net,))
        else:
            waiting[ranks.rank[net], reads].append(net)
    single: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (rank, _), same in waiting.items():
        while len(same) > 1:
            groups.append((same.pop(0), same.pop(0)))
        for net in same:
            single[rank, logic.levels[net]].append(net)
    for nets_left in single.values():
        groups += _pair_rest(logic, sorted(nets_left), paired)
    return sorted(groups)


def _pair_rest(logic: Logic, nets: Sequence[int], paired: int) -> list[tuple[int, ...]]:
    reads = {net: frozenset(logic.reads[net]) for net in nets}
    readers: dict[int, list[int]] = defaultdict(list)
    for net in nets:
        for read in logic.reads[net]:
            readers[read].append(net)
    mate: dict[int, int] = {}

    def fits(one: int, other: int) -> bool:
        return other != one and other not in mate and len(reads[one] | reads[other]) <= paired

    # The widest first: they have the least choice.
    for net in sorted(nets, key=lambda net: (-len(reads[net]), net)):
        if net in mate:
            continue
        near = {other for read in reads[net] for other in readers[read] if fits(net, other)}
        if near:
            other = min(near, key=lambda other: (len(reads[net] | reads[other]), other))
            mate[net], mate[other] = other, net
    # What is left shares nothing: fill the tables by size alone.
    by_size: dict[int, list[int]] = defaultdict(list)
    for net in nets:
        if net not in mate:
            by_size[len(reads[net])].append(net)
    for size in range(paired - 1, 0, -1):
        for net in by_size[size]:
            if net in mate:
                continue
            for room in range(paired - size, 0, -1):
                other = next((other for other in by_size[room] if fits(net, other)), None)
                if other is not None:
                    mate[net], mate[other] = other, net
                    break
    return [(net, mate[net]) if net in mate else (net,) for net in nets
            if net not in mate or net < mate[net]]


def emit(m: Module, logic: Logic, inputs: Value, outputs: Sequence[int], ranks: Ranks,
         enable: Value, family: str, *, split_pairs: bool = False) -> Value:
    """Add tables and registers to a module; return the last register.

    Registers follow only while ``enable`` is set. With ``split_pairs`` a LUT6_2 becomes two LUT5,
    for tools that cannot place it.
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
    write = _Xc7(split_pairs) if family == "xc7" else _WRITERS[family]
    for group in pair_tables(logic, computed, ranks, FAMILIES[family].paired):
        rank = ranks.rank[group[0]]
        reads = sorted({read for net in group for read in logic.reads[net]})
        write(m, logic, group, reads, [signals[read, rank] for read in reads],
              [signals[net, rank] for net in group])
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


class _Xc7:
    """LUT1 to LUT6, and LUT6_2 for two outputs."""

    def __init__(self, split_pairs):
        self.split_pairs = split_pairs

    def __call__(self, m, logic, group, reads, sources, targets):
        if len(group) == 2 and not self.split_pairs:
            # With the sixth input high, O6 has the upper half of the table and O5 the lower.
            over = [*reads, *([-1] * (5 - len(reads)))]
            low, high = (_spread(logic.tables[net], logic.reads[net], over) for net in group)
            pins = {f"i_I{n}": source for n, source in enumerate(sources)}
            pins |= {f"i_I{n}": Const(0, 1) for n in range(len(sources), 5)}
            m.submodules[f"{logic.names[group[0]]}_lut"] = Instance(
                "LUT6_2", p_INIT=Const(high << 32 | low, 64), **pins, i_I5=Const(1, 1),
                o_O5=targets[0], o_O6=targets[1])
            return
        for net, target in zip(group, targets, strict=True):
            own = [sources[reads.index(read)] for read in logic.reads[net]]
            pins = {f"i_I{n}": source for n, source in enumerate(own)}
            m.submodules[f"{logic.names[net]}_lut"] = Instance(
                f"LUT{len(own)}", p_INIT=Const(logic.tables[net], 1 << len(own)), **pins,
                o_O=target)


class _Lut4:
    """Tables of four inputs, for families that have no others."""

    def __init__(self, name, parameter, pins, output):
        self.name, self.parameter, self.pins, self.output = name, parameter, pins, output

    def __call__(self, m, logic, group, reads, sources, targets):
        (net,), (target,) = group, targets
        table = _spread(logic.tables[net], reads, [*reads, *([-1] * (4 - len(reads)))])
        pins = dict(zip(self.pins, [*sources, *([Const(0, 1)] * 4)], strict=False))
        m.submodules[f"{logic.names[net]}_lut"] = Instance(
            self.name, **{self.parameter: Const(table, 16), **pins, self.output: target})


class _Generic:
    """Plain gates, for tools that map to their own tables."""

    def __call__(self, m, logic, group, reads, sources, targets):
        for net, target in zip(group, targets, strict=True):
            own = [sources[reads.index(read)] for read in logic.reads[net]]
            m.d.comb += target.eq(_gates(logic.tables[net], own))


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


_WRITERS = {
    "ecp5":    _Lut4("LUT4", "p_INIT", ("i_A", "i_B", "i_C", "i_D"), "o_Z"),
    "ice40":   _Lut4("SB_LUT4", "p_LUT_INIT", ("i_I0", "i_I1", "i_I2", "i_I3"), "o_O"),
    "generic": _Generic(),
}
