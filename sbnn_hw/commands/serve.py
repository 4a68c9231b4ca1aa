"""``sbnn-hw serve``: run a build's board in simulation, behind a pseudo-terminal."""

import argparse
import json
import logging
from pathlib import Path

from sbnn_hw.errors import ModelRejected, OutputRefused, UsageError
from sbnn_hw.flow.report import JSON
from sbnn_hw.generate import require_amaranth
from sbnn_hw.hardware import Folder
from sbnn_hw.report import Report

logger = logging.getLogger("sbnn_hw")

#: Clocks a bit, so that simulation is fast enough; on the board there are more.
DIVISOR = 8

_LEDS = 4


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
    require_amaranth()
    from sbnn_hw.boards.shell import Shell
    from sbnn_hw.rtl_gen.verilog import to_verilog
    from sbnn_hw.sim.library import primitives
    from sbnn_hw.sim.line import Line, compile_line
    from sbnn_hw.sim.serve import Terminal
    from sbnn_hw.sim.verilator import require
    from sbnn_hw.yosys import find_yosys

    if not 0 <= args.noise <= 1:
        raise UsageError(f"Noise must be between 0 and 1, not {args.noise:g}")
    if args.seed < 0:
        raise UsageError(f"Seed must not be negative, not {args.seed}")
    find_yosys()
    require()
    clock_hz = _clock_of(args.build)
    _, verilog, design = Folder(args.build).load()
    shell = Shell(design, divisor=DIVISOR, clock_hz=clock_hz, leds=_LEDS)
    sources = {
        "primitives.v": primitives(),
        "top.v": verilog,
        "shell.v": to_verilog(shell, "shell"),
    }
    path = compile_line(
        sources, divisor=DIVISOR, leds=_LEDS, progress=lambda text: logger.info("%s", text)
    )
    terminal = Terminal(Line(path, divisor=DIVISOR, noise=args.noise, seed=args.seed))
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


def _clock_of(folder: Path) -> int:
    """Return the clock of the board that a build is for: the identity tells it."""
    try:
        report = Report.read(json.loads((folder / JSON).read_text(encoding="utf-8")))
    except OSError:
        raise UsageError(
            f"There is no build in {folder} (make one with `sbnn-hw build --out {folder}`)"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelRejected(f"{folder / JSON} is damaged ({error}); build it again") from None
    if report.board is None:
        raise UsageError(f"The build in {folder} is for a part, which has no board to simulate")
    if not report.clock_mhz:
        raise UsageError(
            f"The build in {folder} stopped before the hardware was generated; build it with a "
            f"later --until"
        )
    if report.uart is None:
        raise UsageError(
            f"The build in {folder} is for SPI, and a terminal has only a serial line; build it "
            "without --link spi"
        )
    return round(report.clock_mhz * 1e6)


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
