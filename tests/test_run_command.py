# amaranth: UnusedElaboratable=no
"""`sbnn-hw serve` and `sbnn-hw run`: images in, classes out, through simulated wires."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import serial
from PIL import Image
from shells import small_network

from sbnn_hw import netlist
from sbnn_hw.boards.protocol import Wire
from sbnn_hw.cli import main
from sbnn_hw.commands.serve import _make_link
from sbnn_hw.errors import OutputRefused
from sbnn_hw.images import random_images

NETWORK = small_network((6, 5, 1), hidden=(8,), classes=5, fan_in=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "small.sbnn"
    netlist.save(NETWORK, path)
    return path


@contextlib.contextmanager
def serve(folder, link, *arguments):
    """Serve a build in a process of its own, as a user would."""
    command = [
        sys.executable,
        "-m",
        "sbnn_hw",
        "serve",
        "--build",
        str(folder),
        "--link",
        str(link),
    ]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout.readline() == f"port  {link}\n"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()
    assert not link.exists()


@pytest.fixture(scope="module")
def port(model, tmp_path_factory):
    """Return the port of a simulated board."""
    out = tmp_path_factory.mktemp("served")
    arguments = ["--model", str(model), "--board", "icebreaker", "--out", str(out)]
    assert main(["build", *arguments, "--until", "rtl"]) == 0
    with serve(out, out / "port"):
        yield out / "port"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Return image files, and their pixels."""
    folder = tmp_path_factory.mktemp("pictures")
    pixels = random_images(NETWORK, 5)
    paths = []
    for number, image in enumerate(pixels):
        paths.append(folder / f"{number}.png")
        Image.fromarray(image[..., 0]).save(paths[-1])
    return paths, pixels


def run(*arguments):
    return main(["run", *map(str, arguments)])


def said(capsys):
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("E: ")]
    assert len(lines) == 1, lines
    return lines[0].removeprefix("E: ")


def test_classes_are_called_by_their_names(port, pictures, tmp_path, capsys):
    files, pixels = pictures
    names = ("ant", "bee", "cat", "dog", "elk")
    named = replace(NETWORK, meaning=netlist.Meaning(names))
    # Names are not what a board computes: its digest is that of the network without them.
    netlist.save(named, tmp_path / "named.sbnn")
    arguments = ["run", "--model", str(tmp_path / "named.sbnn"), "--port", str(port)]
    assert main([*arguments, *map(str, files)]) == 0
    said = capsys.readouterr().out.splitlines()[: len(files)]
    classes = NETWORK.compute(pixels).classes
    assert said == [f"{names[n]:<3} {path}" for n, path in zip(classes, files, strict=True)]
    assert main([*arguments, "--json", *map(str, files)]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == list(names)


def test_image_files_are_classified(model, port, pictures, capsys):
    paths, pixels = pictures
    assert run("--port", port, "--model", model, *paths, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["classes"] == NETWORK.compute(pixels).classes.tolist()
    assert (result["answered"], result["equal"], result["failed"]) == (5, 5, {})
    assert result["board"]["images"] >= 5
    assert run("--port", port, "--model", model, *paths, "--count", 2, "--baud", 115200) == 0
    lines = capsys.readouterr().out.splitlines()
    first = NETWORK.compute(pixels).classes[0]
    assert lines[0] == f"{first:<3} {paths[0]}"
    assert lines[2] == "answered     2 of 2 images"
    assert lines[3] == "equal        2 to the model in software, class and scores"


def test_images_are_scaled_and_turned_round_if_asked(model, port, tmp_path, capsys):
    large = np.kron(random_images(NETWORK, 1)[0, ..., 0], np.ones((4, 4), np.uint8))
    Image.fromarray(255 - large).convert("RGB").save(tmp_path / "large.png")
    arguments = ["--port", port, "--model", model, tmp_path / "large.png"]
    assert run(*arguments) == 2
    assert said(capsys) == (
        f"{tmp_path / 'large.png'} has 20×24 pixels, but the model takes 5×6; scale it, or add "
        "--resize"
    )
    assert run(*arguments, "--resize", "--invert") == 0


def test_a_board_with_another_network_is_refused(port, tmp_path, pictures, capsys):
    other = small_network((6, 5, 1), hidden=(8,), classes=5, fan_in=5, seed=1)
    netlist.save(other, tmp_path / "other.sbnn")
    assert run("--port", port, "--model", tmp_path / "other.sbnn", pictures[0][0]) == 8
    assert said(capsys).startswith("The board has another network (")


def test_a_board_that_lies_about_its_size_is_refused(model, pictures, monkeypatch, capsys):
    from test_boards_driver import IDENTITY, FakePort

    lie = Wire((6, 5, 1), 8, 3, 255, 65_535)
    port = FakePort(identity=replace(IDENTITY, network=NETWORK.digest, wire=lie))
    monkeypatch.setattr(serial, "Serial", lambda *_, **__: port)
    started = time.monotonic()
    assert run("--port", "/dev/x", "--model", model, *pictures[0]) == 8
    assert time.monotonic() - started < 5
    assert said(capsys) == (
        f"The board says that it has {model}, but it reports 65,535 classes, not 5; build "
        f"{model} again and load the result"
    )


def test_a_board_that_answers_otherwise_is_found_out(model, port, pictures, monkeypatch, capsys):
    # The fault: the software computes something else, as a board with a broken table would.
    original = type(NETWORK).compute

    def wrong(self, pixels, *rest, **options):
        outcome = original(self, pixels, *rest, **options)
        outcome.scores[1, 0] += 1
        return outcome

    monkeypatch.setattr(type(NETWORK), "compute", wrong)
    assert run("--port", port, "--model", model, *pictures[0]) == 7
    assert re.fullmatch(
        r"For 1 of 5 images the board's answer differs from that of .*small\.sbnn \(the first is image 1\)",
        said(capsys),
    )
    assert run("--port", port, "--model", model, *pictures[0], "--no-check") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, r"Name image files, or a data set \(--data\), and not both"),
        (["x.png", "--data", "digits"], 2, r"Name image files, or a data set .*"),
        (["/nowhere.png"], 5, r"There is no image at /nowhere\.png"),
        ([__file__], 5, r".*test_run_command\.py cannot be read as an image"),
        (["--data", "digits"], 1, r".* takes images of 6×5×1, but digits has 8×8×1"),
        (["x.png", "--baud", "7"], 2, r"Baud rate must be 300 or more, not 7"),
        (["x.png", "--count", "0"], 2, r"Count must be 1 or more, not 0"),
        (["x.png", "--timeout", "0"], 2, r"Timeout must be above 0 and at most 3600 s, not 0"),
    ],
)
def test_wrong_arguments_are_one_sentence(model, tmp_path, capsys, arguments, code, words):
    assert run("--port", "/nowhere", "--model", model, *arguments) == code
    assert re.fullmatch(words, said(capsys))


def test_ports_that_are_none(model, pictures, tmp_path, capsys):
    assert run("--port", "/nowhere", "--model", model, pictures[0][0]) == 8
    assert said(capsys) == (
        "Port /nowhere cannot be opened: No such file or directory (is the board plugged in, or "
        "is `sbnn-hw serve` running?)"
    )
    (tmp_path / "file").write_text("no port")
    assert run("--port", tmp_path / "file", "--model", model, pictures[0][0]) == 8
    assert "cannot be opened" in said(capsys)


def test_a_silent_port_is_given_up(model, pictures, capsys):
    import os
    import pty

    ours, theirs = pty.openpty()
    try:
        started = time.monotonic()
        port = os.ttyname(theirs)
        assert run("--port", port, "--model", model, pictures[0][0], "--timeout", 0.05) == 8
        assert time.monotonic() - started < 30
    finally:
        os.close(ours)
        os.close(theirs)
    assert said(capsys) == (
        f"No sbnn-hw board answers on {port} at any usual rate; is the bitstream loaded, and is "
        "this the board's port?"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--build", "{}"], r"There is no build in .* \(make one with `sbnn-hw build --out .*`\)"),
        (["--build", "{}", "--noise", "2"], r"Noise must be between 0 and 1, not 2"),
        (["--build", "{}", "--seed", "-1"], r"Seed must not be negative, not -1"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(tmp_path, capsys, arguments, words):
    assert main(["serve", *(text.format(tmp_path) for text in arguments)]) == 2
    assert re.fullmatch(words, said(capsys))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "The report must be an object, not \\[\\]"),
        ('{"schema": 2}', "Field schema of the report must be 1 for this release, not 2"),
        ("{", "Expecting .*"),
        ("[" * 100_000, ".*recursion.*"),
    ],
    ids=["list", "version", "cut", "deep"],
)
def test_a_report_that_is_damaged_is_one_sentence(tmp_path, capsys, text, words):
    (tmp_path / "report.json").write_text(text)
    assert main(["serve", "--build", str(tmp_path)]) == 1
    assert re.fullmatch(rf".*report\.json is damaged \({words}\); build it again", said(capsys))


def test_two_programs_do_not_share_a_line(model, port, pictures, capsys):
    from sbnn_hw.boards.driver import open_board

    with open_board(str(port), baud=1_000_000) as board:
        assert run("--port", port, "--model", model, pictures[0][0]) == 8
        assert said(capsys) == f"Port {port} is used by another program; wait for it"
        assert board.counters().errors == 0


def test_two_servers_do_not_share_a_link(model, port, capsys):
    out = port.parent
    assert main(["serve", "--build", str(out), "--link", str(port)]) == 2
    assert "points to an existing terminal" in said(capsys)
    assert port.exists()


def test_a_link_does_not_replace_a_file(model, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--model", str(model), "--board", "icebreaker", "--out", str(out)]
    assert main(["build", *arguments, "--until", "rtl"]) == 0
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    assert main(["serve", "--build", str(out), "--link", str(precious)]) == 2
    assert "already exists and is not a symbolic link" in said(capsys)
    assert precious.read_text() == "keep me"


def test_a_link_that_cannot_be_made_is_output_that_is_not_written(tmp_path):
    with pytest.raises(OutputRefused, match=r"^Cannot make the link \S+/port: No such file or dir"):
        _make_link(tmp_path / "nowhere" / "port", "/dev/pts/0")
