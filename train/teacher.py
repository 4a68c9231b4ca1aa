"""The teacher: a checkpoint, or a real-valued ResNet-34 in torchvision's layout.

The latter teaches the paper's ImageNet networks.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.blocks import Normalise
from sbnn_hw.train.checkpoint import load_checkpoint, read_tensors
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.data import TensorImages, TrainingImages
from sbnn_hw.train.exact import stay_real
from sbnn_hw.train.norm import BatchNorm

__all__ = ["ResNet34", "load_teacher", "taught", "teacher_from"]

#: Channels and blocks of the four stages; all but the first halve the map.
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


class _Block(nn.Module):
    """Two 3×3 convolutions and a shortcut around them; names are torchvision's."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm(outputs)
        self.downsample = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), BatchNorm(outputs)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet34(nn.Module):
    """ResNet-34 from raw pixels (0 to 255) to class scores; it normalises by itself."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.input = Normalise("imagenet")
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = BatchNorm(64)
        inputs = 64
        for number, (outputs, depth) in enumerate(STAGES, start=1):
            blocks = []
            for position in range(depth):
                stride = 2 if number > 1 and not position else 1
                blocks.append(_Block(inputs, outputs, stride))
                inputs = outputs
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(self.input(x)))), 3, 2, 1)
        for number in range(1, len(STAGES) + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def teacher_from(values: Mapping[str, Any], path: Path) -> ResNet34:
    """Return a ResNet-34 with the values of torchvision's state dict, ready to evaluate."""
    # How many batches were seen is in newer files alone, and changes nothing.
    state = {k: v for k, v in values.items() if not k.endswith(".num_batches_tracked")}
    cure = "give torchvision's state dict of resnet34, or a checkpoint of sbnn-hw"
    scores = state.get("fc.weight")
    if not isinstance(scores, Tensor) or scores.dim() != 2:
        raise ModelRejected(f"Teacher {path} lacks fc.weight; {cure}")
    with torch.device("meta"):
        model = ResNet34(scores.shape[0])
    expected = model.state_dict()
    for key in sorted(expected.keys() | state.keys()):
        if key not in state:
            raise ModelRejected(f"Teacher {path} lacks {key}; {cure}")
        if key not in expected:
            raise ModelRejected(
                f"Teacher {path} holds {key}, which a ResNet-34 does not have; {cure}"
            )
        value, shape = state[key], tuple(expected[key].shape)
        if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.shape != shape:
            raise ModelRejected(f"Teacher {path} must have {key} as {shape} of float32; {cure}")
    model.load_state_dict(state, assign=True)
    return model.requires_grad_(False).eval()


@torch.no_grad()
def taught(
    images: TrainingImages,
    teacher: nn.Module,
    classes: int,
    config: TrainConfig,
    device: torch.device,
) -> TensorImages:
    """Return images with lessons: what a teacher says of each one and of its mirror image.

    A lesson is the image's class and the teacher's probabilities, softened by the temperature, in
    the shares that ``config.distill`` tells.
    """
    assert isinstance(images, TensorImages)
    lessons = []
    for pixels, labels in images.evaluation_batches():
        both = torch.stack([pixels, pixels.flip(3)], 1).flatten(0, 1).to(device)
        soft = (teacher(both) / config.temperature).softmax(1).view(-1, 2, classes).cpu()
        hard = F.one_hot(labels, classes).to(soft.dtype).unsqueeze(1)
        lessons.append((1 - config.distill) * hard + config.distill * soft)
    return replace(images, lessons=torch.cat(lessons))


def load_teacher(path: Path, data: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return the model of a checkpoint, or the ResNet-34 of torchvision's state dict.

    Its images and classes must be those of the data set.
    """
    content = read_tensors(
        path,
        "teacher",
        absent="give a checkpoint, or torchvision's state dict of resnet34",
        damaged="give a checkpoint, or fetch torchvision's file again",
    )
    if "format" not in content:
        model: nn.Module = teacher_from(content, path)
        given = (shape, content["fc.weight"].shape[0])
    else:
        checkpoint = load_checkpoint(path)
        # Scores that are integers are far apart, whatever they stand for.
        stay_real(checkpoint.model)
        model, given = checkpoint.model, (checkpoint.config.shape, checkpoint.config.classes)
    if given != (shape, classes):
        raise ModelRejected(
            f"Teacher {path} takes images of {'×'.join(map(str, given[0]))} in {given[1]} classes, "
            f"but {data} has {'×'.join(map(str, shape))} in {classes}"
        )
    return model
