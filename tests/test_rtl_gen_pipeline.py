"""Ranks: every table is computed in time, no path is too long, and registers are few."""

from dataclasses import replace
from random import Random

import pytest

from sbnn_hw.rtl_gen.logic import FALSE, TRUE, Logic
from sbnn_hw.rtl_gen.pipeline import cut

AND, OR, XOR, NOR = 0b1000, 0b1110, 0b0110, 0b0001


def chain(length):
    """Return logic that is a chain of so many tables, and its last net."""
    logic = Logic(length + 1)
    literal = logic.input(0)
    for number in range(length):
        literal = logic.table(AND, [literal, logic.input(number + 1)])
    return logic, literal >> 1


def random_logic(seed):
    """Return logic of random tables, and some of its nets as outputs."""
    rng = Random(seed)
    logic = Logic(rng.randint(2, 6))
    literals = [logic.input(n) for n in range(logic.inputs)]
    for _ in range(rng.randint(1, 40)):
        reads = rng.sample(literals[-8:], min(len(literals), rng.randint(2, 4)))
        literals.append(logic.table(rng.getrandbits(1 << len(reads)), reads))
    return logic, logic.positive(rng.choices(literals, k=rng.randint(1, 8)))


def wrong(logic, outputs, ranks, levels_per_stage):
    """Return what is wrong with ranks: nets read too early or too late, and paths too long."""
    found = []
    within = {}
    for net in ranks.nets:
        rank, reads = ranks.rank[net], logic.reads[net]
        if not 1 <= rank <= max(1, ranks.count):
            found.append((net, "no such rank"))
        within[net] = bool(reads)
        for read in reads:
            if ranks.rank[read] > rank:
                found.append((net, "reads what is not there yet"))
            constant = not logic.reads[read] and not 0 < read <= logic.inputs
            if ranks.last[read] < rank and not constant:
                found.append((net, "reads what is gone"))
            if ranks.rank[read] == rank:
                within[net] = max(within[net], within[read] + 1)
        if within[net] > levels_per_stage:
            found.append((net, "path too long"))
    for net in outputs:
        is_input = 0 < net <= logic.inputs
        if ranks.count and (logic.reads[net] or is_input) and ranks.last[net] != ranks.count + 1:
            found.append((net, "is not kept to the end"))
    return found


@pytest.mark.parametrize("levels", [1, 2, 3, 7, 8])
def test_a_chain_is_cut_evenly(levels):
    logic, last = chain(7)
    ranks = cut(logic, [last], levels)
    assert ranks.count == -(-7 // levels)
    assert wrong(logic, [last], ranks, levels) == []
    tables = [sum(logic.reads[net] != () and ranks.rank[net] == rank for net in ranks.nets)
              for rank in range(1, ranks.count + 1)]  # fmt: skip
    assert sum(tables) == 7
    assert max(tables) - min(tables) <= 1


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_every_table_is_there_in_time(levels):
    for seed in range(60):
        logic, outputs = random_logic(seed)
        for least in (0, 1, 4):
            ranks = cut(logic, outputs, levels, least)
            depth = max(logic.levels[net] for net in outputs)
            assert ranks.count == max(least, -(-depth // levels))
            assert ranks.nets == logic.live(outputs)
            assert wrong(logic, outputs, ranks, levels) == [], seed


def waiting(*tables):
    """Return tables of the first two inputs or four, and a chain of three that they wait for."""
    logic = Logic(8)
    inputs = [logic.input(n) for n in range(8)]
    made = [logic.table(table, inputs[:2] if table < 16 else inputs[:4]) for table in tables]
    slow = inputs[4]
    for number in range(5, 8):
        slow = logic.table(AND, [slow, inputs[number]])
    return logic, logic.positive([*made, slow])


def test_a_result_is_computed_early_where_it_is_smaller_than_what_it_reads():
    logic, outputs = waiting(1 << 15)
    ranks = cut(logic, outputs, 1)
    assert ranks.rank[outputs[0]] == 1
    # The chain's own: results of three ranks, and two inputs that wait, for one rank and for two.
    # Behind each of three ranks a register of the result.
    assert ranks.registers == (3 + 1 + 2) + 3


def test_results_are_computed_late_where_they_share_what_they_read():
    logic, outputs = waiting(AND, OR, XOR, NOR)
    ranks = cut(logic, outputs, 1)
    assert {ranks.rank[net] for net in outputs} == {3}
    # Two inputs over two ranks, then the results.
    assert ranks.registers == (3 + 1 + 2) + 2 * 2 + 4


def test_constants_and_wires_take_no_table_and_constants_no_register():
    logic = Logic(2)
    outputs = logic.positive([FALSE, TRUE, logic.input(1)])
    assert cut(logic, outputs, 1).count == 0
    assert cut(logic, outputs, 1).registers == 0
    ranks = cut(logic, outputs, 1, least=1)
    assert (ranks.count, ranks.registers) == (1, 1)
    assert cut(logic, [], 1).count == 0


def test_ranks_without_levels_are_refused():
    logic, last = chain(1)
    with pytest.raises(ValueError, match=r"^Levels per stage must be 1 or more, not 0$"):
        cut(logic, [last], 0)


def test_a_table_in_another_rank_and_a_register_less_are_found_out():
    logic, last = chain(8)
    ranks = cut(logic, [last], 2)
    for net in (net for net in ranks.nets if logic.reads[net]):
        for rank in range(1, ranks.count + 1):
            if rank != ranks.rank[net]:
                moved = replace(ranks, rank=ranks.rank | {net: rank})
                assert wrong(logic, [last], moved, 2)
    for net in ranks.nets:
        if ranks.last[net] > ranks.rank[net]:
            shorter = replace(ranks, last=ranks.last | {net: ranks.last[net] - 1})
            assert wrong(logic, [last], shorter, 2)
