"""The page: one file that opens anywhere, with nothing to load and nothing to run."""

from typing import Any

from sbnn_hw.report import design_sections, network_sections, pieces
from sbnn_hw.report.form import check
from sbnn_hw.report.markup import Markup, tag
from sbnn_hw.report.style import CSS

__all__ = ["render"]

#: Whatever a report holds, the browser shall load nothing and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_SECTIONS = (
    design_sections.summary,
    design_sections.pipeline,
    design_sections.utilisation,
    design_sections.timing,
    network_sections.operations,
    network_sections.fan_in,
    network_sections.kernels,
    network_sections.agreement,
    network_sections.accuracy,
    design_sections.steps,
    design_sections.tools,
    network_sections.terms,
)


def render(report: dict[str, Any]) -> str:
    """Return a report as one self-contained HTML page.

    Parameters
    ----------
    report : dict
        What report.json holds. Its form is checked first.

    Raises
    ------
    ValueError
        If a field is missing or holds what it must not.
    """
    check(report)
    parts = [part for make in _SECTIONS if (part := make(report)) is not None]
    place = report["board_title"] or report["board"] or report["part"]
    name = pieces.model_name(report)
    title = f"{name} on {place}" if place else name
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} – sbnn-hw"),
        # Our own text, the same for every report: in it `>` must stay as it is.
        tag("style", Markup(CSS)),
    )
    contents = tag(
        "nav",
        tag("ul", [tag("li", tag("a", part.title, href=f"#{part.name}")) for part in parts]),
        aria_label="Sections",
    )
    body = tag(
        "body",
        tag("header", design_sections.heading(report), contents),
        tag("main", [part.markup for part in parts]),
        tag(
            "footer",
            tag("p", f"Made by sbnn-hw {report['version']} from inputs with digest "),
            tag("p", tag("code", report["digest"])),
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"
