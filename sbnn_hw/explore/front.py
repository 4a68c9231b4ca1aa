"""The Pareto front of a study: which trials are on it, and what is kept and written of them."""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from sbnn_hw import __version__
from sbnn_hw.files import write_text
from sbnn_hw.pareto.markdown import markdown_table
from sbnn_hw.pareto.picture import draw_points
from sbnn_hw.pareto.points import Point, front, points_of_peers
from sbnn_hw.pareto.published import load_peers
from sbnn_hw.train.config import TrainConfig

__all__ = ["JSON", "MARKDOWN", "PLOT", "Finding", "checkpoint_name", "pareto", "write_front"]

JSON, MARKDOWN, PLOT = "front.json", "front.md", "front"
SCHEMA = 1


@dataclass(frozen=True)
class Finding:
    """A trial that ran to its end."""

    number: int  # Of the trial in its study.
    accuracy: float  # Share of validation images in the right class.
    luts: int  # Look-up tables, estimated.
    config: dict[str, Any] = field(default_factory=dict)  # The training run, in plain values.
    host: str = ""  # Where it ran.
    seconds: float = 0.0  # How long it took.


def pareto(findings: Iterable[Finding]) -> list[Finding]:
    """Return those that no other one beats, fewest tables first.

    Of equals the first trial stays. A network without tables says the same of every image: it is
    none of them.

    >>> sizes = [(0.9, 500), (0.8, 600), (0.95, 900)]
    >>> [f.number for f in pareto(Finding(n, *size) for n, size in enumerate(sizes))]
    [0, 2]
    """
    return front(sorted((f for f in findings if f.luts > 0), key=lambda f: f.number))


def checkpoint_name(number: int) -> str:
    """Return the name of a trial's checkpoint."""
    return f"trial-{number:05}.pt"


def command_of(config: dict[str, Any]) -> str:
    """Return the `sbnn-hw train` that does the same run."""
    words = ["sbnn-hw", "train"]
    for each in fields(TrainConfig):
        value = config.get(each.name)
        value = tuple(value) if isinstance(value, list) else value
        if value is None or (each.default is not MISSING and value == each.default):
            continue
        words.append(f"--{each.name.replace('_', '-')}")
        if isinstance(value, tuple):
            words += map(str, value)
        elif value is not True:
            words.append(str(value))
    return shlex.join([*words, "--out", "ckpt.pt"])


def write_front(
    out: Path, findings: Sequence[Finding], facts: dict[str, Any], counts: dict[str, int]
) -> dict[str, Any]:
    """Write the front as JSON, Markdown and picture; return it in plain values."""
    best = pareto(findings)
    entries = []
    for each in best:
        path = out / checkpoint_name(each.number)
        entries.append(
            {
                "trial": each.number,
                "validation": each.accuracy,
                "luts": each.luts,
                "model": each.config.get("model"),
                "domain": each.config.get("domain"),
                "method": each.config.get("method"),
                "seed": each.config.get("seed"),
                "epochs": each.config.get("epochs"),
                # On another machine that has a folder of its own, it lies there.
                "checkpoint": path.name if path.is_file() else None,
                "host": each.host,
                "seconds": each.seconds,
                "command": command_of(each.config),
                "config": each.config,
            }
        )
    result = {
        "schema": SCHEMA,
        "version": __version__,
        **facts,
        "units": {
            "validation": "share of validation images, by the integer network; the epoch was "
            "chosen on them too",
            "luts": "LUT of a 7-series FPGA, of the design as it would be generated, not "
            "synthesised",
        },
        "trials": counts,
        "front": entries,
    }
    text = json.dumps(result, indent=1) + "\n"
    tables = _markdown(result)
    if best:
        data = str(facts["data"])
        points = [Point(f"trial {f.number}", data, "found", f.luts, 100 * f.accuracy) for f in best]
        beaten = [f for f in findings if f.number not in {b.number for b in best}]
        points += [Point("", data, "beaten", max(1, f.luts), 100 * f.accuracy) for f in beaten]
        peers = points_of_peers(load_peers())
        draw_points([*points, *(p for p in peers if p.data == data)], out / PLOT)
    write_text(out / MARKDOWN, tables)
    write_text(out / JSON, text)
    return result


_COLUMNS = (
    *("trial", "validation", "LUTs, estimated", "network", "domain", "method", "epochs", "seed"),
    "checkpoint",
)


def _markdown(result: dict[str, Any]) -> str:
    counts = result["trials"]
    lines = [
        f"# The front of study {result['study']}, on {result['data']}",
        "",
        f"Trials: {counts['complete']} were completed, {counts['pruned']} were stopped early,",
        f"{counts['refused']} were refused. Accuracy is the integer network's on validation",
        "images, held out from the training images; no test image was used. Look-up tables",
        "are those of the design as it would be generated, with encoder, q and argmax; nothing was",
        "synthesised.",
        "",
    ]
    rows = []
    for each in result["front"]:
        mark = "ˢ" if each["domain"] == "signed" else ""
        place = f"`{each['checkpoint']}`" if each["checkpoint"] else f"on {each['host']}"
        cells = (each["model"], each["domain"] + mark, each["method"], each["epochs"], each["seed"])
        numbers = (str(each["trial"]), f"{each['validation']:.2%}", f"{each['luts']:,}")
        rows.append((*numbers, *map(str, cells), place))
    lines.append(markdown_table(_COLUMNS, rows).rstrip())
    if any(each["domain"] == "signed" for each in result["front"]):
        lines += ["", "ˢ with signed taps, an extension of the paper's domain."]
    if result["front"]:
        lines += ["", "Commands that repeat these runs:", "", "```"]
        lines += [f"{each['command']}    # trial {each['trial']}" for each in result["front"]]
        lines.append("```")
    return "\n".join(lines) + "\n"
