"""Counts of any model: those of its netlist where it can be folded, the paper's for backbones."""

import json

import numpy as np
import pytest
import torch
from random_models import DOMAINS, random_convnet, random_mlp, scramble
from torch import nn

from sbnn_hw import bops
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.backbones import build_backbone
from sbnn_hw.train.blocks import IRNetBlock, RealConv2d
from sbnn_hw.train.checkpoint import Checkpoint, save_checkpoint
from sbnn_hw.train.fold import fold_model
from sbnn_hw.train.layers import InputEncoder, SparseBinaryConv2d, SparseBinaryLinear
from sbnn_hw.train.metrics import count_architecture, count_model
from sbnn_hw.train.models import ModelConfig, build_model

REFUSED = (
    "make its streams integers with `sbnn-hw quantise` before it is built (evaluate with --using "
    "torch, count with info)"
)


@pytest.mark.parametrize("make", [random_mlp, random_convnet])
@pytest.mark.parametrize("domain", DOMAINS)
def test_counts_are_those_of_the_netlist(make, domain):
    rng = np.random.default_rng(5)
    for _ in range(12):
        model, shape = make(rng, domain)
        model.train()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        counted = count_model(model, shape)
        assert all(module.training for module in model.modules())
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        network = fold_model(model.eval(), shape, drop_unread=False).network
        expected = bops.count(network)
        assert counted.binary_macs == expected.total("binary_macs")
        assert [x.weights for x in counted.layers] == [x.weights for x in expected.layers]
        assert [x.positions for x in counted.layers] == [x.windows for x in expected.layers]
        assert [x.ones for x in counted.layers] == [x.ones for x in expected.layers]
        assert counted.kernels == expected.kernels
        assert counted.density == expected.density
        assert counted.entropy == bops.entropy(expected.density)
        assert counted.flops == 0
        assert counted.ops == counted.binary_macs / 64
        assert counted.signed == (domain == "signed")


def test_resnet18_has_the_weights_and_operations_of_the_paper():
    counted = count_architecture("resnet18", (32, 32, 3), 10)
    assert counted.weights == 10_985_472
    assert round(counted.binary_macs / 1e6, 1) == 547.4
    assert sum(layer.kind == "binary" for layer in counted.layers) == 16
    assert {layer.name for layer in counted.layers if layer.kind == "real"} == {
        "conv1", "layer2.0.shortcut.0", "layer3.0.shortcut.0", "layer4.0.shortcut.0", "linear",
    }  # fmt: skip
    # Without weights there is nothing to say of ones.
    assert counted.ones is counted.density is counted.entropy is counted.sparse is None
    assert counted.sparse_pr is counted.kernels is None


def test_reactnet_a_has_the_printed_digits():
    counted = count_architecture("reactnet_a", (224, 224, 3), 1000)
    assert f"{counted.binary_macs / 1e8:.0f}" == "48"
    assert f"{counted.flops / 1e8:.2f}" == "0.12"
    assert f"{counted.ops / 1e8:.2f}" == "0.87"
    # Its shortcuts have no weights: the first convolution and the classifier are all.
    assert counted.flops == counted.flops_of("conv1") + counted.flops_of("fc")


@pytest.mark.parametrize("name", ["reactnet18", "birealnet18", "xnor_resnet18"])
def test_flops_of_plain_18_layers_by_terms(name):
    counted = count_architecture(name, (224, 224, 3), 1000)
    first = 64 * 3 * 7 * 7 * 112**2
    shortcuts = 64 * 128 * 28**2 + 128 * 256 * 14**2 + 256 * 512 * 7**2
    assert counted.flops_of("fc") == 512 * 1000
    assert counted.flops_of("shortcut") == shortcuts
    assert counted.flops == first + shortcuts + 512 * 1000
    assert f"{counted.flops / 1e8:.2f}" == "1.38"
    assert f"{counted.binary_macs / 1e8:.1f}" == "16.8"


def small_backbone(domain="learned", density=0.2):
    config = ModelConfig("resnet18", (8, 8, 3), 4, domain=domain, width=1 / 16)
    model = build_model(config)
    rng = np.random.default_rng(0)
    for module in model.modules():
        if isinstance(module, SparseBinaryConv2d):
            scramble(module, rng, density)
    return config, model.eval()


@pytest.mark.parametrize("domain", ["learned", "bnn", "closed_form", "signed"])
def test_backbones_with_weights(domain):
    _, model = small_backbone(domain=domain)
    counted = count_model(model, (8, 8, 3))
    layers = [m for m in model.modules() if isinstance(m, SparseBinaryConv2d)]
    taps = [m.signs() != 0 if m.domain.signed else m.signs() > 0 for m in layers]
    assert counted.ones == sum(int(t.sum()) for t in taps)
    binary = [layer for layer in counted.layers if layer.kind == "binary"]
    assert counted.sparse == sum(
        int(t.sum()) * x.positions for t, x in zip(taps, binary, strict=True)
    )
    assert counted.sparse_pr == pytest.approx(counted.kernels.sparse_pr)
    assert counted.signed == (domain == "signed")


def test_weights_that_are_not_binary_yet_are_flops():
    binary, real = (
        build_model(ModelConfig("reactnet18", (16, 16, 3), 4, domain=domain, width=1 / 16))
        for domain in ("learned", "real")
    )
    one, other = (count_model(model, (16, 16, 3)) for model in (binary, real))
    assert any(isinstance(module, RealConv2d) for module in real.modules())
    assert (other.binary_macs, other.weights, other.density) == (0, 0, None)
    assert other.flops == one.flops + one.binary_macs


def test_a_layer_that_is_used_twice_counts_twice():
    conv = SparseBinaryConv2d(1, 1, 3, padding=1)
    counted = count_model(nn.Sequential(InputEncoder(), conv, conv), (4, 5, 1))
    assert [(x.positions, x.weights, x.binary_macs) for x in counted.layers] == [(40, 9, 360)]


def test_a_linear_layer_may_have_many_positions():
    model = nn.Sequential(InputEncoder(), nn.Linear(6, 5), SparseBinaryLinear(5, 2))
    counted = count_model(model, (3, 6, 2))  # rows of six pixels, in two channels
    assert [(x.positions, x.flops, x.binary_macs) for x in counted.layers] == [
        (6, 180, 0), (6, 0, 60),
    ]  # fmt: skip


def test_pixels_that_are_added_up_are_no_binary_operations():
    model = nn.Sequential(
        InputEncoder("integer"), nn.Flatten(), SparseBinaryLinear(4, 3), SparseBinaryLinear(3, 2)
    )
    counted = count_model(model, (2, 2, 1))
    assert [layer.kind for layer in counted.layers] == ["pixels", "binary"]
    assert (counted.binary_macs, counted.pixel_macs, counted.weights) == (6, 12, 18)


def test_refuses_layers_that_it_would_miss():
    model = nn.Sequential(InputEncoder(), nn.ConvTranspose2d(1, 2, 3))
    with pytest.raises(ModelRejected, match=r"^Layer 1 is a ConvTranspose2d, whose operations"):
        count_model(model, (4, 4, 1))


# What is made of a backbone: counts, and a refusal that names the layer


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("backbone") / "small.pt"
    save_checkpoint(path, Checkpoint(*small_backbone()))
    return path


def test_info_counts_a_backbone(checkpoint, capsys):
    counted = count_model(small_backbone()[1], (8, 8, 3))
    assert main(["info", "--model", str(checkpoint), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["name"], info["ones"], info["weights"]) == (
        "resnet18", counted.ones, counted.weights,
    )  # fmt: skip
    assert info["bops"]["binary_macs"] == counted.binary_macs
    assert (info["flops"], info["ops"]) == (counted.flops, counted.ops)
    assert info["kernels"]["k0"] == counted.kernels.k0
    assert [layer["name"] for layer in info["layers"]] == [x.name for x in counted.layers]
    assert main(["info", "--model", str(checkpoint)]) == 0
    text = capsys.readouterr().out
    assert f"{counted.binary_macs:,} binary MACs per image" in text
    assert "layer2.0.shortcut.0" in text
    assert "real-valued layers cannot be folded" in text


def test_info_of_real_weights(tmp_path, capsys):
    config = ModelConfig("reactnet18", (16, 16, 3), 4, domain="real", width=1 / 16)
    save_checkpoint(tmp_path / "real.pt", Checkpoint(config, build_model(config)))
    assert main(["info", "--model", str(tmp_path / "real.pt")]) == 0
    text = capsys.readouterr().out
    assert "binary MACs per image" not in text
    assert "FLOPs        " in text


@pytest.mark.parametrize(
    "command",
    [
        ["fold", "--out", "net.sbnn"],
        ["eval", "--data", "cifar10"],
        ["build", "--board", "arty_a7", "--until", "netlist"],
        ["generate", "--out", "design"],
        ["eval", "--data", "cifar10", "--using", "rtl"],
    ],
)
def test_commands_refuse_a_backbone_by_its_layer(
    checkpoint, command, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--model", str(checkpoint)]) == 1
    error = capsys.readouterr().err
    assert f"{checkpoint}: Layer conv1 is a real-valued convolution; {REFUSED}" in error


@pytest.mark.parametrize("command", [["info"], ["eval", "--data", "digits"]])
def test_a_teacher_is_refused_with_advice_that_holds(tmp_path, capsys, command):
    """`info` counts backbones; of other real-valued models it would need the netlist, too."""
    config = ModelConfig("mlp:8", (8, 8, 1), 10, domain="real")
    path = tmp_path / "teacher.pt"
    save_checkpoint(path, Checkpoint(config, build_model(config)))
    assert main([*command, "--model", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"E: {path}: Layer 2 is a real-valued linear layer, for which no hardware is generated yet "
        f"(evaluate with --using torch, or train a binary network with this one as its --teacher)\n"
    )
    assert main(["eval", "--using", "torch", "--data", "digits", "--model", str(path)]) == 0


def test_refusal_names_the_shortcut_inside_a_block():
    config = ModelConfig("resnet18", (8, 8, 2), 4)
    for block, message in (
        (
            IRNetBlock(config, 2, 4, 2),
            f"Layer 1.shortcut.0 is a real-valued convolution; {REFUSED}",
        ),
        (IRNetBlock(config, 2, 2, 1), f"Layer 1 has a real-valued shortcut; {REFUSED}"),
    ):
        model = nn.Sequential(InputEncoder(), block, nn.Flatten(), SparseBinaryLinear(4, 4))
        with pytest.raises(ModelRejected) as refused:
            fold_model(model.eval(), (8, 8, 2))
        assert str(refused.value) == message


def test_every_backbone_is_refused():
    for name in ("resnet18", "reactnet18", "reactnet_a", "birealnet18", "xnor_resnet18"):
        model = build_backbone(ModelConfig(name, (8, 8, 3), 4, width=1 / 16)).eval()
        with pytest.raises(ModelRejected, match=r"^Layer conv1 is a real-valued convolution; "):
            fold_model(model, (8, 8, 3))
