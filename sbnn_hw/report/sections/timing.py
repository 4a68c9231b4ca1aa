"""How fast the clock is, and how fast images go through."""

from sbnn_hw.report import charts, pieces, verdicts
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import SPACE, Child, decimal, number, rate, tag
from sbnn_hw.report.schema import Report, RoutedTiming

__all__ = ["timing"]


def timing(report: Report) -> pieces.Section:
    """Return Fmax against the target, and how fast images go through."""
    target, fmax = report.clock_mhz, report.fmax_mhz
    verdict = verdicts.timing(report)
    found = report.timing or RoutedTiming()
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
    uart = report.uart
    link: Child = pieces.absent("no serial line")
    if uart is not None:
        link = f"{number(uart.baud)} baud, {number(uart.clocks_per_bit)} clocks per bit"
    elif report.link is not None and report.link_images_per_second is not None:
        link = report.link  # A line without a baud rate tells its own.
    latency: Child = pieces.known(report.latency_cycles)
    if report.latency_cycles is not None:
        latency = pieces.plural(report.latency_cycles, "cycle")
        if report.latency_ns is not None:
            latency = f"{rate(report.latency_ns)}{SPACE}ns ({latency})"
    interval = report.initiation_interval
    facts: list[tuple[str, Child]] = [
        ("Latency", latency),
        (
            "Interval between images",
            pieces.absent() if interval is None else pieces.plural(interval, "cycle"),
        ),
        ("Images per second, network alone", _rate(report.images_per_second)),
        ("Images per second, over the serial line", _rate(report.link_images_per_second)),
        ("Serial line", link),
    ]
    if target is not None:
        facts.insert(0, ("Clock", f"{decimal(target)}{SPACE}MHz"))
    if found.tool:
        facts.append(("Measured by", found.tool))
    if found.worst:
        facts.append(("Worst path", found.worst))
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
