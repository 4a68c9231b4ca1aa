"""Which of the project's own files a step is made with, found by following imports.

Nothing is imported here: files are found and parsed. An import inside a function counts like one at
the top of a file, and one for type checkers alone does not. The data files of a package (templates,
tables, C++) count with each of its modules, whichever of them reads them.
"""

import ast
import functools
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Import", "file_of", "imports_in", "sources_of"]

_ROOT = __name__.partition(".")[0]


class Import(NamedTuple):
    """An import of a module of this project: its name, the line, and whether it is for types."""

    name: str
    line: int
    typing: bool


def sources_of(*names: str) -> dict[str, Path]:
    """Return the files of modules and of all that they import, and their packages' data files.

    A package stands for all modules in it.
    """
    found: dict[str, Path] = {}
    waiting = [inner for name in names for inner in _modules_in(name)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = file = file_of(name)
        # A package is loaded before what is in it.
        waiting += [name.rpartition(".")[0] or name]
        text = file.read_text(encoding="utf-8")
        waiting += [each.name for each in imports_in(name, text) if not each.typing]
    packages = {name: file.parent for name, file in found.items() if file.name == "__init__.py"}
    for name, folder in packages.items():
        for path in _data_in(folder):
            found[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    return dict(sorted(found.items()))


@functools.cache
def imports_in(name: str, text: str) -> tuple[Import, ...]:
    """Return the modules of this project that the text of one of them imports."""
    # Names in a relative import count from the package.
    package = name if file_of(name).name == "__init__.py" else name.rpartition(".")[0]
    found = []
    for node, typing in _imports_below(ast.parse(text).body):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        else:
            start = "." * node.level + (node.module or "")
            home = importlib.util.resolve_name(start, package)
            wanted = [f"{home}.{alias.name}" for alias in node.names]
        for each in wanted:
            if each.partition(".")[0] == _ROOT:
                module = each if _find(each) else each.rpartition(".")[0]
                found.append(Import(module, node.lineno, typing))
    return tuple(found)


def _imports_below(
    body: Iterable[ast.AST], typing: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, typing
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _imports_below(node.body, True)
            yield from _imports_below(node.orelse, typing)
        elif not isinstance(node, ast.expr):
            # No statement is inside an expression, and there are many of these.
            yield from _imports_below(ast.iter_child_nodes(node), typing)


def file_of(name: str) -> Path:
    """Return the file of a module of this project."""
    file = _find(name)
    if file is None:
        raise ValueError(f"Source must be a module of this project, not {name!r}")
    return file


@functools.cache
def _find(name: str) -> Path | None:
    """Return the file of a module; nothing if there is no such module."""
    # Python finds what is right below the root without running it; what is deeper lies below that.
    top, deeper = name.split(".")[:2], name.split(".")[2:]
    spec = importlib.util.find_spec(".".join(top))
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin)
    if not deeper:
        return file
    if file.name != "__init__.py":
        return None
    place = file.parent.joinpath(*deeper)
    tries = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((path for path in tries if path.is_file()), None)


def _modules_in(name: str) -> Iterator[str]:
    """Yield a module, and if it is a package all modules in it."""
    yield name
    file = file_of(name)
    if file.name == "__init__.py":
        for path in file.parent.iterdir():
            inner = f"{name}.{path.stem}"
            if path.stem != "__init__" and _find(inner) is not None:
                yield from _modules_in(inner)


def _data_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a package that are not its modules, nor of a package below."""
    for path in folder.iterdir():
        if path.name.startswith((".", "__")):
            continue
        if path.is_dir() and not (path / "__init__.py").is_file():
            yield from (each for each in path.rglob("*") if _is_data(each))
        elif path.suffix != ".py" and _is_data(path):
            yield path


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"
