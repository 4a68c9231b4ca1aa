"""On the whole of MNIST: the trained model and its netlist agree on every hidden bit and class."""

import json

import numpy as np
import pytest
from conftest import ROOT

from sbnn_hw.train import TrainConfig, fold_checkpoint, load_checkpoint
from sbnn_hw.train.fold import fold_model
from sbnn_hw.train.fold_check import check_fold
from sbnn_hw.train.loop import train

DOMAINS = {
    "learned": {"domain": "learned"},
    "learned on a grid": {"domain": "learned", "xi_bits": 8},
    "closed_form": {"domain": "closed_form"},
    "symmetric": {"domain": "symmetric"},
    "bnn": {"domain": "bnn", "ec": 0.5},
    "zero": {"domain": "zero"},
    "signed": {"domain": "signed"},
}


@pytest.mark.parametrize("name", DOMAINS)
def test_every_hidden_bit_and_class_agree_on_all_test_images(tmp_path, mnist, data_root, name):
    options = {"ec": 0.05, "method": "topk", "ec_schedule": "cubic", "epochs": 1, **DOMAINS[name]}
    config = TrainConfig(model="sfc", data="mnist", **options)
    checkpoint = train(config, tmp_path / "ckpt.pt", data_root=data_root)
    folded = fold_model(checkpoint.model, checkpoint.config.shape, drop_unread=False)
    result = check_fold(checkpoint.model, folded, mnist.pixels)
    assert result.exact, result.first
    assert result.images == 10_000
    assert result.bits == 10_000 * 3 * 256
    # Close calls are decided by rationals; they are few, and listed.
    assert len(result.close) < 1000
    if name == "learned":
        assert max(report.k for report in folded.reports) > 8  # ξ is off the grid
    dropped = fold_model(checkpoint.model, checkpoint.config.shape)
    assert np.array_equal(
        dropped.network.compute(mnist.pixels).scores, folded.network.compute(mnist.pixels).scores
    )


@pytest.mark.parametrize(
    ("name", "least", "share"), [("mnist_sfc_95", 0.960, 0.0501), ("mnist_sfc_98", 0.958, 0.0200)]
)
def test_shipped_models_are_what_their_cards_say(mnist, name, least, share):
    path = ROOT / f"models/{name}.pt"
    checkpoint = load_checkpoint(path)
    folded = fold_checkpoint(path)
    assert checkpoint.config.name == "sfc"
    assert checkpoint.config.domain == "learned"
    assert checkpoint.config.xi_bits <= 8
    assert all(report.k <= 8 for report in folded.reports)
    metrics = checkpoint.metrics
    assert metrics["ones"] / metrics["weights"] <= share
    accuracy = folded.network.accuracy(mnist.pixels, mnist.labels)
    assert accuracy >= least
    card = (ROOT / f"models/{name}.md").read_text()
    assert f"| test accuracy of the netlist | {accuracy:.2%} |" in card
    assert f"| ones (U) | {metrics['ones']:,} of {metrics['weights']:,} |" in card
    assert f"| digest | `{folded.network.digest[:16]}` |" in card
    assert check_fold(checkpoint.model, folded, mnist.pixels).exact


@pytest.mark.parametrize("name", ["mnist_sfc_95", "mnist_sfc_98"])
def test_shipped_models_agree_on_the_sample_that_ships_too(name):
    """A hundred of MNIST's test images are in the repository, so that this runs anywhere."""
    from sbnn_hw import datasets

    images = datasets.find("mnist").load("test", ROOT / "tests/data")
    path = ROOT / f"models/{name}.pt"
    folded = fold_checkpoint(path)
    assert check_fold(load_checkpoint(path).model, folded, images.pixels).exact
    assert folded.network.accuracy(images.pixels, images.labels) >= 0.95


def test_shipped_digits_model_is_what_its_card_says():
    from sbnn_hw import datasets

    path = ROOT / "models/digits.pt"
    folded, metrics = fold_checkpoint(path), load_checkpoint(path).metrics
    images = datasets.find("digits").load("test")
    accuracy = folded.network.accuracy(images.pixels, images.labels)
    card = (ROOT / "models/digits.md").read_text()
    assert f"| test accuracy of the netlist | {accuracy:.2%} |" in card
    assert f"| ones (U) | {metrics['ones']:,} of {metrics['weights']:,} |" in card
    assert f"| digest | `{folded.network.digest[:16]}` |" in card
    assert check_fold(load_checkpoint(path).model, folded, images.pixels).exact


def test_agreement_is_not_blind(mnist):
    """One tap moved in a shipped model is seen on the test images."""
    from dataclasses import replace

    from sbnn_hw.netlist import Network, Taps

    path = ROOT / "models/mnist_sfc_98.pt"
    folded = fold_checkpoint(path)
    stages = list(folded.network.stages)
    layer = stages[2].operation
    taps = layer.taps
    # Swap the first tap of the busiest neuron for an input in the middle that it does not have.
    neuron = int(taps.fan_in.argmax())
    own = taps.indices[taps.of(neuron)].tolist()
    other = next(i for i in range(350, 784) if i not in own)
    indices = taps.indices.copy()
    indices[taps.of(neuron)] = sorted([*own[1:], other])
    moved = Taps(taps.width, taps.starts, indices, taps.inverted)
    stages[2] = replace(stages[2], operation=replace(layer, taps=moved))
    faulty = replace(folded, network=Network(folded.network.input, tuple(stages)))
    result = check_fold(load_checkpoint(path).model, faulty, mnist.pixels)
    assert not result.exact
    assert "stage linear0 differs at" in result.first


@pytest.mark.long
def test_paper_loss_reaches_the_target_again(tmp_path, mnist, data_root):
    """The recipe of models/mnist_sfc_95.pt, from the beginning."""
    from sbnn_hw.train.recipes import load_recipe

    config = TrainConfig(**load_recipe("mnist_sfc_95"))
    assert config.method == "penalty"
    train(config, tmp_path / "ckpt.pt", data_root=data_root)
    network = fold_checkpoint(tmp_path / "ckpt.pt").network
    assert network.accuracy(mnist.pixels, mnist.labels) >= 0.96
    rows = [json.loads(line) for line in (tmp_path / "ckpt.log.jsonl").read_text().splitlines()]
    assert len(rows) == config.epochs
