"""``sbnn-hw run``: classify images on a board."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.boards.protocol import Counters
from sbnn_hw.commands.common import (
    Progress,
    add_data,
    add_json,
    add_line,
    add_model,
    add_port,
    check_line,
    read_data,
)
from sbnn_hw.errors import Disagreement, LinkFailed, UsageError
from sbnn_hw.images import read_images
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_port(parser)
    add_model(parser)
    parser.add_argument("images", metavar="IMAGES", nargs="*", type=Path, help="image files (PNG)")
    add_data(parser, "classify the test images of a data set")
    parser.add_argument("--count", metavar="N", type=int, help="classify only the first N images")
    parser.add_argument(
        "--resize", action="store_true", help="scale image files to the size that the model takes"
    )
    parser.add_argument("--invert", action="store_true", help="swap black and white in image files")
    add_line(parser)
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compare the answers with the model in software",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Classify and report."""
    from sbnn_hw.boards.driver import open_board

    if bool(args.images) == bool(args.data):
        raise UsageError("Name image files, or a data set (--data), and not both")
    if args.count is not None and args.count < 1:
        raise UsageError(f"Count must be 1 or more, not {args.count}")
    check_line(args)
    network = open_network(args.model, args.pixels)
    pixels, labels = _load(args, network)
    with open_board(args.port, baud=args.baud, timeout=args.timeout, tries=args.tries) as board:
        board.check_network(network, str(args.model))
        answers = board.classify(pixels, progress=Progress(len(pixels)))
        try:
            counters: Counters | None = board.counters()
        except LinkFailed:
            # The answers count all the same.
            counters = None
    answered = np.ones(len(pixels), bool)
    answered[list(answers.failed)] = False
    result: dict[str, Any] = {
        "port": args.port,
        "model": str(args.model),
        "images": len(pixels),
        "answered": int(answered.sum()),
        "classes": answers.classes.tolist(),
        "names": None if network.meaning is None else list(network.meaning.classes),
        "failed": {str(number): why for number, why in answers.failed.items()},
        "retries": answers.retries,
        "seconds": answers.seconds,
        "images_per_second": int(answered.sum()) / answers.seconds if answers.seconds else None,
        "scores": bool(answers.scores.shape[1]),
        "board": None if counters is None else asdict(counters),
        "equal": None,
        "correct": None,
        "accuracy": None,
    }
    if labels is not None:
        result["correct"] = int((answers.classes == labels)[answered].sum())
        result["accuracy"] = result["correct"] / max(1, result["answered"])
    wrong = np.zeros(len(pixels), bool)
    if not args.no_check:
        outcome = network.compute(pixels)
        wrong = answered & (answers.classes != outcome.classes)
        if answers.scores.shape[1]:
            wrong |= answered & (answers.scores != outcome.scores).any(axis=1)
        result["equal"] = int((answered & ~wrong).sum())
    if args.json:
        print(json.dumps(result))
    else:
        _print(result, args.images, network)
    if wrong.any():
        raise Disagreement(
            f"For {int(wrong.sum()):,} of {len(pixels):,} images the board's answer differs from "
            f"that of {args.model} (the first is image {int(wrong.argmax())})"
        )
    if answers.failed:
        first, why = next(iter(sorted(answers.failed.items())))
        raise LinkFailed(
            f"{len(answers.failed):,} of {len(pixels):,} images got no answer (the first is image "
            f"{first}: {why}); check the cable, or choose a lower baud rate"
        )


def _load(
    args: argparse.Namespace, network: Network
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    if not args.data:
        pixels = read_images(
            args.images[: args.count], network, resize=args.resize, invert=args.invert
        )
        return pixels, None
    images = read_data(args, network, args.model)
    return images.pixels[: args.count], images.labels[: args.count]


def _print(result: dict[str, Any], files: list[Path], network: Network) -> None:
    for path, number in zip(files, result["classes"], strict=False):
        print(f"{'–' if number < 0 else network.class_name(number):<3} {path}")
    print(f"answered     {result['answered']:,} of {result['images']:,} images")
    if result["equal"] is not None:
        what = "class and scores" if result["scores"] else "class"
        print(f"equal        {result['equal']:,} to the model in software, {what}")
    if result["accuracy"] is not None:
        print(f"accuracy     {result['accuracy']:.2%} ({result['correct']:,} right)")
    print(
        f"speed        {result['images_per_second']:,.1f} images/s "
        f"({result['retries']:,} packets sent again)"
    )
    if board := result["board"]:
        print(
            f"board        {board['images']:,} images, {board['busy']:,} cycles busy, "
            f"{board['errors']:,} errors since its reset"
        )
