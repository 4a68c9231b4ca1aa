"""The paper's tables: each number says where it is from, none is made up, and the digits agree."""

import copy
import json
import re
from decimal import Decimal

import numpy as np
import pytest
import torch
from random_models import scramble

from sbnn_hw.bops import bparams_pr, count_kernels
from sbnn_hw.cli import main
from sbnn_hw.errors import DataMissing, UsageError
from sbnn_hw.paper import published as published_numbers
from sbnn_hw.paper.layout import LAYOUTS
from sbnn_hw.paper.measured import SHIPPED, Measured, load_measured
from sbnn_hw.paper.published import Published, load_published
from sbnn_hw.paper.tables import make_tables, rounds_to
from sbnn_hw.paper.text import render
from sbnn_hw.train.checkpoint import Checkpoint, save_checkpoint
from sbnn_hw.train.layers import SparseBinaryConv2d
from sbnn_hw.train.metrics import count_architecture
from sbnn_hw.train.models import ModelConfig, build_model

SOURCES = """
[sources.made_up]
mark = "x"
title = "Made up for a test"
where = "nowhere"
"""


def published(tmp_path, text):
    path = tmp_path / "numbers.toml"
    path.write_text(SOURCES + text, encoding="utf-8")
    return path


def table(number, numbers=None, measured=None):
    numbers = numbers or load_published(published_numbers.SHIPPED)
    (made,) = make_tables(numbers, measured or Measured(), (number,))
    return made


def cell(made, row, column):
    return next(r for r in made.rows if r.key == row).cells[column]


# What was published


TOP1 = {
    "ablation": "88.93 85.95 86.46 88.84",
    "cifar10": "91.50 86.56 89.30 91.02 89.81 89.43 91.00 90.60 90.10 "
    "91.70 91.71 91.16 90.94 90.59 90.71 89.68 88.87",
    "cifar100": "62.79 57.72 62.60 62.07 61.80 63.03 63.33 63.04 62.41 63.58 62.23",
    "imagenet": "70.60 72.12 51.20 56.40 65.50 68.12 63.40 62.10 60.70 66.18 64.72",
}


def of_paper(row, table, *columns):
    """Return the numbers that the paper prints in columns of a row; None where it prints none."""
    known = load_published(published_numbers.SHIPPED)
    return [
        next((n.value for n in known.cell(table, row, c) if n.source.key == "paper"), None)
        for c in columns
    ]


def test_every_number_of_the_paper_is_there():
    """The accuracies as printed, row by row, and how many numbers each table has in all."""
    known = load_published(published_numbers.SHIPPED)
    for layout in LAYOUTS:
        found = [of_paper(row, layout.key, "top1")[0] for row in layout.rows]
        assert [str(value) for value in found if value is not None] == TOP1[layout.key].split()
    count = {layout.key: 0 for layout in LAYOUTS}
    for (key, _, _), numbers in known.cells.items():
        count[key] += sum(number.source.key == "paper" for number in numbers)
    assert count == {"ablation": 7, "cifar10": 66, "cifar100": 52, "imagenet": 42}
    # In the text, not in the table: what sparse operations save.
    assert of_paper("95", "cifar10", "sparse_pr") == [Decimal("84.9")]


def test_no_cell_waits_for_a_number():
    for number in (1, 2, 3, 4):
        text = render(table(number))
        assert "not entered" not in text
        assert "not certain" not in text
    row = next(line for line in render(table(2)).splitlines() if line.startswith("STQ"))
    assert re.split(r"  +", row)[3:] == ["40.0 p", "–", "–", "–", "–"]


def test_kernels_give_the_printed_storage():
    """2 bits a kernel, 4 more with exactly one one, 9 more with several, against 9 bits."""
    checked = []
    for row in ("50", "95", "96", "97", "98", "99"):
        k0, k1, printed = of_paper(row, "cifar100", "k0", "k1", "bparams_pr")
        if printed is None:
            continue
        bits = 2 + (4 * k1 + 9 * (100 - k0 - k1)) / 100
        assert rounds_to(float(100 * (1 - bits / 9)), printed), row
        checked.append(row)
    assert checked == ["95", "96", "97", "98", "99"]


@pytest.mark.parametrize("key", ["cifar10", "cifar100"])
def test_kernels_leave_room_for_the_sparsity(key):
    """Kernels that are neither empty nor have one one have two ones at least."""
    for row in next(layout for layout in LAYOUTS if layout.key == key).rows:
        if row.isdigit():
            k0, k1 = of_paper(row, key, "k0", "k1")
            assert (k1 + 2 * (100 - k0 - k1)) / 9 <= 100 - int(row), row


def test_differences_of_accuracies_that_are_not():
    """Of the 29 differences that the paper prints four are not those of its accuracies."""
    wrong, right = {}, 0
    for layout in LAYOUTS[:3]:
        base = of_paper(layout.baseline, layout.key, "top1")[0]
        made = table(layout.number)
        for row in layout.rows:
            top1, delta = of_paper(row, layout.key, "top1", "delta")
            if delta is None:
                continue
            if top1 - base == delta:
                right += 1
                assert [e.kind for e in cell(made, row, "delta")] == ["published"]
            else:
                wrong[layout.key, row] = (str(delta), str(top1 - base))
                assert [e.text for e in cell(made, row, "delta")] == [str(delta), str(top1 - base)]
                assert cell(made, row, "delta")[1].agrees is False
    assert right == 25
    assert wrong == {
        ("cifar10", "stq"): ("-5.50", "-4.94"),
        ("cifar10", "90"): ("-0.24", "-0.34"),
        ("cifar100", "stq"): ("-5.05", "-5.07"),
        ("cifar100", "99"): ("-0.57", "-0.56"),
    }
    text = " ".join(table(2).notes)
    assert (
        "14 of them are; these are not: STQ -5.50, but 86.56 − 91.50 = -4.94; SBNN 90 % -0.24"
        in text
    )
    assert "8 of them are; these are not: STQ -5.05" in " ".join(table(3).notes)
    assert "Contradictions" not in " ".join(table(1).notes)


def test_operations_that_do_not_add_up():
    """OPs = FLOPs + BOPs/64 for all rows but one, as far as printed digits tell."""
    wrong = []
    for row in LAYOUTS[3].rows:
        bops, flops, ops = of_paper(row, "imagenet", "bops", "flops", "ops")
        if bops is None:
            assert flops == ops, row
            continue
        # Half a unit of the last digit of each: 0.5, 0.005 and 0.005.
        if abs(flops + bops / 64 - ops) > Decimal("0.5") / 64 + Decimal("0.01"):
            wrong.append(row)
    assert wrong == ["birealnet18"]
    notes = " ".join(table(4).notes)
    assert (
        "8 of them are, as rounded; these are not: Bi-RealNet-18 1.63, but 1.39 + 17/64 = 1.66"
        in notes
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[numbers]]\ntable = 'mnist'",
         r"table must be one of ablation, cifar10, cifar100, imagenet, not 'mnist'$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 94\nsource = 'made_up'",
         r"row of cifar10 must be one of irnet, .*, 50, 75, .*, not '94'$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\nbops = 3",
         r"column of cifar10 must be one of top1, delta, bops_pr, sparse_pr, k0, k1, not 'bops'$"),
        ("[[numbers]]\ntable = 'ablation'\nrow = 'bnn'\nsource = 'made_up'\nones = 3",
         r"column of ablation must be one of top1, delta, not 'ones'$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'paper'\nk0 = 3",
         r"source must be one of made_up, not 'paper'$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\nk0 = '3'",
         r"k0 of cifar10, row 95, must be a number, not '3'$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\nk0 = 101.0",
         r"must be between -100 and 100, not 101\.0$"),
        ("[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\nk0 = nan",
         r"must be between -100 and 100, not NaN$"),
        (2 * "[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\nk0 = 3\n",
         r"cifar10, row 95, has k0 of source made_up twice$"),
        ("[sources.other]\nmark = 'x'\ntitle = 'a'\nwhere = 'b'",
         r"sources 'made_up' and 'other' have the same mark$"),
        ("[sources.other]\nmark = 'c'\ntitle = 'a'\nwhere = 'b'",
         r"must be one letter other than c and m, not 'c'$"),
        ("[sources.other]\nmark = 'o'",
         r"source 'other' must have mark, title and where, all text$"),
        ("[numbers]\ntable = 'cifar10'", r"numbers must be tables \[\[numbers\]\], not "),
        ("[rows]", r"have sources and numbers, not 'rows'$"),
        ("[[numbers", r"is not TOML: "),
    ],
)  # fmt: skip
def test_refuses_numbers_that_belong_nowhere(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        load_published(published(tmp_path, text))


def test_a_file_of_ones_own_adds_and_replaces(tmp_path):
    path = published(
        tmp_path,
        "[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\ntop1 = 12.30\n"
        "[[numbers]]\ntable = 'imagenet'\nrow = 'reactnet_a'\nsource = 'paper'\nbops = 49\n",
    )
    with pytest.raises(UsageError, match="source must be one of made_up, not 'paper'"):
        load_published(path)
    both = load_published(published_numbers.SHIPPED, path)
    assert [str(n.value) for n in both.cell("cifar10", "95", "top1")] == ["90.94", "12.30"]
    assert [n.value for n in both.cell("imagenet", "reactnet_a", "bops")] == [49]
    made = table(4, both)
    assert [e.agrees for e in cell(made, "reactnet_a", "bops")] == [None, False]


# What is counted


def test_reactnet_a_agrees_at_the_printed_digits():
    made = table(4)
    for column, printed in (("bops", "48"), ("flops", "0.12"), ("ops", "0.87")):
        entries = cell(made, "reactnet_a", column)
        assert entries[0].text == printed
        assert entries[-1].kind == "counted"
        assert entries[-1].agrees is True


def test_what_differs_is_said_to_differ():
    made = table(4)
    agreement = {
        (row, column): cell(made, row, column)[-1].agrees
        for row in ("birealnet18", "reactnet18")
        for column in ("bops", "flops", "ops")
    }
    assert agreement == {
        ("birealnet18", "bops"): True, ("birealnet18", "flops"): False,
        ("birealnet18", "ops"): False, ("reactnet18", "bops"): True,
        ("reactnet18", "flops"): False, ("reactnet18", "ops"): False,
    }  # fmt: skip


def test_terms_of_the_flops_are_named_from_the_counts():
    notes = " ".join(table(4).notes)
    counted = count_architecture("reactnet18", (224, 224, 3), 1000)
    assert counted.flops_of("conv1") == 118_013_952
    for other in ("birealnet18", "xnor_resnet18"):
        same = count_architecture(other, (224, 224, 3), 1000)
        assert (same.flops, same.binary_macs) == (counted.flops, counted.binary_macs)
    assert (
        "first convolution 1.180 + 1×1 shortcuts 0.193 + classifier 0.005 = 1.378; binary "
        "MACs/64 = 0.262; OPs = 1.640" in notes
    )
    assert (
        "The binary part was then added a second time: 1.63 + 0.262 = 1.89, the published OPs"
        in notes
    )
    assert (
        "the published FLOPs 1.39 differ from those counted by +0.012, the OPs 1.63 by -0.010"
        in notes
    )


def test_no_explanation_for_numbers_that_it_does_not_explain(tmp_path):
    text = "[[numbers]]\ntable = 'imagenet'\nrow = 'reactnet18'\nsource = 'paper'\nops = 1.75\n"
    numbers = load_published(published_numbers.SHIPPED, published(tmp_path, text))
    assert "added a second time" not in " ".join(table(4, numbers).notes)
    nothing = " ".join(table(4, Published({}, {})).notes)
    assert "Bi-RealNet-18: the published" not in nothing
    assert "added a second time" not in nothing


def test_both_readings_of_the_sparse_rows():
    made = table(4)
    dense = count_architecture("reactnet_a", (224, 224, 3), 1000)
    for row, share, printed in (("sbnn75", 0.25, "8"), ("sbnn90", 0.1, "2")):
        first, macs, sparse = cell(made, row, "bops")
        assert first.text == printed
        assert (macs.note, sparse.note) == ("binary MACs", "sparse")
        assert macs.value == pytest.approx(dense.binary_macs / 1e8)
        assert sparse.value == pytest.approx(share * dense.binary_macs / 1e8)
        assert cell(made, row, "ops")[-1].value == pytest.approx(
            (dense.flops + share * dense.binary_macs / 64) / 1e8
        )


def test_notes_count_the_architectures_of_cifar():
    assert "10,985,472 binary weights, 547.4 M binary MACs" in " ".join(table(2).notes)
    assert "reactnet18 for 32×32×3: 10,985,472 binary weights" in " ".join(table(3).notes)


@pytest.mark.parametrize(
    ("k0", "k1", "printed", "agrees"),
    [
        ("80.00", "15.00", "66.11", True),
        ("80.0", "15.0", "66.1", True),
        ("80.0", "15.0", "66.2", True),  # 80.04 and 15.04 would give 66.17
        ("80.00", "15.00", "66.13", False),
        ("80.00", "15.00", "66.09", False),
        ("80.0", "15.0", "66.3", False),
        ("15.0", "80.0", "66.1", False),
        ("0.20", "1.77", "-21.04", True),
    ],
)
def test_bparams_pr_is_recomputed_from_the_kernels(tmp_path, k0, k1, printed, agrees):
    numbers = load_published(
        published(
            tmp_path,
            f"[[numbers]]\ntable = 'cifar100'\nrow = 97\nsource = 'made_up'\n"
            f"k0 = {k0}\nk1 = {k1}\nbparams_pr = {printed}\n",
        )
    )
    made = table(3, numbers)
    first, again = cell(made, "97", "bparams_pr")
    assert (first.text, first.mark, again.kind, again.note) == (
        printed,
        "x",
        "counted",
        "from K0, K1",
    )
    assert again.agrees is agrees
    assert again.value == pytest.approx(100 * bparams_pr(float(k0) / 100, float(k1) / 100))
    assert len(cell(made, "96", "bparams_pr")) == 0
    sign = "=" if agrees else "≠"
    assert f"{printed} x {sign} {again.value:.2f} c (from K0, K1)" in render(made)


def test_rounding_is_at_the_printed_digits():
    assert rounds_to(16.76, Decimal("17"))
    assert not rounds_to(16.49, Decimal("17"))
    assert rounds_to(0.125, Decimal("0.13"))
    assert not rounds_to(1.6399, Decimal("1.63"))


# What was measured


def made_up_runs():
    layers = [
        {"name": "a", "positions": 64, "histogram": [10, 5, 3, 2, 0, 0, 0, 0, 0, 0]},
        {"name": "b", "positions": 16, "histogram": [30, 9, 1, 0, 0, 0, 0, 0, 0, 0]},
    ]
    row = {
        "domain": "learned", "method": "penalty", "gamma": 0.1, "ec": 0.05, "seed": 0, "epochs": 4,
        "width": 0.125, "accuracy": 0.5, "ones": 0.051, "binary_weights": 540, "layers": layers,
    }  # fmt: skip
    other = [{**layers[0], "histogram": [20, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, layers[1]]
    rows = [
        row,
        {**row, "seed": 1, "accuracy": 0.6, "ones": 0.049, "layers": other},
        {**row, "method": "topk", "gamma": None, "accuracy": 0.7, "ones": 0.05},
        {**row, "domain": "bnn", "method": "none", "ec": 0.5, "accuracy": 0.8, "ones": 0.5},
        {**row, "method": "none", "ec": 0.5, "accuracy": 0.9, "ones": 0.5},
        # The penalty did not come down to one in a hundred, top-k did.
        {**row, "ec": 0.01, "accuracy": 0.3, "ones": 0.06},
        {**row, "ec": 0.01, "method": "topk", "gamma": None, "accuracy": 0.4, "ones": 0.01},
    ]
    quantiles = np.quantile(np.random.default_rng(0).normal(size=5000), np.linspace(0, 1, 1001))
    return {
        "cifar10_ablation": {
            "what": "Made-up runs", "config": {}, "rows": rows,
            "latents": {"learned": {"quantiles": quantiles.tolist()}},
        }
    }  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(made_up_runs()), encoding="utf-8")
    return path


def test_measured_runs_are_in_the_tables(runs):
    measured = load_measured(runs)
    first = table(1, measured=measured)
    printed, top1 = cell(first, "learned", "top1")
    assert (printed.text, printed.mark) == ("88.84", "p")
    assert (top1.kind, top1.mark, top1.text) == ("measured", "m", "55.00±5.00")
    assert top1.note == "2 seeds"
    assert cell(first, "learned", "ones")[0].value == pytest.approx(5.0)
    assert cell(first, "learned", "top1_topk")[0].text == "70.00"
    assert cell(first, "free", "top1")[0].text == "80.00"
    # The baseline is {−β, +β}, which nobody has measured here.
    assert [entry.text for entry in cell(first, "baseline", "top1")] == ["88.93"]
    assert cell(first, "bnn", "top1") == ()
    text = render(first)
    assert "88.84 p; 55.00±5.00 m" in text
    assert "Made-up runs; width 0.125, epochs 4" in text
    assert "not measured yet" in text  # of the other domains

    second = table(2, measured=measured)
    expected = []
    for run in measured.of("learned", 0.05, "penalty"):
        kernels = count_kernels([(x.histogram, x.positions) for x in run.layers])
        expected.append(100 * kernels.bops_pr)
    assert cell(second, "95", "bops_pr")[-1].value == pytest.approx(np.mean(expected))
    texts = {row: [e.text for e in cell(second, row, "top1")] for row in ("50", "96", "99")}
    assert texts == {"50": ["91.70", "90.00"], "96": ["90.59"], "99": ["88.87", "40.00"]}
    assert any("5.00 for 95 % (penalty); 1.00 for 99 % (top-k)" in note for note in second.notes)


def test_without_runs_it_says_so():
    for number in (1, 2):
        assert any("not measured yet" in note for note in table(number).notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("cifar10_ablation"), "cifar10_ablation is missing"),
        (lambda c: c["cifar10_ablation"].pop("rows"), "rows is missing"),
        (lambda c: c["cifar10_ablation"]["rows"][0].pop("seed"), "seed is missing"),
        (lambda c: c["cifar10_ablation"]["rows"][0].update(accuracy=55.0),
         "accuracy must not be '55.0'"),
        (lambda c: c["cifar10_ablation"]["rows"][0].update(ones=True), "ones must not be 'True'"),
        (lambda c: c["cifar10_ablation"]["rows"][0].update(layers=[]), "layers must not be"),
        (lambda c: c["cifar10_ablation"]["rows"][1]["layers"][0].update(histogram=[1] * 9),
         "histogram must not be"),
        (lambda c: c["cifar10_ablation"]["rows"][1]["layers"][0].update(histogram=[0] * 10),
         "histogram must not be"),
        (lambda c: c["cifar10_ablation"]["latents"]["learned"]["quantiles"].reverse(),
         "quantiles must not be"),
    ],
)  # fmt: skip
def test_refuses_damaged_runs(tmp_path, change, message):
    content = copy.deepcopy(made_up_runs())
    change(content)
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataMissing, match=f"does not hold runs: {message}"):
        load_measured(path)


def test_runs_that_ship_can_be_read():
    if not SHIPPED.exists():
        pytest.skip("no runs ship yet (bench/cifar_ablation.py writes them)")
    assert load_measured(SHIPPED).runs


# The command


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_every_number_in_json_says_where_it_is_from(runs, tmp_path, capsys):
    out = tmp_path / "figures"
    assert run("paper", "--json", "--measured", runs, "--out", out) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [made["number"] for made in answer["tables"]] == [1, 2, 3, 4]
    kinds = set()
    for made, layout in zip(answer["tables"], LAYOUTS, strict=True):
        assert [row["name"] for row in made["rows"]] == list(layout.rows)
        for row in made["rows"]:
            for entries in row["cells"].values():
                for entry in entries:
                    kinds.add(entry["kind"])
                    assert (entry["kind"] == "published") == (entry["source"] in answer["sources"])
    assert kinds == {"published", "counted", "measured"}
    files = [name for figure in answer["figures"].values() for name in figure["files"]]
    names = sorted(path.name for path in out.iterdir())
    assert names == ["distortion.png", "distortion.svg", "kernels.png", "kernels.svg"]
    assert sorted(files) == sorted(str(path) for path in out.iterdir())
    assert (out / "kernels.png").read_bytes().startswith(b"\x89PNG")
    assert "50.0 % sparse" in (out / "kernels.svg").read_text(encoding="utf-8")


def test_one_table_as_text_with_its_legend(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("paper", "--table", 4) == 0
    text = capsys.readouterr().out
    assert "48 p = 48.17 c" in text
    assert "1.63 p ≠ 1.38 c" in text
    assert "8 p ≠ 48.17 c (binary MACs) ≠ 12.04 c (sparse)" in text
    assert "Table 1." not in text
    for line in ("  p  published: Schiavone", "  c  counted here", "  m  measured here"):
        assert line in text
    assert not list(tmp_path.iterdir())  # no figures


def test_published_numbers_of_ones_own(tmp_path, capsys):
    path = published(
        tmp_path, "[[numbers]]\ntable = 'cifar10'\nrow = 95\nsource = 'made_up'\ntop1 = 12.30\n"
    )
    assert run("paper", "--table", 2, "--published", path) == 0
    text = capsys.readouterr().out
    assert "12.30 x" in text
    assert run("paper", "--table", 2, "--published", tmp_path / "nothing.toml") == 2
    assert "Cannot read published numbers from" in capsys.readouterr().err


def test_figure_of_kernels_from_checkpoints(tmp_path, capsys):
    paths = []
    for number, density in enumerate((0.01, 0.5, 0.05)):
        config = ModelConfig("resnet18", (8, 8, 3), 4, width=1 / 16)
        model = build_model(config)
        for module in model.modules():
            if isinstance(module, SparseBinaryConv2d):
                scramble(module, np.random.default_rng(number), density)
        paths.append(tmp_path / f"{number}.pt")
        save_checkpoint(paths[-1], Checkpoint(config, model))
    figures = []
    for out in (tmp_path / "one", tmp_path / "two"):
        assert run("paper", "--table", 1, "--out", out, "--models", *paths) == 0
        figures.append((out / "kernels.svg").read_bytes())
    assert figures[0] == figures[1]  # same in, same out
    assert "0.pt" in capsys.readouterr().out
    svg = figures[0].decode()
    # Sparser to the right.
    assert svg.index("1.pt") < svg.index("2.pt") < svg.index("0.pt")
    assert run("paper", "--table", 1, "--out", tmp_path, "--models", tmp_path / "net.sbnn") == 2


def test_refuses_models_without_kernels(tmp_path, capsys):
    config = ModelConfig("mlp:4", (2, 2, 1), 2)
    save_checkpoint(tmp_path / "mlp.pt", Checkpoint(config, build_model(config)))
    assert run("paper", "--table", 1, "--out", tmp_path, "--models", tmp_path / "mlp.pt") == 1
    assert "has no binary 3×3 convolutions" in capsys.readouterr().err


def test_figure_of_distortion_from_a_training_state(tmp_path, capsys):
    state = tmp_path / "a.state.pt"
    weights = torch.randn(8, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    content = {
        "format": "sbnn-hw training state",
        "model": {"0.weight": weights, "0.cut": torch.tensor(0.0), "1.weight": torch.ones(3)},
    }
    torch.save(content, state)
    assert run("paper", "--table", 1, "--out", tmp_path / "figures", "--state", state) == 0
    assert f"Gaussian, and weights of {state}" in capsys.readouterr().out
    assert (tmp_path / "figures" / "distortion.svg").exists()
    torch.save({"format": "sbnn-hw checkpoint"}, state)
    assert run("paper", "--table", 1, "--out", tmp_path / "figures", "--state", state) == 1
    assert "is not a training state; name the .state.pt" in capsys.readouterr().err
