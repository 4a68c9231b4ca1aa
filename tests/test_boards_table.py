"""Boards by name, parts without a board, and pin files."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

from sbnn_hw.boards.custom import load_board, parse_board
from sbnn_hw.boards.table import BOARDS, Header, SpiHeader, find_board, part_family
from sbnn_hw.errors import UsageError
from sbnn_hw.families import Capacity

PINS = """
part = "LFE5U-25F-6BG256C"
leds = ["P11", "N12"]
leds_active_low = true

[clock]
pin = "P6"
mhz = 25

[uart]
rx = "M13"
tx = "M14"
fastest_baud = 3_000_000
where = "the pins beside the button"

[reset]
pin = "L14"
active_low = false
"""


def test_every_promised_board_is_there():
    assert set(BOARDS) >= {
        "arty_a7", "arty_a7_100", "cmod_a7", "nexys4ddr", "ulx3s_12f", "ulx3s_25f", "ulx3s_45f",
        "ulx3s_85f", "orangecrab", "colorlight_5a75b", "icebreaker", "ice40_hx8k",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "capacity"),
    [
        ("arty_a7", Capacity(20_800, 41_600, 50, 90)),
        ("arty_a7_100", Capacity(63_400, 126_800, 135, 240)),
        ("cmod_a7_15", Capacity(10_400, 20_800, 25, 45)),
        ("ulx3s_12f", Capacity(24_288, 24_288, 56, 28)),
        ("ulx3s_85f", Capacity(83_640, 83_640, 208, 156)),
        ("icebreaker", Capacity(5_280, 5_280, 30, 8)),
        ("ice40_hx8k", Capacity(7_680, 7_680, 32, 0)),
    ],
)
def test_capacities_are_those_of_the_data_sheets(name, capacity):
    assert find_board(name).capacity == capacity


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_entries_are_complete_and_agree_with_their_part(board):
    part = part_family(board.part)
    assert (part.family, part.device, part.package, part.speed, part.capacity) == (
        board.family, board.device, board.package, board.speed, board.capacity,
    )  # fmt: skip
    assert part.speed_class == board.speed_class
    assert board.link
    assert board.title
    assert "{file}" in board.load
    assert board.fastest_baud >= 115_200
    # The line that answers must not be an LED's.
    assert board.name != "colorlight_5a75b" or not board.leds


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_entries_agree_with_their_platform(board):
    """What the table repeats of amaranth-boards is what amaranth-boards says."""
    from sbnn_hw.boards.platform import _make_platform

    platform = _make_platform(board)
    assert (platform.device, platform.package) == (board.device, board.package)
    assert getattr(platform, "speed", "") == board.speed
    assert platform.default_clk_frequency == board.clock_hz


@pytest.mark.parametrize(
    ("die", "logic_cells"),
    [
        ("xc7a35t", 33_280), ("xc7s50", 52_160), ("xc7k70t", 65_600), ("xc7k355t", 356_160),
        ("xc7k410t", 406_720), ("xc7k420t", 416_960), ("xc7k480t", 477_760), ("xc7v585t", 582_720),
        ("xc7v2000t", 1_954_560), ("xc7vx330t", 326_400), ("xc7vx415t", 412_160),
        ("xc7vx485t", 485_760), ("xc7vx550t", 554_240), ("xc7vx690t", 693_120),
        ("xc7vx980t", 979_200), ("xc7vx1140t", 1_139_200), ("xc7vh580t", 580_480),
        ("xc7vh870t", 876_160),
    ],
)  # fmt: skip
def test_7_series_have_five_tables_for_eight_logic_cells(die, logic_cells):
    """The vendor counts 1.6 logic cells a table; both columns are in its product tables."""
    capacity = part_family(f"{die}ffg900-1").capacity
    assert capacity.luts * 8 == logic_cells * 5
    assert capacity.flip_flops == 2 * capacity.luts


def test_unknown_board_is_told_its_neighbours():
    with pytest.raises(
        UsageError,
        match=r"^There is no board called 'arty-a8' \(did you mean arty_a7 or arty_a7_100\? "
        r"`sbnn-hw boards` lists them; a file of pins ends in \.toml\)$",
    ):
        find_board("arty-a8")
    with pytest.raises(UsageError, match=r"^There is no board called 'q\\n' \(`sbnn-hw boards`"):
        find_board("q\n")


@pytest.mark.parametrize(
    ("name", "family", "device", "package", "speed", "known"),
    [
        ("xc7a35ticsg324-1L", "xc7", "xc7a35ti", "csg324", "1L", True),
        ("XC7A35TCPG236-1", "xc7", "xc7a35t", "cpg236", "1", True),
        ("xc7z020clg400-1", "xc7", "xc7z020", "clg400", "1", True),
        ("xc7s50csga324-1", "xc7", "xc7s50", "csga324", "1", True),
        ("xc7k410tffg900-2", "xc7", "xc7k410t", "ffg900", "2", True),
        ("xc7vx485tffg1761-2", "xc7", "xc7vx485t", "ffg1761", "2", True),
        ("XC7V2000TFLG1925-1", "xc7", "xc7v2000t", "flg1925", "1", True),
        ("xc7vh870tflg1932-2G", "xc7", "xc7vh870t", "flg1932", "2G", True),
        ("xc7z100iffg1156-2L", "xc7", "xc7z100i", "ffg1156", "2L", True),
        ("xc7z014sclg484-1", "xc7", "xc7z014s", "clg484", "1", True),
        ("xc7s100fgga676-2", "xc7", "xc7s100", "fgga676", "2", True),
        ("xa7a35tcpg236-1Q", "xc7", "xa7a35t", "cpg236", "1Q", True),
        ("xq7k325trf900-2L", "xc7", "xq7k325t", "rf900", "2L", True),
        # A die that the table does not have may still be one.
        ("xc7k999tffg900-2", "xc7", "xc7k999t", "ffg900", "2", False),
        ("LFE5U-25F-6BG381C", "ecp5", "LFE5U-25F", "BG381", "6", True),
        ("lfe5um5g-85f-8bg381i", "ecp5", "LFE5UM5G-85F", "BG381", "8", True),
        ("iCE40UP5K-SG48", "ice40", "iCE40UP5K", "SG48", "", True),
        ("ICE40HX8K-CT256", "ice40", "iCE40HX8K", "CT256", "", True),
    ],
)
def test_parts_are_taken_apart(name, family, device, package, speed, known):
    part = part_family(name)
    assert part.family.name == family
    assert (part.device, part.package, part.speed) == (device, package, speed)
    assert (part.capacity is not None) == known
    assert part_family(part.name) == part


@pytest.mark.parametrize(
    "name",
    [
        "", "xc7a35t", "xc6slx9-2tqg144", "xc7a35ticsg324-1L; exit", "xc7a35ticsg324-1L\n",
        "LFE5U-25F", "LFE5UM-12F-6BG381C", "iCE40UP5K", "10CL025", "xc7a35ticsg324-1 [exec ls]",
        "xc7a٣٥ticsg324-1L",
    ],
)  # fmt: skip
def test_other_parts_are_refused(name):
    with pytest.raises(UsageError) as caught:
        part_family(name)
    assert str(caught.value) == (
        "Part must be a 7-series, ECP5 or iCE40 FPGA with package and speed, like "
        f"xc7a35ticsg324-1L, LFE5U-25F-6BG381C or iCE40UP5K-SG48, not {name!r}"
    )


def test_pin_file_gives_a_board(tmp_path):
    path = tmp_path / "My Board (2).toml"
    path.write_text(PINS)
    board = find_board(str(path))
    assert (board.name, board.family.name, board.clock_hz) == ("my_board_2", "ecp5", 25_000_000)
    assert board.uart == Header("M13", "M14", "the pins beside the button")
    assert board.leds == ("led 0", "led 1")
    assert board.pins.led_pins == ("P11", "N12")
    assert (board.pins.reset_pin, board.pins.reset_active_low) == ("L14", False)
    assert board.pins.io_standard == "LVCMOS33"
    assert board.capacity == BOARDS["colorlight_5a75b"].capacity


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('pin = "P6"', 'pin = "P6; exit"', "clock.pin must be a pin, like E3 or 35, not 'P6; exit'"),
        ('pin = "P6"', 'pin = "P6\\n"', "clock.pin must be a pin, like E3 or 35, not 'P6\\n'"),
        ("mhz = 25", "mhz = true", "clock.mhz must be a number from 0.5 to 800, not True"),
        ("mhz = 25", "mhz = nan", "clock.mhz must be a number from 0.5 to 800, not nan"),
        ("mhz = 25", "mzh = 25", "has an unknown key 'mzh' in [clock] (did you mean mhz?)"),
        ("leds =", "lamps =",
         "has an unknown key 'lamps' (known are clock, io_standard, leds, leds_active_low, name, part, reset, spi, uart)"),
        ('leds = ["P11", "N12"]', "leds = 3", "leds must be a list, not 3"),
        ('leds = ["P11", "N12"]', 'leds = ["P11", []]', "leds must be a pin, like E3 or 35, not []"),
        ('"N12"', '"P11"', "uses the pin P11 twice"),
        ('tx = "M14"', "", "must set uart.tx"),
        ("[clock]", "[clocks]", "has an unknown key 'clocks' (did you mean clock?)"),
        ("fastest_baud = 3_000_000", "fastest_baud = 9600",
         "uart.fastest_baud must be from 115200 to 12000000, not 9600"),
        ("active_low = false", 'active_low = "no"',
         "reset.active_low must be true or false, not 'no'"),
        ("leds_active_low", 'io_standard = "LVCMOS33]"\nleds_active_low',
         "io_standard must be like LVCMOS33, not 'LVCMOS33]'"),
        ("leds_active_low", 'name = "a b"\nleds_active_low',
         "name must be small letters, digits and underscores, not 'a b'"),
        ("LFE5U-25F-6BG256C", "xc7k999tffg900-2",
         ("names the part xc7k999tffg900-2, whose capacity is not known; "
          "name a part with known capacity")),
        ("beside the button", "beside\\nthe button",
         "uart.where must be one line of at most 200 characters, not 'the pins beside\\nthe button'"),
    ],
)  # fmt: skip
def test_pin_files_are_read_strictly(old, new, message):
    assert old in PINS
    with pytest.raises(UsageError) as caught:
        parse_board(PINS.replace(old, new, 1), "b.toml")
    said = str(caught.value)
    assert re.sub(r"^Pin file 'b\.toml':? ", "", said) == message
    assert "\n" not in said


SPI_PINS = """
[spi]
cs = "K1"
sck = "K2"
mosi = "K3"
miso = "K4"
ready = "K5"
where = "the row beside the LED"
"""


def test_pin_file_gives_pins_for_spi():
    board = parse_board(PINS + SPI_PINS, "b.toml")
    assert board.uart == Header("M13", "M14", "the pins beside the button")
    assert board.spi == SpiHeader("K1", "K2", "K3", "K4", "K5", "the row beside the LED")
    assert parse_board(PINS, "b.toml").spi is None
    # One of the two is enough, and both may use the same pins: a build has one of them.
    head, tail = PINS.index("[uart]"), PINS.index("[reset]")
    alone = parse_board(PINS[:head] + PINS[tail:] + SPI_PINS, "b.toml")
    assert alone.uart is None
    assert alone.spi == board.spi
    assert parse_board(PINS + SPI_PINS.replace("K1", "M13"), "b.toml").spi.cs == "M13"


def test_the_pin_file_in_the_documentation_is_one():
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/boards.md").read_text(), re.S)
    board = parse_board(text, "b.toml")
    assert (board.uart.rx, board.spi.ready) == ("M13", "K5")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ready = "K5"\n', "", "must set spi.ready"),
        ('"K5"', '"K4"', "uses the pin K4 twice"),
        ('"K5"', '"P6"', "uses the pin P6 twice"),
        ('"K5"', '"K5]"', "spi.ready must be a pin, like E3 or 35, not 'K5]'"),
        ("sck", "clk", "has an unknown key 'clk' in [spi] (did you mean sck?)"),
        ("beside", "\\nbeside",
         "spi.where must be one line of at most 200 characters, not 'the row \\nbeside the LED'"),
    ],
)  # fmt: skip
def test_pins_for_spi_are_read_strictly(old, new, message):
    assert old in SPI_PINS
    with pytest.raises(UsageError) as caught:
        parse_board(PINS + SPI_PINS.replace(old, new, 1), "b.toml")
    assert re.sub(r"^Pin file 'b\.toml':? ", "", str(caught.value)) == message


def test_pin_files_that_are_none(tmp_path):
    with pytest.raises(UsageError, match=r"^Pin file '.*no\.toml' cannot be read: No such file"):
        load_board(tmp_path / "no.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"x\.toml' is not UTF-8 text$"):
        load_board(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_bytes(b"#" * 70_000)
    with pytest.raises(UsageError, match=r"x\.toml' must have at most 65536 bytes$"):
        load_board(tmp_path / "x.toml")
    with pytest.raises(UsageError, match=r"^Pin file 'b\.toml' is not TOML: Invalid value"):
        parse_board("part =", "b.toml")
    with pytest.raises(UsageError, match=r"^Pin file 'b\.toml' has no table \[clock\]$"):
        parse_board('part = "iCE40UP5K-SG48"', "b.toml")


def test_lists_and_plans_do_without_amaranth():
    """`sbnn-hw boards` must answer at once."""
    modules = ("table", "custom", "clocks", "results", "vivado", "nextpnr", "openxc7")
    code = "".join(f"import sbnn_hw.boards.{name}\n" for name in modules)
    code += "import sys; sys.exit('amaranth' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
