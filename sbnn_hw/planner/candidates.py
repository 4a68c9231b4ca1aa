"""Ways to build a network. A generator yields arrangements; adding one to the list is enough."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sbnn_hw.boards.fit import input_registers, need
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.cost.cost import Cost
from sbnn_hw.netlist import Network
from sbnn_hw.planner.values import UNROLLED, Arrangement, Candidate, StageWork, Wish

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.options import Options

__all__ = ["GENERATORS", "Case", "arrangements"]


@dataclass(frozen=True)
class Case:
    """What a plan is for."""

    network: Network
    target: Board | Part
    asked: "Options"
    wish: Wish


def unrolled(case: Case) -> Iterator[Arrangement]:
    """Yield all as wires, with an image per clock if that is possible, and with a pixel."""
    if case.wish.form not in ("", UNROLLED) or case.wish.loadable:
        return
    yield _wired(case, case.asked)
    windows = any(stage.operation.windowed for stage in case.network.stages)
    if case.asked.input == "auto" and not windows and len(case.network.input.shape) > 1:
        yield _wired(case, replace(case.asked, input="pixel"))


def _wired(case: Case, options: "Options") -> Arrangement:
    """Lay out all as wires; what is far too large is estimated, which is quick."""
    from sbnn_hw.rtl_gen.estimate import estimate
    from sbnn_hw.rtl_gen.lower import comes_by_pixels
    from sbnn_hw.rtl_gen.outline import outline

    network, room = case.network, case.target.capacity
    if room is not None and need(network, case.target).luts > 2 * room.luts:
        found = estimate(network, options.family)
        beats = network.input.size // network.input.channels
        beats = beats if comes_by_pixels(network, options) else 1
        works = _works(found.costs, beats)
        return Arrangement(options, (Candidate(UNROLLED, 0, works, beats),), beats, 0, beats, None)
    design = outline(network, options)
    works = _works({stage.name: stage.cost for stage in design.stages}, design.interval)
    return Arrangement(
        options,
        (Candidate(UNROLLED, 0, works, design.interval),),
        design.interval,
        design.latency,
        design.input.beats,
        input_registers(network, design),
    )


def _works(costs: dict[str, Cost], cycles: int) -> tuple[StageWork, ...]:
    return tuple(StageWork(name, cycles, cost) for name, cost in costs.items())


#: Each takes a case and yields arrangements, those before others that shall win a tie.
GENERATORS: list[Callable[[Case], Iterator[Arrangement]]] = [unrolled]


def arrangements(case: Case) -> list[Arrangement]:
    """Return all arrangements of a case, in order."""
    return [each for generate in GENERATORS for each in generate(case)]
