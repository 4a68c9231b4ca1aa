"""The fuzzer finds what is planted, and nothing else; what it has counted is never lost."""

import importlib.util
import json
import re
import sys
from collections import Counter

import numpy as np
import pytest
from conftest import ROOT
from simulated import run_part

from sbnn_hw.engine import fold
from sbnn_hw.families.generic import GENERIC
from sbnn_hw.netlist import Edge, Linear, Network, Scores, Stage, Taps, Window, find_borders
from sbnn_hw.rtl_gen.parts.accumulate import Accumulate, Number, Repeat
from sbnn_hw.rtl_gen.parts.best import Best
from sbnn_hw.rtl_gen.parts.dot import Dot
from sbnn_hw.rtl_gen.parts.gather import Gather
from sbnn_hw.rtl_gen.parts.window import Scan, Windows

FAULTS = [
    *("escape", "polarity", "threshold", "count", "flip", "argmax", "tap", "tie", "shared"),
]


@pytest.fixture(scope="module")
def bench():
    """Return bench/fuzz.py."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        spec = importlib.util.spec_from_file_location("bench_fuzz", ROOT / "bench/fuzz.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "bench"))


@pytest.fixture(scope="module")
def clean(bench):
    """Return the tally of a short run, and which kinds of parts were computed."""
    from fuzzing import parts

    seen, run = Counter(), dict(parts._RUN)

    def counting(kind):
        def counted(part, words):
            seen[kind] += 1
            return run[kind](part, words)

        return counted

    tally = bench.Tally(1, "")
    with pytest.MonkeyPatch.context() as patched:
        for kind in run:
            patched.setitem(parts._RUN, kind, counting(kind))
        bench.fuzz(tally, 10, 1600, None)
    return tally, {kind: seen[kind] for kind in run}


def test_random_networks_are_what_the_netlist_computes(clean):
    tally, _ = clean
    assert tally.wrong == {}
    assert tally.layers.total() >= 1600
    # Some are compared in several ways.
    assert tally.ways.total() > tally.cases
    assert tally.ways["engine: gaps"] > 100
    assert tally.ways["engine: gaps, loaded"] > 10


def test_every_feature_and_every_kind_of_part_is_met(clean):
    tally, seen = clean
    assert tally.missed == []
    assert min(seen.values()) > 0, seen


def test_the_faults_are_those_that_are_looked_for(bench):
    assert list(bench.FAULTS) == FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(bench, name, capsys):
    assert bench.find(name, 0, minutes=1, layers=800) == 0
    told = capsys.readouterr().out
    # It is the values that differ; nothing breaks down.
    # An escape that goes too far may point beyond the inputs.
    assert "Error" not in told or (name == "escape" and "IndexError" in told)
    assert re.search(r": found \(", told)
    # The case that is printed shows it again, and shows nothing once the fault is gone.
    seed = int(re.search(r"again: python bench/fuzz.py --case (\d+)", told)[1])
    with bench.planted(name):
        assert bench.again(seed) == 1
    assert bench.again(seed) == 0
    assert capsys.readouterr().out.endswith("all is equal\n")


def test_a_fault_that_is_not_there_is_not_found(bench, monkeypatch, capsys):
    what, where, attribute, _ = bench.FAULTS["tap"]
    monkeypatch.setitem(bench.FAULTS, "tap", (what, where, attribute, lambda function: function))
    assert bench.find("tap", 0, minutes=1, layers=40) == 1
    assert "a heap has lost a tap: NOT FOUND" in capsys.readouterr().out


def test_a_stopped_run_goes_on(bench, tmp_path):
    state = tmp_path / "state.json"
    for layers in (60, 120):
        tally = bench.Tally.load(state, 3, "code")
        bench.fuzz(tally, 10, layers, state)
    whole = bench.Tally(3, "code")
    bench.fuzz(whole, 10, 120, None)
    found = bench.Tally.load(state, None, "code")
    assert found.cases == whole.cases
    for name in ("networks", "layers", "ways", "features", "wrong"):
        assert getattr(found, name) == getattr(whole, name)
    assert found.tables()["bench/fuzz.py: layers"] == whole.tables()["bench/fuzz.py: layers"]


def test_a_run_of_other_code_or_another_seed_does_not_go_on(bench, tmp_path):
    state = tmp_path / "state.json"
    bench.Tally(3, "code").save(state)
    cure = "remove it, or name another --state"
    with pytest.raises(SystemExit, match=f"^{state} holds a run of other code; {cure}$"):
        bench.Tally.load(state, 3, "newer")
    with pytest.raises(SystemExit, match=f"^{state} holds a run of seed 3; {cure}$"):
        bench.Tally.load(state, 4, "code")


def test_the_published_run_is_long_and_without_mismatch(bench):
    content = json.loads((ROOT / "docs/bench/fuzz.json").read_text(encoding="utf-8"))
    tally = bench.Tally.of(content)
    assert tally.layers.total() >= 100_000
    assert tally.wrong == {}
    assert tally.missed == []
    verilated = [way for way in tally.ways if way.startswith("Verilator")]
    assert {"Verilator: unrolled", "Verilator: gaps"} <= set(verilated)


def some_parts():
    """Yield a part of each kind, the words of an image, and the cycles between two words."""
    rng = np.random.default_rng(0)
    weights, offsets = rng.integers(-9, 10, (3, 5)), rng.integers(-9, 10, 3)
    taps = [(position, bit) for position in range(9) for bit in range(2)]
    fill, window = rng.integers(0, 2, 18).tolist(), Window((3, 3), (1, 1), (1, 1))
    classes = find_borders(window, 4, 3).of
    yield Accumulate(4, [3, 2], [5, 4], GENERIC, signed=True), 4, 1
    yield Best(5, 3, True, GENERIC), 1, 7
    yield Dot(3, weights, offsets, 9, 2, GENERIC), 9, 2
    yield Gather(6, 2, GENERIC), 6, 1
    yield Number(5, 2, GENERIC), 5, 1
    yield Repeat(3, 2, 4, GENERIC), 3, 4
    yield Windows(Scan(window, 4, 3), 2, taps, fill=fill, classes=classes, family=GENERIC), 12, 1


@pytest.mark.parametrize(
    ("part", "words", "apart"), list(some_parts()), ids=lambda value: type(value).__name__.lower()
)
def test_parts_in_numpy_are_their_cores(bench, part, words, apart):
    """In Amaranth's simulator; tables are computed by the logic itself."""
    from fuzzing.parts import run_parts

    bits = np.random.default_rng(1).integers(0, 2, (5, words, part.width_in)).astype(np.uint8)

    def packed(rows):
        rows = rows.reshape(-1, rows.shape[-1]).tolist()
        return [sum(bit << n for n, bit in enumerate(row)) for row in rows]

    given, _, _ = run_part(part, packed(bits), apart=apart)
    assert given == packed(run_parts([part], bits))


@pytest.mark.long
def test_a_case_goes_through_verilator(bench):
    from fuzzing.cases import Case

    for seed in (999, 1999):
        result = Case(seed).run()
        assert result.wrong == []
        assert any(way.startswith("Verilator") for way in result.ways)


@pytest.mark.parametrize("shift", [0, 2, 9])
def test_lanes_without_a_neuron_are_silent_in_every_unit(shift):
    """Nothing reads the only neuron, and scores of a shift make the unit larger than its own."""
    neuron = Linear(
        taps=Taps.from_dense(np.ones((1, 3), np.int8)), xi=0, k=0, thresholds=[[2]], flips=[False],
        fixed=[],
    )  # fmt: skip
    scores = Scores(taps=Taps.from_dense(np.zeros((2, 1), np.int8)), shift=shift, offsets=[2, 1])
    stages = (Stage("hidden", neuron, (-1,)), Stage("scores", scores, (0,)))
    folded = fold(Network(Edge((3,)), stages), lanes=4)
    found = folded.compute(np.ones((1, 3), np.uint8))
    assert not found.places[0].any()
    assert found.scores.tolist() == [[2, 1]]
