"""What the numbers at a network's two ends mean: classes, columns, and how to scale them."""

import math
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected

__all__ = ["Column", "Meaning", "Source", "hidden_in"]

Kind = Literal["images", "signals", "table"]

#: Names longer than this, and more of them, are no names of classes or columns.
_LONGEST, _MOST = 500, 1 << 20


def hidden_in(text: str) -> str:
    r"""Return the first character of a name that cannot be shown, or nothing.

    It controls a terminal, is half of a pair, or stands for bytes that were no text.

    Examples
    --------
    >>> hidden_in("naïve class"), hidden_in("red\x1b[31m")
    ('', '\x1b')
    """
    hidden = ("Cc", "Cs", "Zl", "Zp")
    return next((letter for letter in text if unicodedata.category(letter) in hidden), "")


@dataclass(frozen=True)
class Column:
    """How one value of a table, or one channel of a signal, becomes an integer of the network."""

    name: str
    #: ``affine``: ⌊(x − offset)·scale + ½⌋. ``steps``: how many of ``bounds`` x reaches.
    #: ``category``: the largest integer where the text is ``category``, else 0.
    kind: Literal["affine", "steps", "category"] = "affine"
    offset: float = 0.0
    scale: float = 1.0
    bounds: tuple[float, ...] = ()
    category: str = ""
    #: The integer of a value that is missing.
    missing: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("affine", "steps", "category"):
            raise ModelRejected(f"A column's kind must not be {self.kind!r}")
        numbers = (self.offset, self.scale, *self.bounds)
        if not all(isinstance(x, float) and math.isfinite(x) for x in numbers):
            raise ModelRejected(f"The numbers of column {self.name!r} must be finite")
        if self.scale <= 0:
            raise ModelRejected(f"The scale of column {self.name!r} must be above 0")
        if any(a >= b for a, b in zip(self.bounds, self.bounds[1:], strict=False)):
            raise ModelRejected(f"The bounds of column {self.name!r} must increase")

    @property
    def source(self) -> str:
        """The column of the table that it is made from."""
        names = self.kind == "category"
        return self.name.removesuffix(f"={self.category}") if names else self.name

    def integers(self, values: npt.NDArray[Any], most: int) -> npt.NDArray[np.int64]:
        """Return values (numbers, missing ones NaN; or texts) as integers from 0 to ``most``.

        Only comparisons and one rounded product: other languages compute the same.
        """
        if self.kind == "category":
            return np.where(values == self.category, most, 0).astype(np.int64)
        missing = np.isnan(values)
        known = np.where(missing, 0.0, values)
        if self.kind == "steps":
            found = np.searchsorted(np.array(self.bounds), known, side="right")
        else:
            with np.errstate(over="ignore"):
                # Beyond the largest number is infinity, which is cut off as any other.
                scaled = np.floor((known - self.offset) * self.scale + 0.5)
            found = np.clip(scaled, 0, most)
        return np.where(missing, self.missing, np.clip(found, 0, most)).astype(np.int64)


@dataclass(frozen=True)
class Source:
    """The data that a network was trained on: enough to know and to split them again."""

    #: SHA-256 of all that was read.
    digest: str = ""
    #: Shares of training, validation and test rows, where the data do not come in parts.
    split: tuple[int, ...] = ()
    seed: int = 0
    label: str = ""
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shares = self.split or (1, 0, 1)
        if len(shares) != 3 or min(shares) < 0 or not shares[0] or not shares[2]:
            raise ModelRejected(
                "Its split must be shares of training, validation and test rows, not "
                f"{'/'.join(map(str, self.split))[:40]}"
            )
        if not 0 <= self.seed < 1 << 63:
            raise ModelRejected(f"The seed of its split must not be negative, not {self.seed}")


@dataclass(frozen=True)
class Meaning:
    """What goes into a network and comes out of it, in the words of those who use it."""

    classes: tuple[str, ...]
    kind: Kind = "images"
    #: One for each channel of the input; none where the values are taken as they are.
    columns: tuple[Column, ...] = ()
    source: Source = field(default_factory=Source)

    def check(self, shape: tuple[int, ...], bits: int, classes: int) -> None:
        """Refuse what is not about a network of this input and this many classes."""
        if len(self.classes) != classes:
            raise ModelRejected(f"It names {len(self.classes)} classes of {classes}")
        if self.columns and len(self.columns) != shape[-1]:
            raise ModelRejected(f"It names {len(self.columns)} columns of {shape[-1]}")
        for column in self.columns:
            if len(column.bounds) > (1 << bits) - 1 or not 0 <= column.missing < 1 << bits:
                raise ModelRejected(f"Column {column.name!r} has values of more than {bits} bits")

    def scaled(self, values: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
        """Return values, channels last, as the integers that the network takes."""
        most = (1 << bits) - 1
        made = np.zeros(values.shape, np.uint8 if bits <= 8 else np.uint16)
        for number, column in enumerate(self.columns):
            made[..., number] = column.integers(values[..., number], most)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as files store them."""
        plain: dict[str, Any] = asdict(self)
        return plain

    @classmethod
    def from_dict(cls, text: object) -> "Meaning":
        """Make a meaning of a file's values, which may be anything."""
        values = _fields(text, cls)
        columns = [Column(**_fields(item, Column)) for item in _list(values.get("columns", []))]
        source = Source(**_fields(values.get("source", {}), Source))
        classes = _texts(values.get("classes"))
        if len(set(classes)) != len(classes):
            raise ModelRejected("Names of classes must differ")
        kind = values.get("kind", "images")
        if kind not in ("images", "signals", "table"):
            raise ModelRejected(f"A network's input must not be called {kind!r:.40}")
        return cls(classes, kind, tuple(columns), source)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise ModelRejected("Its names of classes or columns are no list")
    return list(value)


def _texts(value: object) -> tuple[str, ...]:
    texts = tuple(_list(value))
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        raise ModelRejected(f"Names of classes and columns must be texts of up to {_LONGEST}")
    for text in texts:
        _check_shown(text)
    return texts


def _check_shown(text: str) -> None:
    if letter := hidden_in(text):
        raise ModelRejected(
            f"Names of classes and columns must not have the character U+{ord(letter):04X}, which "
            f"cannot be shown"
        )


def _fields(text: object, kind: type) -> dict[str, Any]:
    """Return the fields of a dataclass of plain values, each of its own type."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    if not isinstance(text, dict) or not set(text) <= set(known):
        raise ModelRejected("Its names of classes or columns have unknown fields")
    values = dict(text)
    for name, value in values.items():
        wanted = getattr(known[name].type, "__name__", "")
        wanted = str(known[name].type) if wanted == "tuple" else wanted
        if "float, ..." in wanted:
            values[name] = tuple(float(x) if type(x) is int else x for x in _list(value))
        elif "int, ..." in wanted:
            values[name] = tuple(_list(value))
            if not all(type(x) is int for x in values[name]):
                raise ModelRejected(f"{name} must be integers")
        elif "str, ..." in wanted:
            values[name] = _texts(value)
        elif wanted == "float":
            values[name] = float(value) if type(value) in (int, float) else value
        elif (wanted == "str" or name == "kind") and (
            not isinstance(value, str) or len(value) > _LONGEST
        ):
            raise ModelRejected(f"{name} must be a text of up to {_LONGEST}")
        elif wanted == "str":
            _check_shown(value)
        elif wanted == "int" and type(value) is not int:
            raise ModelRejected(f"{name} must be an integer")
    return values
