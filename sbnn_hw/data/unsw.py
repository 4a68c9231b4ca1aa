"""Network traffic with and without attacks (UNSW-NB15), as its authors and LogicNets publish it."""

from pathlib import Path

import numpy as np

from sbnn_hw.data.arrays import load_arrays
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.place import find_place
from sbnn_hw.data.rows import Rows, label_texts
from sbnn_hw.data.tables import read_table
from sbnn_hw.errors import DataMissing

__all__ = ["read_flows", "read_flows_in_bits"]

_FILES = {"train": "UNSW_NB15_training-set", "test": "UNSW_NB15_testing-set"}
_SOURCE = "UNSW Canberra publishes it as UNSW-NB15, with a training and a testing set"
_BITS_SOURCE = "Zenodo's record 4519767 has it"


def read_flows(root: Path) -> dict[str, Rows]:
    """Read the training and the testing set; the number of a row and the kind of attack go."""
    options = DataOptions(label="label", drop=("id", "attack_cat"))
    parts = {}
    for part, stem in _FILES.items():
        candidates = [f"unsw_nb15/{stem}{end}" for end in (".csv", ".csv.gz")]
        path = find_place(root, "unsw_nb15", candidates, _SOURCE)
        parts[part], _ = read_table(path, options)
    train, test = (set(parts[part].columns) for part in ("train", "test"))
    if train != test:
        raise DataMissing(
            f"The two files of unsw_nb15 below {root} differ in the column "
            f"{sorted(train ^ test)[0]!r}; fetch them again"
        )
    return parts


def read_flows_in_bits(root: Path) -> dict[str, Rows]:
    """Read the bits that LogicNets is trained on; the last column is the class."""
    candidates = [f"unsw_nb15{form}/unsw_nb15_binarized.npz" for form in ("_binarized", "")]
    path = find_place(root, "unsw_nb15_binarized", candidates, _BITS_SOURCE)
    arrays = load_arrays(path)
    parts = {}
    for part in ("train", "test"):
        rows = arrays.get(part)
        if rows is None or rows.ndim != 2 or rows.shape[1] < 2 or rows.dtype.kind not in "iufb":
            raise DataMissing(f"{path} must hold {part}, rows of bits; fetch it again")
        if not ((rows == 0) | (rows == 1)).all():
            raise DataMissing(f"{path}: {part} has values besides 0 and 1; fetch it again")
        bits = rows.astype(np.uint8)
        labels = label_texts(bits[:, -1], f"{path}: {part}")
        parts[part] = Rows(labels, bits[:, None, None, :-1])
    if parts["train"].values.shape[1:] != parts["test"].values.shape[1:]:  # type: ignore[union-attr]
        raise DataMissing(f"{path}: train and test have different columns; fetch it again")
    return parts
