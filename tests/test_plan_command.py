"""`sbnn-hw plan`, and builds that follow a plan."""

import json
from dataclasses import asdict

import pytest
from shells import small_network

from sbnn_hw import netlist
from sbnn_hw.boards.table import BOARDS
from sbnn_hw.cli import main
from sbnn_hw.design import load_design
from sbnn_hw.rtl_gen.options import Options


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.sbnn"
    netlist.save(small_network((8, 8, 1), hidden=(40, 20)), path)
    return path


def run(command, *arguments):
    return main([command, *map(str, arguments)])


def printed(capsys):
    return capsys.readouterr().out


def said(capsys):
    return capsys.readouterr().err.splitlines()[-1].removeprefix("E: ")


def test_a_plan_is_printed_stage_by_stage(model, capsys):
    arguments = ("--model", model, "--board", "arty_a7", "--form", "gaps", "--lanes", 4)
    assert run("plan", *arguments) == 0
    lines = printed(capsys).splitlines()
    assert lines[0] == "plan         model.sbnn on arty_a7: gaps, 4 lanes"
    assert [line.split()[0] for line in lines] == [
        *("plan", "why", "speed", "pace", "takes", "stage", "input", "linear0", "linear1"),
        *("scores", "engine", "shell", "all"),
    ]
    assert " sets the pace: " in lines[3]
    assert "% of" not in lines[4]
    assert lines[4].endswith(", with shell")
    # Nothing else: the cycles of layers and the few between images make up the interval.
    cycles = {line.split()[0]: line.split()[3] for line in lines[7:10]}
    interval = int(lines[2].split(", ")[1].split()[0].replace(",", ""))
    assert 0 < interval - sum(int(each.replace(",", "")) for each in cycles.values()) < 8


def test_every_board_has_a_line(model, capsys):
    assert run("plan", "--model", model, "--board", "all") == 0
    names = [line.split()[0].rstrip(":") for line in printed(capsys).splitlines()]
    assert names == ["board", *BOARDS]
    assert run("plan", "--model", model, "--board", "all", "--json") == 0
    assert [each["target"] for each in json.loads(printed(capsys))] == list(BOARDS)


def test_a_board_without_a_plan_has_its_sentence(model, capsys):
    assert run("plan", "--model", model, "--board", "all", "--target-fps", 30e6) == 0
    lines = printed(capsys).splitlines()
    assert any(line.startswith("arty_a7 ") for line in lines)
    (line,) = [line for line in lines if line.startswith("icebreaker: ")]
    assert line.startswith(
        "icebreaker: No plan reaches 30,000,000 images/s on icebreaker at 12 MHz; the fastest that "
        "fits is unrolled"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--target-fps", "0"), 2, "Target must be more than 0 images per second, not 0"),
        (("--target", "best"), 2, "Target must be smallest or fastest, not 'best'"),
        (("--clock", "0"), 2, "Clock must be between 0.1 and 2000 MHz, not 0"),
        (("--form", "gaps", "--lanes", "0"), 2, "Lanes must be 1 or more, not 0"),
        (("--lanes", "4"), 2, "Lanes are those of an engine; add --form gaps or bitmap"),
    ],
)
def test_wrong_arguments_are_one_sentence(model, capsys, arguments, code, words):
    assert run("plan", "--model", model, "--board", "arty_a7", *arguments) == code
    assert said(capsys) == words


def test_a_build_that_is_asked_for_nothing_is_what_it_was(model, tmp_path):
    """Wires where they fit: the design of `generate`, and the options of always."""
    arguments = ("--model", model, "--board", "arty_a7", "--out", tmp_path, "--until", "rtl")
    assert run("build", *arguments) == 0
    options = asdict(Options(family="xc7", levels_per_stage=5))
    assert load_design(tmp_path / "design.json").options == options
    assert json.loads((tmp_path / "plan.json").read_text())["options"] == options


def test_a_plan_is_built_as_it_was_printed(model, tmp_path, capsys):
    wish = ("--board", "icebreaker", "--target", "smallest", "--clock", 24)
    assert run("plan", "--model", model, *wish, "--json") == 0
    text = printed(capsys)
    path, out = tmp_path / "plan.json", tmp_path / "out"
    path.write_text(text)
    arguments = ("--model", model, "--out", out, "--until", "simulation")
    # The clock is the plan's.
    assert run("build", *arguments, "--board", "icebreaker", "--plan", path) == 0
    assert (out / "plan.json").read_text() == text
    plan, design = json.loads(text), load_design(out / "design.json")
    assert design.options == plan["options"]
    assert plan["options"]["form"] == "gaps"
    assert (design.interval, design.latency) == (plan["interval"], plan["latency"])
    report = json.loads((out / "report.json").read_text())
    assert report["agreement"]["mismatches"] == 0
    # What simulation measured is what was planned.
    assert report["agreement"]["latency"] == plan["latency"]
    assert report["agreement"]["interval"] == plan["interval"]
    assert report["clock_mhz"] == 24
    assert report["plan"]["title"] == "gaps, 1 lane"
    assert run("build", *arguments, "--board", "icebreaker", "--plan", path) == 0
    steps = json.loads((out / "report.json").read_text())["steps"]
    assert all(step["cached"] for step in steps)
    # Generated alone, it is the same text.
    assert run("generate", "--model", model, "--plan", path, "--out", tmp_path / "alone") == 0
    assert (tmp_path / "alone/top.v").read_bytes() == (out / "top.v").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "fastest"), "The plan {} decides about --target; omit one of them"),
        (("--no-scores",), "The plan {} decides about --no-scores; omit one of them"),
        (("--levels", "3"), "The plan {} decides about --levels; omit one of them"),
        (("--clock", "50"), "The plan {} is for 100 MHz, not for 50; build with --clock 100"),
    ],
)
def test_a_plan_that_is_given_back_decides_alone(model, tmp_path, capsys, arguments, words):
    path = tmp_path / "plan.json"
    assert run("plan", "--model", model, "--board", "arty_a7", "--json") == 0
    path.write_text(printed(capsys))
    build = ("--model", model, "--board", "arty_a7", "--out", tmp_path / "o", "--until", "rtl")
    assert run("build", *build, "--plan", path, *arguments) == 2
    assert said(capsys) == words.format(path)
    assert not (tmp_path / "o/top.v").exists()


def test_a_plan_that_was_edited_builds_nothing(model, tmp_path, capsys):
    path = tmp_path / "plan.json"
    assert run("plan", "--model", model, "--board", "arty_a7", "--json") == 0
    content = json.loads(printed(capsys))
    path.write_text(json.dumps({**content, "interval": 99}))
    build = ("--model", model, "--board", "arty_a7", "--out", tmp_path / "o", "--until", "rtl")
    assert run("build", *build, "--plan", path) == 2
    assert said(capsys) == (
        f"The plan {path} was changed after it was made (interval is 99, not 1); make it again with "
        "`sbnn-hw plan --json`"
    )
