"""``sbnn-hw plan``: how a network would be built, without building it."""

import argparse
import json

from sbnn_hw.boards.table import BOARDS, Board, Part, find_board, part_family
from sbnn_hw.commands.columns import print_columns
from sbnn_hw.commands.common import add_hardware, add_json, add_model, choices_of
from sbnn_hw.commands.planning import (
    add_levels,
    add_wish,
    clock_hz_of,
    print_plan,
    short_form,
    wish_of,
)
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.flow.planning import clock_of, options_for
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Network
from sbnn_hw.planner import HardwarePlan, choose

#: The name that stands for every board.
_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--board",
        metavar="BOARD",
        help=f"name of a board (`sbnn-hw boards` lists them), your own pin file (.toml), or {_ALL}",
    )
    target.add_argument("--part", metavar="PART", help="FPGA without a board")
    parser.add_argument(
        "--clock", metavar="MHZ", type=float, help="clock frequency (default: the board's own)"
    )
    add_levels(parser)
    add_wish(parser)
    add_hardware(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Plan and print."""
    if args.board == _ALL:
        _print_all(args, open_network(args.model, args.pixels))
        return
    target = find_board(args.board) if args.board is not None else part_family(args.part)
    found = _plan(args, open_network(args.model, args.pixels), target)
    if args.json:
        print(found.to_json(), end="")
    else:
        print_plan(found, args.model)


def _plan(args: argparse.Namespace, network: Network, target: Board | Part) -> HardwarePlan:
    clock = clock_of(target, clock_hz_of(args))
    asked = options_for(target, clock, args.levels, choices_of(args))
    return choose(network, target, clock, asked, wish_of(args))


def _print_all(args: argparse.Namespace, network: Network) -> None:
    """Print a line for each board: its plan, or why there is none."""
    rows, plain, refused = [], [], []
    for board in BOARDS.values():
        try:
            found = _plan(args, network, board)
        except (ModelRejected, UsageError) as error:
            refused.append(f"{board.name}: {error.sentence}")
            plain.append({"target": board.name, "refused": error.sentence})
            continue
        plain.append(found.to_dict())
        tables, _, memory = found.need.shares(board.capacity)
        lanes = max(each.lanes for each in found.arrangement.candidates)
        rows.append(
            (
                *(board.name, short_form(found.arrangement.candidates), str(lanes or "")),
                *(f"{found.arrangement.interval:,}", f"{found.images_per_second:,.0f}"),
                *(f"{found.need.luts:,}", f"{tables:.0%}"),
                *(f"{found.need.brams:,}", f"{memory:.0%}"),
            )
        )
    if args.json:
        print(json.dumps(plain, ensure_ascii=False))
        return
    if rows:
        head = ("board", "engine", "lanes", "cycles", "images/s", "tables", "", "memory", "")
        print_columns(head, rows, left=2)
    for line in refused:
        print(line)
