"""What says nothing on training images is taken away, and may grow again."""

import copy
import io

import pytest
import torch

from sbnn_hw import datasets
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train import TrainConfig, fold_model
from sbnn_hw.train.budget import LutBudget
from sbnn_hw.train.idle import Replaced, replace_idle
from sbnn_hw.train.layers import SparseBinaryLayer
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.trainer import Trainer

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


def forced(domain, number):
    """Return a network with a cut, in whose layer of that number four neurons are constant."""
    model, layers, norms, images = made("mlp:24,20", 0, domain)
    with torch.no_grad():
        for layer in layers:
            layer.cut.fill_(0.03)
            layer.weight[:, ::7] = 0.1
        for unit, sign in enumerate((1, -1, 1, 1)):
            norms[layers[number]].bias[unit] = sign * 1e4
        layers[-1].offset.copy_(torch.tensor([0.3, -1.2, 0.03, 2.0]))
        if domain == "learned":
            for layer in layers:
                layer.domain.tau.fill_(-0.7)
                layer.domain.phi.fill_(0.2)
        for _ in range(40):  # statistics that are not those of the start
            model(images[0])
    model.eval()
    return model, layers, images


def predictions(model, pixels):
    """Return what the folded network says."""
    bytes_ = pixels.permute(0, 2, 3, 1).to(torch.uint8).numpy()
    return fold_model(model, (10, 10, 1)).network.compute(bytes_).classes


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize(
    ("domain", "number"),
    [("signed", 1), ("zero", 1), ("learned", 1), ("closed_form", 1), ("signed", 0), ("zero", 0)],
)
def test_taking_a_constant_neuron_away_changes_no_score(domain, number, grow):
    """What it always said moves to the offsets, or to the mean of the batch norm."""
    model, layers, images = forced(domain, number)
    columns = present(layers[number + 1])[:, :4]
    assert columns.any()
    pixels = torch.cat(images)
    exact = [predictions(model, pixels)]
    with torch.no_grad():
        before = model(pixels)
        assert replace_idle(model, images, grow=grow).neurons >= 4
        after = model(pixels)
    exact.append(predictions(model, pixels))
    assert not present(layers[number + 1])[:, :4].any()
    # What is added to all classes alike is the q of neurons that began anew.
    for scores in (before, after):
        scores -= scores.mean(1, keepdim=True)
    assert torch.allclose(before, after, atol=1e-4)
    # Ties are ties only where nothing is rounded.
    assert (exact[0] == exact[1]).all()


@pytest.mark.parametrize("domain", ["learned", "signed"])
def test_without_growth_even_the_first_layer_goes_unnoticed(domain):
    model, layers, images = forced(domain, 0)
    pixels = torch.cat(images)
    rows = layers[0].weight.detach().clone()
    with torch.no_grad():
        before = model(pixels)
        assert replace_idle(model, images, grow=False).changed
        after = model(pixels)
    assert torch.equal(rows, layers[0].weight)
    assert torch.allclose(before, after, atol=1e-4)


def test_taps_are_taken_away_where_the_cut_is_below_zero():
    model, layers, norms, images = made("mlp:12,9", 0, "zero")
    with torch.no_grad():
        norms[layers[0]].bias[3] = 1e4
    layers[1].cut.fill_(-10.0)
    replace_idle(model, images)
    assert not present(layers[1])[:, 3].any()


def test_nothing_begins_anew_in_the_last_epoch(monkeypatch):
    images = datasets.find("digits").load("train")
    config = TrainConfig(
        model="mlp:20", data="digits", domain="signed", method="luts", luts=400,
        replace_idle=True, epochs=3, batch=64, threads=1,
    )  # fmt: skip
    grown = []
    monkeypatch.setattr(
        "sbnn_hw.train.trainer.replace_idle",
        lambda *_, grow=True, **__: grown.append(grow) or Replaced(1, True),
    )
    trainer = Trainer(config, images, classes=10)
    spent = []
    settle = trainer.method.settle
    trainer.method.settle = lambda step: spent.append(trainer.epoch) or settle(step)
    with Progress(1, quiet=True, stream=io.StringIO()) as progress:
        for _ in range(3):
            trainer.run_epoch(progress)
    assert grown == [True, True, False]
    # Nor are tables given to taps that nothing would train: one choice fewer than before.
    assert spent.count(0) == spent.count(1) == spent.count(2) + 1


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


IDLE = {"model": "mlp:8", "data": "digits", "domain": "signed", "method": "topk"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model": "resnet18", "domain": "learned"},
            r"^Idle neurons \(--replace-idle\) are not searched for in the backbone resnet18; omit",
        ),
        ({"domain": "real", "method": "none"}, "^Weights of the domain real cannot be removed"),
        ({"domain": "bnn", "method": "none"}, "^Weights of the domain bnn cannot be removed"),
        ({"domain": "symmetric"}, r"symmetric cannot be removed \(--replace-idle\); omit the"),
        (
            {"method": "none"},
            r"^With this --method no signed tap can be removed \(--replace-idle\); use",
        ),
    ],
)
def test_is_refused_where_nothing_can_be_taken_away(options, message):
    TrainConfig(**IDLE | options)
    with pytest.raises(ModelRejected, match=message):
        TrainConfig(**IDLE | options, replace_idle=True)


@pytest.mark.parametrize(
    ("domain", "method"),
    [("signed", "topk"), ("zero", "none"), ("learned", "penalty"), ("closed_form", "penalty")],
)
def test_is_taken_where_there_are_zeros(domain, method):
    TrainConfig(**IDLE | {"domain": domain, "method": method}, replace_idle=True)


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
