"""From a model to a board: fold, generate, simulate, synthesise, bitstream, report.

Every step leaves files in the build's folder, is skipped while what it reads is unchanged, and can
be looked at by itself.
"""

import hashlib
import json
import platform
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbnn_hw import datasets, netlist
from sbnn_hw.boards.clocks import ClockPlan, levels_for, plan_clock
from sbnn_hw.boards.nextpnr import (
    bram_blocks,
    find_nextpnr,
    place_and_route,
    place_out_of_context,
    synthesise_board,
)
from sbnn_hw.boards.openxc7 import (
    find_openxc7,
    require_openxc7,
    run_openxc7,
    wants_split_pairs,
)
from sbnn_hw.boards.results import Prepared, Routed
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.boards.vivado import check_project, find_vivado, part_project, run_vivado
from sbnn_hw.datasets import Images
from sbnn_hw.errors import (
    DataMissing,
    Disagreement,
    ModelRejected,
    TimingMissed,
    ToolMissing,
    UsageError,
)
from sbnn_hw.files import check_writable, exclusive
from sbnn_hw.fit import Need, check_fit, need
from sbnn_hw.hardware import (
    AGREEMENT,
    AXI,
    DESCRIPTION,
    NETLIST,
    SUITE,
    VERILOG,
    Folder,
    generate_design,
    random_images,
    require_amaranth,
)
from sbnn_hw.models import open_network, require_torch
from sbnn_hw.netlist import Network
from sbnn_hw.steps import Steps, code_digest, file_digest
from sbnn_hw.tools import version_of
from sbnn_hw.yosys import Counts, find_yosys, synthesise

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = ["UNTIL", "Built", "Plan", "build", "default_folder"]

#: The steps, in order; a build may end after each.
UNTIL = ("netlist", "rtl", "simulation", "synthesis", "bitstream")

#: The clock, where there is no board and none was named.
_CLOCK_HZ = 100_000_000

#: Random images, where there are no others.
_RANDOM = 1000

#: Files of the board's project lie here, below the build's folder.
BOARD = "board"

TOOLCHAINS = ("auto", "vivado", "openxc7")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What shall be built.

    Parameters
    ----------
    model : Path
        A checkpoint or a netlist.
    target : Board or Part
        For what; a part without a board gets the network with AXI4-Stream, out of context.
    out : Path
        The folder.
    until : str, optional
        The last step; as far as the tools that are here go, if there is none.
    clock_hz : int, optional
        The clock; the board's own if there is none.
    levels : int, optional
        Tables between registers; as many as the clock allows if there is none.
    toolchain : str
        What makes bitstreams for 7-series: ``vivado``, ``openxc7``, or ``auto``: whichever is here.
    force : bool
        Go on with a design that is too large.
    data : str, optional
        The data set to simulate; the one that a checkpoint was trained on if there is none.
    data_root : Path, optional
        Where data sets are.
    options : dict
        More options of the hardware.
    """

    model: Path
    target: Board | Part
    out: Path
    until: str | None = None
    clock_hz: int | None = None
    levels: int | None = None
    toolchain: str = "auto"
    force: bool = False
    data: str | None = None
    data_root: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.until is not None and self.until not in UNTIL:
            raise UsageError(f"Until must be one of {', '.join(UNTIL)}, not {self.until!r}")
        if self.toolchain not in TOOLCHAINS:
            raise UsageError(
                f"Toolchain must be one of {', '.join(TOOLCHAINS)}, not {self.toolchain!r}"
            )
        if self.toolchain != "auto" and self.target.family != "xc7":
            raise UsageError(
                f"Toolchain {self.toolchain} is for 7-series FPGAs, and {self.target.name} has none"
            )
        if self.toolchain == "openxc7" and self.board is None:
            raise UsageError("Toolchain openxc7 builds for boards; a part without one has no pins")

    @property
    def board(self) -> Board | None:
        """The board, if there is one."""
        return self.target if isinstance(self.target, Board) else None

    def reaches(self, step: str) -> bool:
        """Whether the build goes as far as a step."""
        return self.until is None or UNTIL.index(self.until) >= UNTIL.index(step)


@dataclass
class Built:
    """What is known of a build so far, for the report."""

    network: Network
    description: dict[str, Any] = field(default_factory=dict)
    clock: ClockPlan | None = None
    clock_hz: int = 0
    fit: Need | None = None
    simulated: dict[str, Any] | None = None
    core: dict[str, Any] | None = None
    whole: dict[str, Any] | None = None
    routed: dict[str, Any] | None = None
    missing: str | None = None


def default_folder(model: Path, target: Board | Part) -> Path:
    """Return where a build goes if nobody says: a plain name, whatever the model's."""
    return Path("build") / re.sub(r"[^\w.-]+", "_", f"{model.stem}-{target.name}")


def build(plan: Plan, progress: Callable[[str, str], None] | None = None) -> dict[str, Any]:
    """Build, and return the report.

    Parameters
    ----------
    plan : Plan
        What shall be built.
    progress : callable, optional
        Called with the name of a step and a few words, whenever there is something to say.
    """
    say = progress or (lambda step, text: None)
    tools = _require_tools(plan)
    check_writable(plan.out / "report.json")
    with exclusive(plan.out / "build"):
        steps = Steps(plan.out, say)
        flow = _Flow(plan, steps, tools, say)
        return flow.run()


def _require_tools(plan: Plan) -> dict[str, str]:
    """Make sure, before the first step starts, that all tools are here; return their versions."""
    if plan.model.suffix == ".pt":
        require_torch()
    packages = ["numpy"]
    programs = {}
    stated = {"python": platform.python_version()}
    if plan.model.suffix == ".pt":
        packages.append("torch")
    if plan.reaches("rtl"):
        require_amaranth()
        packages.append("amaranth")
        programs["yosys"] = find_yosys()
        if plan.board is not None and plan.reaches("synthesis"):
            packages.append("amaranth-boards")
    if plan.reaches("simulation"):
        from sbnn_hw.sim.verilator import require

        verilator, compiler = require()
        stated |= {"verilator": verilator.version, "compiler": compiler.version}
    if plan.reaches("bitstream") and plan.target.family != "xc7" and _routes(plan):
        programs["nextpnr"] = find_nextpnr(plan.target.family).place
    if plan.until == "bitstream":
        if plan.target.family == "xc7":
            _xilinx_toolchain(plan)
        elif not _routes(plan):
            raise UsageError(
                f"There is no bitstream for {plan.target.name} without a board (--board)"
            )
    stated |= {name: version_of(name) for name in packages}
    return stated | {name: version_of(path) for name, path in programs.items()}


def _routes(plan: Plan) -> bool:
    """Whether nextpnr has something to say: without a board, for ECP5 only."""
    return plan.board is not None or plan.target.family == "ecp5"


def _xilinx_toolchain(plan: Plan) -> str:
    """Return what makes a bitstream for a 7-series FPGA here, or say how to get it."""
    if plan.toolchain == "vivado":
        find_vivado()
        return "vivado"
    board = plan.board
    if plan.toolchain == "openxc7":
        assert board is not None
        require_openxc7(board)
        return "openxc7"
    try:
        find_vivado()
        return "vivado"
    except ToolMissing:
        if board is not None and find_openxc7(board) is not None:
            return "openxc7"
    raise ToolMissing(
        f"No bitstream was made for {plan.target.name}, since neither Vivado nor openXC7 is on "
        f"PATH: run {plan.out / BOARD}/build_*.sh where Vivado is, or install openXC7"
    )


class _Flow:
    """One build under way."""

    def __init__(
        self, plan: Plan, steps: Steps, tools: dict[str, str], say: Callable[[str, str], None]
    ) -> None:
        self.plan, self.steps, self.tools, self.say = plan, steps, tools, say
        self.folder = Folder(plan.out)

    def run(self) -> dict[str, Any]:
        plan = self.plan
        network, trained_on = self._fold()
        images, labelled = self._images(network, trained_on)
        built = Built(network)
        problem: Exception | None = None
        if plan.reaches("rtl"):
            self._plan_clock(built)
            if plan.reaches("synthesis"):
                # At once: a network that is far too large need not even be generated.
                built.fit = check_fit(network, plan.target, force=plan.force)
            self._generate(built, self._options(built), images)
        try:
            if plan.reaches("simulation"):
                self._simulate(built, images, labelled)
            if plan.reaches("synthesis"):
                built.fit = check_fit(
                    network, plan.target, built.description, force=plan.force
                )
                self._synthesise(built)
            if plan.reaches("bitstream"):
                self._route(built)
        except Disagreement as error:
            problem = error
            verdict = json.loads((plan.out / AGREEMENT).read_text(encoding="utf-8"))
            built.simulated = {"verdict": verdict, "confusion": None}
        report = self._report(built)
        if problem is not None:
            raise problem
        if built.routed is not None and not built.routed["met"]:
            raise TimingMissed(
                f"The design reaches {built.routed['fmax_mhz']:.1f} MHz on {plan.target.name}, not "
                f"{built.clock_hz / 1e6:g}: its slowest path is in {built.routed['worst']} (try "
                f"--levels {max(1, built.description['options']['levels_per_stage'] - 1)}, or a "
                "lower --clock)"
            )
        return report

    # Steps

    def _fold(self) -> tuple[Network, str | None]:
        model = self.plan.model
        if not model.is_file():
            raise ModelRejected(f"No model at {model} (train one with `sbnn-hw train`)")

        def make() -> tuple[Any, list[str]]:
            network = open_network(model)
            netlist.save(network, self.plan.out / NETLIST)
            return {"data": _trained_on(model)}, [NETLIST]

        packages = ["sbnn_hw", "sbnn_hw.netlist"]
        if model.suffix == ".pt":
            packages.append("sbnn_hw.train")
        reads = {
            "model": file_digest(model),
            "kind": model.suffix,
            "code": code_digest(*packages),
            "torch": self.tools.get("torch"),
        }
        found = self.steps.run("netlist", reads, make)
        return netlist.load(self.plan.out / NETLIST), found["data"]

    def _images(self, network: Network, trained_on: str | None) -> tuple[Images, str | None]:
        """Return the images to simulate, and the data set they are of, if they have labels."""
        name = self.plan.data or trained_on
        if name is not None:
            dataset = datasets.find(name)
            fits = dataset.shape == tuple(network.input.shape)
            if self.plan.data and not (fits and dataset.classes == network.classes):
                raise ModelRejected(
                    f"{self.plan.model} takes images of {'×'.join(map(str, network.input.shape))} "
                    f"in {network.classes} classes, but {dataset.name} has "
                    f"{'×'.join(map(str, dataset.shape))} in {dataset.classes}"
                )
            try:
                if fits:
                    return dataset.load("test", self.plan.data_root), name
            except (DataMissing, ToolMissing) as error:
                if self.plan.data:
                    raise
                self.say("netlist", f"random images, since {error}")
        pixels = random_images(network, _RANDOM)
        return Images(pixels, np.zeros(len(pixels), np.uint8)), None

    def _plan_clock(self, built: Built) -> None:
        target = self.plan.target
        if isinstance(target, Board):
            built.clock = plan_clock(target, self.plan.clock_hz)
            built.clock_hz = built.clock.hz
        else:
            built.clock_hz = self.plan.clock_hz or _CLOCK_HZ

    def _options(self, built: Built) -> "Options":
        from sbnn_hw.rtl_gen.lower import Options

        target = self.plan.target
        split = self.plan.toolchain == "openxc7" or (
            self.plan.toolchain == "auto"
            and target.family == "xc7"
            and self.plan.reaches("bitstream")
            and self._has_only_openxc7()
        )
        levels = self.plan.levels
        if levels is None:
            levels = levels_for(target.speed_class, built.clock_hz)
        options = Options(
            family=target.family,
            levels_per_stage=levels,
            split_pairs=split and wants_split_pairs("openxc7"),
            **self.plan.options,
        )
        return self._smaller(built, options) if options.input == "auto" else options

    def _smaller(self, built: Built, options: "Options") -> "Options":
        """Take pixels one by one where whole images would not fit: the line brings no more."""
        from sbnn_hw.rtl_gen.design import outline

        network, target = built.network, self.plan.target
        room = target.capacity
        if not self.plan.reaches("synthesis") or built.fit is None or room is None:
            return options
        # Registers are not in the estimate: there may be no room even where tables are few.
        if built.fit.luts < room.luts / 2 or len(network.input.shape) == 1:
            return options
        if need(network, target, outline(network, options)).fits(target):
            return options
        pixels = replace(options, input="pixel")
        if not need(network, target, outline(network, pixels)).fits(target):
            return options
        self.say("rtl", f"pixels one by one: whole images do not fit {target.name}")
        return pixels

    def _has_only_openxc7(self) -> bool:
        try:
            return _xilinx_toolchain(self.plan) == "openxc7"
        except ToolMissing:
            return False

    def _generate(self, built: Built, options: "Options", images: Images) -> None:
        network = built.network

        def make() -> tuple[Any, list[str]]:
            generate_design(network, self.plan.out, options, images.pixels)
            tests = sorted(path.name for path in (self.plan.out / "tests").iterdir())
            suite = [f"tests/{name}" for name in tests if (self.plan.out / "tests" / name).is_file()]
            return {}, [VERILOG, DESCRIPTION, AXI, NETLIST, *suite]

        reads = {
            "network": network.digest,
            "options": asdict(options),
            "vectors": _array_digest(images.pixels[:SUITE]),
            "code": code_digest("sbnn_hw.rtl_gen", "sbnn_hw.netlist", "sbnn_hw.sim"),
            "tools": [self.tools["amaranth"], self.tools["yosys"]],
        }
        self.steps.run("rtl", reads, make)
        built.description = self.folder.load()[2]

    def _simulate(self, built: Built, images: Images, labelled: str | None) -> None:
        from sbnn_hw.sim.agreement import check_agreement

        network, verilog, description = self.folder.load()
        classes = network.classes

        def make() -> tuple[Any, list[str]]:
            # A verdict of another run must not outlive one that breaks off.
            self.folder.remove(AGREEMENT)
            runs = [
                check_agreement(
                    network, verilog, description, images.pixels, stalls=stalls,
                    progress=lambda text: self.say("simulation", text),
                )
                for stalls in (False, True)
            ]
            steady, stalled = runs
            counts = np.zeros((classes, classes), np.int64)
            if labelled:
                answered = steady.classes[: len(images)]
                np.add.at(counts, (images.labels[: len(answered)], answered), 1)
            verdict = self.folder.record(
                steady, network, description, verilog, labelled or "random",
                stalled={
                    "vectors": stalled.vectors,
                    "mismatches": stalled.mismatches,
                    "violations": stalled.violations,
                    "cycles": stalled.cycles,
                },
            )
            for run in runs:
                self.folder.insist(run)
            confusion = counts.tolist() if labelled else None
            return {"verdict": verdict, "confusion": confusion}, [AGREEMENT]

        reads = {
            "verilog": file_digest(self.plan.out / VERILOG),
            "description": file_digest(self.plan.out / DESCRIPTION),
            "network": network.digest,
            "pixels": _array_digest(images.pixels),
            "labels": _array_digest(images.labels) if labelled else None,
            "data": labelled,
            "code": code_digest("sbnn_hw.sim", "sbnn_hw.netlist", "sbnn_hw"),
            "tools": [self.tools["verilator"], self.tools["compiler"]],
        }
        built.simulated = self.steps.run("simulation", reads, make)

    def _prepare(self, built: Built) -> Prepared:
        """Return the files around the core: a board's shell and pins, or the AXI4-Stream face."""
        target = self.plan.target
        verilog = (self.plan.out / VERILOG).read_text(encoding="utf-8")
        if isinstance(target, Part):
            face = (self.plan.out / AXI).read_text(encoding="utf-8")
            sources = {"top.v": verilog, "top_axi.v": face}
            if target.family != "xc7":
                return Prepared("top_axi", sources)
            return part_project(target, built.clock_hz, sources)
        from sbnn_hw.boards.platform import prepare_board
        from sbnn_hw.boards.shell import Shell

        def shell(divisor: int, leds: int) -> Any:
            return Shell(built.description, divisor=divisor, clock_hz=built.clock_hz, leds=leds)

        prepared: Prepared = prepare_board(target, shell, built.clock, {"top.v": verilog})
        return prepared

    def _synthesise(self, built: Built) -> None:
        target, place = self.plan.target, self.plan.out / BOARD
        verilog = (self.plan.out / VERILOG).read_text(encoding="utf-8")

        def make() -> tuple[Any, list[str]]:
            self.say("synthesis", f"preparing {target.name}")
            prepared = self._prepare(built)
            # What an earlier build left must not be taken for a part of this one.
            shutil.rmtree(place, ignore_errors=True)
            prepared.write(place)
            if target.family == "xc7" and (wrong := check_project(place)):
                raise AssertionError(f"The Vivado project is not consistent: {wrong[0]}")
            self.say("synthesis", "Yosys: the network by itself, and the whole design")
            with ThreadPoolExecutor(2) as pool:
                core = pool.submit(synthesise, verilog, target.family)
                whole = pool.submit(
                    synthesise_board,
                    prepared.files, target.family, place,
                    top=prepared.name, pins=self.plan.board is not None,
                )
                counts = {
                    "core": _counts(core.result().counts, target.family),
                    "whole": _counts(whole.result().counts, target.family),
                }
            names = sorted({*prepared.files, f"{prepared.name}.json"})
            return counts, [f"{BOARD}/{name}" for name in [f"{prepared.name}.json", *names]]

        reads = {
            "verilog": file_digest(self.plan.out / VERILOG),
            "face": file_digest(self.plan.out / AXI),
            "description": file_digest(self.plan.out / DESCRIPTION),
            "target": _plain(target),
            "clock": _plain(built.clock) if built.clock else built.clock_hz,
            "code": code_digest("sbnn_hw.boards", "sbnn_hw.rtl_gen", "sbnn_hw"),
            "tools": [self.tools["yosys"], self.tools.get("amaranth-boards")],
        }
        found = self.steps.run("synthesis", reads, make)
        built.core, built.whole = found["core"], found["whole"]

    def _route(self, built: Built) -> None:
        plan, target, place = self.plan, self.plan.target, self.plan.out / BOARD
        toolchain = "nextpnr"
        if target.family == "xc7":
            try:
                toolchain = _xilinx_toolchain(plan)
            except ToolMissing as error:
                if plan.toolchain != "auto" or plan.until == "bitstream":
                    raise
                built.missing = str(error)
                return
        elif not _routes(plan):
            built.missing = f"No timing was found for {target.name}: it has no board, and so no pins"
            return
        stages = [stage["name"] for stage in built.description["stages"]]
        bitstream = None if plan.board is None else (
            "design.bin" if target.family == "ice40" else "design.bit"
        )

        def make() -> tuple[Any, list[str]]:
            self.say("bitstream", f"{toolchain} for {target.name}: a minute or more")
            routed = self._run(toolchain, place, built, stages)
            if routed.bitstream is not None and routed.met and bitstream:
                final = plan.out / bitstream
                partial = final.with_name(f".{bitstream}.part")
                shutil.copyfile(routed.bitstream, partial)
                partial.replace(final)
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
                path for path in place.iterdir() if path.suffix in (".json", ".lpf", ".pcf", ".xdc",
                                                                    ".tcl", ".v", ".il")
                and path.name not in ("route.json", "cells.json")
            )
        else:
            reads_files = sorted(place.glob("top_axi.json"))
        reads = {
            "files": {path.name: file_digest(path) for path in reads_files},
            "target": _plain(target),
            "clock": built.clock_hz,
            "toolchain": toolchain,
            "tool": self.tools.get("nextpnr") or _toolchain_version(toolchain),
            "code": code_digest("sbnn_hw.boards"),
        }
        built.routed = self.steps.run("bitstream", reads, make)
        if bitstream and not built.routed["met"]:
            (plan.out / bitstream).unlink(missing_ok=True)

    def _run(self, toolchain: str, place: Path, built: Built, stages: list[str]) -> Routed:
        target = self.plan.target
        if isinstance(target, Part):
            if toolchain == "vivado":
                return run_vivado(
                    place, clock_hz=built.clock_hz, stages=stages, name="top_axi", bitstream=False
                )
            return place_out_of_context(place, target, clock_hz=built.clock_hz, stages=stages)
        if toolchain == "vivado":
            return run_vivado(place, clock_hz=built.clock_hz, stages=stages)
        if toolchain == "openxc7":
            prepared = self._prepare(built)
            return run_openxc7(
                prepared, target, place / "openxc7", clock_hz=built.clock_hz, stages=stages
            )[0]
        return place_and_route(place, target, clock_hz=built.clock_hz, stages=stages)

    def _report(self, built: Built) -> dict[str, Any]:
        from sbnn_hw.report.collect import make_report

        return make_report(self.plan, built, self.steps, self.tools)


def _trained_on(model: Path) -> str | None:
    """Return the data set that a checkpoint says it was trained on, if it is a known one."""
    if model.suffix != ".pt":
        return None
    from sbnn_hw.train.checkpoint import load_checkpoint

    name = load_checkpoint(model).training.get("data")
    return name if isinstance(name, str) and name in datasets.DATASETS else None


def _toolchain_version(toolchain: str) -> str:
    if toolchain == "vivado":
        return version_of(find_vivado())
    return toolchain


def _array_digest(array: Any) -> str:
    return hashlib.sha256(repr(array.shape).encode() + np.ascontiguousarray(array).data).hexdigest()


def _plain(value: Any) -> Any:
    """Return a dataclass as values that JSON knows; fractions become text."""
    def simple(each: Any) -> Any:
        if isinstance(each, dict):
            return {str(key): simple(inner) for key, inner in each.items()}
        if isinstance(each, list | tuple):
            return [simple(inner) for inner in each]
        return each if isinstance(each, int | float | str | bool | None) else str(each)

    return simple(asdict(value))


def _counts(counts: Counts, family: str) -> dict[str, Any]:
    return {
        "luts": counts.luts,
        "ffs": counts.flip_flops,
        "bram": bram_blocks(counts, family),
        "carries": counts.carries,
        "dsps": counts.dsps,
        "srls": counts.srls,
        "lutram": counts.lutram,
    }
