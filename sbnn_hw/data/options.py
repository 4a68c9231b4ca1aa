"""How data of one's own are to be read: which column, which size, which split."""

import re
from dataclasses import dataclass

from sbnn_hw.errors import UsageError

__all__ = ["DataOptions", "parse_size", "parse_split"]

#: Training, validation and test rows, where nobody says.
DEFAULT_SPLIT = (80, 10, 10)
SCALINGS = ("auto", "affine", "quantile")
HEADERS = ("auto", "yes", "no")
KINDS = ("", "images", "signals", "table")


def parse_size(text: str) -> tuple[int, int]:
    """Return height and width of a text such as ``32x32``.

    Examples
    --------
    >>> parse_size("28x32")
    (28, 32)
    """
    match = re.fullmatch(r"([1-9][0-9]{0,3})[x×]([1-9][0-9]{0,3})", text)
    if match is None:
        raise UsageError(f"--size must be HEIGHTxWIDTH, such as 32x32, not {text!r}")
    return int(match[1]), int(match[2])


def parse_split(text: str) -> tuple[int, int, int]:
    """Return the shares of training, validation and test rows of a text such as ``80/10/10``."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})/([0-9]{1,9})", text)
    shares = tuple(int(part) for part in match.groups()) if match else ()
    if len(shares) != 3 or not shares[0] or not shares[2]:
        raise UsageError(
            f"--split must be TRAIN/VALIDATION/TEST, such as 80/10/10, with training and test "
            f"rows, not {text!r}"
        )
    return shares[0], shares[1], shares[2]


@dataclass(frozen=True)
class DataOptions:
    """Choices for data of one's own; the defaults suit most."""

    #: The column that holds the class: its name, or its number from 1.
    label: str = ""
    #: Height and width; pictures are scaled to it, and the columns of a table are its pixels.
    size: str = ""
    #: Whether coloured pictures become grey ones.
    gray: bool = False
    #: Shares of training, validation and test rows, of data that do not come in parts.
    split: str = ""
    #: Chooses which rows.
    split_seed: int = 0
    #: Columns that are not used.
    drop: tuple[str, ...] = ()
    #: Columns whose numbers are names.
    categorical: tuple[str, ...] = ()
    #: Whether a table begins with names of columns: ``auto``, ``yes`` or ``no``.
    header: str = "auto"
    #: Bits of each integer that the network takes (0: as few as are needed).
    input_bits: int = 0
    #: How numbers become integers: ``affine``, ``quantile``, or ``auto``, which keeps small
    #: integers as they are and takes quantiles for all else.
    scaling: str = "auto"
    #: What arrays of three axes hold: ``images`` or ``signals``; empty chooses by their type.
    kind: str = ""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("--header", self.header, HEADERS),
            ("--scaling", self.scaling, SCALINGS),
            ("--kind", self.kind, KINDS),
        ):
            if value not in choices:
                known = ", ".join(choice for choice in choices if choice)
                raise UsageError(f"{name} must be one of {known}, not {value!r}")
        if self.input_bits not in range(17):
            raise UsageError(f"--input-bits must be between 1 and 16, not {self.input_bits}")
        if not 0 <= self.split_seed < 2**63:
            raise UsageError(f"--split-seed must not be negative, not {self.split_seed}")
        if self.size:
            parse_size(self.size)
        if self.split:
            parse_split(self.split)

    @property
    def shares(self) -> tuple[int, int, int]:
        """Shares of training, validation and test rows."""
        return parse_split(self.split) if self.split else DEFAULT_SPLIT
