"""``sbnn-hw train``: train a sparse binary network."""

import argparse
import json
import logging
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from sbnn_hw.bops import inverse_entropy
from sbnn_hw.commands.common import add_data_options, add_data_root, add_json, data_choices_of
from sbnn_hw.data.find import KINDS, find_data
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import OwnData
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.models import require_torch
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.defaults import choose_defaults, choose_method, share_of_ones, tell

logger = logging.getLogger(__name__)

#: The options that are fields of the training configuration: flag, type, metavar, help. Their
#: defaults are the recipe's, and else the configuration's own.
OPTIONS: dict[str, list[tuple[str, Any, str, str]]] = {
    "model": [
        ("model", str, "NAME", ("name of a model, or mlp:…, conv:… or resnet:… (see `sbnn-hw "
         "models`)")),
        ("data", str, "DATA", f"what to train on (one of: {KINDS})"),
        ("domain", str, "NAME", ("values of the weights: learned, closed_form, symmetric, bnn or "
         "zero; also signed (an extension) and real (for teachers)")),
        ("xi-bits", int, "K", "round ξ to multiples of 2^-K, with --domain learned"),
        ("init", str, "NAME", "initial values of τ and φ: unit, closed_form or balanced"),
        ("gradient", str, "NAME", ("gradient of the weights' sign: clipped, ede or identity "
         "(default: clipped; identity with top-k)")),
        ("activation", str, "NAME", ("gradient of the activations' sign: clipped, ede or "
         "polynomial (default: the model's)")),
        ("normalise", str, "NAME", ("how a backbone normalises pixels: cifar10, cifar100 or "
         "imagenet")),
        ("encoder", str, "NAME", ("input encoder: threshold, thermometer, learned (learns its "
         "thresholds), integer, quantile (thresholds of its own for each channel or column) or "
         "learned_quantile")),
        ("thresholds", int, "T", "pixel values that the encoder compares with"),
        ("planes", int, "N", "thresholds per column of the encoder quantile (default: up to 15)"),
        ("padding", int, "P", "padding of convolutions"),
        ("padding-value", int, "V", ("value that convolutions pad with: -1, or 0 (the default of "
         "backbones)")),
        ("width", float, "W", "factor on the number of neurons and channels"),
        ("norm-scale", str, "NAME", "batch-norm scale: learned, unit or alternating"),
        ("stream-bits", int, "B", "bits of a backbone's values between blocks (0: real values)"),
        ("weight-bits", int, "B", ("bits of the weights of a backbone's real layers (default: 8 "
         "with --stream-bits)")),
        ("sign-planes", int, "N", ("bits that each value of a stream becomes in front of a "
         "convolution: its sign, or whether it reaches each of N levels (resnet only)")),
        ("multiplier-digits", int, "D", ("make every multiplier in front of a stream a sum of at "
         "most D powers of two, which takes less hardware (default: any of ten bits)")),
        ("shortcut", str, "NAME", ("shortcuts of a backbone where maps shrink: real weights, or "
         "duplicate (no weights: 2×2 means, channels several times)")),
        ("first", str, "NAME", "a backbone's first convolution: real or binary weights"),
    ],
    "sparsity": [
        ("method", str, "NAME", ("how sparsity is reached: penalty (the paper's loss), topk, luts "
         "or none")),
        ("luts", int, "N", "budget of look-up tables (implies --method luts)"),
        ("fan-in", int, "N", "most taps per neuron, layer by layer, for --method luts"),
        ("gamma", float, "G", "share of the penalty in the loss"),
        ("ec-schedule", str, "NAME", ("how the allowed share of ones changes: constant, or cubic "
         "(falls from 0.5)")),
        ("ec-until", float, "S", "share of the run in which the schedule falls"),
        ("clamp", float, "C", "clamp latent weights to ±C (0: do not clamp)"),
    ],
    "training": [
        ("epochs", int, "E", "number of epochs"),
        ("batch", int, "B", "images per step, over all processes"),
        ("lr", float, "LR", "Adam's learning rate"),
        ("lr-schedule", str, "NAME", "learning-rate schedule: cosine, linear or constant"),
        ("beta2", float, "B2", "Adam's second decay rate"),
        ("weight-decay", float, "WD", "Adam's L2 term on weights"),
        ("crop", int, "P", "random crop after padding by P pixels"),
        ("window", int, "N", ("train on windows of N×N pixels for the first part of the run, which "
         "takes less time (residual networks)")),
        ("window-until", float, "S", "share of the run that sees windows"),
        ("rotate", float, "DEG", "rotate images by up to DEG degrees"),
        ("shift", float, "S", "shift images by up to this share of their side"),
        ("scale", float, "S", "scale images up or down by up to this share"),
        ("shear", float, "DEG", "shear images by up to DEG degrees"),
        ("jitter", float, "S", "add noise of S times the deviation of a column or channel"),
        ("mixup", float, "A", "MixUp with Beta(A, A)"),
        ("teacher", str, "FILE", ("teacher to distil from: a checkpoint, or torchvision's state "
         "dict of resnet34")),
        ("distill", float, "D", "share of the teacher in the loss"),
        ("temperature", float, "T", "temperature of the distillation"),
        ("start", str, "CKPT", "checkpoint to take initial values from, where names match"),
        ("validation", int, "N", "training images held out to choose the epoch by"),
        ("validation-seed", int, "S", "seed that chooses these images (−1: the one of --seed)"),
        ("recalibrate", int, "N", ("images to recompute batch-norm statistics from, each epoch (0: "
         "keep running ones)")),
        ("measure-from", float, "S", ("recalibrate and validate only the epochs behind this share "
         "of the run")),
        ("seed", int, "S", ("random seed; on a CPU, the same seed and threads give the same "
         "weights")),
        ("device", str, "NAME", "auto (a GPU if there is one), cpu, cuda or cuda:N"),
        ("precision", str, "NAME", "precision of products in a training step: float32 or bfloat16"),
        ("workers", int, "N", "processes that decode image files (0: none)"),
        ("threads", int, "N", "number of threads for torch (0: let torch choose)"),
    ],
}  # fmt: skip


_DEFAULTS = {field.name: field.default for field in fields(TrainConfig)}
_DEFAULTS = {name: value for name, value in _DEFAULTS.items() if value is not MISSING}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--out",
        metavar="CKPT",
        type=Path,
        required=True,
        help="checkpoint to write (.pt); the state to resume from, the log and its plot are "
        "written next to it",
    )
    add_data_root(parser)
    add_data_options(parser)
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help="start from a recipe (`sbnn-hw models` lists them); options override it",
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    existing.add_argument(
        "--replace", action="store_true", help="start over, and overwrite what is at --out"
    )
    add_json(parser)
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for flag, kind, metavar, text in options:
            many: dict[str, Any] = {"nargs": "+"} if flag in ("thresholds", "fan-in") else {}
            default = _DEFAULTS.get(flag.replace("-", "_"))
            # Empty and zero mean a choice that the text explains.
            shown = f"{text} (default: {default})" if default else text
            group.add_argument(f"--{flag}", type=kind, metavar=metavar, help=shown, **many)
        if title == "training":
            group.add_argument(
                "--flip", action="store_true", default=None, help="mirror half of the images"
            )
            group.add_argument(
                "--teach-once",
                action="store_true",
                default=None,
                help="ask the teacher once about each image, not in each step",
            )
        if title == "sparsity":
            group.add_argument(
                "--replace-idle",
                action="store_true",
                default=None,
                help="replace neurons that are constant or duplicates",
            )
            limits = group.add_mutually_exclusive_group()
            limits.add_argument(
                "--sparsity", type=float, metavar="S", help="share of zeros to reach, such as 0.95"
            )
            limits.add_argument(
                "--ec", type=float, metavar="EC", help="share of ones to reach, such as 0.05"
            )
            limits.add_argument(
                "--bits",
                type=float,
                metavar="H",
                help="bits per weight to reach: the entropy h(EC)",
            )


def _choices(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given."""
    names = [flag.replace("-", "_") for options in OPTIONS.values() for flag, *_ in options]
    given = {
        n: getattr(args, n)
        for n in [*names, "flip", "teach_once", "replace_idle"]
        if getattr(args, n) is not None
    }
    given |= {n: tuple(given[n]) for n in ("thresholds", "fan_in") if n in given}
    given |= data_choices_of(args)
    if "luts" in given and args.recipe is None:
        given.setdefault("method", "luts")
    if args.sparsity is not None:
        given["ec"] = share_of_ones(args.sparsity)
    if args.ec is not None:
        given["ec"] = args.ec
    if args.bits is not None:
        if not 0 < args.bits <= 1:
            raise UsageError(f"Bits per weight must be above 0 and at most 1, not {args.bits!r}")
        given["ec"] = inverse_entropy(args.bits)
    return given


def _own_data(args: argparse.Namespace, options: dict[str, Any]) -> OwnData | None:
    """Return the data that were named, if they are not pictures of a known data set."""
    if "data" not in options:
        return None
    names = [field.name for field in fields(DataOptions)]
    choices = DataOptions(**{name: options[name] for name in names if name in options})
    found = find_data(options["data"], choices, root=args.data_root)
    return found if isinstance(found, OwnData) else None


def run(args: argparse.Namespace) -> None:
    """Train, and say what came of it."""
    require_torch()
    from sbnn_hw.train.loop import train
    from sbnn_hw.train.parallel import is_first, process_group
    from sbnn_hw.train.recipes import load_recipe, recipe_needs

    options = load_recipe(args.recipe) if args.recipe else {}
    options |= _choices(args)
    for option, what in (recipe_needs(args.recipe) if args.recipe else {}).items():
        if option not in options:
            raise UsageError(f"Recipe {args.recipe} needs --{option} FILE: {what}")
    data = _own_data(args, options)
    if data is not None:
        logger.info("data        %s", data.said)
        chosen = choose_defaults(data, options) if args.recipe is None else {}
        if chosen:
            logger.info("chosen      %s", tell(chosen))
        options |= chosen
    options |= choose_method(options)
    for needed in ("model", "data"):
        if needed not in options:
            raise UsageError(f"Training needs --{needed}, or a --recipe that names it")
    if args.out.suffix != ".pt":
        raise UsageError(f"A checkpoint's name must end in .pt, not {str(args.out)!r}")
    try:
        config = TrainConfig(**options)
    except ModelRejected as error:
        raise UsageError(str(error)) from None
    with process_group():
        checkpoint = train(
            config,
            args.out,
            data_root=args.data_root,
            resume=args.resume,
            replace=args.replace,
            data=data,
            talk=logger.info,
        )
        if not is_first():
            return
    metrics = checkpoint.metrics
    if args.json:
        print(json.dumps({"checkpoint": str(args.out), **metrics}))
        return
    validation = metrics["validation"]
    print(f"checkpoint  {args.out}")
    print(f"epoch       {metrics['epoch']}")
    if validation is not None:
        print(f"validation  {validation:.2%}")
    if not metrics["weights"]:
        return  # real weights have no ones
    print(
        f"ones        {metrics['ones']:,} of {metrics['weights']:,} weights "
        f"({metrics['ones'] / metrics['weights']:.2%})"
    )
