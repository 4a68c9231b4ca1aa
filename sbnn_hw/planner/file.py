"""The file of a plan: written beside a build, and checked whole when it is given back."""

import json
from pathlib import Path
from typing import Any

from sbnn_hw.boards.table import BOARDS, Board, Part, part_family
from sbnn_hw.errors import UsageError
from sbnn_hw.netlist import Network
from sbnn_hw.planner.choose import choose
from sbnn_hw.planner.values import SCHEMA, HardwarePlan, Wish

__all__ = ["PLAN", "check_plan", "read_plan"]

#: The name of the file in a build's folder.
PLAN = "plan.json"

_AGAIN = "make it again with `sbnn-hw plan --json`"


def read_plan(path: Path) -> dict[str, Any]:
    """Return the content of a plan's file, whose form is known; the rest is checked later."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The plan {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not a plan; {_AGAIN}") from None
    if not isinstance(content, dict) or "schema" not in content:
        raise UsageError(f"{path} is not a plan; {_AGAIN}")
    if content["schema"] != SCHEMA:
        raise UsageError(
            f"The plan {path} has form {content['schema']!r:.40}, but this release reads {SCHEMA}; "
            f"{_AGAIN}"
        )
    return content


def check_plan(
    content: dict[str, Any], path: Path, network: Network, target: Board | Part | None = None
) -> HardwarePlan:
    """Return the plan of a file, after all of it was computed once more and found equal.

    Without a target it is the one that the plan names.
    """
    from sbnn_hw.rtl_gen.options import Options

    said = content.get("network")
    if said != network.digest:
        raise UsageError(
            f"The plan {path} is for another network ({said!s:.12}, not {network.digest:.12}); "
            f"{_AGAIN}"
        )
    if target is None:
        name = str(content.get("target"))
        target = BOARDS[name] if name in BOARDS else part_family(name)
    if content.get("target") != target.name:
        raise UsageError(
            f"The plan {path} is for {content.get('target')!s:.40}, not for {target.name}; {_AGAIN}"
        )
    try:
        wish, asked = Wish(**content["wish"]), Options(**content["asked"])
        clock = content["clock_hz"]
        if not isinstance(clock, int) or clock < 1 or asked.family != target.family.name:
            raise ValueError("clock or family")
        plan = choose(network, target, clock, asked, wish, force=True)
    except (KeyError, TypeError, ValueError, UsageError):
        raise UsageError(f"The plan {path} was changed after it was made; {_AGAIN}") from None
    # As a file has it: numbers and texts, no tuples.
    right = json.loads(plan.to_json())
    if place := _difference(content, right, ""):
        raise UsageError(f"The plan {path} was changed after it was made ({place}); {_AGAIN}")
    return plan


def _difference(given: Any, right: Any, place: str) -> str:
    """Return where two plain values differ, and how; nothing if they are equal."""
    if isinstance(given, dict) and isinstance(right, dict):
        for key in sorted({*given, *right}):
            inner = f"{place}.{key}" if place else str(key)
            if key not in given or key not in right:
                return f"{inner} is {'unknown' if key in given else 'missing'}"
            if found := _difference(given[key], right[key], inner):
                return found
        return ""
    if isinstance(given, list) and isinstance(right, list) and len(given) == len(right):
        pairs = enumerate(zip(given, right, strict=True))
        return next((d for n, (a, b) in pairs if (d := _difference(a, b, f"{place}[{n}]"))), "")
    # True is 1 to Python, and not in a file.
    same = given == right and type(given) is type(right)
    return "" if same else f"{place} is {given!r:.40}, not {right!r:.40}"
