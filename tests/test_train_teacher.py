"""The teacher: torchvision's names and arithmetic, and nothing but them."""

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from made_up import STAGES, cifar10, state_dict

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train import TrainConfig, save_checkpoint
from sbnn_hw.train.checkpoint import Checkpoint
from sbnn_hw.train.loop import train
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.teacher import load_teacher, teacher_from


def recomputed(values, pixels):
    """Compute ResNet-34 from its values, with nothing of the module."""

    def norm(x, name):
        mean, var, weight, bias = (
            values[f"{name}.{part}"].view(1, -1, 1, 1)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias

    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    x = F.conv2d((pixels / 255 - mean) / deviation, values["conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(norm(x, "bn1").relu(), kernel_size=3, stride=2, padding=1)
    for stage, (_, _, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            stride = 2 if block == 0 and stage > 1 else 1
            out = F.conv2d(x, values[f"{name}.conv1.weight"], stride=stride, padding=1)
            out = norm(out, f"{name}.bn1").relu()
            out = norm(F.conv2d(out, values[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if stride == 2:
                x = F.conv2d(x, values[f"{name}.downsample.0.weight"], stride=2)
                x = norm(x, f"{name}.downsample.1")
            x = (out + x).relu()
    return x.mean((2, 3)) @ values["fc.weight"].T + values["fc.bias"]


def test_the_layout_is_that_of_resnet34():
    values = state_dict(1000, tracked=False)
    assert len(values) == 182  # 36 convolutions, 36 norms of four values, the classifier
    learned = [value for key, value in values.items() if "running" not in key]
    assert sum(value.numel() for value in learned) == 21_797_672


@pytest.mark.parametrize("tracked", [True, False])
def test_output_is_that_of_a_recomputation(tmp_path, tracked):
    values = state_dict(tracked=tracked)
    teacher = teacher_from(values, tmp_path / "resnet34.pth")
    assert not teacher.training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    pixels = torch.randint(0, 256, (1, 3, 224, 224), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        said, expected = teacher(pixels.to(torch.uint8)), recomputed(values, pixels.float())
    assert said.shape == (1, 7)
    assert torch.allclose(said, expected, rtol=1e-4, atol=1e-3 * expected.abs().max().item())
    assert expected.std() > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("layer3.5.bn2.bias"), "lacks layer3.5.bn2.bias; "),
        (lambda v: v.pop("fc.weight"), "lacks fc.weight; "),
        (
            lambda v: v.update({"layer3.6.conv1.weight": torch.zeros(1)}),
            "holds layer3.6.conv1.weight, which a ResNet-34 does not have; ",
        ),
        (
            lambda v: v.update({"conv1.weight": torch.zeros(64, 3, 3, 3)}),
            "must have conv1.weight as (64, 3, 7, 7) of float32; ",
        ),
        (lambda v: v.update({"bn1.bias": "x"}), "must have bn1.bias as (64,) of float32; "),
    ],
)
def test_other_values_are_refused_in_one_sentence(tmp_path, change, message):
    values = state_dict()
    change(values)
    path = tmp_path / "resnet34.pth"
    torch.save(values, path)
    cure = "give torchvision's state dict of resnet34, or a checkpoint of sbnn-hw"
    with pytest.raises(ModelRejected, match=re.escape(f"Teacher {path} {message}{cure}")):
        load_teacher(path, "imagenet", (224, 224, 3), 7)


def test_a_file_that_carries_code_is_refused_and_runs_nothing(tmp_path, monkeypatch):
    class Bomb:
        def __reduce__(self):
            return exec, ("open('exploded', 'w')",)

    monkeypatch.chdir(tmp_path)
    torch.save({"fc.weight": Bomb()}, tmp_path / "a.pth")
    with pytest.raises(ModelRejected, match=r"is not a teacher \(it carries code, which was not"):
        load_teacher(tmp_path / "a.pth", "imagenet", (224, 224, 3), 7)
    assert not (tmp_path / "exploded").exists()


def test_a_checkpoint_of_ours_and_torchvisions_file_are_told_apart(tmp_path):
    config = ModelConfig("mlp:4", (8, 8, 1), 10)
    save_checkpoint(tmp_path / "a.pt", Checkpoint(config, build_model(config)))
    ours = load_teacher(tmp_path / "a.pt", "digits", (8, 8, 1), 10)
    assert ours(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
    torch.save(state_dict(), tmp_path / "resnet34.pth")
    theirs = load_teacher(tmp_path / "resnet34.pth", "imagenet", (224, 224, 3), 7)
    assert type(theirs).__name__ == "ResNet34"
    with pytest.raises(ModelRejected, match=r"in 7 classes, but imagenet has .* in 1000$"):
        load_teacher(tmp_path / "resnet34.pth", "imagenet", (224, 224, 3), 1000)


def test_the_teacher_is_learned_from(tmp_path):
    """It sees raw CIFAR-like pixels, and a student that hears it alone comes nearer to it."""
    cifar10(tmp_path, count=4)
    torch.save(state_dict(classes=10), tmp_path / "resnet34.pth")
    config = TrainConfig(
        model="resnet18", data="cifar10", normalise="cifar10", width=0.125, method="none",
        teacher=str(tmp_path / "resnet34.pth"), distill=1.0, temperature=1.0, epochs=3, batch=10,
        validation=0, recalibrate=0, lr=0.01, threads=1,
    )  # fmt: skip
    train(config, tmp_path / "a.pt", data_root=tmp_path)
    lines = (tmp_path / "a.log.jsonl").read_text().splitlines()
    losses = [float(re.search(r'"loss": ([0-9.]+)', line)[1]) for line in lines]
    assert losses[-1] < losses[0]
    with pytest.raises(ModelRejected, match=r"^No teacher at \S+absent\.pth"):
        train(
            replace(config, teacher=str(tmp_path / "absent.pth")),
            tmp_path / "b.pt", data_root=tmp_path,
        )  # fmt: skip
