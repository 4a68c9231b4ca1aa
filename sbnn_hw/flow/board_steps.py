"""The steps from hardware to a board: driver, synthesis, place and route, bitstream."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sbnn_hw import __version__
from sbnn_hw.boards.host import host_files
from sbnn_hw.boards.nextpnr import place_and_route, place_out_of_context, synthesise_board
from sbnn_hw.boards.openxc7 import require_openxc7, run_openxc7
from sbnn_hw.boards.results import Prepared, Routed
from sbnn_hw.boards.table import Part, plain
from sbnn_hw.boards.vivado import check_project, find_vivado, part_project, run_vivado
from sbnn_hw.errors import ToolMissing
from sbnn_hw.families import FpgaFamily
from sbnn_hw.files import write_atomically, write_text
from sbnn_hw.flow.plan import BOARD, HOST, Built, Flow, bitstream_of, routes, xilinx_toolchain
from sbnn_hw.flow.steps import NOTES, code_digest, file_digest, value_digest
from sbnn_hw.hardware import AXI, DESCRIPTION, VERILOG
from sbnn_hw.tools import version_of
from sbnn_hw.yosys import Counts, synthesise

__all__ = ["check_shell", "prepare", "route", "synthesise_all", "write_host"]

# What makes the files of a board, and what places and routes them.
_SHELL_CODE = tuple(
    f"sbnn_hw.{name}"
    for name in (*("boards.nextpnr", "boards.platform", "boards.shell", "boards.vivado", "yosys"),)
)
_ROUTE_CODE = tuple(f"sbnn_hw.boards.{name}" for name in ("nextpnr", "openxc7", "vivado"))


def prepare(flow: Flow, built: Built) -> Prepared:
    """Return the files around the core: a board's shell and pins, or the AXI4-Stream face."""
    target = flow.plan.target
    verilog = (flow.plan.out / VERILOG).read_text(encoding="utf-8")
    if isinstance(target, Part):
        face = (flow.plan.out / AXI).read_text(encoding="utf-8")
        sources = {"top.v": verilog, "top_axi.v": face}
        if "vivado" not in target.family.toolchains:
            return Prepared("top_axi", sources)
        return part_project(target, built.clock_hz, sources)
    from sbnn_hw.boards.platform import prepare_board

    assert built.clock is not None
    return prepare_board(target, _shell_of(built), built.clock, {"top.v": verilog})


def _shell_of(built: Built) -> Callable[[int, int], Any]:
    from sbnn_hw.boards.shell import Shell

    assert built.clock is not None
    link = built.clock.link

    def make(divisor: int, leds: int) -> Any:
        return Shell(
            built.known_design, divisor=divisor, clock_hz=built.clock_hz, leds=leds, link=link
        )

    return make


def check_shell(flow: Flow, built: Built) -> None:
    """Make sure that a board's shell can serve the network, before anything takes long."""
    if flow.plan.board is not None and built.clock is not None:
        _shell_of(built)(built.clock.baud.divisor, 1)


def write_host(flow: Flow, built: Built) -> None:
    """Write the driver for a board's host; without a board, forget that of another build."""
    if flow.plan.board is None:
        flow.steps.remove((f"{HOST}/", f"{NOTES}/host.json"))
        return

    def make() -> tuple[Any, list[str]]:
        files = host_files(built.known_design)
        for name, text in files.items():
            write_text(flow.plan.out / HOST / name, text)
        return {}, [f"{HOST}/{name}" for name in files]

    reads = {
        "description": file_digest(flow.plan.out / DESCRIPTION),
        "code": code_digest("sbnn_hw.boards.host", "sbnn_hw.files", alone=(__name__,)),
    }
    flow.steps.run("host", reads, make)


def synthesise_all(flow: Flow, built: Built) -> None:
    target, place = flow.plan.target, flow.plan.out / BOARD
    verilog = (flow.plan.out / VERILOG).read_text(encoding="utf-8")

    def make() -> tuple[Any, list[str]]:
        flow.say("synthesis", f"preparing {target.name}")
        prepared = prepare(flow, built)
        # What an earlier build left must not be taken for a part of this one.
        shutil.rmtree(place, ignore_errors=True)
        prepared.write(place)
        if "vivado" in target.family.toolchains and (wrong := check_project(place, prepared.name)):
            raise AssertionError(f"The Vivado project is not consistent: {wrong[0]}")
        flow.say("synthesis", "Yosys: the network by itself, and the whole design")
        with ThreadPoolExecutor(2) as pool:
            core = pool.submit(synthesise, verilog, target.family.name)
            whole = pool.submit(
                synthesise_board,
                prepared.files,
                target.family,
                place,
                top=prepared.name,
                pins=flow.plan.board is not None,
            )
            counts = {
                "core": _counts(core.result().counts, target.family),
                "whole": _counts(whole.result().counts, target.family),
            }
        names = sorted({*prepared.files, f"{prepared.name}.json"})
        files = [f"{BOARD}/{name}" for name in [f"{prepared.name}.json", *names]]
        return counts, files

    reads = {
        "verilog": file_digest(flow.plan.out / VERILOG),
        "face": file_digest(flow.plan.out / AXI),
        "description": file_digest(flow.plan.out / DESCRIPTION),
        "target": plain(target),
        "clock": plain(built.clock) if built.clock else built.clock_hz,
        "code": code_digest(*_SHELL_CODE, alone=(__name__,)),
        "tools": [flow.tools[name] for name in ("yosys", "amaranth")],
        "boards": flow.tools.get("amaranth-boards"),
        "version": __version__,
    }
    found = flow.steps.run("synthesis", reads, make)
    built.core, built.whole = found["core"], found["whole"]


def _counts(counts: Counts, family: FpgaFamily) -> dict[str, Any]:
    return {
        "luts": counts.luts,
        "ffs": counts.flip_flops,
        "bram": family.memory.count(counts.cells),
        "carries": counts.carries,
        "dsps": counts.dsps,
        "srls": counts.srls,
        "lutram": counts.lutram,
    }


def route(flow: Flow, built: Built) -> None:
    plan, target, place = flow.plan, flow.plan.target, flow.plan.out / BOARD
    toolchain = "nextpnr"
    if "vivado" in target.family.toolchains:
        try:
            toolchain = xilinx_toolchain(plan)
        except ToolMissing:
            if plan.toolchain != "auto" or plan.until == "bitstream":
                raise
            built.missing = (
                "The timing is not known, since Vivado is not on PATH: run "
                f"{BOARD}/build_top_axi.sh on a machine that has Vivado"
                if plan.board is None
                else "There is no bitstream, since neither Vivado nor openXC7 is on PATH: install "
                f"openXC7, or run {BOARD}/build_shell.sh on a machine that has Vivado"
            )
            return
    elif not routes(plan):
        pins = "a part without a board has no pins to route to"
        why = pins if target.family.router else f"nothing routes {target.family.title} here"
        built.missing = f"The timing is not known, since {why}"
        return
    stages = [stage.name for stage in built.known_design.stages]
    bitstream = None if plan.board is None else bitstream_of(target)

    def make() -> tuple[Any, list[str]]:
        flow.say("bitstream", f"{toolchain} for {target.name}: a minute or more")
        routed = _run(flow, toolchain, place, built, stages)
        if routed.bitstream is not None and routed.met and bitstream:
            with routed.bitstream.open("rb") as source:
                write_atomically(
                    plan.out / bitstream, lambda file: shutil.copyfileobj(source, file)
                )
        value = {
            "fmax_mhz": routed.fmax_mhz,
            "met": routed.met,
            "worst": routed.worst,
            "tool": routed.tool,
            "utilisation": {name: list(pair) for name, pair in routed.utilisation.items()},
        }
        files = [f"{BOARD}/{routed.log.relative_to(place)}"]
        return value, [bitstream, *files] if routed.met and bitstream else files

    if bitstream:
        reads_files = sorted(
            path
            for path in place.iterdir()
            if path.suffix in (".json", ".v", ".il", *(f".{kind}" for kind in target.family.files))
            and path.name not in ("route.json", "cells.json")
        )
    else:
        reads_files = sorted(place.glob("top_axi.json"))
    # For openXC7 the files around the core are prepared once more.
    code = (*_ROUTE_CODE, *_SHELL_CODE) if toolchain == "openxc7" else _ROUTE_CODE
    reads = {
        "files": {path.name: file_digest(path) for path in reads_files},
        "target": plain(target),
        "clock": built.clock_hz,
        "toolchain": toolchain,
        "tool": flow.tools.get("nextpnr") or _toolchain_version(toolchain, target),
        "code": code_digest(*code, alone=(__name__,)),
    }
    built.routed = flow.steps.run("bitstream", reads, make)
    if bitstream and not built.routed["met"]:
        (plan.out / bitstream).unlink(missing_ok=True)


def _run(flow: Flow, toolchain: str, place: Path, built: Built, stages: list[str]) -> Routed:
    target = flow.plan.target
    if isinstance(target, Part):
        if toolchain == "vivado":
            return run_vivado(
                place, clock_hz=built.clock_hz, stages=stages, name="top_axi", bitstream=False
            )
        return place_out_of_context(place, target, clock_hz=built.clock_hz, stages=stages)
    if toolchain == "vivado":
        return run_vivado(place, clock_hz=built.clock_hz, stages=stages)
    if toolchain == "openxc7":
        prepared = prepare(flow, built)
        return run_openxc7(
            prepared, target, place / "openxc7", clock_hz=built.clock_hz, stages=stages
        )[0]
    return place_and_route(place, target, clock_hz=built.clock_hz, stages=stages)


def _toolchain_version(toolchain: str, target: Any) -> str:
    """Return what tells one installation from another: a version, or a digest of its files."""
    if toolchain == "vivado":
        return version_of(find_vivado())
    tools = require_openxc7(target)
    return value_digest(
        [version_of(tools.place), file_digest(tools.chip), str(tools.database.resolve())]
    )
