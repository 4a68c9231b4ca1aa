"""What sections are made of: pictures with words, tables, facts, verdicts, tiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from sbnn_hw.report.markup import SPACE, Child, Markup, number, tag
from sbnn_hw.report.schema import NetworkInput, Report
from sbnn_hw.report.verdicts import Verdict

__all__ = [
    "Section",
    "absent",
    "around",
    "bar_row",
    "dash",
    "facts",
    "figure",
    "image",
    "known",
    "legend",
    "model_name",
    "plural",
    "right_answers",
    "section",
    "shape",
    "table",
    "tile",
    "verdict_box",
]


@dataclass(frozen=True)
class Section:
    """A section: the name that links use, its title, and its HTML."""

    name: str
    title: str
    markup: Markup


def section(name: str, title: str, lead: Child, *children: Child) -> Section:
    """Return a section with its heading and the sentence below it."""
    inner = (tag("h2", title), tag("p", lead, class_="lead") if lead else None, children)
    return Section(name, title, tag("section", *inner, id=name))


def figure(label: str, *children: Child, look: str | None = None) -> Markup:
    """Return a picture, with what it shows in words."""
    return tag("figure", *children, role="img", aria_label=label, class_=look)


def absent(words: str = "not measured") -> Markup:
    """Return what stands where a value is not known."""
    return tag("span", words, class_="absent")


def known(value: float | None, words: str = "not measured") -> Child:
    """Return a number, or that it is not known."""
    return absent(words) if value is None else number(value)


def dash(value: float | None) -> str:
    """Return a number for a table, or a dash."""
    return "–" if value is None else number(value)


def table(head: Sequence[str], rows: Sequence[Sequence[Child]], caption: str) -> Markup:
    """Return the numbers behind a picture, folded away; screen readers get them from here."""
    return tag(
        "details",
        tag("summary", caption),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
                tag(
                    "tbody",
                    [
                        tag("tr", tag("th", row[0], scope="row"), [tag("td", c) for c in row[1:]])
                        for row in rows
                    ],
                ),
            ),
            class_="scroll",
            # What scrolls must be reachable by keyboard.
            tabindex=0,
        ),
    )


def facts(rows: Sequence[tuple[str, Child]]) -> Markup:
    """Return names with their values."""
    return tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", value)) for name, value in rows],
        class_="facts",
    )


def legend(*entries: tuple[str, str]) -> Markup:
    """Return what the colours of a picture mean, each by its look."""
    return tag(
        "p",
        [tag("span", tag("i", class_=look, aria_hidden="true"), words) for look, words in entries],
        class_="legend",
    )


def verdict_box(verdict: Verdict, *, large: bool = False) -> Markup:
    """Return a judgement in its colour."""
    sign = {"good": "✓", "bad": "✗", "open": "○"}[verdict.state]
    return tag(
        "div",
        tag("strong", tag("span", sign, aria_hidden="true"), verdict.headline),
        tag("p", verdict.reason),
        class_=f"verdict {verdict.state}{' large' if large else ''}",
        # A failure is announced, not only coloured.
        role="alert" if verdict.state == "bad" else None,
    )


def bar_row(name: Child, picture: Child, value: Child, look: str = "") -> Markup:
    """Return a name, a picture and its value side by side, on phones below each other."""
    return tag(
        "div",
        tag("div", name, class_="name"),
        tag("div", picture, class_="bars"),
        tag("div", value, class_="value bad" if look == "bad" else "value"),
        class_="row sum" if look == "sum" else "row",
    )


def tile(
    name: str,
    value: float | None,
    *,
    show: Callable[[float], str] = number,
    unit: str | None = None,
    note: str | None = None,
    missing: str = "not measured",
    bad: bool = False,
) -> Markup:
    """Return a figure that stands out, with its unit and a note below."""
    shown: Child = absent(missing)
    if value is not None:
        shown = (show(value), (SPACE, tag("span", unit, class_="unit")) if unit else None)
    return tag(
        "div",
        tag("dt", name),
        tag("dd", shown, class_="figure bad" if bad else "figure"),
        tag("dd", note, class_="note") if note else None,
    )


def shape(sizes: Sequence[int]) -> str:
    """Return a shape as it is spoken."""
    return "×".join(map(number, sizes))


def image(edge: NetworkInput) -> str:
    """Return what the network reads, as it is spoken."""
    return f"{shape(edge.shape)} of {plural(edge.bits, 'bit')}"


def plural(count: float, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{number(count)}{SPACE}{one if count == 1 else many or one + 's'}"


def model_name(report: Report) -> str:
    """Return what the model is called: its file's name, without the folder and the ending."""
    return PurePath(report.model).stem or report.model


def around(report: Report) -> str:
    """Return what surrounds the network in the whole design."""
    return "shell" if report.board else "AXI4-Stream face"


def class_names(report: Report) -> list[str]:
    """Return what each class is called: its number, and its name if that says more."""
    numbers = [number(index) for index in range(report.output.classes)]
    names = report.output.names or numbers
    return [
        index if name == index else f"{index} {name}"
        for index, name in zip(numbers, names, strict=True)
    ]


def right_answers(report: Report) -> str | None:
    """Return how many images were right, of how many if that is known, and of what data."""
    words = []
    if report.correct is not None:
        of = sum(map(sum, report.confusion)) if report.confusion else None
        words.append(
            f"{number(report.correct)} right"
            if of is None
            else f"{number(report.correct)} of {number(of)}"
        )
    if report.data:
        words.append(report.data)
    return ", ".join(words) or None
