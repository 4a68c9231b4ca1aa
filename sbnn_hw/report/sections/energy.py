"""What an image should take of energy: an estimate with its band, never a measurement."""

from sbnn_hw.report import charts, pieces
from sbnn_hw.report.charts import Bar
from sbnn_hw.report.markup import SPACE, Child, number, rate, tag
from sbnn_hw.report.schema import Report, band

__all__ = ["energy"]


def energy(report: Report) -> pieces.Section:
    """Return the band of the estimate, and what it is made of."""
    title, found = "Energy (estimate)", report.energy_estimate
    if found is None:
        return pieces.section(
            "energy",
            title,
            None,
            tag(
                "p",
                "Energy was not estimated, because toggles were not counted: build with ",
                tag("code", "--energy"),
                ".",
            ),
        )
    full = found.high * 1.05 or 1
    facts: list[tuple[str, Child]] = [
        ("Toggles per image", f"{rate(found.toggles)}, counted on {number(found.images)} images"),
        ("Energy of a toggle (estimate)", f"{found.picojoules_per_toggle:.2g}{SPACE}pJ"),
        ("Band", f"a factor of {number(found.factor)} either way"),
    ]
    if report.images_per_second is not None:
        # Nanojoules an image, times images a second.
        value, low, high = (
            report.images_per_second * each * 1e-9
            for each in (found.nanojoules, found.low, found.high)
        )
        at = f"Dynamic power at {rate(report.images_per_second)} images/s (estimate)"
        facts.append((at, band(value, low, high, "W")))
    return pieces.section(
        "energy",
        title,
        "No board was measured. Toggles of flip-flops and LUTs are counted in simulation; what "
        "each takes is estimated for the FPGA's family. The clock's own wires, memories, pins and "
        f"the {pieces.around(report)} are not in it.",
        pieces.figure(
            f"Dynamic energy: {found}.",
            tag(
                "div",
                pieces.bar_row(
                    ("Per image", tag("small", "estimate")),
                    charts.bar(
                        [Bar(found.low / full, found.high / full, "guess")],
                        mark=found.nanojoules / full,
                    ),
                    str(found),
                ),
                class_="rows",
            ),
        ),
        tag("p", found.source),
        tag("p", found.static),
        pieces.facts(facts),
    )
