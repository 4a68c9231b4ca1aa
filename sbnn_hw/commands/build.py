"""``sbnn-hw build``: from a model to a board."""

import argparse
import json
import logging
import shlex
from pathlib import Path

from sbnn_hw.boards.links import LINKS, UART, find_link
from sbnn_hw.boards.table import find_board, part_family
from sbnn_hw.commands.common import (
    add_data_options,
    add_data_root,
    add_hardware,
    add_json,
    add_model,
    choices_of,
    data_choices_of,
)
from sbnn_hw.commands.planning import (
    add_levels,
    add_plan,
    add_wish,
    clock_hz_of,
    given_plan,
    wish_of,
)
from sbnn_hw.data.find import KINDS
from sbnn_hw.data.options import DataOptions
from sbnn_hw.flow import BOARD, TOOLCHAINS, UNTIL, Plan, build, default_folder, load_command
from sbnn_hw.report import Report

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--board",
        metavar="BOARD",
        help="name of a board (`sbnn-hw boards` lists them), or your own pin file (.toml)",
    )
    target.add_argument(
        "--part",
        metavar="PART",
        help="FPGA without a board, such as xc7a35ticsg324-1L: the network gets AXI4-Stream ports",
    )
    parser.add_argument(
        "--link",
        metavar="LINK",
        default=UART.name,
        help=f"line between the board and its host: {', '.join(LINKS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="folder to write (default: build/MODEL-BOARD)"
    )
    parser.add_argument(
        "--until",
        metavar="STEP",
        help=f"last step: {', '.join(UNTIL)} (default: as far as the installed tools allow)",
    )
    parser.add_argument(
        "--clock",
        metavar="MHZ",
        type=float,
        help="clock frequency (default: the plan's if one is given, or the board's own)",
    )
    add_levels(parser)
    parser.add_argument(
        "--toolchain",
        metavar="NAME",
        default="auto",
        help=f"what makes 7-series bitstreams: {', '.join(TOOLCHAINS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--energy",
        action="store_true",
        help="count toggles in simulation, and estimate the energy of an image from them (takes "
        "about as long as the simulation)",
    )
    parser.add_argument(
        "--force", action="store_true", help="build even if the network is too large"
    )
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="simulate the test images of these data (default: the model's own if they are found, "
        f"otherwise random images; one of: {KINDS})",
    )
    add_data_root(parser)
    add_data_options(parser)
    add_plan(parser)
    add_wish(parser)
    add_hardware(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Build and report."""
    target = find_board(args.board) if args.board is not None else part_family(args.part)
    clock_hz, content = clock_hz_of(args), given_plan(args, add_levels, add_wish, add_hardware)
    if content is not None and clock_hz is None and isinstance(content.get("clock_hz"), int):
        clock_hz = content["clock_hz"]
    plan = Plan(
        model=args.model,
        pixels=args.pixels,
        target=target,
        out=args.out or default_folder(args.model, target),
        until=args.until,
        clock_hz=clock_hz,
        levels=args.levels,
        toolchain=args.toolchain,
        energy=args.energy,
        force=args.force,
        data=args.data,
        data_root=args.data_root,
        data_options=DataOptions(**data_choices_of(args)),
        options=choices_of(args),
        link=find_link(args.link),
        wish=wish_of(args),
        hardware=args.plan,
    )
    report = build(plan, lambda step, text: logger.info("%-11s %s", step, text))
    if args.json:
        print(json.dumps(report.to_dict()))
    else:
        _print(report, plan)


def _print(report: Report, plan: Plan) -> None:
    print(f"design       {report.model} on {report.place}")
    print(f"connections  {report.connections:,}")
    if agreement := report.agreement:
        equal = agreement.vectors - agreement.mismatches
        what = "class and scores" if agreement.scores else "class"
        print(
            f"agreement    {equal:,} of {agreement.vectors:,} images ({agreement.images}) "
            f"equal in {what}, with and without stalls"
        )
    if report.accuracy is not None:
        print(f"accuracy     {report.accuracy:.2%} on {report.data}")
    if report.luts is not None:
        print(
            f"network      {report.luts:,} LUTs ({report.luts_per_connection:.3f} per "
            f"connection), {report.ffs:,} flip-flops, {report.bram:g} BRAM"
        )
    if report.design is not None:
        luts, of, share = report.design.luts or 0, "", ""
        if report.capacity is not None and report.capacity.luts:
            of = f" of {report.capacity.luts:,}"
            share = f" ({luts / report.capacity.luts:.1%})"
        name = "with shell" if report.board else "with AXI"
        print(f"{name:<13}{luts:,}{of} LUTs{share}, {report.design.ffs:,} flip-flops")
    if report.latency_cycles is not None:
        print(
            f"speed        {report.images_per_second:,.0f} images/s at {report.clock_mhz:g} "
            f"MHz, {report.latency_cycles:,} cycles ({report.latency_ns:,.0f} ns) each"
        )
    if report.energy_estimate is not None:
        print(f"energy       {report.energy_estimate}; no board was measured")
    if cells := (report.placed or {}).get(plan.target.family.packing.cell):
        print(f"placed       {cells[0]:,} of {cells[1]:,} cells ({cells[0] / cells[1]:.1%})")
    if report.fmax_mhz is not None and report.timing is not None:
        print(f"Fmax         {report.fmax_mhz:.1f} MHz by {report.timing.tool}")
    if report.uart is not None:
        print(
            f"line         {report.uart.baud:,} baud, up to "
            f"{report.link_images_per_second:,.0f} images/s; {report.link}"
        )
    elif report.link_images_per_second is not None:
        print(f"line         up to {report.link_images_per_second:,.0f} images/s; {report.link}")
    if report.bitstream:
        made = plan.out / report.bitstream
        print(f"bitstream    {made}")
        if command := load_command(plan.target, str(made)):
            print(f"load it      {command}")
    if report.missing:
        print(f"missing      {report.missing}")
        _print_remaining(plan)
    print(f"report       {plan.out / 'report.html'}")


def _print_remaining(plan: Plan) -> None:
    """Print the commands that are left to do, as they work from here."""
    name = "top_axi" if plan.board is None else "shell"
    script = plan.out / BOARD / f"build_{name}.sh"
    if not script.is_file():
        return
    print(f"with Vivado  sh {shlex.quote(str(script))}")
    if command := load_command(plan.target, str(script.with_name(f"{name}.bit"))):
        print(f"then load it {command}")
