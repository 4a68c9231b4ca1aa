"""Nothing of a model stays on the CPU when the model goes elsewhere.

There may be no GPU where the tests run: torch's meta device stands in for one. It computes shapes
alone, and every operation is watched for a tensor of another device.
"""

import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.catalogue import BACKBONES, MODELS
from sbnn_hw.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, used_values
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.norm import recompute_statistics
from sbnn_hw.train.parallel import choose_device
from sbnn_hw.train.sparsity import SparsityPenalty, TopK, layers_of, ones_share

SHAPES = {"digits": (8, 8, 1), "cnv": (32, 32, 3), "reactnet_a": (64, 64, 3)}
DOMAINS = ["learned", "grid", "closed_form", "symmetric", "bnn", "zero", "signed"]


class OneDevice(TorchDispatchMode):
    """Refuses operations that take tensors of the CPU together with others, even single numbers.

    What is brought back to the CPU, a tensor or a number, comes back as zeros; where ``waiting``
    is not admitted it is refused, since a GPU would have to finish its work first.
    """

    def __init__(self, *, waiting=False):
        super().__init__()
        self.waiting = waiting

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = str(operation)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if len({x.is_meta for x in tensors}) == 2:
            raise AssertionError(f"{name} takes tensors of the CPU and of another device")
        back = name in ("aten._local_scalar_dense.default", "aten.nonzero.default") or (
            name == "aten._to_copy.default" and kwargs.get("device") == torch.device("cpu")
        )
        if back and args[0].is_meta:
            assert self.waiting, f"{name} waits for the device"
            if name == "aten._local_scalar_dense.default":
                return 0.0 if args[0].is_floating_point() else 0
            if name == "aten.nonzero.default":
                return torch.zeros(0, args[0].dim(), dtype=torch.int64, device="meta")
            return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        return operation(*args, **kwargs)


def made(name, domain, **options):
    """Return a small model on the meta device and a batch of images for it."""
    shape = SHAPES.get(name, (32, 32, 3))
    grid = {"domain": "learned", "xi_bits": 6} if domain == "grid" else {"domain": domain}
    config = ModelConfig(name, shape, 10, width=0.0625, **grid, **options)
    model = build_model(config).to("meta")
    height, width, channels = shape
    return config, model, torch.zeros(4, channels, height, width, device="meta")


# Domains are the same code in every model: all of them in one backbone, and in each other one those
# that differ most.
CASES = [
    *((name, domain) for name in MODELS for domain in DOMAINS),
    *(("resnet18", domain) for domain in [*DOMAINS, "real"]),
    *(
        (n, domain)
        for n in BACKBONES
        if n != "resnet18"
        for domain in ("learned", "closed_form", "real")
    ),
]


@pytest.mark.parametrize(("name", "domain"), CASES)
def test_a_step_of_training_stays_where_the_model_is(name, domain):
    _, model, pixels = made(name, domain)
    layers = layers_of(model)
    assert bool(layers) == (domain != "real")
    with OneDevice():
        for layer in layers:
            for init in ("closed_form", "balanced"):
                layer.initialise_domain(init, ones_share=0.05)
            assert layer.signs().is_meta
            assert layer.ones().is_meta
        if layers:
            TopK().refresh(layers, 0.05)
        outputs = model.train()(pixels)
        assert outputs.is_meta
        torch.autograd.backward(outputs.sum())
        if name == "digits":
            model.eval()(pixels)
    for parameter in model.parameters():
        assert parameter.grad.is_meta


@pytest.mark.parametrize(
    ("gradient", "activation", "padding_value"),
    [("clipped", "clipped", -1), ("ede", "ede", 0), ("identity", "polynomial", 0)],
)
def test_every_gradient_stays_where_the_model_is(gradient, activation, padding_value):
    options = {"gradient": gradient, "activation": activation, "padding_value": padding_value}
    _, model, pixels = made("resnet18", "learned", normalise="cifar10", **options)
    with OneDevice():
        torch.autograd.backward(model(pixels).sum())


@pytest.mark.parametrize("encoder", ["threshold", "thermometer", "integer"])
def test_every_encoder_stays_where_the_pixels_are(encoder):
    _, model, pixels = made("sfc", "learned", encoder=encoder)
    with OneDevice():
        model(pixels.to(torch.uint8))


@pytest.mark.parametrize("name", ["cnv", "resnet18"])
@pytest.mark.parametrize("domain", ["learned", "signed"])
def test_sparsity_and_statistics_stay_where_the_model_is(name, domain):
    _, model, pixels = made(name, domain)
    layers = layers_of(model)
    with OneDevice(waiting=True):
        TopK().project(layers, 0.05)
        assert ones_share(layers) == 0.0  # what is brought back is zero
        if domain != "signed":
            loss = model(pixels).sum()
            assert SparsityPenalty(0.1)(layers, 0.05, loss).is_meta
        recompute_statistics(model, lambda: iter([pixels, pixels]))


@pytest.mark.parametrize("name", ["digits", "resnet18"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_checkpoints_hold_tensors_of_the_cpu_wherever_the_model_is(tmp_path, name, domain):
    config, model, _ = made(name, domain)
    with OneDevice(waiting=True):
        values = used_values(model)
    assert {value.device.type for value in values.values()} == {"cpu"}
    assert {value.device.type for value in model.state_dict().values()} == {"meta"}
    with OneDevice(waiting=True):
        save_checkpoint(tmp_path / "a.pt", Checkpoint(config, model))
    assert load_checkpoint(tmp_path / "a.pt").config == config


def test_what_watches_finds_a_tensor_left_behind():
    _, model, pixels = made("digits", "learned")
    left = torch.tensor(2.0)  # of no axes: torch would let it pass on a GPU
    with OneDevice(), pytest.raises(AssertionError, match=r"^aten\.mul\.Tensor takes"):
        left * model(pixels)


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cuda", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
        ("cuda:1", 1, "There is no device cuda:1 (torch finds 1 GPU)"),
        ("cuda:7", 2, "There is no device cuda:7 (torch finds 2 GPUs)"),
        ("cuda", 0, "There is no device cuda:0 (torch finds no GPU)"),
    ],
)
def test_devices_are_those_that_are_there(monkeypatch, name, found, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    if " " in expected:
        with pytest.raises(ModelRejected, match=re.escape(expected)):
            choose_device(name)
    else:
        assert str(choose_device(name)) == expected
