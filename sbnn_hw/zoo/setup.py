"""How all models are measured: with which tools, for which parts, on how many images."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sbnn_hw.boards.nextpnr import find_nextpnr
from sbnn_hw.boards.table import part_family
from sbnn_hw.data.options import DataOptions
from sbnn_hw.files import write_text
from sbnn_hw.flow.plan import Flow, Plan, require_tools
from sbnn_hw.flow.steps import Steps, code_digest, value_digest
from sbnn_hw.tools import version_of

__all__ = ["ECP5", "SYNTHESISED", "XC7", "Setup", "keep", "measured_by", "require_all"]

#: Arty A7-35T's FPGA.
XC7 = "xc7a35ticsg324-1L"
#: The ECP5 of the ULX3S, large enough for most, in the slowest grade.
ECP5 = "LFE5U-85F-6BG381C"

#: Dense networks up to so many connections are synthesised; a quick run leaves more to the table.
SYNTHESISED, SYNTHESISED_QUICK = 200_000, 20_000

#: Images of a quick run, and those whose toggles are counted.
QUICK, TOGGLED, TOGGLED_QUICK = 1_000, 1_000, 100


@dataclass(frozen=True)
class Setup:
    """How all models are measured."""

    work: Path  # Where steps leave their files, a folder for each model.
    tools: dict[str, str]  # Versions of the tools.
    say: Callable[[str, str, str], None]  # Takes the name of a model, of a step, and a few words.
    data_root: Path | None = None  # Where data sets are.
    # Fewer images, no place and route, and dense networks from the table where they are large.
    quick: bool = False
    data: str | None = None  # What is measured on, instead of what each model was trained on.
    data_options: DataOptions = field(default_factory=DataOptions)  # How it is read.

    @property
    def dense_limit(self) -> int:
        """Connections up to which a dense network is synthesised."""
        return SYNTHESISED_QUICK if self.quick else SYNTHESISED

    @property
    def images(self) -> int | None:
        """Images that are measured on, the first of their data set; None means all."""
        return QUICK if self.quick else None

    @property
    def toggled(self) -> int:
        """Images whose toggles are counted."""
        return TOGGLED_QUICK if self.quick else TOGGLED

    def flow(self, path: Path, data: str | None = None) -> Flow:
        """Return what the steps of a build need, for one model."""
        folder = self.work / path.stem
        plan = Plan(
            model=path,
            target=part_family(XC7),
            out=folder,
            data=data,
            data_root=self.data_root,
            data_options=self.data_options,
        )

        def progress(step: str, text: str) -> None:
            self.say(path.stem, step, text)

        return Flow(plan, Steps(folder, progress), self.tools, progress)


def require_all(path: Path, *, quick: bool) -> dict[str, str]:
    """Make sure, before the first step, that all tools are here; return their versions."""
    plan = Plan(model=path, target=part_family(XC7), out=Path(), until="simulation")
    tools = require_tools(plan)
    if not quick:
        tools["nextpnr"] = version_of(find_nextpnr(part_family(ECP5).family).place)
    return tools


def measured_by(tools: Mapping[str, str]) -> str:
    """Return a digest of the code and tools that make hardware, simulate and count it."""
    code = (
        *("rtl_gen", "rtl_gen.stages", "sim", "netlist", "fold", "yosys", "boards.nextpnr"),
        *("bops", "zoo.densify"),
    )
    own = code_digest(*(f"sbnn_hw.{name}" for name in code))
    return value_digest([own, dict(tools)])[:16]


def keep(
    steps: Steps, name: str, reads: Mapping[str, object], find: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Do a step whose result is a file of plain values, unless it is done."""

    def make() -> tuple[Any, list[str]]:
        value = find()
        file = f"{name}.json"
        write_text(steps.folder / file, json.dumps(value, indent=1) + "\n")
        return value, [file]

    found: dict[str, Any] = steps.run(name, reads, make)
    return found
