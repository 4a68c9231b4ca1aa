"""Batch norm as torch has it, scales that are fixed, and statistics computed anew."""

import pytest
import torch
from torch import nn

from sbnn_hw.train.layers import SignActivation, SparseBinaryConv2d, SparseBinaryLinear
from sbnn_hw.train.models import ModelConfig, build_model
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


NORMS = (BatchNorm, nn.BatchNorm1d, nn.BatchNorm2d)


def plainly(model, x):
    """Set the statistics of one batch norm after the other, from all inputs at once."""
    model.eval()
    for norm in [module for module in model.modules() if isinstance(module, NORMS)]:
        seen = []
        hook = norm.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        model(x)
        hook.remove()
        values = seen[0].double().transpose(0, 1).flatten(1)
        norm.running_mean.copy_(values.mean(1))
        norm.running_var.copy_(values.var(1))
    return statistics(model)


def statistics(model):
    return {name: value for name, value in model.state_dict().items() if "running" in name}


def made(name, **options):
    torch.manual_seed(3)
    model = build_model(ModelConfig(name, (32, 32, 3), 10, width=0.0625, **options))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, NORMS):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 9.0)
    return model


PIXELS = torch.randint(0, 256, (10, 3, 32, 32), generator=torch.Generator().manual_seed(4)).double()


@pytest.mark.parametrize("name", ["cnv", "resnet18", "reactnet18", "reactnet_a", "xnor_resnet18"])
@torch.no_grad()
def test_statistics_are_the_same_with_any_room(name):
    # In double precision, so that no sign hangs on how many images are computed together.
    want = plainly(made(name).double(), PIXELS)
    assert len(want) == 2 * {"cnv": 8, "resnet18": 21, "reactnet18": 20, "reactnet_a": 32}.get(
        name, 20
    )
    found = []
    for room in (0, 30_000, 1 << 30):
        model = made(name).double()
        recompute_statistics(model, lambda: iter(PIXELS.split(4)), room=room)
        found.append(statistics(model))
    for key, value in want.items():
        assert torch.allclose(found[0][key], value, rtol=1e-9, atol=1e-9), key
        assert torch.equal(found[0][key], found[1][key]), key
        assert torch.equal(found[0][key], found[2][key]), key


@pytest.mark.parametrize(("room", "passes"), [(0, 21), (1 << 30, 2)])
def test_what_lies_before_is_computed_again_only_without_room(room, passes):
    model = made("resnet18")
    calls = []
    model.conv1.register_forward_hook(lambda *_: calls.append(1))
    recompute_statistics(model, lambda: iter(PIXELS.float().split(2)), room=room)
    # One batch tells how much room there must be: before each block and the last batch norm, or
    # only until something is kept.
    assert len(calls) == passes * 5 + (9 if room == 0 else 1)


@torch.no_grad()
def test_odd_models_get_their_statistics_too():
    class Lift(nn.Module):
        """Changes what it is given, in place."""

        def forward(self, x):
            return x.add_(1.0)

    class Folded(nn.Sequential):
        """Runs its modules twice, so that it is not what runs one after the other."""

        def forward(self, x):
            return super().forward(super().forward(x))

    torch.manual_seed(0)
    shared = BatchNorm(3)
    model = nn.Sequential(
        nn.Linear(3, 3), BatchNorm(3), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3)),
        Folded(Lift(), shared, nn.Linear(3, 3)), shared, BatchNorm(3),
    )  # fmt: skip
    model.eval()
    x = torch.randn(50, 3)
    found = []
    for room in (0, 1 << 20):
        for name, value in statistics(model).items():
            value.fill_(1.0 if name.endswith("var") else 0.0)
        recompute_statistics(model, lambda: iter(x.split(20)), room=room)
        found.append({name: value.clone() for name, value in statistics(model).items()})
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])
    first = model[0](x)
    assert torch.allclose(found[1]["1.running_mean"], first.mean(0), atol=1e-6)
    assert torch.allclose(found[1]["1.running_var"], first.var(0), rtol=1e-5)
    # A shared batch norm is settled where it is first met.
    entering = model[:3](x) + 1.0
    assert torch.allclose(shared.running_mean, entering.mean(0), atol=1e-6)
    last = model[:5](x)
    assert torch.allclose(model[5].running_var, last.var(0), rtol=1e-4)


def test_nothing_to_learn_from_changes_nothing():
    model = made("resnet18")
    before = {name: value.clone() for name, value in statistics(model).items()}
    recompute_statistics(model, lambda: iter(()))
    assert all(torch.equal(before[key], value) for key, value in statistics(model).items())
