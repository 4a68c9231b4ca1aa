"""``sbnn-hw export``: write a model as QONNX, as a netlist, or as JSON."""

import argparse
import json
from pathlib import Path

from sbnn_hw import netlist
from sbnn_hw.commands.common import add_json, add_model
from sbnn_hw.errors import UsageError
from sbnn_hw.files import check_writable
from sbnn_hw.models import open_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="file to write: ONNX (.onnx), a netlist (.sbnn), or its JSON view (.json)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Open the model and write it in another form."""
    if args.out.suffix.lower() not in (".onnx", ".sbnn", ".json"):
        raise UsageError(
            f"The output's name must end in .onnx, .sbnn or .json, not {str(args.out)!r}"
        )
    check_writable(args.out)
    network = open_network(args.model, args.pixels)
    if args.out.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.export import save_network

        save_network(network, args.out)
    elif args.out.suffix.lower() == ".json":
        from sbnn_hw.netlist.view import save_view

        save_view(network, args.out)
    else:
        netlist.save(network, args.out)
    if args.json:
        print(json.dumps({"file": str(args.out), "digest": network.digest}))
        return
    print(f"file         {args.out}")
    print(f"digest       {network.digest}")
