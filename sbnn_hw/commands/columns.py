"""Tables on the terminal, as wide as what is in them."""

from collections.abc import Sequence

__all__ = ["print_columns"]


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print rows below a head; the first ``left`` columns begin, all others end, below each other.

    Examples
    --------
    >>> print_columns(("stage", "LUTs"), [("conv1", "1,024"), ("a_long_name", "7")])
    stage         LUTs
    conv1        1,024
    a_long_name      7
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (
            f"{cell:<{width}}" if number < left else f"{cell:>{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
