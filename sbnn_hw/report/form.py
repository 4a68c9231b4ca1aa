"""Records as JSON has them: read with every field checked, and written back.

A record is a frozen dataclass. Each field is annotated with what it may hold and with a sentence
that explains it. Its form, which reading and the documentation follow, is made from that.
"""

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

__all__ = [
    "Count",
    "Each",
    "Field",
    "Flag",
    "Kind",
    "Length",
    "Maybe",
    "Name",
    "Number",
    "Numerals",
    "Part",
    "Record",
    "Saving",
    "Share",
    "Table",
    "Text",
    "Whole",
    "count_of",
    "form_of",
    "number_of",
    "plain",
    "read",
    "require",
]


@dataclass(frozen=True)
class Kind:
    """A single value: its name or unit, what it must be in words, and whether a value is that."""

    name: str
    words: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Maybe:
    """Something that is null where it is not known."""

    inner: "Part"


@dataclass(frozen=True)
class Field:
    """A field of a record: its form, and the sentence that explains it."""

    part: "Part"
    words: str


@dataclass(frozen=True)
class Record:
    """An object whose fields are all there; more than these are let through."""

    make: type
    fields: Mapping[str, Field]


@dataclass(frozen=True)
class Each:
    """A list of which every item has the same form."""

    item: "Part"
    length: int | None


@dataclass(frozen=True)
class Table:
    """An object whose names are free within a kind, and whose values have one form."""

    names: Kind
    value: "Part"


Part = Kind | Maybe | Record | Each | Table


# What annotations are made of


@dataclass(frozen=True)
class Length:
    """How many items a list must have."""

    items: int


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and math.isfinite(value)


def count_of(unit: str) -> Kind:
    """Return the kind of whole numbers from 0 up in a unit."""
    return Kind(unit, "a whole number from 0 up", lambda value: _is_whole(value) and value >= 0)


def number_of(unit: str) -> Kind:
    """Return the kind of numbers from 0 up in a unit."""
    return Kind(unit, "a number from 0 up", lambda value: _is_number(value) and value >= 0)


Text = Annotated[str, Kind("text", "text", lambda value: isinstance(value, str))]
Name = Annotated[
    str,
    Kind("name", "text that is not empty", lambda value: isinstance(value, str) and value != ""),
]
Numerals = Annotated[
    str, Kind("digits", "numbers", lambda v: isinstance(v, str) and v.isascii() and v.isdecimal())
]
Flag = Annotated[bool, Kind("flag", "true or false", lambda value: isinstance(value, bool))]
Whole = Annotated[int, Kind("integer", "a whole number", _is_whole)]
Count = Annotated[int, count_of("count")]
Number = Annotated[float, number_of("number")]
Share = Annotated[
    float,
    Kind("share", "a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
]
Saving = Annotated[
    float, Kind("saving", "a number up to 1", lambda value: _is_number(value) and value <= 1)
]


def form_of(record: type) -> Record:
    """Return the form of a record, which its annotations tell."""
    hints = get_type_hints(record, include_extras=True)
    return Record(record, {field.name: _field(hints[field.name]) for field in fields(record)})


def _field(hint: Any) -> Field:
    (words,) = (note for note in get_args(hint)[1:] if isinstance(note, str))
    return Field(_part(hint), words)


def _part(hint: Any) -> Part:
    notes: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if kinds := [note for note in notes if isinstance(note, Kind)]:
        return kinds[0]
    if origin in (Union, types.UnionType):
        return Maybe(_part(inner[0]))
    if origin is tuple:
        lengths = [note.items for note in notes if isinstance(note, Length)]
        return Each(_part(inner[0]), lengths[0] if lengths else None)
    if origin is Mapping:
        names = _part(inner[0])
        assert isinstance(names, Kind)
        return Table(names, _part(inner[1]))
    assert isinstance(hint, type), hint
    return form_of(hint)


# From plain values and back


def read(value: Any, part: Part, path: str = "") -> Any:
    """Return a plain value as its form has it; a ValueError names the field that is wrong."""
    match part:
        case Maybe(inner):
            return None if value is None else read(value, inner, path)
        case Kind(_, words, holds):
            require(holds(value), path, words, value)
            return value
        case Record(make, inside):
            require(isinstance(value, Mapping), path, "an object", value)
            found = {}
            for name, field in inside.items():
                own = f"{path}.{name}" if path else name
                if name not in value:
                    raise ValueError(f"The report has no field {own}")
                found[name] = read(value[name], field.part, own)
            return make(**found)
        case Each(item, length):
            require(isinstance(value, list | tuple), path, "a list", value)
            if length is not None:
                require(len(value) == length, path, f"a list of {length}", value)
            return tuple(read(inner, item, f"{path}[{n}]") for n, inner in enumerate(value))
        case Table(names, inner):
            require(isinstance(value, Mapping), path, "an object", value)
            words = f"an object whose names are {names.words}"
            require(all(map(names.holds, value)), path, words, value)
            return {name: read(item, inner, f"{path}.{name}") for name, item in value.items()}


def require(holds: bool, path: str, words: str, value: Any) -> None:
    """Refuse a value that is not what it must be."""
    if not holds:
        subject = f"Field {path} of the report" if path else "The report"
        raise ValueError(f"{subject} must be {words}, not {_brief(value)}")


def _brief(value: Any) -> str:
    """Return a value as Python writes it, cut short: it may be a whole table."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def plain(value: Any) -> Any:
    """Return a record, or what is in one, as plain values."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, tuple) else value
