"""Which engine works when, and what the plan takes of the memory."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, Markup, decimal, number, share, tag
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
    return tag("div", charts.bar(bars), _written(turns))


def _written(places: Iterable[tuple[float, float, str]]) -> Markup:
    """Return the names below a bar of those parts that have room for them."""
    names = [
        charts.label((start + end) / 2, 12, "tick middle", name)
        for start, end, name in places
        if end - start >= _NAMED
    ]
    return tag("svg", names, class_="scale", width="100%", height=16, aria_hidden="true")


def _memory(report: Report, found: PlanSummary) -> tuple[Child, ...]:
    """Return what engines and shell take of the block RAM, and whose programs are in it."""
    blocks = [(part.form, part.block_ram) for part in found.parts if part.block_ram]
    blocks.append((pieces.around(report), found.shell_block_ram))
    programs = [
        (stage.name, stage.program_bits / 1024)
        for part in found.parts
        for stage in part.stages
        if stage.program_bits
    ]
    used, bits = sum(count for _, count in blocks), sum(count for _, count in programs)
    room = report.capacity.bram if report.capacity else None
    full = max(used, room or 0) or 1
    looks = [*(_LOOKS[n % 2] for n in range(len(blocks) - 1)), "shell"]
    of = f" of {number(room)} ({share(used / room, 1)})" if room else ""
    said = ", ".join(f"{name} {number(count)}" for name, count in blocks)
    told = ", ".join(f"{name} {decimal(count)}" for name, count in programs)
    rows = [
        pieces.bar_row(
            ("Block RAM", tag("small", f"with the {pieces.around(report)}")),
            charts.bar(_row(blocks, full, looks), mark=None if room is None else room / full),
            f"{number(used)}{of}",
        )
    ]
    if bits:
        turns = [_LOOKS[n % 2] for n in range(len(programs))]
        parts = _row(programs, bits, turns)
        named = zip(parts, (name for name, _ in programs), strict=True)
        rows.append(
            pieces.bar_row(
                ("Programs", tag("small", "bits of each stage")),
                tag("div", charts.bar(parts), _written((b.start, b.end, n) for b, n in named)),
                f"{decimal(bits)} kbit",
            )
        )
    return (
        tag("h3", "Memory"),
        pieces.figure(
            f"Block RAM: {said}; together {number(used)}{of}."
            + (f" Programs: {told} kbit." if told else ""),
            tag("div", rows, class_="rows"),
        ),
    )


def _row(pairs: Sequence[tuple[str, float]], full: float, looks: Sequence[str]) -> list[Bar]:
    """Return parts of a bar, one behind the other."""
    ends = list(itertools.accumulate(count / full for _, count in pairs))
    starts = [0.0, *ends[:-1]]
    return [Bar(*each) for each in zip(starts, ends, looks, strict=True)]


def _names(part: PlannedPart) -> str:
    first, last = part.stages[0].name, part.stages[-1].name
    return first if first == last else f"{first} to {last}"


def _table(found: PlanSummary) -> Markup:
    rows: list[tuple[Child, ...]] = [
        (
            stage.name,
            part.form,
            number(part.lanes) if part.lanes else "–",
            number(stage.cycles),
            share(stage.cycles / found.interval, 1) if found.interval else "–",
            pieces.dash(stage.tables),
            pieces.dash(stage.program_bits),
        )
        for part in found.parts
        for stage in part.stages
    ]
    rows += [
        (
            *("engine", part.form, number(part.lanes), number(part.cycles), "–"),
            *(number(part.tables), "–"),
        )
        for part in found.parts
        if part.lanes
    ]
    head = ("Stage", "Engine", "Lanes", "Cycles", "Share of the interval", "LUTs", "Program bits")
    return pieces.table(head, rows, "Plan as a table")
