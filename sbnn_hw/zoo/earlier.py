"""Results of an earlier run, to which new ones are added."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sbnn_hw.errors import UsageError
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.zoo.run import SCHEMA
from sbnn_hw.zoo.table import markdown

__all__ = ["add_to", "drawn_again", "read_earlier", "require_whole"]


def read_earlier(path: Path, *, quick: bool) -> dict[str, Any]:
    """Return the results that are at a path, if new ones may be added to them."""
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
        raise UsageError(f"No results at {path} to add to ({error.strerror}); omit --add") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} has no results of sbnn-hw bench; omit --add") from None
    if form != SCHEMA:
        raise UsageError(f"{path} has the form {form!r}, not {SCHEMA}; omit --add")
    if was_quick != quick:
        kinds = {True: "a quick", False: "a whole"}
        raise UsageError(
            f"{path} is of {kinds[was_quick]} run, but this is {kinds[quick]} one; omit --add"
        )
    return results


def require_whole(earlier: dict[str, Any], path: Path, measured: Collection[str]) -> None:
    """Refuse results that lack something which is not measured now."""
    missing = [entry["name"] for entry in earlier["failed"]]
    missing += [entry["name"] for entry in earlier["models"] if entry["problems"]]
    for name in missing:
        if name not in measured:
            raise UsageError(
                f"{path} lacks results of {name}, so the README would too; measure it as well, or "
                f"omit --readme"
            )


def add_to(earlier: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return results together with those that an earlier run has of other models.

    The ``measured_by`` of an entry tells whether code and tools were the same as now.
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


def drawn_again(earlier: dict[str, Any]) -> dict[str, Any]:
    """Return the same results with the published numbers as they are now."""
    return earlier | {"published": load_peers()}
