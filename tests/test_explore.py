"""The search: it picks what is valid, keeps the front, and loses nothing that is cut off."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT

from sbnn_hw import datasets
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, OutputRefused, UsageError
from sbnn_hw.explore import study as study_module
from sbnn_hw.explore.front import Finding, checkpoint_name, command_of, pareto, write_front
from sbnn_hw.explore.space import SHIPPED, SPACES, Choices, Range, load_space, make_config
from sbnn_hw.explore.study import Pruned, Study, size_class
from sbnn_hw.pareto.picture import make_figure, text_box
from sbnn_hw.pareto.points import Point, points_of_peers
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import tables_of
from sbnn_hw.train.checkpoint import load_checkpoint, used_values
from sbnn_hw.train.explore import Runner
from sbnn_hw.train.fold import fold_checkpoint
from sbnn_hw.train.models import build_model
from sbnn_hw.yosys import synthesise

TINY = """
[network]
depth = { low = 1, high = 2 }
width = { low = 8, high = 24, log = true }
encoder = { choices = ["threshold", "thermometer"] }
levels = 2
[sparsity]
method = { choices = ["luts", "topk"] }
luts = { low = 200, high = 400, log = true }
fan_in = 6
score_fan_in = 8
sparsity = { low = 0.7, high = 0.95 }
[training]
domain = { choices = ["signed", "zero"] }
ec_schedule = "cubic"
batch = 64
seed = { low = 0, high = 1 }
"""


@pytest.fixture
def space_file(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(TINY)
    return path


def arguments(out, space, *more, trials=3, epochs=2):
    given = ["--data", "digits", "--out", out, "--space", space, "--trials", trials]
    return ["explore", *map(str, [*given, "--epochs", epochs, *more])]


def attributes(path, name="digits"):
    """Return what a study's storage has of its trials: state and notes, by number."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(path)))
    trials = optuna.load_study(study_name=name, storage=storage).trials
    return [(trial.state.name, trial.params, trial.user_attrs) for trial in trials]


# The space


def pick_by_chance(rng):
    def pick(_, entry):
        if isinstance(entry, Choices):
            return rng.choice(entry.values)
        if isinstance(entry.low, int):
            return rng.randint(entry.low, entry.high)
        return rng.uniform(entry.low, entry.high)

    return pick


def test_every_pick_of_the_shipped_space_is_a_network():
    rng, seen = random.Random(0), set()
    space = load_space()
    for _ in range(400):
        config = make_config(space, pick_by_chance(rng), data="mnist", epochs=3)
        config.model_config((28, 28, 1), 10)
        widths = config.model.removeprefix("mlp:").split(",")
        assert len(config.fan_in) in (0, len(widths) + 1)
        assert (config.xi_bits is not None) == (config.domain == "learned")
        assert (config.encoder == "threshold") == (len(config.thresholds) == 1)
        seen.add((len(widths), config.method, config.domain, config.encoder))
    assert len(seen) == 3 * 2 * 3 * 3


def test_what_does_not_apply_is_not_asked_for(space_file):
    asked = []

    def first(name, entry):
        asked.append(name)
        return entry.values[0] if isinstance(entry, Choices) else entry.low

    config = make_config(load_space(space_file), first, data="digits")
    assert asked == ["depth", "width_1", "encoder", "method", "luts", "domain", "seed"]
    assert (config.model, config.luts, config.fan_in) == ("mlp:8", 200, (6, 8))
    assert config.thresholds == ()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("levels = 2", "levels = 2\nspeed = 3", r"\[network\] may have depth, .*, not 'speed'$"),
        ("[training]", "[extra]\n[training]", r"must have the tables .*, not 'extra'$"),
        ("low = 200", "low = 500", r": luts must have low up to high, not 500 and 400$"),
        ("low = 200", "low = 0", r": luts must be between 1 and 10000000, not 0$"),
        ("low = 200", "low = 1.5", r": luts must be a whole number, not 1\.5$"),
        ("low = 0.7", "low = nan", r": sparsity must be finite, not nan$"),
        ("low = 0.7", 'low = "a"', r": sparsity must be a number, not 'a'$"),
        ('["luts", "topk"]', "[]", r": method must list one choice or more, not \[\]$"),
        ('["luts", "topk"]', '["luts", "luts"]', r": method must list different choices"),
        ('["luts", "topk"]', '["lut"]', r": method must be one of .*, not 'lut'$"),
        ('["luts", "topk"]', '["penalty"]', r"not have both the method penalty and the domain"),
        ('["signed", "zero"]', '["real"]', r"must not have the domain real: no hardware"),
        ("batch = 64", "batch = 1", r": batch: Batch must be between 2 and 1000000, not 1$"),
        ('["signed", "zero"]', '["zero", "nope"]', r": domain: Domain must be one of .*, not 'nope'$"),
        ("batch = 64", 'gradient = "foo"', r": gradient: Gradient must be one of .*, not 'foo'$"),
        ("batch = 64", "xi_bits = 99", r": xi_bits: Bits of ξ must be between 1 and 16, not 99$"),
        ("batch = 64", "padding = -4", r": padding: Padding must be between 0 and 7, not -4$"),
        ("batch = 64", "padding = { low = 0, high = 9 }", r": padding: Padding must be .*, not 9$"),
        ("batch = 64", 'normalise = "cifar10"', r": normalise: Only backbones .* normalise pixels"),
        ("batch = 64", 'init = "x"', r": init: Init must be one of .*, not 'x'$"),
        ("batch = 64", "flip = 1", r": flip must be true or false, not 1$"),
        ("batch = 64", 'teacher = "x.pt"', r"\[training\] may have .*, not 'teacher'$"),
        ("levels = 2", "", r"must say levels for the encoders thermometer and learned$"),
        ("fan_in = 6", "fan_in = { least = 3 }", r": fan_in must be a value, \{ low = …, high"),
        ("[network]", "network", r"is not TOML: "),
    ],
)  # fmt: skip
def test_refuses_a_wrong_space_by_name(space_file, old, new, says):
    assert old in TINY
    space_file.write_text(TINY.replace(old, new))
    with pytest.raises(UsageError, match=says):
        load_space(space_file)


CONVOLUTIONS = """
[network]
model = { choices = ["conv:6,8p/12", "conv:8k5s2"] }
encoder = "learned"
levels = 2
[sparsity]
method = "luts"
luts = { low = 300, high = 500, log = true }
fan_in = { low = 5, high = 9 }
score_fan_in = 10
[training]
domain = "signed"
ec_schedule = "cubic"
batch = 64
"""


@pytest.mark.parametrize(
    ("model", "caps", "asked"),
    [
        ("conv:6,8p/12", (5, 5, 5, 10), ["model", "luts", "fan_in_1", "fan_in_2", "fan_in_3"]),
        ("conv:8k5s2", (5, 10), ["model", "luts", "fan_in_1"]),
    ],
)
def test_a_space_may_name_networks(space_file, model, caps, asked):
    names = []

    def pick(name, entry):
        names.append(name)
        return model if name == "model" else entry.low

    space_file.write_text(CONVOLUTIONS)
    config = make_config(load_space(space_file), pick, data="digits")
    assert (config.model, config.fan_in, config.encoder) == (model, caps, "learned")
    assert names == asked


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"conv:8k5s2"', '"conv:8z"', r": model: Model 'conv:8z' must list convolutions as in"),
        ('"conv:8k5s2"', '"nope"', r": model: Model must be one of .*, not 'nope'$"),
        ('"conv:8k5s2"', "3", r": model must be text, not 3$"),
        ('"conv:8k5s2"', '"resnet18"', r" must not have both residual networks and others as model: "),
        ('"conv:8k5s2"', '"resnet:8"', r": model: Model 'resnet:8' must list up to eight widths"),
        ("batch = 64", "stream_bits = 6", r" must have stream_bits only with residual networks "),
        ("levels = 2", "levels = 2\ndepth = 1", r" must not have both model and depth: the model"),
        ("levels = 2", "levels = 2\nwidth = 8", r" must not have both model and width: the model"),
        ("model = {", "models = {", r"\[network\] may have .*model, .*, not 'models'$"),
        ('model = { choices = ["conv:6,8p/12", "conv:8k5s2"] }', "", r" must say depth, or model$"),
    ],
)  # fmt: skip
def test_refuses_wrong_networks_by_name(space_file, old, new, says):
    assert old in CONVOLUTIONS
    space_file.write_text(CONVOLUTIONS.replace(old, new))
    with pytest.raises(UsageError, match=says):
        load_space(space_file)


RESIDUAL = """
[network]
model = { choices = ["resnet:4x1", "resnet:4,8x1"] }
[sparsity]
method = "topk"
sparsity = { low = 0.7, high = 0.9 }
[training]
domain = "signed"
stream_bits = { low = 4, high = 6 }
weight_bits = 4
shortcut = "duplicate"
first = { choices = ["binary", "real"] }
padding_value = -1
batch = 64
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("stream_bits = { low = 4, high = 6 }", "", r" must say stream_bits, above 0, for resnet:4x1: "),
        ("{ low = 4, high = 6 }", "{ low = 0, high = 6 }", r" must say stream_bits, above 0, for resnet"),
        ("{ low = 4, high = 6 }", "{ choices = [0, 6] }", r" must say stream_bits, above 0, for resnet"),
        ("{ low = 4, high = 6 }", "{ low = 4, high = 99 }", r": stream_bits: Bits of streams must be "),
        ("weight_bits = 4", "weight_bits = 99", r": weight_bits: Bits of weights must be "),
        ('"duplicate"', '"twice"', r": shortcut: Shortcut must be one of real, duplicate, not 'twice'$"),
        ('"real"]', '"nope"]', r": first: First convolution must be one of real, binary, not 'nope'$"),
        ('method = "topk"', 'method = "luts"\nluts = 900', r" must not have the method luts for resnet:4x1: "),
        ("[sparsity]", 'encoder = "threshold"\n[sparsity]', r" must not have encoder for resnet:4x1: "),
    ],
)  # fmt: skip
def test_refuses_wrong_residual_spaces_by_name(space_file, old, new, says):
    assert RESIDUAL.count(old) == 1
    space_file.write_text(RESIDUAL.replace(old, new))
    with pytest.raises(UsageError, match=says):
        load_space(space_file)


def test_residual_networks_are_searched_too(tmp_path, space_file, capsys):
    """What counts is the tables of the network as it is laid out, queues and all."""
    space_file.write_text(RESIDUAL)
    out = tmp_path / "out"
    assert main(arguments(out, space_file, trials=2)) == 0
    assert re.search(
        r"trial    0  resnet:.*, streams of \d bits, duplicate shortcuts, weights of 4 bits, ",
        capsys.readouterr().err,
    )
    result = json.loads((out / "front.json").read_text())
    assert result["trials"]["complete"] == 2
    for entry in result["front"]:
        assert entry["model"] in ("resnet:4x1", "resnet:4,8x1")
        assert entry["config"]["stream_bits"] in (4, 5, 6)
        network = fold_checkpoint(out / entry["checkpoint"]).network
        assert any(stage.operation.kind == "affine" for stage in network.stages)
        assert entry["luts"] == tables_of(network)
    command = shlex.split(command_of(entry["config"]))
    command[command.index("--out") + 1] = str(tmp_path / "again.pt")
    assert main(command[1:]) == 0
    again = fold_checkpoint(tmp_path / "again.pt").network
    assert again.digest == network.digest


def test_every_network_of_the_residual_space_fits_the_images():
    space, rng, seen = load_space(SPACES["residual"]), random.Random(0), set()
    for _ in range(60):
        config = make_config(space, pick_by_chance(rng), data="cifar10", epochs=3)
        if config.model not in seen:
            build_model(config.model_config((32, 32, 3), 10))
        seen |= {config.model, config.stream_bits, config.first, config.padding_value}
    assert seen >= {*space.entries["model"].values, *range(4, 9), "binary", "real", -1, 0}


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_every_network_of_the_space_for_pixels_fits_the_images(shape):
    space, rng, seen = load_space(SPACES["pixels"]), random.Random(0), set()
    for _ in range(40):
        config = make_config(space, pick_by_chance(rng), data="mnist", epochs=3)
        if config.model not in seen:
            build_model(config.model_config(shape, 10))
        assert len(config.fan_in) == 1 + len(config.model.split(","))
        seen.add(config.model)
    assert seen == set(space.entries["model"].values)


def test_a_table_of_ones_own_is_searched_and_each_run_can_be_repeated(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{n},{a:.3f},{b:.3f},{'high' if a + b > 1 else 'low'}"
            for n, (a, b) in enumerate(rng.random((300, 2)))]  # fmt: skip
    table, out = tmp_path / "my.csv", tmp_path / "out"
    table.write_text("\n".join(["id,a,b,y", *rows]) + "\n")
    given = ["explore", "--data", table, "--out", out, "--space", "tables", "--trials", 3]
    how = ["--label", "y", "--drop", "id", "--split", "60/20/20", "--epochs", 2]
    assert main(list(map(str, [*given, *how]))) == 0
    result = json.loads((out / "front.json").read_text())
    assert result["trials"]["complete"] + result["trials"]["pruned"] == 3
    entry = result["front"][-1]
    command = command_of(entry["config"])
    again = shlex.split(command)[1:]
    again[again.index("--out") + 1] = str(tmp_path / "again.pt")
    assert main(again) == 0
    found = [load_checkpoint(p) for p in (tmp_path / "again.pt", out / entry["checkpoint"])]
    assert found[0].meaning == found[1].meaning
    assert found[0].meaning.source.split == (60, 20, 20)
    # Read otherwise, they are the data of another study.
    capsys.readouterr()
    assert main(list(map(str, [*given, "--label", "y", *how[4:]]))) == 2
    assert "was started with data_options = " in capsys.readouterr().err


def test_convolutions_are_searched_too(tmp_path, space_file):
    space_file.write_text(CONVOLUTIONS)
    out = tmp_path / "out"
    assert main(arguments(out, space_file, trials=2)) == 0
    result = json.loads((out / "front.json").read_text())
    assert result["trials"]["complete"] == 2
    for entry in result["front"]:
        assert entry["model"] in ("conv:6,8p/12", "conv:8k5s2")
        assert entry["luts"] == tables_of(fold_checkpoint(out / entry["checkpoint"]).network)


def test_a_space_of_the_package_is_named(tmp_path, capsys):
    """Its networks are too large for digits, which every trial says."""
    assert main(arguments(tmp_path / "out", "pixels", trials=1)) == 1
    assert re.search(r"trial    0  conv:.*\n.*refused: .* to nothing", capsys.readouterr().err)


def test_refuses_log_from_zero(space_file):
    text = TINY.replace("{ low = 0.7, high = 0.95 }", "{ low = 0, high = 0.95, log = true }")
    space_file.write_text(text)
    with pytest.raises(
        UsageError, match=r"sparsity must have log = true only above zero, not from"
    ):
        load_space(space_file)


def test_a_space_that_is_not_there(tmp_path, capsys):
    code = main(arguments(tmp_path, tmp_path / "no.toml"))
    assert code == 2
    assert "Cannot read a search space from" in capsys.readouterr().err


# The front


def beats(one, other):
    at_least = one.accuracy >= other.accuracy and one.luts <= other.luts
    return at_least and (one.accuracy, one.luts) != (other.accuracy, other.luts)


def test_front_is_what_the_definition_says():
    rng = np.random.default_rng(0)
    for count in [0, 1, 2, *range(3, 60)]:
        # Few values, so that equals and ties in one are common.
        drawn = rng.integers(0, 1 + count // 3, (count, 2))
        all_of_them = [Finding(n, float(a) / 10, 1 + int(x)) for n, (a, x) in enumerate(drawn)]
        expected = {
            f.number
            for f in all_of_them
            if not any(beats(g, f) for g in all_of_them)
            and not any(
                (g.accuracy, g.luts) == (f.accuracy, f.luts) and g.number < f.number
                for g in all_of_them
            )
        }
        found = pareto(all_of_them)
        assert {f.number for f in found} == expected
        assert [f.luts for f in found] == sorted(f.luts for f in found)


def test_a_network_without_tables_is_not_on_the_front():
    constant, small = Finding(0, 0.1, 0), Finding(1, 0.9, 500)
    assert pareto([constant, small]) == [small]
    assert pareto([constant]) == []


FACTS = {"study": "s", "data": "mnist", "epochs": 1, "space": {}}
COUNTS = {"complete": 4, "pruned": 0, "refused": 0, "running": 0, "waiting": 0}


def test_front_is_drawn_among_the_published_ones(tmp_path):
    config = {"model": "mlp:64", "data": "mnist", "domain": "signed", "method": "luts", "seed": 1}
    sizes = [(0.95, 900), (0.94, 1000), (0.97, 2100), (0.975, 4500)]
    findings = [Finding(n, a, x, config, "elsewhere") for n, (a, x) in enumerate(sizes)]
    result = write_front(tmp_path, findings, FACTS, COUNTS)
    assert [entry["trial"] for entry in result["front"]] == [0, 2, 3]
    assert json.loads((tmp_path / "front.json").read_text()) == result
    picture = (tmp_path / "front.svg").read_text()
    for words in ("trial 2", "TreeLUT", "FINN SFC-max", "validation here, test elsewhere"):
        assert words in picture
    assert "trial 1<" not in picture
    assert (tmp_path / "front.png").is_file()
    text = (tmp_path / "front.md").read_text()
    assert "| 2 | 97.00% | 2,100 | mlp:64 | signedˢ | luts |" in text
    assert "ˢ with signed taps, an extension" in text
    # Its checkpoint is not in this folder.
    assert "| on elsewhere |" in text
    assert result["front"][0]["checkpoint"] is None


def test_labels_of_the_front_keep_apart():
    found = [Point(f"trial {n}", "mnist", "found", 1500 + 400 * n, 96 + 0.3 * n) for n in range(6)]
    peers = points_of_peers(load_peers())
    _, labels = make_figure([*found, *(p for p in peers if p.data == "mnist")])
    boxes = [text_box(label) for label in labels]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


# A search


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Search for a few seconds; reading test images is an error."""
    place = tmp_path_factory.mktemp("explore")
    (place / "space.toml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        read = datasets.Dataset.open

        def only_training(self, split, root=None):
            assert split == "train"
            return read(self, split, root)

        patch.setattr(datasets.Dataset, "open", only_training)
        code = main(arguments(place / "out", place / "space.toml", trials=4))
    assert code == 0
    return place


def test_keeps_the_checkpoints_of_the_front_and_no_others(searched):
    out = searched / "out"
    result = json.loads((out / "front.json").read_text())
    assert result["trials"] == COUNTS
    kept = sorted(path.name for path in out.glob("*.pt"))
    assert kept == sorted(entry["checkpoint"] for entry in result["front"])
    assert 1 <= len(kept) <= 4
    assert not list(out.glob(".*.part"))


def test_front_is_that_of_all_trials(searched):
    out = searched / "out"
    result = json.loads((out / "front.json").read_text())
    facts = {key: result[key] for key in ("data", "epochs", "seconds", "validation", "space")}
    findings = Study("digits", str(out / "study.journal"), facts).findings()
    assert len(findings) == 4
    some = [f for f in findings if f.luts]
    front = {f.number for f in some if not any(beats(g, f) for g in some)}
    assert front == {entry["trial"] for entry in result["front"]}


def test_a_folder_with_the_front_of_another_study_is_refused(searched, capsys):
    out = searched / "out"
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    other = [*arguments(out, searched / "space.toml", trials=1), "--study", "other"]
    assert main(other) != 0
    assert "has the front of the study 'digits', not of 'other'" in capsys.readouterr().err
    for name in ("front.json", "front.md", *(n for n in before if n.endswith(".pt"))):
        assert (out / name).read_bytes() == before[name]


def test_all_trials_are_judged_by_the_same_images(searched):
    result = json.loads((searched / "out" / "front.json").read_text())
    assert {entry["config"]["validation_seed"] for entry in result["front"]} == {0}


def test_numbers_are_those_of_the_kept_networks(searched):
    """Accuracy by the integer network on the images held out; tables as laid out."""
    out = searched / "out"
    for entry in json.loads((out / "front.json").read_text())["front"]:
        path = out / entry["checkpoint"]
        network = fold_checkpoint(path).network
        assert entry["luts"] == tables_of(network)
        checkpoint = load_checkpoint(path)
        assert checkpoint.training["data"] == "digits"
        import torch

        from sbnn_hw.train.data import make_generator

        images = datasets.find("digits").load("train")
        # Whatever the seed of the network is.
        order = torch.randperm(len(images.labels), generator=make_generator(0, 0, 1))
        order = order.numpy()[: len(images.labels) // 5]
        accuracy = network.accuracy(images.pixels[order], images.labels[order])
        assert accuracy == pytest.approx(entry["validation"], abs=1e-12)


def test_the_command_of_a_trial_makes_the_same_network(searched, tmp_path):
    out = searched / "out"
    entry = json.loads((out / "front.json").read_text())["front"][-1]
    words = shlex.split(entry["command"])
    assert words[0] == "sbnn-hw"
    words[words.index("ckpt.pt")] = str(tmp_path / "ckpt.pt")
    assert main(words[1:]) == 0
    mine = used_values(load_checkpoint(tmp_path / "ckpt.pt").model)
    kept = used_values(load_checkpoint(out / entry["checkpoint"]).model)
    assert mine.keys() == kept.keys()
    assert all((mine[key] == kept[key]).all() for key in mine)


def test_a_command_has_every_choice_that_is_not_the_default():
    config = {"model": "mlp:8", "data": "digits", "thresholds": [64, 128], "flip": True, "lr": 0.02}
    words = "--model mlp:8 --data digits --thresholds 64 128 --lr 0.02 --flip"
    assert command_of(config) == f"sbnn-hw train {words} --out ckpt.pt"


def test_the_same_command_goes_on_and_says_the_same(searched, capsys):
    out, space = searched / "out", searched / "space.toml"
    names = [*(path.name for path in out.glob("*.pt")), "front.json", "front.md", "front.svg"]
    before = {name: (out / name).read_bytes() for name in names}
    assert main(arguments(out, space, "--json", trials=4)) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads(before["front.json"])
    assert said.err == ""  # no trial was run
    assert {name: (out / name).read_bytes() for name in names} == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"epochs": 5}, "E: Study digits was started with epochs = 2, not 5; use the same, or"),
        ({"more": ["--validation", "100"]}, "started with validation = 5000, not 100;"),
        ({"more": ["--seconds", "3"]}, "started with seconds = None, not 3.0;"),
    ],
)
def test_trials_of_one_study_have_the_same_budget(searched, capsys, more, says):
    given = more.pop("more", [])
    out, space = searched / "out", searched / "space.toml"
    assert main(arguments(out, space, *given, trials=4, **more)) == 2
    assert says in capsys.readouterr().err


def test_the_estimate_is_near_what_yosys_counts(searched):
    """Of a network that was found here; docs/explore.md has more of them."""
    out = searched / "out"
    entry = json.loads((out / "front.json").read_text())["front"][-1]
    network = fold_checkpoint(out / entry["checkpoint"]).network
    counted = synthesise(generate(network, Options(family="xc7")).verilog, "xc7").counts.luts
    assert entry["luts"] == pytest.approx(counted, abs=3)


@pytest.mark.parametrize("name", ["mnist_pixel_2k", "fashion_pixel_6k"])
def test_the_estimate_of_pixels_one_by_one_is_near_what_yosys_counted(name):
    """Its card has what Yosys counted."""
    card = (ROOT / "models" / f"{name}.md").read_text(encoding="utf-8")
    counted = int(re.search(r"xc7 by Yosys \| ([\d,]+) LUTs", card)[1].replace(",", ""))
    network = fold_checkpoint(ROOT / "models" / f"{name}.pt").network
    assert tables_of(network) == pytest.approx(counted, rel=0.02)


# Cut off


def test_a_trial_that_is_interrupted_is_run_again(tmp_path, space_file, monkeypatch, capsys):
    with monkeypatch.context() as patch:

        def stop(*_):
            raise KeyboardInterrupt

        patch.setattr(Runner, "train", stop)
        assert main(arguments(tmp_path / "out", space_file, trials=1)) == 130
    said = capsys.readouterr().err
    assert "stopped; run the same command again to continue and repeat this trial" in said
    assert main(arguments(tmp_path / "out", space_file, trials=1)) == 0
    first, second = attributes(tmp_path / "out" / "study.journal")
    assert (first[0], second[0]) == ("FAIL", "COMPLETE")
    assert first[1] == second[1]
    assert second[2]["again"] == 0
    # What counts are trials that went on to their end.
    assert json.loads((tmp_path / "out" / "front.json").read_text())["trials"]["complete"] == 1


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "sbnn_hw", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_a_trial_whose_process_is_killed_is_run_again(tmp_path, space_file):
    out = tmp_path / "out"
    # So many epochs that it is killed before its end.
    process = start(*arguments(out, space_file, "--no-prune", trials=1, epochs=100_000))
    journal = out / "study.journal"
    try:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if journal.exists() and '"seen"' in journal.read_text():
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        else:
            pytest.fail("no trial began")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    ((state, params, _),) = attributes(journal)
    assert state == "RUNNING"
    facts = study_facts(space_file, epochs=100_000)
    study = Study("digits", str(journal), facts)
    trial = study.take(1)
    assert trial.number == 1
    config = make_config(load_space(space_file), trial.suggest, data="digits")
    (first, second) = attributes(journal)
    assert (first[0], second[0]) == ("FAIL", "RUNNING")
    assert second[1] == params == first[1]
    assert config.model.startswith("mlp:")
    # This process lives, so nobody else is given its trial.
    assert study.take(1) is None


def study_facts(space_file, epochs=2):
    return {
        "data": "digits",
        "epochs": epochs,
        "seconds": None,
        "validation": 5000,
        "space": load_space(space_file).plain(),
    }


def test_two_processes_share_a_study(tmp_path, space_file):
    """Each with a folder of its own, as on two machines; the storage is shared."""
    shared = tmp_path / "shared.journal"
    words = [arguments(tmp_path / name, space_file, "--storage", shared, trials=4) for name in "ab"]
    processes = [start(*each) for each in words]
    try:
        for process in processes:
            _, said = process.communicate(timeout=500)
            assert process.returncode == 0, said
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    trials = [t for t in attributes(shared) if t[0] != "FAIL"]
    assert [state for state, *_ in trials] == ["COMPLETE"] * 4
    # Whoever ends last has written all of it; a third look writes it for both.
    for each in words:
        assert main(each) == 0
    fronts = [json.loads((tmp_path / name / "front.json").read_text()) for name in "ab"]
    assert [e["trial"] for e in fronts[0]["front"]] == [e["trial"] for e in fronts[1]["front"]]
    for mine, other in zip(fronts[0]["front"], fronts[1]["front"], strict=True):
        # Every checkpoint of the front is in one folder, and in one alone.
        assert [mine["checkpoint"], other["checkpoint"]].count(None) == 1


def test_a_journal_that_is_cut_off_is_told_in_one_sentence(searched, tmp_path, capsys):
    """Whatever its length is; and nothing is added to it."""
    whole = (searched / "out" / "study.journal").read_bytes()
    journal = tmp_path / "cut.journal"
    lengths = [n for n in range(1, len(whole), 397) if whole[n - 1 : n] != b"\n"]
    assert len(lengths) > 30
    for length in lengths:
        journal.write_bytes(whole[:length])
        given = arguments(tmp_path / "out", searched / "space.toml", "--storage", journal, trials=4)
        assert main(given) == UsageError.exit_code, length
        assert capsys.readouterr().err == (
            f"E: The last line of the study {journal} is cut off; remove that line, or name "
            f"another --storage\n"
        )
        assert journal.read_bytes() == whole[:length]


def test_what_is_whole_of_a_journal_that_was_cut_off_goes_on(searched, tmp_path):
    whole = (searched / "out" / "study.journal").read_bytes()
    lines = whole.splitlines(keepends=True)
    for count in range(0, len(lines), 5):
        journal = tmp_path / "cut.journal"
        journal.write_bytes(b"".join(lines[:count]))
        study = Study("digits", str(journal), study_facts(searched / "space.toml"))
        assert study.take(1000).number <= 4


@pytest.mark.parametrize(
    "call",
    [
        lambda study, _: study.take(9),
        lambda study, _: study.findings(),
        lambda _, trial: trial.suggest("width_1", Range(8, 24)),
        lambda _, trial: trial.suggest("encoder", Choices(("threshold", "thermometer"))),
        lambda _, trial: trial.begin("luts 8"),
        lambda _, trial: trial.report(0.5, 1, 10),
        lambda _, trial: trial.complete(0.5, 100, {}, 1.0),
        lambda _, trial: trial.pruned({}, 1),
        lambda _, trial: trial.refused(ModelRejected("no")),
        lambda _, trial: trial.again(),
    ],
)
def test_a_journal_that_is_damaged_meanwhile_is_told_in_one_sentence(tmp_path, space_file, call):
    path = tmp_path / "j"
    study = Study("s", str(path), study_facts(space_file))
    trial = study.take(9)
    trial.begin("luts 8")
    path.write_text(path.read_text() + '{"op_code":\n{"op_code":\n')
    says = r"j is not a study's storage \(JSONDecodeError\); name another --storage$"
    with pytest.raises(UsageError, match=says):
        call(study, trial)


@pytest.mark.parametrize(
    "content", ["x\n", "hello", "[]\n", "1\n", "{}\n", '{"op_code": 99}\n', "\0\n\0\n"]
)
def test_a_file_that_is_no_journal_is_refused(tmp_path, space_file, content):
    (tmp_path / "j").write_text(content)
    with pytest.raises(UsageError, match=r"j is not a study's storage \(\w+\); name another"):
        Study("s", str(tmp_path / "j"), study_facts(space_file))
    assert (tmp_path / "j").read_text() == content


def foreign(storage, directions, attributes, *values):
    """Make a study of the same name that is somebody else's."""
    import optuna

    study = optuna.create_study(study_name="digits", storage=storage, directions=directions)
    for key, value in attributes.items():
        study.set_user_attr(key, value)
    for each in values:
        study.tell(study.ask(), each)


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
@pytest.mark.parametrize(
    ("directions", "attributes", "values"),
    [
        (["maximize"], {}, [0.5]),
        (["maximize"], {}, []),
        (["minimize", "minimize"], {}, []),
        (["maximize", "minimize"], {}, [[0.5, 10]]),
        (["maximize", "minimize"], {"data": "digits"}, [[0.5, 10]]),
        (["maximize", "minimize"], {"owner": "me"}, []),
    ],
)
def test_a_study_of_something_else_is_refused(
    tmp_path, space_file, capsys, kind, directions, attributes, values
):
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    path = tmp_path / "theirs"
    if kind == "journal":
        where = str(path)
        storage = JournalStorage(JournalFileBackend(where))
        foreign(storage, directions, attributes, *values)
    else:
        where = f"sqlite:///{path}"
        storage = RDBStorage(where)
        foreign(storage, directions, attributes, *values)
        storage.remove_session()
        storage.engine.dispose()
    before = path.read_bytes()
    assert main(arguments(tmp_path / "out", space_file, "--storage", where)) == 2
    shown = path if kind == "journal" else "sqlite://…"
    assert capsys.readouterr().err == (
        f"E: Study digits in {shown} was not made by sbnn-hw explore; name another --study\n"
    )
    assert path.read_bytes() == before


def test_a_trial_that_was_given_up_while_it_ran_is_told(tmp_path, space_file, monkeypatch):
    facts = study_facts(space_file)
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "_host", lambda: "another")
        away = Study("s", str(tmp_path / "j"), facts).take(1)
    time.sleep(0.05)
    assert Study("s", str(tmp_path / "j"), facts, stale=0.01).take(1).number == 1
    with pytest.raises(UsageError, match=r"Another process gave up a trial.*use a larger --stale$"):
        away.complete(0.5, 100, {}, 1.0)


def test_no_more_trials_are_taken_than_asked_for(tmp_path, space_file):
    facts = study_facts(space_file)
    workers = [Study("s", str(tmp_path / "j"), facts) for _ in range(2)]
    taken = [workers[n % 2].take(3) for n in range(5)]
    assert [trial and trial.number for trial in taken] == [0, 1, 2, None, None]


def test_of_two_that_ask_at_once_the_second_goes_without(tmp_path, space_file, monkeypatch):
    facts = study_facts(space_file)
    assert Study("s", str(tmp_path / "j"), facts).take(1).number == 0
    # As it was when both of them counted.
    none = dict.fromkeys(COUNTS, 0)
    monkeypatch.setattr(Study, "counts", lambda _: none)
    assert Study("s", str(tmp_path / "j"), facts).take(1) is None
    states = [state for state, *_ in attributes(tmp_path / "j", "s")]
    assert states == ["RUNNING", "FAIL"]


def test_a_silent_trial_of_another_machine_is_run_again(tmp_path, space_file, monkeypatch):
    facts = study_facts(space_file)
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "_host", lambda: "another")
        away = Study("s", str(tmp_path / "j"), facts).take(1)
        away.suggest("width_1", Range(8, 24))
        away.begin("luts 8")
    assert Study("s", str(tmp_path / "j"), facts).take(1) is None
    time.sleep(0.05)
    again = Study("s", str(tmp_path / "j"), facts, stale=0.01).take(1)
    assert again.number == 1
    first, second = attributes(tmp_path / "j", "s")
    assert first[0] == "FAIL"
    assert again.suggest("width_1", Range(8, 24)) == first[1]["width_1"]
    assert second[2]["attempt"] == 2


def test_what_ends_every_process_is_not_tried_for_ever(tmp_path, space_file):
    study = Study("s", str(tmp_path / "j"), study_facts(space_file))
    for _ in range(study_module.ATTEMPTS):
        study.take(1).again()
    states = [state for state, *_ in attributes(tmp_path / "j", "s")]
    assert states == ["FAIL"] * study_module.ATTEMPTS


# Stopping early


def run_trial(study, size, accuracies):
    trial = study.take(1000)
    trial.begin(size)
    for epoch, accuracy in enumerate(accuracies, start=1):
        trial.report(accuracy, epoch, len(accuracies))
    trial.complete(accuracies[-1], 100, {}, 1.0)


def test_only_what_lags_behind_its_own_size_is_stopped(tmp_path, space_file):
    facts = study_facts(space_file)
    study = Study("s", str(tmp_path / "j"), facts)
    for _ in range(study_module.STARTUP):
        run_trial(study, "luts 8", [0.5, 0.6, 0.7, 0.8, 0.9, 0.9])
    run_trial(study, "luts 5", [0.1] * 6)  # small ones are compared with small ones
    run_trial(study, "luts 8", [0.5, 0.65, 0.75, 0.85, 0.9, 0.9])
    with pytest.raises(Pruned):
        run_trial(study, "luts 8", [0.1] * 6)
    patient = Study("s", str(tmp_path / "j"), facts, prune=False)
    run_trial(patient, "luts 8", [0.1] * 6)


def test_long_runs_are_compared_without_a_word_of_optuna(tmp_path, space_file, monkeypatch):
    monkeypatch.setattr(study_module, "HEARTBEAT", 1e9)
    study = Study("s", str(tmp_path / "j"), study_facts(space_file, epochs=100))
    for _ in range(study_module.STARTUP):
        run_trial(study, "luts 8", [0.9] * 100)
    lagging = study.take(1000)
    lagging.begin("luts 8")
    for epoch in range(1, 34):
        lagging.report(0.1, epoch, 100)
    with pytest.raises(Pruned):  # the first one behind a third of the run
        lagging.report(0.1, 34, 100)
    assert (tmp_path / "j").read_text().count('"seen"') == study_module.STARTUP + 1


def test_size_classes_double():
    assert [size_class(n) for n in (0, 1, 2, 3, 4, 1023, 1024)] == [0, 0, 1, 1, 2, 9, 10]


def test_a_stopped_trial_leaves_no_checkpoint(tmp_path, space_file, monkeypatch):
    def lag(*_):
        raise Pruned

    monkeypatch.setattr(study_module.Trial, "report", lag)
    assert main(arguments(tmp_path / "out", space_file, trials=2)) == 0
    result = json.loads((tmp_path / "out" / "front.json").read_text())
    assert (result["trials"]["pruned"], result["front"]) == (2, [])
    assert not list((tmp_path / "out").glob("*.pt"))
    assert not (tmp_path / "out" / "front.svg").exists()


# Budgets and refusals


def test_seconds_shorten_a_run(space_file):
    config = make_config(
        load_space(space_file), pick_by_chance(random.Random(0)), data="digits", epochs=40
    )
    runner = Runner("digits")
    assert runner.epochs_within(config, 1e-6).epochs == 1
    assert runner.epochs_within(config, 1e6).epochs == 40


@pytest.mark.parametrize(
    ("given", "epochs", "most"),
    [
        ([], 10, 10),
        (["--epochs", "3"], 3, 3),
        (["--seconds", "5"], None, 25),  # as many as fit
        (["--seconds", "5", "--epochs", "3"], 3, 3),
    ],
)
def test_seconds_alone_lift_the_limit_of_epochs(
    tmp_path, space_file, monkeypatch, given, epochs, most
):
    trained = []

    def train(_, config, *rest):
        trained.append(config.epochs)
        raise ModelRejected("seen enough")

    def epochs_within(_, config, seconds):
        return replace(config, epochs=min(config.epochs, round(seconds * 5)))

    monkeypatch.setattr(Runner, "train", train)
    monkeypatch.setattr(Runner, "epochs_within", epochs_within)
    words = ["--data", "digits", "--out", tmp_path / "out", "--space", space_file, "--trials", 1]
    assert main(["explore", *map(str, words), *given]) == 1
    assert trained == [most]
    assert json.loads((tmp_path / "out" / "front.json").read_text())["epochs"] == epochs


def test_a_space_in_which_nothing_works_is_refused(tmp_path, space_file, capsys):
    space_file.write_text(TINY.replace("batch = 64", "batch = 5000"))
    assert main(arguments(tmp_path / "out", space_file, trials=19)) == 1
    said = capsys.readouterr().err
    assert said.count("refused: Batch must be at most") == 10
    assert "E: No trial succeeded; the last refusal was: Batch must be at most the 1150" in said


def test_a_few_trials_that_were_all_refused_are_told(tmp_path, space_file, capsys):
    space_file.write_text(TINY.replace("batch = 64", "batch = 5000"))
    for runs in (3, 0):  # the second time there is nothing left to run
        assert main(arguments(tmp_path / "out", space_file, trials=3)) == 1
        said = capsys.readouterr().err
        assert said.count("refused: Batch must be at most") == runs
        assert said.splitlines()[-1] == (
            "E: No trial succeeded; the last refusal was: Batch must be at most the 1150 training "
            "images, not 5000 (fix the search space, and name another --study and --out)"
        )


def test_one_that_went_well_is_enough(tmp_path, space_file):
    space_file.write_text(TINY.replace("batch = 64", "batch = { choices = [64, 5000] }"))
    assert main(arguments(tmp_path / "out", space_file, trials=4)) == 0
    counts = json.loads((tmp_path / "out" / "front.json").read_text())["trials"]
    assert counts["complete"]
    assert counts["refused"]


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--trials", "0"], 2, "--trials must be between 1 and 1000000, not 0"),
        (["--seconds", "nan"], 2, "--seconds must be between 0.001 and 1000000000, not nan"),
        (["--validation", "0"], 2, "--validation must be between 1 and"),
        (["--study", "a/b"], 2, "A study's name must be letters, digits, dots and dashes"),
        (["--data", "nope"], 2, "'nope' is neither a file or folder nor a data set"),
        (["--storage", "nope://user:secret@host/x"], 2, "storage nope://… cannot be used:"),
        (["--storage", str(ROOT)], 2, "is a folder; name a file in it, or a database's URL"),
        (["--storage", str(ROOT / "README.md")], 2, "is not a study's storage"),
    ],
)
def test_refuses_wrong_arguments(tmp_path, space_file, capsys, more, code, says):
    before = (ROOT / "README.md").read_bytes()
    assert main([*arguments(tmp_path / "out", space_file), *more]) == code
    said = capsys.readouterr().err
    assert says in said
    assert "secret" not in said
    assert (ROOT / "README.md").read_bytes() == before


def test_a_database_keeps_a_study_too(tmp_path, space_file):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    for _ in range(2):
        given = arguments(tmp_path / "out", space_file, "--storage", url, trials=1)
        assert main(given) == 0
    result = json.loads((tmp_path / "out" / "front.json").read_text())
    assert result["trials"]["complete"] == 1
    assert checkpoint_name(0) == result["front"][0]["checkpoint"]


def test_an_output_that_cannot_be_written_is_told_first(tmp_path, space_file, capsys):
    (tmp_path / "file").touch()
    assert main(arguments(tmp_path / "file" / "out", space_file)) == OutputRefused.exit_code
    assert "Cannot write" in capsys.readouterr().err


def test_the_shipped_space_searches_over_sizes_encoders_sparsity_and_seeds():
    entries = load_space(SHIPPED).entries
    searched = {name for name, entry in entries.items() if isinstance(entry, Range | Choices)}
    assert searched >= {"depth", "width", "encoder", "levels", "luts", "sparsity", "fan_in", "seed"}
