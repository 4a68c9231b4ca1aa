"""A family of FPGAs is one value: complete, the only place that knows it, and easy to add."""

import ast
import importlib
import re
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from conftest import ROOT
from random_networks import random_images, random_vector_network

from sbnn_hw.errors import UsageError
from sbnn_hw.families import (
    FAMILIES,
    Family,
    FpgaFamily,
    LookUp,
    any_of,
    find_family,
    find_fpga_family,
    fpga_families,
)
from sbnn_hw.families.resources import Memory
from sbnn_hw.families.tables import PairCell, Sums, TableCell

FOLDERS = ("sbnn_hw", "boards", "rtl_gen", "sim", "train")
FPGAS = [pytest.param(family, id=family.name) for family in fpga_families()]

#: Who may name a family, and why.
NAMED = {
    "sbnn_hw/zoo": "measures a part that it chose",
    "sbnn_hw/commands": "what an option is unless told",
    "train/budget.py": "trains for one family unless told",
    "rtl_gen/options.py": "what an option is unless told",
    "rtl_gen/outline.py": "what is asked for unless told",
}


def project():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith("sbnn_hw/families/"):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def families_named(tree):
    """Find names of families as values, and a family's file that is imported by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in FAMILIES:
            yield node.value
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for module in modules:
            if (module or "").removeprefix("sbnn_hw.families.") in FAMILIES:
                yield module


def test_a_family_is_found_where_it_is_named():
    code = 'if family == "ecp5": from sbnn_hw.families.ice40 import ICE40\n_COST = {"xc7": 1}'
    code += "\nfrom sbnn_hw.families import generic"
    assert sorted(families_named(ast.parse(code))) == [
        *("ecp5", "sbnn_hw.families.generic", "sbnn_hw.families.ice40", "xc7"),
    ]


def test_no_other_file_knows_a_family():
    named = {name: found for name, tree in project() if (found := sorted(families_named(tree)))}
    wrong = {
        name: found
        for name, found in named.items()
        if not any(name == place or name.startswith(f"{place}/") for place in NAMED)
    }
    assert not wrong


def test_families_are_listed_once():
    listed = [
        name
        for name, tree in project()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "FAMILIES" and isinstance(node.ctx, ast.Store)
    ]
    assert listed == []


def test_families_need_nothing_but_errors():
    code = (
        "import sbnn_hw.families, sys\n"
        "print(*(name for name in sys.modules if name.startswith('sbnn_hw.')))\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'amaranth', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    others = {name for name in done.stdout.split() if not name.startswith("sbnn_hw.families")}
    assert others == {"sbnn_hw.errors"}


def test_a_catalogue_has_every_kind_of_7_series_part():
    """By the letter behind ``xc7``: Artix, Kintex, Spartan, Virtex and Zynq."""
    parts = ("xc7a35tcpg236-1", "xc7k70tfbg484-1", "xc7s50csga324-1", "xc7vx330tffg1157-1",
             "xc7z020clg400-1")  # fmt: skip
    family = find_fpga_family("xc7")
    assert all(family.read_part(part) for part in parts)
    assert sorted(name[0] for name in family.catalogue) == [part[3] for part in parts]
    assert set(family.catalogue) < set(find_family("generic").catalogue)


def test_an_unknown_family_is_one_sentence():
    assert find_family("generic").name == "generic"
    with pytest.raises(
        UsageError, match=r"^Family must be one of xc7, ecp5, ice40, generic, not 'gowin'$"
    ):
        find_family("gowin")
    with pytest.raises(
        UsageError, match=r"^Family must be one of xc7, ecp5, ice40, not 'generic'$"
    ):
        find_fpga_family("generic")
    assert [any_of(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a or b", "a, b or c"]


# Completeness


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_tables_and_cells_agree(family):
    assert 0 <= family.paired < family.inputs
    if family.cells is None:
        assert not isinstance(family, FpgaFamily)
        return
    assert len(family.cells.inputs) == family.inputs
    pair = family.cells.pair
    assert (pair is not None) == (family.paired > 0)
    if pair is not None:
        assert len(pair.inputs) == family.paired
    # What is written is also counted.
    assert {cell.name for cell in family.cells.variants()} <= set(family.costs.logic)


@pytest.mark.parametrize("family", FPGAS)
def test_a_family_of_fpgas_is_complete(family):
    for field in fields(family):
        empty = field.name in ("toolchains", "router", "packing", "catalogue")
        assert getattr(family, field.name) or empty, field.name
    # Something makes its bitstreams.
    assert (family.router is None) == bool(family.toolchains)
    assert FAMILIES[family.name] is family
    part = family.read_part(family.example)
    assert part is not None
    assert (part.name, part.family) == (family.example, family)
    assert part.capacity is not None
    assert part.speed_class.fixed > part.speed_class.level > 0
    assert family.read_part(f"{family.example}?") is None
    others = [each.example for each in fpga_families() if each is not family]
    assert [family.read_part(name) for name in others] == [None] * len(others)
    module, _, name = family.platform.base.partition(":")
    assert hasattr(importlib.import_module(module), name)
    for pattern in (family.costs.flip_flops, family.costs.muxes, family.costs.multipliers):
        re.compile(pattern)


@pytest.mark.parametrize("family", FPGAS)
def test_nextpnr_knows_what_a_part_is(family):
    if family.router is None:
        return
    part = family.read_part(family.example)
    options = family.router.select(part.device, part.package, part.speed)
    assert options[0].startswith("--")
    assert "--package" in options
    assert family.router.select("other", part.package, part.speed) is None
    assert {"{routed}", "{bitstream}"} <= set(family.router.pack)
    assert family.router.pins in family.files


def test_memory_is_cut_into_blocks():
    xc7, ecp5, ice40 = (find_family(name).memory for name in ("xc7", "ecp5", "ice40"))
    assert [memory.blocks(512, 36) for memory in (xc7, ecp5, ice40)] == [0.5, 1, 5]
    assert [memory.blocks(2048, 9) for memory in (xc7, ecp5, ice40)] == [0.5, 1, 5]
    assert [memory.blocks(1, 1) for memory in (xc7, ecp5, ice40)] == [0.5, 1, 1]
    assert xc7.blocks(32_768, 1) == xc7.blocks(1024, 36) == 1
    assert xc7.blocks(32_769, 1) == 1.5
    for memory in (xc7, ecp5, ice40):
        # As wide as a byte, a block holds what is said of it.
        assert memory.blocks(memory.byte_bits // 8, 8) == 1
        assert memory.blocks(memory.byte_bits // 8 + 1, 8) == 1 + memory.piece


# Another family


def toy(**changes):
    """Return tables of four inputs, in pairs up to three, under names that nobody has."""
    cells = TableCell(
        "TOY{}", "ANSWERS", ("P", "Q", "R", "S"), "Y",
        pair=PairCell("TOYS", "ANSWERS", ("P", "Q", "R"), "S", lower="YL", upper="YU"),
    )  # fmt: skip
    described = {
        "name": "toy",
        "look_up": LookUp(inputs=4, paired=3),
        "cells": cells,
        "sums": Sums(bit=2.0, choice=2.0, adder=2, counter=2.0),
        "memory": Memory(byte_bits=1024, shapes=((128, 8),), cells={}),
    }
    return Family(**{**described, **changes})


@pytest.mark.parametrize("split", [False, True])
def test_another_family_generates_and_computes(monkeypatch, split):
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.estimate import estimate
    from sbnn_hw.rtl_gen.options import Options
    from sbnn_hw.sim.agreement import check_agreement

    monkeypatch.setitem(FAMILIES, "toy", toy())
    rng = np.random.default_rng(3)
    network = random_vector_network(rng)
    pixels = random_images(rng, network, 20)
    made = generate(network, Options(family="toy", split_pairs=split))
    cells = set(re.findall(r"^  (\w+) #\(\n", made.verilog, re.MULTILINE))
    assert cells <= {"TOY1", "TOY2", "TOY3", "TOY4", "TOYS"}
    assert ("TOYS" in cells) != split
    assert estimate(network, "toy").luts > estimate(network, "xc7").luts

    def agrees(text):
        return check_agreement(network, text, made.design, pixels).equal

    assert agrees(made.verilog)
    if not split:
        swapped = re.sub(r"\.Y([LU])\(", lambda pin: f".Y{'UL'['LU'.index(pin[1])]}(", made.verilog)
        assert not agrees(swapped)


def test_another_family_is_gates_unless_it_has_cells(monkeypatch):
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.options import Options

    monkeypatch.setitem(FAMILIES, "toy", toy(cells=None))
    network = random_vector_network(np.random.default_rng(3))
    assert "#(" not in generate(network, Options(family="toy")).verilog
