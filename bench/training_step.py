"""Compare a training step of ResNet-18 with that of a plain binarised ResNet-18 in PyTorch.

    python bench/training_step.py [--width 1] [--batch 128] [--steps 3]

The plain network is what one writes first: `nn.Conv2d`, and one sign function with a clipped
gradient for weights and activations. Both take the same images and the same optimiser. Time is
measured in one process, the two in turns; memory is the peak of a process of its own for each.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.sparsity import SparsityPenalty, layers_of


class Sign(torch.autograd.Function):
    """Sign with sign(0) = +1 and the gradient of hardtanh."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class BinaryConv2d(nn.Conv2d):
    """A convolution of signs with signs."""

    def forward(self, x: Tensor) -> Tensor:
        weight = Sign.apply(self.weight)
        return F.conv2d(Sign.apply(x), weight, None, self.stride, self.padding)


class Block(nn.Module):
    """The paper's block of two binary convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = BinaryConv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = BinaryConv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.hardtanh(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.hardtanh(out)


def plain(width: float) -> nn.Module:
    """Return the plain network."""
    channels = [max(1, round(64 * width)) << n for n in range(4)]
    blocks, inputs = [], channels[0]
    for number, outputs in enumerate(channels):
        for position in range(2):
            blocks.append(Block(inputs, outputs, 2 if number and not position else 1))
            inputs = outputs
    return nn.Sequential(
        nn.Conv2d(3, channels[0], 3, 1, 1, bias=False),
        nn.BatchNorm2d(channels[0]),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.BatchNorm1d(inputs),
        nn.Linear(inputs, 10),
    )


def stepper(kind: str, width: float, batch: int) -> Callable[[], None]:
    """Return a function that takes one training step."""
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (batch, 3, 32, 32)).float()
    labels = torch.randint(0, 10, (batch,))
    if kind == "plain":
        model: nn.Module = plain(width)
        pixels = (2 * pixels - 255) / 255
    else:
        gradient = "ede" if kind == "ede" else "clipped"
        config = ModelConfig(
            "resnet18",
            (32, 32, 3),
            10,
            width=width,
            domain="bnn" if kind == "bnn" else "learned",
            gradient=gradient,
            activation=gradient,
        )
        model = build_model(config)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    penalty = SparsityPenalty(0.07)
    layers = layers_of(model)

    def step() -> None:
        optimiser.zero_grad()
        loss = F.cross_entropy(model(pixels), labels)
        if kind in ("learned", "ede"):
            loss = loss + penalty(layers, 0.05, loss)
        loss.backward()
        optimiser.step()

    return step


#: The plain network, ours with the same weights, ours with τ, φ and the sparsity loss, and that
#: with the gradients of the paper's recipes, which take more work than the plain network's.
KINDS = ("plain", "bnn", "learned", "ede")


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--memory-of", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        step = stepper(args.memory_of, args.width, args.batch)
        step()
        step()
        print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        return
    # Memory first: a process inherits the peak of the one that starts it.
    size = ["--width", str(args.width), "--batch", str(args.batch)]
    memory = {
        kind: float(
            subprocess.run(
                [sys.executable, __file__, "--memory-of", kind, *size],
                check=True,
                capture_output=True,
            ).stdout
        )
        for kind in KINDS
    }
    steps = {kind: stepper(kind, args.width, args.batch) for kind in KINDS}
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for round_ in range(args.steps + 1):
        for kind, step in steps.items():
            started = time.perf_counter()
            step()
            if round_:  # the first of each warms up
                seconds[kind].append(time.perf_counter() - started)
    print(f"{'':<10} {'seconds a step':>16} {'ratio':>7} {'peak MiB':>10} {'ratio':>7}")
    plain_seconds = statistics.median(seconds["plain"])
    for kind in KINDS:
        own = statistics.median(seconds[kind])
        print(
            f"{kind:<10} {own:>16.2f} {own / plain_seconds:>7.2f} "
            f"{memory[kind]:>10.0f} {memory[kind] / memory['plain']:>7.2f}"
        )


if __name__ == "__main__":
    main()
