"""From numbers to the integers that a network takes, as the training rows suggest."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.rows import Rows
from sbnn_hw.errors import DataMissing
from sbnn_hw.netlist.meaning import Column

__all__ = ["apply_columns", "fit_columns"]

Numbers = npt.NDArray[Any]

#: Bits of columns that are cut at quantiles, where nobody says: a comparison is one look-up table.
_BITS = 6
#: Whole numbers are kept as they are if they take no more bits than this.
_EXACT = 8
#: A column of texts with more different ones than this is refused.
_CATEGORIES = 256


def fit_columns(
    rows: Rows, kind: str, options: DataOptions, where: str
) -> tuple[tuple[Column, ...], int]:
    """Return how each column becomes integers, and their bits; no columns if bytes stay bytes."""
    if rows.values is None:
        found = [
            (name, values if values.dtype.kind == "U" else values.astype(float))
            for name, values in rows.columns.items()
        ]
    elif (
        rows.values.dtype == np.uint8
        and options.scaling == "auto"
        and options.input_bits in (0, 8)
        and kind == "images"
    ):
        return (), 8
    else:
        channels = rows.values.shape[-1]
        found = [(f"x{n}", rows.values[..., n].ravel().astype(float)) for n in range(channels)]
    if kind == "images" and options.scaling == "auto":
        # Brightness has a scale of its own, that of bytes.
        options = replace(options, scaling="affine", input_bits=options.input_bits or _EXACT)
    exact = {name: _exact_bits(values, options) for name, values in found}
    bits = options.input_bits or max(
        1, *(_BITS if need is None else need for need in exact.values())
    )
    columns: list[Column] = []
    for name, values in found:
        if values.dtype.kind == "U":
            columns += _categories(name, values, where)
        else:
            columns.append(_numeric(name, values, exact[name] is not None, bits, options, where))
    return tuple(columns), bits


def apply_columns(rows: Rows, columns: tuple[Column, ...], bits: int) -> npt.NDArray[Any]:
    """Return rows as integers (count, height, width, channels)."""
    most = (1 << bits) - 1
    if rows.values is not None:
        shape, kept = rows.values.shape, rows.values.astype(float)
        sources = [kept[..., number] for number in range(len(columns))]
    else:
        shape = (len(rows), 1, 1, len(columns))
        sources = [rows.columns[column.source] for column in columns]
    made = np.zeros(shape, np.uint8 if bits <= 8 else np.uint16)
    for number, (column, values) in enumerate(zip(columns, sources, strict=True)):
        made[..., number] = column.integers(values, most).reshape(shape[:-1])
    return made


def _exact_bits(values: Numbers, options: DataOptions) -> int | None:
    """Return the bits of whole numbers that can stay as they are, or nothing."""
    if values.dtype.kind == "U":
        return 1
    known = values[~np.isnan(values)]
    if not len(known):
        return 1
    span = known.max() - known.min()
    most = options.input_bits or _EXACT
    if options.scaling == "quantile" or (known != np.floor(known)).any() or span >= 1 << most:
        return None
    return max(1, int(span).bit_length())


def _categories(name: str, values: Numbers, where: str) -> list[Column]:
    found = sorted(set(values.tolist()) - {""})
    if len(found) > _CATEGORIES:
        raise DataMissing(
            f"{where}: column {name!r} has {len(found):,} different names, more than "
            f"{_CATEGORIES}; leave it out with --drop {name}"
        )
    return [Column(f"{name}={text}", "category", category=text) for text in found]


def _numeric(
    name: str, values: Numbers, exact: bool, bits: int, options: DataOptions, where: str
) -> Column:
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        raise DataMissing(
            f"{where}: column {name!r} has no number in the training rows; leave it out with "
            f"--drop {name}"
        )
    low, high = float(known[0]), float(known[-1])
    most = (1 << bits) - 1
    if exact or low == high:
        column = Column(name, offset=low)
    elif options.scaling == "affine" and math.isfinite(most / (high - low)):
        column = Column(name, offset=low, scale=most / (high - low))
    else:
        column = Column(name, "steps", bounds=_bounds(known, most))
    median = column.integers(np.array([known[len(known) // 2]]), most)
    missing = {"missing": int(median[0])}
    return Column(**{**vars(column), **missing})


def _bounds(known: Numbers, most: int) -> tuple[float, ...]:
    """Return up to ``most`` bounds, between values of sorted training rows, evenly many in each."""
    different = np.unique(known)
    if len(different) <= most + 1:
        below, above = different[:-1], different[1:]
    else:
        places = np.unique(np.round(np.arange(1, most + 1) * len(known) / (most + 1)).astype(int))
        above = np.unique(known[places])
        below = different[np.searchsorted(different, above) - 1]
    return tuple(
        middle if (middle := low + (high - low) / 2) > low and math.isfinite(middle) else high
        for low, high in zip(below.tolist(), above.tolist(), strict=True)
        if low < high
    )
