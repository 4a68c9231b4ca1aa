"""Descriptions of networks: plain values with arrays in them, written and read without surprises.

An operation describes itself with a ``write`` that turns an array into what stands for it, and is
made again with a ``read`` that does the opposite. The file and the JSON view have one each.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy.typing as npt

__all__ = ["ARRAY", "Array", "Arrays", "Damaged", "Write", "get"]

Array = npt.NDArray[Any]
Write = Callable[[Array], Any]

#: What stands for an array in a description: of the file, or of the JSON view.
ARRAY = (dict, list)


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
