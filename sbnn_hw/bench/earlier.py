"""Results of an earlier run, to which others are added."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sbnn_hw.bench.published import load_peers
from sbnn_hw.bench.run import SCHEMA
from sbnn_hw.bench.table import markdown
from sbnn_hw.errors import UsageError

__all__ = ["add_to", "drawn_anew", "read_earlier", "require_whole"]


def read_earlier(path: Path, *, quick: bool) -> dict[str, Any]:
    """Return the results that are at a path, if others may be added to them."""
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        form, was_quick = results["schema"], results["quick"]
        if form == SCHEMA:
            # Whatever is looked at when tables are made is there.
            markdown(results)
            known = {entry["id"]: entry["name"] for entry in results["dense"]}
            for entry in results["models"]:
                _ = entry["problems"], entry["dense"] is None or known[entry["dense"]]
    except OSError as error:
        raise UsageError(
            f"No results at {path} to add to ({error.strerror}); leave --add away"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} has no results of sbnn-hw bench; leave --add away") from None
    if form != SCHEMA:
        raise UsageError(f"{path} has the form {form!r}, not {SCHEMA}; leave --add away")
    if was_quick != quick:
        kind = "a quick run" if was_quick else "a whole run"
        raise UsageError(f"{path} is of {kind}, and this is none; leave --add away")
    return results


def require_whole(earlier: dict[str, Any], path: Path, measured: Collection[str]) -> None:
    """Refuse results of which something is missing that is not measured now."""
    missing = [entry["name"] for entry in earlier["failed"]]
    missing += [entry["name"] for entry in earlier["models"] if entry["problems"]]
    for name in missing:
        if name not in measured:
            raise UsageError(
                f"{path} has not everything of {name}, so the README would not; measure it too, or "
                f"leave --readme away"
            )


def add_to(earlier: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return results with those of an earlier run that are not of the same models.

    What was measured by other code or tools than now is told apart by its ``measured_by``.
    """
    now = {entry["name"] for entry in (*results["models"], *results["failed"])}
    kept = [entry for entry in earlier["models"] if entry["name"] not in now]
    beside = {entry["dense"] for entry in kept}
    dense = {entry["id"]: entry for entry in earlier["dense"] if entry["id"] in beside}
    dense |= {entry["id"]: entry for entry in results["dense"]}
    failed = [entry for entry in earlier["failed"] if entry["name"] not in now]
    return results | {
        "models": sorted([*kept, *results["models"]], key=lambda entry: str(entry["name"])),
        "dense": sorted(dense.values(), key=lambda entry: (entry["name"], entry["id"])),
        "failed": failed + results["failed"],
    }


def drawn_anew(earlier: dict[str, Any]) -> dict[str, Any]:
    """Return the same results beside what others have published by now."""
    return earlier | {"published": load_peers()}
