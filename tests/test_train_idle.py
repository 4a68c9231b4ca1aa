"""What says nothing on training images is taken away, and may grow again."""

import pytest
import torch

from sbnn_hw.train.idle import replace_idle
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.models import ModelConfig, build_model

CASES = [("mlp:12,9", 0), ("conv:6,5p/8", 0), ("conv:6,5", 1)]


def made(name, padding, domain):
    torch.manual_seed(0)
    model = build_model(
        ModelConfig(
            name=name,
            shape=(10, 10, 1),
            classes=4,
            domain=domain,
            encoder="threshold",
            gradient="identity",
            padding=padding,
        )
    )
    images = [torch.randint(0, 256, (40, 1, 10, 10)).float() for _ in range(3)]
    layers = [module for module in model if isinstance(module, SparseBinaryLayer)]
    norms = {layer: model[list(model).index(layer) + 1] for layer in layers[:-1]}
    return model, layers, norms, images


def present(layer):
    return layer.signs() != (0 if layer.domain.signed else -1)


@pytest.mark.parametrize("domain", ["signed", "zero", "learned"])
@pytest.mark.parametrize(("name", "padding"), CASES)
def test_a_constant_neuron_begins_anew_and_nothing_reads_it(name, padding, domain):
    model, layers, norms, images = made(name, padding, domain)
    with torch.no_grad():
        norms[layers[0]].bias[3] = 1e4
    before = layers[0].weight.detach().clone()
    replaced = replace_idle(model, images)
    assert replaced.neurons >= 1
    assert replaced.changed
    assert norms[layers[0]].bias[3] == 0
    assert not torch.equal(before[3], layers[0].weight[3])
    if domain == "signed":
        # A weight of zero is a tap only where nothing is cut off.
        assert not layers[1].weight[:, 3].any()
    else:
        assert not present(layers[1])[:, 3].any()


@pytest.mark.parametrize(("name", "padding"), CASES)
def test_a_double_leaves_its_taps_to_the_first(name, padding):
    model, layers, norms, images = made(name, padding, "signed")
    with torch.no_grad():
        layers[0].weight[4] = layers[0].weight[1]
        norms[layers[0]].bias[4] = norms[layers[0]].bias[1]
    kept, moved = layers[1].weight[:, 1].clone(), layers[1].weight[:, 4].clone()
    replace_idle(model, images)
    assert torch.equal(layers[1].weight[:, 1], kept + moved)
    assert not layers[1].weight[:, 4].any()


def test_taps_on_inputs_that_never_change_are_taken_away():
    model, layers, _, images = made("mlp:12,9", 0, "signed")
    for batch in images:
        batch[:, :, 0] = 0
    assert replace_idle(model, images).changed
    assert not layers[0].weight[:, :10].any()
    assert layers[0].weight[:, 10:].all()


def test_lively_networks_are_left_alone():
    model, _, _, images = made("mlp:12,9", 0, "signed")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = replace_idle(model, images)
    assert (found.neurons, found.changed) == (0, False)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_neurons_without_taps_are_not_counted():
    model, layers, _, images = made("mlp:12,9", 0, "signed")
    layers[0].cut[5] = torch.inf
    before = layers[0].weight.detach().clone()
    assert replace_idle(model, images).neurons == 0
    assert torch.equal(before, layers[0].weight)


def test_the_optimiser_forgets_what_began_anew():
    model, layers, norms, images = made("mlp:12,9", 0, "signed")
    optimiser = torch.optim.Adam(model.parameters())
    model(images[0]).sum().backward()
    optimiser.step()
    with torch.no_grad():
        norms[layers[0]].bias[3] = 1e4
    replace_idle(model, images, optimiser)
    state = optimiser.state[layers[0].weight]
    assert not state["exp_avg"][3].any()
    assert state["exp_avg"][2].any()
