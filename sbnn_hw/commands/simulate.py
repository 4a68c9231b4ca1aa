"""``sbnn-hw simulate``: ask whether the hardware says what the software says."""

import argparse
import json
import logging
from pathlib import Path
from typing import Any

from sbnn_hw import datasets
from sbnn_hw.commands.common import add_data_root, add_json
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.files import check_writable
from sbnn_hw.hardware import AGREEMENT, Folder, random_images

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--design",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder that `sbnn-hw generate` wrote",
    )
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="simulate the test images of this data set instead of random ones "
        f"(one of: {', '.join(datasets.DATASETS)})",
    )
    add_data_root(parser)
    parser.add_argument(
        "--images",
        metavar="N",
        type=int,
        help="number of images (default: the whole data set, or 1000 random ones)",
    )
    parser.add_argument(
        "--stalls", action="store_true", help="let the source and the sink pause at random"
    )
    parser.add_argument(
        "--inside",
        action="store_true",
        help="compare every value of every stage, not only the results",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=int,
        default=0,
        help="seed of random images and stalls (default: 0)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Simulate, write the verdict, and fail if it is not that all is equal."""
    from sbnn_hw.sim.agreement import check_agreement
    from sbnn_hw.sim.verilator import require

    folder = Folder(args.design)
    network, verilog, description = folder.load()
    check_writable(args.design / AGREEMENT)
    require()
    # A verdict of another run must not outlive one that breaks off.
    folder.remove(AGREEMENT)
    pixels = _images(args, network)
    agreement = check_agreement(
        network,
        verilog,
        description,
        pixels,
        stalls=args.stalls,
        seed=args.seed,
        inside=args.inside,
        progress=lambda text: logger.info("%s", text),
    )
    verdict = folder.record(agreement, network, description, verilog, args.data or "random")
    if args.json:
        print(json.dumps(verdict))
    else:
        _print(verdict)
    for name, each in agreement.operations.items():
        if each["measured"] != each["static"]:
            logger.warning(
                "stage %s takes %g operations per image, not %g as in the netlist, because "
                "connections that cannot matter are not built",
                name,
                each["measured"],
                each["static"],
            )
    folder.insist(agreement)


def _images(args: argparse.Namespace, network: Any) -> Any:
    if args.seed < 0:
        raise UsageError(f"Seed must not be negative, not {args.seed}")
    if args.images is not None and args.images < 1:
        raise UsageError(f"Images must be 1 or more, not {args.images}")
    if not args.data:
        return random_images(network, args.images or 1000, args.seed)
    dataset = datasets.find(args.data)
    if tuple(network.input.shape) != dataset.shape:
        raise ModelRejected(
            f"{args.design} takes images of {'×'.join(map(str, network.input.shape))}, but "
            f"{dataset.name} has {'×'.join(map(str, dataset.shape))}"
        )
    return dataset.load("test", args.data_root).pixels[: args.images]


def _print(verdict: dict[str, Any]) -> None:
    equal = verdict["vectors"] - verdict["mismatches"]
    what = "class and scores" if verdict["scores"] else "class"
    print(f"images       {equal:,} of {verdict['vectors']:,} equal in {what}")
    if verdict["values"]:
        print(
            f"inside       {verdict['values'] - verdict['value_mismatches']:,} of "
            f"{verdict['values']:,} values inside the stages equal"
        )
    print(f"cycles       {verdict['cycles']:,}{' with stalls' if verdict['stalls'] else ''}")
    if not verdict["stalls"]:
        computed = verdict["computed"]
        if verdict["latency"] is not None:
            print(f"latency      {verdict['latency']:,} cycles (computed: {computed['latency']:,})")
        if verdict["interval"] is not None:
            print(
                f"interval     {verdict['interval']:,.6g} cycles per image "
                f"(computed: {computed['interval']:,})"
            )
    bops = verdict["bops"]
    print(
        f"operations   {bops['measured']:,} per image measured, {bops['static']:,} in the "
        f"netlist; dense {bops['dense']:,}, EC·N {bops['paper']:,}"
    )
    seconds = verdict["seconds"]
    rate = verdict["vectors"] / seconds["simulate"] if seconds["simulate"] else 0
    print(f"time         {seconds['compile']:.1f} s to compile, {rate:,.0f} images/s")
