"""Data of one's own: read, checked, split and scaled; the same each time."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.arrays import read_npz, rows_of
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.pictures import read_pictures
from sbnn_hw.data.rows import Rows
from sbnn_hw.data.scaling import apply_columns, fit_columns
from sbnn_hw.data.split import split_rows
from sbnn_hw.data.tables import ENDINGS, read_table
from sbnn_hw.datasets import Images, Split
from sbnn_hw.errors import DataMissing, UsageError
from sbnn_hw.netlist import Edge
from sbnn_hw.netlist.meaning import Meaning, Source

__all__ = ["Known", "OwnData", "from_arrays", "is_own", "make_data", "open_own"]

#: More different labels than this are no classes.
MOST_CLASSES = 1000


@dataclass(frozen=True)
class Known:
    """What a model says of the data it takes, so that others are read as its own were."""

    meaning: Meaning
    #: The network's input.
    shape: tuple[int, ...]
    bits: int

    @classmethod
    def of(cls, meaning: Meaning | None, edge: Edge) -> "Known | None":
        """Return what a network says, if it says anything."""
        return None if meaning is None else cls(meaning, edge.shape, edge.bits)


@dataclass(frozen=True, eq=False)
class OwnData:
    """Rows of one's own as images, in parts, with what their numbers mean."""

    name: str
    meaning: Meaning
    #: Bits of each value.
    bits: int
    shape: tuple[int, int, int]
    parts: dict[str, Images]
    #: What was read, in a line.
    said: str

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.meaning.classes)

    @property
    def validation(self) -> Images | None:
        """The rows to choose an epoch by, if the data have any."""
        return self.parts.get("val")

    def open(self, split: Split, root: str | Path | None = None) -> tuple[Images, int]:
        """Return one part, and the number of classes."""
        return self.load(split, root), self.classes

    def load(self, split: Split, root: str | Path | None = None) -> Images:
        """Return one part; ``root`` is for data sets that are known by name."""
        if split not in self.parts or not len(self.parts[split]):
            raise DataMissing(f"{self.name} has no {split} rows; give others, or another --split")
        return self.parts[split]


def is_own(name: str) -> bool:
    """Tell whether ``--data`` names a place of one's own, and no known data set."""
    return "/" in name or "\\" in name or name.endswith((".npz", *ENDINGS)) or Path(name).is_dir()


def open_own(
    place: str | Path, options: DataOptions | None = None, known: Known | None = None
) -> OwnData:
    """Read a folder of pictures, an ``.npz`` file or a table.

    With ``known``, columns, classes, sizes and scales are those of a model, and what does not match
    is refused.
    """
    path, options = Path(place), options or DataOptions()
    if known is not None:
        options = _as_known(options, known)
    label = ""
    if path.is_dir():
        _refuse(options, path, "a folder of pictures", "label", "drop", "categorical", "header")
        channels = known.shape[-1] if known else None
        if known is not None and known.meaning.kind != "images":
            raise DataMissing(f"{path} has pictures, but the model takes a {known.meaning.kind}")
        parts, kind = read_pictures(path, options, channels), "images"
    elif path.name.endswith(ENDINGS):
        _refuse(options, path, "a table", "gray", "kind")
        dropped = known.meaning.source.dropped if known else ()
        rows, label = read_table(path, options, dropped)
        parts, kind = {"all": rows}, "table"
        if options.size:
            parts, kind = {"all": _pixels_of(rows, path, options)}, "images"
    elif path.name.endswith(".npz"):
        _refuse(options, path, "an .npz file", "label", "drop", "categorical", "header", "gray")
        parts, kind = read_npz(path, options)
    elif path.exists():
        raise UsageError(
            f"Data must be a folder of pictures, an .npz file or a table "
            f"({', '.join(ENDINGS)}), not {path}"
        )
    else:
        raise DataMissing(f"There is nothing at {path}; give a folder, a file or a data set's name")
    return make_data(str(place), parts, kind, label, options, known)


def from_arrays(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    x_test: npt.NDArray[Any] | None = None,
    y_test: npt.NDArray[Any] | None = None,
    options: DataOptions | None = None,
    **choices: Any,
) -> OwnData:
    """Return arrays as data to train on: vectors, windows (length, channels) or images.

    Without test arrays the rows are split, as ``split`` says. ``choices`` are fields of
    :class:`DataOptions`.

    Examples
    --------
    >>> x, y = np.arange(40).reshape(20, 2) % 7, np.arange(20) % 2
    >>> from_arrays(x, y, split="80/10/10").shape
    (1, 1, 2)
    """
    options = replace(options or DataOptions(), **choices)
    parts = {}
    parts["all" if x_test is None else "train"], kind = rows_of(x, y, "x", "y", options)
    if x_test is not None:
        if y_test is None:
            raise UsageError("Test rows (x_test) need their labels (y_test)")
        parts["test"], other = rows_of(x_test, y_test, "x_test", "y_test", options)
        if other != kind:
            raise DataMissing(f"x holds {kind}, but x_test {other}; they must be alike")
    return make_data("arrays", parts, kind, "", options, None)


def _as_known(options: DataOptions, known: Known) -> DataOptions:
    """Fill in what a model says, where nothing else was asked for."""
    source, shape = known.meaning.source, known.shape
    filled: dict[str, Any] = {"label": options.label or source.label}
    if known.meaning.kind == "images":
        filled["size"] = f"{shape[0]}x{shape[1]}"
    if not options.split and source.split:
        filled |= {"split": "/".join(map(str, source.split)), "split_seed": source.seed}
    return replace(options, **filled)


def _refuse(options: DataOptions, path: Path, what: str, *names: str) -> None:
    """Refuse options that mean nothing for such data."""
    for name in names:
        if getattr(options, name) != getattr(DataOptions(), name):
            raise UsageError(f"{path} is {what}, for which --{name} means nothing; omit it")


def _pixels_of(rows: Rows, path: Path, options: DataOptions) -> Rows:
    """Return the columns of a table as the pixels of images."""
    for name, values in rows.columns.items():
        numbers = values.dtype.kind == "f"
        if (
            not numbers
            or not ((values >= 0) & (values <= 255) & (values == np.floor(values))).all()
        ):
            raise DataMissing(
                f"{path}: column {name!r} does not hold pixels, whole numbers from 0 to 255; omit "
                f"--size, or leave the column out with --drop {name}"
            )
    table = np.stack([values.astype(np.uint8) for values in rows.columns.values()], axis=1)
    made, _ = rows_of(table, rows.labels, str(path), str(path), options)
    return made


def make_data(
    name: str,
    parts: dict[str, Rows],
    kind: Any,
    label: str,
    options: DataOptions,
    known: Known | None,
) -> OwnData:
    """Split what does not come in parts, learn or check what the values mean, and scale them."""
    digest = hashlib.sha256("".join(parts[part].digest() for part in sorted(parts)).encode())
    split: tuple[int, ...] = ()
    found = sorted({text for rows in parts.values() for text in rows.labels.tolist()})
    if known is None and len(found) < 2:
        raise DataMissing(f"{name} has only the class {found[0]!r}; a classifier needs two")
    if set(parts) <= {"all", "train"}:
        rows = parts.get("all", parts.get("train"))
        assert rows is not None
        same = known is not None and digest.hexdigest() == known.meaning.source.digest
        if known is None or same:
            split = options.shares
            places = split_rows(rows.labels, options.shares, options.split_seed)
            parts = dict(zip(("train", "val", "test"), map(rows.take, places), strict=True))
        else:
            # Rows that the model has never seen: all of them test it.
            parts = {"test": rows}
    elif options.split and known is None:
        raise UsageError(f"{name} comes in parts already; omit --split")
    if known is None and not len(parts.get("test", ())):
        raise DataMissing(f"{name} has no test rows; add some, or give another --split")
    if known is None:
        source = Source(digest.hexdigest(), split, options.split_seed, label, options.drop)
        meaning, bits = _learn(name, parts["train"], kind, options, source)
    else:
        meaning, bits = known.meaning, known.bits
        _check_columns(name, next(iter(parts.values())), kind, known)
    images = {
        part: _images(name, part, rows, meaning, bits) for part, rows in parts.items() if len(rows)
    }
    shape = next(iter(images.values())).shape
    if known is not None and shape != known.shape:
        raise DataMissing(
            f"{name} has rows of {'×'.join(map(str, shape))}, but the model takes "
            f"{'×'.join(map(str, known.shape))}"
        )
    said = _say(name, parts, meaning, shape, bits)
    return OwnData(name, meaning, bits, shape, images, said)


def _learn(
    name: str, rows: Rows, kind: Any, options: DataOptions, source: Source
) -> tuple[Meaning, int]:
    """Return what training rows say of the data."""
    found = set(rows.labels.tolist())
    whole = all(text.lstrip("-").isdigit() for text in found)
    by: Callable[[str], Any] = int if whole else str
    classes = tuple(sorted(found, key=by))
    if len(classes) < 2:
        raise DataMissing(f"{name} has only the class {classes[0]!r} to train on; add another")
    if len(classes) > MOST_CLASSES:
        raise DataMissing(
            f"{name} has {len(classes):,} different labels in {len(rows):,} training rows, which "
            f"are no classes; name another column of classes, or give fewer"
        )
    long = next((text for text in classes if len(text) > 200), None)
    if long is not None:
        raise DataMissing(f"{name} has a class of {len(long):,} characters; shorten its name")
    columns, bits = fit_columns(rows, options, name)
    return Meaning(classes, kind, columns, source), bits


def _check_columns(name: str, rows: Rows, kind: str, known: Known) -> None:
    """Refuse other columns than those that a model was trained with."""
    meaning = known.meaning
    if kind != meaning.kind:
        what = {"images": "images", "signals": "windows of a signal", "table": "columns"}
        raise DataMissing(f"{name} holds {what[kind]}, but the model takes {what[meaning.kind]}")
    if rows.values is not None:
        return
    wanted = {
        c.name.removesuffix(f"={c.category}") if c.kind == "category" else c.name: c.kind
        for c in meaning.columns
    }
    for column, found in wanted.items():
        if column not in rows.columns:
            raise DataMissing(f"{name} has no column {column!r}, with which the model was trained")
        if (rows.columns[column].dtype.kind == "U") != (found == "category"):
            texts = "names" if found == "category" else "numbers"
            cure = f"; say so with --categorical {column}" if found == "category" else ""
            raise DataMissing(
                f"{name}: column {column!r} must hold {texts}, as those that the model was trained "
                f"with{cure}"
            )
    for column in rows.columns:
        if column not in wanted:
            raise DataMissing(
                f"{name} has a column {column!r}, with which the model was not trained; leave it "
                f"out with --drop {column}"
            )


def _images(name: str, part: str, rows: Rows, meaning: Meaning, bits: int) -> Images:
    numbers = {text: number for number, text in enumerate(meaning.classes)}
    labels = np.array([numbers.get(text, -1) for text in rows.labels.tolist()])
    if (labels < 0).any():
        first = int((labels < 0).argmax())
        raise DataMissing(
            f"{name}: {rows.place(first)} of the {part} rows has the class "
            f"{str(rows.labels[first])!r:.60}, which no training row has; mend it, or remove it"
        )
    if meaning.columns:
        pixels = apply_columns(rows, meaning.columns, bits)
    else:
        assert rows.values is not None
        if rows.values.dtype != np.uint8:
            raise DataMissing(f"{name} must hold bytes, as the model's own images, for {part}")
        pixels = rows.values
    return Images(pixels, labels.astype(np.uint8 if len(numbers) <= 256 else np.int64))


def _say(
    name: str, parts: dict[str, Rows], meaning: Meaning, shape: tuple[int, ...], bits: int
) -> str:
    """Return what was read, in a line."""
    counted: Counter[str] = Counter()
    for rows in parts.values():
        counted.update(rows.labels.tolist())
    shown = [f"{text} {counted[text]:,}" for text in meaning.classes[:6]]
    if len(meaning.classes) > 6:
        shown.append("…")
    words = {"train": "to train", "val": "to choose by", "test": "to test"}
    split = ", ".join(f"{len(parts[p]):,} {words[p]}" for p in words if len(parts.get(p, ())))
    size = "×".join(map(str, shape))
    what = {
        "images": f"images of {size}",
        "signals": f"windows of {shape[1]} × {shape[2]} values",
        "table": f"{shape[2]} columns",
    }[meaning.kind]
    return (
        f"{name}: {counted.total():,} rows ({split}), {len(meaning.classes)} classes "
        f"({', '.join(shown)}), {what}, integers of {bits} bit{'s' * (bits > 1)}"
    )
