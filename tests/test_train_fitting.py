"""One call trains as the command does, also layers of one's own; what cannot work is refused first."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sbnn_hw import from_arrays, train
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, OutputRefused, SbnnError
from sbnn_hw.train.defaults import cap_of_scores, choose_defaults
from sbnn_hw.train.fold_check import check_fold

QUICK = {"epochs": 3, "batch": 16, "threads": 1, "quiet": True}


def rows(count=160, seed=0):
    """Return small pictures whose class is where they are bright."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 120, (count, 6, 6), np.uint8)
    y = np.arange(count) % 3
    for number, place in enumerate(y):
        x[number, 2 * place : 2 * place + 2] += 110
    return x, np.array(["top", "middle", "bottom"])[y]


@pytest.fixture(scope="module")
def data():
    return from_arrays(*rows())


def layers(classes=3, *, features=36, domain="signed", **encoder):
    torch.manual_seed(0)
    return nn.Sequential(
        train.InputEncoder(**encoder),
        nn.Flatten(),
        train.SparseBinaryLinear(features, 16, domain=domain),
        train.BatchNorm(16),
        train.SignActivation(),
        train.SparseBinaryScores(16, classes, domain=domain),
    )


def assert_same(model, other):
    state = other.state_dict()
    assert state.keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_the_call_trains_what_the_command_trains(tmp_path):
    x, y = rows()
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    out = tmp_path / "command.pt"
    words = ["--data", tmp_path / "rows.npz", "--luts", "80", "--epochs", "3", "--threads", "1"]
    assert main([str(word) for word in ("train", *words, "--out", out)]) == 0
    expected = train.load_checkpoint(out)
    digest = train.fold_checkpoint(out).network.digest
    for place in (tmp_path / "rows.npz", str(tmp_path / "rows.npz"), from_arrays(x, y)):
        found = train.fit(None, place, luts=80, epochs=3, threads=1, quiet=True)
        assert found.metrics == expected.metrics
        assert found.meaning.columns == expected.meaning.columns
        assert found.meaning.classes == expected.meaning.classes
        # A checkpoint keeps signs, and no latent weights: the networks are the same.
        assert train.fold_checkpoint(found).network.digest == digest
        name = "arrays" if not isinstance(place, str | Path) else str(place)
        assert found.training == {**expected.training, "data": name}


@pytest.mark.parametrize(
    ("domain", "limit"),
    [
        ("signed", {"luts": 60, "fan_in": (6, 8)}),
        ("signed", {"sparsity": 0.8, "method": "topk"}),
        # Latent weights grow far beyond one, where a clipped gradient would end.
        ("learned", {"sparsity": 0.8, "method": "topk", "lr": 0.5}),
        ("learned", {"sparsity": 0.8, "gamma": 0.3}),
    ],
)
def test_layers_of_ones_own_train_as_those_of_a_name(data, domain, limit):
    named = train.fit("mlp:16", data, domain=domain, encoder="threshold", **limit, **QUICK)
    model = layers(domain=domain)
    untouched = copy.deepcopy(model)
    trained = train.fit(model, data, **limit, **QUICK)
    assert trained.model is model
    assert not model.training
    assert_same(model, named.model)
    assert not torch.equal(model[2].weight, untouched[2].weight)
    # Only what is trained changes its gradient, not what was given.
    assert {layer.gradient for layer in (model[2], model[5])} == {"clipped"}


def test_a_budget_needs_nothing_else_and_the_fold_is_exact(data):
    model = layers()
    trained = train.fit(model, data, luts=80, epochs=12, threads=1, quiet=True)
    assert trained.metrics["constraint_met"]
    assert trained.training["fan_in"] == (0, cap_of_scores(80, 3))
    folded = train.fold_checkpoint(trained)
    test = data.load("test")
    assert folded.network.accuracy(test.pixels, test.labels) >= 0.8
    assert folded.network.meaning == data.meaning
    unread = train.fold_model(model, data.shape, drop_unread=False)
    assert check_fold(model, unread, test.pixels).exact


def test_the_sparsity_loss_reaches_its_share(data):
    trained = train.fit(
        layers(domain="learned"), data, sparsity=0.75, epochs=15, threads=1, quiet=True
    )
    assert trained.metrics["constraint_met"]
    assert trained.metrics["ones"] / trained.metrics["weights"] <= 0.2501
    assert trained.training["method"] == "penalty"


def test_columns_get_their_thresholds_from_the_rows():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 16, (200, 4))
    data = from_arrays(x, x[:, 0] > 7)
    encoder = train.ColumnEncoder(4, 3, most=15)
    model = nn.Sequential(
        encoder, nn.Flatten(), train.SparseBinaryScores(12, 2, domain="signed")
    )  # fmt: skip
    before = encoder.table(4)
    train.fit(model, data, luts=60, **QUICK)
    assert encoder.table(4) != before


def test_what_is_written_is_what_was_asked_for(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train.fit("mlp:8", data, sparsity=0.5, **QUICK)
    assert list(tmp_path.iterdir()) == []
    found = train.fit("mlp:8", data, sparsity=0.5, out="a.pt", **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.log.jsonl", "a.log.png", "a.pt", "a.state.pt"),
    ]
    assert len(Path("a.log.jsonl").read_text().splitlines()) == 3
    kept = train.load_checkpoint("a.pt")
    assert kept.metrics == found.metrics
    with pytest.raises(OutputRefused, match=r"a\.pt already exists"):
        train.fit("mlp:8", data, sparsity=0.5, out="a.pt", **QUICK)
    train.fit("mlp:8", data, sparsity=0.5, out="a.pt", replace_out=True, **QUICK)


def test_progress_is_shown_unless_quiet(data, capsys):
    train.fit("mlp:8", data, luts=60, epochs=1, threads=1)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("data        arrays: 160 rows (")
    assert "chosen      ec_schedule cubic" in said.err.replace("domain signed, ", "")
    assert "epoch 1/1: loss " in said.err
    train.fit("mlp:8", data, luts=60, **QUICK)
    assert capsys.readouterr().err == ""


REFUSED = {
    "two limits": ({"luts": 9, "sparsity": 0.5}, r"Give a budget \(luts\) or a sparsity, not both"),
    "sparsity": ({"sparsity": 95}, r"--sparsity must be .* not 95 \(did you mean 0.95\?\)"),
    "no choice": ({"epoch": 3}, r"Training has no choice 'epoch' \(did you mean epochs\?\)"),
    "no option": ({"model_name": 3}, "Training has no choice 'model_name'"),
    "data": ({"split": "80/10/10"}, "arrays: say split where the data are read, not to fit"),
    "its encoder": ({"encoder": "integer"}, "Layers of your own have their encoder already; omit"),
    "out": ({"out": "x.pt"}, r"A checkpoint \(x.pt\) is for models with a name, not for layers"),
    "signed": ({"sparsity": 0.5}, "The sparsity penalty is not defined for signed taps"),
    "budget": ({"luts": 1}, "A budget of 1 LUTs is less than the"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_choices_that_cannot_be_meant_are_refused(data, name):
    choices, sentence = REFUSED[name]
    model = layers()
    before = copy.deepcopy(model)
    with pytest.raises(SbnnError, match=sentence):
        train.fit(model, data, **{"quiet": True, **choices})
    assert_same(model, before)
    assert model.training


MODELS = {
    "classes": (lambda: layers(4), "The model gives 4 scores for an image, but arrays has 3 classes"),
    "size": (lambda: layers(features=30), r"The model does not take images of 6×6×1 \(mat1 and mat2"),
    "bits": (lambda: layers(most=15, thresholds=(8,)), "values up to 15, .* go up to 255; make it w"),
    "relu": (lambda: nn.Sequential(*layers()[:5], nn.ReLU()), "Layer 5 is a ReLU, which cannot be"),
    "real": (lambda: nn.Sequential(*layers()[:5], nn.Linear(16, 3)), "is a real-valued linear layer"),
    "encoder": (lambda: layers()[1:], "The first layer must be an InputEncoder, not Flatten"),
    "nothing": (lambda: nn.Sequential(train.InputEncoder(), nn.Flatten()), "no sparse binary layer"),
    "module": (lambda: nn.ModuleList([nn.ReLU()]), "must be an nn.Sequential to be folded"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_that_cannot_be_trained_or_folded_are_refused_first(data, name):
    make, sentence = MODELS[name]
    with pytest.raises(ModelRejected, match=sentence):
        train.fit(make(), data, luts=60, **QUICK)


def test_what_is_no_data_and_no_named_model_is_refused(data, tmp_path):
    with pytest.raises(TypeError, match="Data must come from from_arrays or open_data"):
        train.fit("mlp:8", np.zeros((3, 3)), luts=60)
    with pytest.raises(SbnnError, match="Training on digits needs a model, such as 'mlp:64,64'"):
        train.fit(None, "digits", luts=60)
    with pytest.raises(SbnnError, match=r"A checkpoint's name must end in \.pt, not 'a\.bin'"):
        train.fit("mlp:8", data, luts=60, out="a.bin", **QUICK)
    trained = train.fit(layers(), data, luts=60, **QUICK)
    with pytest.raises(SbnnError, match="Checkpoints are for models with a name"):
        train.save_checkpoint(tmp_path / "own.pt", trained)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("side", [8, 13, 14, 18, 19, 39, 40])
def test_pictures_of_every_size_get_a_model_that_can_be_made(side):
    rng = np.random.default_rng(side)
    data = from_arrays(rng.integers(0, 256, (40, side, side), np.uint8), np.arange(40) % 2)
    chosen = choose_defaults(data, {})
    config = train.TrainConfig(data="arrays", **chosen)
    model = train.build_model(config.model_config(data.shape, data.classes))
    assert model.eval()(torch.zeros(1, 1, side, side)).shape == (1, 2)


@pytest.mark.parametrize("luts", [0, -5])
def test_a_budget_of_no_tables_is_refused_before_a_model_is_chosen(luts):
    data = from_arrays(np.zeros((40, 20, 20), np.uint8), np.arange(40) % 2)
    with pytest.raises(SbnnError, match=rf"^--luts must be 1 or more, not {luts}$"):
        choose_defaults(data, {"luts": luts})


def test_small_data_are_trained_by_one_thread_unless_told():
    few = from_arrays(np.zeros((40, 20, 20), np.uint8), np.arange(40) % 2)
    many = from_arrays(np.zeros((22_000, 31, 31), np.uint8), np.arange(22_000) % 2)
    assert choose_defaults(few, {})["threads"] == 1
    assert "threads" not in choose_defaults(few, {"threads": 2})
    assert "threads" not in choose_defaults(many, {})
