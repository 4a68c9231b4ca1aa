"""HTML from plain values: whatever is not markup already is escaped on its way in."""

import html
import unicodedata
from collections.abc import Iterable

__all__ = [
    "Child",
    "Markup",
    "decimal",
    "number",
    "plain",
    "rate",
    "seconds",
    "share",
    "tag",
    "times",
]

#: Between a number and its unit, where a line must not break.
SPACE = "\N{NO-BREAK SPACE}"

_VOID = frozenset({"meta", "br"})


class Markup(str):
    """Text that is HTML already, made by this module only."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def plain(text: str) -> str:
    r"""Return text in which each character can be seen and does nothing.

    Names come from file systems and checkpoints. A line break becomes a sign; other control
    characters, lone surrogates and marks that turn the direction of writing are replaced.

    Examples
    --------
    >>> plain("a\nb")
    'a↵b'
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == "\n":
        return "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
    # Cc: controls; Cf: format marks; Cs: surrogates; Zl, Zp: line and paragraph separators.
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


def tag(name: str, /, *children: Child, **attributes: str | int | None) -> Markup:
    """Return an element. Children and values of attributes are escaped unless they are markup.

    An attribute that is None is left out. ``class_`` is ``class``, and other underscores are
    hyphens.

    Examples
    --------
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(plain(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{_inner(children)}</{name}>")


def _inner(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return html.escape(plain(str(child)))
    return "".join(map(_inner, child))


def number(value: float) -> str:
    """Return a count with thousands told apart; halves of blocks keep their half.

    Examples
    --------
    >>> number(20800), number(1.5)
    ('20,800', '1.5')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def decimal(value: float, digits: int = 1) -> str:
    """Return a measured number with so many decimals, none if it is whole.

    Examples
    --------
    >>> decimal(100.0), decimal(104.456)
    ('100', '104.5')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.{digits}f}"


def rate(value: float) -> str:
    """Return a number for reading aloud: whole above 100, three figures below.

    Examples
    --------
    >>> rate(11904.76), rate(14.68), rate(0.0)
    ('11,905', '14.7', '0')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def share(value: float, digits: int = 2) -> str:
    r"""Return a share in percent; rounding never makes it all or nothing.

    Examples
    --------
    >>> share(0.9654), share(0.999999), share(0.0000001)
    ('96.54\xa0%', '99.99\xa0%', '<\xa00.01\xa0%')
    """
    least = 10.0**-digits
    percent = round(100 * value, digits)
    if value > 0 and percent < least:
        return f"<{SPACE}{least:.{digits}f}{SPACE}%"
    if value < 1 and percent >= 100:
        percent = 100 - least
    return f"{percent:,.{digits}f}{SPACE}%".replace("-", "−")


def times(value: float) -> str:
    """Return a ratio.

    Examples
    --------
    >>> times(83.888), times(1234.5), times(1.5)
    ('83.9', '1,234', '1.50')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float) -> str:
    r"""Return a length of time.

    Examples
    --------
    >>> seconds(0.004), seconds(3.21), seconds(75.4)
    ('4\xa0ms', '3.2\xa0s', '1\xa0min\xa015\xa0s')
    """
    if value < 0.9995:
        return f"{1000 * value:.0f}{SPACE}ms"
    if value < 59.95:
        return f"{value:.1f}{SPACE}s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes:,}{SPACE}min{SPACE}{rest}{SPACE}s"
