"""Which small tables share one of the FPGA's."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.pipeline import Ranks

__all__ = ["pair_tables"]


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
                found = next((other for other in by_size[room] if fits(net, other)), None)
                if found is not None:
                    mate[net], mate[found] = found, net
                    break
    return [(net, mate[net]) if net in mate else (net,) for net in nets
            if net not in mate or net < mate[net]]
