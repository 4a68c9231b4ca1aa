"""The backbones train: in every domain, a step reaches every parameter."""

import pytest
import torch
import torch.nn.functional as F

from sbnn_hw.train.blocks import ReActMobileBlock, RealConv2d
from sbnn_hw.train.catalogue import BACKBONES
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.sparsity import SparsityPenalty, count_weights, layers_of


def made(name, domain, **more):
    torch.manual_seed(0)
    shape = (32, 32, 3) if name == "resnet18" else (64, 64, 3)
    return build_model(ModelConfig(name, shape, 5, domain=domain, width=0.125, **more)), shape


def batch(shape, count=6):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (count, shape[2], *shape[:2]), generator=generator)
    return pixels.float(), F.one_hot(torch.arange(count) % 5, 5).float()


@pytest.mark.parametrize("domain", ["learned", "closed_form", "symmetric", "bnn", "zero", "real"])
@pytest.mark.parametrize("name", BACKBONES)
def test_a_step_reaches_every_parameter(name, domain):
    model, shape = made(name, domain)
    pixels, targets = batch(shape)
    layers = layers_of(model)
    loss = F.cross_entropy(model(pixels), targets)
    if layers:
        penalty = SparsityPenalty(0.1)(layers, 0.05, loss)
        assert penalty.item() == pytest.approx(loss.item() / 9, rel=1e-4)
        loss = loss + penalty
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
    binary = [m for m in model.modules() if isinstance(m, RealConv2d)] or layers
    assert len(binary) >= 16
    assert all(layer.weight.grad.abs().max() > 0 for layer in binary)
    # What the optimiser makes of it is another network.
    before = model.eval()(pixels)
    torch.optim.Adam(model.parameters(), lr=0.01).step()
    after = model(pixels)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)


@pytest.mark.parametrize("name", BACKBONES)
def test_the_task_alone_reaches_every_parameter(name):
    """Without the sparsity loss, which would hide a layer that is not connected."""
    model, shape = made(name, "learned")
    pixels, targets = batch(shape)
    F.cross_entropy(model(pixels), targets).backward()
    assert all(layer.weight.grad.abs().max() > 0 for layer in layers_of(model))
    assert all(layer.domain.phi.grad.abs() > 0 for layer in layers_of(model))
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("name", [*BACKBONES, "resnet:8,16x1"])
def test_weightless_shortcuts_and_a_binary_first_convolution_train(name):
    shape = (16, 16, 3)
    torch.manual_seed(0)
    config = ModelConfig(name, shape, 5, width=0.125, shortcut="duplicate", first="binary")
    model = build_model(config)
    assert not any(isinstance(m, torch.nn.Conv2d) for m in model.modules())
    pixels, targets = batch(shape)
    F.cross_entropy(model(pixels), targets).backward()
    assert all(layer.weight.grad.abs().max() > 0 for layer in layers_of(model))


@pytest.mark.parametrize("name", BACKBONES)
def test_any_number_of_classes_and_either_padding(name):
    outputs = []
    for padding_value in (0, -1):
        model, shape = made(name, "learned", padding_value=padding_value)
        pixels, _ = batch(shape, 2)
        outputs.append(model.eval()(pixels))
        assert outputs[-1].shape == (2, 5)
    assert not torch.equal(*outputs)


def test_the_width_scales_every_layer():
    for name in BACKBONES:
        shape = (32, 32, 3) if name == "resnet18" else (64, 64, 3)
        with torch.device("meta"):
            whole, half = (
                count_weights(layers_of(build_model(ModelConfig(name, shape, 5, width=width))))
                for width in (1.0, 0.5)
            )
        assert whole == 4 * half, name


@pytest.mark.parametrize("name", sorted(BACKBONES))
@pytest.mark.parametrize("side", [8, 21, 28])
def test_odd_and_tiny_maps_are_halved_alike_in_both_branches(name, side):
    model = build_model(ModelConfig(name, (side, side, 1), 3, width=0.07)).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 1, side, side)).shape == (2, 3)


def test_what_is_left_over_is_averaged_by_itself():
    pool = ReActMobileBlock(ModelConfig("reactnet_a", (8, 8, 3), 2, width=0.1), 1, 1, 2).pool
    image = torch.arange(9.0).view(1, 1, 3, 3)
    assert pool(image).flatten().tolist() == [2, 3.5, 6.5, 8]
