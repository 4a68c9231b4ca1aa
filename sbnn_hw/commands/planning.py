"""Arguments of commands that plan hardware, and a plan on the terminal."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sbnn_hw.boards.table import Board
from sbnn_hw.commands.columns import print_columns
from sbnn_hw.errors import UsageError
from sbnn_hw.planner import PLAN, read_plan
from sbnn_hw.planner.values import (
    ENDS,
    FILL,
    FORMS,
    MEMORY_FILL,
    UNROLLED,
    Candidate,
    HardwarePlan,
    Wish,
)

__all__ = [
    "add_plan",
    "add_wish",
    "clock_hz_of",
    "engine_of",
    "given_plan",
    "print_plan",
    "short_form",
    "wish_of",
]


def add_wish(parser: argparse.ArgumentParser) -> None:
    """Add what a plan shall be like."""
    group = parser.add_argument_group("plan")
    group.add_argument(
        "--target-fps",
        metavar="N",
        type=float,
        help="the smallest hardware that classifies so many images per second",
    )
    group.add_argument(
        "--target",
        metavar="END",
        help=f"{' or '.join(ENDS)} hardware that fits (default: every connection as a wire if that "
        "fits, otherwise the fastest engine)",
    )
    group.add_argument(
        "--fill",
        metavar="PERCENT",
        type=float,
        help=f"fill tables and flip-flops up to this share (default: {FILL:g}; block RAM up to "
        f"{MEMORY_FILL:g})",
    )
    add_engine(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add what an engine shall be like."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--form", metavar="FORM", help=f"only this form of hardware: {', '.join(FORMS)}"
    )
    group.add_argument("--lanes", metavar="N", type=int, help="lanes of the engine")
    group.add_argument(
        "--loadable",
        action="store_true",
        help="an engine into which other networks can be loaded while the board runs",
    )


def engine_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the engine that :func:`add_engine` added, as options of the hardware."""
    given = {"form": args.form, "lanes": args.lanes, "loadable": args.loadable or None}
    return {name: value for name, value in given.items() if value is not None}


def add_levels(parser: argparse.ArgumentParser) -> None:
    """Add how far registers are apart, where a clock can decide it."""
    parser.add_argument(
        "--levels",
        metavar="N",
        type=int,
        help="look-up tables in a row between registers (default: as many as the clock allows)",
    )


def wish_of(args: argparse.Namespace) -> Wish:
    """Return what :func:`add_wish` added."""
    if args.lanes is not None and args.lanes < 1:
        raise UsageError(f"Lanes must be 1 or more, not {args.lanes}")
    return Wish(
        fps=args.target_fps,
        end=args.target or "",
        form=args.form or "",
        lanes=args.lanes or 0,
        loadable=args.loadable,
        fill=FILL if args.fill is None else args.fill,
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add a plan that was made before."""
    parser.add_argument(
        "--plan",
        metavar="FILE",
        type=Path,
        help="build by this plan, as `sbnn-hw plan --json` prints it and as a build keeps it in "
        f"{PLAN}",
    )


def given_plan(
    args: argparse.Namespace, *decided: Callable[[argparse.ArgumentParser], None]
) -> dict[str, Any] | None:
    """Return the content of ``--plan``; refuse options that it has already.

    The functions in ``decided`` add these options to a parser.
    """
    if args.plan is None:
        return None
    parser = argparse.ArgumentParser()
    for add in decided:
        add(parser)
    for name, usual in vars(parser.parse_args([])).items():
        if getattr(args, name) != usual:
            flag = name.replace("_", "-")
            raise UsageError(f"The plan {args.plan} decides about --{flag}; omit one of them")
    return read_plan(args.plan)


def clock_hz_of(args: argparse.Namespace) -> int | None:
    """Return the clock that ``--clock`` asks for, in hertz."""
    if args.clock is None:
        return None
    if not 0.1 <= args.clock <= 2000:
        raise UsageError(f"Clock must be between 0.1 and 2000 MHz, not {args.clock:g}")
    return round(float(args.clock) * 1e6)


def print_plan(plan: HardwarePlan, model: Path) -> None:
    """Print what a plan does, why it was chosen, and what each stage takes."""
    made, need, room = plan.arrangement, plan.need, plan.target.capacity
    print(f"plan         {model.name} on {plan.target.name}: {made.title}")
    print(f"why          {plan.why}")
    print(
        f"speed        {plan.images_per_second:,.0f} images/s at {plan.clock_hz / 1e6:g} MHz, "
        f"{made.interval:,} cycles per image"
    )
    print(f"pace         {plan.pace}")
    takes = [
        _of(need.luts, room.luts if room else None, plan.target.family.packing.unit),
        _of(need.registers, room.flip_flops if room else None, "flip-flops"),
        _of(need.brams, room.brams if room else None, "memory blocks"),
    ]
    around = "shell" if isinstance(plan.target, Board) else "AXI4-Stream face"
    print(f"takes        {', '.join(takes)}, with {around}")
    head = ("stage", "engine", "lanes", "cycles", "share", "tables", "memory")
    print_columns(head, list(_rows(plan)), left=2)


def _rows(plan: HardwarePlan) -> Iterator[tuple[str, ...]]:
    made, need = plan.arrangement, plan.need
    folded = not made.wired
    if folded:
        yield "input", "", "", f"{made.beats:,}", f"{made.beats / made.interval:.1%}", "", ""
    for each in made.candidates:
        wires = each.form == UNROLLED
        lanes = "" if wires else str(each.lanes)
        for stage in each.stages:
            if not stage.cycles:
                continue
            bits = f"{stage.cost.memory_bits / 1024:.1f} kbit" if not wires else ""
            yield (
                *(stage.name, each.form, lanes, f"{stage.cycles:,}"),
                f"{stage.cycles / made.interval:.1%}",
                f"{stage.cost.tables:,}" if wires else "",
                bits or f"{stage.cost.blocks:g}",
            )
        if not wires:
            cost = each.cost
            yield "engine", each.form, lanes, "", "", f"{cost.tables:,}", f"{cost.blocks:g}"
    around = "shell" if isinstance(plan.target, Board) else "AXI4-Stream"
    yield around, "", "", "", "", f"{need.shell:,}", f"{need.image_brams:g}"
    total = made.cost.tables + need.shell, made.cost.blocks + need.image_brams
    yield "all", "", "", f"{made.interval:,}", "", f"{total[0]:,}", f"{total[1]:g}"


def _of(count: int, room: int | None, what: str) -> str:
    if not room:
        return f"{count:,} {what}"
    return f"{count:,} of {room:,} {what} ({count / room:.1%})"


def short_form(candidates: tuple[Candidate, ...]) -> str:
    """Return the forms of a plan for a narrow column."""
    return "+".join(dict.fromkeys(each.form for each in candidates))
