"""The sections about the design and its build; what is not known is said to be so."""

import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from sbnn_hw.report import charts, pieces, verdicts
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import (
    SPACE,
    Child,
    Markup,
    decimal,
    number,
    rate,
    seconds,
    share,
    tag,
    times,
)

__all__ = ["heading", "pipeline", "steps", "summary", "timing", "tools", "utilisation"]


def heading(report: dict[str, Any]) -> Markup:
    """Return what stands above all sections: what was built, for what, and how it went."""
    place = report["board_title"] or report["board"]
    words = [word for word in (place, report["part"]) if word]
    where = " · ".join(words) if words else "No board"
    found = (
        verdicts.agreement(report),
        verdicts.fit(report),
        verdicts.timing(report),
        verdicts.bitstream(report),
    )
    return tag(
        "div",
        tag("p", "sbnn-hw build report", class_="eyebrow"),
        tag("h1", pieces.model_name(report)),
        tag("p", where, class_="lead"),
        tag("div", [pieces.verdict_box(verdict) for verdict in found], class_="verdicts"),
    )


def summary(report: dict[str, Any]) -> pieces.Section:
    """Return the figures that one asks for first, and what the network is."""
    bops, target = report["bops"], report["clock_mhz"]
    slow = verdicts.timing(report).state == "bad"
    at_clock = None if target is None else f"at {decimal(target)}{SPACE}MHz"
    if at_clock is not None and slow:
        at_clock += ", which is not met"
    density = report["density"]
    design = report["design"] or {}
    with_shell = design.get("luts")
    saved = _saving(bops["dense"], bops["static"])
    right = pieces.right_answers(report)
    tiles = [
        pieces.tile(
            "LUTs in the network",
            report["luts"],
            note=None
            if with_shell is None
            else f"{number(with_shell)} with the {pieces.around(report)}",
            missing="not synthesised",
        ),
        pieces.tile(
            "LUTs per connection",
            report["luts_per_connection"],
            show=lambda value: f"{value:.2f}",
            missing="not synthesised",
        ),
        pieces.tile(
            "Connections",
            report["connections"],
            note=None if density is None else f"{share(density)} of the weights are 1",
        ),
        pieces.tile("Test accuracy", report["accuracy"], show=share, note=right),
        pieces.tile(
            "Fmax",
            report["fmax_mhz"],
            show=decimal,
            unit="MHz",
            note=None if target is None else f"target {decimal(target)}{SPACE}MHz",
            bad=slow,
        ),
        pieces.tile("Images per second", report["images_per_second"], show=rate, note=at_clock),
        pieces.tile(
            "Latency",
            report["latency_ns"],
            show=rate,
            unit="ns",
            note=None
            if report["latency_cycles"] is None
            else pieces.plural(report["latency_cycles"], "cycle"),
        ),
        pieces.tile("Operations per image", bops["static"], note=saved, missing="not counted"),
    ]
    facts: list[tuple[str, Child]] = [
        ("Model", PurePath(report["model"]).name or report["model"]),
        ("Board", report["board"] or pieces.absent("none")),
        ("Part", report["part"] or pieces.absent("not known")),
        ("Family", report["family"] or pieces.absent("not known")),
        ("Input", _input(report)),
        ("Classes", number(report["output"]["classes"])),
        ("Weights", pieces.known(report["weights"], "not known")),
        ("Weights that are 1", pieces.known(report["ones"], "not known")),
        ("LUT levels per stage", pieces.known(report["levels_per_stage"], "not known")),
        *([("Bitstream", report["bitstream"])] if report["bitstream"] else []),
        ("Network", tag("code", report["network"][:16], title=report["network"])),
    ]
    return pieces.section(
        "summary",
        "Summary",
        None,
        tag("dl", tiles, class_="tiles"),
        pieces.facts(facts),
    )


def _input(report: dict[str, Any]) -> str:
    edge = report["input"]
    return f"{pieces.shape(edge['shape'])} of {pieces.plural(edge['bits'], 'bit')}"


def _saving(dense: int | None, sparse: int | None) -> str | None:
    if not dense or not sparse:
        return None
    return f"{times(dense / sparse)} times fewer than dense"


def pipeline(report: dict[str, Any]) -> pieces.Section:
    """Return the block diagram: input, stages, class, with the widths of what lies between."""
    edge, output, stages = report["input"], report["output"], report["stages"]
    most = max((stage["tables"] or 0 for stage in stages), default=0)
    hops = []
    block = _block("Input", [_input(report)], look="end")
    wires: str | None = _words_in(edge)
    spoken = [f"input {_input(report)}"]
    for stage in stages:
        hops.append(_hop(block, wires))
        block = _stage_block(stage, most)
        spoken.append(_stage_spoken(stage))
        # A stage without hardware of its own, as flattening, passes on what it gets.
        if stage["width"] != 0:
            wires = _bits(stage["width"])
    if output["width"] is not None:
        wires = _bits(output["width"])
    answer = f"one of {number(output['classes'])}"
    last = tag("div", _block("Class", [answer], look="end"), class_="hop")
    hops += [_hop(block, wires), last]
    spoken.append(f"class, {answer}")
    rows = [
        (
            stage["name"],
            stage["kind"],
            pieces.shape(stage["shape"]) if stage["shape"] else "–",
            pieces.dash(stage["width"]),
            pieces.dash(stage["neurons"]),
            pieces.dash(stage["connections"]),
            pieces.dash(stage["tables"]),
            pieces.dash(stage["registers"]),
            pieces.dash(stage["latency"]),
            _xi(stage) or "–",
        )
        for stage in stages
    ]
    head = (
        "Stage",
        "Kind",
        "Shape",
        "Bits out",
        "Neurons",
        "Connections",
        "LUTs",
        "Registers",
        "Cycles",
        "ξ",
    )
    return pieces.section(
        "pipeline",
        "Pipeline",
        _pace(report),
        pieces.figure(
            f"Block diagram of the pipeline: {'; '.join(spoken)}.",
            tag("div", hops, class_="pipeline"),
        ),
        tag(
            "p",
            "LUTs and flip-flops (FFs) are those in the generated Verilog; the bars compare the "
            "LUTs of the stages. Dashed blocks are only wires.",
            class_="quiet",
        ),
        pieces.table(head, rows, "Stages as a table") if rows else None,
    )


def _pace(report: dict[str, Any]) -> str | None:
    latency, interval = report["latency_cycles"], report["initiation_interval"]
    words = []
    if latency is not None:
        words.append(
            f"An image takes {pieces.plural(latency, 'cycle')} from its first input word to its "
            "class."
        )
    if interval is not None:
        every = "every cycle" if interval == 1 else f"every {number(interval)} cycles"
        words.append(f"A new image can start {every}.")
    return " ".join(words) or None


def _words_in(edge: dict[str, Any]) -> str:
    if edge["width"] is None:
        return pieces.plural(math.prod(edge["shape"]) * edge["bits"], "bit")
    width = pieces.plural(edge["width"], "bit")
    return width if edge["beats"] in (None, 1) else f"{width} × {number(edge['beats'])} words"


def _bits(width: int | None) -> str | None:
    return None if width is None else pieces.plural(width, "bit")


def _hop(block: Markup, wires: str | None) -> Markup:
    """Return a block with the arrow that leaves it: where a line ends, it leads to the next."""
    edge = tag("div", tag("span", wires), tag("span", class_="wire"), class_="edge")
    return tag("div", block, edge, class_="hop")


def _block(name: str, lines: Sequence[str], *rest: Child, look: str = "") -> Markup:
    return tag(
        "div",
        tag("h3", name),
        [tag("p", line) for line in lines],
        *rest,
        class_=f"block {look}".strip(),
    )


def _stage_block(stage: dict[str, Any], most: int) -> Markup:
    wires_only = stage["tables"] == 0 and stage["registers"] == 0
    kind = stage["kind"]
    if stage["shape"]:
        kind += f" · {pieces.shape(stage['shape'])}"
    lines = [kind]
    if stage["connections"]:
        lines.append(pieces.plural(stage["connections"], "connection"))
    xi = _xi(stage)
    if xi is not None:
        lines.append(f"ξ = {xi}")
    if wires_only:
        return _block(stage["name"], [*lines, "only wires"], look="wires")
    costs = []
    if stage["tables"] is not None:
        costs.append(pieces.plural(stage["tables"], "LUT"))
    if stage["registers"] is not None:
        costs.append(pieces.plural(stage["registers"], "FF"))
    if stage["latency"] is not None:
        costs.append(pieces.plural(stage["latency"], "cycle"))
    picture = None
    if stage["tables"] is not None and most:
        picture = charts.bar([Bar(0, stage["tables"] / most, "core")], height=5)
    cost = tag("p", [tag("span", cost) for cost in costs], class_="cost") if costs else None
    return _block(stage["name"], lines, cost, picture)


def _stage_spoken(stage: dict[str, Any]) -> str:
    words = [f"{stage['name']}, {stage['kind']}"]
    for key, name in (("tables", "LUT"), ("latency", "cycle"), ("width", "bit")):
        if stage[key]:
            words.append(pieces.plural(stage[key], name))
    return ", ".join(words)


def _xi(stage: dict[str, Any]) -> str | None:
    xi, k = stage["xi"], stage["k"]
    if xi is None:
        return None
    whole = number(xi).replace("-", "−")
    return whole if not k or not xi else f"{whole}/{number(2**k)}"


def utilisation(report: dict[str, Any]) -> pieces.Section:
    """Return bars of what the design takes of the board, core and shell told apart."""
    rows = verdicts.usage(report)
    place = report["board_title"] or report["board"] or report["part"] or "the part"
    parts = [_usage_row(row) for row in rows]
    spoken = [
        f"{row.name} {number(row.total)}"
        + (f" of {number(row.capacity)}, {_filled(row)}" if row.capacity is not None else "")
        for row in rows
    ]
    picture: Child = tag("p", "Nothing was counted: the design was not synthesised.")
    if rows:
        legend = [("core", "network")]
        if any(row.shell is not None for row in rows):
            legend.append(("shell", f"{pieces.around(report)}: the rest of the design"))
        if any(row.capacity is not None for row in rows):
            legend.append(("limit", "available on the part"))
        if any(row.over for row in rows):
            legend.append(("over", "more than the part has"))
        picture = (
            pieces.legend(*legend),
            pieces.figure(
                f"Cells used on {place}: {'; '.join(spoken)}.", tag("div", parts, class_="rows")
            ),
        )
    verdict = verdicts.fit(report)
    estimate = report["estimate"] or {"luts": None, "core": None, "shell": None}
    design, capacity = report["design"] or {}, report["capacity"] or {}
    names = {**verdicts.BOUNDED, "carries": "Carry cells", "dsps": "DSP blocks"}
    cells = [
        (
            name,
            pieces.dash(report[key]),
            pieces.dash(design.get(key)),
            pieces.dash(capacity.get(key)),
        )
        for key, name in names.items()
    ]
    guess = pieces.known(estimate["luts"], "not made")
    if estimate["luts"] is not None and None not in (estimate["core"], estimate["shell"]):
        guess = (
            f"{number(estimate['luts'])} ({number(estimate['core'])} network, "
            f"{number(estimate['shell'])} {pieces.around(report)})"
        )
    by = report["counted_by"]
    return pieces.section(
        "utilisation",
        "Utilisation",
        f"Counted by {by}." if by else None,
        pieces.verdict_box(verdict, large=True) if verdict.state == "bad" else None,
        picture,
        pieces.facts(
            [
                ("LUTs estimated before synthesis", guess),
                ("Connections", number(report["connections"])),
                *_placed(report),
            ]
        ),
        pieces.table(("Cells", "Network", "Whole design", "Available"), cells, "Cells as a table"),
    )


def _placed(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what place and route took of the part: of all resources those that are used."""
    return [
        (f"Placed: {name}", f"{number(used)} of {number(available)}")
        for name, (used, available) in sorted((report["placed"] or {}).items())
        if used
    ]


def _filled(row: verdicts.Usage) -> str:
    if not row.capacity:
        return "of none"
    return share(row.total / row.capacity, 1)


def _usage_row(row: verdicts.Usage) -> Markup:
    # A bar beyond what the part has shows by how much: the mark moves inwards.
    full = max(row.total, row.capacity or 0) or 1
    bound = row.capacity if row.over and row.capacity is not None else row.total
    core = row.total if row.core is None else row.core
    looks = ("guess", "guess shell") if row.estimated else ("core", "shell")
    parts = [
        Bar(0, min(core, bound) / full, looks[0]),
        Bar(min(core, bound) / full, min(row.total, bound) / full, looks[1]),
    ]
    if row.over:
        parts.append(Bar(bound / full, 1, "over"))
    mark = None if row.capacity is None else row.capacity / full
    value: list[Child] = [tag("span", number(row.total))]
    if row.capacity is not None:
        value.append(tag("span", f"of {number(row.capacity)}"))
        if row.capacity:
            value.append(tag("span", f"· {_filled(row)}"))
    detail = []
    if row.shell is not None and row.core is not None:
        detail.append(f"{number(row.core)} + {number(row.shell)}")
    if row.estimated:
        detail.append("estimate")
    name = (row.name, tag("small", ", ".join(detail)) if detail else None)
    return pieces.bar_row(
        name,
        charts.bar(parts, mark=mark),
        tag("span", value, class_="pair"),
        "bad" if row.over else "",
    )


def timing(report: dict[str, Any]) -> pieces.Section:
    """Return Fmax against the target, and how fast images go through."""
    target, fmax = report["clock_mhz"], report["fmax_mhz"]
    verdict = verdicts.timing(report)
    found = report["timing"] or {"met": None, "worst": None, "tool": None}
    picture: Child = None
    if fmax is not None:
        full = max(target or 0, fmax) * 1.08 or 1
        look = "wrong" if verdict.state == "bad" else "right"
        reached = [Bar(0, fmax / full, look)]
        mark = None if target is None else target / full
        bound = "no target" if target is None else f"target {decimal(target)}{SPACE}MHz"
        value = f"Fmax {decimal(fmax)}{SPACE}MHz"
        picture = pieces.figure(
            f"Clock: {value}, {bound}.",
            tag(
                "div",
                pieces.bar_row(
                    "Clock",
                    charts.bar(reached, mark=mark, height=22),
                    (value, tag("small", bound)),
                    "bad" if verdict.state == "bad" else "",
                ),
                class_="rows",
            ),
        )
    uart = report["uart"]
    link: Child = pieces.absent("no serial line")
    if uart is not None:
        link = f"{number(uart['baud'])} baud, {number(uart['clocks_per_bit'])} clocks per bit"
    latency: Child = pieces.known(report["latency_cycles"])
    if report["latency_cycles"] is not None:
        latency = pieces.plural(report["latency_cycles"], "cycle")
        if report["latency_ns"] is not None:
            latency = f"{rate(report['latency_ns'])}{SPACE}ns ({latency})"
    interval = report["initiation_interval"]
    facts: list[tuple[str, Child]] = [
        ("Latency", latency),
        (
            "Interval between images",
            pieces.absent() if interval is None else pieces.plural(interval, "cycle"),
        ),
        ("Images per second, network alone", _rate(report["images_per_second"])),
        ("Images per second, over the serial line", _rate(report["link_images_per_second"])),
        ("Serial line", link),
    ]
    if target is not None:
        facts.insert(0, ("Clock", f"{decimal(target)}{SPACE}MHz"))
    if found["tool"]:
        facts.append(("Measured by", found["tool"]))
    if found["worst"]:
        facts.append(("Worst path", found["worst"]))
    return pieces.section(
        "timing",
        "Timing",
        None,
        pieces.verdict_box(verdict, large=True),
        picture,
        pieces.facts(facts),
    )


def _rate(value: float | None) -> Child:
    return pieces.absent() if value is None else rate(value)


def steps(report: dict[str, Any]) -> pieces.Section:
    """Return the steps of the build one after the other, with their times and files."""
    found = report["steps"]
    total = math.fsum(step["seconds"] or 0.0 for step in found)
    rows, spoken, start = [], [], 0.0
    for step in found:
        spent = step["seconds"]
        end = start + (spent or 0.0)
        look = "cached" if step["cached"] else "core"
        part = [Bar(start / total, end / total, look)] if total else []
        took = pieces.absent() if spent is None else seconds(spent)
        rows.append(
            pieces.bar_row(
                (
                    step["name"],
                    tag("small", tag("code", step["file"])) if step["file"] else None,
                ),
                charts.bar(part, height=12),
                tag(
                    "span",
                    tag("span", took),
                    tag("span", "cached", class_="badge") if step["cached"] else None,
                    class_="pair",
                ),
            )
        )
        spoken.append(
            step["name"]
            + ("" if spent is None else f" {seconds(spent)}")
            + (", cached" if step["cached"] else "")
        )
        start = end
    if not found:
        return pieces.section("steps", "Steps", None, tag("p", pieces.absent("No step was run.")))
    cached = sum(step["cached"] for step in found)
    lead = pieces.plural(len(found), "step")
    if any(step["seconds"] is not None for step in found):
        lead += f" in {seconds(total)}"
    lead += f", {number(cached)} of them reused from an earlier build." if cached else "."
    return pieces.section(
        "steps",
        "Steps",
        lead,
        pieces.figure(f"Steps of the build: {'; '.join(spoken)}.", tag("div", rows, class_="rows")),
    )


def tools(report: dict[str, Any]) -> pieces.Section:
    """Return the versions of the tools, and the digests that name the inputs."""
    versions: list[tuple[str, Child]] = [
        (name, version or pieces.absent("version not known"))
        for name, version in sorted(report["tools"].items())
    ]
    digests: list[tuple[str, Child]] = [
        ("sbnn-hw", report["version"]),
        ("Version of report.json", number(report["schema"])),
        ("Network", tag("code", report["network"])),
        ("All inputs", tag("code", report["digest"])),
    ]
    return pieces.section(
        "tools",
        "Tools",
        None,
        pieces.facts(versions) if versions else tag("p", pieces.absent("No tool was run.")),
        pieces.facts(digests),
    )
