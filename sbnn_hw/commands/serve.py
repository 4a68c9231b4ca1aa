"""``sbnn-hw serve``: run a build's board in simulation, behind a pseudo-terminal."""

import argparse
import logging
from pathlib import Path

from sbnn_hw.errors import OutputRefused, UsageError

logger = logging.getLogger("sbnn_hw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--build", metavar="DIR", type=Path, required=True, help="folder that `sbnn-hw build` wrote"
    )
    parser.add_argument(
        "--link",
        metavar="PATH",
        type=Path,
        help="also make a symbolic link with this name to the terminal, whose own name changes",
    )
    parser.add_argument(
        "--noise",
        metavar="P",
        type=float,
        default=0.0,
        help="flip each bit on the line with this probability (default: %(default)g)",
    )
    parser.add_argument(
        "--seed", metavar="S", type=int, default=0, help="seed of the noise (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> None:
    """Serve until interrupted."""
    from sbnn_hw.flow.simulated import start_board
    from sbnn_hw.sim.serve import Terminal

    _, line = start_board(
        args.build,
        noise=args.noise,
        seed=args.seed,
        progress=lambda text: logger.info("%s", text),
    )
    terminal = Terminal(line)
    try:
        port = _make_link(args.link, terminal.port) if args.link else terminal.port
        print(f"port  {port}", flush=True)
        logger.info("ask it with: sbnn-hw run --port %s --model … (Ctrl-C ends this)", port)
        terminal.run()
    except KeyboardInterrupt:
        logger.info("ended")
    finally:
        terminal.close()
        if args.link and args.link.is_symlink() and str(args.link.readlink()) == terminal.port:
            args.link.unlink(missing_ok=True)


def _make_link(link: Path, port: str) -> Path:
    if link.exists():
        other = "points to an existing terminal" if link.is_symlink() else "is not a symbolic link"
        raise UsageError(f"{link} already exists and {other}; choose another name")
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(port)
    except OSError as error:
        raise OutputRefused(f"Cannot make the link {link}: {error.strerror}") from None
    return link
