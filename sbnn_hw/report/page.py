"""The page: one file that opens anywhere, with nothing to load and nothing to run."""

from sbnn_hw.report import pieces
from sbnn_hw.report.markup import Markup, tag
from sbnn_hw.report.schema import Report
from sbnn_hw.report.sections import SECTIONS, heading
from sbnn_hw.report.style import CSS

__all__ = ["render"]

#: Whatever a report holds, the browser shall load nothing and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(report: Report) -> str:
    """Return a report as one self-contained HTML page."""
    parts = [part for make in SECTIONS if (part := make(report)) is not None]
    name = pieces.model_name(report)
    title = f"{name} on {report.place}" if report.place else name
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
        tag("header", heading(report), contents),
        tag("main", [part.markup for part in parts]),
        tag(
            "footer",
            tag("p", f"Made by sbnn-hw {report.version} from inputs with digest "),
            tag("p", tag("code", report.digest)),
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"
