"""Write docs/api.md from docstrings: the public names of ``sbnn_hw`` and ``sbnn_hw.train``."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from pages import put, table

ROOT = Path(__file__).parents[1]
MARK = "bench/api.py"

#: The packages whose names are public, and the sections of numpydoc that are shown.
PACKAGES = ("sbnn_hw", "sbnn_hw.train")
SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Examples")


def tables() -> dict[str, str]:
    """Return what stands between the page's marks: lists of names, and each name's part."""
    made = {}
    for package in PACKAGES:
        names = dict(public(package))
        rows = [(f"[`{name}`](#{name.lower()})", _first_line(item)) for name, item in names.items()]
        made[f"{MARK}: names of {package}"] = table(("name", "what it is"), rows)
        parts = [_part(name, item) for name, item in names.items()]
        made[f"{MARK}: {package}"] = "\n".join(parts)
    return made


def public(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes of a package: functions first, by name."""
    module = importlib.import_module(package)
    found = {name: getattr(module, name) for name in module.__all__}
    named = [(name, item) for name, item in found.items() if callable(item)]
    yield from sorted(named, key=lambda pair: (inspect.isclass(pair[1]), pair[0].lower()))


def _first_line(item: Any) -> str:
    return _linked(inspect.getdoc(item).splitlines()[0])


def _part(name: str, item: Any) -> str:
    lines = [f"### {name}\n"]
    if signature := _signature(name, item):
        lines.append(signature)
    before, sections = split_docstring(inspect.getdoc(item))
    lines.append(f"{_linked(before)}\n")
    for title, text in sections.items():
        lines.append(_section(title, text))
    if inspect.isclass(item):
        if fields := fields_of(item):
            rows = [(f"`{field}`", _linked(words)) for field, words in fields.items()]
            lines.append(table(("field and its default", "what it holds"), rows))
        if methods := dict(_methods(item)):
            rows = [(f"`{method}`", words) for method, words in methods.items()]
            lines.append(table(("method or property", "what it does"), rows))
    return "\n".join(lines)


def _signature(name: str, item: Any) -> str:
    if dataclasses.is_dataclass(item) or (inspect.isclass(item) and issubclass(item, Exception)):
        return ""
    listed = ", ".join(_parameters(item))
    text = f"{name}({listed})"
    if len(text) > 100:
        text = f"{name}(\n{textwrap.indent(textwrap.fill(listed, 96), '    ')}\n)"
    return f"```python\n{text}\n```\n"


def _parameters(item: Any) -> list[str]:
    """Return the parameters of a function as they are written, without their types."""
    names = []
    kinds = inspect.Parameter
    for parameter in inspect.signature(item).parameters.values():
        if parameter.kind is kinds.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        star = "**" if parameter.kind is kinds.VAR_KEYWORD else ""
        default = "" if parameter.default is kinds.empty else f"={parameter.default!r}"
        if parameter.name not in ("self", "cls"):
            names.append(f"{star}{parameter.name}{default}")
    return names


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring in numpydoc's form, and its sections by title."""
    pieces = re.split(r"^([A-Z][a-z]+)\n-{4,}\n", text, flags=re.MULTILINE)
    sections = {
        title: body.strip("\n") for title, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }
    unknown = set(sections) - set(SECTIONS)
    if unknown:
        raise SystemExit(f"A docstring has the unknown section {min(unknown)}")
    return pieces[0].strip(), sections


def _section(title: str, text: str) -> str:
    if title == "Examples":
        return f"```pycon\n{text.strip()}\n```\n"
    entries = []
    for head, body in entries_of(text):
        name, _, kind = head.partition(" : ")
        known = f"`{name.replace(', ', '`, `')}`" + (f" ({kind})" if kind else "")
        entries.append(f"- {known}: {_linked(body)}" if body else f"- {known}")
    return f"{title}:\n\n" + "\n".join(entries) + "\n"


def entries_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the heads of a section's entries, each with what is said of it in one line."""
    for part in re.split(r"\n(?=\S)", text):
        head, _, body = part.partition("\n")
        yield head, " ".join(body.split())


def fields_of(item: type) -> dict[str, str]:
    """Return the fields of a dataclass with the words of their comments ``#:``.

    The fields of a report are annotated instead, and have a page of their own.
    """
    if not dataclasses.is_dataclass(item) or item.__name__ == "Report":
        return {}
    source = textwrap.dedent(inspect.getsource(item))
    lines = source.splitlines()
    found = {}
    (body,) = ast.parse(source).body
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
            above = node.lineno - 2
            words: list[str] = []
            while lines[above].strip().startswith("#:"):
                words.insert(0, lines[above].strip()[2:].strip())
                above -= 1
            plain = isinstance(node.value, ast.Constant | ast.Tuple | ast.UnaryOp)
            default = f" = {ast.unparse(node.value)}" if plain else ""
            found[f"{ast.unparse(node.target)}{default}"] = " ".join(words)
    return found


def _methods(item: type) -> Iterator[tuple[str, str]]:
    """Yield what a class itself, and not one that it is made of, offers by name."""
    for name, member in vars(item).items():
        what = member.fget if isinstance(member, property) else member
        what = getattr(what, "__func__", what)
        what = getattr(what, "func", what)  # a cached property's
        if name.startswith("_") or not inspect.isfunction(what) or not what.__doc__:
            continue
        if isinstance(member, property | cached_property):
            yield name, _first_line(what)
        else:
            yield f"{name}({', '.join(_parameters(what))})", _first_line(what)


def _linked(text: str) -> str:
    """Return a text of reStructuredText's few marks in Markdown."""
    text = re.sub(r":[a-z]+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    put(ROOT / "docs/api.md", tables())
