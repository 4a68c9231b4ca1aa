"""The bench: what it measures is so, what it draws can be read, and a failure loses nothing."""

import copy
import hashlib
import importlib.util
import json
import re

import numpy as np
import pytest
import torch
from conftest import ROOT
from random_models import scramble

from sbnn_hw.bops import count
from sbnn_hw.cli import main
from sbnn_hw.data.tabular import TABLES
from sbnn_hw.errors import OutputRefused, UsageError
from sbnn_hw.netlist import Layer
from sbnn_hw.pareto.picture import make_figure, text_box
from sbnn_hw.pareto.points import front
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.tools import version_of
from sbnn_hw.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from sbnn_hw.train.exact import settle
from sbnn_hw.train.fold import fold_checkpoint, fold_model
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.yosys import find_yosys
from sbnn_hw.zoo import dense as dense_networks
from sbnn_hw.zoo import table
from sbnn_hw.zoo.dense import Dense, measure_dense
from sbnn_hw.zoo.densify import dense_layer, densify
from sbnn_hw.zoo.earlier import add_to, read_earlier
from sbnn_hw.zoo.hardware import simulated
from sbnn_hw.zoo.models import (
    find_models,
    hardware_of,
    hardware_options,
    has_dense,
    is_routed,
    read_facts,
)
from sbnn_hw.zoo.network import model_facts
from sbnn_hw.zoo.numbers import number
from sbnn_hw.zoo.picture import draw, points_of
from sbnn_hw.zoo.run import run_bench
from sbnn_hw.zoo.setup import SYNTHESISED, Setup

STORED = ROOT / "docs" / "bench" / "bench.json"


def tiny_model(name, **choices):
    torch.manual_seed(0)
    config = ModelConfig(name=name, shape=(8, 8, 1), classes=10, **choices)
    return config, build_model(config)


def save_tiny(path, name="mlp:6", data="digits", **choices):
    config, model = tiny_model(name, **choices)
    if config.domain != "bnn":
        rng = np.random.default_rng(0)
        for layer in model.modules():
            if isinstance(layer, SparseBinaryLayer):
                scramble(layer, rng, 0.2)
    save_checkpoint(path, Checkpoint(config, model.eval(), {"data": data, "seed": 7}))


# Dense networks


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("mlp:12", {}),
        ("mlp:9,7", {"encoder": "integer"}),
        ("conv:4,4", {"padding": 1, "padding_value": 0}),
        ("conv:4", {"padding": 1, "padding_value": -1}),
    ],
)
def test_dense_layers_are_those_that_a_fold_makes(name, choices):
    """Of an untrained model with weights −1 and +1; only its weights are read, not thresholds."""
    config, model = tiny_model(name, domain="bnn", **choices)
    network = fold_model(model.eval(), config.shape, drop_unread=False).network
    compared = 0
    for stage_number, _, layer in network.layers():
        if not isinstance(layer, Layer) or len(layer.fixed):
            continue
        ones = np.zeros((len(layer.taps), layer.taps.width), bool)
        ones[layer.taps.neurons, layer.taps.indices] = True
        # Where a neuron says the complement, its taps are the weights of value −1.
        ones ^= layer.flips[:, None]
        made = dense_layer(layer, network.edge_into(stage_number), ones)
        assert (made.xi, made.k) == (layer.xi, layer.k) == (-1, 1)
        assert np.array_equal(made.taps.starts, layer.taps.starts)
        assert np.array_equal(made.taps.indices, layer.taps.indices)
        assert np.array_equal(made.flips, layer.flips)
        assert np.array_equal(made.thresholds, layer.thresholds)
        compared += 1
    assert compared


def test_dense_network_has_the_same_stages_and_half_its_weights_as_taps():
    sparse = fold_checkpoint(ROOT / "models/digits.pt").network
    dense = densify(sparse)
    assert [s.name for s in dense.stages] == [s.name for s in sparse.stages]
    assert [len(layer.taps) for _, _, layer in dense.layers()] == [
        len(layer.taps) for _, _, layer in sparse.layers()
    ]
    # Of each neuron's weights those of the rarer sign.
    assert 0.9 * 17_024 / 2 < dense.connections < 17_024 / 2
    assert densify(sparse).digest == dense.digest != densify(sparse, seed=1).digest


def test_every_fan_in_can_be_looked_up():
    """Above the default limit the estimate is a straight line; without one it is the search."""
    dense = densify(fold_checkpoint(ROOT / "models/digits.pt").network)
    line, exact = estimate(dense, "xc7", searched=16), estimate(dense, "xc7", searched=1 << 30)
    assert line.luts != exact.luts
    assert exact.luts == estimate(dense, "xc7").luts  # no fan-in is above 128 here


# Models


def test_finds_models_in_folders_and_files(tmp_path):
    for name in ("b.pt", "a.pt", "a.state.pt", "a.md"):
        (tmp_path / name).touch()
    assert [p.name for p in find_models([tmp_path])] == ["a.pt", "b.pt"]
    with pytest.raises(
        UsageError, match=r"^Two models are called a; measure one of them at a time$"
    ):
        find_models([tmp_path, tmp_path / "a.pt"])
    with pytest.raises(
        UsageError, match=r"^There are no checkpoints \(\.pt\) in .*; name another place$"
    ):
        find_models([tmp_path / "..", ROOT / "docs"])
    with pytest.raises(
        UsageError, match=r"^Models to measure are checkpoints \(\.pt\), which name"
    ):
        find_models([tmp_path / "net.sbnn"])


def test_every_shipped_model_is_found_and_named_in_the_tables():
    found = {path.stem: read_facts(path) for path in find_models([ROOT / "models"])}
    assert {name: facts.data for name, facts in found.items()}.items() >= {
        ("digits", "digits"),
        ("mnist_sfc_95", "mnist"),
        ("mnist_sfc_98", "mnist"),
    }
    text = (ROOT / "docs/bench/bench.md").read_text()
    assert [name for name in found if f"`{name}`" not in text] == []


def test_hardware_is_chosen_beside_the_models(tmp_path):
    assert hardware_of(tmp_path / "a.pt") == {}
    (tmp_path / "hardware.toml").write_text('[a]\ninput = "pixel"\nshare = 100\n[b]\nspeed = 3\n')
    assert hardware_of(tmp_path / "a.pt") == {"input": "pixel", "share": 100}
    assert hardware_of(tmp_path / "c.pt") == {}
    with pytest.raises(UsageError, match=r"b may choose input, .*, not speed = 3$"):
        hardware_of(tmp_path / "b.pt")


def test_a_model_may_be_left_unrouted(tmp_path):
    (tmp_path / "hardware.toml").write_text("[a]\necp5 = false\nshare = 9\n[b]\necp5 = 0\n")
    assert hardware_of(tmp_path / "a.pt") == {"share": 9}
    assert not is_routed(tmp_path / "a.pt")
    assert is_routed(tmp_path / "c.pt")
    with pytest.raises(UsageError, match=r"b may choose input, .*, not ecp5 = 0$"):
        is_routed(tmp_path / "b.pt")


def test_a_model_may_have_no_dense_network_beside_it(tmp_path):
    (tmp_path / "hardware.toml").write_text("[a]\ndense = false\nshare = 9\n[b]\ndense = 0\n")
    assert hardware_of(tmp_path / "a.pt") == {"share": 9}
    assert not has_dense(tmp_path / "a.pt")
    assert has_dense(tmp_path / "c.pt")
    with pytest.raises(UsageError, match=r"b may choose input, .*, not dense = 0$"):
        has_dense(tmp_path / "b.pt")


def test_networks_for_tables_have_rows_and_no_place_in_the_picture():
    stored = json.loads(STORED.read_text())
    of_tables = [entry for entry in stored["models"] if entry["data"] in TABLES]
    assert {entry["data"] for entry in of_tables} == set(TABLES)
    for entry in of_tables:
        assert entry["numbers"]["images_equal"]["value"] == entry["images"]
        assert entry["numbers"]["images_equal_with_stalls"]["value"] > 0
    assert not {entry["data"] for entry in of_tables} & {p.data for p in points_of(stored)}


# Beside what others published


def test_models_that_the_sweep_beats_are_told():
    stored = json.loads(STORED.read_text())
    points = points_of(stored)
    beaten = {
        ours.name
        for ours in points
        for theirs in points
        if ours.kind == "ours"
        and theirs.series == "DWN with encoder"
        and ours.data == theirs.data
        and theirs.luts < ours.luts
        and theirs.accuracy > ours.accuracy
    }
    text = (ROOT / "docs/bench.md").read_text()
    told = re.search(r"They beat four of our models.*?\n\n(.*?)\n\n", text, re.S)[1]
    assert (
        beaten
        == set(re.findall(r"^\| `(\w+)`", told, re.M))
        == {*("mnist_4k", "mnist_4k_zero", "mnist_sfc_95", "mnist_sfc_98")}
    )


def test_networks_of_gates_have_no_place_among_look_up_tables(results):
    """LogicTreeNet counts gates: it is in the table, and not in the picture."""
    gates = {
        (peer["name"], peer["data"]): peer["numbers"]["gates"]["value"]
        for peer in load_peers()
        if "gates" in peer["numbers"]
    }
    assert gates == {
        ("LogicTreeNet-S", "mnist"): 147_000,
        ("LogicTreeNet-M", "mnist"): 566_000,
        ("LogicTreeNet-L", "mnist"): 1_270_000,
        ("LogicTreeNet-M", "cifar10"): 3_080_000,
    }
    shown = {p.name for p in points_of(results)}
    assert not any("LogicTreeNet" in name for name in shown)
    assert "NeuraLUT-Assemble" in shown
    line = next(line for line in table.markdown(results).splitlines() if "TreeNet-S" in line)
    assert "| mnist | 98.46% | – | 147,000 | – | – | – |" in line


# Tables and picture


def entry_of(name, accuracy, luts, data="mnist"):
    values = {
        "accuracy": accuracy, "images_equal": 100, "images_equal_with_stalls": 100, "luts": luts,
        "flip_flops": 5, "brams": 0, "dsps": 0, "carries": 0, "muxes": 0, "latency": 9,
        "interval": 1, "images_per_second": 1e8, "bops": 7, "bops_dense": 70, "toggles": 12.5,
    }  # fmt: skip
    return {
        "name": name,
        "data": data,
        "images": 100,
        "domain": "zero",
        "signed": False,
        "input": "image",
        "dense": "d0",
        "numbers": {key: number(value, "unit", "tool 1") for key, value in values.items()},
    }


@pytest.fixture
def results():
    """Return made-up results, crowded where the published ones are."""
    luts = {"luts": number(110_000, "LUT", "heaps", "computed")}
    return {
        "quick": False,
        "models": [
            entry_of("mnist_a", 0.9583, 1_990),
            entry_of("mnist_b", 0.9705, 4_300),
            entry_of("mnist_c", 0.9706, 4_350),
            entry_of("mnist_d", 0.9840, 15_500),
            entry_of("small", 0.93, 1_515, "digits"),
        ],
        "dense": [
            {
                "id": "d0", "name": "dense sfc", "data": "mnist", "model": "sfc", "trained": False,
                "connections": 167_000, "weights": 334_336, "numbers": luts,
            }
        ],
        "published": load_peers(),
        "failed": [{"name": "broken", "error": "it is damaged"}],
    }  # fmt: skip


def overlaps(labels):
    boxes = [text_box(label) for label in labels]
    return sum(
        one.axes is two.axes and a.overlaps(b)
        for n, (one, a) in enumerate(zip(labels, boxes, strict=True))
        for two, b in zip(labels[:n], boxes[:n], strict=True)
    )


def test_labels_do_not_overlap_nor_leave_the_picture(results):
    points = points_of(results)
    _, labels = make_figure(points)
    # Data sets of which nothing is measured have no panel.
    shown = [p for p in points if p.data in ("mnist", "digits")]
    assert sorted(label.get_text() for label in labels) == sorted(p.name for p in shown if p.name)
    assert overlaps(labels) == 0
    for label in labels:
        box, panel = text_box(label), label.axes.get_window_extent()
        assert panel.x0 <= box.x0
        assert box.x1 <= panel.x1
    # Nor does one cover a point of a series, of which only one has a label.
    axis = labels[0].axes
    for point in (p for p in shown if p.series):
        x, y = axis.transData.transform((point.luts, point.accuracy))
        assert not any(text_box(label).contains(x, y) for label in labels if label.axes is axis)
    # Where they would all stand at first, they do overlap.
    for label in labels:
        label.set_position((8, 3))
        label.set_horizontalalignment("left")
    assert overlaps(labels) > 0


def test_front_leaves_out_what_is_beaten(results):
    ours = [p for p in points_of(results) if p.kind == "ours" and p.data == "mnist"]
    assert [p.name for p in front(ours)] == ["mnist_a", "mnist_b", "mnist_c", "mnist_d"]
    ours[2] = type(ours[2])("mnist_c", "mnist", "ours", 4_350, 97.0)
    assert [p.name for p in front(ours)] == ["mnist_a", "mnist_b", "mnist_d"]


def test_a_bar_in_a_name_does_not_begin_a_cell(results):
    results["failed"] = [{"name": "a|b", "error": "No model at x|y.pt"}]
    assert "| `a\\|b` | failed: No model at x\\|y.pt |" in table.markdown(results)


def test_a_pixel_a_clock_does_not_beat_an_image_a_clock(results):
    results["models"].append(entry_of("mnist_slow", 0.985, 1_000) | {"input": "pixel"})
    kinds = {p.name: p.kind for p in points_of(results)}
    assert (kinds["mnist_slow"], kinds["mnist_a"]) == ("pixels", "ours")
    axis = make_figure(points_of(results))[0].axes[0]
    lines = sorted(len(line.get_xdata()) for line in axis.get_lines() if len(line.get_xdata()))
    sweep = sum(p.series == "DWN with encoder" for p in points_of(results))
    assert lines == sorted([1, 4, sweep])


def test_a_series_bears_its_name_once(results):
    points = [p for p in points_of(results) if p.series]
    assert len(points) == 9
    (named,) = (p for p in points if p.name)
    assert (named.name, named.luts) == ("DWN with encoder", 5_670)


def test_tables_tell_what_is_computed_unverified_and_failed(results):
    text = table.markdown(results)
    assert "| `mnist_a` | mnist | {0, β} | 95.83% | 100 of 100 | 1,990 |" in text
    # A network that was never trained has no accuracy: nothing may be said to be better.
    assert "| 110,000 computed, untrained | – |" in text
    assert " ×" not in text
    assert "| `broken` | failed: it is damaged |" in text
    trained = {"trained": True, "name": "dense_sfc"}
    accuracy = number(0.9777, "share of test images", "tool 1")
    (dense,) = results["dense"]
    results["dense"] = [dense | trained | {"numbers": dense["numbers"] | {"accuracy": accuracy}}]
    assert "| 110,000 computed, 97.77% | 55.3 × |" in table.markdown(results)
    assert "82,988 (unverified)" in text
    assert "91,131 |" in text
    results["models"][0]["numbers"]["images_equal_with_stalls"]["value"] = 99
    assert "99 of 100" in table.markdown(results)


def test_results_go_between_their_marks_and_nowhere_else(results, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{table.BEGIN}old{table.END}\nafter\n")
    table.place(readme, results, tmp_path / "docs" / "pareto.svg")
    text = readme.read_text()
    assert text.startswith(
        f"before\n{table.BEGIN}\n![Accuracy over look-up tables](docs/pareto.svg)"
    )
    assert "](docs/bench.md)" in text
    assert text.endswith(f"{table.END}\nafter\n")
    assert "old" not in text
    table.place(readme, results, tmp_path / "docs" / "pareto.svg")
    assert readme.read_text() == text
    readme.write_text("nothing")
    with pytest.raises(OutputRefused, match=r"must have one place for the results, between <!--"):
        table.place(readme, results, tmp_path / "pareto.svg")
    assert readme.read_text() == "nothing"
    readme.write_text(2 * f"{table.BEGIN}{table.END}\n")
    with pytest.raises(OutputRefused, match=r"must have one place for the results, between <!--"):
        table.place(readme, results, tmp_path / "pareto.svg")


def test_the_readme_shows_five_models_and_no_peers(results):
    """The story in five rows, in their order; all tables are in bench.md."""
    stored = json.loads(STORED.read_text())
    part = table.readme_part(stored, "docs/bench/pareto.svg")
    assert re.findall(r"^\| `(\w+)`", part, re.M) == list(table.README_MODELS)
    assert len(table.README_MODELS) == 5
    assert {entry["name"] for entry in stored["models"]} >= set(table.README_MODELS)
    assert "FINN" not in part
    assert "untrained" not in part
    assert len(part.splitlines()) < 20
    columns = "| model | data | accuracy | bit-exact | LUTs | images/s at 100 MHz |"
    assert columns in part
    assert "| `mnist_2k`ˢ | mnist | 97.65% | 10,000 of 10,000 | 1,718 | 100,000,000 |" in part
    assert "ˢ " in part.split(columns)[1]
    # Results without those models show the first ones.
    assert re.findall(r"^\| `(\w+)`", table.readme_part(results, "pareto.svg"), re.M) == [
        *("mnist_a", "mnist_b", "mnist_c", "mnist_d", "small")
    ]


def test_readme_is_what_was_measured():
    """The stored results, the tables in the README and the shipped models belong together."""
    stored = json.loads(STORED.read_text())
    text = (ROOT / "README.md").read_text()
    part = re.search(f"{re.escape(table.BEGIN)}(.*?){re.escape(table.END)}", text, re.S)[1]
    assert part == table.readme_part(stored, "docs/bench/pareto.svg")
    assert (ROOT / "docs/bench/bench.md").read_text() == table.markdown(stored)
    assert not stored["quick"]
    assert not stored["failed"]
    for entry in stored["models"]:
        network = fold_checkpoint(ROOT / "models" / f"{entry['name']}.pt").network
        assert entry["network"] == network.digest
        assert not entry["problems"]
        equal = {
            entry["numbers"][key]["value"] for key in ("images_equal", "images_equal_with_stalls")
        }
        assert equal == {entry["images"]}
        # The same as `sbnn-hw info` and the card say.
        assert entry["numbers"]["bops"]["value"] == count(network).total("sparse")
    assert stored["published"] == load_peers()
    assert {entry["name"] for entry in stored["models"]} == {
        path.stem for path in (ROOT / "models").glob("*.pt") if not read_facts(path).dense
    }
    # What other code or tools measured is marked, and nothing else.
    text = (STORED.parent / "bench.md").read_text(encoding="utf-8")
    for entry in stored["models"]:
        marks = re.search(rf"^\| `{entry['name']}`(ˢ?)(ᵉ?) \|", text, re.M)
        assert bool(marks[2]) == (entry["measured_by"] != stored["measured_by"])


#: Models whose Verilog is made in a few seconds.
SMALL = ("mnist_2k", "mnist_pixel_2k")


def stored_models():
    names = [entry["name"] for entry in json.loads(STORED.read_text())["models"]]
    return [pytest.param(name, marks=() if name in SMALL else pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", stored_models())
def test_what_was_counted_is_what_the_code_makes(name):
    """Network and Verilog of each row come out the same, so its numbers are of this code."""
    stored = json.loads(STORED.read_text())
    for tool, found in (("amaranth", "amaranth"), ("yosys", find_yosys())):
        if version_of(found) != stored["tools"][tool]:
            pytest.skip(f"the row was made with {tool} {stored['tools'][tool]}")
    entry = next(entry for entry in stored["models"] if entry["name"] == name)
    path = ROOT / "models" / f"{name}.pt"
    options = hardware_options(path)
    # Options that came later have no say in what was measured without them.
    assert options == Options(**entry["hardware"])
    network = fold_checkpoint(path).network
    assert network.digest == entry["network"]
    verilog = generate(network, options).verilog
    assert hashlib.sha256(verilog.encode()).hexdigest() == entry["verilog"]


def numbers_in(value):
    """Return everything that is a number with a unit, wherever it is."""
    if isinstance(value, dict):
        if "unit" in value:
            yield value
        for inner in value.values():
            yield from numbers_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner)


# Residual networks

STREAMS = {"stream_bits": 6, "weight_bits": 4, "shortcut": "duplicate", "first": "binary"}


def save_residual(path, **choices):
    """Write a random residual network for digits."""
    config, model = tiny_model(
        "resnet:4,8x1", **STREAMS | {"domain": "signed", "padding_value": -1} | choices
    )
    rng = np.random.default_rng(0)
    for layer in model.modules():
        if isinstance(layer, SparseBinaryLayer) and config.domain != "bnn":
            scramble(layer, rng, 0.2)
    with torch.no_grad():
        model(torch.from_numpy(rng.integers(0, 256, (50, 1, 8, 8))).float())
    settle(model.eval())
    save_checkpoint(path, Checkpoint(config, model, {"data": "digits", "seed": 7}))


def test_a_residual_network_says_what_it_carries(tmp_path):
    save_residual(tmp_path / "res.pt")
    save_tiny(tmp_path / "tiny.pt")
    told = read_facts(tmp_path / "res.pt").streams
    assert told == {**STREAMS, "multiplier_digits": 0, "sign_planes": 1}
    plain = read_facts(tmp_path / "tiny.pt")
    assert plain.streams == {}
    assert not STREAMS.keys() & plain.topology.keys()


def test_only_a_trained_dense_network_stands_beside_streams(tmp_path, monkeypatch):
    """A dense one must have the same streams; where there is none, that is no problem."""
    folded = []

    def measure(path, setup):
        return {"name": path.stem, "problems": []}, []

    def beside(path, setup):
        folded.append(path.stem)
        raise AssertionError

    def prepare(path, setup):
        return Dense(path.stem, model_facts(path, setup), None)

    monkeypatch.setattr("sbnn_hw.zoo.run.measure_model", measure)
    monkeypatch.setattr("sbnn_hw.zoo.run.dense_beside", beside)
    monkeypatch.setattr("sbnn_hw.zoo.run.prepare_dense", prepare)
    monkeypatch.setattr(
        "sbnn_hw.zoo.run.measure_dense", lambda dense, *_: {"id": dense.name, "name": dense.name}
    )
    paths = {name: tmp_path / f"{name}.pt" for name in ("res", "wide", "dense")}
    save_residual(paths["res"])
    save_residual(paths["wide"], stream_bits=8)
    save_residual(paths["dense"], domain="bnn")
    setup = Setup(tmp_path / "work", {}, lambda *_: None)
    results, errors = run_bench(list(paths.values()), setup)
    assert (errors, results["failed"], folded) == ([], [], [])
    assert {entry["name"]: entry["dense"] for entry in results["models"]} == {
        "res": "dense", "wide": None,
    }  # fmt: skip


def test_tables_tell_of_streams_where_there_are_some(results):
    plain = table.markdown(results)
    assert "| BOPs dense | toggles an image |" in plain
    assert "streams" not in plain
    entry = entry_of("residual", 0.77, 20_000, "cifar10")
    entry |= {"dense": None, "streams": STREAMS}
    counts = {"additions": 6_082, "multiplications": 1_315}
    entry["numbers"] |= {key: number(value, "unit", "tool 1") for key, value in counts.items()}
    results["models"].append(entry)
    text = table.markdown(results)
    assert "| `residual` | cifar10 | {0, β}, streams of 6 bits | 77.00% |" in text
    assert "| none trained | – |" in text
    assert "No untrained dense network is built beside one with integer streams" in text
    assert "| BOPs dense | additions | multiplications | toggles an image |" in text
    assert "| 70 | 6,082 | 1,315 | 12 |" in text
    # Others have dashes there.
    assert "| 70 | – | – | 12 |" in text


@pytest.mark.long
def test_a_residual_network_is_measured(tmp_path, capsys):
    """All of it: accuracy, agreement, cells, place and route, toggles."""
    save_residual(tmp_path / "res.pt")
    out = tmp_path / "out"
    arguments = ["bench", "--models", str(tmp_path / "res.pt")]
    assert main([*arguments, "--out", str(out), "--work", str(tmp_path / "work")]) == 0
    (entry,) = json.loads((out / "bench.json").read_text())["models"]
    assert (entry["problems"], entry["dense"], entry["streams"]) == ([], None, STREAMS)
    values = {key: found["value"] for key, found in entry["numbers"].items()}
    assert values["images_equal"] == values["images_equal_with_stalls"] == 360
    capsys.readouterr()
    assert main(["info", "--model", str(tmp_path / "res.pt"), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)["bops"]
    assert values["bops"] == values["bops_sparse"] == info["sparse"]
    assert values["additions"] == info["additions"] > 0
    assert values["multiplications"] == info["multiplications"] > 0
    assert values["luts"] > 0
    assert values["brams"] == 0
    assert values["ecp5_fmax"] > 0


# The command


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    """Measure a tiny network and its dense sister, beside a file that is no checkpoint."""
    place = tmp_path_factory.mktemp("bench")
    models = place / "models"
    models.mkdir()
    save_tiny(models / "tiny.pt", domain="zero")
    save_tiny(models / "sister.pt", domain="bnn")
    (models / "broken.pt").write_bytes(b"no checkpoint")
    arguments = ["bench", "--models", str(models)]
    arguments += ["--out", str(place / "out"), "--work", str(place / "work")]
    code = main(arguments)
    return place, arguments, code


def test_one_broken_model_does_not_lose_the_others(benched):
    place, _, code = benched
    results = json.loads((place / "out" / "bench.json").read_text())
    assert code == 1
    assert [entry["name"] for entry in results["models"]] == ["tiny"]
    assert [entry["name"] for entry in results["failed"]] == ["broken"]
    assert "is not a checkpoint" in results["failed"][0]["error"]


def test_measures_what_other_commands_say(benched, capsys):
    place, _, _ = benched
    (entry,) = json.loads((place / "out" / "bench.json").read_text())["models"]
    assert (entry["data"], entry["seed"], entry["images"]) == ("digits", 7, 360)
    assert entry["problems"] == []
    values = {key: found["value"] for key, found in entry["numbers"].items()}
    model = str(place / "models" / "tiny.pt")
    assert main(["eval", "--model", model, "--data", "digits", "--json"]) == 0
    assert values["accuracy"] == json.loads(capsys.readouterr().out)["accuracy"]
    assert main(["info", "--model", model, "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert values["bops"] == values["bops_sparse"] == info["bops"]["sparse"]
    assert values["bops_dense"] == info["bops"]["dense"]
    assert values["additions"] == 0
    assert values["images_equal"] == values["images_equal_with_stalls"] == 360
    assert values["images_per_second"] == 100e6 / values["interval"]
    assert values["ecp5_images_per_second"] == values["ecp5_fmax"] * 1e6 / values["interval"]
    assert values["toggles"] == values["toggles_of_registers"] + values["toggles_of_tables"] > 0
    assert values["brams"] == values["dsps"] == 0 < values["luts"]
    # What was counted can be made again and compared.
    verilog = (place / "work" / "tiny" / "top.v").read_bytes()
    assert entry["verilog"] == hashlib.sha256(verilog).hexdigest()
    assert entry["network"] == fold_checkpoint(place / "models" / "tiny.pt").network.digest


def test_additions_of_pixels_are_no_binary_operations():
    verdict = {
        "vectors": 9, "mismatches": 0, "latency": 3, "interval": 1,
        "stalled": {"vectors": 9, "mismatches": 0},
        "bops": {"measured": 1_100, "static": 1_100, "dense": 5_000},
    }  # fmt: skip
    work = {"sparse": 800, "additions": 300, "multiplications": 0}
    found = simulated(verdict, {"bops": work, "by_connections": 1_100}, {"verilator": "5.0"})
    values = {key: found[key]["value"] for key in ("bops", "bops_sparse", "additions")}
    assert values == {"bops": 800, "bops_sparse": 800, "additions": 300}
    assert found["additions"]["unit"] == "additions of pixels an image"
    assert "multiplications" not in found
    # Of these additions 50 are of stages without connections, which handshakes do not measure.
    work |= {"additions": 350, "multiplications": 7}
    found = simulated(verdict, {"bops": work, "by_connections": 1_100}, {"verilator": "5.0"})
    keys = ("bops", "bops_sparse", "additions", "multiplications")
    assert [found[key]["value"] for key in keys] == [800, 800, 350, 7]
    assert found["additions"]["unit"] == "additions of integers an image"


def test_the_trained_dense_model_stands_beside_the_sparse_one(benched):
    place, _, _ = benched
    results = json.loads((place / "out" / "bench.json").read_text())
    (dense,) = results["dense"]
    assert results["models"][0]["dense"] == dense["id"]
    assert dense["name"] == "sister"
    assert dense["trained"]
    assert dense["numbers"]["luts"]["how"] == "counted"
    assert dense["numbers"]["accuracy"]["value"] == fold_accuracy(place / "models" / "sister.pt")


def fold_accuracy(path):
    from sbnn_hw import datasets

    images = datasets.find("digits").load("test")
    return fold_checkpoint(path).network.accuracy(images.pixels, images.labels)


def test_every_number_has_its_unit_and_tool(benched):
    place, _, _ = benched
    results = json.loads((place / "out" / "bench.json").read_text())
    found = list(numbers_in([results["models"], results["dense"]]))
    assert len(found) > 20
    for each in found:
        assert each["unit"]
        assert each["how"] in ("measured", "counted", "computed")
        assert re.search(r"\d+\.\d+", each["by"]), each


def test_second_run_measures_nothing_and_writes_the_same(benched):
    place, arguments, _ = benched
    names = ("bench.json", "bench.md", "pareto.png", "pareto.svg")
    before = {name: (place / "out" / name).read_bytes() for name in names}
    notes = {path: path.stat().st_mtime_ns for path in (place / "work").rglob(".steps/*.json")}
    assert len(notes) >= 9
    assert main(arguments) == 1
    assert {name: (place / "out" / name).read_bytes() for name in names} == before
    assert {path: path.stat().st_mtime_ns for path in notes} == notes
    assert not list(place.rglob("*.part"))
    assert not list(place.rglob("*.lock"))


def test_models_are_added_to_an_earlier_run(benched, tmp_path, capsys):
    place, _, _ = benched
    out, work = tmp_path / "out", place / "work"
    out.mkdir()
    earlier = json.loads((place / "out" / "bench.json").read_text())
    # Two models measured by other code, one of them measured again now; a dense one beside the other.
    old = earlier["models"][0] | {"measured_by": "other code", "dense": "d1"}
    beside = earlier["dense"][0] | {"id": "d1", "name": "dense, earlier"}
    earlier["models"] = [old | {"name": "aged"}, old | {"seed": 99}]
    earlier["dense"] = [beside, beside | {"id": "d2", "name": "nobody's"}]
    (out / "bench.json").write_text(json.dumps(earlier))
    model = str(place / "models" / "tiny.pt")
    arguments = ["bench", "--models", model, "--out", str(out), "--work", str(work), "--add"]
    assert main(arguments) == 0
    results = json.loads((out / "bench.json").read_text())
    assert [entry["name"] for entry in results["models"]] == ["aged", "tiny"]
    assert results["models"][0] == earlier["models"][0]
    assert results["models"][1]["seed"] == 7
    assert results["models"][1]["measured_by"] == results["measured_by"] != "other code"
    assert [entry["name"] for entry in results["dense"]] == [
        "dense mlp:6 (digits)",
        "dense, earlier",
    ]
    text = (out / "bench.md").read_text()
    assert "| `aged`ᵉ |" in text
    assert "| `tiny` |" in text
    assert "ᵉ measured earlier" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, r"No results at .* to add to \(No such file or directory\); omit --add"),
        ("{", r"has no results of sbnn-hw bench; omit --add"),
        ("[]", r"has no results of sbnn-hw bench; omit --add"),
        ('{"schema": 2, "quick": false}', r"has the form 2, not 1; omit --add$"),
        (
            '{"schema": 1, "quick": true, "models": [], "dense": [], "published": [], "failed": []}',
            r"is of a quick run, but this is a whole one; omit --add$",
        ),
        (
            '{"schema": 1, "quick": false, "models": [{"name": "a"}], "dense": [], "failed": []}',
            r"has no results of sbnn-hw bench; omit --add$",
        ),
        (
            # Nothing is missing but what the tables tell of a model.
            json.dumps(
                {
                    "schema": 1,
                    "quick": False,
                    "models": [{"name": "a", "problems": [], "dense": None}],
                    "dense": [],
                    "published": [],
                    "failed": [],
                }
            ),
            r"has no results of sbnn-hw bench; omit --add$",
        ),
    ],
)
def test_nothing_is_added_to_what_is_no_earlier_run(tmp_path, text, says):
    path = tmp_path / "bench.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_earlier(path, quick=False)


def test_tables_are_made_again_without_measuring(benched, tmp_path, capsys):
    place, _, _ = benched
    earlier = json.loads((place / "out" / "bench.json").read_text())
    earlier["published"] = []
    (tmp_path / "bench.json").write_text(json.dumps(earlier))
    readme = tmp_path / "README.md"
    readme.write_text(f"{table.BEGIN}old{table.END}\n")
    arguments = ["bench", "--out", str(tmp_path), "--work", str(tmp_path / "work"), "--models"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("E: Name models to measure, or omit --models")
    # One model of that run is broken.
    assert main([*arguments, "--add", "--readme", str(readme)]) == 2
    assert "bench.json lacks results of broken, so the README would too;" in capsys.readouterr().err
    assert "old" in readme.read_text()
    assert main([*arguments, "--add"]) == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    assert results == earlier | {"published": load_peers()}
    assert "FINN SFC-max" in (tmp_path / "bench.md").read_text()


def test_kept_rows_keep_their_own_dense_network():
    row = {"dense": "d0", "problems": []}
    earlier = {
        "models": [row | {"name": "a"}, row | {"name": "b"}],
        "dense": [{"id": "d0", "name": "dense", "luts": 1}],
        "failed": [{"name": "c"}, {"name": "d"}],
    }
    results = {
        "models": [{"name": "b", "dense": "d1"}, {"name": "d", "dense": "d1"}],
        "dense": [{"id": "d1", "name": "dense", "luts": 2}],
        "failed": [],
    }
    merged = add_to(earlier, results)
    assert [(entry["name"], entry["dense"]) for entry in merged["models"]] == [
        ("a", "d0"),
        ("b", "d1"),
        ("d", "d1"),
    ]
    assert [entry["luts"] for entry in merged["dense"]] == [1, 2]
    assert merged["failed"] == [{"name": "c"}]


def test_dense_networks_of_other_code_are_others(benched, monkeypatch):
    place, _, _ = benched
    tools = {"amaranth": "0.0", "yosys": "0.0", "numpy": "0.0"}
    setup = Setup(place / "other", tools, lambda *_: None)
    monkeypatch.setattr("sbnn_hw.zoo.setup.SYNTHESISED", 10)
    path = place / "models" / "tiny.pt"
    network = densify(fold_checkpoint(path).network)
    dense = Dense("dense", model_facts(path, setup), network)
    ids = set()
    for code in ("this", "that"):
        monkeypatch.setattr(dense_networks, "measured_by", lambda _, code=code: code)
        found = measure_dense(dense, setup, hardware_options(path))
        ids.add(found["id"])
    assert len(ids) == 2


def test_a_failed_run_leaves_the_readme_alone(benched):
    place, arguments, _ = benched
    readme = place / "README.md"
    readme.write_text(f"{table.BEGIN}old{table.END}\n")
    assert main([*arguments, "--readme", str(readme)]) == 1
    assert readme.read_text() == f"{table.BEGIN}old{table.END}\n"


def test_a_run_without_results_leaves_earlier_ones(benched, capsys):
    place, _, _ = benched
    before = (place / "out" / "bench.json").read_bytes()
    folders = ["--out", str(place / "out"), "--work", str(place / "work")]
    assert main(["bench", "--models", str(place / "models" / "broken.pt"), *folders]) == 1
    assert (place / "out" / "bench.json").read_bytes() == before
    assert "is not a checkpoint" in capsys.readouterr().err


def test_a_readme_without_a_place_is_refused_before_anything_is_measured(
    benched, monkeypatch, capsys
):
    place, arguments, _ = benched
    monkeypatch.setattr("sbnn_hw.zoo.run.run_bench", lambda *_: pytest.fail("measured"))
    readme = place / "OTHER.md"
    readme.write_text("nothing")
    assert main([*arguments, "--readme", str(readme)]) == 6
    assert "must have one place for the results" in capsys.readouterr().err


def test_dense_rows_that_read_the_same_are_one(results):
    (dense,) = results["dense"]
    results["dense"] = [dense, dense | {"id": "d1"}]
    assert table.markdown(results).count("| dense sfc |") == 1
    luts = {
        "luts": number(100_000, "LUT", "yosys", "counted"),
        "luts_computed": number(103_000, "LUT", "heaps", "computed"),
    }
    results["dense"][1] = dense | {"id": "d1", "numbers": luts}
    text = table.markdown(results)
    assert text.count("| dense sfc |") == 2
    assert "| 100,000 by Yosys (103,000 computed) |" in text


def load_card():
    spec = importlib.util.spec_from_file_location("card", ROOT / "bench" / "card.py")
    card = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(card)
    return card


def test_a_card_says_what_streams_are(tmp_path):
    card = load_card()
    save_residual(tmp_path / "res.pt")
    config, network = read_config(tmp_path / "res.pt"), fold_checkpoint(tmp_path / "res.pt").network
    assert card._streams(config) == {
        "streams": "integers of 6 bits; shortcuts without weights (2×2 sums, channels twice); "
        "first convolution sparse and binary; classes with weights of 4 bits"
    }
    counts = count(network)
    added, multiplied = counts.total("additions"), counts.total("multiplications")
    (said,) = card._work(counts).values()
    assert said == f"{added:,}, {multiplied:,}"
    save_tiny(tmp_path / "tiny.pt")
    assert card._streams(read_config(tmp_path / "tiny.pt")) == {}
    assert card._work(count(fold_checkpoint(tmp_path / "tiny.pt").network)) == {}


def read_config(path):
    return load_checkpoint(path).config


def test_a_card_keeps_rows_of_its_own_network_only(tmp_path):
    card = load_card()
    path = tmp_path / "a.md"
    assert card._kept(path, "other seeds", "`12`") == ""
    path.write_text("| other seeds: validation | 1: 97 % |\n| digest | `12` |\n")
    assert card._kept(path, "other seeds", "`12`") == "1: 97 %"
    assert card._kept(path, "training time", "`12`") == ""
    assert card._kept(path, "other seeds", "`34`") == ""


def test_large_dense_networks_are_computed(benched, monkeypatch):
    """Above the limit the heaps' costs are added up, and said to be."""
    place, _, _ = benched
    tools = {"amaranth": "0.0", "yosys": "0.0", "numpy": "0.0"}
    setup = Setup(place / "large", tools, lambda *_: None)
    assert setup.dense_limit == SYNTHESISED == 200_000
    monkeypatch.setattr("sbnn_hw.zoo.setup.SYNTHESISED", 10)
    network = densify(fold_checkpoint(place / "models" / "tiny.pt").network)
    facts = model_facts(place / "models" / "tiny.pt", setup)
    options = hardware_options(place / "models" / "tiny.pt")
    found = measure_dense(Dense("dense", facts, network), setup, options)
    assert found["numbers"].keys() == {"luts"}
    assert found["numbers"]["luts"]["how"] == "computed"
    assert found["numbers"]["luts"]["value"] == estimate(network, "xc7").luts
    assert not found["trained"]


def test_a_quick_run_is_not_for_the_readme(capsys):
    assert main(["bench", "--quick", "--readme", "README.md"]) == 2
    said = capsys.readouterr().err
    assert said == "E: The README must not show a quick run; omit --quick or --readme\n"


def test_drawing_changes_no_results(results, tmp_path):
    before = copy.deepcopy(results)
    paths = draw(results, tmp_path / "pareto")
    assert [path.name for path in paths] == ["pareto.png", "pareto.svg"]
    assert results == before
