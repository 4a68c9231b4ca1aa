"""Rows of data as they were read: columns or arrays, and the name of each row's class."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import DataMissing
from sbnn_hw.netlist.meaning import hidden_in

__all__ = ["FURTHEST", "LARGEST", "LONGEST", "Rows", "check_name", "label_texts"]

#: More rows of memory than this are not held, in bytes.
LARGEST = 2 << 30
#: A name of a class, of a column or in a column has no more characters than this.
LONGEST = 200
#: Numbers further from zero than this cannot be scaled without loss.
FURTHEST = 1e30


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: either ``values``, or one array for each column of a table."""

    #: The class of each row.
    labels: npt.NDArray[np.str_]
    #: (count, height, width, channels): bytes of pictures, or numbers, missing ones NaN.
    values: npt.NDArray[Any] | None = None
    #: Numbers (missing ones NaN) or texts (missing ones empty), by the name of the column.
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    #: Where each row stands, for messages: a file, or a number.
    places: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: npt.NDArray[np.int64]) -> "Rows":
        """Return some of the rows."""
        return Rows(
            self.labels[chosen],
            None if self.values is None else self.values[chosen],
            {name: column[chosen] for name, column in self.columns.items()},
            tuple(self.places[n] for n in chosen) if self.places else (),
        )

    def first(self, count: int) -> "Rows":
        """Return the first rows."""
        return self.take(np.arange(count))

    def after(self, count: int) -> "Rows":
        """Return the rows behind the first ones."""
        return self.take(np.arange(count, len(self)))

    def place(self, number: int) -> str:
        """Return how a row is called in a message."""
        return self.places[number] if self.places else f"row {number + 1}"

    def digest(self) -> str:
        """SHA-256 of all that the rows hold."""
        digest = hashlib.sha256()
        arrays = [("", self.values)] if self.values is not None else list(self.columns.items())
        for name, array in (*arrays, ("label", self.labels)):
            digest.update(f"{name!r} {array.shape} {array.dtype.kind}\n".encode())
            # Texts by their content, however wide the array that holds them is.
            texts = array.dtype.kind == "U"
            content = "\0".join(array.tolist()).encode() if texts else np.ascontiguousarray(array)
            digest.update(content if isinstance(content, bytes) else content.data)
        return digest.hexdigest()


def label_texts(labels: npt.NDArray[Any], where: str) -> npt.NDArray[np.str_]:
    """Return labels as texts: numbers without a point, texts as they are."""
    if labels.ndim != 1:
        raise DataMissing(
            f"{where} must have one label for each row, not shape {labels.shape}; give the number "
            f"of the class instead of a row of zeros and a one"
        )
    if labels.dtype.kind == "f":
        odd = ~np.isfinite(labels) | (labels != np.floor(labels))
        if odd.any():
            raise DataMissing(
                f"{where} has {labels[odd][0]:g} in row {int(odd.argmax()) + 1}, but labels must "
                f"be whole numbers or names"
            )
        if (np.abs(labels) > 2**53).any():
            raise DataMissing(f"{where} has {labels[np.abs(labels).argmax()]:g}, which is no class")
        labels = labels.astype(np.int64)
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind not in "iubU":
        raise DataMissing(f"{where} must be whole numbers or names, not {labels.dtype}")
    texts: npt.NDArray[np.str_] = labels.astype(str)
    if labels.dtype.kind == "U":
        for text in np.unique(texts).tolist():
            check_name(text, f"{where}: the class {text!r:.40}")
    return texts


def check_name(text: str, where: str) -> None:
    """Refuse a name that is empty or too long, or that cannot be shown."""
    if not text.strip():
        raise DataMissing(f"{where} has no name; give it one")
    if len(text) > LONGEST:
        raise DataMissing(f"{where} has {len(text):,} characters; shorten it to {LONGEST}")
    if letter := hidden_in(text):
        raise DataMissing(
            f"{where} has the character U+{ord(letter):04X}, which cannot be shown; rename it"
        )
