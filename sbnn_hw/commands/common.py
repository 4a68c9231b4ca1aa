"""Arguments that several commands have."""

import argparse
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.families import FAMILIES, any_of

if TYPE_CHECKING:
    from sbnn_hw.data.own import OwnData
    from sbnn_hw.datasets import Dataset, Images
    from sbnn_hw.netlist import Edge, Meaning, Network
    from sbnn_hw.rtl_gen.lower import Options

logger = logging.getLogger("sbnn_hw")

__all__ = [
    "DATA_OPTIONS",
    "Progress",
    "add_data",
    "add_data_options",
    "add_data_root",
    "add_family",
    "add_hardware",
    "add_json",
    "add_line",
    "add_model",
    "add_pixels",
    "add_port",
    "check_line",
    "choices_of",
    "data_choices_of",
    "find_data_of",
    "options_of",
    "read_data",
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


def add_port(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the port of a board."""
    parser.add_argument(
        "--port",
        metavar="PORT",
        required=required,
        help="serial port of the board, such as /dev/ttyUSB1, or the terminal that `sbnn-hw "
        "serve` prints",
    )


def add_line(parser: argparse.ArgumentParser) -> None:
    """Add how a board is talked to."""
    parser.add_argument(
        "--baud", metavar="RATE", type=int, help="baud rate (default: try the usual ones)"
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=1.0,
        help="seconds to wait for an answer, in addition to the transfer time (default: "
        "%(default)g)",
    )
    parser.add_argument(
        "--tries",
        metavar="N",
        type=int,
        default=8,
        help="number of times that a packet is sent before it is given up (default: %(default)s)",
    )


def check_line(args: argparse.Namespace) -> None:
    """Refuse what :func:`add_line` cannot mean."""
    for name, value, least in (("Tries", args.tries, 1), ("Baud rate", args.baud, 300)):
        if value is not None and value < least:
            raise UsageError(f"{name} must be {least} or more, not {value}")
    if not 0 < args.timeout <= 3600:
        raise UsageError(f"Timeout must be above 0 and at most 3600 s, not {args.timeout:g}")


def add_data(parser: argparse.ArgumentParser, text: str, *, required: bool = False) -> None:
    """Add the data that test images are taken from, and how they are read."""
    # Here, since `doctor` answers where numpy is missing.
    from sbnn_hw.data.find import KINDS

    known = f"{text} (one of: {KINDS})"
    parser.add_argument("--data", metavar="DATA", required=required, help=known)
    add_data_root(parser)
    add_data_options(parser)


#: Options for data of one's own: flag, type, metavar, help.
DATA_OPTIONS: list[tuple[str, Any, str, str]] = [
    ("label", str, "COLUMN", "column of a table that holds the class, by name or number"),
    ("size", str, "HxW", ("scale pictures to this size, such as 32x32; of a table: its columns are "
     "the pixels of such images")),
    ("split", str, "A/B/C", "shares of training, validation and test rows (default: 80/10/10)"),
    ("split-seed", int, "S", "seed that splits rows (default: 0)"),
    ("drop", str, "COLUMN", "columns of a table to leave out"),
    ("categorical", str, "COLUMN", "columns of a table whose numbers are names"),
    ("header", str, "HOW", ("whether a table begins with names of columns: auto, yes or no "
     "(default: auto)")),
    ("input-bits", int, "N", ("bits of each value that the network takes, 1 to 16 (default: as few "
     "as are needed)")),
    ("scaling", str, "HOW", ("how numbers become integers: affine, quantile, or auto (small whole "
     "numbers stay as they are) (default: auto)")),
    ("kind", str, "KIND", ("what arrays of three axes hold: images or signals (default: bytes are "
     "images)")),
]  # fmt: skip


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add how data of one's own are read. What is not given is None: a model may know it."""
    group = parser.add_argument_group("data of your own")
    for flag, kind, metavar, text in DATA_OPTIONS:
        many: dict[str, Any] = {"nargs": "+"} if flag in ("drop", "categorical") else {}
        group.add_argument(f"--{flag}", type=kind, metavar=metavar, help=text, **many)
    group.add_argument(
        "--gray", action="store_true", default=None, help="turn coloured pictures into grey ones"
    )


def data_choices_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of :func:`add_data_options` that were given."""
    names = [flag.replace("-", "_") for flag, *_ in DATA_OPTIONS]
    given = {n: getattr(args, n) for n in [*names, "gray"] if getattr(args, n) is not None}
    return {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}


def find_data_of(
    args: argparse.Namespace, meaning: "Meaning | None", edge: "Edge"
) -> "Dataset | OwnData":
    """Return what ``--data`` names, read as a model's own data were."""
    from sbnn_hw.data.find import find_data
    from sbnn_hw.data.options import DataOptions
    from sbnn_hw.data.own import Known, OwnData

    options = DataOptions(**data_choices_of(args))
    data = find_data(args.data, options, Known.of(meaning, edge), root=args.data_root)
    if isinstance(data, OwnData):
        logger.info("data        %s", data.said)
    return data


def read_data(args: argparse.Namespace, network: "Network", taker: Path) -> "Images":
    """Return the test images of ``--data``, if they have the size that ``taker`` takes."""
    dataset = find_data_of(args, network.meaning, network.input)
    if tuple(network.input.shape) != dataset.shape:
        raise ModelRejected(
            f"{taker} takes images of {'×'.join(map(str, network.input.shape))}, but "
            f"{dataset.name} has {'×'.join(map(str, dataset.shape))}"
        )
    return dataset.load("test", args.data_root)


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
        help=f"{any_of(list(FAMILIES))} (default: %(default)s)",
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


def options_of(args: argparse.Namespace, **more: Any) -> "Options":
    """Return the hardware's options, with ``more`` of them; Amaranth must be there."""
    from sbnn_hw.rtl_gen.lower import Options

    return Options(
        family=args.family,
        levels_per_stage=args.levels,
        split_pairs=args.split_pairs,
        **choices_of(args),
        **more,
    )


class Progress:
    """Says now and then how many images are done, and how long the others will take."""

    #: Seconds between two lines.
    EVERY = 2.0

    def __init__(self, total: int) -> None:
        self._total, self._started = total, time.monotonic()
        self._next = self._started + self.EVERY

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now >= self._next and done < self._total:
            self._next = now + self.EVERY
            left = (now - self._started) / max(1, done) * (self._total - done)
            logger.info("%s of %s images, %.0f s left", f"{done:,}", f"{self._total:,}", left)
