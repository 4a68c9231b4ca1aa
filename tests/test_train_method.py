"""The ways to sparsity: what each leaves of the weights, and when it has done enough."""

import pytest
import torch
import torch.nn.functional as F

from sbnn_hw.train import TrainConfig, build_model
from sbnn_hw.train.config import METHODS
from sbnn_hw.train.method import make_method
from sbnn_hw.train.schedule import Schedule
from sbnn_hw.train.sparsity import ones_share
from sbnn_hw.train.trainer import Trainer

RUN = {"model": "mlp:20", "data": "digits", "ec": 0.1, "batch": 64}
LUTS = {"luts": 250, "fan_in": (6, 10), "domain": "zero"}


def made(method, **more):
    """Return a method for an untrained network, as it is at the end of a run of 100 steps."""
    config = TrainConfig(**RUN, method=method, **(LUTS if method == "luts" else {}), **more)
    torch.manual_seed(0)
    model = build_model(config.model_config((8, 8, 1), 10))
    return make_method(Schedule(config, 100), model, 1)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_settled_meets_the_constraint(method):
    found = made(method)
    before = ones_share(found.layers)
    found.settle(100)
    row = {"ones": ones_share(found.layers), **found.facts()}
    # The penalty works through the gradients alone, and without a method all is well.
    assert found.met(row) == (method != "penalty")
    assert (row["ones"] < before) == (method in ("topk", "luts"))


@pytest.mark.parametrize(
    ("method", "row", "more", "says"),
    [
        ("topk", {"ones": 0.1}, {"ones": 0.11}, "the share of ones never fell to 0.1; raise"),
        ("penalty", {"ones": 0.1}, {"ones": 0.11}, "the share of ones never fell to 0.1; raise"),
        ("luts", {"luts": 250}, {"luts": 250.5}, "the budget of 250 LUTs was never met; raise"),
    ],
)
def test_a_constraint_that_is_not_met_is_told(method, row, more, says):
    found = made(method)
    assert found.met(row)
    assert not found.met(more)
    assert found.unmet().startswith(says)


@pytest.mark.parametrize("method", METHODS)
def test_only_the_penalty_is_added_to_the_loss(method):
    found = made(method)
    loss = torch.tensor(2.0)
    assert (found.penalty(0, loss).item() > 0) == (method == "penalty")


def test_latents_are_clamped_by_the_penalty_and_free_with_top_k(digits):
    for method, clamped in (("penalty", True), ("topk", False)):
        config = TrainConfig(**RUN, method=method, lr=0.5, epochs=1)
        trainer = Trainer(config, digits, classes=10)
        pixels = trainer.images.pixels[:64].float()
        targets = F.one_hot(trainer.images.labels[:64], 10).float()
        for step in range(12):
            trainer.step(step, pixels, targets)
        largest = max(layer.weight.abs().max().item() for layer in trainer.layers)
        assert (largest <= 1.5) == clamped
