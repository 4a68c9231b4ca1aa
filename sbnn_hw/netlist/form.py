"""Descriptions of networks: plain values with arrays in them, written and read without surprises.

An operation describes itself with a ``write`` that turns an array into what stands for it, and is
made again with a ``read`` that does the opposite. The file and the JSON view have one each.
"""

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, get_args, get_origin

import numpy as np
import numpy.typing as npt

__all__ = [
    "ARRAY",
    "BOOLEANS",
    "INTEGERS",
    "TABLE",
    "Array",
    "Arrays",
    "Damaged",
    "Schema",
    "Write",
    "get",
    "list_of",
    "object_of",
    "plain",
    "read_as",
]

Array = npt.NDArray[Any]
Write = Callable[[Array], Any]
#: A part of the JSON view's schema.
Schema = dict[str, Any]

#: What stands for an array in a description: of the file, or of the JSON view.
ARRAY = (dict, list)


def list_of(items: Schema, **limits: Any) -> Schema:
    """Return the JSON Schema of a list."""
    return {"type": "array", "items": items, **limits}


def object_of(optional: Schema | None = None, /, **properties: Schema) -> Schema:
    """Return the JSON Schema of an object, in which all but the optional properties must be."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": {**properties, **(optional or {})},
    }


INTEGERS = list_of({"type": "integer"})
BOOLEANS = list_of({"type": "boolean"})
TABLE = list_of(INTEGERS, minItems=1)


class Damaged(Exception):
    """The description is not what this schema says; the message tells where."""


class Arrays(Protocol):
    """Makes arrays of what a description has in their place."""

    def __call__(self, text: Any, /) -> Array:
        """Return an array."""

    def close(self) -> None:
        """Refuse what is left over."""


def get(text: Any, key: str, kind: type | tuple[type, ...]) -> Any:
    """Return a value of a description, which must be of a kind."""
    if not isinstance(text, dict) or key not in text:
        raise Damaged(f"{key} is missing")
    value = text[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Damaged(f"{key} must not be {value!r:.80}")
    return value


def plain(value: Any, write: Write) -> Any:
    """Return what describes a parameter."""
    if isinstance(value, np.ndarray):
        return write(value)
    return value.describe(write) if hasattr(value, "describe") else value


def read_as(kind: Any, text: Any, key: str, read: Arrays) -> Any:
    """Return a parameter of the kind that its annotation says: the opposite of :func:`plain`.

    What may be None may be left out.
    """
    if get_origin(kind) is UnionType:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
        if isinstance(text, dict) and key not in text:
            return None
    if get_origin(kind) is np.ndarray:
        return read(get(text, key, ARRAY))
    if hasattr(kind, "describe"):
        return kind.read(get(text, key, dict), read)
    return get(text, key, str if get_origin(kind) is Literal else kind)
