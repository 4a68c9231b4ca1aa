"""The results as Markdown, and where they go in the README."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sbnn_hw.bench.numbers import value_of
from sbnn_hw.bench.published import NUMBERS
from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_atomically

__all__ = ["BEGIN", "END", "markdown", "place", "readme_part", "split_readme"]

BEGIN, END = "<!-- sbnn-hw bench -->\n", "<!-- end of sbnn-hw bench -->"

_UNKNOWN = "–"


def _count(value: Any) -> str:
    return _UNKNOWN if value is None else f"{value:,.10g}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2%}"


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    # A bar in a name would begin another cell.
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def markdown(results: dict[str, Any]) -> str:
    """Return the tables: what is measured here, the dense networks, and what others published."""
    parts = [_models(results), _speeds(results), _dense(results), _published(results)]
    if results["quick"]:
        parts.insert(0, "A quick run: on a part of the test images, without place and route.\n")
    return "\n".join(part for part in parts if part)


def _models(results: dict[str, Any]) -> str:
    dense = {entry["id"]: entry for entry in results["dense"]}
    columns = (
        *("model", "data", "weights", "accuracy", "bit-exact", "LUTs", "flip-flops", "BRAM", "DSP"),
        *("CARRY4", "MUXF", "LUTs, dense ±1", "fewer by"),
    )
    rows = []
    for entry in results["models"]:
        beside = dense.get(entry.get("dense") or "")
        rows.append(
            [
                f"`{entry['name']}`{_marks(entry, results)}",
                entry["data"],
                _DOMAINS.get(entry["domain"], "{α, β}"),
                _share(value_of(entry, "accuracy")),
                _agreement(entry),
                *(_count(value_of(entry, key)) for key in _RESOURCES),
                *_against(entry, beside),
            ]
        )
    for failure in results["failed"]:
        rest = [_UNKNOWN] * (len(columns) - 2)
        rows.append([f"`{failure['name']}`", f"failed: {failure['error']}", *rest])
    text = _rows(columns, rows)
    if any(entry["signed"] for entry in results["models"]):
        text += "\nˢ with signed taps, an extension of the paper's domain.\n"
    if any(_earlier(entry, results) for entry in results["models"]):
        text += "\nᵉ measured earlier, with code or tools that have changed since.\n"
    return text


def _marks(entry: dict[str, Any], results: dict[str, Any]) -> str:
    return ("ˢ" if entry["signed"] else "") + ("ᵉ" if _earlier(entry, results) else "")


def _earlier(entry: dict[str, Any], results: dict[str, Any]) -> bool:
    return bool(entry.get("measured_by") != results.get("measured_by"))


#: Values that weights have, up to a factor; all others are the paper's two, with ξ learned.
_DOMAINS = {"signed": "{−1, 0, +1}", "zero": "{0, β}"}

_RESOURCES = ("luts", "flip_flops", "brams", "dsps", "carries", "muxes")


def _agreement(entry: dict[str, Any]) -> str:
    least = min(value_of(entry, "images_equal"), value_of(entry, "images_equal_with_stalls"))
    return f"{least:,} of {entry['images']:,}"


def _against(entry: dict[str, Any], dense: dict[str, Any] | None) -> tuple[str, str]:
    luts = value_of(entry, "luts")
    if dense is None:
        return _UNKNOWN, _UNKNOWN
    found = dense["numbers"]["luts"]
    mark = " computed" if found["how"] == "computed" else ""
    fewer = _UNKNOWN if not luts else f"{found['value'] / luts:.1f} ×"
    return f"{_count(found['value'])}{mark}", fewer


def _speeds(results: dict[str, Any]) -> str:
    columns = (
        *("model", "input", "latency, clocks", "clocks an image", "images/s at 100 MHz"),
        *("ECP5 Fmax", "images/s on ECP5", "BOPs measured", "BOPs dense", "toggles an image"),
    )
    rows = []
    for entry in results["models"]:
        fmax = value_of(entry, "ecp5_fmax")
        toggles = value_of(entry, "toggles")
        rate = value_of(entry, "ecp5_images_per_second")
        rows.append(
            [
                f"`{entry['name']}`",
                f"{entry['input']} a clock",
                *(_count(value_of(entry, key)) for key in ("latency", "interval")),
                f"{value_of(entry, 'images_per_second'):,.0f}",
                _UNKNOWN if fmax is None else f"{fmax:.1f} MHz",
                _UNKNOWN if rate is None else f"{rate:,.0f}",
                *(_count(value_of(entry, key)) for key in ("bops", "bops_dense")),
                _UNKNOWN if toggles is None else f"{toggles:,.0f}",
            ]
        )
    return _rows(columns, rows)


def _dense(results: dict[str, Any]) -> str:
    if not results["dense"]:
        return ""
    columns = ("dense ±1 network", "weights", "connections", "LUTs", "accuracy")
    rows = []
    for entry in results["dense"]:
        luts = entry["numbers"]["luts"]
        how = "by Yosys" if luts["how"] == "counted" else "computed"
        if (computed := value_of(entry, "luts_computed")) is not None:
            how += f" ({_count(computed)} computed)"
        accuracy = _share(value_of(entry, "accuracy")) if entry["trained"] else "untrained"
        counts = (_count(entry["weights"]), _count(entry["connections"]))
        rows.append((entry["name"], *counts, f"{_count(luts['value'])} {how}", accuracy))
    # Some differ in nothing that is told here.
    return _rows(columns, dict.fromkeys(rows))


def _published(results: dict[str, Any]) -> str:
    columns = ("published", "data", "accuracy", "LUTs", "BRAM", "images/s", "FPGA", "LUTs include")
    rows = []
    for peer in results["published"]:
        cells = []
        for key in NUMBERS:
            found = peer["numbers"].get(key)
            text = _UNKNOWN
            if found is not None:
                text = f"{found['value']}%" if key == "accuracy" else _count(found["value"])
                text += "" if found["verified"] else " (unverified)"
            cells.append(text)
        where = peer["source"]["where"]
        linked = f"[{peer['name']}]({where})" if where.startswith("https://") else peer["name"]
        rows.append([linked, peer["data"], *cells, peer["device"] or _UNKNOWN, peer["includes"]])
    return _rows(columns, rows)


def readme_part(results: dict[str, Any], plot: str) -> str:
    """Return what stands between the marks: the picture, by its path, and the tables."""
    return f"\n![Accuracy over look-up tables]({plot})\n\n{markdown(results)}\n"


def split_readme(readme: Path) -> tuple[str, str]:
    """Return what stands before and behind the place for the results, marks included."""
    try:
        text = readme.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputRefused(f"Cannot read {readme}: {error}") from None
    pattern = f"({re.escape(BEGIN)}).*?({re.escape(END)})"
    found = list(re.finditer(pattern, text, flags=re.DOTALL))
    if len(found) != 1:
        raise OutputRefused(
            f"{readme} must have one place for the results, between {BEGIN.strip()} and {END}"
        )
    return text[: found[0].end(1)], text[found[0].start(2) :]


def place(readme: Path, results: dict[str, Any], plot: Path) -> None:
    """Put the results between their marks in a README, in one step."""
    before, behind = split_readme(readme)
    path = Path(os.path.relpath(plot, readme.parent)).as_posix()
    new = before + readme_part(results, path) + behind
    write_atomically(readme, lambda file: file.write(new.encode()))
