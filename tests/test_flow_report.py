"""What a build found out becomes a report that can be read and drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from random_networks import random_map_network, random_vector_network
from random_residual import random_residual_network

from sbnn_hw.boards.table import BOARDS
from sbnn_hw.bops import summarise
from sbnn_hw.cost.cost import Cost
from sbnn_hw.flow.plan import Built, Plan
from sbnn_hw.flow.report import HTML, JSON, make_report
from sbnn_hw.flow.steps import Steps
from sbnn_hw.report import Report, render
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.outline import outline


@pytest.mark.parametrize(
    "make", [random_vector_network, random_map_network, random_residual_network]
)
def test_a_network_alone_has_a_report(make, tmp_path):
    plan = Plan(model=tmp_path / "network.sbnn", target=BOARDS["arty_a7"], out=tmp_path)
    for seed in range(8):
        network = make(np.random.default_rng(seed))
        report = make_report(plan, Built(network), Steps(tmp_path, lambda *_: None), {})
        written = json.loads((tmp_path / JSON).read_text(encoding="utf-8"))
        assert Report.read(written) == report
        assert (tmp_path / HTML).read_text(encoding="utf-8") == render(report)
        counts = summarise(network)
        assert (report.network, report.connections) == (network.digest, network.connections)
        assert [stage.name for stage in report.stages] == [s.name for s in network.stages]
        fans = {stage.name: stage.fan_in for stage in report.stages if stage.fan_in}
        assert fans.keys() == {layer["name"] for layer in counts["layers"]}
        for layer in counts["layers"]:
            assert fans[layer["name"]].histogram == layer["fan_in"]["histogram"]
        # What was not done is not known.
        assert (report.luts, report.agreement, report.fmax_mhz, report.missing) == (None,) * 4


def test_forks_joins_and_queues_are_those_of_the_design(tmp_path):
    plan = Plan(model=tmp_path / "network.sbnn", target=BOARDS["arty_a7"], out=tmp_path)
    deepest = 0
    for seed in range(4):
        network = random_residual_network(np.random.default_rng(seed), blocks=2)
        design = outline(network, Options(family="xc7"))
        built = Built(network, design=design)
        report = make_report(plan, built, Steps(tmp_path, lambda *_: None), {})
        names = [stage.name for stage in network.stages]
        for number, (shown, stage) in enumerate(zip(report.stages, design.stages, strict=True)):
            assert shown.sources == network.stages[number].sources
            assert (shown.bits, shown.signed) == (stage.value_bits, stage.signed)
            work = network.stages[number].operation.work(*network.edges_into(number))
            assert (shown.additions, shown.multiplications) == (
                work.additions, work.multiplications,
            )  # fmt: skip
            assert [
                ("" if q.source < 0 else names[q.source], q.depth, q.bits, q.tables, q.registers)
                for q in shown.queues
            ] == [
                (q.source, q.depth, q.bits, q.cost.tables, q.cost.registers) for q in stage.queues
            ]
            assert sum(queue.tables for queue in shown.queues) <= shown.tables
            deepest = max([deepest, *(queue.depth for queue in shown.queues)])
        assert report.bops.additions == sum(stage.additions for stage in report.stages)
        assert report.bops.multiplications == sum(s.multiplications for s in report.stages)
        assert 'class="graph"' in (tmp_path / HTML).read_text(encoding="utf-8")
    assert deepest > 5


def test_what_a_report_must_not_hold_is_not_written(tmp_path):
    plan = Plan(model=tmp_path / "network.sbnn", target=BOARDS["arty_a7"], out=tmp_path)
    built = Built(random_vector_network(np.random.default_rng(0)), core={"luts": -1})
    with pytest.raises(ValueError, match=r"^Field luts of the report must be a whole number"):
        make_report(plan, built, Steps(tmp_path, lambda *_: None), {"yosys": "0.70"})
    assert not list(tmp_path.iterdir())


def test_every_number_is_where_it_belongs(tmp_path):
    """All numbers differ, so that none can stand for another."""
    network = random_vector_network(np.random.default_rng(0))
    plan = Plan(model=tmp_path / "network.sbnn", target=BOARDS["arty_a7"], out=tmp_path)
    names = ("luts", "ffs", "bram", "carries", "dsps", "srls", "lutram")
    core, whole = (dict(zip(names, range(at, at + 7), strict=True)) for at in (11, 31))
    design = outline(network, Options(family="xc7"))
    costs = [Cost(100 + n, 200 + n, 300 + n, 400.5 + n) for n in range(len(design.stages))]
    stages = [replace(stage, cost=cost) for stage, cost in zip(design.stages, costs, strict=True)]
    run = {"vectors": 9, "images": "random", "cycles": 70, "scores": True, "latency": 5,
           "interval": 2, "mismatches": 0, "violations": 0, "bops": {"measured": 12}}  # fmt: skip
    verdict = run | {"stalled": run | {"mismatches": 3, "violations": 4}}
    built = Built(
        network,
        design=replace(design, stages=tuple(stages)),
        clock_hz=50_000_000,
        simulated={"verdict": verdict, "confusion": None},
        core=core,
        whole=whole,
    )
    report = make_report(plan, built, Steps(tmp_path, lambda *_: None), {"yosys": "0.70"})
    assert [getattr(report, name) for name in names[:5]] == list(core.values())[:5]
    assert [getattr(report.design, name) for name in names] == list(whole.values())
    assert [(s.tables, s.registers) for s in report.stages] == [
        (cost.tables, cost.registers) for cost in costs
    ]
    assert [s.latency for s in report.stages] == [s.latency for s in design.stages]
    # The worse of the two runs.
    assert (report.agreement.mismatches, report.agreement.violations) == (3, 4)
    assert (report.latency_cycles, report.initiation_interval) == (design.latency, design.interval)
