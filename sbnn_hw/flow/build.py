"""Walk all steps of a build, and report."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from sbnn_hw.boards.fit import check_fit
from sbnn_hw.errors import Disagreement, OutputRefused, SbnnError, TimingMissed
from sbnn_hw.files import exclusive, write_text
from sbnn_hw.flow.board_steps import check_shell, route, synthesise_all, write_host
from sbnn_hw.flow.network_steps import (
    choose_clock,
    choose_images,
    count_toggles,
    fold,
    generate,
    simulate,
)
from sbnn_hw.flow.plan import LEFT, UNTIL, Built, Flow, Plan, left_by, require_tools
from sbnn_hw.flow.planning import choose_plan
from sbnn_hw.flow.report import HTML, JSON, make_report
from sbnn_hw.flow.steps import NOTES, Steps
from sbnn_hw.hardware import AGREEMENT, DESCRIPTION
from sbnn_hw.report import Report

__all__ = ["build"]


def build(plan: Plan, progress: Callable[[str, str], None] | None = None) -> Report:
    """Build, and return the report; ``progress`` takes the name of a step and a few words."""
    say = progress or (lambda step, text: None)
    tools = require_tools(plan)
    _check_folder(plan.out)
    try:
        with exclusive(plan.out / JSON):
            # What a longer build left does not hold good either, once a step is done again.
            beyond = [step for step in UNTIL if not plan.reaches(step)]
            results = (JSON, HTML, *LEFT["bitstream"], *left_by(*beyond))
            return _walk(Flow(plan, Steps(plan.out, say, results), tools, say))
    except SbnnError:
        # A model that was refused leaves no folder behind.
        with contextlib.suppress(OSError):
            plan.out.rmdir()
        raise


def _check_folder(folder: Path) -> None:
    """Make sure that a build overwrites nothing but a build."""
    if folder.is_file():
        raise OutputRefused(f"Output {folder} is a file; name a folder")
    if folder.is_dir() and not (folder / NOTES).is_dir() and not (folder / DESCRIPTION).is_file():
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if others:
            raise OutputRefused(
                f"Output {folder} holds other files ({others[0]!r}); name a new or empty folder"
            )


def _note_target(plan: Plan, steps: Steps) -> None:
    """Remove what was made for another board, part or line: earlier steps may be the same."""
    note = plan.out / NOTES / "target.json"
    text = json.dumps({"target": plan.target.name, "link": plan.link.name}) + "\n"
    try:
        before = note.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        before = ""
    if before != text:
        steps.remove((JSON, HTML, *left_by("synthesis", "bitstream")))
        write_text(note, text)


def _walk(flow: Flow) -> Report:
    plan = flow.plan
    network, trained_on = fold(flow)
    _note_target(plan, flow.steps)
    images, labelled = choose_images(flow, network, trained_on)
    built = Built(network)
    problem: Exception | None = None
    if plan.reaches("rtl"):
        choose_clock(flow, built)
        built.plan = choose_plan(flow, built)
        built.fit = built.plan.need
        generate(flow, built, built.plan.options, images)
        write_host(flow, built)
        if plan.reaches("synthesis"):
            built.fit = check_fit(network, plan.target, built.design, force=plan.force)
            check_shell(flow, built)
    try:
        if plan.reaches("simulation"):
            simulate(flow, built, images, labelled)
            count_toggles(flow, built, images)
        if plan.reaches("synthesis"):
            synthesise_all(flow, built)
        if plan.reaches("bitstream"):
            route(flow, built)
    except Disagreement as error:
        problem = error
        verdict = json.loads((plan.out / AGREEMENT).read_text(encoding="utf-8"))
        built.simulated = {"verdict": verdict, "confusion": None}
    report = make_report(plan, built, flow.steps, flow.tools)
    if problem is not None:
        raise problem
    if built.routed is not None and not built.routed["met"]:
        worst, levels = built.routed["worst"], built.known_design.levels_per_stage
        # More registers help where tables are the reason.
        fewer = f"--levels {levels - 1}, or " if levels > 1 and worst != "shell" else ""
        raise TimingMissed(
            f"The design reaches {built.routed['fmax_mhz']:.1f} MHz on {plan.target.name}, not "
            f"{built.clock_hz / 1e6:g}: its slowest path is in {worst} (try {fewer}a lower --clock)"
        )
    return report
