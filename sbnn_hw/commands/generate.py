"""``sbnn-hw generate``: generate streaming hardware of a model."""

import argparse
import json
import time
from pathlib import Path

from sbnn_hw.boards.fit import LARGEST, check_size
from sbnn_hw.commands.columns import print_columns
from sbnn_hw.commands.common import (
    add_data,
    add_family,
    add_hardware,
    add_json,
    add_model,
    options_of,
    read_data,
)
from sbnn_hw.commands.planning import add_engine, add_plan, engine_of, given_plan
from sbnn_hw.design import Design, InputStream
from sbnn_hw.errors import UsageError
from sbnn_hw.generate import generate_design, require_amaranth
from sbnn_hw.ip.core import CoreOptions
from sbnn_hw.ip.files import FOLDER
from sbnn_hw.models import open_network
from sbnn_hw.planner import check_plan, wired_stages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="folder to write (default: build/MODEL-FAMILY)"
    )
    add_family(parser)
    add_hardware(parser)
    add_plan(parser)
    add_engine(parser)
    add_data(
        parser,
        "take the suite's vectors from the test images of this data set instead of random ones",
    )
    parser.add_argument(
        "--ip",
        action="store_true",
        help=f"write an IP core too, into DIR/{FOLDER}: AXI4-Stream and AXI4-Lite ports, for "
        "Vivado, FuseSoC and LiteX",
    )
    parser.add_argument(
        "--ip-name",
        metavar="NAME",
        help="name the core's module sbnn_NAME (default: the first digits of the network's digest)",
    )
    parser.add_argument(
        "--axi-width",
        metavar="BITS",
        type=int,
        help="width of the core's two streams (default: each as wide as needed, 64 at most)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help=f"generate even if the network has more than {LARGEST:,} connections",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Generate and report."""
    require_amaranth()
    content = given_plan(args, add_family, add_hardware, add_engine)
    options = options_of(args, **engine_of(args))
    core = _core_options(args)
    network = open_network(args.model, args.pixels)
    if content is not None:
        options = check_plan(content, args.plan, network).options
    check_size(network, force=args.force, stages=wired_stages(network, options))
    images = read_data(args, network, args.model).pixels if args.data else None
    out = args.out or Path("build") / f"{args.model.stem}-{options.family}"
    started = time.perf_counter()
    design = generate_design(network, out, options, images, core)
    seconds = time.perf_counter() - started
    if args.json:
        print(json.dumps({"folder": str(out), "seconds": seconds, **design.to_dict()}))
        return
    print(f"design       {out} ({seconds:.1f} s)")
    if core is not None:
        print(f"IP core      {out / FOLDER}, module {core.describe(design).module}")
    print(f"family       {options.family}")
    print(f"connections  {sum(stage.connections for stage in design.stages):,}")
    print(f"input        {_beats(design.input)}")
    print(f"latency      {design.latency:,} cycles")
    print(f"interval     {design.interval:,} cycles per image")
    _print_stages(design, network.connections)


def _core_options(args: argparse.Namespace) -> CoreOptions | None:
    if args.ip:
        return CoreOptions(args.ip_name, args.axi_width)
    for flag, value in (("--ip-name", args.ip_name), ("--axi-width", args.axi_width)):
        if value is not None:
            raise UsageError(f"{flag} is for an IP core; add --ip to write one")
    return None


def _print_stages(design: Design, connections: int) -> None:
    """Print what stages take; block RAM and queues have columns only where there are any."""
    stages = [stage for stage in design.stages if stage.cores]
    costs = [*(stage.cost for stage in stages), design.cost]
    waiting = [sum(queue.depth * queue.bits for queue in stage.queues) for stage in stages]
    columns: dict[str, list[float]] = {
        "connections": [*(stage.connections for stage in stages), connections],
        "tables": [cost.tables for cost in costs],
        "registers": [cost.registers for cost in costs],
        "block RAM": [cost.blocks for cost in costs],
        "bits in queues": [*waiting, sum(waiting)],
    }
    for name in ("block RAM", "bits in queues"):
        if not any(columns[name]):
            del columns[name]
    names = [*(stage.name for stage in stages), "all"]
    shown = ([f"{number:,.10g}" for number in numbers] for numbers in columns.values())
    print_columns(("stage", *columns), list(zip(names, *shown, strict=True)))


def _beats(stream: InputStream) -> str:
    if stream.beats == 1:
        return f"an image of {stream.width:,} bits per clock"
    return f"a pixel of {stream.width} bits per clock, {stream.beats:,} per image"
