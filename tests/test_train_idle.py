"""What says nothing on training images is taken away, and may grow again."""

import copy
import io

import pytest
import torch

from sbnn_hw import datasets
from sbnn_hw.train import TrainConfig
from sbnn_hw.train.budget import LutBudget
from sbnn_hw.train.idle import replace_idle
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.loop import Trainer
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.progress import Progress

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


def test_bits_that_differ_are_no_doubles():
    from sbnn_hw.train.idle import _Seen

    seen = _Seen()
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        seen.add(torch.randint(0, 2, (100, 60_000), generator=generator))
    assert seen.doubles() == {}


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


def test_pixels_that_vary_are_no_constants():
    torch.manual_seed(0)
    model = build_model(
        ModelConfig(
            name="mlp:12",
            shape=(4, 4, 1),
            classes=4,
            domain="signed",
            encoder="integer",
            gradient="identity",
        )
    )
    layer = next(module for module in model if isinstance(module, SparseBinaryLayer))
    # All below the middle, which is where bits of other encoders change.
    images = [torch.randint(0, 120, (64, 1, 4, 4)).float()]
    images[0][:, :, 3, 3] = 7
    replace_idle(model, images)
    assert layer.weight[:, :15].all()
    assert not layer.weight[:, 15].any()


@pytest.mark.parametrize("domain", ["zero", "signed"])
def test_taps_of_the_first_stay_where_nothing_read_its_double(domain):
    model, layers, norms, images = made("mlp:12,9", 0, domain)
    with torch.no_grad():
        layers[0].weight[3] = layers[0].weight[1]
        norms[layers[0]].bias[3] = norms[layers[0]].bias[1]
        layers[1].cut.fill_(0.02)
        layers[1].weight[:, 1] = 0.03
        layers[1].weight[:, 3] = -0.05 if domain == "zero" else -0.015
        # Where only the double was read, the first is now.
        layers[1].weight[4, 1], layers[1].weight[4, 3] = -0.01, 0.04
    replace_idle(model, images)
    assert present(layers[1])[:, 1].all()
    assert not present(layers[1])[:, 3].any()


def test_neurons_that_begin_anew_have_no_taps_on_constant_inputs():
    model, layers, norms, images = made("mlp:12,9", 0, "signed")
    for batch in images:
        batch[:, :, 0] = 0
    with torch.no_grad():
        norms[layers[0]].bias[3] = 1e4
    assert replace_idle(model, images).neurons >= 1
    assert not layers[0].weight[:, :10].any()


def test_what_was_taken_away_does_not_come_back_with_the_budget():
    torch.manual_seed(0)
    _, layers, _, _ = made("mlp:40", 0, "signed")
    with torch.no_grad():
        layers[0].weight[:, :97] = 0.0
        layers[1].weight[:, 10:] = 0.0
    budget = LutBudget(layers, caps=(6, 16))
    budget.refresh(100)
    assert present(layers[0]).sum(1).max() <= 3
    assert present(layers[1]).sum(1).tolist() == [10] * 4
    assert budget.luts() <= 100


def test_a_run_that_goes_on_begins_neurons_anew_with_the_same_weights(tmp_path):
    images = datasets.find("digits").load("train")
    config = TrainConfig(
        model="mlp:200,100",
        data="digits",
        domain="signed",
        method="topk",
        ec=0.004,
        replace_idle=True,
        epochs=4,
        batch=64,
        threads=1,
        lr=0.05,
    )

    def run(trainer, epochs):
        with Progress(1, quiet=True, stream=io.StringIO()) as progress:
            return [trainer.run_epoch(progress)["replaced"] for _ in range(epochs)]

    whole = Trainer(config, images, classes=10)
    run(whole, 2)
    state = copy.deepcopy(whole.state())
    assert sum(run(whole, 2)) > 0
    second = Trainer(config, images, classes=10)
    second.restore(state, tmp_path / "state.pt")
    torch.rand(100)
    run(second, 2)
    for one, other in zip(
        whole.model.state_dict().values(), second.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)
