"""What ``--data`` names: a data set that is known, or data of one's own."""

import difflib
from pathlib import Path
from typing import Any

from sbnn_hw.data.known import KNOWN, open_known
from sbnn_hw.data.options import DataOptions
from sbnn_hw.data.own import Known, OwnData, is_own, open_own
from sbnn_hw.datasets import DATASETS, Dataset
from sbnn_hw.errors import UsageError
from sbnn_hw.netlist import Network

__all__ = ["KINDS", "find_data", "is_known", "open_data"]

#: What may be named, in words.
KINDS = f"{', '.join((*DATASETS, *KNOWN))}; or a folder of pictures, an .npz file, or a table"


def is_known(name: str) -> bool:
    """Tell whether a data set is known by that name."""
    return name in DATASETS or name in KNOWN


def open_data(
    place: str | Path,
    *,
    network: Network | None = None,
    root: str | Path | None = None,
    **choices: Any,
) -> Dataset | OwnData:
    """Read data of your own, or find a known data set.

    Parameters
    ----------
    place : str or Path
        A folder of pictures, an ``.npz`` file, a table (``.csv``, ``.tsv``, ``.parquet``), or the
        name of a data set, such as ``"digits"``.
    network : Network, optional
        The network that the data shall test: they are read as its training data were.
    root : str or Path, optional
        The folder of the data sets that have names.
    **choices
        Fields of :class:`DataOptions`, such as ``label="species"`` or ``size="28x28"``.

    Returns
    -------
    OwnData or Dataset
        ``data.load("test")`` has ``pixels`` and ``labels``.

    Examples
    --------
    >>> open_data("digits").load("test").pixels.shape
    (360, 8, 8, 1)
    """
    known = None if network is None else Known.of(network.meaning, network.input)
    return find_data(str(place), DataOptions(**choices), known, root=root)


def find_data(
    name: str,
    options: DataOptions | None = None,
    known: Known | None = None,
    *,
    root: str | Path | None = None,
) -> Dataset | OwnData:
    """Return the data of a name, or those at a place.

    ``known`` is what a model says of the data it takes. ``root`` is the folder of data sets.
    """
    options = options or DataOptions()
    # A folder that has the name of a data set is ./NAME.
    if not is_known(name) and is_own(name):
        return open_own(name, options, known)
    if is_known(name):
        for field, value in vars(options).items():
            if value != getattr(DataOptions(), field):
                raise UsageError(
                    f"{name} is a known data set, for which --{field.replace('_', '-')} means "
                    f"nothing; omit it"
                )
        return DATASETS[name] if name in DATASETS else open_known(name, root, known)
    near = difflib.get_close_matches(name, [*DATASETS, *KNOWN, *_beside(name)], 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    what = (
        "is neither a folder, nor an .npz file or a table by its ending"
        if Path(name).exists()
        else f"is neither a file or folder nor a data set{hint}"
    )
    raise UsageError(f"{name!r} {what}; data are one of {KINDS}")


def _beside(name: str) -> list[str]:
    """Return what lies where a place was looked for, as it would be named."""
    folder = Path(name).parent
    try:
        return [str(folder / each.name) for each in folder.iterdir()]
    except (OSError, ValueError):
        return []
