"""The steps of the build, and the tools that it used."""

import math

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import Child, number, seconds, tag
from sbnn_hw.report.schema import Report

__all__ = ["steps", "tools"]


def steps(report: Report) -> pieces.Section:
    """Return the steps of the build one after the other, with their times and files."""
    found = report.steps
    total = math.fsum(step.seconds or 0.0 for step in found)
    rows, spoken, start = [], [], 0.0
    for step in found:
        spent = step.seconds
        end = start + (spent or 0.0)
        look = "cached" if step.cached else "core"
        part = [Bar(start / total, end / total, look)] if total else []
        took = pieces.absent() if spent is None else seconds(spent)
        rows.append(
            pieces.bar_row(
                (step.name, tag("small", tag("code", step.file)) if step.file else None),
                charts.bar(part, height=12),
                tag(
                    "span",
                    tag("span", took),
                    tag("span", "cached", class_="badge") if step.cached else None,
                    class_="pair",
                ),
            )
        )
        spoken.append(
            step.name
            + ("" if spent is None else f" {seconds(spent)}")
            + (", cached" if step.cached else "")
        )
        start = end
    if not found:
        return pieces.section("steps", "Steps", None, tag("p", pieces.absent("No step was run.")))
    cached = sum(step.cached for step in found)
    lead = pieces.plural(len(found), "step")
    if any(step.seconds is not None for step in found):
        lead += f" in {seconds(total)}"
    lead += f", {number(cached)} of them reused from an earlier build." if cached else "."
    return pieces.section(
        "steps",
        "Steps",
        lead,
        pieces.figure(f"Steps of the build: {'; '.join(spoken)}.", tag("div", rows, class_="rows")),
    )


def tools(report: Report) -> pieces.Section:
    """Return the versions of the tools, and the digests that name the inputs."""
    versions: list[tuple[str, Child]] = [
        (name, version or pieces.absent("version not known"))
        for name, version in sorted(report.tools.items())
    ]
    digests: list[tuple[str, Child]] = [
        ("sbnn-hw", report.version),
        ("Version of report.json", number(report.schema)),
        ("Network", tag("code", report.network)),
        ("All inputs", tag("code", report.digest)),
    ]
    return pieces.section(
        "tools",
        "Tools",
        None,
        pieces.facts(versions) if versions else tag("p", pieces.absent("No tool was run.")),
        pieces.facts(digests),
    )
