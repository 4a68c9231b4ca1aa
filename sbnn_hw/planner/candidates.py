"""Ways to build a network. A generator yields arrangements; adding one to the list is enough."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sbnn_hw.boards.fit import input_registers, need, need_of
from sbnn_hw.boards.table import BOARDS, Board, Part
from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine import fold, foldable
from sbnn_hw.engine.folded import LANES, Folded
from sbnn_hw.netlist import Network
from sbnn_hw.planner.values import UNROLLED, Arrangement, Candidate, StageWork, Wish

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.options import Options

__all__ = ["GENERATORS", "Case", "arrangements", "boards_with_room"]


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
        costs = estimate(network, options.family).costs
        pixels = comes_by_pixels(network, options)
        beats = network.input.size // network.input.channels if pixels else 1
        return Arrangement(options, (_wires(costs, beats),), beats, 0, beats, None)
    design = outline(network, options)
    wires = _wires({stage.name: stage.cost for stage in design.stages}, design.interval)
    beats, word = design.input.beats, input_registers(network, design)
    return Arrangement(options, (wires,), design.interval, design.latency, beats, word)


def _wires(costs: Mapping[str, Cost], cycles: int) -> Candidate:
    works = tuple(StageWork(name, cycles, cost) for name, cost in costs.items())
    return Candidate(UNROLLED, 0, works, cycles, sum(costs.values(), Cost()))


def gathered(case: Case) -> Iterator[Arrangement]:
    """Yield the whole network in one engine, for every form and number of lanes."""
    network, wish = case.network, case.wish
    if wish.form == UNROLLED or foldable(network):
        return
    for form, known in LANES.items():
        if wish.form in ("", form):
            for lanes in (wish.lanes,) if wish.lanes else known:
                yield _engine(case, form, lanes)


@functools.lru_cache(maxsize=32)
def _folded(network: Network, form: str, lanes: int, loadable: bool) -> Folded:
    """Fold a network once for all boards: a program does not depend on them."""
    return fold(network, form=form, lanes=lanes, loadable=loadable)


def _program_bits(folded: Folded) -> dict[str, int]:
    """Return the bits of each layer's program, by the name of its stage."""
    shape = folded.shape
    return {
        layer.name: shape.word_bits
        * (int(lengths.sum()) + shape.header_words * (len(lengths) + known.counts))
        for layer, known, lengths in zip(
            folded.chain.layers, shape.layers, folded.program.lengths, strict=True
        )
    }


def _engine(case: Case, form: str, lanes: int) -> Arrangement:
    network, loadable = case.network, case.wish.loadable
    folded = _folded(network, form, lanes, loadable)
    options = replace(case.asked, form=form, lanes=lanes, loadable=loadable)
    cycles, bits = folded.cycles, _program_bits(folded)
    works = tuple(
        StageWork(stage.name, cycles.get(stage.name, 0), Cost(memory_bits=bits.get(stage.name, 0)))
        for stage in network.stages
    )
    cost = folded.cost(case.target.family)
    engine = Candidate(form, lanes, works, folded.interval, cost)
    read = network.input.bits - network.stages[0].operation.ignored_bits
    return Arrangement(options, (engine,), folded.interval, folded.latency, cycles[""], read)


#: Each takes a case and yields arrangements, those before others that shall win a tie.
GENERATORS: list[Callable[[Case], Iterator[Arrangement]]] = [unrolled, gathered]


def boards_with_room(case: Case) -> list[str]:
    """Return the other boards that have room for a plan; wires are estimated, which is quick."""
    found = []
    for board in BOARDS.values():
        if board.name == case.target.name:
            continue
        other = replace(case, target=board, asked=replace(case.asked, family=board.family.name))
        wires = case.wish.form in ("", UNROLLED) and not case.wish.loadable
        if (wires and need(case.network, board).fits(board)) or any(
            need_of(case.network, board, each.cost, each.word).fits(board)
            for generate in GENERATORS
            if generate is not unrolled
            for each in generate(other)
        ):
            found.append(board.name)
    return found


def arrangements(case: Case) -> list[Arrangement]:
    """Return all arrangements of a case, in order."""
    return [each for generate in GENERATORS for each in generate(case)]
