"""Arrays: ``.npz`` files, and those that a program hands over."""

import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions, parse_size
from sbnn_hw.data.rows import FURTHEST, LARGEST, Rows, label_texts
from sbnn_hw.errors import DataMissing
from sbnn_hw.files import open_file

__all__ = ["load_arrays", "read_npz", "rows_of"]

Array = npt.NDArray[Any]

#: Names of arrays: those of parts, or those of all rows.
_PARTS = {"train": ("x_train", "y_train"), "val": ("x_val", "y_val"), "test": ("x_test", "y_test")}
_ALL = ("x", "y")


def read_npz(path: Path, options: DataOptions) -> tuple[dict[str, Rows], str]:
    """Return the rows of each part, or of ``all``, and what they are: images, signals, a table."""
    arrays = load_arrays(path, {name for pair in (*_PARTS.values(), _ALL) for name in pair})
    parts = {part: pair for part, pair in _PARTS.items() if pair[0] in arrays}
    if not parts and "x" in arrays:
        parts = {"all": _ALL}
    if not parts or ("train" not in parts and "all" not in parts):
        found = ", ".join(_names(path)[:12]) or "nothing"
        raise DataMissing(
            f"{path} must hold x_train, y_train, x_test and y_test, or x and y; it has {found}"
        )
    rows, kinds = {}, set()
    for part, (x, y) in parts.items():
        if y not in arrays:
            raise DataMissing(f"{path} has {x}, but no {y}; add the labels")
        rows[part], kind = rows_of(arrays[x], arrays[y], f"{path}: {x}", f"{path}: {y}", options)
        kinds.add(kind)
    if len(kinds) > 1:
        raise DataMissing(f"{path} holds {' and '.join(sorted(kinds))}; its parts must be alike")
    return rows, kinds.pop()


def _names(path: Path) -> list[str]:
    with open_file(path) as content, zipfile.ZipFile(content) as archive:
        return sorted(name.removesuffix(".npy") for name in archive.namelist())


def load_arrays(path: Path, wanted: Collection[str] | None = None) -> dict[str, Array]:
    """Return the arrays of a file, those that are wanted or all; nothing in it is run."""
    try:
        with open_file(path) as content:
            with zipfile.ZipFile(content) as archive:
                inside = sum(member.file_size for member in archive.infolist())
            if inside > LARGEST:
                raise DataMissing(f"{path} unpacks to {inside:,} bytes; give fewer rows")
            content.seek(0)
            with np.load(content, allow_pickle=False) as archive:
                names = [name for name in archive.files if wanted is None or name in wanted]
                return {name: archive[name] for name in names}
    except FileNotFoundError:
        raise DataMissing(f"There is no file at {path}") from None
    except MemoryError:
        raise DataMissing(f"{path} claims arrays that are larger than the memory") from None
    except (
        *(ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error),
        *(NotImplementedError, RuntimeError, SyntaxError, TypeError, tokenize.TokenError),
    ) as error:
        # Of the archive, of what is packed in it, and of the text that describes an array.
        code = "allow_pickle" in str(error) or "Object arrays" in str(error)
        reason = "it holds Python objects, which are not read" if code else "it is damaged"
        raise DataMissing(
            f"{path} cannot be read as .npz ({reason}); save plain arrays with numpy.savez"
        ) from None


def rows_of(
    x: Array, y: Array, where: str, labels_where: str, options: DataOptions
) -> tuple[Rows, str]:
    """Return arrays as rows, and what they are."""
    labels = label_texts(np.asarray(y), labels_where)
    x = np.asarray(x)
    if x.dtype.kind not in "iufb":
        raise DataMissing(f"{where} must be numbers, not {x.dtype}")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise DataMissing(
            f"{where} has shape {x.shape}, but rows must be vectors, windows (length, channels) or "
            f"images (height, width, channels)"
        )
    if len(x) != len(labels):
        raise DataMissing(f"{where} has {len(x):,} rows, but there are {len(labels):,} labels")
    if not len(x):
        raise DataMissing(f"{where} has no rows")
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if x.dtype.kind == "f":
        # NaN is a value that is missing.
        far = (np.abs(x) > FURTHEST).reshape(len(x), -1).any(axis=1)
        if far.any():
            row = int(far.argmax())
            found = x[row].ravel()[np.abs(x[row].ravel()) > FURTHEST][0]
            raise DataMissing(
                f"{where} has {found:g} in row {row + 1}, which is too large to be scaled; mend it"
            )
    kind = options.kind or _kind_of(x, options)
    if kind == "table":
        return Rows(labels, x.reshape(len(x), 1, 1, -1)), kind
    if kind == "signals":
        if x.ndim == 4:
            raise DataMissing(
                f"{where} has shape {x.shape}, but windows of a signal are (length, channels)"
            )
        return Rows(labels, x.reshape(len(x), 1, x.shape[1], -1)), kind
    return Rows(labels, _pixels(x, where, options)), kind


def _kind_of(x: Array, options: DataOptions) -> str:
    """Return what arrays are where nobody says."""
    if x.ndim == 2:
        return "images" if options.size else "table"
    # Bytes are pictures in grey; other numbers are windows (length, channels) of a signal.
    return "images" if x.ndim == 4 or x.dtype == np.uint8 else "signals"


def _pixels(x: Array, where: str, options: DataOptions) -> Array:
    """Return images with their channels last."""
    if x.ndim > 2:
        x = x[..., None] if x.ndim == 3 else x
        if x.shape[1] in (1, 3) and x.shape[3] not in (1, 3):
            raise DataMissing(
                f"{where} has shape {x.shape}, with channels in front; move them to the end with "
                f"x.transpose(0, 2, 3, 1)"
            )
        if options.size and parse_size(options.size) != x.shape[1:3]:
            raise DataMissing(
                f"{where} has images of {x.shape[1]}×{x.shape[2]}, not {options.size}; arrays are "
                f"not scaled"
            )
        return x
    if not options.size:
        raise DataMissing(f"{where} has rows of {x.shape[1]} values; give the --size of the images")
    height, width = parse_size(options.size)
    channels, rest = divmod(x.shape[1], height * width)
    if rest or channels not in (1, 3):
        raise DataMissing(
            f"{where} has {x.shape[1]} values in a row, which are not the pixels of "
            f"{height}×{width} images in grey or colour; give another --size, or none"
        )
    return x.reshape(len(x), height, width, channels)
