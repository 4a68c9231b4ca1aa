"""Which engine works when, and what the plan takes of the memory."""

from collections.abc import Iterator, Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, Markup, number, share, tag
from sbnn_hw.report.schema import PlannedPart, PlanSummary, Report

__all__ = ["plan"]

#: Looks that stages which follow each other have in turn.
_LOOKS = ("core", "turn")

#: The share of a picture's width from which the name of a stage is written into it.
_NAMED = 0.12


def plan(report: Report) -> pieces.Section | None:
    """Return how the network was planned; nothing if it was not planned."""
    found = report.plan
    if found is None:
        return None
    folded = any(part.lanes for part in found.parts)
    return pieces.section(
        "plan",
        "Plan",
        f"{found.title[:1].upper()}{found.title[1:]}: {found.why}.",
        _times(found) if folded else None,
        _memory(report, found) if folded else None,
        pieces.facts([("Pace", found.pace)]),
        _table(found),
    )


def _times(found: PlanSummary) -> tuple[Child, ...]:
    """Return a picture of an interval: what comes in, and which stage is computed when."""
    rows = [
        pieces.bar_row(
            ("Input", tag("small", "the next image")),
            charts.bar([Bar(0, min(1, found.beats / found.interval), "shell")]),
            f"{number(found.beats)} cycles, {share(found.beats / found.interval, 1)}",
        )
    ]
    spoken = [f"the next image comes in during {number(found.beats)} cycles"]
    for part in found.parts:
        busy = min(1.0, sum(end - start for start, end, _ in _turns(part, found.interval)))
        if part.lanes:
            name = (part.form, tag("small", pieces.plural(part.lanes, "lane")))
            value = f"{number(part.cycles)} cycles, {share(busy, 1)}"
        else:
            name, value = ("Wires", tag("small", _names(part))), "always"
        picture = _lane(part, found.interval) if part.lanes else charts.bar([Bar(0, 1, "dense")])
        rows.append(pieces.bar_row(name, picture, value))
        said = (f"{stage.name} {number(stage.cycles)}" for stage in part.stages if stage.cycles)
        spoken.append(f"{part.form}: {', '.join(said)} cycles")
    ticks = [(place / 4, number(round(found.interval * place / 4))) for place in range(5)]
    rows.append(pieces.bar_row("", charts.scale(ticks), "cycles"))
    return (
        tag("h3", "Which engine works when"),
        pieces.legend(
            ("core", "an engine, stage after stage"), ("shell", "the next image comes in")
        ),
        pieces.figure(
            f"An interval of {number(found.interval)} cycles: {'; '.join(spoken)}.",
            tag("div", rows, class_="rows"),
        ),
    )


def _turns(part: PlannedPart, interval: int) -> Iterator[tuple[float, float, str]]:
    """Yield when each stage is computed, in shares of the interval, and its name."""
    at = 0
    for stage in part.stages:
        if stage.cycles:
            yield at / interval, (at + stage.cycles) / interval, stage.name
            at += stage.cycles


def _lane(part: PlannedPart, interval: int) -> Markup:
    """Return the stages of an engine in turn, those with names that have room for them."""
    turns = list(_turns(part, interval))
    bars = [Bar(start, end, _LOOKS[n % 2]) for n, (start, end, _) in enumerate(turns)]
    names = [
        charts.label((start + end) / 2, 12, "tick middle", name)
        for start, end, name in turns
        if end - start >= _NAMED
    ]
    below = tag("svg", names, class_="scale", width="100%", height=16, aria_hidden="true")
    return tag("div", charts.bar(bars), below)


def _memory(report: Report, found: PlanSummary) -> tuple[Child, ...]:
    """Return what the parts of the plan take of the memory."""
    own = [
        (stage.name, stage.block_ram)
        for part in found.parts
        for stage in part.stages
        if stage.block_ram
    ]
    pairs = [*own, (pieces.around(report), float(found.shell_block_ram))]
    used = sum(blocks for _, blocks in pairs)
    room = report.capacity.bram if report.capacity else None
    full = max(used, room or 0) or 1
    bars, at = [], 0.0
    for place, (_, blocks) in enumerate(pairs):
        look = "shell" if place == len(own) else _LOOKS[place % 2]
        bars.append(Bar(at / full, (at + blocks) / full, look))
        at += blocks
    of = f" of {number(room)} ({share(used / room, 1)})" if room else ""
    words = ", ".join(f"{name} {number(blocks)}" for name, blocks in pairs)
    return (
        tag("h3", "Memory"),
        pieces.figure(
            f"Block RAM: {words}; together {number(used)}{of}.",
            tag(
                "div",
                pieces.bar_row(
                    ("Block RAM", tag("small", "programs and values")),
                    charts.bar(bars, mark=None if room is None else room / full),
                    f"{number(used)}{of}",
                ),
                class_="rows",
            ),
        ),
    )


def _names(part: PlannedPart) -> str:
    first, last = part.stages[0].name, part.stages[-1].name
    return first if first == last else f"{first} to {last}"


def _table(found: PlanSummary) -> Markup:
    rows: Sequence[Sequence[Child]] = [
        (
            stage.name,
            part.form,
            number(part.lanes) if part.lanes else "–",
            number(stage.cycles),
            share(stage.cycles / found.interval, 1) if found.interval else "–",
            number(stage.tables),
            number(stage.block_ram),
        )
        for part in found.parts
        for stage in part.stages
    ]
    head = ("Stage", "Engine", "Lanes", "Cycles", "Share of the interval", "LUTs", "Block RAM")
    return pieces.table(head, rows, "Plan as a table")
