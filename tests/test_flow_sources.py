"""Files of the project that a step is made with: found by following imports, nothing run."""

import ast
import importlib
import subprocess
import sys

import pytest

from sbnn_hw.flow.sources import Import, file_of, imports_in, sources_of
from sbnn_hw.flow.steps import code_digest

TEXT = """
import numpy
import sbnn_hw.yosys
from typing import TYPE_CHECKING
from sbnn_hw import __version__, netlist
from sbnn_hw.netlist.taps import Taps
from . import steps
from .plan import Flow
if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options
else:
    import sbnn_hw.bops
class A:
    def f(self):
        try:
            with a: from sbnn_hw.sim import agreement
        except E:
            import sbnn_hw.cache as c
        match x:
            case 1: import sbnn_hw.files
"""


def test_imports_are_found_wherever_they_are():
    found = imports_in("sbnn_hw.flow.build", TEXT)
    assert [each.name.removeprefix("sbnn_hw.") for each in found] == [
        *("yosys", "sbnn_hw", "netlist", "netlist.taps", "flow.steps", "flow.plan"),
        *("rtl_gen.lower", "bops", "sim.agreement", "cache", "files"),
    ]
    assert [each.name for each in found if each.typing] == ["sbnn_hw.rtl_gen.lower"]
    assert found[0] == Import("sbnn_hw.yosys", 3, False)


def test_what_is_imported_by_way_of_others_counts():
    found = sources_of("sbnn_hw.generate")
    # Inside a function, then at the top, then by an import that enters operations.
    for name in ("rtl_gen.design", "rtl_gen.lower", "rtl_gen.stages.conv", "netlist", "errors"):
        assert f"sbnn_hw.{name}" in found, name
    assert not [name for name in found if name.startswith(("sbnn_hw.train", "sbnn_hw.boards"))]
    # Only for type checkers.
    assert "sbnn_hw.sim.agreement" not in sources_of("sbnn_hw.hardware")


def test_data_files_count_with_the_modules_of_their_package():
    found = sources_of("sbnn_hw.sim.suite")
    files = {name.partition("/")[2] for name in found if name.startswith("sbnn_hw.sim/")}
    assert {"harness.cpp", "suite_files/test_design.py"} <= files
    assert not [name for name in found if "__pycache__" in name]
    assert all(path.is_file() for path in found.values())


def test_a_package_stands_for_its_modules():
    assert "sbnn_hw.rtl_gen.stages.conv" in sources_of("sbnn_hw.rtl_gen")
    assert "sbnn_hw.train.loop" in sources_of("sbnn_hw.train")
    # … but one that is only passed through does not.
    assert "sbnn_hw.train.loop" not in sources_of("sbnn_hw.train.signs")


def hidden_in(text, lazy):
    """Yield names that are imported from packages which load them on first use."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in lazy:
            own = vars(importlib.import_module(node.module))
            for alias in node.names:
                known = alias.name.startswith("__") and alias.name in own
                if not known and f"{node.module}.{alias.name}" not in sources_of(node.module):
                    yield alias.name


def test_no_import_ends_at_a_name_that_is_loaded_on_first_use():
    """It would not be followed to the file that has it."""
    texts = {n: p.read_text() for n, p in sources_of("sbnn_hw").items() if "/" not in n}
    lazy = {name for name, text in texts.items() if "\ndef __getattr__(" in text}
    assert lazy == {"sbnn_hw", "sbnn_hw.qonnx", "sbnn_hw.train"}
    found = {name: [*hidden_in(text, lazy)] for name, text in texts.items()}
    assert {name: names for name, names in found.items() if names} == {}
    assert [*hidden_in("from sbnn_hw.train import fold, fold_model", lazy)] == ["fold_model"]


def test_what_is_no_module_is_refused():
    for name in ("sbnn_hw.nowhere", "sbnn_hw.flow.nowhere", "sbnn_hw.errors.SbnnError", "numpyy"):
        with pytest.raises(ValueError, match=rf"^Source must be a module of this .*'{name}'$"):
            file_of(name)
    with pytest.raises(ValueError, match=r"^Source must be a module of this project, not"):
        code_digest("sbnn_hw.nowhere")


def test_the_step_itself_counts_without_what_it_imports():
    own = "sbnn_hw.flow.network_steps"
    alone, with_own = code_digest("sbnn_hw.bops"), code_digest("sbnn_hw.bops", alone=(own,))
    assert len({alone, with_own, code_digest("sbnn_hw.bops", own)}) == 3
    assert code_digest("sbnn_hw.bops", alone=("sbnn_hw.bops",)) == alone


def test_finding_sources_loads_nothing():
    script = (
        "import sys; from sbnn_hw.flow.sources import sources_of\n"
        "before = set(sys.modules); sources_of('sbnn_hw')\n"
        "print(*{'torch', 'amaranth', 'sbnn_hw.rtl_gen'} & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
