"""Put tables into pages: what the scripts in this folder share."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["put", "table"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def put(page: Path, tables: dict[str, str]) -> None:
    """Write each table between the marks of its name on a page."""
    text = page.read_text(encoding="utf-8")
    for mark, content in tables.items():
        marks = rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            marks, lambda m, content=content: m[1] + content + m[2], text, flags=re.DOTALL
        )
        if found != 1:
            raise SystemExit(f"{page} must have the marks of {mark} once, not {found} times")
    page.write_text(text, encoding="utf-8")
