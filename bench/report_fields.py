"""Write the tables of fields in docs/report.md, from the classes that have those fields."""

from collections.abc import Iterator
from pathlib import Path

from pages import put, table

from sbnn_hw.report.form import Each, Field, Kind, Maybe, Part, Record, Table
from sbnn_hw.report.schema import FORM

ROOT = Path(__file__).parents[1]
MARK = "bench/report_fields.py"

#: The report's fields are shown in groups: the name of each, and the field that begins it.
GROUPS = {
    "target": "schema",
    "network": "connections",
    "cells": "luts",
    "speed": "clock_mhz",
    "layers": "stages",
    "verification": "agreement",
    "build": "steps",
}


def tables() -> dict[str, str]:
    """Return the tables by their marks: types, the report's fields, and those of its records."""
    names = list(FORM.fields)
    starts = [names.index(first) for first in GROUPS.values()]
    made = {f"{MARK}: types": _types()}
    for group, start, end in zip(GROUPS, starts, [*starts[1:], len(names)], strict=True):
        made[f"{MARK}: {group}"] = _fields({name: FORM.fields[name] for name in names[start:end]})
    found = {part.make: part for part in _parts(FORM) if isinstance(part, Record)}
    made[f"{MARK}: records"] = "\n".join(
        f"### {make.__name__}\n\n{(make.__doc__ or '').splitlines()[0]}\n\n{_fields(record.fields)}"
        for make, record in found.items()
        if record is not FORM
    )
    return made


def _types() -> str:
    kinds: dict[str, list[str]] = {}
    for part in _parts(FORM):
        if isinstance(part, Kind) and f"`{part.name}`" not in kinds.setdefault(part.words, []):
            kinds[part.words].append(f"`{part.name}`")
    return table(("type", "holds"), [(", ".join(own), words) for words, own in kinds.items()])


def _fields(fields: dict[str, Field]) -> str:
    rows = []
    for name, field in fields.items():
        known = field.part.inner if isinstance(field.part, Maybe) else field.part
        mark = "" if known is field.part else " ○"
        rows.append((f"`{name}`{mark}", f"`{_spoken(known)}`", field.words))
    return table(("field", "type", "meaning"), rows)


def _spoken(part: Part) -> str:
    match part:
        case Kind(name):
            return name
        case Maybe(inner):
            return f"{_spoken(inner)} ○"
        case Record(make):
            return make.__name__
        case Each(item, length):
            return f"{_spoken(item)}[{length or ''}]"
        case Table(names, value):
            return f"{{{names.name}: {_spoken(value)}}}"


def _parts(part: Part) -> Iterator[Part]:
    """Yield a form and all that is in it, in order."""
    yield part
    match part:
        case Maybe(inner) | Each(inner) | Table(_, inner):
            yield from _parts(inner)
        case Record(_, fields):
            for field in fields.values():
                yield from _parts(field.part)


if __name__ == "__main__":
    put(ROOT / "docs/report.md", tables())
