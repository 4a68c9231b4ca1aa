"""Tables: CSV and TSV, compressed or not, and Parquet."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.rows import Rows, label_texts
from sbnn_hw.errors import DataMissing, ToolMissing, UsageError
from sbnn_hw.files import open_file

__all__ = ["ENDINGS", "open_text", "read_table"]

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")

#: A table with more characters, columns or rows than this is not read.
MOST_CHARACTERS, MOST_COLUMNS, MOST_ROWS = 1 << 30, 4096, 10_000_000
#: What stands for a value that is not there.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "-"})
#: Numbers further from zero than this cannot be scaled without loss.
FURTHEST = 1e30
#: A cell longer than this is not one.
LONGEST_CELL = 10_000


def read_table(path: Path, options: DataOptions, dropped: Sequence[str] = ()) -> tuple[Rows, str]:
    """Return the rows of a table, and the name of the column of classes."""
    header, cells = _parquet(path) if path.suffix in (".parquet", ".pq") else _text(path, options)
    doubled = next((name for name in header if header.count(name) > 1), None)
    if doubled is not None:
        raise DataMissing(f"{path} has two columns called {doubled!r}; rename one")
    if len(header) > MOST_COLUMNS:
        raise DataMissing(f"{path} has {len(header):,} columns; give {MOST_COLUMNS:,} at most")
    label = _find(options.label, header, path, "--label")
    drop = {_find(name, header, path, "--drop") for name in options.drop}
    drop |= set(dropped) & set(header)
    named = {_find(name, header, path, "--categorical") for name in options.categorical}
    if label in drop:
        raise UsageError(f"{path}: column {label!r} cannot be the --label and dropped")
    columns = {
        name: _column(values, name, path, named)
        for name, values in zip(header, cells, strict=True)
        if name != label and name not in drop
    }
    if not columns:
        raise DataMissing(f"{path} has no columns besides {label!r}; nothing could be learned")
    return Rows(_labels(cells[header.index(label)], label, path), columns=columns), label


def _find(asked: str, header: list[str], path: Path, option: str) -> str:
    """Return the name of a column that was asked for by name, or by its number from 1."""
    shown = ", ".join(header[:12]) + (", …" if len(header) > 12 else "")
    if not asked:
        raise UsageError(f"{path} is a table; name its column of classes with {option} ({shown})")
    if asked in header:
        return asked
    if asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= len(header):
        return header[int(asked) - 1]
    raise UsageError(f"{path} has no column {asked!r} ({option}); it has {shown}")


# Text


def _text(path: Path, options: DataOptions) -> tuple[list[str], list[list[str]]]:
    """Return the names and the cells of each column."""
    tab = path.name.removesuffix(".gz").endswith(".tsv")
    rows = _lines(path, "\t" if tab else ",")
    first = next(rows, None)
    if first is None:
        raise DataMissing(f"{path} is empty; give a table with a row for each sample")
    number, cells = first
    titled = options.header == "yes" or (
        options.header == "auto" and not any(_number(cell) is not None for cell in cells)
    )
    header = (
        [cell.strip() for cell in cells] if titled else [f"c{n + 1}" for n in range(len(cells))]
    )
    for place, name in enumerate(header, 1):
        if not name:
            raise DataMissing(f"{path}: column {place} has no name in row {number}; give it one")
    columns: list[list[str]] = [[] for _ in header]
    if not titled:
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    for number, cells in rows:
        if len(cells) != len(header):
            raise DataMissing(
                f"{path}: row {number} has {len(cells)} cells, but row 1 has {len(header)}; mend it"
            )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
        if len(columns[0]) > MOST_ROWS:
            raise DataMissing(f"{path} has more than {MOST_ROWS:,} rows; give fewer")
    if not columns[0]:
        raise DataMissing(f"{path} has a header and no rows; give a row for each sample")
    return header, columns


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file with their numbers; empty ones are passed over."""
    with open_text(path) as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield reader.line_num, cells
        except csv.Error as error:
            raise DataMissing(f"{path}: row {reader.line_num} cannot be read ({error})") from None


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


def _number(cell: str) -> float | None:
    """Return the number of a cell, if it is one; Python's 1_000 is none."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _column(cells: Sequence[Any], name: str, path: Path, named: set[str]) -> npt.NDArray[Any]:
    """Return a column as numbers, or as texts if it has no number or is said to hold names."""
    texts = [cell if isinstance(cell, str) else "" if cell is None else str(cell) for cell in cells]
    long = next((n for n, text in enumerate(texts) if len(text) > LONGEST_CELL), None)
    if long is not None:
        raise DataMissing(
            f"{path}: column {name!r} has {len(texts[long]):,} characters in data row {long + 1}; "
            f"leave it out with --drop {name}"
        )
    known = [None if _missing(text) else _number(text) for text in texts]
    if name in named or all(number is None for number in known):
        if all(_missing(text) for text in texts):
            raise DataMissing(f"{path}: column {name!r} is empty; leave it out with --drop {name}")
        return np.array(["" if _missing(text) else text.strip() for text in texts])
    for number, (text, value) in enumerate(zip(texts, known, strict=True), 1):
        if value is None and not _missing(text):
            raise DataMissing(
                f"{path}: column {name!r} has {text.strip()!r:.40} in data row {number}, but "
                f"numbers elsewhere; mend it, or say that they are names with --categorical {name}"
            )
        if value is not None and not abs(value) <= FURTHEST:
            raise DataMissing(
                f"{path}: column {name!r} has {text.strip()!r:.40} in data row {number}, which is "
                f"too large to be scaled; mend it"
            )
    return np.array([math.nan if value is None else value for value in known])


def _labels(cells: Sequence[Any], name: str, path: Path) -> npt.NDArray[np.str_]:
    texts = ["" if cell is None else str(cell).strip() for cell in cells]
    for number, text in enumerate(texts, 1):
        if _missing(text):
            raise DataMissing(f"{path}: data row {number} has no class in column {name!r}; mend it")
    numbers = [_number(text) for text in texts]
    # 1 and 1.0 are the same class.
    if all(number is not None and math.isfinite(number) for number in numbers):
        return label_texts(np.array(numbers), f"{path}: column {name!r}")
    return np.array(texts)


# Parquet


def _parquet(path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ToolMissing("Parquet tables need pyarrow (pip install 'sbnn-hw[parquet]')") from None
    try:
        with open_file(path) as content:
            file = parquet.ParquetFile(content)
            shape = file.metadata
            if shape.num_rows > MOST_ROWS or shape.num_rows * shape.num_columns > MOST_CHARACTERS:
                raise DataMissing(f"{path} has {shape.num_rows:,} rows; give fewer")
            table = file.read()
    except FileNotFoundError:
        raise DataMissing(f"There is no table at {path}") from None
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise DataMissing(f"{path} is not a Parquet table ({str(error).splitlines()[0]})") from None
    if not table.num_rows:
        raise DataMissing(f"{path} has no rows; give a row for each sample")
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        if pyarrow.types.is_nested(kind) or pyarrow.types.is_temporal(kind):
            raise DataMissing(
                f"{path}: column {name!r} holds {kind}, which is neither numbers nor names; save "
                f"the table without it"
            )
    return [str(name) for name in table.schema.names], [
        [None if value is None else str(value) for value in column.to_pylist()]
        for column in table.columns
    ]
