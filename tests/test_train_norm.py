"""Batch norm as torch has it, scales that are fixed, and statistics computed anew."""

import pytest
import torch
from torch import nn

from sbnn_hw.train.layers import SignActivation, SparseBinaryConv2d, SparseBinaryLinear
from sbnn_hw.train.norm import BatchNorm, recompute_statistics


@pytest.mark.parametrize("shape", [(8, 3), (8, 3, 4, 5)])
def test_equals_torchs(shape):
    torch.manual_seed(0)
    ours, theirs = BatchNorm(3), (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(3)
    for _ in range(3):
        x = torch.randn(shape)
        assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.running_var, theirs.running_var)
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


def test_fixed_scales_are_not_learned():
    assert BatchNorm(4, scale="alternating").weight.tolist() == [1, -1, 1, -1]
    assert BatchNorm(2, scale="unit").weight.tolist() == [1, 1]
    assert [n for n, _ in BatchNorm(4, scale="alternating").named_parameters()] == ["bias"]
    with pytest.raises(ValueError, match=r"^Scale must be one of learned, unit, alternating, not"):
        BatchNorm(4, scale="minus")


def test_statistics_are_those_of_the_whole_set_layer_by_layer():
    torch.manual_seed(0)
    model = nn.Sequential(
        SparseBinaryConv2d(2, 4, 3, domain="bnn"), BatchNorm(4), SignActivation(), nn.Flatten(),
        SparseBinaryLinear(4 * 8, 6, domain="bnn"), nn.BatchNorm1d(6), SignActivation(),
    )  # fmt: skip
    x = torch.where(torch.randn(70, 2, 4, 6) > 0, 1.0, -1.0)
    with torch.no_grad():
        model[1].running_mean.fill_(99.0)
        model[5].running_var.fill_(99.0)
    recompute_statistics(model, lambda: iter(x.split(16)))
    assert model.training
    model.eval()
    with torch.no_grad():
        first = model[0](x)
        second = model[:5](x)  # with the new statistics of the first
    assert torch.allclose(model[1].running_mean, first.mean((0, 2, 3)), atol=1e-5)
    assert torch.allclose(model[1].running_var, first.transpose(0, 1).flatten(1).var(1), rtol=1e-5)
    assert torch.allclose(model[5].running_mean, second.mean(0), atol=1e-5)
    assert torch.allclose(model[5].running_var, second.var(0), rtol=1e-5)
