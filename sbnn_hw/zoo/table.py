"""The results as Markdown, and where they go in the README."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sbnn_hw.errors import OutputRefused
from sbnn_hw.files import write_text
from sbnn_hw.pareto.markdown import markdown_table
from sbnn_hw.pareto.published import NUMBERS
from sbnn_hw.zoo.numbers import value_of

__all__ = [
    "BEGIN",
    "END",
    "MARKDOWN",
    "README_MODELS",
    "markdown",
    "place",
    "readme_part",
    "split_readme",
]

#: The file that the tables are written to, in the same folder as the picture.
MARKDOWN = "bench.md"

BEGIN, END = "<!-- sbnn-hw bench -->\n", "<!-- end of sbnn-hw bench -->"

#: What the README shows: the smallest of MNIST, the best that takes an image a clock, one that
#: takes a pixel a clock, Fashion-MNIST and CIFAR-10.
README_MODELS = (
    *("mnist_2k", "mnist_16k_zero", "mnist_pixel_2k", "fashion_pixel_6k", "cifar10_pixel_20k"),
)

_UNKNOWN = "–"


def _count(value: Any) -> str:
    return _UNKNOWN if value is None else f"{value:,.10g}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2%}"


def markdown(results: dict[str, Any]) -> str:
    """Return the tables: what is measured here, the dense networks, and what others published."""
    parts = [_TITLE]
    if results["quick"]:
        parts.append("A quick run: on a part of the test images, without place and route.\n")
    parts += [_ABOUT_MODELS, _models(results), _ABOUT_SPEEDS, _speeds(results)]
    if results["dense"]:
        parts += [_ABOUT_DENSE, _dense(results)]
    return "\n".join([*parts, _ABOUT_PUBLISHED, _published(results)])


_TITLE = """# What `sbnn-hw bench` measured

This page is written by the command. `docs/bench.md` explains how each number is measured.
"""

_ABOUT_MODELS = """## Models

Accuracy is that of the integer network on the whole test set; *bit-exact* tells for how many
images the hardware gave the same scores. A row of a table counts as an image; `docs/tables.md`
compares networks for tables with others. LUTs are the look-up tables of the whole network, from
raw pixels to the class, counted by Yosys after synthesis. The last two columns compare with a dense
network of the same shape, with weights −1 and +1, made by the same generator. A factor is given
only where the dense network was trained, so that its accuracy is known.
"""

_ABOUT_SPEEDS = """## Speed

Clocks are measured in simulation. 100 MHz is assumed: no tool has timed the designs for 7-series.
Fmax is the clock that nextpnr reached on an ECP5. BOPs are binary operations for one image, toggles
the bits that change for one image.
"""

_ABOUT_DENSE = """## Dense networks

Connections are the weights of each neuron's rarer sign. *Computed* LUTs are added up from the costs
of the neurons, without synthesis.
"""

_ABOUT_PUBLISHED = """## Published results

These numbers are others', not measured here. Published LUT counts are Vivado's after placing and
routing, ours are Yosys's after synthesis, and counts include different parts, as the last column
tells. *Unverified* numbers were recalled and not read again in their source.
"""


def _models(results: dict[str, Any]) -> str:
    dense = {entry["id"]: entry for entry in results["dense"]}
    columns = (
        *("model", "data", "weights", "accuracy", "bit-exact", "LUTs", "flip-flops", "BRAM", "DSP"),
        *("CARRY4", "MUXF", "LUTs of the dense network", "fewer by"),
    )
    rows = []
    for entry in results["models"]:
        beside = dense.get(entry.get("dense") or "")
        rows.append(
            [
                f"`{entry['name']}`{_marks(entry, results)}",
                entry["data"],
                _weights(entry),
                _share(value_of(entry, "accuracy")),
                _agreement(entry),
                *(_count(value_of(entry, key)) for key in _RESOURCES),
                *((_NO_DENSE, _UNKNOWN) if _lacks_dense(entry) else _against(entry, beside)),
            ]
        )
    for failure in results["failed"]:
        rest = [_UNKNOWN] * (len(columns) - 2)
        rows.append([f"`{failure['name']}`", f"failed: {failure['error']}", *rest])
    text = markdown_table(columns, rows)
    text += _about_signed(results["models"])
    if any(map(_lacks_dense, results["models"])):
        text += _ABOUT_NO_DENSE
    if any(_earlier(entry, results) for entry in results["models"]):
        text += "\nᵉ measured earlier, with code or tools that have changed since.\n"
    return text


def _weights(entry: dict[str, Any]) -> str:
    """Return the values of weights, and what shortcuts carry."""
    values, streams = _DOMAINS.get(entry["domain"], "{α, β}"), entry.get("streams")
    return f"{values}, streams of {streams['stream_bits']} bits" if streams else values


def _about_signed(entries: Sequence[dict[str, Any]]) -> str:
    text = "\nˢ weights −1, 0 and +1: an extension, the paper's networks have two values.\n"
    return text if any(entry["signed"] for entry in entries) else ""


def _marks(entry: dict[str, Any], results: dict[str, Any]) -> str:
    return ("ˢ" if entry["signed"] else "") + ("ᵉ" if _earlier(entry, results) else "")


def _earlier(entry: dict[str, Any], results: dict[str, Any]) -> bool:
    return bool(entry.get("measured_by") != results.get("measured_by"))


#: Values that weights have, up to a factor; all others are the paper's two, with ξ learned.
_DOMAINS = {"signed": "{−1, 0, +1}", "zero": "{0, β}"}

#: In place of the dense network of one with integer streams.
_NO_DENSE = "none trained"
_ABOUT_NO_DENSE = """
No untrained dense network is built beside one with integer streams: how wide its sums and streams
are follows from what training makes of them.
"""


def _lacks_dense(entry: dict[str, Any]) -> bool:
    return bool(entry.get("streams")) and not entry.get("dense")


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
    text = f"{_count(found['value'])}{mark}, {_dense_accuracy(dense)}"
    # Against a network of unknown accuracy a factor would say nothing.
    compared = luts and dense["trained"]
    return text, f"{found['value'] / luts:.1f} ×" if compared else _UNKNOWN


def _dense_accuracy(dense: dict[str, Any]) -> str:
    return _share(value_of(dense, "accuracy")) if dense["trained"] else "untrained"


def _speeds(results: dict[str, Any]) -> str:
    # Only where there are networks with integer streams.
    streams = any(entry.get("streams") for entry in results["models"])
    work = ("additions", "multiplications") if streams else ()
    columns = (
        *("model", "input", "latency, clocks", "clocks an image", "images/s at 100 MHz"),
        *("ECP5 Fmax", "images/s on ECP5", "BOPs measured", "BOPs dense", *work),
        "toggles an image",
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
                _rate(entry),
                _UNKNOWN if fmax is None else f"{fmax:.1f} MHz",
                _UNKNOWN if rate is None else f"{rate:,.0f}",
                *(_count(value_of(entry, key)) for key in ("bops", "bops_dense", *work)),
                _UNKNOWN if toggles is None else f"{toggles:,.0f}",
            ]
        )
    return markdown_table(columns, rows)


def _rate(entry: dict[str, Any]) -> str:
    return f"{value_of(entry, 'images_per_second'):,.0f}"


def _dense(results: dict[str, Any]) -> str:
    columns = ("dense network", "weights", "connections", "LUTs", "accuracy")
    rows = []
    for entry in results["dense"]:
        luts = entry["numbers"]["luts"]
        how = "by Yosys" if luts["how"] == "counted" else "computed"
        if (computed := value_of(entry, "luts_computed")) is not None:
            how += f" ({_count(computed)} computed)"
        counts = (_count(entry["weights"]), _count(entry["connections"]))
        name = f"`{entry['name']}`" if entry["trained"] else entry["name"]
        text = f"{_count(luts['value'])} {how}"
        rows.append((name, *counts, text, _dense_accuracy(entry)))
    # Some differ in nothing that is told here.
    return markdown_table(columns, dict.fromkeys(rows))


def _published(results: dict[str, Any]) -> str:
    columns = (
        *("published", "data", "accuracy", "LUTs", "gates", "BRAM", "MHz", "images/s", "FPGA"),
        "what is counted",
    )
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
    return markdown_table(columns, rows)


def readme_part(results: dict[str, Any], plot: str) -> str:
    """Return what is between the marks: the picture, by its path, five models, and a link."""
    known = {entry["name"]: entry for entry in results["models"]}
    shown = [known[name] for name in README_MODELS if name in known] or results["models"][:5]
    columns = ("model", "data", "accuracy", "bit-exact", "LUTs", "images/s at 100 MHz")
    rows = [
        [
            # What was measured earlier is marked where all is told.
            f"`{entry['name']}`{'ˢ' if entry['signed'] else ''}",
            entry["data"],
            _share(value_of(entry, "accuracy")),
            _agreement(entry),
            _count(value_of(entry, "luts")),
            _rate(entry),
        ]
        for entry in shown
    ]
    tables = PurePosixPath(plot).with_name(MARKDOWN)
    return (
        f"\n![Accuracy over look-up tables]({plot})\n\n{markdown_table(columns, rows)}"
        f"{_about_signed(shown)}\n[All models, dense networks and published results]({tables})\n\n"
    )


def split_readme(readme: Path) -> tuple[str, str]:
    """Return what is before and after the place for the results, marks included."""
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
    write_text(readme, before + readme_part(results, path) + behind)
