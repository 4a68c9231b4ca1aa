"""Recipes: training runs by name, as files of options. Reads them without loading torch."""

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from sbnn_hw.errors import UsageError

__all__ = ["describe_recipes", "list_recipes", "load_recipe", "recipe_needs"]


def _folder() -> Traversable:
    return resources.files("sbnn_hw.train") / "recipe_files"


def list_recipes() -> list[str]:
    """Return the names of the recipes that ship with the toolkit."""
    return sorted(f.name[:-5] for f in _folder().iterdir() if f.name.endswith(".toml"))


def load_recipe(name: str) -> dict[str, Any]:
    """Return the options of a recipe by name."""
    options = _read(name)
    options.pop("needs", None)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


def recipe_needs(name: str) -> dict[str, str]:
    """Return the options that a recipe cannot know, such as files, with what to give for them."""
    needs: dict[str, str] = _read(name).get("needs", {})
    return needs


def _read(name: str) -> dict[str, Any]:
    known = list_recipes()
    if name not in known:
        raise UsageError(f"Recipe must be one of {', '.join(known)}, not {name!r}")
    return tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def describe_recipes() -> dict[str, str]:
    """Return each recipe's first line, which says what it is for."""
    texts = {n: (_folder() / f"{n}.toml").read_text(encoding="utf-8") for n in list_recipes()}
    return {name: text.splitlines()[0].lstrip("# ") for name, text in texts.items()}
