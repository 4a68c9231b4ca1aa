"""What shall be built, whether the tools for it are here, and the build under way."""

import importlib.util
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sbnn_hw.boards.clocks import ClockPlan, plan_clock
from sbnn_hw.boards.fit import Need
from sbnn_hw.boards.links import SPI, UART, Link
from sbnn_hw.boards.nextpnr import choose_nextpnr, routes_without_pins
from sbnn_hw.boards.openxc7 import find_openxc7, require_openxc7
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.boards.vivado import find_vivado
from sbnn_hw.data.input_format import FILES as INPUT_FORMAT
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import OwnData
from sbnn_hw.design import Design
from sbnn_hw.errors import ModelRejected, ToolMissing, UsageError
from sbnn_hw.families import any_of, fpga_families
from sbnn_hw.flow.steps import NOTES, Steps
from sbnn_hw.generate import require_amaranth
from sbnn_hw.hardware import AGREEMENT, AXI, DESCRIPTION, NETLIST, VERILOG, Folder
from sbnn_hw.models import require_torch
from sbnn_hw.netlist import Network
from sbnn_hw.planner import PLAN, HardwarePlan, Wish
from sbnn_hw.qonnx.read import require_onnx
from sbnn_hw.tools import version_of
from sbnn_hw.yosys import choose_yosys

__all__ = [
    "BOARD",
    "HOST",
    "LEFT",
    "TOGGLES",
    "TOOLCHAINS",
    "UNTIL",
    "Built",
    "Flow",
    "Plan",
    "bitstream_of",
    "default_folder",
    "left_by",
    "require_tools",
    "routes",
    "xilinx_toolchain",
]

#: The steps, in order; a build may end after each.
UNTIL = ("netlist", "rtl", "simulation", "synthesis", "bitstream")

#: What a build that estimates energy counted.
TOGGLES = "toggles.json"

#: Files of the board's project lie here, below the build's folder.
BOARD = "board"

#: The driver for its host, in C, lies here.
HOST = "host"

TOOLCHAINS = ("auto", *(name for family in fpga_families() for name in family.toolchains))

#: What each step leaves in the build's folder, next to its note.
LEFT: dict[str, tuple[str, ...]] = {
    "netlist": (NETLIST,),
    "rtl": (
        VERILOG,
        AXI,
        DESCRIPTION,
        "tests/",
        *INPUT_FORMAT,
        f"{HOST}/",
        f"{NOTES}/host.json",
        PLAN,
        f"{NOTES}/plan.json",
    ),
    "simulation": (AGREEMENT, TOGGLES, f"{NOTES}/toggles.json"),
    "synthesis": (f"{BOARD}/",),
    "bitstream": tuple(sorted({f"design.{family.bitstream}" for family in fpga_families()})),
}


def bitstream_of(target: Board | Part) -> str:
    """Return what a board is loaded with."""
    return f"design.{target.family.bitstream}"


def left_by(*steps: str) -> list[str]:
    """Return what steps leave in the build's folder, their notes too."""
    return [name for step in steps for name in (*LEFT[step], f"{NOTES}/{step}.json")]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What shall be built."""

    model: Path  # A checkpoint, a netlist or ONNX.
    # For what; a part without a board gets the network with AXI4-Stream, out of context.
    target: Board | Part
    out: Path  # The folder.
    # The last step; as far as the tools that are here go, if there is none.
    until: str | None = None
    clock_hz: int | None = None  # The clock; the board's own if there is none.
    # Tables between registers; as many as the clock allows if there is none.
    levels: int | None = None
    # What makes bitstreams for 7-series: ``vivado``, ``openxc7``, or ``auto``: whichever is here.
    toolchain: str = "auto"
    energy: bool = False  # Count toggles, and estimate energy from them.
    force: bool = False  # Go on with a design that is too large.
    # The data to simulate, or where they are; those that a checkpoint was trained on if there are
    # none.
    data: str | OwnData | None = None
    data_root: Path | None = None  # Where data sets are.
    # How data of one's own are read, where the model does not know it.
    data_options: DataOptions = field(default_factory=DataOptions)
    options: dict[str, Any] = field(default_factory=dict)  # More options of the hardware.
    pixels: str | None = None  # How pixels are fed to ONNX that does not tell itself.
    link: Link = UART  # The line between a board and its host.
    wish: Wish = field(default_factory=Wish)  # What the hardware's plan shall be like.
    hardware: Path | None = None  # A plan that was made before; the wish is in it.

    def __post_init__(self) -> None:
        if self.until is not None and self.until not in UNTIL:
            raise UsageError(f"Until must be one of {', '.join(UNTIL)}, not {self.until!r}")
        if self.energy and not self.reaches("simulation"):
            raise UsageError(
                f"Energy is estimated from a simulation, but the build ends with {self.until} "
                "(omit --energy, or use --until simulation)"
            )
        if self.toolchain not in TOOLCHAINS:
            raise UsageError(
                f"Toolchain must be one of {', '.join(TOOLCHAINS)}, not {self.toolchain!r}"
            )
        if self.toolchain not in ("auto", *self.target.family.toolchains):
            titles = [each.title for each in fpga_families() if self.toolchain in each.toolchains]
            raise UsageError(
                f"Toolchain {self.toolchain} is for {any_of(titles)} FPGAs, not for "
                f"{self.target.name}"
            )
        if self.toolchain == "openxc7" and self.board is None:
            raise UsageError(
                "Toolchain openxc7 builds only for boards, because a part without a board has no "
                "pins"
            )
        self._check_link()

    def _check_link(self) -> None:
        """Make sure that the board has pins for the line to its host."""
        board = self.board
        if board is None:
            if self.link is SPI:
                raise UsageError(
                    f"There is no SPI for {self.target.name} without a board (--board); its "
                    "network has AXI4-Stream"
                )
        elif self.link is SPI and board.spi is None:
            how = "name them in a pin file of your own ([spi])"
            if board.pins is not None:
                how = "add [spi] to its pin file"
            raise UsageError(f"No pins for SPI are known on {board.name}; {how}, or omit --link")
        elif self.link is UART and board.pins is not None and board.uart is None:
            raise UsageError(
                f"The pin file of {board.name} has no table [uart]; add it, or build with --link "
                "spi"
            )

    @property
    def board(self) -> Board | None:
        """The board, if there is one."""
        return self.target if isinstance(self.target, Board) else None

    def reaches(self, step: str) -> bool:
        """Whether the build goes as far as a step."""
        return self.until is None or UNTIL.index(self.until) >= UNTIL.index(step)


@dataclass(frozen=True)
class Flow:
    """One build under way: what all its steps need."""

    plan: Plan  # What shall be built.
    steps: Steps  # Does steps, and remembers them.
    tools: dict[str, str]  # Versions of the tools that are used.
    say: Callable[[str, str], None]  # Takes the name of a step, and a few words.

    @property
    def folder(self) -> Folder:
        """The design on disk."""
        return Folder(self.plan.out)


@dataclass
class Built:
    """What is known of a build so far, for the report."""

    network: Network
    design: Design | None = None
    clock: ClockPlan | None = None
    clock_hz: int = 0
    plan: HardwarePlan | None = None
    fit: Need | None = None
    simulated: dict[str, Any] | None = None
    toggles: dict[str, Any] | None = None
    core: dict[str, Any] | None = None
    whole: dict[str, Any] | None = None
    routed: dict[str, Any] | None = None
    missing: str | None = None

    @property
    def known_design(self) -> Design:
        """The design, where it is certain that there is one."""
        if self.design is None:
            raise ValueError("The design must be generated first")
        return self.design


def default_folder(model: Path, target: Board | Part) -> Path:
    """Return where a build goes if nobody says: a plain name, whatever the model's."""
    return Path("build") / re.sub(r"[^\w.-]+", "_", f"{model.stem}-{target.name}")


def require_tools(plan: Plan) -> dict[str, str]:
    """Make sure, before the first step starts, that all tools are here; return their versions."""
    if not plan.model.is_file():
        raise ModelRejected(f"No model at {plan.model} (train one with `sbnn-hw train`)")
    if plan.model.suffix.lower() == ".pt":
        require_torch()
    if plan.model.suffix.lower() == ".onnx":
        require_onnx()
    packages = ["numpy"]
    stated = {"python": platform.python_version()}
    if plan.model.suffix.lower() == ".pt":
        packages.append("torch")
    if plan.model.suffix.lower() == ".onnx":
        packages.append("onnx")
    if plan.reaches("rtl"):
        require_amaranth()
        _check_options(plan)
        packages.append("amaranth")
        stated["yosys"] = choose_yosys().version
        if plan.board is not None and plan.board.pins is None and plan.reaches("synthesis"):
            if importlib.util.find_spec("amaranth_boards") is None:
                raise ToolMissing(
                    "The pins of boards come from amaranth-boards (pip install 'sbnn-hw[flow]')"
                )
            packages.append("amaranth-boards")
    if plan.reaches("simulation"):
        from sbnn_hw.sim.verilator import require

        verilator, compiler = require()
        stated |= {"verilator": verilator.version, "compiler": compiler.version}
    if plan.reaches("bitstream") and routes(plan):
        stated["nextpnr"] = choose_nextpnr(plan.target.family).version
    if plan.until == "bitstream" and plan.board is None:
        raise UsageError(f"There is no bitstream for {plan.target.name} without a board (--board)")
    if "vivado" in plan.target.family.toolchains and (
        plan.until == "bitstream" or (plan.toolchain != "auto" and plan.reaches("bitstream"))
    ):
        xilinx_toolchain(plan)
    return stated | {name: version_of(name) for name in packages}


def _check_options(plan: Plan) -> None:
    """Refuse, before anything is written, what no hardware can be made with."""
    from sbnn_hw.rtl_gen.lower import Options

    levels = 1 if plan.levels is None else plan.levels
    Options(family=plan.target.family.name, levels_per_stage=levels, **plan.options)
    if isinstance(plan.target, Board):
        plan_clock(plan.target, plan.clock_hz, plan.link)


def routes(plan: Plan) -> bool:
    """Whether nextpnr has something to say: without a board, not for every family."""
    family = plan.target.family
    return routes_without_pins(family) or (plan.board is not None and family.router is not None)


def xilinx_toolchain(plan: Plan) -> str:
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
        f"A bitstream for {plan.target.name} needs Vivado or openXC7 on PATH, and neither was "
        f"found: install one, or build without --until bitstream and run the script that is named "
        f"then on a machine that has Vivado"
    )
