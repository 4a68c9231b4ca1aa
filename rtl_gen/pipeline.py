"""Cut a network of tables into ranks of a few levels, with registers between."""

from collections.abc import Sequence
from dataclasses import dataclass

from sbnn_hw.rtl_gen.logic import Logic

__all__ = ["Ranks", "cut"]


@dataclass(frozen=True)
class Ranks:
    """Where each net is computed, and how long it is kept.

    Parameters
    ----------
    count : int
        Ranks of registers, and so the latency in cycles; zero if nothing is computed.
    nets : list of int
        The nets that are needed, each after what it reads.
    rank : dict
        The rank, from 1, in which each net is computed; inputs belong to the first.
    last : dict
        The last rank in which each net is read; the outputs are read behind the last one.
    """

    count: int
    nets: list[int]
    rank: dict[int, int]
    last: dict[int, int]

    @property
    def registers(self) -> int:
        """Number of register bits."""
        return sum(self.last[net] - self.rank[net] for net in self.nets)


def cut(logic: Logic, outputs: Sequence[int], levels_per_stage: int, least: int = 0) -> Ranks:
    """Choose the ranks, computing each net as early or each as late as possible.

    Both cuts have the same latency; the one with fewer registers is taken. As late as possible
    pays where many neurons wait for one sum: their shared inputs are kept, not their results.
    There are ``least`` ranks even where there is nothing to compute.
    """
    if levels_per_stage < 1:
        raise ValueError(f"Levels per stage must be 1 or more, not {levels_per_stage!r}")
    nets = logic.live(outputs)
    depth = max((logic.levels[net] for net in outputs), default=0)
    count = max(least, -(-depth // levels_per_stage))
    if not count:
        return Ranks(0, nets, dict.fromkeys(nets, 1), dict.fromkeys(nets, 1))
    # The rank of each level: ranks differ by one level at most.
    rank_of = [1] + [-(-level * count // depth) for level in range(1, depth + 1)]
    early = {net: rank_of[logic.levels[net]] for net in nets}
    late = {net: rank_of[level] if level else 1
            for net, level in _late_levels(logic, nets, depth).items()}
    cuts = [Ranks(count, nets, rank, _last(logic, outputs, nets, rank, count))
            for rank in (early, late)]
    return min(cuts, key=lambda ranks: ranks.registers)


def _late_levels(logic: Logic, nets: Sequence[int], depth: int) -> dict[int, int]:
    late = dict.fromkeys(nets, depth)
    # Tables that read the same stay together, so that they can share one of the FPGA's.
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for net in nets:
        groups.setdefault((logic.levels[net], logic.reads[net]), []).append(net)
    for (_, reads), group in sorted(groups.items(), reverse=True):
        level = min(late[net] for net in group)
        for net in group:
            late[net] = level if reads else 0
        for read in reads:
            late[read] = min(late[read], level - 1)
    return late


def _last(logic: Logic, outputs: Sequence[int], nets: Sequence[int], rank: dict[int, int],
          count: int) -> dict[int, int]:
    last = dict(rank)
    for net in nets:
        for read in logic.reads[net]:
            last[read] = max(last[read], rank[net])
    for net in outputs:
        last[net] = count + 1
    # Constants need no registers.
    for net in nets:
        if not logic.reads[net] and not 0 < net <= logic.inputs:
            last[net] = rank[net]
    return last
