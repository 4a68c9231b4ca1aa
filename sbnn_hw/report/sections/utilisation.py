"""What the design takes of the part."""

from sbnn_hw.report import charts, pieces, verdicts
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, Markup, number, share, tag
from sbnn_hw.report.schema import EstimatedCells, Report

__all__ = ["utilisation"]


def utilisation(report: Report) -> pieces.Section:
    """Return bars of what the design takes of the board, core and shell told apart."""
    rows = verdicts.usage(report)
    place = report.place or "the part"
    parts = [_usage_row(row) for row in rows]
    spoken = [
        f"{row.name} {number(row.total)}"
        + (f" of {number(row.capacity)}, {_filled(row)}" if row.capacity is not None else "")
        for row in rows
    ]
    picture: Child = tag("p", "Nothing was counted: the design was not synthesised.")
    if rows:
        legend = [("core", "network")]
        if any(row.shell is not None for row in rows):
            legend.append(("shell", f"{pieces.around(report)}: the rest of the design"))
        if any(row.capacity is not None for row in rows):
            legend.append(("limit", "available on the part"))
        if any(row.over for row in rows):
            legend.append(("over", "more than the part has"))
        picture = (
            pieces.legend(*legend),
            pieces.figure(
                f"Cells used on {place}: {'; '.join(spoken)}.", tag("div", parts, class_="rows")
            ),
        )
    verdict = verdicts.fit(report)
    estimate = report.estimate or EstimatedCells()
    guess = pieces.known(estimate.luts, "not made")
    if None not in (estimate.luts, estimate.core, estimate.shell):
        guess = (
            f"{pieces.dash(estimate.luts)} ({pieces.dash(estimate.core)} network, "
            f"{pieces.dash(estimate.shell)} {pieces.around(report)})"
        )
    by = report.counted_by
    return pieces.section(
        "utilisation",
        "Utilisation",
        f"Counted by {by}." if by else None,
        pieces.verdict_box(verdict, large=True) if verdict.state == "bad" else None,
        picture,
        pieces.facts(
            [
                ("LUTs estimated before synthesis", guess),
                ("Connections", number(report.connections)),
                *_placed(report),
            ]
        ),
        pieces.table(
            ("Cells", "Network", "Whole design", "Available"),
            [(name, *map(pieces.dash, counts)) for name, *counts in verdicts.cells(report)],
            "Cells as a table",
        ),
    )


def _placed(report: Report) -> list[tuple[str, str]]:
    """Return what place and route took of the part: of all resources those that are used."""
    return [
        (f"Placed: {name}", f"{number(used)} of {number(available)}")
        for name, (used, available) in sorted((report.placed or {}).items())
        if used
    ]


def _filled(row: verdicts.Usage) -> str:
    if not row.capacity:
        return "of none"
    return share(row.total / row.capacity, 1)


def _usage_row(row: verdicts.Usage) -> Markup:
    # A bar beyond what the part has shows by how much: the mark moves inwards.
    full = max(row.total, row.capacity or 0) or 1
    bound = row.capacity if row.over and row.capacity is not None else row.total
    core = row.total if row.core is None else row.core
    looks = ("guess", "guess shell") if row.estimated else ("core", "shell")
    parts = [
        Bar(0, min(core, bound) / full, looks[0]),
        Bar(min(core, bound) / full, min(row.total, bound) / full, looks[1]),
    ]
    if row.over:
        parts.append(Bar(bound / full, 1, "over"))
    mark = None if row.capacity is None else row.capacity / full
    value: list[Child] = [tag("span", number(row.total))]
    if row.capacity is not None:
        value.append(tag("span", f"of {number(row.capacity)}"))
        if row.capacity:
            value.append(tag("span", f"· {_filled(row)}"))
    detail = []
    if row.shell is not None and row.core is not None:
        detail.append(f"{number(row.core)} + {number(row.shell)}")
    if row.estimated:
        detail.append("estimate")
    name = (row.name, tag("small", ", ".join(detail)) if detail else None)
    return pieces.bar_row(
        name,
        charts.bar(parts, mark=mark),
        tag("span", value, class_="pair"),
        "bad" if row.over else "",
    )
