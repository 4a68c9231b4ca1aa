# amaranth: UnusedElaboratable=no
"""`sbnn-hw build`, from a model to a board, with all that can go wrong on the way."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from shells import small_network
from test_boards_project import fake, programs, vivado  # noqa: F401 (a fixture, fake programs)
from test_boards_table import PINS, SPI_PINS
from watched import watched

from sbnn_hw import netlist
from sbnn_hw.boards.host import host_files
from sbnn_hw.boards.vivado import check_project
from sbnn_hw.cli import main
from sbnn_hw.data.input_format import FILES as INPUT_FORMAT
from sbnn_hw.hardware import Folder
from sbnn_hw.report import Report, render

MODELS = ROOT / "models"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a small network as a file."""
    path = tmp_path_factory.mktemp("model") / "small.sbnn"
    netlist.save(small_network((4, 4, 1), hidden=(6,), classes=3, fan_in=4), path)
    return path


def run(*arguments):
    return main(["build", *map(str, arguments)])


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def said(capsys):
    """Return the one sentence that went wrong."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("E: ")]
    assert len(lines) == 1, lines
    return lines[0].removeprefix("E: ")


@pytest.fixture(scope="module")
def built(model, tmp_path_factory):
    """Return the folder of a build for Artix-7."""
    out = tmp_path_factory.mktemp("build") / "arty"
    assert run("--model", model, "--board", "arty_a7", "--out", out) == 0
    return out


@pytest.fixture
def copy(built, tmp_path):
    """Return a copy of that folder, to spoil."""
    return shutil.copytree(built, tmp_path / "copy")


def test_a_build_leaves_all_its_files(built, model, capsys):
    names = {path.name for path in built.iterdir() if not path.name.startswith(".")}
    assert names == {
        *("network.sbnn", "top.v", "top_axi.v", "design.json", "tests", "agreement.json"),
        "plan.json",
        *("board", "host", "report.json", "report.html", *INPUT_FORMAT),
    }
    design = Folder(built).load()[2]
    host = {path.name: path.read_text() for path in (built / "host").iterdir()}
    assert host == host_files(design)
    report = report_of(built)
    assert (built / "report.html").read_text() == render(Report.read(report))
    assert report["model"] == model.name
    assert (report["board"], report["family"]) == ("arty_a7", "xc7")
    assert report["agreement"]["vectors"] == 1000
    assert report["agreement"]["mismatches"] == 0
    bops = report["bops"]
    assert bops["static"] == bops["measured"] < bops["dense"]
    assert report["luts_per_connection"] == report["luts"] / report["connections"]
    assert report["luts"] < report["design"]["luts"] < report["capacity"]["luts"]
    assert report["accuracy"] is None
    assert report["fmax_mhz"] is None
    assert report["bitstream"] is None
    assert "neither Vivado nor openXC7 is on PATH" in report["missing"]
    assert report["uart"] == {"baud": 3_000_000, "clocks_per_bit": 33}
    assert [step["name"] for step in report["steps"]] == [
        *("netlist", "plan", "rtl", "host", "simulation", "synthesis"),
    ]
    assert {"yosys", "amaranth", "verilator", "numpy"} <= set(report["tools"])


def test_a_part_without_a_board_has_no_host(model, tmp_path):
    arguments = ["--model", model, "--out", tmp_path / "out", "--until", "rtl"]
    assert run(*arguments, "--board", "icebreaker") == 0
    assert (tmp_path / "out/host/sbnn_model.h").is_file()
    assert run(*arguments, "--part", "iCE40UP5K-SG48") == 0
    assert not (tmp_path / "out/host").exists()


def test_a_build_for_spi_says_so(model, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--model", model, "--board", "icebreaker", "--out", out, "--until", "rtl"]
    assert run(*arguments) == 0
    uart = report_of(out)
    capsys.readouterr()
    assert run(*arguments, "--link", "spi") == 0
    report = report_of(out)
    assert report["uart"] is None
    where = "PMOD 1A: CS at pin 1, MOSI at 2, MISO at 3, SCK at 4, ready at 7, and GND"
    assert report["link"] == f"SPI, SCK up to 1.5 MHz: {where}"
    # At the same rate, 8 bits a byte in place of 10.
    rate = report["link_images_per_second"]
    assert rate == pytest.approx(uart["link_images_per_second"] * 10 / 8)
    assert printed(capsys)["line"] == f"up to {rate:,.0f} images/s; SPI, SCK up to 1.5 MHz: {where}"
    assert f"SPI, SCK up to 1.5 MHz: {where}" in (out / "report.html").read_text()
    assert main(["serve", "--build", str(out)]) == 2
    assert said(capsys) == (
        f"The build in {out} is for SPI, and a terminal has only a serial line; build it without "
        "--link spi"
    )


def test_a_build_for_another_line_is_made_anew(copy, model):
    arguments = ["--model", model, "--board", "arty_a7", "--out", copy, "--until", "synthesis"]
    assert "uart" in (copy / "board/shell.xdc").read_text()
    assert run(*arguments, "--link", "spi") == 0
    assert "uart" not in (copy / "board/shell.xdc").read_text()
    assert "sbnn_spi_0__ready__io" in (copy / "board/shell.xdc").read_text()
    assert check_project(copy / "board") == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--board", "arty_a7", "--link", "i2c"], "Link must be one of uart, spi, not 'i2c'"),
        (["--part", "iCE40UP5K-SG48", "--link", "spi"],
         "There is no SPI for iCE40UP5K-SG48 without a board (--board); its network has AXI4-Stream"),
        (["--board", "ulx3s_85f", "--link", "spi"],
         ("No pins for SPI are known on ulx3s_85f; name them in a pin file of your own ([spi]), or "
         "omit --link")),
        (["--board", "uart.toml", "--link", "spi"],
         "No pins for SPI are known on uart; add [spi] to its pin file, or omit --link"),
        (["--board", "spi.toml"],
         "The pin file of spi has no table [uart]; add it, or build with --link spi"),
    ],
)  # fmt: skip
def test_a_line_without_pins_is_refused(model, tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    start, end = PINS.index("[uart]"), PINS.index("[reset]")
    Path("uart.toml").write_text(PINS)
    Path("spi.toml").write_text(PINS[:start] + PINS[end:] + SPI_PINS)
    assert run("--model", model, *arguments, "--out", "out") == 2
    assert said(capsys) == sentence
    assert not Path("out").exists()


def printed(capsys):
    """Return what the last command printed, by its first word or two."""
    lines = capsys.readouterr().out.splitlines()
    return {line[:12].strip(): line[13:] for line in lines}


@pytest.mark.parametrize("name", ["plain", "with space", "quote's"])
def test_the_command_that_makes_the_bitstream_works_as_printed(
    built,
    model,
    tmp_path,
    monkeypatch,
    capsys,
    programs,  # noqa: F811
    name,
):
    shutil.copytree(built, tmp_path / name / "out")
    monkeypatch.chdir(tmp_path)
    assert run("--model", model, "--board", "arty_a7", "--out", Path(name) / "out") == 0
    lines = printed(capsys)
    assert lines["missing"] == (
        "There is no bitstream, since neither Vivado nor openXC7 is on PATH: install openXC7, or "
        "run board/build_shell.sh on a machine that has Vivado"
    )
    vivado(programs)
    subprocess.run(lines["with Vivado"], shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / name / "out/board/shell.bit").is_file()
    # The same for the line that loads it.
    fake(
        programs,
        "openFPGALoader",
        "import sys; open('loaded', 'w').write('\\n'.join(sys.argv[1:]))",
    )
    subprocess.run(lines["then load it"], shell=True, check=True, cwd=tmp_path)
    board, path = "-b", "arty_a7_35t"
    loaded = (tmp_path / "loaded").read_text().split("\n")
    assert loaded == [board, path, f"{name}/out/board/shell.bit"]


def test_the_line_that_loads_a_bitstream_names_it(ice40, model, monkeypatch, capsys):
    monkeypatch.chdir(ice40.parent)
    assert run("--model", model, "--board", "icebreaker", "--out", ice40.name) == 0
    assert printed(capsys)["load it"] == f"iceprog {ice40.name}/design.bin"


def test_the_page_tells_of_a_missing_bitstream_once(built):
    page = (built / "report.html").read_text()
    assert page.count("neither Vivado nor openXC7") == 1
    assert page.count("bitstream") + page.count("Bitstream") <= 3


def test_a_report_names_no_place_on_the_machine(built, model):
    for name in ("report.html", "report.json"):
        text = (built / name).read_text()
        for place in (str(built), str(model.parent), str(Path.home()), sys.prefix, "/tmp/"):
            assert place not in text, (name, place)
    assert (
        "<title>small on Digilent Arty A7-35T – sbnn-hw</title>"
        in (built / "report.html").read_text()
    )


def test_the_vivado_project_is_consistent(built):
    assert check_project(built / "board") == []
    pins = re.findall(r"LOC (\w+) \[get_ports", (built / "board/shell.xdc").read_text())
    assert {"D10", "A9", "E3"} <= set(pins)


def test_the_second_time_nothing_is_done(built, model, capsys):
    before = report_of(built)
    times = {path: path.stat().st_mtime_ns for path in built.rglob("*.v")}
    started = time.perf_counter()
    assert run("--model", model, "--board", "arty_a7", "--out", built) == 0
    assert time.perf_counter() - started < 10
    after = report_of(built)
    assert all(step["cached"] for step in after["steps"])
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*.v")} == times
    before.pop("steps"), after.pop("steps")
    assert before == after


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("network.sbnn", ["netlist"]),
        ("top.v", ["rtl", "simulation"]),
        ("agreement.json", ["simulation"]),
        ("host/sbnn.c", ["host"]),
        ("board/shell.v", ["synthesis"]),
    ],
)
def test_a_file_that_was_changed_is_made_again(copy, model, name, again, built):
    path = copy / name
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    assert run("--model", model, "--board", "arty_a7", "--out", copy) == 0
    if name != "agreement.json":  # it has times in it
        assert path.read_bytes() == good
    steps = report_of(copy)["steps"]
    assert [step["name"] for step in steps if not step["cached"]] == again


@pytest.mark.long
def test_other_choices_do_only_what_they_change(copy, model):
    arguments = ["--model", model, "--board", "arty_a7", "--out", copy]
    assert run(*arguments, "--levels", "1") == 0
    fresh = [step["name"] for step in report_of(copy)["steps"] if not step["cached"]]
    assert fresh == ["plan", "rtl", "host", "simulation", "synthesis"]


@pytest.mark.long
def test_another_board_needs_no_new_simulation(copy, model):
    # The same family, clock and speed: the network's own hardware is the same.
    assert run("--model", model, "--board", "nexys4ddr", "--out", copy) == 0
    fresh = [step["name"] for step in report_of(copy)["steps"] if not step["cached"]]
    assert fresh == ["plan", "synthesis"]
    assert report_of(copy)["part"] == "xc7a100tcsg324-1"


@pytest.mark.parametrize("until", ["netlist", "rtl", "simulation"])
def test_a_build_ends_where_it_shall(model, tmp_path, until):
    assert run("--model", model, "--board", "ulx3s_85f", "--out", tmp_path, "--until", until) == 0
    report = report_of(tmp_path)
    assert [step["name"] for step in report["steps"] if step["name"] != "host"][-1] == until
    assert (tmp_path / "host").exists() == (until != "netlist")
    assert (report["agreement"] is None) == (until != "simulation")
    assert (tmp_path / "top.v").is_file() == (until != "netlist")
    assert not (tmp_path / "board").exists()


@pytest.fixture(scope="module")
def ice40_watched(model, tmp_path_factory):
    """Return the folder of a build that ends in a bitstream, and what ran in its steps."""
    out = tmp_path_factory.mktemp("build") / "ice40"
    with watched() as steps:
        assert run("--model", model, "--board", "icebreaker", "--out", out) == 0
    return out, steps


@pytest.fixture(scope="module")
def ice40(ice40_watched):
    return ice40_watched[0]


def test_ice40_ends_in_a_bitstream(model, ice40, capsys):
    report = report_of(ice40)
    assert report["bitstream"] == "design.bin"
    assert (ice40 / "design.bin").stat().st_size > 100_000
    assert report["fmax_mhz"] > report["clock_mhz"] == 12
    assert report["timing"]["met"]
    # Where a table and a register share a cell, what was placed is what counts.
    used, available = report["placed"]["ICESTORM_LC"]
    assert report["design"]["luts"] < used < available == report["capacity"]["luts"]
    assert report["load"] == "iceprog design.bin"
    assert run("--model", model, "--board", "icebreaker", "--out", ice40, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again == report_of(ice40)
    assert all(step["cached"] for step in again["steps"])
    assert {**again, "steps": None} == {**report, "steps": None}


def test_results_do_not_outlive_what_they_were_made_from(ice40, tmp_path, capsys):
    copy = shutil.copytree(ice40, tmp_path / "copy")
    arguments = ["--board", "icebreaker", "--out", copy]
    assert run("--model", MODELS / "mnist_sfc_95.pt", *arguments) == 1
    assert "logic cells" in said(capsys)
    assert not {"report.json", "report.html", "design.bin"} & {path.name for path in copy.iterdir()}


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Return another small network as a file."""
    path = tmp_path_factory.mktemp("other") / "other.sbnn"
    netlist.save(small_network((4, 4, 1), hidden=(6,), classes=3, fan_in=4, seed=1), path)
    return path


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".steps" not in path.parts and not path.name.startswith("report.")
    }


@pytest.mark.parametrize("until", ["netlist", "rtl"])
def test_nothing_of_another_network_stays_in_a_folder(ice40, other, tmp_path, until):
    used = shutil.copytree(ice40, tmp_path / "used")
    for folder in (used, tmp_path / "fresh"):
        arguments = ["--board", "icebreaker", "--out", folder, "--until", until]
        assert run("--model", other, *arguments) == 0
    assert files_of(used) == files_of(tmp_path / "fresh")


def test_nothing_of_another_network_stays_when_a_build_is_refused(ice40, tmp_path, capsys):
    used = shutil.copytree(ice40, tmp_path / "used")
    arguments = ["--board", "icebreaker", "--out", used]
    assert run("--model", MODELS / "mnist_sfc_95.pt", *arguments) == 1
    assert "logic cells" in said(capsys)
    assert set(files_of(used)) == {"network.sbnn"}


def test_nothing_of_another_board_stays_in_a_folder(ice40, model, tmp_path):
    used = shutil.copytree(ice40, tmp_path / "used")
    for folder in (used, tmp_path / "fresh"):
        arguments = ["--board", "ulx3s_85f", "--out", folder, "--until", "rtl"]
        assert run("--model", model, *arguments) == 0
    assert files_of(used) == files_of(tmp_path / "fresh")


def test_nothing_of_a_board_with_the_same_network_text_stays(model, tmp_path):
    """Two boards of one family and clock have the same netlist and Verilog."""
    arguments = ["--model", model, "--out", tmp_path / "used"]
    assert run(*arguments, "--board", "arty_a7", "--until", "rtl") == 0
    left = tmp_path / "used" / "board"
    left.mkdir()
    (left / "shell.tcl").write_text("# of arty_a7")
    (tmp_path / "used" / "design.bit").write_bytes(b"of arty_a7")
    assert run(*arguments, "--board", "arty_a7_100", "--until", "rtl") == 0
    assert not left.exists()
    assert not (tmp_path / "used" / "design.bit").exists()


def test_what_is_still_right_stays_when_less_is_asked_for(ice40, model, tmp_path):
    used = shutil.copytree(ice40, tmp_path / "used")
    arguments = ["--board", "icebreaker", "--out", used, "--until", "rtl"]
    assert run("--model", model, *arguments) == 0
    assert files_of(used) == files_of(ice40)


def test_a_bitstream_that_cannot_be_put_in_place_is_one_sentence(ice40, model, tmp_path, capsys):
    copy = shutil.copytree(ice40, tmp_path / "copy")
    (copy / "design.bin").unlink()
    (copy / "design.bin").mkdir()
    assert run("--model", model, "--board", "icebreaker", "--out", copy) == 6
    assert said(capsys).startswith("Cannot write ")


def test_a_part_without_a_board_gets_axi_stream(model, tmp_path, capsys):
    part = "xc7a35ticsg324-1L"
    assert run("--model", model, "--part", part, "--out", tmp_path, "--clock", 125) == 0
    report = report_of(tmp_path)
    assert (report["board"], report["part"], report["clock_mhz"]) == (None, part, 125)
    assert check_project(tmp_path / "board", "top_axi") == []
    tcl = (tmp_path / "board/top_axi.tcl").read_text()
    assert f"-part {part}" in tcl
    assert "-mode out_of_context" in tcl
    assert report["design"]["luts"] > report["luts"] > 0


@pytest.mark.long
def test_an_ecp5_without_a_board_gets_its_clock(model, tmp_path):
    assert run("--model", model, "--part", "LFE5U-25F-6BG381C", "--out", tmp_path) in (0, 9)
    report = report_of(tmp_path)
    assert report["fmax_mhz"] > 50
    assert report["bitstream"] is None


def test_vivado_is_used_where_it_is(copy, model, programs, capsys):  # noqa: F811
    vivado(programs)
    arguments = ["--model", model, "--board", "arty_a7", "--out", copy, "--until", "bitstream"]
    assert run(*arguments) == 0
    report = report_of(copy)
    assert report["bitstream"] == "design.bit"
    assert (copy / "design.bit").is_file()
    assert report["timing"]["tool"].startswith("vivado")
    assert report["missing"] is None
    # A clock that is not met is an error that names the stage, and no bitstream is left.
    vivado(programs, slack=-2.5)
    (copy / ".steps/bitstream.json").unlink()
    assert run(*arguments) == 9
    assert re.fullmatch(
        r"The design reaches [\d.]+ MHz on arty_a7, not 100: its slowest path is in \w+ \(try "
        r"--levels \d+, or a lower --clock\)",
        said(capsys),
    )
    assert not (copy / "design.bit").exists()
    assert report_of(copy)["timing"]["met"] is False


def test_without_tools_a_bitstream_that_was_asked_for_is_an_error(model, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--model", model, "--board", "arty_a7", "--out", out]
    assert run(*arguments, "--until", "bitstream") == 3
    assert said(capsys).startswith("A bitstream for arty_a7 needs Vivado or openXC7 on PATH, and")
    assert run(*arguments, "--toolchain", "vivado") == 3
    assert said(capsys).startswith("Vivado was not found")
    assert run(*arguments, "--toolchain", "openxc7") == 3
    assert "openXC7" in said(capsys)
    # It is said before anything is done.
    assert not out.exists()


def test_hardware_that_differs_ends_the_build(model, tmp_path, monkeypatch, capsys):
    from sbnn_hw.rtl_gen import design

    original = design.to_verilog

    def spoiled(component, name="top"):
        text = original(component, name)
        if name != "top":
            return text
        # The fault: one table answers the other way round.
        *_, last = re.finditer(r"\.INIT\((\d+)'h([0-9a-f]+)\)", text)
        wrong = int(last[2], 16) ^ ((1 << int(last[1])) - 1)
        return f"{text[: last.start(2)]}{wrong:x}{text[last.end(2) :]}"

    monkeypatch.setattr(design, "to_verilog", spoiled)
    assert run("--model", model, "--board", "arty_a7", "--out", tmp_path) == 7
    words = said(capsys)
    assert "does not compute what its network computes" in words
    assert re.search(r"first: image \d+, layer \w+, neuron \d+", words)
    assert not (tmp_path / "board").exists()
    report = report_of(tmp_path)
    assert report["agreement"]["mismatches"] > 0
    assert report["luts"] is None
    assert json.loads((tmp_path / "agreement.json").read_text())["equal"] is False
    assert not (tmp_path / ".steps/simulation.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["--board", "arty_a8"],
            2,
            r"There is no board called 'arty_a8' \(did you mean arty_a7 or arty_a7_100\?.*\)",
        ),
        (["--board", "nope.toml"], 2, r".*nope\.toml.*"),
        (["--part", "xc9"], 2, r"Part must be a 7-series, ECP5 or iCE40 FPGA.*'xc9'"),
        (["--part", "xc7a35ticsg324-1L; exec rm"], 2, r"Part must be .*"),
        (
            ["--part", "LFE5U-25F-6BG381C", "--until", "bitstream"],
            2,
            r"There is no bitstream for LFE5U-25F-6BG381C without a board \(--board\)",
        ),
        (["--board", "arty_a7", "--until", "lunch"], 2, r"Until must be one of .*'lunch'"),
        (["--board", "arty_a7", "--toolchain", "ise"], 2, r"Toolchain must be one of .*'ise'"),
        (
            ["--board", "icebreaker", "--toolchain", "vivado"],
            2,
            r"Toolchain vivado is for 7-series FPGAs, not for icebreaker",
        ),
        (["--board", "arty_a7", "--clock", "-3"], 2, r"Clock must be between .*, not -3"),
        (["--board", "arty_a7", "--clock", "nan"], 2, r"Clock must be between .*, not nan"),
        (["--board", "icebreaker", "--clock", "1900"], 2, r".*1900.*"),
        (["--board", "arty_a7", "--levels", "0"], 2, r"Levels per stage must be 1 or more, not 0"),
        (["--board", "arty_a7", "--data", "mnist"], 1, r".* takes images of 4×4×1 in 3 classes.*"),
        (["--board", "arty_a7", "--data", "cats"], 2, r"'cats' is neither a file or folder .*"),
    ],
)
def test_wrong_arguments_are_one_sentence(model, tmp_path, capsys, arguments, code, words):
    assert run("--model", model, "--out", tmp_path / "out", *arguments) == code
    assert re.fullmatch(words, said(capsys))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.pt", None, r"No model at .*none\.pt \(train one with `sbnn-hw train`\)"),
        ("junk.pt", b"junk", r".*junk\.pt is not a checkpoint.*"),
        ("junk.sbnn", b"junk", r".*junk\.sbnn.*"),
        (
            "model.h5",
            b"junk",
            r"A model must be a checkpoint \(\.pt\), a netlist \(\.sbnn or \.json\) or an ONNX file.*",
        ),
    ],
)
def test_wrong_models_are_one_sentence(tmp_path, capsys, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert run("--model", path, "--board", "arty_a7", "--out", tmp_path / "out") in (1, 2)
    assert re.fullmatch(words, said(capsys))
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_another_version_is_refused(tmp_path, capsys):
    import torch

    content = torch.load(MODELS / "digits.pt", weights_only=True)
    torch.save({**content, "version": 99}, tmp_path / "new.pt")
    assert run("--model", tmp_path / "new.pt", "--board", "arty_a7", "--out", tmp_path / "o") == 1
    assert "has checkpoint version 99" in said(capsys)


@pytest.mark.parametrize("until", ["rtl", "bitstream"])
def test_a_network_that_is_too_large_is_refused_at_once(tmp_path, capsys, until):
    started = time.perf_counter()
    arguments = ["--board", "icebreaker", "--out", tmp_path / "out", "--until", until]
    assert run("--model", MODELS / "mnist_sfc_95.pt", *arguments) == 1
    assert time.perf_counter() - started < 20
    words = said(capsys)
    assert re.match(
        r"No plan fits icebreaker: as gaps, \d+ lanes? the network needs \d+ of 30 memory blocks, and "
        r"as wires [\d,]+ of 5,280 logic cells; it fits ",
        words,
    )
    assert "ulx3s_85f" in words
    assert not (tmp_path / "out/top.v").exists()


def test_a_part_of_unknown_size_does_not_take_any_network(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sbnn_hw.boards.fit.LARGEST", 1)
    arguments = ["--part", "xc7k999tffg900-2", "--out", tmp_path / "out", "--until", "rtl"]
    assert run("--model", model, *arguments) == 1
    assert "takes a lot of memory and time" in said(capsys)
    assert run("--model", model, *arguments, "--force") == 0


NASTY = [
    "with space",
    "quote'\"quote",
    "new\nline",
    "$(touch pwned)",
    "`touch pwned`; exit",
    "[exec touch pwned]",
    "{brace",
    "ünïcode",
    "-dash",
]


@pytest.mark.parametrize("name", NASTY)
def test_models_may_have_any_name(model, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    theirs = tmp_path / f"{name}.sbnn"
    shutil.copy(model, theirs)
    assert run(f"--model={theirs}", "--board", "arty_a7", "--until", "simulation") == 0
    # Without --out the folder has a plain name.
    (default,) = (tmp_path / "build").iterdir()
    assert re.fullmatch(r"[\w.-]+", default.name)
    assert report_of(default)["model"] == theirs.name
    assert not list(tmp_path.rglob("pwned"))


def test_a_name_need_not_be_text(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = tmp_path / os.fsdecode(b"odd\xff.sbnn")
    shutil.copy(model, theirs)
    assert run("--model", theirs, "--board", "arty_a7", "--until", "netlist") == 0
    (default,) = (tmp_path / "build").iterdir()
    assert report_of(default)["model"].endswith("odd\ufffd.sbnn")


def test_names_reach_no_tool(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = " ".join(NASTY)
    folder = tmp_path / name
    folder.mkdir()
    theirs = folder / f"{name}.sbnn"[-200:]
    shutil.copy(model, theirs)
    out = folder / "out $(touch pwned) [exec touch pwned]"
    assert run("--model", theirs, "--board", "arty_a7", "--out", out, "--until", "synthesis") == 0
    assert check_project(out / "board") == []
    texts = [path for path in out.rglob("*") if path.suffix in (".v", ".tcl", ".xdc", ".sh", ".ys")]
    assert len(texts) > 6
    for path in texts:
        assert "pwned" not in path.read_text()
        assert "quote" not in path.read_text()
    assert not [path for path in tmp_path.rglob("*") if path.name == "pwned"]


def test_a_folder_that_cannot_be_written_is_one_sentence(model, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("--model", model, "--board", "arty_a7", "--out", tmp_path / "file/out") == 6
    assert said(capsys).startswith("Cannot write ")
    assert run("--model", model, "--board", "arty_a7", "--out", tmp_path / "file") == 6
    assert said(capsys) == f"Output {tmp_path / 'file'} is a file; name a folder"
    assert run("--model", model, "--board", "arty_a7", "--out", tmp_path) == 6
    assert said(capsys) == (
        f"Output {tmp_path} holds other files ('file'); name a new or empty folder"
    )
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        assert run("--model", model, "--board", "arty_a7", "--out", tmp_path / "locked/out") == 6
        assert said(capsys).startswith("Cannot write ")


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half(model, tmp_path, capsys):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        code = run("--model", model, "--board", "arty_a7", "--out", place / "out")
        assert code == 6
        assert "No space left on device" in said(capsys)
        left = [path.name for path in place.rglob("*") if path.name.endswith(".part")]
        assert left == []
        # With room again it goes on from there.
        subprocess.run(["mount", "-o", "remount,size=200m", place], check=True)
        arguments = ["--model", model, "--board", "arty_a7", "--out", place / "out"]
        assert run(*arguments, "--until", "simulation") == 0
    finally:
        subprocess.run(["umount", place], check=True)


def test_two_builds_do_not_share_a_folder(model, tmp_path, capsys):
    from sbnn_hw.files import exclusive

    with exclusive(tmp_path / "report.json"):
        assert run("--model", model, "--board", "arty_a7", "--out", tmp_path) == 6
    assert "Another process is writing" in said(capsys)


def kill_and_finish(model, board, out, seed, kills, longest):
    """Kill builds at random moments, and let the last one end."""
    rng = random.Random(seed)
    command = [sys.executable, "-m", "sbnn_hw", "build", "--model", str(model), "--board", board]
    for _ in range(kills):
        process = subprocess.Popen(
            [*command, "--out", str(out)],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            process.wait(rng.uniform(0.3, longest))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return subprocess.run([*command, "--out", str(out)], capture_output=True, check=False)


def test_a_killed_build_leaves_nothing_that_is_trusted(model, ice40, tmp_path, monkeypatch):
    # An empty cache, so that there is something to kill in every step.
    monkeypatch.setenv("SBNN_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    done = kill_and_finish(model, "icebreaker", out, 0, 4, 20)
    assert done.returncode == 0, done.stderr
    for path in sorted(ice40.rglob("*")):
        name = path.relative_to(ice40)
        volatile = name.suffix in (".log", ".json", ".html") or ".steps" in name.parts
        if path.is_file() and not volatile:
            assert (out / name).read_bytes() == path.read_bytes(), name
    ours, theirs = report_of(ice40), report_of(out)
    for key in ("luts", "ffs", "design", "agreement", "digest", "bops", "fmax_mhz"):
        assert ours[key] == theirs[key], key
    assert not list(out.rglob("*.part"))


#: A file of each kind, the steps that are done again when a byte of it changes, and others that
#: are not.
CHANGES = {
    # Imported at the top of a file, or inside a function, by way of several others.
    "netlist/conv.py": ("netlist rtl simulation", "bitstream"),
    "hardware.py": ("rtl simulation", "netlist synthesis bitstream"),
    "generate.py": ("rtl", "netlist simulation synthesis bitstream"),
    "rtl_gen/design.py": ("rtl", "netlist simulation bitstream"),
    "rtl_gen/verilog.py": ("rtl synthesis", "netlist simulation bitstream"),
    "sim/agreement.py": ("simulation", "netlist rtl synthesis bitstream"),
    "boards/platform.py": ("synthesis", "netlist rtl simulation bitstream"),
    "boards/nextpnr.py": ("synthesis bitstream", "netlist rtl simulation"),
    "yosys.py": ("rtl synthesis bitstream", "netlist"),
    "cache.py": ("rtl simulation", "netlist"),
    # Entered by an import that uses no name.
    "rtl_gen/stages/conv.py": ("rtl", "netlist simulation bitstream"),
    # Read, not imported.
    "sim/harness.cpp": ("simulation", "netlist synthesis bitstream"),
    "sim/plain/zlib.h": ("simulation", "netlist synthesis bitstream"),
    "boards/host/sbnn.c": ("host", "netlist rtl simulation synthesis bitstream"),
    # The steps themselves.
    "models.py": ("netlist", "rtl simulation synthesis bitstream"),
    "flow/network_steps.py": ("netlist rtl simulation", "synthesis bitstream"),
    "flow/board_steps.py": ("host synthesis bitstream", "netlist rtl simulation"),
    # What no step is made with.
    **dict.fromkeys(
        ("train/loop.py", "train/fold.py", "qonnx/importer.py", "report/page.py", "cli.py"),
        ("", "netlist rtl simulation synthesis bitstream"),
    ),
    "sim/suite_files/README.md": ("rtl", "netlist synthesis bitstream"),
}


@pytest.fixture(scope="module")
def changed(model, ice40, tmp_path_factory):
    """Return which steps are done again when a file changes, and a folder built with one changed.

    The sources are a copy, in the folders that an installed wheel has.
    """
    place = tmp_path_factory.mktemp("changed")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sbnn_hw", place / "sbnn_hw", ignore=skip)
    for folder in ("train", "rtl_gen", "sim", "boards"):
        shutil.copytree(ROOT / folder, place / "sbnn_hw" / folder, ignore=skip)
    out = shutil.copytree(ice40, place / "out")
    worker = Path(__file__).with_name("changed_sources.py")
    done = subprocess.run(
        [sys.executable, worker, model, "icebreaker", out, *CHANGES],
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["sources"] == str(place / "sbnn_hw")
    return said, out


def test_an_installed_copy_has_the_digests_of_the_sources(changed):
    assert changed[0]["again"][""] == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_byte_of_what_makes_a_file_is_seen_by_its_step(changed, name):
    again, (must, must_not) = set(changed[0]["again"][name]), CHANGES[name]
    assert set(must.split()) <= again
    assert not again & set(must_not.split())


def test_a_step_is_really_done_when_a_file_of_the_suite_changes(changed):
    said, out = changed
    assert said["really"] == ["rtl"]
    assert (out / "tests/README.md").read_text().endswith("changed\n")


def check_counted(steps):
    for name, (ran, counted) in steps.items():
        assert ran
        assert ran <= counted, name


def test_all_that_runs_in_a_step_counts(ice40_watched):
    steps = ice40_watched[1]
    assert list(steps) == [
        *("netlist", "plan", "rtl", "host", "simulation", "synthesis", "bitstream"),
    ]
    assert "rtl_gen/stages/vector.py" in steps["rtl"][0]
    assert "boards/platform.py" in steps["synthesis"][0]
    check_counted(steps)


@pytest.mark.parametrize("name", ["digits.pt", "tfc_brevitas.onnx"])
def test_all_that_opens_a_model_counts(name, tmp_path):
    with watched() as steps:
        options = ("--board", "arty_a7", "--until", "netlist", "--out", tmp_path)
        assert run("--model", MODELS / name, *options) == 0
    check_counted(steps)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "board", "result"),
    [
        ("digits", "icebreaker", "design.bin"),
        ("mnist_sfc_98", "arty_a7", None),
        ("mnist_sfc_98", "ulx3s_85f", "design.bit"),
    ],
)
@pytest.mark.timeout(1800)
def test_shipped_models_fit_their_boards(name, board, result, tmp_path):
    path = MODELS / f"{name}.pt"
    assert run("--model", path, "--board", board, "--out", tmp_path) == 0
    report = report_of(tmp_path)
    assert report["design"]["luts"] < report["capacity"]["luts"]
    assert report["agreement"]["mismatches"] == 0
    assert report["bitstream"] == result
