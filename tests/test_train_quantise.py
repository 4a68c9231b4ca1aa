"""`sbnn-hw quantise`: real-valued streams become integers, and what that changes is told."""

import json
import random
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from integer_reference import Reference
from test_train_authors import make_reactnet18, make_reactnet_a, make_resnet18, write
from test_train_integers import compare, plan_of, random_model

from sbnn_hw import datasets
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.train import TrainConfig, load_checkpoint, save_checkpoint
from sbnn_hw.train.authors import convert
from sbnn_hw.train.checkpoint import Checkpoint, begin_from, used_values
from sbnn_hw.train.data import TensorImages, to_tensors
from sbnn_hw.train.loop import train
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.quantise import count_clamped, quantise

FLOAT = TrainConfig(
    model="resnet:4,8x1", data="digits", ec=0.4, method="topk", epochs=3, batch=64, lr=0.01,
    recalibrate=300, validation=100,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("float") / "a.pt"
    train(FLOAT, path)
    return path


@pytest.fixture(scope="module")
def digits():
    return to_tensors(datasets.find("digits").load("train"))


def run(capsys, *words):
    code = main([str(word) for word in words])
    return code, capsys.readouterr()


def test_the_command_tells_what_has_changed(trained, tmp_path, capsys):
    out = tmp_path / "b.pt"
    words = ("quantise", "--model", trained, "--data", "digits", "--out", out, "--recalibrate", 300)
    code, said = run(capsys, *words)
    assert code == 0
    lines = said.out.splitlines()
    assert lines[0] == f"checkpoint  {out}"
    assert lines[1] == "integers    streams of 8 bits, weights of 8"
    assert lines[2].startswith(
        "ξ           moved to multiples of 2^-8 in 4 layers, by at most 0.00"
    )
    code, said = run(capsys, *words, "--json")
    found = json.loads(said.out)
    assert lines[3] == (
        f"accuracy    {found['accuracy_before']:.2%} before, {found['accuracy_after']:.2%} after"
    )
    assert lines[4] == f"changed     {found['changed']:,} of 360 images are in another class"
    names = ["bn1", "layer1.0.bn2", "layer2.0.bn2", "layer2.0.shortcut.1"]
    assert [stream["name"] for stream in found["streams"]] == names
    assert [line.split()[0] for line in lines[7:]] == names
    assert found["streams"][1]["fraction"] == 7  # behind a hardtanh
    # What was measured is what eval measures.
    for model, key in ((trained, "accuracy_before"), (out, "accuracy_after")):
        _, said = run(
            capsys, "eval", "--model", model, "--data", "digits", "--using", "torch", "--json"
        )
        assert json.loads(said.out)["accuracy"] == pytest.approx(found[key])
    # Where ξ was is known exactly.
    before, after = load_checkpoint(trained), load_checkpoint(out)
    for name, by in found["xi_moved"].items():
        xi = before.model.get_submodule(name).domain.exact().xi
        assert by == pytest.approx(float(abs(Fraction(round(xi * 256), 256) - xi)))
        assert after.model.get_submodule(name).domain.exact().xi == Fraction(round(xi * 256), 256)
    pixels = to_tensors(datasets.find("digits").load("test")).pixels[:3].float()
    assert compare(after.model, after.config, pixels)[0] == 0


def test_clamped_values_are_counted(trained, digits):
    made = quantise(load_checkpoint(trained), digits, stream_bits=3, images=50).checkpoint
    pixels = digits.pixels[:3].float()
    with count_clamped(made.model) as streams, torch.no_grad():
        made.model(pixels)
    reference = Reference(made.config, used_values(made.model))
    for image in pixels.numpy():
        reference.scores(image, plan_of(made.config))
    found = {f"{s.name}.affine": (s.clamped, s.values) for s in streams}
    assert found == reference.clamped
    assert sum(clamped for clamped, _ in found.values()) > 20
    # Nothing is counted from then on.
    assert all(m.clamped is None for m in made.model.modules() if hasattr(m, "clamped"))


def test_quantised_again_it_is_the_same(trained, digits):
    once = quantise(load_checkpoint(trained), digits, images=200).checkpoint
    twice = quantise(once, digits, images=200).checkpoint
    one, two = used_values(once.model), used_values(twice.model)
    assert all(torch.equal(one[key], two[key]) for key in one)
    coarse = quantise(once, digits, images=200, xi_bits=3)
    assert max(coarse.moved.values()) > 1e-3
    assert coarse.checkpoint.config.xi_bits == 3


def test_training_starts_from_it(trained, digits, tmp_path):
    made = quantise(load_checkpoint(trained), digits, images=200).checkpoint
    path = tmp_path / "b.pt"
    save_checkpoint(path, made)
    model = build_model(made.config)
    begin_from(model, path)
    one, two = used_values(made.model), used_values(model)
    assert all(torch.equal(one[key], two[key]) for key in one)
    tuned = train(
        replace(FLOAT, stream_bits=8, xi_bits=8, start=str(path), lr=1e-4), tmp_path / "c.pt"
    )
    assert tuned.metrics["validation"] > 0.25
    # And from real values, whose ξ is not on a grid.
    fresh = build_model(made.config)
    begin_from(fresh, trained)
    assert torch.equal(fresh.conv1.weight, made.model.conv1.weight)


def test_build_says_to_quantise(trained, tmp_path, capsys):
    for words in (
        ("build", "--model", trained, "--board", "arty_a7", "--out", tmp_path / "build"),
        ("fold", "--model", trained, "--out", tmp_path / "a.sbnn"),
    ):
        code, said = run(capsys, *words)
        assert code == 1
        assert said.err.splitlines()[-1] == (
            f"E: {trained}: Layer conv1 is a real-valued convolution; make its streams integers "
            f"with `sbnn-hw quantise` before it is built (evaluate with --using torch, count with "
            f"info)"
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stream-bits", 1), "--stream-bits must be between 2 and 16, not 1"),
        (("--stream-bits", 17), "--stream-bits must be between 2 and 16, not 17"),
        (("--weight-bits", 9), "--weight-bits must be between 2 and 8, not 9"),
        (("--xi-bits", 0), "--xi-bits must be between 1 and 16, not 0"),
        (("--images", 0), "--images must be between 1 and 1000000000, not 0"),
        (("--stream-bits", 0), "--stream-bits must be between 2 and 16, not 0"),
        (
            ("--stream-bits", "x"),
            ("Argument --stream-bits: invalid int value: 'x' (see sbnn-hw quantise --help)"),
        ),
        (("--weight-bits", 1), "--weight-bits must be between 2 and 8, not 1"),
        (("--xi-bits", 17), "--xi-bits must be between 1 and 16, not 17"),
        (("--model", "a.sbnn"), "The model to quantise must be a checkpoint (.pt), not 'a.sbnn'"),
        (("--out", "b.onnx"), "A checkpoint's name must end in .pt, not 'b.onnx'"),
    ],
)
def test_bad_options_are_one_sentence(trained, tmp_path, capsys, words, message):
    command = ("quantise", "--model", trained, "--data", "digits", "--out", tmp_path / "b.pt")
    code, said = run(capsys, *command, *words)
    assert code == 2
    assert said.err == f"E: {message}\n"
    assert not (tmp_path / "b.pt").exists()


def test_data_of_another_shape_are_refused(tmp_path, capsys):
    for choices, shape in (({"classes": 7}, "8×8×1 in 7"), ({"shape": (9, 9, 1)}, "9×9×1 in 10")):
        path = tmp_path / "a.pt"
        save_checkpoint(path, made_of(**choices))
        command = ("quantise", "--model", path, "--data", "digits", "--out", tmp_path / "b.pt")
        code, said = run(capsys, *command)
        assert code == 1
        assert said.err == (
            f"E: {path} takes images of {shape} classes, but digits has 8×8×1 in 10\n"
        )


def test_no_data_are_named(trained, tmp_path, capsys):
    code, said = run(capsys, "quantise", "--model", trained, "--out", tmp_path / "b.pt")
    assert code == 2
    assert said.err == (
        "E: The following arguments are required: --data (see sbnn-hw quantise --help)\n"
    )


def made_of(**choices):
    config = ModelConfig(**{"name": "resnet:4x1", "shape": (8, 8, 1), "classes": 10, **choices})
    return Checkpoint(config, build_model(config).eval())


def test_what_has_no_streams_is_refused(digits):
    for choices, kind, text in (
        ({"name": "digits"}, ModelRejected,
         "^Model digits has no streams to quantise; build it as it is$"),
        ({"domain": "real"}, ModelRejected,
         (r"^Layer layer1\.0\.conv1 is a convolution of signs with real weights, which has no "
         r"integers; train it with binary weights")),
        ({"domain": "signed"}, UsageError,
         "^Weights of the domain signed have a ξ that is on a grid already; omit --xi-bits$"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            quantise(made_of(**choices), digits, xi_bits=4)
    checkpoint = made_of()
    with torch.no_grad():
        checkpoint.model.layer1[0].conv2.domain.tau.zero_()
    with pytest.raises(ModelRejected, match=r"^Layer layer1\.0\.conv2: η is zero, so all its"):
        quantise(checkpoint, digits)
    with torch.no_grad():
        checkpoint.model.layer1[0].conv2.domain.tau.fill_(1e-4)
        checkpoint.model.layer1[0].conv2.domain.phi.fill_(1.0)
    with pytest.raises(ModelRejected, match=r"^Layer layer1\.0\.conv2: ξ is 4999\.5, too large"):
        quantise(checkpoint, digits)


@pytest.mark.parametrize("domain", ["closed_form", "signed", "zero", "symmetric", "bnn"])
def test_every_domain_has_integers(digits, domain):
    made = quantise(made_of(domain=domain), digits, images=50).checkpoint
    assert made.config.domain == ("learned" if domain == "closed_form" else domain)
    assert compare(made.model, made.config, digits.pixels[:2].float())[0] == 0


AUTHORS = [
    ("resnet18", "cifar10", make_resnet18),
    ("reactnet18", "cifar100", make_reactnet18),
    pytest.param("reactnet_a", "imagenet", make_reactnet_a, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("name", "data", "make"), AUTHORS)
def test_the_authors_files_become_integers(tmp_path, name, data, make):
    """Their layout, random weights and batch norms: every value is the reference's."""
    base = 2
    path = write(tmp_path / "theirs.pth", name, make(base, classes=7))
    checkpoint = convert(path, name, data).checkpoint
    rng = random.Random(name)
    height, width, channels = checkpoint.config.shape
    seed = torch.Generator().manual_seed(rng.randrange(1000))
    pixels = torch.randint(0, 256, (4, channels, height, width), generator=seed).byte()
    images = TensorImages(pixels, torch.zeros(4).long())
    made = quantise(checkpoint, images, images=4).checkpoint
    save_checkpoint(tmp_path / "b.pt", made)
    loaded = load_checkpoint(tmp_path / "b.pt")
    different, count = compare(loaded.model, loaded.config, pixels[:1].float())
    assert different == 0
    assert count > 5000


def test_random_models_survive_their_file(tmp_path):
    for seed in range(3):
        model, config, pixels = random_model(random.Random(f"file {seed}"), "reactnet_a")
        save_checkpoint(tmp_path / "a.pt", Checkpoint(config, model))
        loaded = load_checkpoint(tmp_path / "a.pt")
        assert compare(loaded.model, config, pixels)[0] == 0
