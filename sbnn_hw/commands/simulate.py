"""``sbnn-hw simulate``: ask whether the hardware says what the software says."""

import argparse
import json
import logging
import shlex
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sbnn_hw.commands.common import add_data, add_json, read_data
from sbnn_hw.errors import UsageError
from sbnn_hw.files import check_writable, write_text
from sbnn_hw.hardware import AGREEMENT, Folder
from sbnn_hw.images import random_images
from sbnn_hw.netlist import Network

logger = logging.getLogger("sbnn_hw")

Array = npt.NDArray[Any]

#: The ending of GTKWave's files.
SAVE = ".gtkw"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--design",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder that `sbnn-hw generate` wrote",
    )
    add_data(parser, "simulate the test images of this data set instead of random ones")
    parser.add_argument(
        "--images",
        metavar="N",
        type=int,
        help="number of images (default: the whole data set, or 1000 random ones; 3 with --waves)",
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
    parser.add_argument(
        "--waves",
        metavar="FILE",
        type=Path,
        help="write a waveform (.fst or .vcd), and beside it a .gtkw file that shows it in GTKWave",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Simulate, write the verdict, and fail if it is not that all is equal."""
    from sbnn_hw.sim.agreement import check_agreement
    from sbnn_hw.sim.build import usable_waveform
    from sbnn_hw.sim.verilator import require
    from sbnn_hw.sim.waves import find_waveform, save_file

    folder = Folder(args.design)
    _check_numbers(args)
    _check_waves(args)
    network, verilog, design = folder.load()
    check_writable(args.design / AGREEMENT)
    require()
    if args.waves:
        usable_waveform(find_waveform(args.waves))
    # A verdict of another run must not outlive one that breaks off.
    folder.remove(AGREEMENT)
    pixels, labels = _images(args, network)
    agreement = check_agreement(
        network,
        verilog,
        design,
        pixels,
        stalls=args.stalls,
        seed=args.seed,
        inside=args.inside,
        waves=args.waves,
        progress=lambda text: logger.info("%s", text),
    )
    if args.waves:
        shown = save_file(design, args.waves.name, agreement.cycles)
        write_text(args.waves.with_suffix(SAVE), shown)
    verdict = folder.record(agreement, network, design, verilog, args.data or "random", labels)
    if args.json:
        print(json.dumps(verdict))
    else:
        _print(verdict)
        if args.waves:
            _print_waves(args.waves)
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


def _check_numbers(args: argparse.Namespace) -> None:
    if args.seed < 0:
        raise UsageError(f"Seed must not be negative, not {args.seed}")
    if args.images is not None and args.images < 1:
        raise UsageError(f"Images must be 1 or more, not {args.images}")


def _check_waves(args: argparse.Namespace) -> None:
    """Refuse waveforms that cannot be written, or that nobody could look through."""
    from sbnn_hw.sim.waves import MOST, SHOWN, find_waveform

    if not args.waves:
        return
    find_waveform(args.waves)
    if args.images is None:
        args.images = SHOWN
    if args.images > MOST:
        raise UsageError(
            f"Images must be {MOST} or fewer with --waves, not {args.images:,}: a waveform has "
            "every signal in every cycle (omit --waves to simulate more)"
        )
    check_writable(args.waves)
    check_writable(args.waves.with_suffix(SAVE))


def _images(args: argparse.Namespace, network: Network) -> tuple[Array, Array | None]:
    """Return the images to simulate, and their classes if they are known."""
    if not args.data:
        return random_images(network, args.images or 1000, args.seed), None
    images = read_data(args, network, args.design)
    return images.pixels[: args.images], images.labels[: args.images]


def _print(verdict: dict[str, Any]) -> None:
    equal = verdict["vectors"] - verdict["mismatches"]
    what = "class and scores" if verdict["scores"] else "class"
    print(f"images       {equal:,} of {verdict['vectors']:,} equal in {what}")
    if verdict["values"]:
        print(
            f"inside       {verdict['values'] - verdict['value_mismatches']:,} of "
            f"{verdict['values']:,} values inside the stages equal"
        )
    if verdict["accuracy"] is not None:
        print(f"accuracy     {verdict['accuracy']:.2%} ({verdict['correct']:,} right)")
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


def _print_waves(waves: Path) -> None:
    size = waves.stat().st_size
    print(f"waves        {waves} ({size / 1e3:,.0f} kB)")
    print(
        f"look at it   gtkwave {shlex.quote(str(waves))} "
        f"{shlex.quote(str(waves.with_suffix(SAVE)))}"
    )
