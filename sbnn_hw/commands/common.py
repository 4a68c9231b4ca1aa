"""Arguments that several commands have."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = [
    "add_data_root",
    "add_family",
    "add_hardware",
    "add_json",
    "add_model",
    "add_pixels",
    "choices_of",
    "options_of",
]


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model to read."""
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        required=True,
        help="checkpoint (.pt), netlist (.sbnn, or its JSON view, .json), or ONNX file (.onnx)",
    )
    add_pixels(parser)


def add_pixels(parser: argparse.ArgumentParser) -> None:
    """Add how pixels are fed to an ONNX graph."""
    parser.add_argument(
        "--pixels",
        metavar="HOW",
        help="how pixels p are fed to an ONNX graph: signed (2p/255 − 1), unit (p/255), raw (p) "
        "or fixed "
        "((p − 128)/128) (default: as the file says, or else the way that brings the graph's "
        "values to −1…1)",
    )


def add_data_root(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the data sets."""
    parser.add_argument(
        "--data-root",
        metavar="DIR",
        type=Path,
        help="folder that holds the data sets (default: $SBNN_DATA, then data/)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the switch for programs that read the answer."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_family(parser: argparse.ArgumentParser) -> None:
    """Add what a board would decide: the family, and how far registers are apart."""
    parser.add_argument(
        "--family",
        metavar="FAMILY",
        default="xc7",
        help="xc7, ecp5, ice40 or generic (default: %(default)s)",
    )
    parser.add_argument(
        "--levels",
        metavar="N",
        type=int,
        default=3,
        help="look-up tables in a row between registers (default: %(default)s)",
    )
    parser.add_argument(
        "--split-pairs",
        action="store_true",
        help="use two LUT5 instead of each LUT6_2, for tools that cannot place it",
    )


def add_hardware(parser: argparse.ArgumentParser) -> None:
    """Add the choices of generated hardware that no board decides."""
    parser.add_argument(
        "--input",
        metavar="UNIT",
        default="auto",
        help="what arrives per clock cycle: image, pixel, or auto (images if no stage has windows) "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--flatten",
        metavar="HOW",
        default="auto",
        help="what a linear layer does with pixels that arrive one by one: gather (wait for all), "
        "accumulate (count each at once), or auto (the smaller) (default: %(default)s)",
    )
    parser.add_argument(
        "--serial",
        metavar="N",
        type=int,
        default=0,
        help="cycles in which an accumulating layer counts one pixel, at most the cycles until "
        "the next pixel (default: 0, the number that makes it smallest)",
    )
    parser.add_argument(
        "--share",
        metavar="N",
        type=int,
        default=0,
        help="pairs of neurons per layer that are searched for taps to count together "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--no-scores", action="store_true", help="output only the class, without scores"
    )


def choices_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the choices that :func:`add_hardware` added."""
    return {
        "input": args.input,
        "flatten": args.flatten,
        "serial": args.serial,
        "share": args.share,
        "scores": not args.no_scores,
    }


def options_of(args: argparse.Namespace) -> "Options":
    """Return the hardware's options; Amaranth must be there."""
    from sbnn_hw.rtl_gen.lower import Options

    return Options(
        family=args.family,
        levels_per_stage=args.levels,
        split_pairs=args.split_pairs,
        **choices_of(args),
    )
