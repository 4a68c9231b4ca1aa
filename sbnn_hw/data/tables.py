"""Tables: CSV and TSV, compressed or not, and Parquet."""

import csv
import difflib
import gzip
import io
import math
import zlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.rows import FURTHEST, LARGEST, LONGEST, Rows, check_name, label_texts
from sbnn_hw.errors import DataMissing, ToolMissing, UsageError
from sbnn_hw.files import open_file

__all__ = ["ENDINGS", "MISSING", "open_text", "read_table"]

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")

#: A table with more characters, columns, rows or cells than this is not read.
MOST_CHARACTERS, MOST_COLUMNS, MOST_ROWS, MOST_CELLS = 1 << 30, 4096, 10_000_000, 1 << 28
#: Nor is one whose rows are longer, or in which a column has more different names.
LONGEST_ROW, MOST_NAMES = 8 << 20, 1 << 16
#: What stands for a value that is not there.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "-"})
#: Of these, what may well be the name of a class.
_CLASSES = frozenset({"none", "-"})
#: Cells that are held as text at a time.
_AT_ONCE = 1 << 16

#: Some rows of each column.
Chunk = Sequence[Sequence[str | None]]


def read_table(
    path: Path,
    options: DataOptions,
    dropped: Collection[str] = (),
    trained: Collection[str] = (),
    named: Collection[str] = (),
) -> tuple[Rows, str]:
    """Return the rows of a table, and the name of the column of classes.

    A model may know more: columns that were ``dropped``, those that it was ``trained`` with, and
    which of these are ``named``, that is, hold names.
    """
    binary = path.suffix in (".parquet", ".pq")
    content = _parquet(path) if binary else _text(path, options, trained)
    header = next(content)
    _check_header(header, path)
    label = _find(options.label, header, path, "--label")
    drop = {_find(name, header, path, "--drop") for name in options.drop}
    drop |= set(dropped) & set(header)
    texts = {_find(name, header, path, "--categorical") for name in options.categorical}
    texts |= {*named, label}
    if label in drop:
        raise UsageError(f"{path}: column {label!r} cannot be the --label and dropped")
    columns = {name: _Column(name, path, name in texts) for name in header if name not in drop}
    if len(columns) < 2:
        raise DataMissing(f"{path} has no columns besides {label!r}; nothing could be learned")
    count = 0
    for chunk in content:
        for name, cells in zip(header, chunk, strict=True):
            if name in columns:
                columns[name].add(cells)
        count += len(chunk[0])
        if count > MOST_ROWS or count * len(columns) > MOST_CELLS:
            raise DataMissing(f"{path} has more than {count - 1:,} rows, too many; give fewer")
    if not count:
        raise DataMissing(f"{path} has a header and no rows; give a row for each sample")
    labels = columns.pop(label).classes()
    return Rows(labels, columns={name: found.values() for name, found in columns.items()}), label


def _check_header(header: Sequence[str], path: Path) -> None:
    if len(header) > MOST_COLUMNS:
        raise DataMissing(f"{path} has {len(header):,} columns; give {MOST_COLUMNS:,} at most")
    seen = set()
    for place, name in enumerate(header, 1):
        if not name:
            raise DataMissing(f"{path}: column {place} has no name in row 1; give it one")
        check_name(name, f"{path}: the name of column {place}")
        if name in seen:
            raise DataMissing(f"{path} has two columns called {name!r}; rename one")
        seen.add(name)


def _find(asked: str, header: Sequence[str], path: Path, option: str) -> str:
    """Return the name of a column that was asked for by name, or by its number from 1."""
    shown = ", ".join(header[:12]) + (", …" if len(header) > 12 else "")
    if not asked:
        raise UsageError(f"{path} is a table; name its column of classes with {option} ({shown})")
    if asked in header:
        return asked
    if asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= len(header):
        return header[int(asked) - 1]
    near = difflib.get_close_matches(asked, header, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UsageError(f"{path} has no column {asked!r} ({option}){hint}; it has {shown}")


# Columns


def _number(text: str) -> float | None:
    """Return the number of a cell, if it is one; Python's 1_000 is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


class _Column:
    """Takes cells as they come, and holds them as numbers or as texts, each different one once.

    A column whose first cell is a number has only numbers. ``names`` says that numbers are names.
    """

    def __init__(self, name: str, path: Path, names: bool) -> None:
        self._name, self._path, self._names = name, path, names
        self._numbers = array("d")
        #: The texts with their places, and the place for each row (−1: missing).
        self._texts: dict[str, int] = {}
        self._places = array("i")
        #: The first row that has a text.
        self._first: tuple[int, str] | None = None
        self._numeric = False

    def __len__(self) -> int:
        return len(self._places) or len(self._numbers)

    def add(self, cells: Sequence[str | None]) -> None:
        if self._names or self._first is not None or not self._add_numbers(cells):
            for cell in cells:
                self._add("" if cell is None else cell.strip())

    def _add_numbers(self, cells: Sequence[str | None]) -> bool:
        """Add cells that are all numbers, quickly; tell whether they are."""
        try:
            found = array("d", map(float, cells))  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return False
        values = np.frombuffer(found)
        known = values[~np.isnan(values)]
        if not len(known) or not (np.abs(known) <= FURTHEST).all():
            return False
        if any("_" in str(cell) for cell in cells):
            return False
        self._numbers.extend(found)
        self._numeric = True
        return True

    def _add(self, text: str) -> None:
        row = len(self) + 1
        if len(text) > LONGEST:
            raise DataMissing(
                f"{self._path}: column {self._name!r} has {len(text):,} characters in data row "
                f"{row}; leave it out with --drop {self._name}"
            )
        missing = text.lower() in MISSING
        value = None if missing or self._names else _number(text)
        if value is not None:
            if not abs(value) <= FURTHEST:
                raise DataMissing(
                    f"{self._path}: column {self._name!r} has {text!r:.40} in data row {row}, "
                    f"which is too large to be scaled; mend it"
                )
            self._numeric = True
        elif not missing or (self._names and text):
            self._first = self._first or (row, text)
        if self._first is not None and self._numeric:
            at, text = self._first
            raise DataMissing(
                f"{self._path}: column {self._name!r} has {text!r:.40} in data row {at}, but "
                f"numbers elsewhere; mend it, or say that they are names with --categorical "
                f"{self._name}"
            )
        if self._first is None:
            self._numbers.append(math.nan if value is None else value)
            return
        if not self._places and self._numbers:
            # Up to here all were missing.
            self._places = array("i", [-1]) * len(self._numbers)
            self._numbers = array("d")
        self._places.append(self._place(text, row) if text else -1)

    def _place(self, text: str, row: int) -> int:
        place = self._texts.get(text)
        if place is None:
            check_name(text, f"{self._path}: column {self._name!r} in data row {row}")
            place = self._texts[text] = len(self._texts)
            if place >= MOST_NAMES:
                raise DataMissing(
                    f"{self._path}: column {self._name!r} has more than {MOST_NAMES:,} different "
                    f"names; leave it out with --drop {self._name}"
                )
        return place

    def values(self) -> npt.NDArray[Any]:
        """Return numbers (missing ones NaN), or texts (missing ones empty)."""
        if self._first is None:
            numbers = np.frombuffer(self._numbers)
            if self._numeric:
                return numbers
            raise DataMissing(
                f"{self._path}: column {self._name!r} is empty; leave it out with --drop "
                f"{self._name}"
            )
        return self._spread(["" if text.lower() in MISSING else text for text in self._texts])

    def classes(self) -> npt.NDArray[np.str_]:
        """Return the classes; each row must have one."""
        where = f"column {self._name!r}"
        absent = [text for text in self._texts if text.lower() in MISSING - _CLASSES]
        bad = {-1, *(self._texts[text] for text in absent)}
        rows = np.isin(self._places, list(bad))
        if self._first is None or rows.any():
            row = 1 if self._first is None else int(rows.argmax()) + 1
            raise DataMissing(f"{self._path}: data row {row} has no class in {where}; mend it")
        texts = list(self._texts)
        numbers = [_number(text) for text in texts]
        if all(number is not None and math.isfinite(number) for number in numbers):
            # 1 and 1.0 are the same class.
            values = np.array(numbers, float)[np.array(self._places)]
            return label_texts(values, f"{self._path}: {where}")
        return self._spread(texts)

    def _spread(self, texts: list[str]) -> npt.NDArray[np.str_]:
        words = np.array([*texts, ""])
        if words.itemsize * len(self._places) > LARGEST:
            raise DataMissing(
                f"{self._path}: column {self._name!r} has names that are too long for so many "
                f"rows; leave it out with --drop {self._name}"
            )
        spread: npt.NDArray[np.str_] = words[np.array(self._places)]
        return spread


# Text


def _text(path: Path, options: DataOptions, trained: Collection[str]) -> Iterator[Any]:
    """Yield the names of the columns, and then some rows at a time."""
    rows = _lines(path)
    first = next(rows, None)
    if first is None:
        raise DataMissing(f"{path} is empty; give a table with a row for each sample")
    cells = [cell.strip() for cell in first[1]]
    named = {*trained, options.label} if _number(options.label) is None else set(trained)
    titled = options.header == "yes" or (options.header == "auto" and _titled(cells, named))
    header = cells if titled else [f"c{n + 1}" for n in range(len(cells))]
    yield header
    held: list[list[str]] = [] if titled else [first[1]]
    most = max(1, _AT_ONCE // len(header))
    for number, cells in rows:
        if len(cells) != len(header):
            raise DataMissing(
                f"{path}: row {number} has {len(cells)} cells, but row {first[0]} has "
                f"{len(header)}; mend it"
            )
        held.append(cells)
        if len(held) == most:
            yield list(zip(*held, strict=True))
            held = []
    if held:
        yield list(zip(*held, strict=True))


def _titled(cells: Sequence[str], known: Collection[str]) -> bool:
    """Tell whether a first row holds names: one that is known is among them, or no number is."""
    if not set(known).isdisjoint(cells):
        return True
    return not any(_number(cell) is not None for cell in cells)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with their numbers; empty ones are passed over."""
    with open_text(path) as text:
        lines, number = _Bounded(text, path), 0
        reader = csv.reader(lines, delimiter=_delimiter(path, text), strict=True)
        try:
            for cells in reader:
                lines.since, number = 0, reader.line_num
                if any(cell.strip() for cell in cells):
                    yield number, cells
        except csv.Error as error:
            raise DataMissing(
                f"{path}: row {number + 1} cannot be read ({error}); mend it"
            ) from None


@contextmanager
def open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open a text file, compressed or not; what is wrong with it is an error of the data."""
    try:
        with open_file(path) as content:
            file: Any = gzip.GzipFile(fileobj=content) if path.suffix == ".gz" else content
            # With a byte order mark or without.
            counted = io.BufferedReader(_Counted(file, path))
            yield io.TextIOWrapper(counted, encoding="utf-8-sig", newline="")
    except FileNotFoundError:
        raise DataMissing(f"There is no table at {path}") from None
    except UnicodeDecodeError:
        raise DataMissing(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataMissing(f"Cannot read {path} ({error}); save it again") from None


def _delimiter(path: Path, text: io.TextIOWrapper) -> str:
    """Return what parts the cells: in some countries a CSV file has semicolons."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        return "\t"
    first = text.buffer.peek(1).split(b"\n", 1)[0]  # type: ignore[attr-defined]
    return ";" if b";" in first and b"," not in first else ","


class _Bounded:
    """The lines of a text; a row of the table must not be endless."""

    def __init__(self, text: io.TextIOWrapper, path: Path) -> None:
        self._text, self._path = text, path
        #: Characters and lines since the last row that was whole.
        self.since, self._lines = 0, 0

    def __iter__(self) -> "_Bounded":
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_ROW + 1)
        self.since += len(line)
        self._lines += 1
        if self.since > LONGEST_ROW:
            raise DataMissing(
                f"{self._path}: row {self._lines} has more than {LONGEST_ROW:,} characters; give "
                f"fewer columns"
            )
        if not line:
            raise StopIteration
        return line


class _Counted(io.RawIOBase):
    """Hands on what a file holds, up to a bound, so that a bomb cannot fill the memory."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__()
        self._file, self._path, self._left = file, path, MOST_CHARACTERS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise DataMissing(
                f"{self._path} unpacks to more than {MOST_CHARACTERS:,} characters; give fewer rows"
            )
        buffer[: len(content)] = content
        return len(content)


# Parquet


def _parquet(path: Path) -> Iterator[Any]:
    """Yield the names of the columns, and then some rows at a time."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ToolMissing("Parquet tables need pyarrow (pip install 'sbnn-hw[parquet]')") from None
    try:
        with open_file(path) as content:
            file = parquet.ParquetFile(content)
            schema, about = file.schema_arrow, file.metadata
            inside = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
            if inside > MOST_CHARACTERS:
                raise DataMissing(f"{path} unpacks to {inside:,} bytes; give fewer rows")
            for name, kind in zip(schema.names, schema.types, strict=True):
                if pyarrow.types.is_nested(kind) or pyarrow.types.is_temporal(kind):
                    raise DataMissing(
                        f"{path}: column {name!r} holds {kind}, which is neither numbers nor "
                        f"names; save the table without it"
                    )
            yield [str(name) for name in schema.names]
            most = max(1, _AT_ONCE // max(1, len(schema.names)))
            for batch in file.iter_batches(batch_size=most):
                yield [
                    [None if value is None else str(value) for value in column.to_pylist()]
                    for column in batch.columns
                ]
    except FileNotFoundError:
        raise DataMissing(f"There is no table at {path}") from None
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise DataMissing(f"{path} is not a Parquet table ({str(error).splitlines()[0]})") from None
