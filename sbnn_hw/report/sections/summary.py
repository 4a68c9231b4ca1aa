"""What stands above all sections, and the figures that one asks for first."""

from pathlib import PurePath

from sbnn_hw.report import pieces, verdicts
from sbnn_hw.report.markup import SPACE, Child, Markup, decimal, number, rate, share, tag, times
from sbnn_hw.report.schema import Report

__all__ = ["heading", "summary"]


def heading(report: Report) -> Markup:
    """Return what stands above all sections: what was built, for what, and how it went."""
    place = report.board_title or report.board
    words = [word for word in (place, report.part) if word]
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


def summary(report: Report) -> pieces.Section:
    """Return the figures that one asks for first, and what the network is."""
    bops, target = report.bops, report.clock_mhz
    slow = verdicts.timing(report).state == "bad"
    at_clock = None if target is None else f"at {decimal(target)}{SPACE}MHz"
    if at_clock is not None and slow:
        at_clock += ", which is not met"
    density = report.density
    with_shell = None if report.design is None else report.design.luts
    saved = _saving(bops.dense, bops.static)
    right = pieces.right_answers(report)
    tiles = [
        pieces.tile(
            "LUTs in the network",
            report.luts,
            note=None
            if with_shell is None
            else f"{number(with_shell)} with the {pieces.around(report)}",
            missing="not synthesised",
        ),
        pieces.tile(
            "LUTs per connection",
            report.luts_per_connection,
            show=lambda value: f"{value:.2f}",
            note="with all arithmetic of integers" if bops.multiplications else None,
            missing="not synthesised",
        ),
        pieces.tile(
            "Connections",
            report.connections,
            note=None if density is None else f"{share(density)} of the weights are 1",
        ),
        pieces.tile("Test accuracy", report.accuracy, show=share, note=right),
        pieces.tile(
            "Fmax",
            report.fmax_mhz,
            show=decimal,
            unit="MHz",
            note=None if target is None else f"target {decimal(target)}{SPACE}MHz",
            bad=slow,
        ),
        pieces.tile("Images per second", report.images_per_second, show=rate, note=at_clock),
        pieces.tile(
            "Latency",
            report.latency_ns,
            show=rate,
            unit="ns",
            note=None
            if report.latency_cycles is None
            else pieces.plural(report.latency_cycles, "cycle"),
        ),
        pieces.tile("Operations per image", bops.static, note=saved, missing="not counted"),
    ]
    facts: list[tuple[str, Child]] = [
        ("Model", PurePath(report.model).name or report.model),
        ("Board", report.board or pieces.absent("none")),
        ("Part", report.part or pieces.absent("not known")),
        ("Family", report.family or pieces.absent("not known")),
        ("Input", pieces.image(report.input)),
        ("Classes", number(report.output.classes)),
        ("Weights", pieces.known(report.weights, "not known")),
        ("Weights that are 1", pieces.known(report.ones, "not known")),
        ("LUT levels per stage", pieces.known(report.levels_per_stage, "not known")),
        *([("Bitstream", report.bitstream)] if report.bitstream else []),
        ("Network", tag("code", report.network[:16], title=report.network)),
    ]
    return pieces.section(
        "summary", "Summary", None, tag("dl", tiles, class_="tiles"), pieces.facts(facts)
    )


def _saving(dense: int | None, sparse: int | None) -> str | None:
    if not dense or not sparse:
        return None
    return f"{times(dense / sparse)} times fewer than dense"
