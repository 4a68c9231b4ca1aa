"""Jets at the LHC by 16 features (JSC): the files of OpenML and of CERNBox, which differ.

OpenML has 830,000 jets as one table. CERNBox has particles as HDF5, each with its jet's features,
so that jets repeat. Both are split as LogicNets and all that compare with it do: a fifth tests,
chosen by scikit-learn's ``train_test_split`` with the seed 42.
"""

import csv
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.place import find_place
from sbnn_hw.data.rows import LARGEST, Rows
from sbnn_hw.data.tables import open_text, read_table
from sbnn_hw.errors import DataMissing, ToolMissing

__all__ = ["FEATURES", "read_arff", "read_jets_cernbox", "read_jets_openml", "usual_split"]

FEATURES = (
    *("zlogz", "c1_b0_mmdt", "c1_b1_mmdt", "c1_b2_mmdt", "c2_b1_mmdt", "c2_b2_mmdt"),
    *("d2_b1_mmdt", "d2_b2_mmdt", "d2_a1_b1_mmdt", "d2_a1_b2_mmdt", "m2_b1_mmdt", "m2_b2_mmdt"),
    *("n2_b1_mmdt", "n2_b2_mmdt", "mass_mmdt", "multiplicity"),
)
#: Gluon, quark, W, Z, top.
CLASSES = ("g", "q", "w", "z", "t")
#: In CERNBox's file every name begins so.
PREFIX = "j_"
TABLE = "t_allpar_new"

_OPENML = tuple(
    f"jsc_openml/{name}"
    for name in (
        *("hls4ml_lhc_jets_hlf.arff", "hls4ml_lhc_jets_hlf.arff.gz", "dataset.arff"),
        *("dataset_42468.pq", "hls4ml_lhc_jets_hlf.parquet"),
        *("hls4ml_lhc_jets_hlf.csv", "hls4ml_lhc_jets_hlf.csv.gz"),
    )
)
_CERNBOX = (
    "jsc_cernbox/processed-pythia82-lhc13-all-pt1-50k-r1_h022_e0175_t220_nonu_truth.z",
    "jsc_cernbox/processed-pythia82-lhc13-all-pt1-50k-r1_h022_e0175_t220_nonu_truth.h5",
)
#: Rows that are turned into numbers at a time.
_BLOCK = 1 << 16


def read_jets_openml(root: Path) -> dict[str, Rows]:
    """Read OpenML's data set 42468, as ARFF, Parquet or CSV."""
    source = "OpenML publishes it as data set 42468, hls4ml_lhc_jets_hlf"
    path = find_place(root, "jsc_openml", _OPENML, source)
    if ".arff" in path.name:
        rows = read_arff(path, "class")
    else:
        rows, _ = read_table(path, DataOptions(label="class"))
    if set(rows.columns) != set(FEATURES):
        odd = sorted(set(rows.columns) ^ set(FEATURES))[0]
        raise DataMissing(
            f"{path} must have the 16 features of jets and the column class, but differs in "
            f"{odd!r}; fetch the data set again"
        )
    return usual_split(rows)


def read_jets_cernbox(root: Path) -> dict[str, Rows]:
    """Read the HDF5 file that LogicNets is trained on; of equal rows the first stays."""
    source = "the LogicNets repository says where CERNBox has it, in examples/jet_substructure"
    path = find_place(root, "jsc_cernbox", _CERNBOX, source)
    table = _hdf5(path)
    wanted = [f"{PREFIX}{name}" for name in (*FEATURES, *CLASSES)]
    missing = next((name for name in wanted if name not in (table.dtype.names or ())), None)
    if missing is not None:
        raise DataMissing(f"{path}: {TABLE} has no column {missing!r}; fetch the data set again")
    # Adding zero makes −0 and 0 the same bytes.
    values = np.stack([table[name].astype(np.float64) + 0.0 for name in wanted], axis=1)
    _, first = np.unique(values, axis=0, return_index=True)
    values = values[np.sort(first)]
    chosen = values[:, len(FEATURES) :]
    if not ((chosen == 0) | (chosen == 1)).all() or not (chosen.sum(1) == 1).all():
        raise DataMissing(f"{path}: a row of {TABLE} has no class, or several; fetch it again")
    labels = np.array(CLASSES)[chosen.argmax(1)]
    columns = {name: values[:, number] for number, name in enumerate(FEATURES)}
    for name, column in columns.items():
        if not np.isfinite(column).all():
            raise DataMissing(f"{path}: column {PREFIX + name!r} has no number in some row")
    return usual_split(Rows(labels, columns=columns))


def usual_split(rows: Rows) -> dict[str, Rows]:
    """Part rows as ``train_test_split(test_size=0.2, random_state=42)`` of scikit-learn does."""
    order = np.random.RandomState(42).permutation(len(rows))
    tests = math.ceil(0.2 * len(rows))
    return {"train": rows.take(order[tests:]), "test": rows.take(order[:tests])}


def _hdf5(path: Path) -> npt.NDArray[Any]:
    try:
        import h5py
    except ImportError:
        raise ToolMissing("HDF5 files need h5py (pip install 'sbnn-hw[hdf5]')") from None
    try:
        with h5py.File(path, "r") as file:
            table = file.get(TABLE)
            if not isinstance(table, h5py.Dataset) or table.ndim != 1:
                raise DataMissing(f"{path} has no table {TABLE}; fetch the data set again")
            if table.external or table.is_virtual:
                raise DataMissing(f"{path}: {TABLE} is in other files, which are not read")
            if table.size * table.dtype.itemsize > LARGEST:
                raise DataMissing(f"{path} unpacks to more than {LARGEST:,} bytes; fetch it again")
            found: npt.NDArray[Any] = table[()]
            return found
    except OSError as error:
        raise DataMissing(f"{path} is not HDF5 ({str(error).splitlines()[0]})") from None


def read_arff(path: Path, label: str) -> Rows:
    """Return the rows of a dense ARFF file, whose columns are numbers but for that of classes."""
    with open_text(path) as text:
        names = _attributes(path, text)
        if label not in names:
            raise DataMissing(f"{path} has no attribute {label!r}; fetch the data set again")
        blocks: list[npt.NDArray[np.float64]] = []
        labels: list[str] = []
        for block in _blocks(path, text, len(names)):
            place = names.index(label)
            labels += [cells.pop(place).strip() for cells in block]
            try:
                blocks.append(np.array([[_number(c) for c in cells] for cells in block]))
            except ValueError as error:
                raise DataMissing(f"{path}: {error}; fetch the data set again") from None
    if not labels:
        raise DataMissing(f"{path} has no rows; fetch the data set again")
    values = np.concatenate(blocks)
    del names[names.index(label)]
    columns = {name: values[:, number] for number, name in enumerate(names)}
    return Rows(np.array(labels), columns=columns)


def _attributes(path: Path, text: Any) -> list[str]:
    """Return the names that stand before the data."""
    names: list[str] = []
    for line in text:
        words = line.strip()
        if not words or words.startswith("%"):
            continue
        key, _, rest = words.partition(" ")
        if key.lower() == "@data":
            return names
        if key.lower() == "@attribute":
            rest = rest.strip()
            quote = rest[:1] if rest[:1] in "'\"" and rest else ""
            names.append(rest[1:].split(quote)[0] if quote else rest.split()[0])
        elif key.lower() != "@relation":
            raise DataMissing(f"{path} is no ARFF file: it has {words!r:.40} before @DATA")
    raise DataMissing(f"{path} is no ARFF file: it has no @DATA")


def _blocks(path: Path, text: Any, width: int) -> Iterator[list[list[str]]]:
    reader = csv.reader(text, quotechar="'", skipinitialspace=True)
    rows = (cells for cells in reader if cells and not cells[0].startswith("%"))
    while block := list(islice(rows, _BLOCK)):
        for cells in block:
            if len(cells) != width:
                raise DataMissing(
                    f"{path}: a row has {len(cells)} cells, but there are {width} attributes; "
                    f"fetch the data set again"
                )
        yield block


def _number(cell: str) -> float:
    if cell.strip() == "?":
        return math.nan
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell!r:.40} is no number that can be scaled")
    return value
