"""Put tables into pages: what the scripts in this folder share."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["between", "put", "table"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def between(mark: str) -> re.Pattern[str]:
    """Return a pattern that finds the text between the marks of a table."""
    return re.compile(rf"(?<=<!-- {re.escape(mark)} -->\n).*?(?=<!-- end -->)", re.DOTALL)


def put(page: Path, tables: dict[str, str]) -> None:
    """Write each table between the marks of its name on a page."""
    text = page.read_text(encoding="utf-8")
    for mark, content in tables.items():
        text, found = between(mark).subn(lambda _, content=content: content, text)
        if found != 1:
            raise SystemExit(f"{page} must have the marks of {mark} once, not {found} times")
    page.write_text(text, encoding="utf-8")
