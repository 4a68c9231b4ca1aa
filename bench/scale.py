"""Fold, save, load and compute a network of millions of taps; print seconds and memory.

python bench/scale.py [--model mlp:2048,2048] [--xi-bits K]
"""

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from sbnn_hw import netlist
from sbnn_hw.train import ModelConfig, build_model, fold_model
from sbnn_hw.train.norm import BatchNorm
from sbnn_hw.train.sparsity import layers_of


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long a step took, and the most memory used so far."""
    started = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<10} {time.perf_counter() - started:7.2f} s   peak {peak:6.0f} MiB")


def main() -> None:
    """Run the steps one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mlp:2048,2048")
    parser.add_argument("--xi-bits", type=int)
    parser.add_argument("--out", type=Path, default=Path("build/scale.sbnn"))
    args = parser.parse_args()
    torch.manual_seed(0)
    config = ModelConfig(args.model, (28, 28, 1), 10, domain="learned", xi_bits=args.xi_bits)
    model = build_model(config).eval()
    with torch.no_grad():
        for layer in layers_of(model):
            layer.initialise_domain("balanced", ones_share=0.4713)
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.running_mean.normal_(0, 5)
                module.running_var.uniform_(100, 300)
                module.bias.normal_(0, 0.5)
    with timed("fold"):
        folded = fold_model(model, config.shape)
    for report in folded.reports:
        print(f"  {report}")
    print(f"  {folded.network.connections:,} taps")
    with timed("save"):
        netlist.save(folded.network, args.out)
    with timed("load"):
        network = netlist.load(args.out)
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 28, 28, 1)).astype(np.uint8)
    with timed("compute"):
        network.compute(pixels)


if __name__ == "__main__":
    main()
