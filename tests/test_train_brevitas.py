"""Brevitas straight: the same bits as its modules, or a word on what differs."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("brevitas", reason="needs Brevitas (pip install 'sbnn-hw[dev]')")

import brevitas_models as brevitas
from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat

from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx import import_network
from sbnn_hw.train import SparseBinaryLinear, fold_model, from_brevitas
from sbnn_hw.train.fold_check import check_fold


class Half(brevitas.Activation):
    """Activations −0.5 and +0.5."""

    min_val = -0.5
    max_val = 0.5


def images(shape, count=300, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape)).astype(np.uint8)


def classes_of(model, pixels):
    x = torch.from_numpy((2.0 * pixels.transpose(0, 3, 1, 2) - 255) / 255).float()
    with torch.no_grad():
        return model(x).argmax(1).numpy()


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        brevitas.sign(),
        brevitas.linear(16, 24), nn.BatchNorm1d(24), brevitas.sign(),
        nn.Sequential(brevitas.linear(24, 24), nn.BatchNorm1d(24), brevitas.sign()),
        brevitas.linear(24, 5),
    )  # fmt: skip


def convnet():
    return nn.Sequential(
        brevitas.sign(),
        brevitas.conv(2, 6, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(6), brevitas.sign(),
        brevitas.conv(6, 8, stride=2), nn.BatchNorm2d(8), brevitas.sign(),
        nn.Flatten(), nn.Dropout(0.5),
        brevitas.linear(8, 4),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "shape"), [(mlp, (4, 4, 1)), (convnet, (8, 8, 2))], ids=["mlp", "convnet"]
)
def test_classes_are_those_of_brevitas(tmp_path, make, shape):
    # Torch's batch norm rounds, so that it may have a tie wrong; those come next.
    module = brevitas.scramble(make(), 0, ties=False)
    model = from_brevitas(module)
    network = fold_model(model, shape).network
    pixels = images(shape)
    assert np.array_equal(network.compute(pixels).classes, classes_of(module, pixels))
    # The way through a file gives the very same netlist.
    path = brevitas.export(copy.deepcopy(module), (shape[2], *shape[:2]), tmp_path / "net.onnx")
    assert import_network(path).network.digest == network.digest


def test_ties_are_decided_by_rationals():
    """Bits are those of exact arithmetic; what torch says of ties depends on how it rounds."""
    module = brevitas.scramble(mlp(), 0)
    model = from_brevitas(module)
    folded = fold_model(model, (4, 4, 1), drop_unread=False)
    result = check_fold(model, folded, images((4, 4, 1)))
    assert result.exact
    assert len(result.close) > 10


def test_a_scale_of_activations_goes_into_the_next_weights():
    module = mlp()
    module[4] = brevitas.qnn.QuantIdentity(act_quant=Half)
    brevitas.scramble(module, 1, ties=False)
    model = from_brevitas(module)
    layer = [m for m in model if isinstance(m, SparseBinaryLinear)][1]
    assert layer.domain.name == "symmetric"
    assert layer.domain.tau.item() == 0.5
    pixels = images((4, 4, 1))
    network = fold_model(model, (4, 4, 1)).network
    assert np.array_equal(network.compute(pixels).classes, classes_of(module, pixels))


def layer(inputs, outputs, **quantisers):
    return brevitas.qnn.QuantLinear(
        inputs, outputs, bias=False, weight_quant=brevitas.Weight, **quantisers
    )


def with_inputs():
    """Return a network whose layers quantise what they read, the image among it."""
    quant = {"input_quant": brevitas.Activation}
    return nn.Sequential(
        nn.Flatten(), layer(16, 24, **quant), nn.BatchNorm1d(24), layer(24, 5, **quant)
    )


def with_outputs():
    """Return a network whose first layer quantises what it makes."""
    return nn.Sequential(
        nn.Flatten(), brevitas.sign(), layer(16, 23, output_quant=Half), layer(23, 5)
    )


def with_same():
    return nn.Sequential(
        brevitas.sign(), brevitas.conv(1, 4, padding="same"), nn.BatchNorm2d(4), brevitas.sign(),
        nn.Flatten(), brevitas.linear(64, 5),
    )  # fmt: skip


@pytest.mark.parametrize("make", [with_inputs, with_outputs, with_same])
def test_what_layers_do_beside_their_sums_is_done(make):
    """Quantisers of a layer's input and output, and padding that is the same on both sides."""
    module = brevitas.scramble(make(), 4, ties=False)
    pixels = images((4, 4, 1))
    network = fold_model(from_brevitas(module), (4, 4, 1)).network
    assert np.array_equal(network.compute(pixels).classes, classes_of(module, pixels))


def test_without_a_quantiser_of_the_image_pixels_are_added_up():
    module = nn.Sequential(nn.Flatten(), *mlp()[2:])
    brevitas.scramble(module, 2, ties=False)
    network = fold_model(from_brevitas(module), (4, 4, 1)).network
    assert network.stages[0].operation.kind == "flatten"
    pixels = images((4, 4, 1))
    assert np.array_equal(network.compute(pixels).classes, classes_of(module, pixels))


def test_what_is_made_shares_nothing_and_can_be_trained():
    module = brevitas.scramble(mlp(), 3).train()
    before = copy.deepcopy(module.state_dict())
    model = from_brevitas(module)
    assert model.training
    loss = model(torch.from_numpy(images((4, 4, 1)).transpose(0, 3, 1, 2)[:8].copy())).sum()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    after = module.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


def other(index, module):
    model = mlp()
    model[index] = module
    return model


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: other(2, brevitas.linear(16, 24, brevitas.ChannelWeight)),
         r"^Layer 2 has 24 scales, one per channel, but the layers here have one; export it"),
        (lambda: other(2, brevitas.qnn.QuantLinear(16, 24, bias=True, weight_quant=brevitas.Weight)),
         r"^Layer 2 has a bias, which would have to be rounded into the batch norm; export it"),
        (lambda: other(2, brevitas.linear(16, 24, Int8WeightPerTensorFloat)),
         r"^Layer 2 must have a binary quantiser, such as .*, not RescalingIntQuant$"),
        (lambda: other(2, layer(16, 24, input_quant=Int8ActPerTensorFloat)),
         r"^Layer 2.input_quant must have a binary quantiser, such as .*, not RescalingIntQuant$"),
        (lambda: other(6, layer(24, 5, output_quant=brevitas.Activation)),
         r"^Layer 6 quantises the scores \(output_quant\), which decide without"),
        (lambda: nn.Sequential(brevitas.conv(1, 4, padding="same", stride=2)),
         r"^Layer 0 has padding='same' with a stride or an even kernel, which may pad one side"),
        (lambda: other(4, nn.ReLU()), r"^Layer 4 is a ReLU, which has no equivalent here"),
        (lambda: nn.Sequential(nn.Linear(4, 4)), r"^The model has no QuantLinear or QuantConv2d"),
        (lambda: brevitas.linear(4, 4), r"^The model must be an nn.Sequential to be folded"),
    ],
)  # fmt: skip
def test_what_differs_is_said(module, message):
    with pytest.raises(ModelRejected, match=message):
        from_brevitas(module())
