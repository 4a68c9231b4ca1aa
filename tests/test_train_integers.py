"""Integer streams: evaluation is the stored integers, compared with Python's own arithmetic."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from integer_reference import Reference
from torch import nn

from sbnn_hw import datasets
from sbnn_hw.errors import ChoiceRejected, ModelRejected
from sbnn_hw.train import TrainConfig, load_checkpoint, save_checkpoint
from sbnn_hw.train.checkpoint import Checkpoint, used_values
from sbnn_hw.train.exact import (
    Slope,
    StreamAffine,
    Values,
    check,
    real_valued,
    settle,
)
from sbnn_hw.train.fold import fold_model
from sbnn_hw.train.integers import SignNorm, StreamNorm
from sbnn_hw.train.loop import train
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.norm import BatchNorm
from sbnn_hw.train.streams import Stream
from sbnn_hw.train.teacher import load_teacher
from sbnn_hw.train.trainer import Trainer

NAMES = (
    "resnet:4,8x1", "resnet:3,6,6x2e2", "resnet18", "reactnet18", "birealnet18", "xnor_resnet18",
    "reactnet_a",
)  # fmt: skip
KINDS = {
    "reactnet18": ("react", 4), "birealnet18": ("bireal", 4), "xnor_resnet18": ("xnor", 2),
}  # fmt: skip
MOBILE = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *((16, 1),) * 5, (32, 2), (32, 1))


def plan_of(config):
    """Return what the reference needs to know of a network's shape."""
    if config.name == "reactnet_a":
        base = config.scaled(32)
        blocks = [
            (f"block{n}", "mobile", base * times, stride)
            for n, (times, stride) in enumerate(MOBILE, start=1)
        ]
        return 2, 1, False, blocks
    widths, depth, kind = (64, 128, 256, 512), 2, "irnet"
    if config.name in KINDS:
        kind, depth = KINDS[config.name]
    elif ":" in config.name:
        form, _, number = config.name.partition(":")[2].partition("x")
        widths, depth = [int(width) for width in form.split(",")], int(number.partition("e")[0])
    blocks = [
        (f"layer{stage}.{n}", kind, config.scaled(width), 2 if stage > 1 and not n else 1)
        for stage, width in enumerate(widths, start=1)
        for n in range(depth)
    ]
    stride, padding = (2, 3) if min(config.shape[:2]) >= 64 else (1, 1)
    return stride, padding, config.name in KINDS, blocks


def random_model(rng, name, side=0, **more):
    """Return a settled model with wild parameters, its configuration and two images."""
    seed = rng.randrange(2**31)
    torch.manual_seed(seed)
    side = side or (rng.choice((8, 9, 13)) if ":" in name else 8)
    width = 1.0 if ":" in name else 0.035 if name != "reactnet_a" else 0.03
    domain = rng.choice(("learned", "learned", "signed", "zero", "symmetric", "bnn"))
    first = rng.choice(("real", "binary"))
    choices = {
        "stream_bits": rng.choice((3, 4, 6, 8, 8, 12)),
        "weight_bits": rng.choice((2, 4, 8)),
        "padding_value": rng.choice((0, -1)),
        "domain": domain,
        "xi_bits": rng.choice((1, 4, 8, 16)) if domain == "learned" else None,
        "first": first,
        "normalise": rng.choice(("", "cifar10")) if first == "real" else "",
        "shortcut": rng.choice(("real", "duplicate")) if ":" in name else "real",
        **more,
    }
    config = ModelConfig(name, (side, side, 3), 4, width=width, **choices)
    model = build_model(config)
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (6, 3, side, side), generator=generator).float()
    pixels[0, :, :4] = 255
    pixels[1, :, :4] = 0
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, BatchNorm) and isinstance(layer.weight, nn.Parameter):
                layer.weight.normal_(generator=generator)
                layer.weight[0] = rng.choice((0.0, 1.0))
                layer.bias.normal_(generator=generator)
            if isinstance(layer, nn.PReLU):
                layer.weight.uniform_(-0.4, 1.5, generator=generator)
        for key, value in model.named_parameters():
            if key.endswith((".before.bias", ".behind.bias", ".shift.bias")):
                value.normal_(generator=generator)
            if key.endswith("domain.xi"):
                value.fill_(rng.uniform(-1, 0.5))
            if key.endswith("domain.tau"):
                value.fill_(rng.choice((-1, 1)) * rng.uniform(0.1, 3))
        for _ in range(3):
            model(pixels)
    model.eval()
    settle(model)
    return model, config, pixels[:2]


def compare(model, config, pixels):
    """Return how many values differ from the reference's, and how many there were."""
    streams = {}

    def keep(name):
        return lambda module, inputs, output: streams.setdefault(name, output)

    reference = Reference(config, used_values(model))
    plan = plan_of(config)
    names = ["bn1", *(name for name, *_ in plan[3])]
    if config.name == "reactnet_a":
        names += [f"{name}.bn1" for name, *_ in plan[3]]
    hooks = [model.get_submodule(n).register_forward_hook(keep(n)) for n in names]
    with torch.no_grad():
        scores = model(pixels)
    for hook in hooks:
        hook.remove()
    assert scores.dtype == torch.float64
    different = count = 0
    for number, image in enumerate(pixels.numpy()):
        expected = reference.scores(image, plan)
        different += sum(
            int(a) != b for a, b in zip(scores[number].tolist(), expected, strict=True)
        )
        count += len(expected)
        for name in names:
            ours = streams[name][number].numpy()
            different += int((ours != reference.streams[name].astype(float)).sum())
            count += ours.size
    return different, count


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_every_value_is_the_references(name, seed):
    model, config, pixels = random_model(random.Random(f"{name} {seed}"), name)
    with torch.no_grad():
        different, count = compare(model, config, pixels)
    assert different == 0
    assert count > 100


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4, 20))
def test_every_value_of_many_networks_is_the_references(name, seed):
    model, config, pixels = random_model(random.Random(f"{name} {seed}"), name)
    assert compare(model, config, pixels)[0] == 0


@pytest.mark.parametrize("first", ["real", "binary"])
def test_large_images_have_a_wide_first_window(first):
    model, config, pixels = random_model(
        random.Random(1), "birealnet18", 64, first=first, normalise=""
    )
    assert model.conv1.weight.shape[2:] == (7, 7)
    assert compare(model, config, pixels[:1])[0] == 0


def test_streams_are_clamped_and_meet_their_thresholds():
    """What is compared above has clamped values on either side, and ties."""
    low = high = ties = 0
    for seed in range(6):
        model, _, pixels = random_model(random.Random(seed), "reactnet18", stream_bits=3)
        seen = []
        for block in model.layer1:
            block.register_forward_hook(lambda m, i, o, seen=seen: seen.append(o))
        with torch.no_grad():
            model(pixels)
        low += sum(int((stream == -4).sum()) for stream in seen)
        high += sum(int((stream == 3).sum()) for stream in seen)
        threshold = model.layer1[1].sign.threshold.double().view(1, -1, 1, 1)
        ties += int((seen[0] == threshold).sum())
    assert min(low, high, ties) > 10


FAULTS = {
    "rounding": ("sbnn_hw.train.exact.torch.floor", torch.ceil),
    "clamp": ("sbnn_hw.train.exact.StreamAffine.high", property(lambda self: 2 ** (self.bits - 1))),
    "low": (
        "sbnn_hw.train.exact.StreamAffine.low",
        property(lambda self: 1 - 2 ** (self.bits - 1)),
    ),
    "sign": ("sbnn_hw.train.integers.sign", torch.sign),
    "pixel": ("sbnn_hw.train.integers.PixelConv2d.PIXEL", 127),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(monkeypatch, fault):
    model, config, pixels = random_model(
        random.Random(3), "resnet:4,8x1", first="binary", domain="zero", xi_bits=None,
        stream_bits=3, padding_value=0, normalise="",
    )  # fmt: skip
    assert compare(model, config, pixels)[0] == 0
    monkeypatch.setattr(*FAULTS[fault])
    assert compare(model, config, pixels)[0] > 0


@pytest.mark.parametrize("part", ["multiplier", "offset", "shift", "second", "below", "behind"])
def test_a_changed_integer_changes_the_network(part):
    """Evaluation reads what is stored: each integer, and nothing else."""
    model, config, pixels = random_model(random.Random(11), "reactnet18", stream_bits=8)
    expected = Reference(config, used_values(model))
    expected.scores(pixels[0].numpy(), plan_of(config))
    with torch.no_grad():
        kept = []
        model.layer1[0].register_forward_hook(lambda m, i, o: kept.append(o[0].numpy()))
        model(pixels[:1])
        affine = model.layer1[0].bn.affine
        value = getattr(affine, part)
        value.add_(1 if value.dim() == 0 else 40 if part == "below" else value.abs().max() // 2 + 9)
        model(pixels[:1])
        # The real values behind the integers play no part.
        value.sub_(1 if value.dim() == 0 else 40 if part == "below" else 0)
    assert (kept[0] == expected.streams["layer1.0"].astype(float)).all()
    assert (kept[1] != kept[0]).any()


def test_evaluation_never_computes_its_integers_again():
    model, config, pixels = random_model(random.Random(6), "reactnet_a")
    with torch.no_grad():
        before = model(pixels)
        for key, value in model.named_parameters():
            if not key.endswith(("conv1.weight", "conv.weight")) and ".conv2." not in key:
                value.add_(0.5)
        for layer in model.modules():
            if isinstance(layer, BatchNorm):
                layer.running_mean.add_(1)
        if config.first == "real":
            model.conv1.weight.mul_(-1)
        assert torch.equal(model(pixels), before)
        settle(model)
        assert not torch.equal(model(pixels), before)


# What the integers stand for


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slope", [False, True])
@torch.no_grad()
def test_the_integers_are_the_real_arithmetic_rounded_once(seed, slope):
    """No result is further from the real one than rounding, once, and the multiplier's error."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    channels, bits = 5, rng.choice((4, 8, 12))
    norm = StreamNorm(channels, scale="learned", bits=bits, slope=slope).eval()
    fraction, other = rng.randrange(2, 8), rng.randrange(0, 9)
    norm.stream.fraction.fill_(fraction)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
        norm.running_mean.normal_().mul_(10)
        norm.running_var.uniform_(1, 400)
    gain = rng.uniform(0.01, 2)
    most = 100
    sums = Values(torch.full((channels,), gain).double(), torch.zeros(channels).double(),
                  torch.full((channels,), float(most)).double())  # fmt: skip
    shortcut = Values.stream(other, 128)
    numbers = None
    if slope:
        numbers = Slope(*(torch.randn(channels).double() for _ in range(3)))
    norm.follow(sums, settling=True, shortcut=shortcut, slope=numbers)
    v = torch.randint(-most, most + 1, (50, channels, 3, 3)).double()
    r = torch.randint(-128, 128, v.shape).double()
    found = norm(v, r)
    a = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = int(norm.affine.shift)
    shape = (1, -1, 1, 1)
    y = a.view(shape) * (gain * v - norm.running_mean.double().view(shape))
    y = y + norm.bias.double().view(shape) + r * 2.0**-other
    error = (0.5 * most + 1) * 2.0**-shift
    if slope:
        y = y + numbers.before.view(shape)
        y = torch.where(y >= 0, y, y * numbers.slope.view(shape)) + numbers.behind.view(shape)
        # The multiplier's error grows with the slope, and the slope has one of its own.
        steep = max(1.0, float(numbers.slope.abs().max()))
        error = error * 2**8 * steep + float(y.abs().max()) * 2.0**fraction * 2.0**-7
    y = (y * 2.0**fraction).clamp(norm.affine.low, norm.affine.high)
    assert (found - y).abs().max() <= 0.5 + error + 1e-9
    # The reference rounds half up, as ⌊x + 1/2⌋ does.
    m, b = norm.affine.multiplier.tolist(), norm.affine.offset.tolist()
    if not slope:
        at = (0, 2, 1, 1)
        t = m[2] * int(v[at]) + b[2] + int(r[at]) * 2 ** int(norm.affine.second)
        want = math.floor(Fraction(t, 2**shift))
        assert int(found[at]) == max(norm.affine.low, min(norm.affine.high, want))


@torch.no_grad()
def test_thresholds_decide_as_the_batch_norm_does():
    torch.manual_seed(0)
    norm = SignNorm(6, scale="learned").eval()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, -2.0, 0.0, 0.0, 0.5, -0.25]))
        norm.bias.copy_(torch.tensor([0.3, 0.4, 0.0, -1.0, 1000.0, 1000.0]))
        norm.running_mean.copy_(torch.tensor([2.0, -3.0, 0.0, 0.0, 0.0, 0.0]))
        norm.running_var.fill_(1 - 1e-5)
    gain = torch.full((6,), 0.25, dtype=torch.float64)
    norm.follow(Values(gain, 0 * gain, 0 * gain + 40), settling=True)
    sums = torch.arange(-40.0, 41.0).double().view(-1, 1, 1, 1).expand(-1, 6, 1, 1)
    found = norm(sums)
    with real_valued(norm):
        expected = norm((sums * 0.25).float())
    assert torch.equal(found, torch.where(expected >= 0, 1.0, -1.0).double())
    assert norm.flip.tolist() == [False, True, False, False, False, True]
    # Never and always are at the ends of what can come.
    assert norm.threshold.tolist()[2:] == [-40, 41, -40, 41]


def test_training_rounds_to_what_the_stream_can_say():
    stream = Stream(4, within_one=True)
    x = torch.tensor([-3.0, -1.0, -0.3, 0.0, 0.06, 0.07, 0.9, 5.0], requires_grad=True)
    y = stream(x)
    assert (y * 8).tolist() == [-8, -8, -2, 0, 0, 1, 7, 7]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]


def test_a_stream_takes_the_fraction_of_least_error():
    wide = Stream(8)
    wide(torch.linspace(-10, 10, 1001))
    assert int(wide.fraction) == 3  # up to ±16, since ±8 clamps a fifth of them
    narrow = Stream(8)
    narrow(torch.linspace(-0.1, 0.1, 1001))
    assert int(narrow.fraction) == 10


# What is refused


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"stream_bits": 1}, "^Bits of streams must be between 2 and 16, not 1$"),
        ({"stream_bits": 17}, "^Bits of streams must be between 2 and 16, not 17$"),
        ({"stream_bits": 8, "weight_bits": 9}, "^Bits of weights must be between 2 and 8, not 9$"),
        ({"weight_bits": 8}, r"^Integer weights \(weight-bits\) need integer streams"),
        ({"stream_bits": 8}, (r"^Integer streams .* need binary weights with ξ on a grid, not the "
         r"domain learned without xi-bits; use learned with xi-bits, or")),
        ({"stream_bits": 8, "domain": "real"}, "^Integer streams .* not the domain real; use"),
        ({"stream_bits": 8, "domain": "closed_form"}, "not the domain closed_form; use"),
        ({"shortcut": "none"}, "^Shortcut must be one of real, duplicate, not 'none'$"),
        ({"first": "sparse"}, "^First convolution must be one of real, binary, not 'sparse'$"),
        ({"first": "binary", "normalise": "cifar10"}, "^A binary first convolution reads pixels"),
        ({"name": "sfc", "shortcut": "duplicate"}, "^Only backbones .* have streams, shortcuts"),
        ({"name": "resnet:8,16"}, r"must list up to eight widths and the blocks of a stage, as in"),
        ({"name": "resnet:x2"}, r"must list up to eight widths and the blocks of a stage, as in"),
        ({"name": "resnet:8,12x1", "shortcut": "duplicate"},
         r"need channels that are multiples of those before, not 12 behind 8; use another"),
    ],
)  # fmt: skip
def test_choices_that_make_no_network_are_refused(choices, text):
    with pytest.raises(ModelRejected, match=text):
        build_model(
            ModelConfig(**{"name": "resnet:8,16x1", "shape": (8, 8, 3), "classes": 3, **choices})
        )


def broken(key, value, name="reactnet18"):
    model, _, _ = random_model(
        random.Random(9), name, domain="symmetric", xi_bits=None, stream_bits=8, first="real"
    )
    with torch.no_grad():
        model.get_parameter(key).fill_(value)
    return model


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("layer1.0.bn.weight", 1e-30, (r"^Layer layer1\.0\.bn: its scale of .* cannot be represented "
         r"by integers of 10 bits and a shift of at most 40; train it again, or with other bits")),
        ("layer1.0.bn.weight", 1e30, r"^Layer layer1\.0\.bn: its scale of .* cannot be represented"),
        ("layer1.0.bn.weight", math.nan, r"^Layer layer1\.0\.bn: its scale is not finite; train it"),
        ("layer2.1.bn.bias", 1e20, (r"^Layer layer2\.1\.bn: its offset is .*, but only integers "
         r"below 2\^53 are exact$")),
        ("layer1.2.prelu.prelu.weight", 2.0**38, (r"^Layer layer1\.2\.bn: a sum in its scaling can "
         r"reach .*, but only integers below 2\^53 are exact; use fewer bits for ξ, weights or")),
        ("layer1.0.sign.shift.bias", math.inf, r"^Layer layer1\.0\.sign: its shift is not finite"),
        ("conv1.weight", math.inf, r"^Layer conv1: its weight is not finite; train it again"),
    ],
)  # fmt: skip
def test_what_integers_cannot_say_is_refused_by_name(key, value, text):
    with pytest.raises(ModelRejected, match=text):
        settle(broken(key, value))


def test_a_scale_of_zero_is_an_integer():
    model = broken("layer1.0.bn.weight", 0.0)
    settle(model)
    assert not model.layer1[0].bn.affine.multiplier.any()


def saved(tmp_path, rng=None, name="resnet:4,8x1", **more):
    model, config, pixels = random_model(rng or random.Random(2), name, **more)
    path = tmp_path / "a.pt"
    save_checkpoint(path, Checkpoint(config, model))
    return path, model, pixels


def test_a_checkpoint_holds_the_integers(tmp_path):
    path, model, pixels = saved(tmp_path)
    loaded = load_checkpoint(path)
    one, two = used_values(model), used_values(loaded.model)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    with torch.no_grad():
        assert torch.equal(model(pixels), loaded.model(pixels))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("bn1.affine.shift", -1, "layer bn1: its integers have not been computed; use `sbnn-hw q"),
        ("bn1.affine.shift", 63, "layer bn1: its shifts must be between 0 and 62, not 63 and 0"),
        ("layer1.0.bn2.affine.second", -3, "layer layer1.0.bn2: its shifts must be between 0 and"),
        ("layer1.0.bn2.affine.multiplier", 2**52, "layer layer1.0.bn2: a sum in its scaling can"),
        ("bn1.stream.fraction", 1 << 15, "layer bn1: no image has passed its stream yet"),
        ("pool.positions", 0, "layer pool: no image has passed it yet"),
        ("linear.offsets", 2**60, "layer linear: a score can reach 1.15e+18, but only integers"),
    ],
)
def test_a_checkpoint_whose_integers_cannot_be_is_refused(tmp_path, key, value, text):
    path, _, _ = saved(tmp_path)
    content = torch.load(path, weights_only=True)
    content["values"][key] = torch.full_like(content["values"][key], value)
    torch.save(content, path)
    with pytest.raises(ModelRejected) as refused:
        load_checkpoint(path)
    assert str(refused.value).startswith(f"{path}: {text}")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("bn1.affine.multiplier", torch.zeros(3, dtype=torch.int64),
         "bn1.affine.multiplier must be (4,) of torch.int64, not (3,) of torch.int64"),
        ("bn1.affine.offset", torch.zeros(4),
         "bn1.affine.offset must be (4,) of torch.int64, not (4,) of torch.float32"),
        ("bn1.affine.shift", torch.zeros(2, dtype=torch.int64),
         "bn1.affine.shift must be () of torch.int64, not (2,) of torch.int64"),
        ("linear.integers", torch.zeros(2, 2, dtype=torch.int8),
         "linear.integers must be (4, 8) of torch.int8, not (2, 2) of torch.int8"),
        ("bn1.affine.shift", torch.tensor(-2),
         "layer bn1: its shifts must be between 0 and 62, not -2 and 0"),
        ("bn1.affine.offset", torch.full((4,), 1 << 53),
         ("layer bn1: a sum in its scaling can reach 9.01e+15, but only integers below 2^53 are "
          "exact; use fewer bits for ξ, weights or streams")),
        ("bn1.affine.offset", torch.full((4,), -(1 << 63)),
         ("layer bn1: a sum in its scaling can reach 9.22e+18, but only integers below 2^53 are "
          "exact; use fewer bits for ξ, weights or streams")),
        ("layer1.0.bn1.threshold", torch.full((4,), 1 << 53),
         ("layer layer1.0.bn1: a threshold can reach 9.01e+15, but only integers below 2^53 are "
          "exact; use fewer bits for ξ, weights or streams")),
        ("bn1.affine.offset", None, "it lacks bn1.affine.offset"),
    ],
)  # fmt: skip
def test_integers_of_a_wrong_form_are_refused(tmp_path, key, value, text):
    path, _, _ = saved(tmp_path)
    content = torch.load(path, weights_only=True)
    if value is None:
        del content["values"][key]
    else:
        content["values"][key] = value
    torch.save(content, path)
    with pytest.raises(ModelRejected) as refused:
        load_checkpoint(path)
    assert str(refused.value) == f"{path}: {text}"


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 1500), marks=pytest.mark.long)]
)
def test_changed_integers_are_a_network_or_a_sentence(tmp_path, seeds):
    path, _, _ = saved(tmp_path)
    content = torch.load(path, weights_only=True)
    wild = [
        0,
        1,
        -1,
        7,
        63,
        255,
        1 << 31,
        -(1 << 40),
        1 << 52,
        -(1 << 53),
        (1 << 63) - 1,
        -(1 << 63),
    ]
    integers = [k for k, v in content["values"].items() if not v.is_floating_point()]
    refused = []
    for seed in seeds:
        rng = random.Random(seed)
        key = rng.choice(integers)
        value = content["values"][key].clone()
        number = torch.tensor(rng.choice(wild)).to(value.dtype)
        if value.dim():
            value.view(-1)[rng.randrange(value.numel())] = number
        else:
            value = number
        torch.save({**content, "values": {**content["values"], key: value}}, path)
        try:
            made = load_checkpoint(path)
            fold_model(made.model, made.config.shape)
        except ModelRejected as error:
            refused.append(str(error))
    assert 0 < len(refused) < len(seeds)
    assert not any("\n" in sentence for sentence in refused)


# Training

QUICK = TrainConfig(
    model="resnet:4,8x1", data="digits", ec=0.3, method="topk", epochs=2, batch=128, lr=0.003,
    stream_bits=6, shortcut="duplicate", recalibrate=300, validation=100,
)  # fmt: skip


class Stopped(Exception):
    pass


def test_training_ends_with_integers_and_resumes_to_the_same(tmp_path, monkeypatch):
    whole = train(QUICK, tmp_path / "whole.pt")
    assert whole.config.xi_bits == 8
    check(whole.model)
    run_epoch = Trainer.run_epoch

    def interrupted(self, progress):
        if self.epoch == 1:
            raise Stopped
        return run_epoch(self, progress)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run_epoch", interrupted)
        with pytest.raises(Stopped):
            train(QUICK, tmp_path / "parts.pt")
    parts = train(QUICK, tmp_path / "parts.pt", resume=True)
    one, two = used_values(whole.model), used_values(parts.model)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert (tmp_path / "whole.pt").read_bytes() == (tmp_path / "parts.pt").read_bytes()
    # What was validated is the integers, and so is what was written.
    different, _ = compare(*_trained(whole))
    assert different == 0


def _trained(checkpoint):
    pixels = torch.randint(0, 17, (2, 1, 8, 8), generator=torch.Generator().manual_seed(0)) * 15
    return checkpoint.model, checkpoint.config, pixels.float()


def test_a_teacher_with_integers_teaches(tmp_path):
    path = tmp_path / "teacher.pt"
    train(replace(QUICK, epochs=1, model="resnet:4x1"), path)
    alone = train(replace(QUICK, epochs=1), tmp_path / "alone.pt")
    pupil = train(replace(QUICK, epochs=1, teacher=str(path)), tmp_path / "pupil.pt")
    assert not torch.equal(pupil.model.linear.weight, alone.model.linear.weight)
    check(pupil.model)
    model = load_teacher(path, "digits", (8, 8, 1), 10)
    with torch.no_grad():
        scores = model(torch.zeros(1, 1, 8, 8))
    assert scores.dtype == torch.float32  # scores of real values, not integers
    assert scores.abs().max() < 100


def test_a_step_in_few_bits_reaches_every_parameter():
    for name in NAMES:
        # Maps stay above 1×1.
        side = 64 if name == "reactnet_a" else 32
        config = ModelConfig(
            name, (side, side, 3), 4, width=1 if ":" in name else 0.1, stream_bits=8, xi_bits=8
        )
        torch.manual_seed(0)
        model = build_model(config)
        pixels = torch.randint(0, 256, (4, 3, side, side)).float()
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(pixels)
        F.cross_entropy(outputs.float(), torch.arange(4)).backward()
        for key, parameter in model.named_parameters():
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key


def test_defaults_make_the_same_networks_as_before():
    """Without the options a backbone has no integers, and the same values by name."""
    model = build_model(ModelConfig("reactnet18", (16, 16, 3), 4, width=0.05))
    assert not any(isinstance(module, StreamAffine | Stream) for module in model.modules())
    assert all(value.is_floating_point() for value in model.state_dict().values())
    assert np.all([not name.endswith("affine") for name, _ in model.named_modules()])


def test_integers_that_were_never_computed_are_not_used():
    model = build_model(ModelConfig("resnet:4x1", (8, 8, 1), 3, stream_bits=8, xi_bits=8)).eval()
    with pytest.raises(ModelRejected, match=r"^The integers of the network have not been computed"):
        model(torch.zeros(1, 1, 8, 8))


def test_bits_out_of_range_are_the_choices_fault():
    images = datasets.find("digits").load("train")
    config = replace(QUICK, stream_bits=99)
    with pytest.raises(ChoiceRejected, match=r"^Bits of streams must be between 2 and 16, not 99$"):
        Trainer(config, images, classes=10)
