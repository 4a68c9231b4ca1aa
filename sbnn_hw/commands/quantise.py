"""``sbnn-hw quantise``: give a residual network integer streams, so that it can be built."""

import argparse
import json
import logging
import os
from pathlib import Path

from sbnn_hw.commands.common import Progress, add_data, add_json, find_data_of
from sbnn_hw.commands.eval import check_geometry
from sbnn_hw.errors import UsageError, naming
from sbnn_hw.files import check_writable
from sbnn_hw.models import require_torch
from sbnn_hw.netlist import Edge

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--model",
        metavar="CKPT",
        type=Path,
        required=True,
        help="checkpoint of a backbone (.pt)",
    )
    add_data(parser, "data set: its training images choose the range of each stream, its test "
             "images measure the accuracy", required=True)  # fmt: skip
    for flag, metavar, default, text in (
        ("stream-bits", "B", 8, "bits of the integers between blocks"),
        ("weight-bits", "B", 8, "bits of the weights of real layers"),
        ("multiplier-digits", "D", 0, "powers of two that a multiplier may be a sum of; 0 is any"),
        ("images", "N", 1000, "training images that choose the range of each stream"),
        ("recalibrate", "N", 0, "training images to recompute batch-norm statistics from"),
    ):
        parser.add_argument(
            f"--{flag}",
            metavar=metavar,
            type=int,
            default=default,
            help=f"{text} (default: %(default)s)",
        )
    parser.add_argument(
        "--xi-bits",
        metavar="K",
        type=int,
        help="round every ξ to a multiple of 2^-K (default: 8 where ξ is not on a grid)",
    )
    parser.add_argument(
        "--out", metavar="CKPT", type=Path, required=True, help="checkpoint to write (.pt)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Quantise, write the checkpoint, and say what has changed."""
    for option, low, high in (
        ("stream_bits", 2, 16), ("weight_bits", 2, 8), ("xi_bits", 1, 16),
        ("multiplier_digits", 0, 5),
        ("images", 1, 10**9), ("recalibrate", 0, 10**9),
    ):  # fmt: skip
        value = getattr(args, option)
        if value is not None and not low <= value <= high:
            flag = option.replace("_", "-")
            raise UsageError(f"--{flag} must be between {low} and {high}, not {value}")
    if args.model.suffix.lower() != ".pt":
        raise UsageError(
            f"The model to quantise must be a checkpoint (.pt), not {str(args.model)!r}"
        )
    if args.out.suffix != ".pt":
        raise UsageError(f"A checkpoint's name must end in .pt, not {str(args.out)!r}")
    check_writable(args.out)
    require_torch()
    from sbnn_hw.train.checkpoint import load_checkpoint, save_checkpoint
    from sbnn_hw.train.images import images_of
    from sbnn_hw.train.quantise import measure, quantise

    checkpoint = load_checkpoint(args.model)
    config = checkpoint.config
    dataset = find_data_of(args, checkpoint.meaning, Edge.of_bits(config.shape, config.bits))
    workers = os.cpu_count() or 1
    training, classes = dataset.open("train", args.data_root)
    outputs = config.classes
    if dataset.classes is not None and outputs > dataset.classes:
        outputs = classes  # the authors' network for CIFAR-100 has more outputs than classes
    check_geometry(args.model, config.shape, outputs, dataset, classes)
    known = images_of(training, workers=workers)
    tests = images_of(dataset.open("test", args.data_root)[0], workers=workers)
    logger.info("computing integers")
    with naming(f"{args.model}: "):
        made = quantise(
            checkpoint,
            known,
            stream_bits=args.stream_bits,
            weight_bits=args.weight_bits,
            multiplier_digits=args.multiplier_digits,
            xi_bits=args.xi_bits,
            images=args.images,
            recalibrate=args.recalibrate,
        )

    def watch(which: str) -> Progress:
        logger.info("evaluating %s", which)
        return Progress(len(tests))

    measured = measure(checkpoint.model, made.checkpoint.model, tests, watch=watch)
    save_checkpoint(args.out, made.checkpoint)
    before, after = (n / measured.images for n in (measured.before, measured.after))
    moved = {name: by for name, by in made.moved.items() if by}
    settings = made.checkpoint.config
    if args.json:
        print(
            json.dumps(
                {
                    "checkpoint": str(args.out),
                    "model": config.name,
                    "stream_bits": settings.stream_bits,
                    "weight_bits": settings.weight_bits,
                    "multiplier_digits": settings.multiplier_digits,
                    "xi_bits": settings.xi_bits,
                    "images": measured.images,
                    "accuracy_before": before,
                    "accuracy_after": after,
                    "changed": measured.changed,
                    "xi_moved": moved,
                    "streams": [stream.to_dict() for stream in measured.streams],
                }
            )
        )
        return
    print(f"checkpoint  {args.out}")
    print(f"integers    streams of {settings.stream_bits} bits, weights of {settings.weight_bits}")
    if moved:
        print(
            f"ξ           moved to multiples of 2^-{settings.xi_bits} in {len(moved)} layers, by "
            f"at most {max(moved.values()):.2g}"
        )
    print(f"accuracy    {before:.2%} before, {after:.2%} after")
    print(f"changed     {measured.changed:,} of {measured.images:,} images are in another class")
    print()
    print(f"{'stream':<28} {'values':<14} {'step':<6} {'clamped':>9}")
    for stream in measured.streams:
        reach = 2.0 ** (stream.bits - 1 - stream.fraction)
        print(
            f"{stream.name:<28} {f'−{reach:g} … {reach:g}':<14} {f'2^{-stream.fraction}':<6} "
            f"{stream.clamped / max(1, stream.values):>9.3%}"
        )
