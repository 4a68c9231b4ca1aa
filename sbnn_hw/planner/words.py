"""What is said of plans: the bottleneck and its cure, and why nothing fits."""

from collections.abc import Sequence

from sbnn_hw.boards.fit import Need, refusal
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.planner.candidates import Case, boards_with_room
from sbnn_hw.planner.values import Arrangement, Wish

__all__ = ["describe_pace", "missing_resource", "refuse", "unit_of"]


def unit_of(target: Board | Part, number: int) -> str:
    """Return what the resource is called whose share comes at a place of ``Need.shares``."""
    return (target.family.packing.unit, "flip-flops", "memory blocks")[number]


def missing_resource(need: Need, target: Board | Part, wish: Wish | None = None) -> str:
    """Return the resource that runs out first, as "7 of 5 LUTs"; of what may be filled."""
    room = target.capacity
    assert room is not None
    fill, memory = (wish.fill, wish.memory_fill) if wish else (100, 100)
    rows = [
        (need.luts, room.luts, fill),
        (need.registers, room.flip_flops, fill),
        (need.brams, room.brams, memory),
    ]
    number = max(range(3), key=lambda n: rows[n][0] / (rows[n][1] * rows[n][2] or 1e-9))
    used, of, limit = rows[number]
    # What fits the part, but not what may be filled of it, would read oddly without the limit.
    kept = f", of which {limit:g}% may be filled" if used <= of else ""
    return f"{used:,} of {of:,} {unit_of(target, number)}{kept}"


def describe_pace(
    chosen: Arrangement, offers: Sequence[Arrangement], fitting: Sequence[Arrangement]
) -> str:
    """Return what sets the pace of an arrangement, and what would be faster."""
    if chosen.interval == 1:
        return "an image in every cycle"
    if chosen.wired or chosen.beats >= max(each.cycles for each in chosen.candidates):
        held = f"the input sets the pace: {chosen.interval:,} cycles"
    else:
        engine = max(chosen.candidates, key=lambda each: each.cycles)
        slowest = max(engine.stages, key=lambda stage: stage.cycles)
        held = f"{slowest.name} sets the pace: {slowest.cycles:,} of {engine.cycles:,} cycles"
    faster = [each for each in offers if each.interval < chosen.interval]
    usable = [each for each in faster if each in fitting]
    if usable:
        # The next step: half the cycles, or what there is.
        step = max(usable, key=lambda each: each.interval)
        return f"{held}; {_short(step)} {_gives(step)} {step.interval:,}"
    if faster:
        step = max(faster, key=lambda each: each.interval)
        return f"{held}; {_short(step)} would give {step.interval:,}, but {_does(step)} not fit"
    return held


def _engine_of(made: Arrangement) -> tuple[str, int]:
    engine = max(made.candidates, key=lambda each: each.lanes)
    return engine.form, engine.lanes


def _short(made: Arrangement) -> str:
    if made.wired:
        return "wires" if made.beats == 1 else "wires with a pixel per clock"
    form, lanes = _engine_of(made)
    words = f"{lanes} lane{'s' if lanes > 1 else ''}"
    return words if form == "gaps" else f"{words} ({form})"


def _gives(made: Arrangement) -> str:
    return "gives" if not made.wired and _engine_of(made)[1] == 1 else "give"


def _does(made: Arrangement) -> str:
    return "does" if not made.wired and _engine_of(made)[1] == 1 else "do"


def refuse(case: Case, offers: Sequence[tuple[Arrangement, Need]]) -> str:
    """Return the sentence that no plan fits, with the numbers that do not."""
    network, target = case.network, case.target
    wired = [need for made, need in offers if made.wired]
    room = target.capacity
    assert room is not None
    folded = [(made, need) for made, need in offers if not made.wired]
    if not folded:
        exact = offers[0][0].word is not None
        return refusal(network, target, wired[0], exact=exact)
    made, nearest = min(folded, key=lambda pair: max(pair[1].shares(room)))
    words = f"as {made.title} the network needs {missing_resource(nearest, target)}"
    if wired:
        words += f", and as wires {missing_resource(wired[0], target)}"
    boards = boards_with_room(case)
    fits = f"fits {', '.join(boards)}" if boards else "fits no board of `sbnn-hw boards`"
    return (
        f"No plan fits {target.name}: {words}; it {fits}; train it sparser or smaller, or add "
        f"--force to continue"
    )
