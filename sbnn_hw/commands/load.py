"""``sbnn-hw load``: put another network on a board that runs."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from sbnn_hw.commands.common import add_json, add_line, add_model, add_port, check_line
from sbnn_hw.errors import UsageError
from sbnn_hw.models import open_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_port(parser, required=False)
    add_model(parser)
    parser.add_argument(
        "--build",
        metavar="DIR",
        type=Path,
        help="folder of the board's build (default: the one in build/ that has the board's shape)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="also write the program to a file, for the driver in C; needs --build",
    )
    add_line(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Compile, send, and check what the board then says."""
    from sbnn_hw.boards.driver import open_board
    from sbnn_hw.files import write_atomically
    from sbnn_hw.flow.loading import find_shape, load_network, program_file, shape_of

    check_line(args)
    if args.port is None and args.out is None:
        raise UsageError("Name the board's port (--port), or a file to write (--out)")
    if args.out is not None and args.build is None:
        raise UsageError("A program is for a build; name its folder (--build)")
    network = open_network(args.model, args.pixels)
    shape = None if args.build is None else shape_of(args.build)
    result: dict[str, Any] = {"model": str(args.model), "network": network.digest}
    if args.out is not None and shape is not None:
        content = program_file(network, shape)
        write_atomically(args.out, lambda file: file.write(content))
        result |= {"file": str(args.out), "file_bytes": len(content)}
    if args.port is not None:
        with open_board(args.port, baud=args.baud, timeout=args.timeout, tries=args.tries) as board:
            shape = shape or find_shape(board)
            started = time.monotonic()
            size = load_network(board, network, shape, str(args.model))
            seconds = time.monotonic() - started
            retries = board.conversation.retries
        result |= {"port": args.port, "shape": shape.short_digest, "bytes": size}
        result |= {"seconds": seconds, "retries": retries}
    if args.json:
        print(json.dumps(result))
        return
    if "file" in result:
        print(f"written      {result['file']}, {result['file_bytes']:,} bytes")
    if "port" in result:
        print(f"loaded       {args.model} ({network.digest[:12]}…) on {args.port}")
        print(
            f"program      {result['bytes']:,} bytes in {result['seconds']:.1f} s "
            f"({result['retries']:,} packets sent again)"
        )
