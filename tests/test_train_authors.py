"""The authors' checkpoints: their networks, written here once more, give what the converted do."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from made_up import cifar100

from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.train.authors import convert
from sbnn_hw.train.checkpoint import load_checkpoint, save_checkpoint
from sbnn_hw.train.sparsity import layers_of

DATA = {"resnet18": "cifar10", "reactnet18": "cifar100", "reactnet_a": "imagenet"}
# Of their training scripts.
NORMALISE = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


# State dicts in the authors' layouts, with random values


class Maker:
    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.state = {}

    def normal(self, name, *shape, scale=1.0):
        self.state[name] = scale * torch.randn(shape, generator=self.random)

    def norm(self, name, channels):
        self.normal(f"{name}.weight", channels)
        self.normal(f"{name}.bias", channels, scale=0.3)
        self.normal(f"{name}.running_mean", channels, scale=0.3)
        self.state[f"{name}.running_var"] = (
            torch.rand(channels, generator=self.random) * 3 * channels + 0.5
        )
        self.state[f"{name}.num_batches_tracked"] = torch.tensor(1234)

    def binary(self, name, outputs, inputs, kernel, flat=False):
        weights = "weights" if flat else "weight"
        shape = (outputs * inputs * kernel**2, 1) if flat else (outputs, inputs, kernel, kernel)
        self.normal(f"{name}.{weights}", *shape, scale=0.1)
        for symbol in ("tau", "phi"):  # of either sign
            self.normal(f"{name}.{symbol}")

    def shift(self, name, channels):
        self.normal(f"{name}.bias", 1, channels, 1, 1, scale=0.3)

    def linear(self, name, outputs, inputs):
        self.normal(f"{name}.weight", outputs, inputs)
        self.normal(f"{name}.bias", outputs)


def make_resnet18(base, classes=10, seed=0):
    make = Maker(seed)
    make.normal("conv1.weight", base, 3, 3, 3)
    make.norm("bn1", base)
    inputs = base
    for stage in range(4):
        outputs = base << stage
        for block in range(2):
            name = f"layer{stage + 1}.{block}"
            make.binary(f"{name}.conv1", outputs, inputs, 3)
            make.norm(f"{name}.bn1", outputs)
            make.binary(f"{name}.conv2", outputs, outputs, 3)
            make.norm(f"{name}.bn2", outputs)
            if inputs != outputs:
                make.normal(f"{name}.shortcut.0.weight", outputs, inputs, 1, 1)
                make.norm(f"{name}.shortcut.1", outputs)
            inputs = outputs
    make.linear("linear", classes, inputs)
    make.norm("bn2", inputs)
    return make.state


def make_reactnet18(base, classes=100, seed=0):
    make = Maker(seed)
    make.normal("conv1.weight", base, 3, 3, 3)
    make.norm("bn1", base)
    inputs = base
    for stage in range(4):
        outputs = base << stage
        for block in range(4):
            name = f"layer{stage + 1}.{block}"
            make.shift(f"{name}.move0", inputs)
            make.binary(f"{name}.binary_conv", outputs, inputs, 3)
            make.norm(f"{name}.bn1", outputs)
            make.shift(f"{name}.move1", outputs)
            make.normal(f"{name}.prelu.weight", outputs)
            make.shift(f"{name}.move2", outputs)
            if inputs != outputs:
                make.normal(f"{name}.downsample.1.weight", outputs, inputs, 1, 1)
                make.norm(f"{name}.downsample.2", outputs)
            inputs = outputs
    make.linear("fc", classes, inputs)
    return make.state


MOBILE = [1, 2, 4, 4, 8, 8, 16, 16, 16, 16, 16, 16, 32, 32]


def make_reactnet_a(base, classes=1000, seed=0):
    make = Maker(seed)
    make.normal("feature.0.conv1.weight", base, 3, 3, 3)
    make.norm("feature.0.bn1", base)
    for index in range(1, 14):
        inputs, outputs = base * MOBILE[index - 1], base * MOBILE[index]
        name = f"feature.{index}"
        make.shift(f"{name}.move11", inputs)
        make.binary(f"{name}.binary_3x3", inputs, inputs, 3, flat=True)
        make.norm(f"{name}.bn1", inputs)
        make.shift(f"{name}.move12", inputs)
        make.normal(f"{name}.prelu1.weight", inputs)
        make.shift(f"{name}.move13", inputs)
        make.shift(f"{name}.move21", inputs)
        if inputs == outputs:
            make.binary(f"{name}.binary_pw", outputs, inputs, 1, flat=True)
            make.norm(f"{name}.bn2", outputs)
        else:
            make.binary(f"{name}.binary_pw_down1", inputs, inputs, 1, flat=True)
            make.binary(f"{name}.binary_pw_down2", inputs, inputs, 1, flat=True)
            make.norm(f"{name}.bn2_1", inputs)
            make.norm(f"{name}.bn2_2", inputs)
        make.shift(f"{name}.move22", outputs)
        make.normal(f"{name}.prelu2.weight", outputs)
        make.shift(f"{name}.move23", outputs)
    make.linear("fc", classes, base * 32)
    return make.state


MAKERS = {
    "resnet18": make_resnet18, "reactnet18": make_reactnet18, "reactnet_a": make_reactnet_a
}  # fmt: skip


# What their code computes from them, in double precision so that no sign hangs on a rounding


def norm(s, name, x):
    shape = (1, -1, *[1] * (x.dim() - 2))
    mean, var = s[f"{name}.running_mean"].view(shape), s[f"{name}.running_var"].view(shape)
    scaled = (x - mean) / (var + 1e-5).sqrt()
    return scaled * s[f"{name}.weight"].view(shape) + s[f"{name}.bias"].view(shape)


def binary(s, name, x, stride=1, kernel=3):
    """Convolve the signs of x with τ·sign(w) + φ, zeros around."""
    weights = s[f"{name}.weights"] if f"{name}.weights" in s else s[f"{name}.weight"]
    weights = weights.view(-1, x.shape[1], kernel, kernel)
    signs = torch.where(weights > 0, 1.0, -1.0).double()
    used = s[f"{name}.tau"] * signs + s[f"{name}.phi"]
    return F.conv2d(torch.sign(x), used, stride=stride, padding=kernel // 2)


def prelu(s, names, x):
    before, slope, behind = (s[name] for name in names)
    x = x + before
    return torch.where(x >= 0, x, x * slope.view(1, -1, 1, 1)) + behind


def run_resnet18(s, x):
    x = norm(s, "bn1", F.conv2d(x, s["conv1.weight"], padding=1))
    for stage in range(1, 5):
        for block in range(2):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = norm(s, f"{name}.bn1", binary(s, f"{name}.conv1", x, stride)).clamp(-1, 1)
            out = norm(s, f"{name}.bn2", binary(s, f"{name}.conv2", out))
            if stride == 2:
                x = F.conv2d(x, s[f"{name}.shortcut.0.weight"], stride=2)
                x = norm(s, f"{name}.shortcut.1", x)
            x = (out + x).clamp(-1, 1)
    x = norm(s, "bn2", F.avg_pool2d(x, 4).flatten(1))
    return F.log_softmax(x @ s["linear.weight"].T + s["linear.bias"], 1)


def run_reactnet18(s, x):
    x = norm(s, "bn1", F.conv2d(x, s["conv1.weight"], padding=1))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage in range(1, 5):
        for block in range(4):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = binary(s, f"{name}.binary_conv", x + s[f"{name}.move0.bias"], stride)
            out = norm(s, f"{name}.bn1", out)
            if stride == 2:
                x = F.conv2d(F.avg_pool2d(x, 2), s[f"{name}.downsample.1.weight"])
                x = norm(s, f"{name}.downsample.2", x)
            names = (f"{name}.move1.bias", f"{name}.prelu.weight", f"{name}.move2.bias")
            x = prelu(s, names, out + x)
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


def run_reactnet_a(s, x):
    x = norm(s, "feature.0.bn1", F.conv2d(x, s["feature.0.conv1.weight"], stride=2, padding=1))
    for index in range(1, 14):
        name = f"feature.{index}"
        stride = 2 if MOBILE[index] != MOBILE[index - 1] and index > 1 else 1
        out = binary(s, f"{name}.binary_3x3", x + s[f"{name}.move11.bias"], stride)
        out = norm(s, f"{name}.bn1", out) + (F.avg_pool2d(x, 2) if stride == 2 else x)
        names = (f"{name}.move12.bias", f"{name}.prelu1.weight", f"{name}.move13.bias")
        x = prelu(s, names, out)
        shifted = x + s[f"{name}.move21.bias"]
        if f"{name}.bn2.weight" in s:
            x = norm(s, f"{name}.bn2", binary(s, f"{name}.binary_pw", shifted, kernel=1)) + x
        else:
            halves = [
                norm(s, f"{name}.bn2_{n}", binary(s, f"{name}.binary_pw_down{n}", shifted, 1, 1))
                for n in (1, 2)
            ]
            x = torch.cat([half + x for half in halves], 1)
        names = (f"{name}.move22.bias", f"{name}.prelu2.weight", f"{name}.move23.bias")
        x = prelu(s, names, x)
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


RUNS = {"resnet18": run_resnet18, "reactnet18": run_reactnet18, "reactnet_a": run_reactnet_a}


def theirs(name, state, pixels):
    mean, deviation = (
        torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1)
        for values in NORMALISE[DATA[name]]
    )
    return RUNS[name](
        {key: value.double() for key, value in state.items()},
        (pixels.double() / 255 - mean) / deviation,
    )


def write(path, name, state, *, parallel=True, bare=False):
    if parallel:
        state = {f"module.{key}": value for key, value in state.items()}
    if bare:
        content = state
    elif name == "reactnet_a":
        optimiser = {"state": {0: {"step": 3}}, "param_groups": [{"lr": 0.001}]}
        content = {"epoch": 127, "state_dict": state, "best_top1_acc": torch.tensor(68.25),
                   "optimizer": optimiser}  # fmt: skip
    else:
        content = {"net": state, "acc": 93.5, "epoch": 299}
    torch.save(content, path)
    return path


def weights_of(state):
    """Return their binary weights in the order of their layers, as in our modules."""
    return [value for key, value in state.items() if f"{key.rpartition('.')[0]}.tau" in state
            and key.endswith((".weight", ".weights"))]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "base", "classes"),
    [("resnet18", 4, 10), ("resnet18", 5, 7), ("reactnet18", 4, 1000), ("reactnet_a", 2, 12)],
)
@pytest.mark.parametrize("seed", [0, 1])
@torch.no_grad()
def test_converted_networks_compute_what_theirs_do(tmp_path, name, base, classes, seed):
    state = MAKERS[name](base, classes, seed=seed)
    path = write(tmp_path / "theirs.pth", name, state, parallel=seed == 0)
    conversion = convert(path, name, DATA[name])
    assert conversion.zeros == {}
    save_checkpoint(tmp_path / "ours.pt", conversion.checkpoint)
    loaded = load_checkpoint(tmp_path / "ours.pt")
    config = loaded.config
    assert (config.name, config.classes, config.domain) == (name, classes, "learned")
    assert (config.normalise, config.padding_value) == (DATA[name], 0)
    layers = layers_of(loaded.model)
    weights = weights_of(state)
    assert len(layers) == len(weights) == {"resnet18": 16, "reactnet18": 16}.get(name, 31)
    for layer, weight in zip(layers, weights, strict=True):
        assert torch.equal(layer.signs().flatten() > 0, weight.flatten() > 0)
    size = config.shape[0]
    pixels = torch.randint(0, 256, (3, 3, size, size), generator=torch.Generator().manual_seed(9))
    want = theirs(name, state, pixels)
    got = loaded.model.double()(pixels.double())
    if name == "resnet18":  # theirs ends in a LogSoftmax
        got = F.log_softmax(got, 1)
    assert want.std() > 0.1
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5)


def test_full_width_has_the_papers_number_of_weights(tmp_path):
    path = write(tmp_path / "theirs.pth", "resnet18", make_resnet18(64))
    conversion = convert(path, "resnet18", "cifar10")
    assert conversion.checkpoint.config.width == 1
    assert conversion.checkpoint.metrics["weights"] == 10_985_472
    state = make_resnet18(64)
    assert conversion.checkpoint.metrics["ones"] == sum(
        int((weight > 0).sum()) for weight in weights_of(state)
    )


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_prefixes_and_wrappings_make_no_difference(tmp_path, name, parallel, bare):
    state = MAKERS[name](2)
    path = write(tmp_path / "a.pth", name, state, parallel=parallel, bare=bare)
    metrics = convert(path, name, DATA[name]).checkpoint.metrics
    assert metrics["ones"] == sum(int((weight > 0).sum()) for weight in weights_of(state))
    claims = {} if bare else {"resnet18": (0.935, 299), "reactnet18": (0.935, 299)}.get(
        name, (0.6825, 127))  # fmt: skip
    assert (metrics.get("claimed_accuracy"), metrics.get("epoch")) == (claims or (None, None))


# Weights that are exactly zero


def test_zeros_are_minus_one_for_cifar100(tmp_path):
    state = make_reactnet18(4)
    state["layer1.2.binary_conv.weight"].view(-1)[[3, 5, 8]] = torch.tensor([0.0, -0.0, 0.0])
    state["layer4.0.binary_conv.weight"].view(-1)[7] = 0.0
    path = write(tmp_path / "theirs.pth", "reactnet18", state)
    conversion = convert(path, "reactnet18", "cifar100")
    assert conversion.zeros == {"layer1.2.binary_conv": 3, "layer4.0.binary_conv": 1}
    model = conversion.checkpoint.model
    assert model.layer1[2].conv.signs().view(-1)[[3, 5, 8]].tolist() == [-1, -1, -1]
    assert model.layer4[0].conv.signs().view(-1)[7] == -1
    save_checkpoint(tmp_path / "ours.pt", conversion.checkpoint)
    pixels = torch.randint(0, 256, (2, 3, 32, 32))
    with torch.no_grad():
        got = load_checkpoint(tmp_path / "ours.pt").model.double()(pixels.double())
    assert torch.allclose(got, theirs("reactnet18", state, pixels), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "layer", "weights"),
    [("resnet18", "layer3.1.conv2", "weight"), ("reactnet_a", "feature.2.binary_pw_down2", "weights")],
)  # fmt: skip
def test_zeros_are_refused_elsewhere(tmp_path, name, layer, weights):
    state = MAKERS[name](2)
    state[f"{layer}.{weights}"].view(-1)[:2] = torch.tensor([0.0, -0.0])
    path = write(tmp_path / "theirs.pth", name, state)
    with pytest.raises(
        ModelRejected,
        match=rf"^\S+theirs\.pth as the authors' {name}: it has weights that are exactly zero "
        rf"\(2 in {layer}\), which its code leaves at zero, ",
    ):
        convert(path, name, DATA[name])


# What does not fit


@pytest.mark.parametrize("name", MAKERS)
def test_every_missing_key_is_named(tmp_path, name):
    state = MAKERS[name](1)
    keys = [key for key in state if not key.endswith("num_batches_tracked")]
    for key in keys[:: len(keys) // 15]:
        path = write(tmp_path / "a.pth", name, {k: v for k, v in state.items() if k != key})
        with pytest.raises(ModelRejected, match=rf"{name}: it lacks {key}$"):
            convert(path, name, DATA[name])


@pytest.mark.parametrize("name", MAKERS)
def test_every_misshapen_key_is_named(tmp_path, name):
    state = MAKERS[name](1)
    keys = [key for key in state if not key.endswith("num_batches_tracked")]
    for key in keys[3 :: len(keys) // 15]:
        path = write(tmp_path / "a.pth", name, state | {key: torch.randn(2, 3, 5)})
        # The classifier's rows are the classes, so that its weight tells of a wrong bias.
        named = key.replace("weight", "(weight|bias)") if "fc" in key or "linear" in key else key
        with pytest.raises(ModelRejected, match=rf"{name}: {named} must be \("):
            convert(path, name, DATA[name])


def subbit(state):
    state["layer1.0.binary_conv.binarize.patterns"] = torch.ones(32, 9)


def mixed(state):
    state["module.bn1.bias"] = state.pop("bn1.bias")


def unlearned(state):
    for key in state:
        if key.endswith((".tau", ".phi")):
            state[key] = torch.tensor(1.0 if key.endswith("tau") else 0.0)


def another_domain(state):
    for key in [key for key in state if key.endswith((".tau", ".phi"))]:
        del state[key]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (subbit, r"it was trained with their Subbit option \(Sub-bit .*; that method is not supported$"),
        (mixed, r"it lacks bn1\.bias$"),
        (unlearned, r"every τ is 1 and every φ is 0, where training starts: it was trained with"),
        (another_domain, r"it has no τ and φ, so its binary domain is not learned"),
        (lambda s: s["layer2.0.downsample.2.bias"].fill_(torch.nan),
         r"layer2\.0\.downsample\.2\.bias has values that are not finite"),
        (lambda s: s["layer1.0.binary_conv.weight"][1, 1, 1].fill_(-torch.inf),
         r"layer1\.0\.binary_conv\.weight has values that are not finite"),
        (lambda s: s.update({"layer1.0.binary_conv.tau": torch.tensor(torch.inf)}),
         r"layer1\.0\.binary_conv\.tau has values that are not finite"),
        (lambda s: s.update({"bn1.bias": s["bn1.bias"].half()}),
         r"bn1\.bias must be \(4,\) of torch\.float32, not \(4,\) of torch\.float16$"),
        (lambda s: s.update({"bn1.bias": s["bn1.bias"].to_sparse()}), r"its values are not named tensors$"),
        (lambda s: s.update({"bn1.bias": [1.0, 2.0]}), r"its values are not named tensors$"),
        (lambda s: s.update({"fc.weight": torch.tensor(3.0)}), r"fc\.weight must have rows"),
        (lambda s: s.update({"fc.weight": torch.zeros(0, 4)}), r"Classes must be between 2 and"),
        (lambda s: s.update({"conv1.weight": torch.zeros(0, 3, 3, 3)}), r"Width must be above 0"),
        (lambda s: s.update({"conv1.weight": torch.zeros(1024, 3, 3, 3)}),
         r"bn1\.bias must be \(1024,\)"),
        (lambda s: s.clear(), r"it lacks fc\.weight$"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_reason(tmp_path, change, message):
    state = make_reactnet18(4)
    change(state)
    path = write(tmp_path / "theirs.pth", "reactnet18", state, parallel=False)
    with pytest.raises(ModelRejected, match=rf"theirs\.pth as the authors' reactnet18: {message}"):
        convert(path, "reactnet18", "cifar100")


def test_one_learned_value_is_enough(tmp_path):
    state = make_reactnet18(2)
    unlearned(state)
    state["layer3.3.binary_conv.phi"] = torch.tensor(0.25)
    convert(write(tmp_path / "a.pth", "reactnet18", state), "reactnet18", "cifar100")


def test_another_network_is_refused(tmp_path):
    path = write(tmp_path / "a.pth", "reactnet18", make_reactnet18(2))
    with pytest.raises(ModelRejected, match=r"as the authors' resnet18: it lacks linear\.weight$"):
        convert(path, "resnet18", "cifar10")
    with pytest.raises(ModelRejected, match=r"conv1\.weight must be \(2, 3, 7, 7\)"):
        convert(path, "reactnet18", "imagenet")  # whose first convolution is another
    with pytest.raises(UsageError, match=r"^Model must be one of resnet18, reactnet18, reactnet_a"):
        convert(path, "birealnet18", "cifar10")
    with pytest.raises(UsageError, match=r"^Data set must be one of cifar10, cifar100, imagenet"):
        convert(path, "resnet18", "mnist")


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_code_in_a_file_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"net": make_resnet18(2), "acc": Bomb(), "epoch": 3}, "hostile.pth")
    with pytest.raises(
        ModelRejected,
        match=r"^hostile\.pth is not a checkpoint of the authors \(it carries code, which was not "
        r"run\); fetch it again$",
    ):
        convert(Path("hostile.pth"), "resnet18", "cifar10")
    assert not (tmp_path / "exploded").exists()


def test_absent_files_and_folders_name_the_cure(tmp_path):
    with pytest.raises(
        ModelRejected,
        match=r"^No checkpoint of the authors at \S+nope\.pth \(name a file that their code wrote\)$",
    ):
        convert(tmp_path / "nope.pth", "resnet18", "cifar10")


# The command


def made_up_cifar10(root, count):
    """Write test images in the layout of CIFAR-10."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    random = np.random.default_rng(5)
    labels = random.integers(0, 10, (count, 1))
    records = np.concatenate([labels, random.integers(0, 256, (count, 3072))], 1)
    (folder / "test_batch.bin").write_bytes(records.astype(np.uint8).tobytes())
    return records.astype(np.uint8)


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_converted_file_is_evaluated_as_theirs_would_be(tmp_path, capsys):
    records = made_up_cifar10(tmp_path / "data", 40)
    state = make_resnet18(4)
    path = write(tmp_path / "theirs.pth", "resnet18", state)
    out = tmp_path / "ours.pt"
    common = ("--model", path, "--as", "resnet18", "--data", "cifar10", "--out", out)
    assert run("convert", *common) == 0
    printed = capsys.readouterr().out
    ones, total = (sum(f(w) for w in weights_of(state))
                   for f in (lambda w: int((w > 0).sum()), torch.Tensor.numel))  # fmt: skip
    assert "model       resnet18, 0.0625 of the paper's width" in printed
    assert f"ones        {ones:,} of {total:,} weights" in printed
    assert "claimed     93.50% of the test images classified correctly" in printed
    assert "zeros       no weight is exactly zero" in printed
    assert run(
        "eval", "--model", out, "--data", "cifar10", "--data-root", tmp_path / "data",
        "--using", "torch", "--json",
    ) == 0  # fmt: skip
    answer = json.loads(capsys.readouterr().out)
    pixels = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
    right = theirs("resnet18", state, pixels).argmax(1).numpy() == records[:, 0]
    assert (answer["correct"], answer["images"]) == (int(right.sum()), 40)


def test_report_tells_of_zeros_and_of_outputs_without_a_class(tmp_path, capsys):
    state = make_reactnet18(2, classes=1000)
    state["layer2.1.binary_conv.weight"].view(-1)[:5] = 0.0
    path = write(tmp_path / "theirs.pth", "reactnet18", state)
    out = tmp_path / "ours.pt"
    common = ("--model", path, "--as", "reactnet18", "--data", "cifar100", "--out", out)
    assert run("convert", *common) == 0
    printed = capsys.readouterr().out
    assert "classes     1000, all are kept, although cifar100 has 100\n" in printed
    assert "zeros       5 weights are exactly zero, read as −1\n" in printed
    assert "            5 in layer2.1.binary_conv\n" in printed
    assert run("convert", *common, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["zeros"] == {"layer2.1.binary_conv": 5}
    assert (answer["classes"], answer["epoch"]) == (1000, 299)
    cifar100(tmp_path, 20)
    evaluation = ("--data", "cifar100", "--data-root", tmp_path, "--using", "torch")
    assert run("eval", "--model", out, *evaluation, "--json") == 0
    assert json.loads(capsys.readouterr().out)["images"] == 20


def test_nothing_is_written_where_a_file_is_refused(tmp_path, capsys):
    state = make_resnet18(2)
    del state["bn2.running_var"]
    path = write(tmp_path / "theirs.pth", "resnet18", state)
    common = ("--model", path, "--as", "resnet18", "--data", "cifar10", "--out")
    assert run("convert", *common, tmp_path / "ours.pt") == 1
    assert capsys.readouterr().err.endswith("as the authors' resnet18: it lacks bn2.running_var\n")
    assert not (tmp_path / "ours.pt").exists()
    assert run("convert", *common, tmp_path / "ours.pth") == 2
    assert "A checkpoint's name must end in .pt" in capsys.readouterr().err
