"""Data of one's own: read, checked, split and scaled; the same each time."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.arrays import read_npz, rows_of
from sbnn_hw.data.options import DataOptions, parse_split
from sbnn_hw.data.pictures import read_pictures
from sbnn_hw.data.rows import Rows
from sbnn_hw.data.scaling import apply_columns, fit_columns
from sbnn_hw.data.split import split_rows
from sbnn_hw.data.tables import ENDINGS, read_table
from sbnn_hw.datasets import Images, Split
from sbnn_hw.errors import DataMissing, UsageError
from sbnn_hw.netlist import Edge, Network
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

    #: Where the rows are from.
    name: str
    #: What classes and columns are called, and how values became integers.
    meaning: Meaning
    #: Bits of each value.
    bits: int
    #: Height, width and channels of a row.
    shape: tuple[int, int, int]
    #: The rows ``train``, ``val`` and ``test``.
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
        """Return the part ``"train"`` or ``"test"``, with its ``pixels`` and ``labels``.

        ``root`` is for data sets that are known by name.
        """
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
    try:
        return _read(path, str(place), options, known)
    except MemoryError:
        raise DataMissing(f"{path} does not fit in the memory; give fewer rows") from None


def _read(path: Path, name: str, options: DataOptions, known: Known | None) -> OwnData:
    label = ""
    if path.is_dir():
        _refuse(options, path, "a folder of pictures", "label", "drop", "categorical", "header")
        channels = known.shape[-1] if known else None
        if known is not None and known.meaning.kind != "images":
            raise DataMissing(f"{path} has pictures, but the model takes a {known.meaning.kind}")
        parts, kind = read_pictures(path, options, channels), "images"
    elif path.name.endswith(ENDINGS):
        _refuse(options, path, "a table", "gray", "kind")
        rows, label = _table(path, options, known)
        parts, kind = {"all": rows}, "table"
        if options.size:
            parts, kind = {"all": _pixels_of(rows, path, options)}, "images"
    elif path.name.endswith(".npz"):
        _refuse(options, path, "an .npz file", "label", "drop", "categorical", "header", "gray")
        parts, kind = read_npz(path, _array_options(options, known))
    elif path.exists():
        raise UsageError(
            f"Data must be a folder of pictures, an .npz file or a table "
            f"({', '.join(ENDINGS)}), not {path}"
        )
    else:
        raise DataMissing(f"There is nothing at {path}; give a folder, a file or a data set's name")
    return make_data(name, parts, kind, label, options, known)


def _table(path: Path, options: DataOptions, known: Known | None) -> tuple[Rows, str]:
    if known is None or known.meaning.kind != "table":
        return read_table(path, options)
    columns = known.meaning.columns
    return read_table(
        path,
        options,
        known.meaning.source.dropped,
        trained={column.source for column in columns},
        named={column.source for column in columns if column.kind == "category"},
    )


def from_arrays(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    x_test: npt.NDArray[Any] | None = None,
    y_test: npt.NDArray[Any] | None = None,
    options: DataOptions | None = None,
    *,
    network: Network | None = None,
    **choices: Any,
) -> OwnData:
    """Return arrays as data to train on or to test with.

    Parameters
    ----------
    x : array
        One row for each example: vectors, windows (length, channels) of a signal, or images
        (height, width, or height, width, channels). Images are bytes.
    y : array
        The class of each row: names or numbers.
    x_test, y_test : array, optional
        Rows to test with. Without them, all rows are split as ``split`` says.
    options : DataOptions, optional
        How the rows are read.
    network : Network, optional
        The network that the rows shall test: they are scaled as its training rows were, and other
        classes or columns are refused.
    **choices
        Fields of :class:`DataOptions`, such as ``split="80/10/10"`` or ``kind="images"``.

    Returns
    -------
    OwnData
        The rows as integers, in parts: ``data.load("test")`` has ``pixels`` and ``labels``.

    Examples
    --------
    >>> x, y = np.arange(40).reshape(20, 2) % 7, np.arange(20) % 2
    >>> from_arrays(x, y, split="80/10/10").shape
    (1, 1, 2)
    """
    options = replace(options or DataOptions(), **choices)
    known = None if network is None else Known.of(network.meaning, network.input)
    if known is not None:
        options = _array_options(_as_known(options, known), known)
    parts = {}
    parts["all" if x_test is None else "train"], kind = rows_of(x, y, "x", "y", options)
    if x_test is not None:
        if y_test is None:
            raise UsageError("Test rows (x_test) need their labels (y_test)")
        parts["test"], other = rows_of(x_test, y_test, "x_test", "y_test", options)
        if other != kind:
            raise DataMissing(f"x holds {kind}, but x_test {other}; they must be alike")
    return make_data("arrays", parts, kind, "", options, known)


def _as_known(options: DataOptions, known: Known) -> DataOptions:
    """Fill in what a model says, where nothing else was asked for."""
    filled: dict[str, Any] = {"label": options.label or known.meaning.source.label}
    if known.meaning.kind == "images":
        filled["size"] = f"{known.shape[0]}x{known.shape[1]}"
    return replace(options, **filled)


def _array_options(options: DataOptions, known: Known | None) -> DataOptions:
    """Return options for arrays, which are of the kind that a model takes if nobody says."""
    if known is None:
        return options
    return replace(options, kind=options.kind or known.meaning.kind)


def _known_split(name: str, options: DataOptions, source: Source) -> DataOptions:
    """Return options that part the rows of a training again; another split would mix them."""
    asked = parse_split(options.split) if options.split else source.split
    seed = options.split_seed if options.split or options.split_seed else source.seed
    split = "/".join(map(str, source.split))
    if (asked, seed) != (source.split, source.seed):
        raise UsageError(
            f"{name} has the rows that the model was trained on, split {split} by the seed "
            f"{source.seed}; with another split it would be tested on training rows: omit --split "
            f"and --split-seed"
        )
    return replace(options, split=split, split_seed=source.seed)


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
    if known is None and len(found) > MOST_CLASSES:
        raise DataMissing(
            f"{name} has {len(found):,} different labels in {sum(map(len, parts.values())):,} "
            f"rows, which are no classes; name another column of classes, or give fewer"
        )
    if set(parts) <= {"all", "train"}:
        rows = parts.get("all", parts.get("train"))
        assert rows is not None
        source = Source() if known is None else known.meaning.source
        same = bool(source.split) and source.digest == digest.hexdigest()
        if same:
            options = _known_split(name, options, source)
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
        cure = "give another --split" if split else "add a part called test"
        raise DataMissing(f"{name} has no test rows; {cure}")
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
    if known is not None:
        _check_shape(name, shape, known)
    said = _say(name, parts, meaning, shape, bits)
    return OwnData(name, meaning, bits, shape, images, said)


def _learn(
    name: str, rows: Rows, kind: Any, options: DataOptions, source: Source
) -> tuple[Meaning, int]:
    """Return what training rows say of the data."""
    found = set(rows.labels.tolist())
    whole = all(re.fullmatch("-?[0-9]{1,18}", text) for text in found)
    by: Callable[[str], Any] = int if whole else str
    classes = tuple(sorted(found, key=by))
    if len(classes) < 2:
        raise DataMissing(f"{name} has only the class {classes[0]!r} to train on; add another")
    columns, bits = fit_columns(rows, kind, options, name)
    return Meaning(classes, kind, columns, source), bits


def _check_columns(name: str, rows: Rows, kind: str, known: Known) -> None:
    """Refuse other columns than those that a model was trained with."""
    meaning = known.meaning
    if kind != meaning.kind:
        what = {"images": "images", "signals": "windows of a signal", "table": "columns"}
        raise DataMissing(f"{name} holds {what[kind]}, but the model takes {what[meaning.kind]}")
    if rows.values is not None:
        _check_shape(name, rows.values.shape[1:], known)
        return
    wanted = {column.source: column.kind for column in meaning.columns}
    for column, found in wanted.items():
        if column not in rows.columns:
            raise DataMissing(f"{name} has no column {column!r}, with which the model was trained")
        if found != "category":
            if rows.columns[column].dtype.kind == "U":
                raise DataMissing(
                    f"{name}: column {column!r} must hold numbers, as those that the model was "
                    f"trained with"
                )
            continue
        names = [each.category for each in meaning.columns if each.source == column]
        if not np.isin(rows.columns[column], names).any():
            raise DataMissing(
                f"{name}: column {column!r} has none of the names that the model was trained with "
                f"({', '.join(names[:6])})"
            )
    for column in rows.columns:
        if column not in wanted:
            raise DataMissing(
                f"{name} has a column {column!r}, with which the model was not trained; leave it "
                f"out with --drop {column}"
            )


def _check_shape(name: str, shape: tuple[int, ...], known: Known) -> None:
    """Refuse rows of another size than those that a model takes."""
    if shape != known.shape:
        raise DataMissing(
            f"{name} has rows of {'×'.join(map(str, shape))}, but the model takes "
            f"{'×'.join(map(str, known.shape))}"
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
        f"({', '.join(shown)}), {what}{_range(parts)}, integers of {bits} bit{'s' * (bits > 1)}"
    )


def _range(parts: dict[str, Rows]) -> str:
    """Return the smallest and the largest number that was read, in words."""
    arrays = [
        array
        for rows in parts.values()
        for array in (rows.columns.values() if rows.values is None else [rows.values])
        if array.dtype.kind != "U" and array.size
    ]
    if not arrays:
        return ""
    # NaN is less and more than nothing.
    low = np.fmin.reduce([np.fmin.reduce(array, axis=None) for array in arrays])
    high = np.fmax.reduce([np.fmax.reduce(array, axis=None) for array in arrays])
    return f" with values from {low:.4g} to {high:.4g}"
