"""Train FINN's TFC with Brevitas, as its users do, and write the QONNX file that ships.

Dense weights −1 and +1, MNIST's pixels in [0, 1]. Takes a few minutes on two cores; needs
`pip install 'sbnn-hw[train,dev]'`.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import brevitas.nn as qnn
import onnx
import torch
from brevitas.export import export_qonnx
from brevitas.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst
from torch import Tensor, nn

from sbnn_hw import datasets
from sbnn_hw.files import write_atomically

ROOT = Path(__file__).parents[1]


class Weight(SignedBinaryWeightPerTensorConst):  # type: ignore[misc]
    """Weights −1 and +1."""

    scaling_const = 1.0


class Activation(SignedBinaryActPerTensorConst):  # type: ignore[misc]
    """Activations −1 and +1."""

    min_val = -1.0
    max_val = 1.0


class Signed(nn.Module):
    """Brings [0, 1] to [−1, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        """Return 2x − 1."""
        return 2.0 * x - 1.0


def tfc() -> nn.Sequential:
    """Return FINN's TFC: three hidden layers of 64."""
    modules: list[nn.Module] = [nn.Flatten(), Signed(), qnn.QuantIdentity(act_quant=Activation)]
    features = 784
    for _ in range(3):
        modules += [
            qnn.QuantLinear(features, 64, bias=False, weight_quant=Weight),
            nn.BatchNorm1d(64),
            qnn.QuantIdentity(act_quant=Activation),
        ]
        features = 64
    return nn.Sequential(*modules, qnn.QuantLinear(64, 10, bias=False, weight_quant=Weight))


def images(split: Any, root: Path | None) -> tuple[Tensor, Tensor]:
    """Return MNIST's images in [0, 1], and their labels."""
    data = datasets.find("mnist").load(split, root)
    pixels = torch.from_numpy(data.pixels.transpose(0, 3, 1, 2) / 255).float()
    return pixels, torch.from_numpy(data.labels).long()


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """Train by Adam, a cosine, and cross-entropy of scaled scores."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(x)).split(256):
            loss = nn.functional.cross_entropy(model(x[batch]) / 8, y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            for module in model.modules():
                if isinstance(module, qnn.QuantLinear):
                    module.weight.data.clamp_(-1, 1)
            total += loss.item() * len(batch)
        schedule.step()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / len(x):.4f}", flush=True)


def main() -> None:
    """Train, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "models/tfc_brevitas.onnx")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = tfc()
    train(model, *images("train", args.data_root), args.epochs)
    model.eval()
    x, y = images("test", args.data_root)
    with torch.no_grad():
        right = int((model(x).argmax(1) == y).sum())
    print(f"accuracy {right / len(y):.2%} by torch")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.onnx"
        export_qonnx(model, torch.zeros(1, 1, 28, 28), str(file))
        exported = onnx.load(file)
    graph = exported.graph
    # The exporter notes where each line of code lies on this machine; no part of the network.
    for part in (exported, graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    write_atomically(args.out, lambda out: out.write(exported.SerializeToString()))


if __name__ == "__main__":
    main()
