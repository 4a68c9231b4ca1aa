"""Print tables for people."""

import textwrap

from sbnn_hw.paper.layout import Column
from sbnn_hw.paper.published import Published
from sbnn_hw.paper.tables import Entry, Table

__all__ = ["legend", "render"]

WIDTH = 100


def legend(published: Published) -> str:
    """Say what the letters behind the numbers mean."""
    lines = [
        f"  {source.mark}  published: {source.title} ({source.where})"
        for source in published.sources.values()
    ]
    lines += [
        "  c  counted here: on the architecture itself (train/metrics.py), or from other published",
        "     numbers where the cell says so. = or ≠ tells whether the count equals the first",
        "     number of the cell, rounded to the digits printed",
        "  m  measured here: the mean over seeds, ± half of their range",
        "  –  neither published, counted nor measured here",
    ]
    return "\n".join(lines)


def render(table: Table) -> str:
    """Return a table as text, with its notes under it."""
    layout = table.layout
    head = ["", *(f"{column.title}, {column.unit}" for column in layout.columns)]
    body = [
        [row.label, *(_cell(row.cells.get(column.key), column) for column in layout.columns)]
        for row in table.rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [f"Table {layout.number}. {layout.title}", ""]
    for cells in (head, *body):
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(line.rstrip())
    lines.append("")
    for note in table.notes:
        lines += textwrap.wrap(
            note, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(lines)


def _cell(entries: tuple[Entry, ...] | None, column: Column) -> str:
    if not entries:
        return "–" if entries is None or column.published else "not measured yet"
    published = [entry for entry in entries if entry.kind == "published"]
    text = ", ".join(f"{entry.text} {entry.mark}" for entry in published)
    for entry in entries:
        if entry.kind == "published":
            continue
        relation = {True: " = ", False: " ≠ ", None: "; " if text else ""}[entry.agrees]
        note = f" ({entry.note})" if entry.note and entry.kind == "counted" else ""
        text += f"{relation}{entry.text} {entry.mark}{note}"
    return text
