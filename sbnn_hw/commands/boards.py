"""``sbnn-hw boards``: list the boards that can be built for."""

import argparse
import json

from sbnn_hw.boards.table import BOARDS, plain
from sbnn_hw.commands.common import add_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """List them."""
    if args.json:
        print(json.dumps([plain(board) for board in BOARDS.values()]))
        return
    print(
        f"{'board':<17} {'FPGA':<20} {'family':<6} {'LUTs':>7} {'FFs':>8} {'BRAM':>5} {'MHz':>5}"
        "  host"
    )
    for board in BOARDS.values():
        print(
            f"{board.name:<17} {board.part:<20} {board.family.name:<6} {board.capacity.luts:>7,} "
            f"{board.capacity.flip_flops:>8,} {board.capacity.brams:>5} "
            f"{board.clock_hz / 1e6:>5g}  {board.link}"
        )
