"""Tables in Markdown."""

from collections.abc import Iterable, Sequence

__all__ = ["markdown_table"]


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells under their columns."""
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    # A bar in a name would begin another cell.
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"
