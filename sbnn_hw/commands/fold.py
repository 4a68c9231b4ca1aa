"""``sbnn-hw fold``: turn a checkpoint or ONNX into an integer netlist, exactly."""

import argparse
import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw import netlist
from sbnn_hw.commands.columns import print_columns
from sbnn_hw.commands.common import Progress, add_data, add_json, add_pixels, find_data_of
from sbnn_hw.commands.eval import check_geometry
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.files import check_writable
from sbnn_hw.models import require_torch
from sbnn_hw.netlist.form import Array

if TYPE_CHECKING:
    from sbnn_hw.qonnx.importer import Imported
    from sbnn_hw.train.fold import Folded

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        required=True,
        help="checkpoint (.pt) or ONNX file (.onnx) to fold",
    )
    add_pixels(parser)
    parser.add_argument(
        "--out", metavar="NETLIST", type=Path, required=True, help="netlist to write (.sbnn)"
    )
    add_data(parser, "also compare every bit and stream value with torch on these test images")
    parser.add_argument("--images", metavar="N", type=int, help="how many of them (default: all)")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Fold, write the netlist and report."""
    if args.model.suffix.lower() not in (".pt", ".onnx"):
        raise UsageError(
            f"The model to fold must be a checkpoint (.pt) or an ONNX file (.onnx), not "
            f"{str(args.model)!r}"
        )
    if args.out.suffix.lower() != ".sbnn":
        raise UsageError(f"A netlist's name must end in .sbnn, not {str(args.out)!r}")
    if args.model.suffix.lower() == ".onnx" and args.data:
        raise UsageError("Only checkpoints (.pt) can be compared with torch; omit --data for ONNX")
    if args.model.suffix.lower() == ".pt" and args.pixels:
        raise UsageError("Only ONNX files (.onnx) need --pixels; omit it")
    if args.images is not None and not args.data:
        raise UsageError("--images chooses among the images of --data; add --data, or omit it")
    if args.images is not None and args.images < 1:
        raise UsageError(f"Images must be 1 or more, not {args.images}")
    check_writable(args.out)
    folded: Folded | Imported
    check = None
    if args.model.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.importer import import_network

        folded = import_network(args.model, pixels=args.pixels)
    else:
        require_torch()
        from sbnn_hw.train.fold import fold_checkpoint

        folded = fold_checkpoint(args.model)
        if args.data:
            edge, classes = folded.network.input, folded.network.classes
            data = find_data_of(args, folded.network.meaning, edge)
            check_geometry(args.model, edge.shape, classes, data, data.classes)
            images = data.load("test", args.data_root).pixels[: args.images]
            check = _check(args.model, folded, images)
    network = folded.network
    netlist.save(network, args.out)
    if args.json:
        print(
            json.dumps(
                {
                    "netlist": str(args.out),
                    "digest": network.digest,
                    "connections": network.connections,
                    "layers": [asdict(report) for report in folded.reports],
                    "agreement": check,
                    "pixels": getattr(folded, "pixels", None),
                }
            )
        )
        return
    print(f"netlist      {args.out}")
    print(f"digest       {network.digest}")
    print(f"connections  {network.connections:,}")
    if args.model.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.pixels import PIXELS

        how = folded.pixels  # type: ignore[union-attr]
        print(f"pixels       {how}: {PIXELS[how]}")
    rows = []
    for report in folded.reports:
        xi = f"{report.xi}/2^{report.k}" if report.xi else "0"
        if report.name == "scores":
            xi = "–"
        # What is added up for a stream decides nothing.
        proved = (report.decisions, report.rationals) if report.decisions else ()
        decided = [f"{number:,}" for number in proved] or ["–", "–"]
        rows.append((report.name, xi, *decided, f"{report.constants:,}", f"{report.absent:,}"))
    print_columns(("layer", "ξ", "decisions", "rational", "constant", "unread"), rows)
    if check:
        values = f", {check['values']:,} values of streams" if check["values"] else ""
        close = (
            "all integers" if values else f"{len(check['close'])} close calls decided by rationals"
        )
        print(
            f"agreement    {check['bits']:,} hidden bits{values} and {check['images']:,} classes "
            f"are those of torch ({close})"
        )


def _check(path: Path, folded: "Folded", pixels: Array) -> dict[str, Any]:
    """Compare the network with the checkpoint's model; a difference is our bug, and said so."""
    from sbnn_hw.train.checkpoint import load_checkpoint
    from sbnn_hw.train.fold import fold_model
    from sbnn_hw.train.fold_check import check_fold

    folded.network.check_pixels(pixels[:1])
    checkpoint = load_checkpoint(path)
    # With the neurons that nothing reads, so that every hidden bit of the model is compared; what
    # is written must then give the same scores.
    whole = fold_model(checkpoint.model, checkpoint.config.shape, drop_unread=False)
    logger.info("comparing with torch")
    result = check_fold(
        checkpoint.model, whole, pixels, same=folded.network, progress=Progress(len(pixels))
    )
    if not result.exact:
        raise ModelRejected(
            f"{path} and its netlist differ ({result.first}); please report this with the file"
        )
    return asdict(result)
