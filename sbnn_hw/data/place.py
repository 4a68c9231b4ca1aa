"""Where the files of a known data set are looked for."""

from collections.abc import Sequence
from pathlib import Path

from sbnn_hw.errors import DataMissing

__all__ = ["find_place"]


def find_place(root: Path, name: str, candidates: Sequence[str], source: str = "") -> Path:
    """Return the first of these places below a folder that is there.

    ``source`` says where the files come from, for whoever lacks them.
    """
    for candidate in candidates:
        if (path := root / candidate).exists():
            return path
    cure = f"{source}; put it there, or " if source else ""
    raise DataMissing(
        f"No {name} data at {root / candidates[0]} ({cure}point --data-root or $SBNN_DATA at the "
        f"folder that holds {candidates[0].split('/')[0]}/)"
    )
