"""Layers read like PyTorch's and compute what their weights say."""

import pytest
import torch
import torch.nn.functional as F

from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLinear,
    SparseBinaryScores,
)


def test_linear_uses_two_values():
    layer = SparseBinaryLinear(20, 7, domain="learned")
    layer.domain.phi.data.fill_(0.25)
    x = torch.randn(3, 20)
    weights = torch.where(layer.weight >= 0, 1.25, -0.75)
    assert torch.allclose(layer(x), x @ weights.T, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_pads_with_minus_one_or_zero(groups, stride):
    x = torch.where(torch.randn(2, 4, 5, 6) > 0, 1.0, -1.0)
    for value in (-1, 0):
        layer = SparseBinaryConv2d(
            4, 6, 3, stride=stride, padding=1, padding_value=value, groups=groups, domain="bnn"
        )
        padded = F.pad(x, (1, 1, 1, 1), value=float(value))
        expected = F.conv2d(padded, layer.binary_weight(), stride=stride, groups=groups)
        assert torch.equal(layer(x), expected)


def test_signed_taps_are_cut_by_magnitude():
    layer = SparseBinaryLinear(4, 1, domain="signed")
    layer.weight.data.copy_(torch.tensor([[0.9, -0.9, 0.1, -0.1]]))
    layer.cut.fill_(0.5)
    assert layer.signs().tolist() == [[1, -1, 0, 0]]
    assert layer.ones().item() == 2


def test_latents_at_the_cut_are_ones():
    layer = SparseBinaryLinear(3, 1)
    layer.weight.data.copy_(torch.tensor([[0.2, 0.3, 0.4]]))
    layer.cut.fill_(0.3)
    assert layer.signs().tolist() == [[-1, 1, 1]]


def test_scores_have_offsets_on_a_grid_and_one_scale():
    layer = SparseBinaryScores(4, 3, domain="bnn", offset_bits=2)
    layer.offset.data.copy_(torch.tensor([0.1, 0.2, -0.6]))
    x = torch.ones(1, 4)
    raw = F.linear(x, layer.binary_weight())
    expected = (raw + 2 * torch.tensor([0.0, 0.25, -0.5])) * layer.log_scale.exp()
    assert torch.allclose(layer(x), expected)


def test_encoders():
    pixels = torch.tensor([[[[0, 99], [100, 255]]]], dtype=torch.uint8)
    assert InputEncoder("threshold", [100])(pixels).flatten().tolist() == [-1, -1, 1, 1]
    bits = InputEncoder("thermometer", [1, 100, 255])(pixels)
    assert bits.shape == (1, 3, 2, 2)
    assert bits.flatten(2)[0].T.tolist() == [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [1, 1, 1]]
    integer = InputEncoder("integer")(pixels.double())
    assert integer.flatten().tolist() == [-1, -57 / 255, -55 / 255, 1]


def test_thermometer_keeps_the_planes_of_a_channel_together():
    pixels = torch.tensor([0, 200]).view(1, 2, 1, 1)
    bits = InputEncoder("thermometer", [50, 150])(pixels)
    assert bits.flatten().tolist() == [-1, -1, 1, 1]


def test_sign_activation_fires_at_zero():
    assert SignActivation()(torch.tensor([-0.5, 0.0])).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparseBinaryConv2d(3, 4, 3, groups=2),
         r"^Channels must be multiples of the 2 groups, not 3 and 4$"),
        (lambda: SparseBinaryConv2d(2, 4, 3, padding_value=1),
         r"^Padding value must be -1 or 0, not 1$"),
        (lambda: SparseBinaryLinear(2, 4, gradient="none"),
         r"^Gradient must be one of clipped, ede, identity, not 'none'$"),
        (lambda: InputEncoder("analogue"),
         r"^Encoder must be one of threshold, thermometer, integer, not 'analogue'$"),
        (lambda: InputEncoder("threshold", [0]),
         r"^Thresholds must increase and lie between 1 and 255, not \(0,\)$"),
        (lambda: InputEncoder("thermometer", [9, 9]),
         r"^Thresholds must increase and lie between 1 and 255, not \(9, 9\)$"),
        (lambda: InputEncoder("threshold", [1, 2]),
         r"^A threshold encoder has one threshold, not 2$"),
    ],
)  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
