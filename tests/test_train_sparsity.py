"""The sparsity loss by its definition, its schedule, and top-k."""

import pytest
import torch

from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.layers import SparseBinaryLinear
from sbnn_hw.train.sparsity import (
    TOLERANCE,
    SparsityPenalty,
    TopK,
    count_weights,
    ones_share,
    scheduled_ec,
)
from sbnn_hw.train.trainer import Trainer


def layers_with(*shares, domain="learned"):
    torch.manual_seed(0)
    layers = []
    for share in shares:
        layer = SparseBinaryLinear(50, 20, domain=domain)
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(share - 1, share, 1000).view(20, 50))
        layers.append(layer)
    return layers


@pytest.mark.parametrize("gamma", [0.02, 0.3, 0.5, 0.9])
def test_penalty_is_gamma_of_the_whole_at_every_step_of_a_training(digits, gamma):
    config = TrainConfig(
        model="digits", data="digits", ec=0.1, gamma=gamma, epochs=4, batch=64, lr=0.05
    )
    trainer = Trainer(config, digits, classes=10)
    seen = {"above": 0, "below": 0}
    step = 0
    for epoch in range(config.epochs):
        for pixels, targets in trainer.images.batches(
            64, classes=10, seed=0, epoch=epoch, augmentation=config.augmentation
        ):
            excess = ones_share(trainer.layers) - config.ec
            result = trainer.step(step, pixels, targets)
            loss, penalty = result["loss"].item(), result["penalty"].item()
            if excess > TOLERANCE:
                seen["above"] += 1
                assert penalty / (loss + penalty) == pytest.approx(gamma, rel=1e-5)
            else:
                seen["below"] += 1
                assert penalty == 0
            step += 1
    assert seen["above"] >= 3
    if gamma == 0.9:
        assert seen["below"] > 0


def test_penalty_counts_over_all_layers_together():
    """One layer far below the constraint makes up for another above it."""
    layers = layers_with(0.01, 0.09)
    assert ones_share(layers) == pytest.approx(0.05, abs=1e-3)
    loss = torch.tensor(2.0)
    assert SparsityPenalty(0.5)(layers, 0.06, loss).item() == 0
    assert SparsityPenalty(0.5)(layers, 0.04, loss).item() == pytest.approx(2.0)


def test_penalty_pushes_every_weight_down_alike():
    layers = layers_with(0.3)
    loss = torch.tensor(1.5)
    penalty = SparsityPenalty(0.4)(layers, 0.1, loss)
    penalty.backward()
    excess = ones_share(layers) - 0.1
    factor = 0.4 * 1.5 / (0.6 * excess)
    assert layers[0].weight.grad.min().item() == pytest.approx(factor / 2 / 1000, rel=1e-5)
    assert layers[0].weight.grad.max().item() == layers[0].weight.grad.min().item()


def test_penalty_ends_at_the_tolerance():
    layers = layers_with(0.3)
    share = ones_share(layers)
    assert SparsityPenalty(0.5)(layers, share - 0.5 * TOLERANCE, torch.tensor(1.0)).item() == 0
    assert SparsityPenalty(0.5)(layers, share - 2 * TOLERANCE, torch.tensor(1.0)).item() > 0


def test_gamma_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"^Gamma must be at least 0 and below 1, not 1\.0$"):
        SparsityPenalty(1.0)


def test_cubic_schedule_falls_from_a_half_to_the_constraint():
    values = [scheduled_ec(0.05, p / 20, schedule="cubic") for p in range(21)]
    assert values[0] == 0.5
    assert values == sorted(values, reverse=True)
    assert values[10:] == [0.05] * 11
    assert scheduled_ec(0.05, 0.25, schedule="cubic") == pytest.approx(0.05 + 0.45 / 8)
    assert scheduled_ec(0.05, 0.0, schedule="constant") == 0.05


@pytest.mark.parametrize("domain", ["learned", "signed"])
@pytest.mark.parametrize("ec", [0.001, 0.05, 0.3, 1.0])
def test_projection_meets_the_constraint_exactly_even_with_ties(domain, ec):
    torch.manual_seed(0)
    layers = [SparseBinaryLinear(30, 30, domain=domain) for _ in range(3)]
    with torch.no_grad():
        for layer in layers:
            # Few distinct values: most of the weights at the cut are tied.
            values = torch.randint(1, 6, (30, 30)) / 4 * torch.randn(30, 30).sign()
            layer.weight.copy_(values)
    TopK().project(layers, ec)
    ones = sum(int(layer.ones()) for layer in layers)
    assert ones == max(1, int(ec * count_weights(layers) + 1e-9))


def test_top_k_keeps_the_largest_of_all_layers():
    layers = layers_with(0.2, 0.5)
    TopK().refresh(layers, 0.1)
    # The second layer's latents lie higher, so it gets them all.
    assert [int(layer.ones()) for layer in layers] == [0, 200]
