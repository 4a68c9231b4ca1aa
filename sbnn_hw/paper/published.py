"""Read published numbers, digits as printed; refuse what belongs to no table."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from sbnn_hw.errors import UsageError
from sbnn_hw.files import read_toml
from sbnn_hw.paper.layout import LAYOUTS

__all__ = ["SHIPPED", "Number", "Published", "Source", "load_published"]

SHIPPED = Path(__file__).with_name("published.toml")

#: Letters that mark what was not published.
_TAKEN = ("c", "m")


@dataclass(frozen=True)
class Source:
    """Who published a number; ``mark`` is the letter behind it in the tables."""

    key: str
    mark: str
    title: str
    where: str


@dataclass(frozen=True)
class Number:
    """A number with the digits that were printed."""

    value: Decimal
    source: Source


@dataclass(frozen=True)
class Published:
    """All published numbers, by table, row and column; the first of a cell was given first."""

    sources: dict[str, Source]
    cells: dict[tuple[str, str, str], tuple[Number, ...]]

    def cell(self, table: str, row: str, column: str) -> tuple[Number, ...]:
        """Return the numbers of a cell, of which there may be none."""
        return self.cells.get((table, row, column), ())


def load_published(*paths: Path) -> Published:
    """Read files of published numbers; a later file's number replaces one of the same source."""
    sources: dict[str, Source] = {}
    cells: dict[tuple[str, str, str], dict[str, Number]] = {}
    for path in paths:
        content = _read(path)
        try:
            sources |= _sources(content.get("sources", {}), sources)
            for key, number in _numbers(content.get("numbers", []), sources).items():
                table, row, column, source = key
                cells.setdefault((table, row, column), {})[source] = number
        except _Wrong as wrong:
            raise UsageError(f"{path}: {wrong}") from None
    return Published(sources, {key: tuple(cell.values()) for key, cell in cells.items()})


class _Wrong(Exception):
    """What is wrong with a file, without its name."""


def _read(path: Path) -> dict[str, Any]:
    content = read_toml(path, "published numbers", parse_float=Decimal)
    unknown = sorted(content.keys() - {"sources", "numbers"})
    if unknown:
        raise UsageError(f"{path}: published numbers have sources and numbers, not {unknown[0]!r}")
    for key, kind in (("sources", dict), ("numbers", list)):
        value = content.get(key, kind())
        inside = value.values() if isinstance(value, dict) else value
        if not isinstance(value, kind) or not all(isinstance(entry, dict) for entry in inside):
            form = f"[{key}.NAME]" if kind is dict else f"[[{key}]]"
            raise UsageError(f"{path}: {key} must be tables {form}, not {value!r}")
    return content


def _sources(entries: dict[str, dict[str, Any]], known: dict[str, Source]) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for key, entry in entries.items():
        if entry.keys() != {"mark", "title", "where"} or not all(
            isinstance(value, str) and value for value in entry.values()
        ):
            raise _Wrong(f"source {key!r} must have mark, title and where, all text")
        source = found[key] = Source(key, **entry)
        if len(source.mark) != 1 or source.mark in _TAKEN:
            raise _Wrong(
                f"the mark of source {key!r} must be one letter other than c and m, not "
                f"{source.mark!r}"
            )
        for other in (known | found).values():
            if other.mark == source.mark and other.key != key:
                raise _Wrong(f"sources {other.key!r} and {key!r} have the same mark")
    return found


def _numbers(
    entries: list[dict[str, Any]], sources: dict[str, Source]
) -> dict[tuple[str, str, str, str], Number]:
    found: dict[tuple[str, str, str, str], Number] = {}
    for entry in entries:
        values = dict(entry)
        table = values.pop("table", None)
        layout = next((layout for layout in LAYOUTS if layout.key == table), None)
        if layout is None:
            names = ", ".join(layout.key for layout in LAYOUTS)
            raise _Wrong(f"table must be one of {names}, not {table!r}")
        row = str(values.pop("row", None))
        if row not in layout.rows:
            raise _Wrong(f"row of {table} must be one of {', '.join(layout.rows)}, not {row!r}")
        source = _source(values.pop("source", None), sources)
        columns = [column.key for column in layout.columns if column.published]
        for column, value in values.items():
            if column not in columns:
                raise _Wrong(
                    f"column of {table} must be one of {', '.join(columns)}, not {column!r}"
                )
            key = (layout.key, row, column, source.key)
            if key in found:
                raise _Wrong(f"{table}, row {row}, has {column} of source {source.key} twice")
            unit = next(c.unit for c in layout.columns if c.key == column)
            found[key] = Number(_decimal(value, f"{column} of {table}, row {row},", unit), source)
    return found


def _source(key: object, sources: dict[str, Source]) -> Source:
    if not isinstance(key, str) or key not in sources:
        raise _Wrong(
            f"source must be one of {', '.join(sources) or 'those of [sources.NAME]'}, not {key!r}"
        )
    return sources[key]


def _decimal(value: object, what: str, unit: str) -> Decimal:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise _Wrong(f"{what} must be a number, not {value!r}")
    number = Decimal(value)
    # A reduction may be negative: two bits are added to each kernel.
    low, high = (0, 10**6) if unit == "×10⁸" else (-100, 100)
    if not number.is_finite() or not low <= number <= high:
        raise _Wrong(f"{what} must be between {low} and {high}, not {value}")
    return number
