"""Thermometers whose thresholds are learned, and models of real values."""

import sys

import pytest
import torch
from torch import nn

from sbnn_hw import datasets
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train import TrainConfig
from sbnn_hw.train.checkpoint import save_checkpoint
from sbnn_hw.train.fold import fold_checkpoint, fold_model
from sbnn_hw.train.fold_check import check_fold
from sbnn_hw.train.layers import LearnedEncoder
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.trainer import Trainer


@pytest.mark.parametrize(
    ("levels", "thresholds"),
    [
        ([64, 128, 192], (64, 128, 192)),
        ([192, 64, 128], (64, 128, 192)),
        ([100.2, 100.4, 99.9], (100, 101, 102)),
        ([-40, -30, 0], (1, 2, 3)),
        ([254.9, 300, 400], (253, 254, 255)),
    ],
)
def test_thresholds_are_integers_in_order(levels, thresholds):
    encoder = LearnedEncoder((64, 128, 192))
    encoder.levels.data = torch.tensor(levels) / 255
    assert encoder.thresholds == thresholds
    pixels = torch.arange(256).view(256, 1, 1, 1)
    bits = encoder(pixels)
    assert bits.shape == (256, 3, 1, 1)
    expected = torch.tensor([[1.0 if p >= t else -1.0 for t in thresholds] for p in range(256)])
    assert torch.equal(bits.flatten(1), expected)


def test_a_threshold_moves_towards_what_it_is_asked():
    """Pixels of 100 should give a one: the threshold, which starts at 128, comes down."""
    encoder = LearnedEncoder((128,))
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.01)
    for _ in range(20):
        optimiser.zero_grad()
        (-encoder(torch.full((4, 1, 2, 2), 100.0)).sum()).backward()
        optimiser.step()
    assert encoder.thresholds[0] <= 100


def test_gradients_stay_with_their_levels_when_those_change_places():
    encoder = LearnedEncoder((64, 128))
    encoder.levels.data = torch.tensor([200.0, 50.0]) / 255
    bits = encoder(torch.full((1, 1, 1, 1), 55.0))
    bits.sum().backward()
    assert encoder.levels.grad[0] == 0
    assert encoder.levels.grad[1] < 0


def digits():
    return datasets.find("digits").load("train")


@pytest.mark.parametrize("model", ["mlp:16", "conv:4,6p/8"])
def test_what_is_learned_is_folded_exactly(model, tmp_path):
    """The hardware compares with the thresholds that the forward pass used."""
    config = TrainConfig(
        model=model, data="digits", domain="signed", encoder="learned", thresholds=(60, 150),
        method="topk", ec=0.2, epochs=1, batch=64, threads=1, lr=0.03,
    )  # fmt: skip
    trainer = Trainer(config, digits(), classes=10)
    start = trainer.model[0].thresholds
    with Progress(trainer.steps_per_epoch, quiet=True, stream=sys.stderr) as progress:
        trainer.run_epoch(progress)
    learned = trainer.model[0].thresholds
    assert learned != start
    folded = fold_model(trainer.model.eval(), (8, 8, 1), drop_unread=False)
    assert folded.network.stages[0].operation.thresholds.tolist() == [list(learned)]
    found = check_fold(trainer.model, folded, digits().pixels[:300])
    assert found.exact
    save_checkpoint(tmp_path / "ckpt.pt", trainer.checkpoint())
    again = fold_checkpoint(tmp_path / "ckpt.pt").network
    assert again.digest == fold_model(trainer.checkpoint().model, (8, 8, 1)).network.digest


def test_a_real_model_learns_and_teaches_but_is_not_built():
    config = TrainConfig(
        model="conv:8p,16/32", data="digits", domain="real", method="none", epochs=3, batch=32,
        lr=0.01, threads=1,
    )  # fmt: skip
    trainer = Trainer(config, digits(), classes=10)
    with Progress(3 * trainer.steps_per_epoch, quiet=True, stream=sys.stderr) as progress:
        for _ in range(3):
            row = trainer.run_epoch(progress)
    assert row["validation"] > 0.9
    kinds = [type(module) for module in trainer.model]
    assert kinds.count(nn.ReLU) == 3
    with pytest.raises(ModelRejected, match="is a real-valued convolution"):
        fold_model(trainer.model.eval(), (8, 8, 1))
    pupil = TrainConfig(
        model="mlp:16", data="digits", domain="signed", method="topk", ec=0.2, epochs=1, batch=64,
        threads=1,
    )  # fmt: skip
    taught = Trainer(pupil, digits(), classes=10, teacher=trainer.model)
    with Progress(taught.steps_per_epoch, quiet=True, stream=sys.stderr) as progress:
        taught.run_epoch(progress)
    assert build_model(ModelConfig("mlp:16", (8, 8, 1), 10, domain="real"))[0].kind == "integer"
