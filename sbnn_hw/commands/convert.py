"""``sbnn-hw convert``: turn a checkpoint of the paper's authors into one of ours."""

import argparse
import json
from pathlib import Path

from sbnn_hw.commands.common import add_json
from sbnn_hw.errors import UsageError
from sbnn_hw.files import check_writable
from sbnn_hw.models import require_torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        required=True,
        help="file that the authors' code wrote",
    )
    parser.add_argument(
        "--as",
        dest="name",
        choices=("resnet18", "reactnet18", "reactnet_a"),
        required=True,
        help="which of the authors' networks the file holds",
    )
    parser.add_argument(
        "--data",
        choices=("cifar10", "cifar100", "imagenet"),
        required=True,
        help="data set that it was trained on; sets the image size and how pixels are normalised",
    )
    parser.add_argument(
        "--out", metavar="CKPT", type=Path, required=True, help="checkpoint to write (.pt)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Convert, write the checkpoint and report."""
    if args.out.suffix != ".pt":
        raise UsageError(f"A checkpoint's name must end in .pt, not {str(args.out)!r}")
    check_writable(args.out)
    require_torch()
    from sbnn_hw.train.authors import CLASSES, convert
    from sbnn_hw.train.checkpoint import save_checkpoint

    conversion = convert(args.model, args.name, args.data)
    checkpoint = conversion.checkpoint
    save_checkpoint(args.out, checkpoint)
    config, metrics = checkpoint.config, checkpoint.metrics
    if args.json:
        print(
            json.dumps(
                {
                    "checkpoint": str(args.out),
                    "model": config.name,
                    "width": config.width,
                    "classes": config.classes,
                    "zeros": conversion.zeros,
                    **metrics,
                }
            )
        )
        return
    share = metrics["ones"] / metrics["weights"]
    print(f"checkpoint  {args.out}")
    print(f"model       {config.name}, {config.width:g} of the paper's width")
    known = CLASSES[args.data]
    surplus = f", all are kept, although {args.data} has {known}" if config.classes > known else ""
    print(f"classes     {config.classes}{surplus}")
    print(f"ones        {metrics['ones']:,} of {metrics['weights']:,} weights ({share:.2%})")
    if "claimed_accuracy" in metrics:
        print(
            f"claimed     {metrics['claimed_accuracy']:.2%} of the test images classified correctly"
        )
    if conversion.zeros:
        print(
            f"zeros       {sum(conversion.zeros.values()):,} weights are exactly zero, read as −1"
        )
        for layer, count in conversion.zeros.items():
            print(f"            {count:,} in {layer}")
    else:
        print("zeros       no weight is exactly zero")
