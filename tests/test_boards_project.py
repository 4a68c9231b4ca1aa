# amaranth: UnusedElaboratable=no
"""Boards as files: every one of them prepares, and Vivado projects are consistent."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth import Cat, Module, Signal
from amaranth.lib import cdc, wiring
from amaranth.lib.wiring import In, Out
from designs import described
from test_boards_table import PINS
from test_boards_table import SPI_PINS as TABLE_SPI_PINS

from sbnn_hw.boards.clocks import plan_clock
from sbnn_hw.boards.custom import parse_board
from sbnn_hw.boards.links import SPI
from sbnn_hw.boards.nextpnr import Synthesised
from sbnn_hw.boards.openxc7 import (
    constraints_for_nextpnr,
    find_openxc7,
    require_openxc7,
    run_openxc7,
)
from sbnn_hw.boards.platform import prepare_board
from sbnn_hw.boards.shell import Shell
from sbnn_hw.boards.table import BOARDS, part_family
from sbnn_hw.boards.vivado import (
    check_project,
    find_vivado,
    parse_timing,
    parse_utilisation,
    part_project,
    run_vivado,
)
from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError
from sbnn_hw.rtl_gen.axi import Boxed
from sbnn_hw.yosys import Counts

MHZ = 1_000_000

#: A network's stand-in: its ports, and hardly anything inside.
TOP = """\
module top(clk, rst, i__payload, i__valid, i__ready, o__payload, o__valid, o__ready);
  input clk;
  input rst;
  input [7:0] i__payload;
  input i__valid;
  output i__ready;
  output reg [11:0] o__payload;
  output reg o__valid;
  input o__ready;
  assign i__ready = 1;
  always @(posedge clk) begin
    o__valid <= i__valid & ~rst;
    o__payload <= {4'd0, ~i__payload};
  end
endmodule
"""
DESIGN = described((1, 1, 1), index_bits=12)


class DummyShell(wiring.Component):
    """What a shell looks like from outside; inside, bits go through the network in a row."""

    def __init__(self, clocks_per_bit, led_count):
        assert clocks_per_bit >= 8
        super().__init__({"rx": In(1), "tx": Out(1), "leds": Out(led_count)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = Boxed(DESIGN)
        rx, received, answer = Signal(), Signal(8), Signal(12)
        m.submodules.rx_sync = cdc.FFSynchronizer(self.rx, rx, init=1)
        m.d.sync += [received.eq(Cat(rx, received)), answer.eq(answer >> 1)]
        with m.If(core.o.valid):
            m.d.sync += answer.eq(core.o.payload)
        m.d.comb += [
            core.i.payload.eq(received),
            core.i.valid.eq(rx),
            core.o.ready.eq(1),
            self.tx.eq(answer[0]),
            self.leds.eq(answer),
        ]
        return m


def prepare(board, clock_hz=None):
    return prepare_board(board, DummyShell, plan_clock(board, clock_hz), {"top.v": TOP})


def text_of(prepared):
    return "\n".join(prepared.files.values())


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_board_prepares(board, tmp_path):
    prepared = prepare(board)
    assert prepared.name == "shell"
    assert prepared.files["top.v"] == TOP
    assert prepare(board) == prepared  # the same input, the same bytes
    text = text_of(prepared)
    assert str(Path.cwd()) not in text
    assert "Yosys" not in text
    if board.uart is not None:
        assert "sbnn_uart_0__rx__io" in text
        assert all(pin in text for pin in (board.uart.rx, board.uart.tx))
    pins = {"xc7": "xdc", "ecp5": "lpf", "ice40": "pcf"}[board.family.name]
    for number, led in enumerate(board.leds):
        assert (
            "__".join(["_".join(led.split()[:2]), *led.split()[2:]])
            in prepared.files[f"shell.{pins}"]
        ), number
    prepared.write(tmp_path)
    if board.family.name == "xc7":
        assert check_project(tmp_path) == []
    else:
        assert set(prepared.files) == {"top.v", "shell.il", "shell.ys", f"shell.{pins}"}


SPI_BOARDS = {name: board for name, board in BOARDS.items() if board.spi is not None}

#: Written out from the connectors of amaranth-boards: CS, SCK, MOSI, MISO, ready.
SPI_PINS = {
    "arty_a7": "G13 D12 B11 A11 D13",
    "arty_a7_100": "G13 D12 B11 A11 D13",
    "cmod_a7": "G17 L18 G19 N18 H17",
    "cmod_a7_15": "G17 L18 G19 N18 H17",
    "nexys4ddr": "C17 G17 D18 E18 D17",
    "orangecrab": "B8 R17 N16 N15 C8",
    "orangecrab_85f": "B8 R17 N16 N15 C8",
    "icebreaker": "4 45 2 47 3",
}


def prepare_spi(board):
    plan = plan_clock(board, link=SPI)
    assert (plan.baud.rate, plan.baud.divisor) == (board.clock_hz // 8, 8)

    def shell(divisor, leds):
        return Shell(DESIGN, divisor=divisor, clock_hz=plan.hz, leds=leds, link=plan.link)

    return prepare_board(board, shell, plan, {"top.v": TOP})


@pytest.mark.parametrize("name", SPI_PINS)
def test_boards_with_spi_prepare(name, tmp_path):
    board = SPI_BOARDS[name]
    prepared = prepare_spi(board)
    kind, of, enable = {
        "xc7": ("xdc", 'LOC {1} [get_ports "{0}"]', "OBUFT"),
        "ecp5": ("lpf", 'LOCATE COMP "{0}" SITE "{1}";', "OBZ"),
        "ice40": ("pcf", "set_io {0} {1}\n", "OUTPUT_ENABLE"),
    }[board.family.name]
    pins = prepared.files[f"shell.{kind}"]
    wires = ("cs", "sck", "mosi", "miso", "ready")
    for wire, pin in zip(wires, SPI_PINS[name].split(), strict=True):
        assert of.format(f"sbnn_spi_0__{wire}__io", pin) in pins
    assert "uart" not in pins
    assert enable in text_of(prepared)
    prepared.write(tmp_path)
    if board.family.name == "xc7":
        assert check_project(tmp_path) == []


def test_every_board_with_spi_has_its_pins_here():
    assert set(SPI_PINS) == set(SPI_BOARDS)


def test_a_pin_file_with_spi_prepares():
    board = parse_board(PINS + TABLE_SPI_PINS, "b.toml")
    pins = prepare_spi(board).files["shell.lpf"]
    assert 'LOCATE COMP "sbnn_spi_0__ready__io" SITE "K5";' in pins
    assert "uart" not in pins


@pytest.mark.parametrize(
    ("name", "mhz", "cell"),
    [
        ("arty_a7", 125, "PLLE2_BASE"),
        ("cmod_a7", 100, "MMCME2_BASE"),
        ("ulx3s_85f", 80, "EHXPLLL"),
        ("icebreaker", 24, "SB_PLL40_PAD"),
        ("ice40_hx8k", 48, "SB_PLL40_CORE"),
    ],
)
def test_another_clock_takes_a_pll_and_is_constrained(name, mhz, cell):
    board = BOARDS[name]
    assert cell not in text_of(prepare(board))
    prepared = prepare(board, mhz * MHZ)
    assert cell in text_of(prepared)
    if board.family.name == "ecp5":
        assert f'FREQUENCY NET "clk" {mhz * MHZ}.0 HZ;' in prepared.files["shell.lpf"]
    elif board.family.name == "ice40":
        assert f"set_frequency clk {mhz}.0" in prepared.files["shell.pcf"]
    else:
        # Vivado derives the PLL's output from its input.
        assert prepared.files["shell.xdc"].count("create_clock") == 1


def test_the_esp32_of_the_ulx3s_is_kept_quiet():
    lpf = prepare(BOARDS["ulx3s_12f"]).files["shell.lpf"]
    assert 'LOCATE COMP "sbnn_high_0__io" SITE "L2";' in lpf


@pytest.mark.parametrize(
    ("part", "standard"),
    [
        ("LFE5U-25F-6BG256C", "LVCMOS33"),
        ("xc7a35tcsg324-1", "LVCMOS33"),
        ("iCE40HX8K-CT256", "SB_LVCMOS"),
    ],
)
def test_pin_files_prepare(part, standard, tmp_path):
    board = parse_board(PINS.replace("LFE5U-25F-6BG256C", part), "mine.toml")
    prepared = prepare(board)
    text = text_of(prepared)
    for pin in ("P6", "M13", "M14", "P11", "N12", "L14"):
        assert pin in text
    if board.family.name != "ice40":
        assert standard in text
    prepared.write(tmp_path)
    if board.family.name == "xc7":
        assert check_project(tmp_path) == []


def test_sources_have_plain_names():
    plan = plan_clock(BOARDS["icebreaker"])
    for name in ("../top.v", "shell.v", "top.v; exit", "top"):
        with pytest.raises(ValueError, match=r"^Source must be named like top\.v, not "):
            prepare_board(BOARDS["icebreaker"], DummyShell, plan, {name: TOP})


# ---- Consistency


@pytest.fixture
def project(tmp_path):
    prepare(BOARDS["arty_a7"]).write(tmp_path)
    assert check_project(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("shell.tcl", 'add_files "top.v"', 'add_files "net.v"',
         "shell.tcl names net.v, which is missing"),
        ("shell.tcl", 'add_files "top.v"', "", "module top is used, but has no source"),
        ("shell.tcl", "read_xdc shell.xdc", "", "shell.tcl does not read shell.xdc"),
        ("shell.tcl", "-top shell", "-top shelf",
         "shell.tcl synthesises shelf, which has no source"),
        ("shell.tcl", "xc7a35ticsg324-1L", "xc9", "shell.tcl names no 7-series part"),
        ("shell.tcl", "    set_false_path -to $cell\n}", "    set_false_path -to $cell\n",
         "shell.tcl: a { is never closed"),
        ("shell.tcl", 'add_files "top.v"', 'add_files "top.v', "shell.tcl: line 3 has an open quote"),
        ("shell.xdc", 'LOC A9 [get_ports "uart_0__rx__io"]', 'LOC A9 [get_ports "rx"]',
         "shell.xdc has a constraint for rx, which is not a port"),
        ("shell.xdc", 'set_property LOC A9 [get_ports "uart_0__rx__io"]\n', "",
         "port uart_0__rx__io has no pin in shell.xdc"),
        ("shell.xdc", 'set_property IOSTANDARD "LVCMOS33" [get_ports "led_0__io"]\n', "",
         "port led_0__io has no IOSTANDARD in shell.xdc"),
        ("shell.xdc", "LOC A9", "LOC E3", "shell.xdc uses the pin E3 twice"),
        ("shell.xdc", "create_clock", "# create_clok", "shell.xdc constrains no clock"),
        ("shell.xdc", "[get_iobanks 34]", "[get_iobanks 34",
         "shell.xdc: a [ is never closed"),
        ("shell.v", "  input uart_0__rx__io;", "  input uart_0__rx__io;\n  input extra;",
         "port extra has no pin in shell.xdc"),
        ("shell.v", "\n  BUFG ", "\n  BUFH2 ", "module BUFH2 is used, but has no source"),
        ("build_shell.sh", "shell.tcl", "shelf.tcl", "build_shell.sh runs shelf.tcl, not shell.tcl"),
        ("build_shell.bat", "-source shell.tcl", "",
         "build_shell.bat runs nothing, not shell.tcl"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(project, file, old, new, fault):
    text = (project / file).read_text()
    assert old in text
    (project / file).write_text(text.replace(old, new, 1))
    assert fault in check_project(project)


@pytest.mark.parametrize("file", ["shell.tcl", "shell.xdc", "build_shell.sh", "build_shell.bat"])
def test_a_missing_file_is_found(project, file):
    (project / file).unlink()
    assert check_project(project) == [f"{file} is missing"]


def test_part_without_a_board_is_out_of_context(tmp_path):
    axi = TOP.replace("module top(", "module top_axi(")
    sources = {"top.v": TOP, "top_axi.v": axi}
    prepared = part_project(part_family("xc7a35ticsg324-1L"), 125 * MHZ, sources)
    prepared.write(tmp_path)
    assert check_project(tmp_path, "top_axi") == []
    assert "-mode out_of_context" in prepared.files["top_axi.tcl"]
    assert "create_clock -name clk -period 8.000 [get_ports clk]" in prepared.files["top_axi.xdc"]
    (tmp_path / "top_axi.xdc").write_text("create_clock -period 8 [get_ports clock]\n")
    assert check_project(tmp_path, "top_axi") == [
        "top_axi.xdc has a constraint for clock, which is not a port",
        "top_axi.xdc constrains no clock",
    ]
    with pytest.raises(
        UsageError, match=r"^Vivado projects are for 7-series parts, and iCE40UP5K-"
    ):
        part_project(part_family("iCE40UP5K-SG48"), MHZ, sources)
    with pytest.raises(ValueError, match=r"^Source must be named like top\.v, not 'a b\.v'$"):
        part_project(part_family("xc7a35ticsg324-1L"), MHZ, {"a b.v": TOP})


# ---- Reports. Vivado is not here: these texts were written after the form that it prints.

UTILISATION = """\
Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
---------------------------------------------------------------------------------------------
| Tool Version : Vivado v.2022.2 (lin64) Build 3671981 Fri Oct 14 04:59:54 MDT 2022
| Design       : shell
---------------------------------------------------------------------------------------------

Utilization Design Information

1. Slice Logic
--------------

+----------------------------+------+-------+------------+-----------+-------+
|          Site Type         | Used | Fixed | Prohibited | Available | Util% |
+----------------------------+------+-------+------------+-----------+-------+
| Slice LUTs                 | 1612 |     0 |          0 |     20800 |  7.75 |
|   LUT as Logic             | 1600 |     0 |          0 |     20800 |  7.69 |
|   LUT as Memory            |   12 |     0 |          0 |      9600 |  0.13 |
|     LUT as Shift Register  |   12 |     0 |            |           |       |
| Slice Registers            | 4200 |     0 |          0 |     41600 | 10.10 |
+----------------------------+------+-------+------------+-----------+-------+

3. Memory
---------

+-------------------+------+-------+------------+-----------+-------+
|     Site Type     | Used | Fixed | Prohibited | Available | Util% |
+-------------------+------+-------+------------+-----------+-------+
| Block RAM Tile    |  1.5 |     0 |          0 |        50 |  3.00 |
+-------------------+------+-------+------------+-----------+-------+
"""

TIMING = """\
Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
------------------------------------------------------------------------------------------------
| Tool Version      : Vivado v.2022.2 (lin64) Build 3671981 Fri Oct 14 04:59:54 MDT 2022
| Command           : report_timing_summary -datasheet -max_paths 10 -file shell_timing.rpt
------------------------------------------------------------------------------------------------

------------------------------------------------------------------------------------------------
| Design Timing Summary
| ---------------------
------------------------------------------------------------------------------------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)
    -------      -------  ---------------------  -------------------      -------      -------
      {slack}        0.000                      0                 9012        0.049        0.000


Clock         Waveform(ns)         Period(ns)      Frequency(MHz)
-----         ------------         ----------      --------------
clk100_0__io  {{0.000 5.000}}        10.000          100.000

Max Delay Paths
--------------------------------------------------------------------------------------
Slack ({verdict}) :             {slack}ns  (required time - arrival time)
  Source:                 shell/core/linear0/rank5_reg[1]/C
                            (rising edge-triggered cell FDRE clocked by clk100_0__io)
  Destination:            shell/core/linear0/rank6_reg[3]/D
                            (rising edge-triggered cell FDRE clocked by clk100_0__io)
  Path Group:             clk100_0__io
  Path Type:              Setup (Max at Slow Process Corner)
  Requirement:            10.000ns  (clk100_0__io rise@10.000ns - clk100_0__io rise@0.000ns)
  Data Path Delay:        5.400ns  (logic 1.200ns (22.222%)  route 4.200ns (77.778%))
    SLICE_X10Y20         FDRE (Prop_fdre_C_Q)         0.518     5.800 r  shell/core/linear0/rank5_reg[1]/Q
                         net (fo=4, routed)           1.100     6.900    shell/core/linear0/rank5[1]
    SLICE_X11Y20         LUT6 (Prop_lut6_I0_O)        0.124     7.024 r  shell/core/linear0/q_378_lut/O

Min Delay Paths
--------------------------------------------------------------------------------------
Slack (MET) :             0.049ns  (arrival time - required time)
  Source:                 shell/core/scores/wait1_reg/C
  Destination:            shell/core/scores/wait2_reg/D
  Path Type:              Hold (Min at Fast Process Corner)
  Requirement:            0.000ns  (clk100_0__io rise@0.000ns - clk100_0__io rise@0.000ns)
"""


def timing(slack, verdict="MET"):
    return TIMING.format(slack=f"{slack:.3f}", verdict=verdict)


def test_utilisation_is_read():
    assert parse_utilisation(UTILISATION) == {
        "Slice LUTs": (1612, 20800),
        "LUT as Logic": (1600, 20800),
        "LUT as Memory": (12, 9600),
        "Slice Registers": (4200, 41600),
        "Block RAM Tile": (1.5, 50),
    }
    # Releases before 2021.1 have no column for prohibited sites.
    older = (
        "| Site Type | Used | Fixed | Available | Util% |\n| Slice LUTs* | 7 | 0 | 20800 | 0 |\n"
    )
    assert parse_utilisation(older) == {"Slice LUTs": (7, 20800)}
    with pytest.raises(ToolFailed, match=r"^Cannot read Vivado's utilisation report$"):
        parse_utilisation("nothing")


def test_timing_is_read():
    met = parse_timing(timing(4.5))
    assert met.slack_ns == 4.5
    assert met.fmax_mhz == pytest.approx(1000 / 5.5)
    assert met.version == "2022.2"
    assert all("linear0" in name for name in met.names)
    failed = parse_timing(timing(-2.5, "VIOLATED"))
    assert (failed.slack_ns, failed.fmax_mhz) == (-2.5, pytest.approx(80))
    short = timing(4.5).split("Max Delay Paths")[0]
    assert parse_timing(short).fmax_mhz == pytest.approx(1000 / 5.5)
    assert parse_timing(timing(4.5).replace("4.500 ", "NA ")).fmax_mhz is None
    with pytest.raises(ToolFailed, match=r"^Cannot read Vivado's timing summary$"):
        parse_timing("nothing")


def fake(folder, name, body):
    """Put a program on PATH that is a few lines of Python."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "tools" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    for name in ("VIVADO", "CHIPDB", "PRJXRAY_DB_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


VIVADO = """
assert sys.argv[1:] == ["-mode", "batch", "-nojournal", "-log", "shell.log", "-source", "shell.tcl"]
assert pathlib.Path("shell.tcl").is_file()
print("****** Vivado v2022.2")
if {failure}:
    print("ERROR: [Place 30-640] Place Check : This design requires more Slice LUTs cells.")
    sys.exit(1)
pathlib.Path("shell_timing.rpt").write_text({timing!r})
pathlib.Path("shell_utilization_place.rpt").write_text({used!r})
pathlib.Path("shell.bit").write_bytes(b"bits")
"""


def vivado(programs, slack=4.5, failure=False):
    verdict = "MET" if slack >= 0 else "VIOLATED"
    fake(
        programs,
        "vivado",
        VIVADO.format(timing=timing(slack, verdict), used=UTILISATION, failure=failure),
    )


def test_vivado_is_run_and_its_reports_are_read(project, programs):
    vivado(programs)
    routed = run_vivado(project, clock_hz=100 * MHZ, stages=["linear0", "scores"])
    assert routed.bitstream == project / "shell.bit"
    assert routed.bitstream.read_bytes() == b"bits"
    assert routed.fmax_mhz == pytest.approx(1000 / 5.5)
    assert (routed.met, routed.worst, routed.tool) == (True, "linear0", "vivado 2022.2")
    assert routed.utilisation["Slice LUTs"] == (1612, 20800)
    assert "Vivado v2022.2" in routed.log.read_text()


def test_hold_and_pulse_widths_count_too():
    good = timing(4.5)
    assert parse_timing(good).met
    for slack in (f"{-0.5:.3f}",):
        wrong = good.replace("        0.049        0.000", f"       {slack}       -1.000")
        assert wrong != good
        assert not parse_timing(wrong).met
        assert parse_timing(wrong).slack_ns == 4.5


@pytest.mark.parametrize("name", ["shell", "top_axi"])
def test_scripts_run_from_any_folder(tmp_path, programs, name):
    place = tmp_path / "a place"
    if name == "shell":
        prepare(BOARDS["arty_a7"]).write(place)
    else:
        part_project(part_family("xc7a35ticsg324-1L"), MHZ, {"top.v": TOP}, "top_axi").write(place)
    fake(programs, "vivado", "import os, sys; open('ran', 'w').write(os.getcwd() + sys.argv[-1])")
    script = place / f"build_{name}.sh"
    for command in ([script], ["sh", script]):
        subprocess.run(command, cwd=tmp_path, check=True)
        assert (place / "ran").read_text() == f"{place}{name}.tcl"
        (place / "ran").unlink()


def test_a_script_without_vivado_says_how_to_get_it(tmp_path, monkeypatch):
    prepare(BOARDS["arty_a7"]).write(tmp_path)
    monkeypatch.setenv("VIVADO", "no-such-vivado")
    done = subprocess.run(
        ["sh", tmp_path / "build_shell.sh"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        3,
        "Vivado was not found: source its settings64.sh, or set VIVADO to its path\n",
    )


def test_vivado_tells_of_a_clock_that_is_not_met(project, programs):
    vivado(programs, slack=-2.5)
    routed = run_vivado(project, clock_hz=100 * MHZ)
    assert (routed.met, routed.fmax_mhz, routed.worst) == (False, pytest.approx(80), "shell")


def test_vivado_fails_in_one_sentence(project, programs):
    # What an earlier run left must not be taken for a result.
    (project / "shell.bit").write_bytes(b"old")
    vivado(programs, failure=True)
    with pytest.raises(ToolFailed) as caught:
        run_vivado(project, clock_hz=100 * MHZ)
    assert str(caught.value) == (
        "Vivado failed: [Place 30-640] Place Check : This design requires more Slice LUTs cells "
        f"(its output is in {project / 'vivado.out'})"
    )
    assert not (project / "shell.bit").exists()
    fake(programs, "vivado", "")
    with pytest.raises(
        ToolFailed, match=r"^Vivado failed: it wrote no shell_timing\.rpt \(its output"
    ):
        run_vivado(project, clock_hz=100 * MHZ)


def test_vivado_is_found_or_asked_for(programs, monkeypatch):
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(
        ToolMissing,
        match=r"^Vivado was not found: put it on PATH \(`source settings64\.sh`\) or set \$VIVADO,",
    ):
        find_vivado()
    vivado(programs)
    assert find_vivado() == str(programs / "vivado")
    other = fake(programs, "viv", "")
    monkeypatch.setenv("VIVADO", str(other))
    assert find_vivado() == str(other)


# ---- openXC7

NEXTPNR_XILINX = """
import json
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert pathlib.Path(arguments["--chipdb"]).name == "xc7a35tcsg324.bin"
assert arguments["--freq"] == "100.000000"
assert "[get_ports uart_0__rx__io]" in pathlib.Path(arguments["--xdc"]).read_text()
assert "shell" in json.loads(pathlib.Path(arguments["--json"]).read_text())["modules"]
print("Info: Max frequency for clock 'clk': 150.00 MHz (PASS at 100.00 MHz)")
print("Info: Critical path report for clock 'clk' (posedge -> posedge):")
print("Info: curr total")
print("Info:  0.5  0.5  Source shell.core.scores.a_reg.Q")
print("Info:  1.5  2.0    Net shell.core.scores.a budget 1 ns (1,1) -> (2,2)")
print("Info:                Sink shell.core.scores.lut.I0")
print("Info: Max frequency for clock 'clk': {mhz:.2f} MHz (PASS at 100.00 MHz)")
pathlib.Path(arguments["--fasm"]).write_text("fasm")
"""
FASM2FRAMES = """
assert sys.argv[1:3] == ["--part", "xc7a35tcsg324-1"]
assert sys.argv[4].endswith("artix7")
pathlib.Path(sys.argv[6]).write_text(pathlib.Path(sys.argv[5]).read_text() + " frames")
"""
FRAMES2BIT = """
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert pathlib.Path(arguments["--part_file"]).is_file()
frames = pathlib.Path(arguments["--frm_file"]).read_text()
pathlib.Path(arguments["--output_file"]).write_text(frames + " bits")
"""


def openxc7(programs, mhz=120.0):
    fake(programs, "nextpnr-xilinx", NEXTPNR_XILINX.replace("{mhz:.2f}", f"{mhz:.2f}"))
    fake(programs, "fasm2frames", FASM2FRAMES)
    fake(programs, "xc7frames2bit", FRAMES2BIT)
    share = programs.parent / "share" / "nextpnr"
    yaml = share / "prjxray-db" / "artix7" / "xc7a35tcsg324-1" / "part.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("part")
    chip = share / "xilinx-chipdb" / "xc7a35tcsg324.bin"
    chip.parent.mkdir()
    chip.write_bytes(b"chip")
    return chip


def test_openxc7_makes_a_bitstream(programs, tmp_path):
    openxc7(programs)
    board = BOARDS["arty_a7"]
    folder = tmp_path / "out folder"
    routed, counts = run_openxc7(
        prepare(board), board, folder, clock_hz=100 * MHZ, stages=["linear0", "scores"]
    )
    assert routed.bitstream.read_text() == "fasm frames bits"
    assert (routed.fmax_mhz, routed.met, routed.worst) == (120.0, True, "scores")
    assert counts.luts > 0
    assert not list(folder.glob("*.part"))


def synthesised(monkeypatch, **cells):
    """Put something at once in place of synthesis, which takes its time."""

    def at_once(files, family, folder, *, top, options):
        assert (family.name, top, options) == ("xc7", "shell", "-abc9")
        (folder / "shell.json").write_text('{"modules": {"shell": {}}}')
        return Synthesised(folder / "shell.json", Counts(cells=cells))

    monkeypatch.setattr("sbnn_hw.boards.openxc7.synthesise_board", at_once)


def test_openxc7_fails_in_one_sentence(programs, tmp_path, monkeypatch):
    openxc7(programs)
    synthesised(monkeypatch)
    fake(programs, "fasm2frames", "print('ERROR: no such tile')\nsys.exit(1)")
    board = BOARDS["arty_a7"]
    with pytest.raises(ToolFailed) as caught:
        run_openxc7(prepare(board), board, tmp_path, clock_hz=100 * MHZ)
    assert str(caught.value) == (
        f"fasm2frames failed for arty_a7: no such tile (its output is in {tmp_path / 'route.log'})"
    )
    assert not (tmp_path / "shell.bit").exists()


def test_openxc7_is_whole_or_not_there(programs, tmp_path, monkeypatch):
    board = BOARDS["arty_a7"]
    monkeypatch.setenv("PATH", str(programs))
    assert find_openxc7(board) is None
    with pytest.raises(ToolMissing, match=r"^nextpnr-xilinx was not found: install openXC7 "):
        require_openxc7(board)
    chip = openxc7(programs)
    found = find_openxc7(board)
    assert (found.chip, found.part) == (chip, "xc7a35tcsg324-1")
    # The 100T is another chip.
    assert find_openxc7(BOARDS["arty_a7_100"]) is None
    with pytest.raises(
        ToolMissing,
        match=r"^nextpnr-xilinx has no chip database for xc7a100t: set \$CHIPDB to "
        r"xc7a100tcsg324\.bin or to its folder$",
    ):
        require_openxc7(BOARDS["arty_a7_100"])
    chip.rename(tmp_path / "xc7a35t.bin")
    assert find_openxc7(board) is None
    monkeypatch.setenv("CHIPDB", str(tmp_path))
    assert find_openxc7(board).chip == tmp_path / "xc7a35t.bin"
    monkeypatch.setenv("CHIPDB", str(tmp_path / "xc7a35t.bin"))
    assert find_openxc7(board).chip == tmp_path / "xc7a35t.bin"
    with pytest.raises(
        UsageError, match=r"^openXC7 is for 7-series boards, and icebreaker is not one$"
    ):
        find_openxc7(BOARDS["icebreaker"])


def test_openxc7_takes_no_pairs(programs, tmp_path, monkeypatch):
    openxc7(programs)
    synthesised(monkeypatch, LUT6=3, LUT6_2=1)
    board = BOARDS["arty_a7"]
    with pytest.raises(ValueError, match=r"^1 LUT6_2 are left; generate the design with split"):
        run_openxc7(prepare(board), board, tmp_path, clock_hz=100 * MHZ)


def test_only_pins_and_standards_go_to_nextpnr_xilinx():
    xdc = prepare(BOARDS["arty_a7"]).files["shell.xdc"]
    kept = constraints_for_nextpnr(xdc)
    assert kept.startswith("set_property LOC E3 [get_ports clk100_0__io]\n")
    assert "INTERNAL_VREF" not in kept
    assert kept.count("LOC") == xdc.count("LOC")
