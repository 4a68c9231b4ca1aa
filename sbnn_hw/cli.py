"""The command line: parses, runs one command, turns errors into exit codes."""

import argparse
import atexit
import contextlib
import errno
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from sbnn_hw import __version__
from sbnn_hw.errors import OutputRefused, SbnnError, UsageError
from sbnn_hw.files import short

__all__ = ["COMMANDS", "main"]

logger = logging.getLogger("sbnn_hw")

#: Name and one line of help; each is a module of sbnn_hw.commands.
COMMANDS = {
    "train": "train a sparse binary network",
    "eval": "measure a model's accuracy on test images",
    "convert": "turn a checkpoint of the SBNN authors into one of sbnn-hw",
    "quantise": "give a residual network integer streams",
    "fold": "turn a checkpoint or ONNX file into an exact integer netlist",
    "export": "write a model as QONNX, as a netlist, or as JSON",
    "generate": "generate streaming hardware: Verilog, and a suite that tests it",
    "simulate": "simulate a design on many images, and compare every answer",
    "plan": "plan a network's hardware for a board, without building it",
    "build": "build for a board: fold, generate, simulate, synthesise, bitstream, report",
    "boards": "list the supported boards",
    "run": "classify images on a board",
    "load": "put another network on a running board that was built to be loaded",
    "serve": "simulate the board of a build behind a pseudo-terminal",
    "info": "show a model's layers, connections and binary operations",
    "bench": "measure all models: accuracy, agreement, LUTs, speed; compare with dense and "
    "published ones",
    "explore": "search for accurate and small networks; several machines can share a search",
    "paper": "print the paper's tables and draw its figures, with what is counted and measured "
    "here",
    "models": "list the models and recipes that can be trained",
    "doctor": "show which tools were found and how to get the others",
}


#: What a disk says that takes no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Parser(argparse.ArgumentParser):
    """Refuses wrong arguments as everything else is refused: in a sentence, which main prints."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}")

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse keeps it to itself when a disk is full.
        (file or sys.stderr).write(message)


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sbnn-hw",
        description="Sparse binary neural networks on FPGAs.",
        epilog="Exit codes: 1 model refused, 2 wrong arguments, 3 tool missing, 4 tool failed, "
        "5 data missing, 6 output not written, 7 hardware and software differ, 8 board does not "
        "answer as it should, 9 clock not met.",
    )
    parser.add_argument("--version", action="version", version=f"sbnn-hw {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=text, description=f"{text[:1].upper()}{text[1:]}."
        )
        # Only the command that runs is imported: `doctor` and `info` answer at once.
        if name == command:
            importlib.import_module(f"sbnn_hw.commands.{name}").add_arguments(subparser)
    return parser


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Return the arguments of a command; one that is wrong is refused with where to read on."""
    # No option in front of the command takes a value.
    command = next((word for word in arguments if not word.startswith("-")), None)
    known = command in COMMANDS
    try:
        if command is not None and not known:
            near = get_close_matches(command, COMMANDS, 1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            raise UsageError(f"There is no command {short(command)!r}{meant}")
        args = _parser(command).parse_args(arguments)
        if args.command is None:
            raise UsageError("Name a command")
        _check_names(args)
    except UsageError as error:
        about = f"sbnn-hw {command} --help" if known else "sbnn-hw --help"
        raise UsageError(f"{error} (see {about})") from None
    return args


def _check_names(args: argparse.Namespace) -> None:
    """Refuse paths that no file can have, whatever the command would do with them."""
    for value in vars(args).values():
        for path in value if isinstance(value, list) else [value]:
            if not isinstance(path, Path):
                continue
            try:
                os.lstat(path)
            except ValueError:
                raise UsageError(f"{short(path)!r} is not a valid file name") from None
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise UsageError(f"The name {short(path)} is too long for a file") from None


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        mark = {"ERROR": "E: ", "WARNING": "W: "}.get(record.levelname, "")
        return f"{mark}{record.getMessage()}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        _prepare_process()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        try:
            args = _parse(arguments)
            importlib.import_module(f"sbnn_hw.commands.{args.command}").run(args)
        except SystemExit:  # of --help and --version
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except SbnnError as error:
        logger.error("%s", error.sentence)
        code = error.exit_code
    except KeyboardInterrupt:
        if argv is None:
            _stop_listening()
        logger.warning("interrupted")
        if argv is None:
            _leave(130)
        code = 130
    except BrokenPipeError:
        # The reader went away, as `head` does; there is nobody left to tell.
        code = 141
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f" to {error.filename}" if error.filename else ""
        logger.error("Cannot write all of the output%s: %s", where, error.strerror)
        code = OutputRefused.exit_code
    else:
        code = 0
    if argv is None:
        _settle()
    return code


# What is done only where the process is ours, and not a program's that calls main


def _prepare_process() -> None:
    """Make the streams take any text, and end a run that is told to end."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by whoever started us. Nobody reads it, and nothing else may get its number.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    # Ended by a program as by a person: the tools that it started end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = _unraisable


def _unraisable(unraisable: Any) -> None:
    """Interrupt again where Python lost the interrupt, as it does in a destructor."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        # Not at once: it would be lost again in here.
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(unraisable)


def _settle() -> None:
    """Give up what could not be printed, or the interpreter complains about it as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _stop_listening() -> None:
    """Ignore further signals: what is left takes a moment, and ends by itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def _leave(code: int) -> NoReturn:
    """End at once: to take apart a large design takes seconds, and some of it complains."""
    atexit._run_exitfuncs()
    _settle()
    os._exit(code)
