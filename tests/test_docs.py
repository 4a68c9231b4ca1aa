"""Every example in the code runs, and what README and docs say is so."""

import doctest
import importlib
import re

import numpy as np
import pytest
from conftest import ROOT

from sbnn_hw.cli import COMMANDS


def modules():
    """Return the import names of all modules: by import name, or a file would load twice."""
    names = []
    for folder in ("sbnn_hw", "train", "rtl_gen", "sim", "boards"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            # What is copied beside designs runs there, not here.
            if parts[-1] not in ("__init__", "__main__") and "suite_files" not in parts:
                names.append(".".join(parts if folder == "sbnn_hw" else ("sbnn_hw", *parts)))
    return sorted(names)


@pytest.mark.parametrize("name", modules())
def test_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"np": np})
    assert result.failed == 0


def test_examples_are_found():
    assert "sbnn_hw.train.layers" in modules()
    assert "sbnn_hw.netlist.taps" in modules()


def pages():
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *(ROOT / "models").glob("*.md"),
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_and_links_in_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"^\s*(?:\$ )?sbnn-hw ([a-z]+)", text, re.M):
        assert command in COMMANDS, command
    for recipe in re.findall(r"--recipe ([a-z0-9_]+)", text):
        assert (ROOT / f"train/recipe_files/{recipe}.toml").exists(), recipe
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    for target in re.findall(r"^\s*make ([a-z-]+)", text, re.M):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), target


def test_flags_in_pages_exist():
    from sbnn_hw.cli import _parser

    for page in pages():
        for command, rest in re.findall(
            r"^\s*(?:\$ )?sbnn-hw ([a-z]+)((?:[^\n]*\\\n)*[^\n]*)$", page.read_text(), re.M
        ):
            subparser = _parser(command)._subparsers._group_actions[0].choices[command]
            for flag in re.findall(r"(--[a-z][a-z0-9-]*)", rest):
                assert flag in subparser._option_string_actions, f"{page.name}: {command} {flag}"


def test_the_ablation_has_its_table():
    """Three domains, three seeds each, by the penalty and by top-k."""
    text = (ROOT / "docs/domain_ablation.md").read_text()
    for by in ("penalty, γ = 0.5", "top-k"):
        for domain in ("symmetric", "closed_form", "learned"):
            assert re.search(
                rf"^\| {re.escape(by)} \| {domain} \| [\d.]+; [\d.]+, [\d.]+, [\d.]+ \|", text, re.M
            )


def test_every_environment_variable_is_in_the_documentation():
    read = re.compile(r"""environ(?:\.get\(|\[)\s*"([A-Z_]+)"|\$([A-Z_]{3,})\b""")
    found = set()
    for folder in ("sbnn_hw", "train", "rtl_gen", "sim", "boards"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(name for pair in read.findall(path.read_text()) for name in pair if name)
    listed = set(re.findall(r"`([A-Z_]{3,})`", (ROOT / "docs/install.md").read_text()))
    assert {"SBNN_DATA", "YOSYS", "SUITE_CYCLES"} <= found <= listed
