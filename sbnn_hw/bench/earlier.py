"""Results of an earlier run, to which others are added."""

import json
from pathlib import Path
from typing import Any

from sbnn_hw.bench.run import SCHEMA
from sbnn_hw.errors import UsageError

__all__ = ["add_to", "read_earlier"]


def read_earlier(path: Path, *, quick: bool) -> dict[str, Any]:
    """Return the results that are at a path, if others may be added to them."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        form = (results["schema"], results["quick"])
        known = {entry["id"]: entry["name"] for entry in results["dense"]}
        for entry in results["models"]:
            # All that is looked at when rows are put together.
            _ = entry["name"], entry["dense"] is None or known[entry["dense"]]
    except OSError as error:
        raise UsageError(
            f"No results at {path} to add to ({error.strerror}); leave --add away"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} has no results of sbnn-hw bench; leave --add away") from None
    if form != (SCHEMA, quick):
        other = "a whole run" if quick else "a quick run"
        raise UsageError(f"{path} is of another form, or of {other}; leave --add away")
    return results  # type: ignore[no-any-return]


def add_to(earlier: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return results with those of an earlier run that are not of the same models.

    What was measured by other code or tools than now is told apart by its ``measured_by``.
    """
    now = {entry["name"] for entry in (*results["models"], *results["failed"])}
    kept = [entry for entry in earlier["models"] if entry["name"] not in now]
    beside = {entry.get("dense") for entry in kept}
    dense = {entry["id"]: entry for entry in earlier["dense"] if entry["id"] in beside}
    dense |= {entry["id"]: entry for entry in results["dense"]}
    return results | {
        "models": sorted([*kept, *results["models"]], key=lambda entry: str(entry["name"])),
        "dense": sorted(dense.values(), key=lambda entry: (entry["name"], entry["id"])),
    }
