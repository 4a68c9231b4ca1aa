"""What lines and memories are said to take, beside what Yosys makes of them."""

import json
import sys
from collections import Counter

import pytest
from conftest import ROOT

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.memory import line_cost, memory_cost
from sbnn_hw.families import find_family

ROWS = json.loads((ROOT / "docs/bench/parts.json").read_text(encoding="utf-8"))["rows"]


def said(kind, family, sizes):
    if kind == "memory":
        return memory_cost(*sizes, find_family(family))
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from parts import window
    finally:
        sys.path.pop(0)
    return window(family, *sizes).cost


@pytest.fixture(scope="module")
def rows():
    """Return the kind, family and sizes of each row, what is said, and what Yosys counted."""
    return [(row[:3], said(*row[:3]), row[3:]) for row in ROWS]


def test_blocks_are_those_that_yosys_takes(rows):
    wrong = [what for what, cost, (_, _, blocks) in rows if cost.blocks != blocks]
    # Yosys weighs a memory that is one bit wide, or just over a block, a little differently.
    assert [what for what in wrong if what[0] == "window"] == []
    assert len(wrong) <= 0.03 * len(rows), wrong


def test_registers_are_those_that_yosys_takes(rows):
    for what, cost, (_, registers, blocks) in rows:
        if what[0] == "window" and cost.blocks == blocks:
            assert cost.registers == registers, what


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
def test_tables_are_near_what_yosys_takes(rows, family):
    mine = [(cost, counted) for (_, name, _), cost, counted in rows if name == family]
    total, counted = (sum(numbers) for numbers in zip(*(
        (cost.tables, tables) for cost, (tables, _, _) in mine), strict=True))  # fmt: skip
    assert total == pytest.approx(counted, rel=0.1)
    for cost, (tables, _, blocks) in mine:
        if cost.blocks == blocks:
            assert cost.tables == pytest.approx(tables, rel=0.4, abs=16)


def test_all_kinds_and_families_were_measured():
    assert Counter(kind for kind, *_ in ROWS).keys() == {"memory", "window"}
    assert {family for _, family, *_ in ROWS} == {"xc7", "ecp5", "ice40"}


def test_registers_that_the_window_has_are_not_counted_twice():
    assert line_cost(6, {0: 0, 1: 2}, find_family("ecp5")) == Cost(registers=6 + 4)
    assert line_cost(6, {0: 0, 1: 2}, find_family("xc7")) == Cost(tables=2)
    # Two registers in a row are no shift register.
    assert line_cost(4, {0: 2}, find_family("xc7")) == Cost(registers=2)
    assert line_cost(40, {0: 0}, find_family("xc7")) == Cost(tables=2)


def test_costs_are_added_up():
    total = sum([Cost(1, 2, 3, 0.5, 4), Cost(blocks=0.5, registers=6)], Cost())
    assert total == Cost(1, 8, 3, 1.0, 4)
    assert (total.area, Cost(9).area) == (4, 9)
