"""``sbnn-hw explore``: search for networks that are accurate and small."""

import argparse
import importlib.util
import json
import logging
import re
from contextlib import closing
from pathlib import Path

from sbnn_hw.commands.common import add_data_options, add_data_root, add_json, data_choices_of
from sbnn_hw.data.find import KINDS
from sbnn_hw.data.options import DataOptions
from sbnn_hw.errors import ToolMissing, UsageError
from sbnn_hw.files import check_writable
from sbnn_hw.models import require_torch

logger = logging.getLogger("sbnn_hw")

JOURNAL = "study.journal"
EPOCHS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--data", metavar="DATA", required=True, help=f"what to train on (one of: {KINDS})"
    )
    add_data_root(parser)
    add_data_options(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder for the front: its checkpoints, front.json, front.md and picture",
    )
    parser.add_argument(
        "--storage",
        metavar="WHERE",
        help="where the study is stored; to share it between machines, name a file in a shared "
        f"folder, or the URL of a database (default: {JOURNAL} in --out)",
    )
    parser.add_argument(
        "--study",
        metavar="NAME",
        help="name of the study in its storage (default: the name of the data set)",
    )
    parser.add_argument(
        "--space",
        metavar="FILE",
        type=Path,
        help="search space: a TOML file, `pixels` (convolutions, one pixel per clock), `residual` "
        "(residual networks with integer streams) or `tables` (columns of numbers), which come "
        "with this package (default: the package's space.toml)",
    )
    parser.add_argument(
        "--trials",
        metavar="N",
        type=int,
        default=20,
        help="number of trials in the study, counted over all processes (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        metavar="E",
        type=int,
        help=f"most epochs per trial (default: {EPOCHS}, or with --seconds as many as fit)",
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        help="seconds of training per trial: one epoch is timed first, then as many run as fit, "
        "up to --epochs if that is given too",
    )
    parser.add_argument(
        "--validation",
        metavar="N",
        type=int,
        default=5000,
        help="training images held out to compare networks on, at most a fifth (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=int,
        default=0,
        help="seed of the search; each network has its own seed (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=1,
        help="number of threads for torch (default: %(default)s)",
    )
    parser.add_argument(
        "--no-prune",
        action="store_true",
        help="train every trial to its end, even if it falls behind",
    )
    parser.add_argument(
        "--stale",
        metavar="S",
        type=float,
        default=3600.0,
        help="run a trial of another machine again if that machine has been silent for this many "
        "seconds "
        "(default: %(default)g)",
    )
    add_json(parser)


def _check(args: argparse.Namespace) -> None:
    """Refuse numbers that cannot be meant."""
    for flag, value, least, most in (
        ("trials", args.trials, 1, 10**6),
        ("epochs", args.epochs, 1, 10**6),
        ("validation", args.validation, 1, 10**9),
        ("seed", args.seed, 0, 2**31),
        ("threads", args.threads, 1, 1024),
        ("stale", args.stale, 1, 10**9),
        ("seconds", args.seconds, 0.001, 10**9),
    ):
        if value is not None and not least <= value <= most:
            raise UsageError(f"--{flag} must be between {least} and {most}, not {value}")
    if args.study is not None and not re.fullmatch(r"[\w.-]{1,100}", args.study):
        raise UsageError(
            f"A study's name must be letters, digits, dots and dashes, not {args.study!r}"
        )


def run(args: argparse.Namespace) -> None:
    """Search, and show the front."""
    from sbnn_hw.explore.space import SHIPPED, SPACES, load_space

    _check(args)
    require_torch()
    space = load_space(SPACES.get(str(args.space), args.space) or SHIPPED)
    for module, what in (("optuna", "explore"), ("matplotlib", "train"), ("amaranth", "flow")):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(f"A search needs {module} (pip install 'sbnn-hw[{what}]')")
    from sbnn_hw.explore.front import JSON, MARKDOWN, PLOT
    from sbnn_hw.explore.run import Search, explore
    from sbnn_hw.explore.study import Study
    from sbnn_hw.train.explore import Runner

    check_writable(args.out / JSON)
    reading = data_choices_of(args)
    runner = Runner(args.data, args.data_root, DataOptions(**reading))
    epochs = EPOCHS if args.epochs is None and args.seconds is None else args.epochs
    search = Search(
        space, args.data, args.out, epochs, args.seconds, args.validation, args.threads, reading
    )
    study = Study(
        args.study or args.data,
        args.storage or str(args.out / JOURNAL),
        search.facts(),
        seed=args.seed,
        prune=not args.no_prune,
        stale=args.stale,
    )
    with closing(study):
        result = explore(search, study, runner, args.trials, logger.info)
    if args.json:
        print(json.dumps(result))
        return
    print((args.out / MARKDOWN).read_text(encoding="utf-8"))
    for name in (MARKDOWN, JSON, f"{PLOT}.png", f"{PLOT}.svg"):
        if (args.out / name).is_file():
            print(f"written  {args.out / name}")
