"""Run docs/tutorial.ipynb from top to bottom, and keep its outputs in it."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).parents[1] / "docs/tutorial.ipynb"


def execute(folder: Path) -> nbformat.NotebookNode:
    """Return the notebook with new outputs; it starts in ``folder``."""
    notebook = nbformat.read(PAGE, as_version=4)
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    ).execute()
    # The rest is about the machine that it ran on.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.validate(notebook)
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(PAGE.parent), PAGE)
