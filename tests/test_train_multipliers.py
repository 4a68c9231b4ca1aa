"""Integer streams: multipliers of few digits, several signs of a value, and exact products."""

import random
from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from test_train_integers import compare, random_model
from torch import nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train import TrainConfig, save_checkpoint
from sbnn_hw.train.blocks import LevelSign
from sbnn_hw.train.checkpoint import Checkpoint, begin_from
from sbnn_hw.train.config import STREAMS
from sbnn_hw.train.exact import (
    StreamAffine,
    Values,
    convolve,
    few_digits,
    follow,
    multiplies_exactly,
    real_valued,
)
from sbnn_hw.train.integers import ClassNorm, IntegerLinear
from sbnn_hw.train.models import ModelConfig, build_model

# Multipliers of few powers of two


def digits_of(number):
    """Return how many powers of two, of either sign, an integer is a sum of at least."""
    number, count = abs(number), 0
    while number:
        if number & 1:
            number -= 2 - number % 4
            count += 1
        number >>= 1
    return count


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_few_digits_are_few_and_near(digits):
    numbers = torch.arange(-2000, 2001)
    found = few_digits(numbers, digits)
    assert max(digits_of(n) for n in found.tolist()) == digits
    errors = (found - numbers).abs() / numbers.abs().clamp_min(1)
    assert float(errors.max()) < 1.001 * 3.0**-digits
    # No number of as many digits is much nearer.
    few = [n for n in range(-4100, 4101) if digits_of(n) <= digits]
    best = torch.tensor([min(abs(n - m) for m in few) for n in range(-300, 301)])
    assert bool(((found - numbers).abs()[1700:2301] <= 2 * best).all())


@pytest.mark.parametrize("name", ["resnet:4,8x1", "reactnet18", "birealnet18"])
def test_multipliers_of_few_digits(name):
    model, config, pixels = random_model(random.Random(f"digits {name}"), name, multiplier_digits=2)
    affines = [m for m in model.modules() if isinstance(m, StreamAffine)]
    assert max(digits_of(m) for a in affines for m in a.multiplier.tolist()) == 2
    assert compare(model, config, pixels)[0] == 0


def test_training_uses_the_rounded_scales():
    model, _, pixels = random_model(
        random.Random("rounded scales"), "resnet:4,8x1", multiplier_digits=1, stream_bits=8
    )
    norm = model.get_submodule("bn1")

    def equal():
        with torch.no_grad(), real_valued(model):
            real = model[:3](pixels) * 2.0**norm.stream.placed
        with torch.no_grad():
            return float((real == model[:3](pixels)).double().mean())

    assert equal() > 0.97
    norm.rounding.fill_(1.0)
    assert equal() < 0.8


def test_digits_are_refused_where_they_mean_nothing():
    with pytest.raises(ModelRejected, match=r"must be between 1 and 5, not 6"):
        ModelConfig("resnet18", (32, 32, 3), 10, stream_bits=8, xi_bits=8, multiplier_digits=6)
    with pytest.raises(ModelRejected, match=r"need integer streams \(stream-bits\)"):
        ModelConfig("resnet18", (32, 32, 3), 10, multiplier_digits=2)
    with pytest.raises(ModelRejected, match=r"cannot be trained in reactnet_a; omit them"):
        ModelConfig("reactnet_a", (64, 64, 3), 10, stream_bits=8, xi_bits=8, multiplier_digits=2)


# The integers compute what the real values do


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_scores_are_those_of_the_rounded_weights(bits):
    """Means far from zero, which a batch norm takes away, must not meet unrounded weights."""
    generator = torch.Generator().manual_seed(bits)
    norm = ClassNorm(6)
    layer = IntegerLinear(6, 4, bits=bits, norm=norm)
    with torch.no_grad():
        norm.running_mean.copy_(torch.tensor([40.0, -30.0, 9.0, 0.0, 5.0, 7.0]))
        norm.running_var.uniform_(0.1, 4, generator=generator)
        norm.weight.normal_(generator=generator)
        norm.bias.normal_(generator=generator)
        layer.weight.normal_(generator=generator)
    model = nn.Sequential(norm, layer).eval()
    inputs = torch.randint(-50, 50, (20, 6), generator=generator).double()
    with torch.no_grad():
        scores = follow(model, Values.stream(0, 64), settling=True)
        integers = model(inputs) * scores.gain
        with real_valued(model.double()):
            real = model(inputs)
    # Only the offsets are rounded.
    assert float((integers - real).abs().max()) < 0.51 * float(scores.gain)


# Several signs of each value


@pytest.mark.parametrize("planes", [2, 3, 7])
def test_levels_of_a_stream(planes):
    model, config, pixels = random_model(
        random.Random(f"levels {planes}"), "resnet:4,8x1e2", sign_planes=planes, stream_bits=5
    )
    assert compare(model, config, pixels)[0] == 0
    levels = [m for m in model.modules() if isinstance(m, LevelSign)]
    assert all(len(set(m.thresholds.tolist())) == planes for m in levels)
    # Real values are compared with the same levels.
    stream = torch.arange(-16, 16.0).view(1, 1, 1, -1)
    block = levels[1]  # behind a hardtanh, where one is 16
    with torch.no_grad(), real_valued(model):
        real = block(stream / 16)
    assert torch.equal(real.double(), block(stream.double()))
    assert real.shape == (1, planes, 1, 32)
    assert real.sum() == 0 or planes % 2  # the levels lie evenly around zero


def test_planes_of_signs_are_refused_where_they_mean_nothing():
    with pytest.raises(ModelRejected, match=r"Planes of signs must be between 1 and 7, not 8"):
        ModelConfig("resnet18", (32, 32, 3), 10, sign_planes=8)
    with pytest.raises(
        ModelRejected, match=r"planes of signs \(sign-planes\) need integer streams"
    ):
        ModelConfig("resnet18", (32, 32, 3), 10, sign_planes=2)
    with pytest.raises(ModelRejected, match=r"Only resnet18 and resnet:… .* not reactnet18"):
        ModelConfig("reactnet18", (32, 32, 3), 10, stream_bits=8, xi_bits=8, sign_planes=2)


# Products of matrices that are exact


@pytest.mark.parametrize("setting", ["medium", "high"])
def test_faster_products_are_not_used_where_they_round(setting):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-127, 128, (2, 40, 6, 6), generator=generator).double()
    weight = torch.randint(-127, 128, (8, 40, 3, 3), generator=generator)
    wanted = F.conv2d(x, weight.double(), padding=1)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(setting)
        assert torch.equal(convolve(x, weight, (1, 1), (1, 1)), wanted)
    finally:
        torch.set_float32_matmul_precision(before)


def test_rounded_products_are_noticed(monkeypatch):
    assert multiplies_exactly(torch.zeros(1))
    exact = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda a, b: exact(a.bfloat16(), b.bfloat16()).float()
    )
    assert not multiplies_exactly(torch.zeros(1))


def test_training_begins_from_other_multipliers(tmp_path):
    """What rounding made of scales is computed, and no part of a checkpoint without it."""
    model, config, _ = random_model(random.Random("begin"), "resnet:4,8x1", stream_bits=6)
    save_checkpoint(tmp_path / "a.pt", Checkpoint(config, model, {}, {}))
    other = build_model(replace(config, multiplier_digits=2))
    begin_from(other, tmp_path / "a.pt")
    assert torch.equal(other.get_submodule("bn1").weight, model.get_submodule("bn1").weight)
    assert bool((other.get_submodule("bn1").rounding == 1).all())


def test_every_choice_of_streams_is_in_the_list():
    """Whatever only backbones may choose is told by `info`, cards and `explore`."""
    plain = ModelConfig("mlp:4", (8, 8, 1), 4)
    own = {f.name for f in fields(ModelConfig)}
    assert set(STREAMS) <= own & {f.name for f in fields(TrainConfig)}
    for name, value in (
        ("stream_bits", 8), ("weight_bits", 4), ("multiplier_digits", 2), ("sign_planes", 3),
        ("shortcut", "duplicate"), ("first", "binary"),
    ):  # fmt: skip
        assert name in STREAMS
        with pytest.raises(ModelRejected):
            replace(plain, **{name: value})
