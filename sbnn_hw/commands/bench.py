"""``sbnn-hw bench``: measure all models, next to dense and published ones."""

import argparse
import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

from sbnn_hw.commands.common import add_data, add_json, data_choices_of
from sbnn_hw.data.options import DataOptions
from sbnn_hw.errors import SbnnError, ToolMissing, UsageError
from sbnn_hw.files import check_writable, exclusive, write_text
from sbnn_hw.models import require_torch

logger = logging.getLogger("sbnn_hw")

JSON, PLOT = "bench.json", "pareto"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--models",
        metavar="PLACE",
        type=Path,
        nargs="*",
        default=[Path("models")],
        help="checkpoints (.pt), or folders of them (default: models). With --add and no PLACE, "
        "nothing is measured, and only the tables and the picture are written again",
    )
    add_data(parser, "measure on the test images of these data instead of each model's own")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("build/bench"),
        help="folder for the results: tables, JSON and picture (default: %(default)s)",
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        type=Path,
        default=Path("build/bench/work"),
        help="folder in which each step keeps its results, so that a second run takes seconds "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--readme",
        metavar="FILE",
        type=Path,
        help="also write the picture and a table of five models between their marks in this file",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="keep the results of other models that are in --out, and add these",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="measure on 1000 images, without place and route; estimate large dense networks",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, write, and fail if anything did."""
    from sbnn_hw.zoo.earlier import add_to, drawn_again, read_earlier, require_whole
    from sbnn_hw.zoo.models import find_models
    from sbnn_hw.zoo.picture import draw
    from sbnn_hw.zoo.run import run_bench
    from sbnn_hw.zoo.setup import Setup, require_all
    from sbnn_hw.zoo.table import MARKDOWN, markdown, place, split_readme

    if args.quick and args.readme is not None:
        raise UsageError("The README must not show a quick run; omit --quick or --readme")
    paths = find_models(args.models) if args.models else []
    if not paths and not args.add:
        raise UsageError("Name models to measure, or omit --models to measure those of models/")
    require_torch()
    if importlib.util.find_spec("matplotlib") is None:
        raise ToolMissing("The picture needs Matplotlib (pip install 'sbnn-hw[train]')")
    if args.readme is not None:
        check_writable(args.readme)
        # Known now, not after hours.
        split_readme(args.readme)
    here = next((path for path in paths if path.is_file()), paths[0] if paths else None)
    tools = {} if here is None else require_all(here, quick=args.quick)

    def say(model: str, step: str, text: str) -> None:
        logger.info("%-20s %-11s %s", model, step, text)

    with exclusive(args.out / JSON), exclusive(args.work / "steps"):
        earlier = read_earlier(args.out / JSON, quick=args.quick) if args.add else None
        if earlier is not None and args.readme is not None:
            require_whole(earlier, args.out / JSON, {path.stem for path in paths})
        if paths:
            setup = Setup(
                args.work,
                tools,
                say,
                args.data_root,
                args.quick,
                args.data,
                DataOptions(**data_choices_of(args)),
            )
            results, errors = run_bench(paths, setup)
            if not results["models"]:
                # What an earlier run has left is worth more than a table of failures.
                _fail(errors, results)
            results = results if earlier is None else add_to(earlier, results)
        else:
            assert earlier is not None
            results, errors = drawn_again(earlier), []
        text, tables = json.dumps(results, indent=1) + "\n", markdown(results)
        write_text(args.out / JSON, text)
        write_text(args.out / MARKDOWN, tables)
        pictures = draw(results, args.out / PLOT)
        if args.readme is not None and not errors:
            place(args.readme, results, args.out / f"{PLOT}.svg")
    if args.json:
        print(json.dumps(results))
    else:
        print(tables)
        for path in (args.out / MARKDOWN, args.out / JSON, *pictures):
            print(f"written  {path}")
    _fail(errors, results)


def _fail(errors: list[SbnnError], results: dict[str, Any]) -> None:
    """End with the exit code of the first error, if there was one."""
    if not errors:
        return
    count = len(errors)
    more = "" if count == 1 else f" (and {count - 1} more, in {JSON})"
    raise type(errors[0])(f"Not everything was measured: {errors[0]}{more}")
