"""``sbnn-hw eval``: measure a model's accuracy on the test images of a data set."""

import argparse
import json
import time
from pathlib import Path

from sbnn_hw import datasets
from sbnn_hw.commands.common import add_data_root, add_json, add_model
from sbnn_hw.datasets import Images
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.models import open_network, require_torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    parser.add_argument(
        "--data",
        metavar="NAME",
        required=True,
        help=f"data set (one of: {', '.join(datasets.DATASETS)})",
    )
    add_data_root(parser)
    parser.add_argument(
        "--using",
        choices=("netlist", "torch"),
        default="netlist",
        help="what computes: the integer network or torch (default: %(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluate on the whole test set."""
    dataset = datasets.find(args.data)
    if args.using == "torch":
        right, count, seconds = _by_torch(args.model, dataset, args.data_root)
    else:
        network = open_network(args.model)
        _check_geometry(args.model, network.input.shape, network.classes, dataset)
        images = dataset.load("test", args.data_root)
        started = time.perf_counter()
        right = int((network.compute(images.pixels).classes == images.labels).sum())
        count, seconds = len(images), time.perf_counter() - started
    if args.json:
        print(
            json.dumps(
                {
                    "accuracy": right / count,
                    "correct": right,
                    "images": count,
                    "seconds": seconds,
                    "model": str(args.model),
                    "data": args.data,
                    "using": args.using,
                }
            )
        )
        return
    print(f"accuracy  {right / count:.2%} ({right:,} of {count:,}, by {args.using})")


def _check_geometry(
    path: Path, shape: tuple[int, ...], classes: int, dataset: datasets.Dataset
) -> None:
    if tuple(shape) != dataset.shape or classes != dataset.classes:
        raise ModelRejected(
            f"{path} takes images of {'×'.join(map(str, shape))} in {classes} classes, but "
            f"{dataset.name} has {'×'.join(map(str, dataset.shape))} in {dataset.classes}"
        )


def _by_torch(path: Path, dataset: datasets.Dataset, root: Path | None) -> tuple[int, int, float]:
    if path.suffix != ".pt":
        raise UsageError(f"Torch evaluates checkpoints (.pt), not {str(path)!r}")
    require_torch()
    from sbnn_hw.train.checkpoint import load_checkpoint
    from sbnn_hw.train.data import to_tensors
    from sbnn_hw.train.loop import accuracy

    checkpoint = load_checkpoint(path)
    _check_geometry(path, checkpoint.config.shape, checkpoint.config.classes, dataset)
    images: Images = dataset.load("test", root)
    started = time.perf_counter()
    share = accuracy(checkpoint.model, to_tensors(images))
    return round(share * len(images)), len(images), time.perf_counter() - started
