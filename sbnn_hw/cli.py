"""The command line: parses, runs one command, turns errors into exit codes."""

import argparse
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence

from sbnn_hw import __version__
from sbnn_hw.errors import SbnnError

__all__ = ["COMMANDS", "main"]

logger = logging.getLogger("sbnn_hw")

#: Name and one line of help; each is a module of sbnn_hw.commands.
COMMANDS = {
    "train": "train a sparse binary network",
    "eval": "measure a model's accuracy on test images",
    "convert": "turn a checkpoint of the SBNN authors into one of ours",
    "fold": "turn a checkpoint or ONNX into an integer netlist, exactly",
    "export": "write a model as QONNX, as a netlist, or as JSON",
    "generate": "generate streaming hardware: Verilog, and a suite that tests it",
    "simulate": "simulate a design on whole sets of images, and compare every answer",
    "build": "build for a board: fold, generate, simulate, synthesise, bitstream, report",
    "boards": "list the boards that can be built for",
    "run": "classify images on a board",
    "serve": "run a build's board in simulation, behind a pseudo-terminal",
    "info": "show what a model has: layers, connections, binary operations",
    "bench": "measure all models: accuracy, agreement, LUTs, speed; dense and published beside",
    "explore": "search for accurate and small networks; resumable, shared by several machines",
    "paper": "print the paper's tables and draw its figures, beside what is counted here",
    "models": "list the models and recipes that can be trained",
    "doctor": "show which tools were found and how to get the others",
}


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sbnn-hw",
        description="Sparse binary neural networks on FPGAs.",
        epilog="Exit codes: 1 model refused, 2 wrong arguments, 3 tool missing, 4 tool failed, "
        "5 data missing, 6 output not written, 7 hardware and software differ, 8 board does not "
        "answer, 9 clock not met.",
    )
    parser.add_argument("--version", action="version", version=f"sbnn-hw {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=text, description=f"{text[:1].upper()}{text[1:]}."
        )
        # Only the command that runs is imported: `doctor` and `info` answer at once.
        if name == command:
            importlib.import_module(f"sbnn_hw.commands.{name}").add_arguments(subparser)
    return parser


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        mark = {"ERROR": "E: ", "WARNING": "W: "}.get(record.levelname, "")
        return f"{mark}{record.getMessage()}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if argv is None:
        # Ended by a program as by a person: the tools that it started end with it.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = next((argument for argument in arguments if argument in COMMANDS), None)
    args = _parser(chosen).parse_args(arguments)
    try:
        importlib.import_module(f"sbnn_hw.commands.{args.command}").run(args)
        sys.stdout.flush()
    except SbnnError as error:
        logger.error("%s", " ".join(str(error).split()))
        return error.exit_code
    except KeyboardInterrupt:
        logger.warning("interrupted")
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0
