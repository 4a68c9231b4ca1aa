"""``sbnn-hw eval``: measure a model's accuracy on the test images of a data set."""

import argparse
import json
import logging
import os
import time
from pathlib import Path

from sbnn_hw import datasets
from sbnn_hw.commands.common import add_data, add_json, add_model, find_data_of
from sbnn_hw.data.own import OwnData
from sbnn_hw.errors import Disagreement, ModelRejected, UsageError
from sbnn_hw.models import open_network, require_torch
from sbnn_hw.netlist import Edge

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    add_data(parser, "data set", required=True)
    parser.add_argument(
        "--using",
        choices=("netlist", "torch", "rtl"),
        default="netlist",
        help="what computes the answers: netlist (the integer network), torch, or rtl (the "
        "generated hardware in simulation) "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        default="auto",
        help="device for torch: auto (a GPU if there is one), cpu, cuda or cuda:N "
        "(default: %(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluate on the whole test set."""
    listed = datasets.DATASETS.get(args.data)
    if listed is not None and listed.classes is None and args.using != "torch":
        raise UsageError(f"Only torch can evaluate the images of {args.data}; add --using torch")
    if args.using == "torch":
        right, count, seconds = _by_torch(args)
    elif args.using == "rtl":
        right, count, seconds = _by_simulation(args)
    else:
        network = open_network(args.model, args.pixels)
        dataset = find_data_of(args, network.meaning, network.input)
        check_geometry(args.model, network.input.shape, network.classes, dataset, dataset.classes)
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


def check_geometry(
    path: Path,
    shape: tuple[int, ...],
    classes: int,
    dataset: datasets.Dataset | OwnData,
    counted: int | None,
) -> None:
    if tuple(shape) != dataset.shape or classes != counted:
        raise ModelRejected(
            f"{path} takes images of {'×'.join(map(str, shape))} in {classes} classes, but "
            f"{dataset.name} has {'×'.join(map(str, dataset.shape))} in {counted}"
        )


def _by_torch(args: argparse.Namespace) -> tuple[int, int, float]:
    path, device = args.model, args.device
    if path.suffix != ".pt":
        raise UsageError(f"Torch evaluates checkpoints (.pt), not {str(path)!r}")
    require_torch()
    from sbnn_hw.train.checkpoint import load_checkpoint
    from sbnn_hw.train.config import check_device
    from sbnn_hw.train.images import images_of
    from sbnn_hw.train.parallel import choose_device
    from sbnn_hw.train.validation import accuracy

    try:
        check_device(device)
    except ModelRejected as error:
        raise UsageError(str(error)) from None

    checkpoint = load_checkpoint(path)
    edge = Edge.of_bits(checkpoint.config.shape, checkpoint.config.bits)
    dataset = find_data_of(args, checkpoint.meaning, edge)
    images, classes = dataset.open("test", args.data_root)
    outputs = checkpoint.config.classes
    if dataset.classes is not None and outputs > dataset.classes and checkpoint.config.is_backbone:
        # The authors' networks for CIFAR-100 have 1000 outputs; those beyond the classes are wrong.
        # A folder's classes are its own, and another number means that they are others.
        outputs = classes
    check_geometry(path, checkpoint.config.shape, outputs, dataset, classes)
    started = time.perf_counter()
    share = accuracy(
        checkpoint.model.to(choose_device(device)), images_of(images, workers=os.cpu_count() or 1)
    )
    return round(share * len(images)), len(images), time.perf_counter() - started


def _by_simulation(args: argparse.Namespace) -> tuple[int, int, float]:
    from sbnn_hw.boards.fit import check_size
    from sbnn_hw.generate import require_amaranth
    from sbnn_hw.sim.verilator import require
    from sbnn_hw.yosys import find_yosys

    # All tools are looked for before the first step starts.
    require_amaranth()
    find_yosys()
    require()
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.lower import Options
    from sbnn_hw.sim.agreement import check_agreement

    path = args.model
    network = open_network(path, args.pixels)
    dataset = find_data_of(args, network.meaning, network.input)
    check_geometry(path, network.input.shape, network.classes, dataset, dataset.classes)
    check_size(network)
    images = dataset.load("test", args.data_root)
    started = time.perf_counter()
    logger.info("generating")
    made = generate(network, Options(family="xc7"))
    agreement = check_agreement(
        network,
        made.verilog,
        made.design,
        images.pixels,
        progress=lambda text: logger.info("%s", text),
    )
    if not agreement.equal:
        raise Disagreement(
            f"The hardware of {path} does not compute what its network computes: "
            f"{', '.join(agreement.differences)} (first: {agreement.first})"
        )
    right = int((agreement.classes == images.labels).sum())
    return right, len(images), time.perf_counter() - started
