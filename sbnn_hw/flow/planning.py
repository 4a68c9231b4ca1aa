"""The plan of a build: asked for, or given back as a file; the options that generate follow it."""

from typing import TYPE_CHECKING, Any

from sbnn_hw.boards.clocks import levels_for, plan_clock
from sbnn_hw.boards.fit import check_size
from sbnn_hw.boards.links import UART, Link
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.errors import ToolMissing, UsageError
from sbnn_hw.files import write_text
from sbnn_hw.flow.plan import Built, Flow, xilinx_toolchain
from sbnn_hw.flow.steps import code_digest
from sbnn_hw.planner import PLAN, HardwarePlan, check_plan, choose, read_plan, wired_stages

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.options import Options

__all__ = ["CLOCK_HZ", "choose_plan", "clock_of", "options_for"]

#: The clock, where there is no board and none was named.
CLOCK_HZ = 100_000_000


def clock_of(target: Board | Part, clock_hz: int | None, link: Link = UART) -> int:
    """Return the clock that a design will run at, in hertz."""
    if isinstance(target, Board):
        return plan_clock(target, clock_hz, link).hz
    return clock_hz or CLOCK_HZ


def options_for(
    target: Board | Part,
    clock_hz: int,
    levels: int | None,
    choices: dict[str, Any],
    *,
    split: bool = False,
) -> "Options":
    """Return the hardware's options for a target, before anything is planned."""
    from sbnn_hw.rtl_gen.options import Options

    if levels is None:
        levels = levels_for(target.speed_class, clock_hz)
    return Options(family=target.family.name, levels_per_stage=levels, split_pairs=split, **choices)


def choose_plan(flow: Flow, built: Built) -> HardwarePlan:
    """Plan the hardware of a build, say what was chosen and why, and keep it as a file."""
    plan = flow.plan
    if plan.hardware is not None:
        found = check_plan(read_plan(plan.hardware), plan.hardware, built.network, plan.target)
        if found.clock_hz != built.clock_hz:
            raise UsageError(
                f"The plan {plan.hardware} is for {found.clock_hz / 1e6:g} MHz, not for "
                f"{built.clock_hz / 1e6:g}; build with --clock {found.clock_hz / 1e6:g}"
            )
    else:
        asked = options_for(
            plan.target, built.clock_hz, plan.levels, plan.options, split=_splits(flow)
        )
        found = choose(
            built.network, plan.target, built.clock_hz, asked, plan.wish, force=plan.force
        )
    made = found.arrangement
    wired = wired_stages(built.network, found.options)
    check_size(built.network, force=plan.force, stages=wired)
    flow.say("plan", f"{made.title}: {found.why}")
    flow.say("plan", f"{found.images_per_second:,.0f} images/s; {found.pace}")

    text = found.to_json()

    def make() -> tuple[Any, list[str]]:
        write_text(plan.out / PLAN, text)
        return {}, [PLAN]

    reads = {"plan": text, "code": code_digest("sbnn_hw.files", alone=(__name__,))}
    flow.steps.run("plan", reads, make)
    return found


def _splits(flow: Flow) -> bool:
    """Whether a LUT6_2 must be two LUT5: openXC7 cannot place one."""
    return flow.plan.toolchain == "openxc7" or (
        flow.plan.toolchain == "auto"
        and "openxc7" in flow.plan.target.family.toolchains
        and flow.plan.reaches("bitstream")
        and _has_only_openxc7(flow)
    )


def _has_only_openxc7(flow: Flow) -> bool:
    try:
        return xilinx_toolchain(flow.plan) == "openxc7"
    except ToolMissing:
        return False
