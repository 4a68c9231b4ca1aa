"""What plans are made of: a wish, candidates with their costs, and the plan itself."""

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sbnn_hw.boards.fit import Need
from sbnn_hw.boards.table import Board, Part, plain
from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine.folded import LANES
from sbnn_hw.errors import UsageError
from sbnn_hw.netlist import Network

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.options import Options

__all__ = [
    "ENDS",
    "FILL",
    "FORMS",
    "MEMORY_FILL",
    "SCHEMA",
    "UNROLLED",
    "Arrangement",
    "Candidate",
    "HardwarePlan",
    "StageWork",
    "Wish",
    "wired_stages",
]

#: The version of the plan's form.
SCHEMA = 1

#: Shares of a part, in percent, up to which a plan fills it: beyond them routing gets hard.
FILL, MEMORY_FILL = 85.0, 95.0

#: Every connection is wired.
UNROLLED = "unrolled"

#: Forms of hardware that can be asked for.
FORMS = (UNROLLED, *LANES)

#: Ends of the scale between small and fast.
ENDS = ("smallest", "fastest")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a plan shall be like; unrolled where that fits if nothing is asked.

    Parameters
    ----------
    fps : float, optional
        Images a second: the smallest plan that is as fast is chosen.
    end : str
        ``smallest`` or ``fastest``; empty if neither is asked.
    form, lanes : str, int
        A form and a number of lanes that engines must have; empty and 0 if any will do.
    loadable : bool
        Whether other networks shall be loaded into the engine later.
    fill : float
        Percent of a part's tables and registers up to which it is filled. Memory is filled up to
        95 %, or up to this if it is more.
    """

    fps: float | None = None
    end: str = ""
    form: str = ""
    lanes: int = 0
    loadable: bool = False
    fill: float = FILL

    def __post_init__(self) -> None:
        if self.fps is not None and not (0 < self.fps < math.inf):
            raise UsageError(f"Target must be more than 0 images per second, not {self.fps:g}")
        if self.end not in ("", *ENDS):
            raise UsageError(f"Target must be {' or '.join(ENDS)}, not {self.end!r}")
        if self.fps is not None and self.end:
            raise UsageError("A plan has one target; give --target-fps or --target, not both")
        if self.form not in ("", *FORMS):
            raise UsageError(f"Form must be one of {', '.join(FORMS)}, not {self.form!r}")
        if self.lanes < 0:
            raise UsageError(f"Lanes must be 1 or more, not {self.lanes}")
        if self.lanes and self.form in ("", UNROLLED):
            raise UsageError(f"Lanes are those of an engine; add --form {' or '.join(LANES)}")
        if self.loadable and self.form == UNROLLED:
            raise UsageError("Wires cannot be loaded; omit --loadable, or --form unrolled")
        if not 1 <= self.fill <= 100:
            raise UsageError(f"Fill must be from 1 to 100 percent, not {self.fill:g}")

    @property
    def memory_fill(self) -> float:
        """Percent of the memory up to which it is filled."""
        return max(MEMORY_FILL, self.fill)


def wired_stages(network: Network, options: "Options") -> list[str]:
    """Return the stages whose connections become wires, as the options have it."""
    names = [stage.name for stage in network.stages]
    if options.form == UNROLLED:
        return names
    return names[: names.index(options.folded)] if options.folded in names else []


@dataclass(frozen=True)
class StageWork:
    """What a stage has of its candidate."""

    name: str
    cycles: int  # For an image.
    # What it takes by itself. The stages of an engine share all but the bits of their programs.
    cost: Cost


@dataclass(frozen=True)
class Candidate:
    """A way to build some stages that follow each other."""

    form: str
    lanes: int  # 0 where all is wired.
    stages: tuple[StageWork, ...]
    cycles: int  # From an image to the next.
    cost: Cost  # Of all stages together.

    @property
    def title(self) -> str:
        """Its form and lanes in words."""
        if self.form == UNROLLED:
            return UNROLLED
        return f"{self.form}, {self.lanes} lane{'s' if self.lanes > 1 else ''}"


@dataclass(frozen=True)
class Arrangement:
    """Candidates that make up a whole network, and how its generator is told."""

    options: "Options"
    candidates: tuple[Candidate, ...]
    interval: int  # Cycles from an image to the next.
    latency: int  # Cycles from its first word to the result.
    beats: int  # Cycles in which an image comes in.
    # Bits of an input word that are read; None if costs are only estimated.
    word: int | None

    @property
    def cost(self) -> Cost:
        """What all candidates take together."""
        return sum((each.cost for each in self.candidates), Cost())

    @property
    def wired(self) -> bool:
        """Whether there is no engine in it."""
        return all(each.form == UNROLLED for each in self.candidates)

    @property
    def title(self) -> str:
        """Its candidates in words."""
        if self.wired:
            return UNROLLED if self.beats == 1 else f"{UNROLLED}, a pixel per clock"
        return " + ".join(each.title for each in self.candidates)


@dataclass(frozen=True)
class HardwarePlan:
    """How a network is built on a board or part."""

    network: str  # The digest of the netlist.
    target: Board | Part
    clock_hz: int
    wish: Wish
    # Options of the hardware as they were asked for, and as the plan has them.
    asked: "Options"
    arrangement: Arrangement
    need: Need  # What it takes, with what is around the network.
    why: str  # Why it was chosen, in a sentence without its stop.
    pace: str  # What sets the pace, and the cure.

    @property
    def options(self) -> "Options":
        """Options of the hardware."""
        return self.arrangement.options

    @property
    def images_per_second(self) -> float:
        """Images a second in the core."""
        return self.clock_hz / self.arrangement.interval

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the file has them."""
        made = self.arrangement
        return {
            "schema": SCHEMA,
            "network": self.network,
            "target": self.target.name,
            "family": self.target.family.name,
            "capacity": plain(self.target.capacity),
            "clock_hz": self.clock_hz,
            "wish": asdict(self.wish),
            "asked": asdict(self.asked),
            "options": asdict(self.options),
            "candidates": [
                {
                    "form": each.form,
                    "lanes": each.lanes,
                    "cycles": each.cycles,
                    "cost": asdict(each.cost),
                    "stages": [asdict(stage) for stage in each.stages],
                }
                for each in made.candidates
            ],
            "beats": made.beats,
            "interval": made.interval,
            "latency": made.latency,
            "images_per_second": self.images_per_second,
            "need": asdict(self.need),
            "why": self.why,
            "pace": self.pace,
        }

    def to_json(self) -> str:
        """Return the text of ``plan.json``."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
