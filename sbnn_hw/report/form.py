"""The form of report.json: which fields there are, and what each may hold."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FORM", "SCHEMA", "Each", "Field", "Maybe", "Record", "Table", "check"]

#: Version of the form. It rises when a field goes or changes its meaning, not when one is added.
SCHEMA = 1


@dataclass(frozen=True)
class Field:
    """A single value, and what it must be in words."""

    words: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Maybe:
    """Something that is null where it is not known."""

    inner: "Part"


@dataclass(frozen=True)
class Record:
    """An object whose fields are all there; more than these are let through."""

    fields: Mapping[str, "Part"]


@dataclass(frozen=True)
class Each:
    """A list of which every item has the same form."""

    item: "Part"
    length: int | None = None


@dataclass(frozen=True)
class Table:
    """An object whose names are free, or are numbers, and whose values have one form."""

    value: "Part"
    numbered: bool = False


Part = Field | Maybe | Record | Each | Table


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _is_share_saved(value: Any) -> bool:
    # Kernels with many ones take more than nine bits: the share saved can be below 0.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value <= 1


_TEXT = Field("text", lambda value: isinstance(value, str))
_NAME = Field("text that is not empty", lambda value: isinstance(value, str) and value != "")
_FLAG = Field("true or false", lambda value: isinstance(value, bool))
_COUNT = Field("a whole number from 0 up", _is_count)
_WHOLE = Field("a whole number", _is_whole)
_NUMBER = Field("a number from 0 up", _is_number)
_SHARE = Field("a number from 0 to 1", lambda value: _is_number(value) and value <= 1)
_SAVED = Field("a number up to 1", _is_share_saved)

_CELLS = {
    "luts": Maybe(_COUNT),
    "ffs": Maybe(_COUNT),
    # Half a block is a block of its own on some parts.
    "bram": Maybe(_NUMBER),
    "carries": Maybe(_COUNT),
    "dsps": Maybe(_COUNT),
}

_FAN_IN = Record({"histogram": Table(_COUNT, numbered=True), "least": _COUNT, "most": _COUNT})

_STAGE = Record(
    {
        "name": _NAME,
        "kind": _NAME,
        "width": Maybe(_COUNT),
        "connections": Maybe(_COUNT),
        "tables": Maybe(_COUNT),
        "registers": Maybe(_COUNT),
        "latency": Maybe(_COUNT),
        "shape": Maybe(Each(_COUNT)),
        "fan_in": Maybe(_FAN_IN),
        "xi": Maybe(_WHOLE),
        "k": Maybe(_COUNT),
        "neurons": Maybe(_COUNT),
    }
)

_AGREEMENT = Record(
    {
        "vectors": _COUNT,
        "mismatches": _COUNT,
        "images": Maybe(_TEXT),
        "cycles": Maybe(_COUNT),
        "stalls": Maybe(_FLAG),
        "scores": Maybe(_FLAG),
        "latency": Maybe(_COUNT),
        "interval": Maybe(_NUMBER),
        "violations": Maybe(_COUNT),
    }
)

_KERNELS = Record(
    {
        "histogram": Each(_COUNT, length=10),
        "k0": _SHARE,
        "k1": _SHARE,
        "bops_pr": _SAVED,
        "sparse_pr": _SAVED,
        "bparams_pr": _SAVED,
    }
)

#: The whole report.
FORM = Record(
    {
        "schema": _COUNT,
        "model": _TEXT,
        "network": _NAME,
        "board": Maybe(_NAME),
        "board_title": Maybe(_NAME),
        "part": Maybe(_NAME),
        "family": Maybe(_NAME),
        "connections": _COUNT,
        "weights": Maybe(_COUNT),
        "ones": Maybe(_COUNT),
        "density": Maybe(_SHARE),
        **_CELLS,
        "luts_per_connection": Maybe(_NUMBER),
        "counted_by": Maybe(_NAME),
        "design": Maybe(Record(_CELLS)),
        "capacity": Maybe(
            Record({"luts": Maybe(_COUNT), "ffs": Maybe(_COUNT), "bram": Maybe(_NUMBER)})
        ),
        "estimate": Maybe(
            Record({"luts": Maybe(_COUNT), "core": Maybe(_COUNT), "shell": Maybe(_COUNT)})
        ),
        "clock_mhz": Maybe(_NUMBER),
        "fmax_mhz": Maybe(_NUMBER),
        "timing": Maybe(Record({"met": Maybe(_FLAG), "worst": Maybe(_TEXT), "tool": Maybe(_TEXT)})),
        "placed": Maybe(Table(Each(_NUMBER, length=2))),
        "link": Maybe(_TEXT),
        "load": Maybe(_TEXT),
        "uart": Maybe(Record({"baud": _NUMBER, "clocks_per_bit": _NUMBER})),
        "latency_cycles": Maybe(_COUNT),
        "initiation_interval": Maybe(_COUNT),
        "latency_ns": Maybe(_NUMBER),
        "images_per_second": Maybe(_NUMBER),
        "link_images_per_second": Maybe(_NUMBER),
        "levels_per_stage": Maybe(_COUNT),
        "stages": Each(_STAGE),
        "input": Record(
            {
                "shape": Each(_COUNT),
                "bits": _COUNT,
                "beats": Maybe(_COUNT),
                "width": Maybe(_COUNT),
            }
        ),
        "output": Record({"classes": _COUNT, "width": Maybe(_COUNT)}),
        "bops": Record(
            {
                "static": Maybe(_COUNT),
                # Not whole where images differ in their handshakes.
                "measured": Maybe(_NUMBER),
                "dense": Maybe(_COUNT),
                "paper": Maybe(_NUMBER),
            }
        ),
        "bops_layers": Each(
            Record({"name": _NAME, "sparse": _COUNT, "dense": _COUNT, "q": Maybe(_COUNT)})
        ),
        "kernels": Maybe(_KERNELS),
        "agreement": Maybe(_AGREEMENT),
        "accuracy": Maybe(_SHARE),
        "correct": Maybe(_COUNT),
        "data": Maybe(_TEXT),
        "confusion": Maybe(Each(Each(_COUNT))),
        "steps": Each(
            Record(
                {"name": _NAME, "seconds": Maybe(_NUMBER), "cached": _FLAG, "file": Maybe(_TEXT)}
            )
        ),
        "missing": Maybe(_TEXT),
        "bitstream": Maybe(_NAME),
        "tools": Table(Maybe(_TEXT)),
        "digest": _NAME,
        "version": _NAME,
    }
)


def check(report: Mapping[str, Any]) -> None:
    """Make sure that a report has the form that this release writes and draws.

    Raises
    ------
    ValueError
        If a field is missing or holds what it must not; the sentence names it.

    Examples
    --------
    >>> check({"schema": 1})
    Traceback (most recent call last):
        ...
    ValueError: The report has no field model
    """
    _require(isinstance(report, Mapping), "", "an object", report)
    # Another version may differ in anything else: this is the sentence that helps.
    if _is_count(report.get("schema")) and report["schema"] != SCHEMA:
        raise ValueError(
            f"Field schema of the report must be {SCHEMA} for this release, not {report['schema']}"
        )
    _check(report, FORM, "")
    agreement, confusion = report["agreement"], report["confusion"]
    if agreement is not None and agreement["mismatches"] > agreement["vectors"]:
        raise ValueError(
            f"Field agreement.mismatches of the report must be at most agreement.vectors "
            f"({agreement['vectors']}), not {agreement['mismatches']}"
        )
    classes = report["output"]["classes"]
    if confusion is not None and {len(confusion), *map(len, confusion)} != {classes}:
        raise ValueError(
            f"Field confusion of the report must have {classes} rows and columns, "
            "as output.classes says"
        )
    if confusion is not None and report["correct"] is not None:
        diagonal = sum(counts[index] for index, counts in enumerate(confusion))
        if diagonal != report["correct"]:
            raise ValueError(
                f"Field correct of the report must be the diagonal of confusion ({diagonal}), "
                f"not {report['correct']}"
            )


def _check(value: Any, part: Part, path: str) -> None:
    match part:
        case Maybe(inner):
            if value is not None:
                _check(value, inner, path)
        case Field(words, holds):
            _require(holds(value), path, words, value)
        case Record(fields):
            _require(isinstance(value, Mapping), path, "an object", value)
            for name, inner in fields.items():
                own = f"{path}.{name}" if path else name
                if name not in value:
                    raise ValueError(f"The report has no field {own}")
                _check(value[name], inner, own)
        case Each(item, length):
            _require(isinstance(value, list | tuple), path, "a list", value)
            if length is not None:
                _require(len(value) == length, path, f"a list of {length}", value)
            for number, inner_value in enumerate(value):
                _check(inner_value, item, f"{path}[{number}]")
        case Table(inner, numbered):
            _require(isinstance(value, Mapping), path, "an object", value)
            for name, inner_value in value.items():
                _require(isinstance(name, str), path, "an object with names that are text", value)
                if numbered:
                    digits = name.isascii() and name.isdecimal()
                    _require(digits, path, "an object whose names are numbers", value)
                _check(inner_value, inner, f"{path}.{name}")


def _require(holds: bool, path: str, words: str, value: Any) -> None:
    if not holds:
        subject = f"Field {path} of the report" if path else "The report"
        raise ValueError(f"{subject} must be {words}, not {_brief(value)}")


def _brief(value: Any) -> str:
    """Return a value as Python writes it, cut short: it may be a whole table."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
