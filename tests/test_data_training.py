"""From data of one's own to hardware: same rows, same weights; every bit compared."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from test_data import pictures, write_csv, write_folder

from sbnn_hw.cli import main
from sbnn_hw.data import standalone as scaling
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import from_arrays, open_own
from sbnn_hw.netlist import load, save
from sbnn_hw.train.checkpoint import load_checkpoint
from sbnn_hw.train.columns import ColumnEncoder
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.fold import fold_checkpoint
from sbnn_hw.train.fold_check import check_fold
from sbnn_hw.train.loop import train
from sbnn_hw.zoo.network import open_model
from sbnn_hw.zoo.setup import Setup


def run(*words):
    return main([str(word) for word in words])


FEW = ("--model", "mlp:12", "--sparsity", "0.8", "--method", "topk", "--epochs", "3", "--batch",
       "16", "--threads", "1", "--encoder", "thermometer")  # fmt: skip


def test_the_same_rows_give_the_same_weights(tmp_path):
    x, labels = pictures(120)
    np.savez(tmp_path / "pets.npz", x=x, y=labels)
    forms = {
        "folder": (write_folder(tmp_path / "pets", x, labels),),
        "npz": (tmp_path / "pets.npz",),
        "csv": (write_csv(tmp_path / "pets.csv", x, labels), "--label", "animal", "--size", "6x6"),
    }
    values = {}
    for name, data in forms.items():
        out = tmp_path / f"{name}.pt"
        assert run("train", "--data", *data, *FEW, "--out", out) == 0
        values[name] = load_checkpoint(out)
    own = from_arrays(x, labels)
    # What the command chose for such data where nothing was said.
    config = TrainConfig(**{**values["npz"].training, "data": "arrays"})
    train(config, tmp_path / "arrays.pt", data=own)
    values["arrays"] = load_checkpoint(tmp_path / "arrays.pt")
    first, *others = values.values()
    for other in others:
        assert other.meaning.classes == first.meaning.classes == ("cat", "dog")
        state = other.model.state_dict()
        for key, value in first.model.state_dict().items():
            assert torch.equal(state[key], value), key


def table(rows=300, seed=0):
    """Return rows of numbers, a name among them, whose class depends on them."""
    rng = np.random.default_rng(seed)
    size, weight = rng.normal(5, 2, rows), rng.normal(100, 30, rows)
    colour = rng.choice(["red", "blue"], rows)
    good = size + 2 * (colour == "red") > 6
    lines = ["size,weight,colour,unused,class"]
    lines += [
        f"{s:.3f},{w:.2f},{c},7,{'good' if g else 'bad'}"
        for s, w, c, g in zip(size, weight, colour, good, strict=True)
    ]
    return "\n".join(lines) + "\n"


def test_a_table_goes_all_the_way_to_hardware(tmp_path, capsys):
    csv = tmp_path / "things.csv"
    csv.write_text(table())
    ckpt, net = tmp_path / "things.pt", tmp_path / "things.sbnn"
    assert run("train", "--data", csv, "--label", "class", "--luts", "60", "--epochs", "25",
               "--threads", "1", "--out", ckpt) == 0  # fmt: skip
    said = capsys.readouterr().err
    assert "300 rows (240 to train, 30 to choose by, 30 to test), 2 classes (bad" in said
    assert "chosen " in said
    assert "encoder quantile" in said
    # The column of classes and the split are known from the checkpoint.
    assert run("fold", "--model", ckpt, "--data", csv, "--out", net) == 0
    assert "hidden bits and 30 classes are those of torch" in capsys.readouterr().out
    assert load(net).meaning == load_checkpoint(ckpt).meaning
    assert load(net).digest == fold_checkpoint(ckpt).network.digest
    assert run("eval", "--model", net, "--data", csv, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == 30
    assert found["accuracy"] >= 0.8
    out = tmp_path / "build"
    assert run("build", "--model", ckpt, "--part", "xc7a35ticsg324-1L", "--until", "simulation",
               "--out", out, "--json") == 0  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert report["accuracy"] == found["accuracy"]
    assert report["agreement"]["mismatches"] == 0
    assert report["agreement"]["vectors"] == 30
    assert report["output"]["names"] == ["bad", "good"]
    assert "bad taken for" in (out / "report.html").read_text() or found["accuracy"] == 1
    verdict = json.loads((out / "agreement.json").read_text())
    assert verdict["accuracy"] == found["accuracy"]
    assert verdict["classes"] == ["bad", "good"]
    # A column that says nothing is not read, and takes no hardware.
    names = [column.name for column in load(net).meaning.columns]
    assert names == ["size", "weight", "colour=blue", "colour=red", "unused"]
    read = load(net).read[0].reshape(len(names), -1).any(axis=1)
    assert read[names.index("size")]
    assert not read[names.index("unused")]
    # What is exported makes the same integers of the table's own cells.
    form = scaling.load(out / "input_format.json")
    cells = [line.split(",")[:-1] for line in csv.read_text().splitlines()[1:]]
    network = load(net)
    made = np.array([scaling.integers(row, form) for row in cells], np.uint8)
    own = open_own(csv, DataOptions(label="class")).parts
    answers = network.compute(made.reshape(len(made), *network.input.shape)).classes
    assert {row.tobytes() for row in made} == {
        row.tobytes() for images in own.values() for row in images.pixels
    }
    names = [line.rsplit(",")[-1] for line in csv.read_text().splitlines()[1:]]
    right = np.mean([form["classes"][n] == name for n, name in zip(answers, names, strict=True)])
    assert right >= 0.8
    # Names are not in the network's digest, but what shows them is made again.
    meaning = replace(network.meaning, classes=("schlecht", "gut"))
    save(replace(network, meaning=meaning), tmp_path / "other.sbnn")
    assert run("build", "--model", tmp_path / "other.sbnn", "--part", "xc7a35ticsg324-1L",
               "--until", "simulation", "--out", out, "--json") == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["output"]["names"] == ["schlecht", "gut"]
    assert json.loads((out / "agreement.json").read_text())["classes"] == ["schlecht", "gut"]
    assert scaling.load(out / "input_format.json")["classes"] == ["schlecht", "gut"]
    # A bench measures on what it is told to.
    copy = tmp_path / "copy.csv"
    copy.write_text(csv.read_text())
    setup = Setup(tmp_path / "work", {}, lambda *_: None, data=str(copy))
    _, facts, _, images = open_model(ckpt, setup)
    assert (facts.data, len(images)) == (str(copy), 30)
    # Another table with other columns is refused.
    other = tmp_path / "other.csv"
    other.write_text(csv.read_text().replace("weight", "mass"))
    assert run("eval", "--model", net, "--data", other) == 5
    assert "has no column 'weight', with which the model was trained" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bits", "encoder"), [(12, "quantile"), (3, "integer"), (16, "learned_quantile")]
)
def test_values_of_any_width_are_folded_exactly(tmp_path, bits, encoder):
    rng = np.random.default_rng(bits)
    x, y = rng.normal(size=(200, 5)), np.arange(200) % 3
    x[:, 1] += y
    own = from_arrays(x, y, input_bits=bits, scaling="affine")
    config = TrainConfig(
        model="mlp:16", data="arrays", domain="signed", method="topk", ec=0.3, epochs=4, batch=16,
        encoder=encoder, planes=0 if encoder == "integer" else 6, threads=1,
    )  # fmt: skip
    train(config, tmp_path / "own.pt", data=own)
    folded = fold_checkpoint(tmp_path / "own.pt")
    assert folded.network.input.bits == bits
    model = load_checkpoint(tmp_path / "own.pt").model
    pixels = np.concatenate([images.pixels for images in own.parts.values()])
    assert check_fold(model, folded, pixels).exact


def test_a_signal_is_convolved_along_its_length(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = rng.normal(size=(120, 20, 2)) + 2 * y[:, None, None] * np.sin(np.arange(20))[None, :, None]
    own = from_arrays(x, y)
    config = TrainConfig(
        model="conv:6k3p,8k3s2/10", data="arrays", domain="signed", method="topk", ec=0.3,
        epochs=6, batch=16, encoder="quantile", planes=3, threads=1,
    )  # fmt: skip
    train(config, tmp_path / "own.pt", data=own)
    folded = fold_checkpoint(tmp_path / "own.pt")
    kernels = [getattr(s.operation, "window", None) for s in folded.network.stages]
    assert [w.kernel for w in kernels if w is not None] == [(1, 3), (1, 2), (1, 3)]
    model = load_checkpoint(tmp_path / "own.pt").model
    assert check_fold(model, folded, own.parts["train"].pixels).exact


def test_thresholds_are_where_values_are():
    encoder = ColumnEncoder(2, 3, most=63)
    first = torch.tensor([0.0] * 50 + [10.0] * 25 + [20.0] * 25)
    second = torch.arange(100.0) * 0.6
    encoder.place(torch.stack([first, second.floor()], 1)[..., None, None])
    low, high = encoder.table(2)
    assert {10, 20} <= set(low)
    assert high == sorted(high)
    assert [abs(a - b) < 3 for a, b in zip(high, (15, 30, 45), strict=True)] == [True] * 3
    bits = encoder(torch.tensor([[10.0, 30.0]])[..., None, None])
    assert bits.shape == (1, 6, 1, 1)
    assert (bits > 0).flatten().tolist() == [
        *[t <= 10 for t in low],
        *[t <= 30 for t in high],
    ]


def test_options_say_how_data_are_read():
    assert TrainConfig(model="m", data="d", label="y", gray=True).data_options == DataOptions(
        label="y", gray=True
    )
    # The two lists of fields are kept side by side.
    given = {field.name: field.default for field in fields(DataOptions)}
    kept = {field.name: field.default for field in fields(TrainConfig) if field.name in given}
    assert kept == given
