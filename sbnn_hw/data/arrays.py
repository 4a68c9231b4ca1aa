"""Arrays: ``.npz`` files, and those that a program hands over."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.rows import LARGEST, Rows, label_texts
from sbnn_hw.errors import DataMissing
from sbnn_hw.files import open_file

__all__ = ["load_arrays", "read_npz", "rows_of"]

Array = npt.NDArray[Any]

#: Names of arrays: those of parts, or those of all rows.
_PARTS = {"train": ("x_train", "y_train"), "val": ("x_val", "y_val"), "test": ("x_test", "y_test")}


def read_npz(path: Path, options: DataOptions) -> tuple[dict[str, Rows], str]:
    """Return the rows of each part, or of ``all``, and what they are: images, signals, a table."""
    arrays = load_arrays(path)
    parts = {part: pair for part, pair in _PARTS.items() if pair[0] in arrays}
    if not parts and "x" in arrays:
        parts = {"all": ("x", "y")}
    if not parts or ("train" not in parts and "test" in parts):
        found = ", ".join(sorted(arrays)) or "nothing"
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


def load_arrays(path: Path) -> dict[str, Array]:
    try:
        with open_file(path) as content:
            with zipfile.ZipFile(content) as archive:
                inside = sum(member.file_size for member in archive.infolist())
            if inside > LARGEST:
                raise DataMissing(f"{path} unpacks to {inside:,} bytes; give fewer rows")
            content.seek(0)
            with np.load(content, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataMissing(f"There is no file at {path}") from None
    except MemoryError:
        raise DataMissing(f"{path} claims arrays that are larger than the memory") from None
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
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
    if len(x) != len(labels):
        raise DataMissing(f"{where} has {len(x):,} rows, but there are {len(labels):,} labels")
    if not len(x):
        raise DataMissing(f"{where} has no rows")
    if x.dtype.kind not in "iufb":
        raise DataMissing(f"{where} must be numbers, not {x.dtype}")
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if np.isinf(x).any():
        first = int(np.isinf(x.reshape(len(x), -1)).any(axis=1).argmax())
        raise DataMissing(f"{where} has an infinite value in row {first + 1}; mend it")
    if x.ndim == 2:
        if options.size:
            return Rows(labels, _pixels(x, where, options)), "images"
        return Rows(labels, x[:, None, None, :]), "table"
    if x.ndim == 3:
        # Bytes are pictures in grey; other numbers are windows (length, channels) of a signal.
        kind = options.kind or ("images" if x.dtype == np.uint8 else "signals")
        values = x[:, None, :, :] if kind == "signals" else x[..., None]
        return Rows(labels, values), kind
    if x.ndim == 4:
        if x.shape[1] in (1, 3) and x.shape[3] not in (1, 3):
            raise DataMissing(
                f"{where} has shape {x.shape}, with channels in front; move them to the end with "
                f"x.transpose(0, 2, 3, 1)"
            )
        return Rows(labels, x), options.kind or "images"
    raise DataMissing(
        f"{where} has shape {x.shape}, but rows must be vectors, windows (length, channels) or "
        f"images (height, width, channels)"
    )


def _pixels(x: Array, where: str, options: DataOptions) -> Array:
    from sbnn_hw.data.options import parse_size

    height, width = parse_size(options.size)
    channels, rest = divmod(x.shape[1], height * width)
    if rest or channels not in (1, 3):
        raise DataMissing(
            f"{where} has {x.shape[1]} values in a row, which are not the pixels of "
            f"{height}×{width} images in grey or colour; give another --size, or none"
        )
    return x.reshape(len(x), height, width, channels)
