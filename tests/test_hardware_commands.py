"""`sbnn-hw generate` and `simulate`: from a model to a verdict, and what goes wrong on the way."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from random_networks import random_vector_network

from sbnn_hw import netlist
from sbnn_hw.cli import main
from sbnn_hw.hardware import Folder

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.sbnn"
    netlist.save(random_vector_network(np.random.default_rng(7)), path)
    return path


@pytest.fixture(scope="module")
def design(model):
    out = model.parent / "design"
    assert main(["generate", "--model", str(model), "--family", "xc7", "--out", str(out)]) == 0
    return out


@pytest.fixture
def copy(design, tmp_path):
    return Path(shutil.copytree(design, tmp_path / "copy"))


def sentence(capsys):
    """Return what was said on stderr last: one sentence."""
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("E: ")
    assert not any(line.startswith("Traceback") for line in lines)
    return lines[-1][3:]


def test_a_design_is_generated_and_agrees(model, design, capsys):
    names = {path.name for path in design.iterdir()}
    assert names >= {"top.v", "top_axi.v", "design.json", "network.sbnn", "tests"}
    assert main(["simulate", "--design", str(design), "--images", "50", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict == json.loads((design / "agreement.json").read_text())
    assert (verdict["equal"], verdict["vectors"], verdict["mismatches"]) == (True, 50, 0)
    assert verdict["latency"] == verdict["computed"]["latency"]
    assert (
        main(["simulate", "--design", str(design), "--images", "20", "--stalls", "--inside"]) == 0
    )
    assert "20 of 20 equal in class and scores" in capsys.readouterr().out


def test_a_network_that_is_too_large_is_refused_unless_forced(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sbnn_hw.boards.fit.LARGEST", 1)
    arguments = ["generate", "--model", str(model), "--out", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "or add --force to continue" in sentence(capsys)
    assert not (tmp_path / "out").exists()
    assert main([*arguments, "--force"]) == 0


def test_a_network_that_is_too_large_is_not_evaluated_as_hardware(monkeypatch, capsys):
    monkeypatch.setattr("sbnn_hw.boards.fit.LARGEST", 1)
    digits = str(ROOT / "models/digits.pt")
    assert main(["eval", "--model", digits, "--data", "digits", "--using", "rtl"]) == 1
    assert "The network has 1,702 connections" in sentence(capsys)


def test_a_folder_may_be_named_by_a_string(design):
    assert Folder(str(design)).load()[1] == Folder(design).load()[1]


def test_the_same_command_writes_the_same_bytes(model, design, tmp_path):
    assert main(["generate", "--model", str(model), "--out", str(tmp_path / "again")]) == 0
    for name in ("top.v", "top_axi.v", "design.json", "network.sbnn", "tests/vectors.hex"):
        assert (tmp_path / "again" / name).read_bytes() == (design / name).read_bytes()


def test_eval_by_simulation_is_eval_by_netlist(capsys):
    answers = []
    for using in ("netlist", "rtl"):
        command = [
            "eval",
            "--model",
            str(MODELS / "digits.pt"),
            "--data",
            "digits",
            "--using",
            using,
            "--json",
        ]
        assert main(command) == 0
        answers.append(json.loads(capsys.readouterr().out)["correct"])
    assert answers[0] == answers[1]


def test_a_spoiled_design_fails_with_a_code_of_its_own(copy, capsys):
    text = (copy / "top.v").read_text()
    start = text.index("module \\top.scores")
    found = list(re.finditer(r"\.INIT\((\d+)'h([0-9a-f]+)\)", text[start:]))[-1]
    flipped = int(found[2], 16) ^ (1 << int(found[1])) - 1
    at = start + found.start(2)
    (copy / "top.v").write_text(f"{text[:at]}{flipped:x}{text[start + found.end(2) :]}")
    assert main(["simulate", "--design", str(copy), "--images", "50"]) == 7
    assert re.match(
        r"The design in .* does not compute what its network computes: the results of \d+ of 50 "
        r"images differ",
        sentence(capsys),
    )
    assert not json.loads((copy / "agreement.json").read_text())["equal"]


def test_a_design_that_says_nothing_is_a_verdict(copy, capsys):
    text = (copy / "top.v").read_text()
    (copy / "top.v").write_text(
        re.sub(r"assign o__valid = .*?;", "assign o__valid = 1'h0;", text, count=1)
    )
    head = text[: text.index("endmodule")]
    silent = re.sub(r"\.o_valid\(o__valid\)", ".o_valid()", head) + "  assign o__valid = 1'h0;\n"
    (copy / "top.v").write_text(silent + text[text.index("endmodule") :])
    assert main(["simulate", "--design", str(copy), "--images", "5"]) == 7
    assert "the results of 5 of 5 images differ" in sentence(capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--family", "xc8"], 2, "Family must be one of xc7, ecp5, ice40, generic, not 'xc8'"),
        (["--levels", "0"], 2, "Levels per stage must be 1 or more, not 0"),
        (["--share", "-1"], 2, "Share must be 0 or more, not -1"),
        (["--input", "row"], 2, "Input must be auto, image or pixel, not 'row'"),
        (["--flatten", "no"], 2, "Flatten must be auto, gather or accumulate, not 'no'"),
        (["--serial", "-1"], 2, "Serial must be 0 or more, not -1"),
    ],
)
def test_wrong_options_are_one_sentence(model, tmp_path, capsys, arguments, code, said):
    assert (
        main(["generate", "--model", str(model), "--out", str(tmp_path / "d"), *arguments]) == code
    )
    assert sentence(capsys) == said


def test_wrong_folders_are_one_sentence(copy, tmp_path, model, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["generate", "--model", str(model), "--out", str(file)]) == 6
    assert sentence(capsys).startswith(f"Cannot write {file}")
    assert main(["simulate", "--design", str(tmp_path / "nothing")]) == 2
    assert sentence(capsys).startswith(f"There is no design in {tmp_path / 'nothing'}")
    assert main(["simulate", "--design", str(copy), "--seed", "-1"]) == 2
    assert sentence(capsys) == "Seed must not be negative, not -1"
    assert main(["simulate", "--design", str(copy), "--images", "0"]) == 2
    assert sentence(capsys) == "Images must be 1 or more, not 0"
    description = json.loads((copy / "design.json").read_text())
    (copy / "design.json").write_text(json.dumps({"schema": 5, "network": description["network"]}))
    assert main(["simulate", "--design", str(copy)]) == 1
    assert "is damaged" in sentence(capsys)
    wider = {**description["input"], "width": description["input"]["width"] + 3}
    (copy / "design.json").write_text(json.dumps({**description, "input": wider}))
    assert main(["simulate", "--design", str(copy), "--images", "3"]) == 1
    assert "is damaged (widths of the input do not add up)" in sentence(capsys)
    (copy / "design.json").write_text(json.dumps({**description, "schema": 99}))
    assert main(["simulate", "--design", str(copy)]) == 1
    assert "generate it again" in sentence(capsys)
    (copy / "network.sbnn").unlink()
    (copy / "design.json").write_text(json.dumps(description))
    assert main(["simulate", "--design", str(copy)]) == 1
    assert sentence(capsys) == f"There is no network.sbnn in {copy}; generate the design again"


def test_data_of_another_shape_is_refused(design, capsys):
    assert main(["simulate", "--design", str(design), "--data", "digits"]) == 1
    assert "but digits has 8×8×1" in sentence(capsys)
