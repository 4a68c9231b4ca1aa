"""``sbnn-hw generate``: generate streaming hardware of a model."""

import argparse
import json
import time
from pathlib import Path

from sbnn_hw import datasets
from sbnn_hw.commands.common import (
    add_data_root,
    add_family,
    add_hardware,
    add_json,
    add_model,
    options_of,
)
from sbnn_hw.errors import ModelRejected
from sbnn_hw.fit import LARGEST, check_size
from sbnn_hw.hardware import generate_design, require_amaranth
from sbnn_hw.models import open_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder to write (default: build/MODEL-FAMILY)",
    )
    add_family(parser)
    add_hardware(parser)
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="take the suite's vectors from the test images of this data set instead of random "
        f"ones (one of: {', '.join(datasets.DATASETS)})",
    )
    add_data_root(parser)
    parser.add_argument(
        "--force",
        action="store_true",
        help=f"generate even if the network has more than {LARGEST:,} connections",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Generate and report."""
    require_amaranth()
    options = options_of(args)
    network = open_network(args.model, args.pixels)
    check_size(network, force=args.force)
    images = None
    if args.data:
        dataset = datasets.find(args.data)
        if tuple(network.input.shape) != dataset.shape:
            raise ModelRejected(
                f"{args.model} takes images of {'×'.join(map(str, network.input.shape))}, but "
                f"{dataset.name} has {'×'.join(map(str, dataset.shape))}"
            )
        images = dataset.load("test", args.data_root).pixels
    out = args.out or Path("build") / f"{args.model.stem}-{options.family}"
    started = time.perf_counter()
    description = generate_design(network, out, options, images)
    seconds = time.perf_counter() - started
    if args.json:
        print(json.dumps({"folder": str(out), "seconds": seconds, **description}))
        return
    stages = description["stages"]
    tables = sum(stage["tables"] for stage in stages)
    print(f"design       {out} ({seconds:.1f} s)")
    print(f"family       {options.family}")
    print(f"connections  {sum(stage['connections'] for stage in stages):,}")
    print(f"input        {_beats(description)}")
    print(f"latency      {description['latency']:,} cycles")
    print(f"interval     {description['interval']:,} cycles per image")
    print(f"{'stage':<14} {'connections':>12} {'tables':>9} {'registers':>10}")
    for stage in stages:
        if stage["cores"]:
            print(
                f"{stage['name']:<14} {stage['connections']:>12,} {stage['tables']:>9,} "
                f"{stage['registers']:>10,}"
            )
    print(f"{'all':<14} {network.connections:>12,} {tables:>9,}")


def _beats(description: dict) -> str:  # type: ignore[type-arg]
    stream = description["input"]
    if stream["beats"] == 1:
        return f"an image of {stream['width']:,} bits per clock"
    return f"a pixel of {stream['width']} bits per clock, {stream['beats']:,} per image"
