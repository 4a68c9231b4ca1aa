"""The boards that are known by name, and the parts that are known without one.

A board is an entry in a table (docs/boards.md says how to add one). Nothing here imports a
description of pins: those come from amaranth-boards when a board is built for.
"""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.errors import UsageError

__all__ = [
    "BOARDS",
    "CAPACITIES",
    "Board",
    "Capacity",
    "Header",
    "Part",
    "PinFile",
    "find_board",
    "part_family",
]


@dataclass(frozen=True)
class Capacity:
    """What an FPGA holds.

    Parameters
    ----------
    luts : int
        Look-up tables: of six inputs in 7-series, of four in ECP5 and iCE40.
    flip_flops : int
        Registers of one bit.
    brams : int
        Memory blocks: 36 kbit in 7-series, 18 kbit in ECP5, 4 kbit in iCE40.
    """

    luts: int
    flip_flops: int
    brams: int


@dataclass(frozen=True)
class Part:
    """An FPGA as it is ordered: what it is, and what it holds where that is known."""

    name: str
    family: str
    device: str
    package: str
    speed: str
    capacity: Capacity | None

    @property
    def speed_class(self) -> str:
        """How fast its tables are; see :func:`sbnn_hw.boards.clocks.levels_for`."""
        if self.family == "ice40":
            return "ice40-up" if self.device.startswith("iCE40UP") else (
                "ice40-hx" if self.device.startswith("iCE40HX") else "ice40-lp"
            )
        if self.family == "ecp5":
            return f"ecp5-{self.speed}"
        return f"xc7-{self.speed[:1]}"


@dataclass(frozen=True)
class Header:
    """Two pins that a serial adapter is plugged into.

    Parameters
    ----------
    rx, tx : str
        The FPGA's pins, named from its side: it hears on ``rx``.
    where : str
        Words that tell where on the board to plug in.
    """

    rx: str
    tx: str
    where: str


@dataclass(frozen=True)
class PinFile:
    """The pins of a board that is described by a file; see :mod:`sbnn_hw.boards.custom`."""

    clock_pin: str
    io_standard: str
    led_pins: tuple[str, ...] = ()
    leds_active_low: bool = False
    reset_pin: str | None = None
    reset_active_low: bool = True


@dataclass(frozen=True)
class Board:
    """A board.

    Parameters
    ----------
    name, title : str
        The name in commands, and the one on the box.
    family, device, package, speed, part : str
        The FPGA; ``part`` is what one would order.
    capacity : Capacity
        What it holds.
    clock_hz : int
        The oscillator.
    link : str
        How the host talks to it.
    fastest_baud : int
        The highest rate that the way to the host is good for.
    platform : str
        ``module:Class`` in amaranth_boards; empty if the pins come from a file.
    uart : Header, optional
        Pins of a header; none if the board's own serial port is used.
    leds : tuple of str
        Resources of the platform, as ``led 0`` or ``rgb_led 0 r``; life comes first.
    held_high : tuple of str
        Pins that must be driven high, or another chip on the board interferes.
    pll_pad : bool
        Whether, on iCE40, the oscillator's pin belongs to a PLL: it must then take it from there.
    pack : tuple of str
        Options for the program that packs the bitstream.
    load : str
        How a bitstream, called ``{file}`` here, is brought to the board.
    pins : PinFile, optional
        The pins where there is no platform.
    """

    name: str
    title: str
    family: str
    device: str
    package: str
    speed: str
    part: str
    capacity: Capacity
    clock_hz: int
    link: str
    fastest_baud: int
    platform: str = ""
    uart: Header | None = None
    leds: tuple[str, ...] = ()
    held_high: tuple[str, ...] = ()
    pll_pad: bool = False
    pack: tuple[str, ...] = ()
    load: str = ""
    pins: PinFile | None = None

    @property
    def speed_class(self) -> str:
        """How fast its tables are; see :func:`sbnn_hw.boards.clocks.levels_for`."""
        return Part(
            self.part, self.family, self.device, self.package, self.speed, self.capacity
        ).speed_class


#: What the devices hold, by their vendors' product tables. iCE40 and ECP5 have as many registers
#: as tables.
CAPACITIES = {
    "xc7a12t":   Capacity(  8_000,  16_000,  20),
    "xc7a15t":   Capacity( 10_400,  20_800,  25),
    "xc7a25t":   Capacity( 14_600,  29_200,  45),
    "xc7a35t":   Capacity( 20_800,  41_600,  50),
    "xc7a50t":   Capacity( 32_600,  65_200,  75),
    "xc7a75t":   Capacity( 47_200,  94_400, 105),
    "xc7a100t":  Capacity( 63_400, 126_800, 135),
    "xc7a200t":  Capacity(134_600, 269_200, 365),
    "xc7s6":     Capacity(  3_750,   7_500,   5),
    "xc7s15":    Capacity(  8_000,  16_000,  10),
    "xc7s25":    Capacity( 14_600,  29_200,  45),
    "xc7s50":    Capacity( 32_600,  65_200,  75),
    "xc7s75":    Capacity( 48_000,  96_000,  90),
    "xc7s100":   Capacity( 64_000, 128_000, 120),
    "xc7k70t":   Capacity( 41_000,  82_000, 135),
    "xc7k160t":  Capacity(101_400, 202_800, 325),
    "xc7k325t":  Capacity(203_800, 407_600, 445),
    "xc7k355t":  Capacity(222_600, 445_200, 715),
    "xc7k410t":  Capacity(254_200, 508_400, 795),
    "xc7k420t":  Capacity(260_600, 521_200, 835),
    "xc7k480t":  Capacity(298_600, 597_200, 955),
    "xc7v585t":  Capacity(364_200, 728_400, 795),
    "xc7v2000t": Capacity(1_221_600, 2_443_200, 1_292),
    "xc7vx330t": Capacity(204_000, 408_000, 750),
    "xc7vx415t": Capacity(257_600, 515_200, 880),
    "xc7vx485t": Capacity(303_600, 607_200, 1_030),
    "xc7vx550t": Capacity(346_400, 692_800, 1_180),
    "xc7vx690t": Capacity(433_200, 866_400, 1_470),
    "xc7vx980t": Capacity(612_000, 1_224_000, 1_500),
    "xc7vx1140t": Capacity(712_000, 1_424_000, 1_880),
    "xc7vh580t": Capacity(362_800, 725_600, 940),
    "xc7vh870t": Capacity(547_600, 1_095_200, 1_410),
    "xc7z007s":  Capacity( 14_400,  28_800,  50),
    "xc7z010":   Capacity( 17_600,  35_200,  60),
    "xc7z012s":  Capacity( 34_400,  68_800,  72),
    "xc7z014s":  Capacity( 40_600,  81_200, 107),
    "xc7z015":   Capacity( 46_200,  92_400,  95),
    "xc7z020":   Capacity( 53_200, 106_400, 140),
    "xc7z030":   Capacity( 78_600, 157_200, 265),
    "xc7z035":   Capacity(171_900, 343_800, 500),
    "xc7z045":   Capacity(218_600, 437_200, 545),
    "xc7z100":   Capacity(277_400, 554_800, 755),
    # The 12F is a 25F that is sold as less. The open tools reach all of it, and that is taken;
    # Lattice vouches for 12,000 tables and 32 blocks of it.
    "LFE5-12F":  Capacity( 24_288,  24_288,  56),
    "LFE5-25F":  Capacity( 24_288,  24_288,  56),
    "LFE5-45F":  Capacity( 43_848,  43_848, 108),
    "LFE5-85F":  Capacity( 83_640,  83_640, 208),
    "iCE40UP3K": Capacity(  2_800,   2_800,  20),
    "iCE40UP5K": Capacity(  5_280,   5_280,  30),
    "iCE40LP384": Capacity(   384,     384,   0),
    "iCE40LP1K": Capacity(  1_280,   1_280,  16),
    "iCE40HX1K": Capacity(  1_280,   1_280,  16),
    # The 4K is an 8K that is sold as less, and the open tools take all of its tables too.
    "iCE40LP4K": Capacity(  7_680,   7_680,  20),
    "iCE40HX4K": Capacity(  7_680,   7_680,  20),
    "iCE40LP8K": Capacity(  7_680,   7_680,  32),
    "iCE40HX8K": Capacity(  7_680,   7_680,  32),
}

# Artix, Kintex, Virtex (V, VX and VH), Spartan and Zynq, also for cars (xa) and defence (xq).
_XC7 = re.compile(
    r"(x[acq]7(?:a\d{2,3}t|k\d{2,3}t|v[xh]?\d{3,4}t|s\d{1,3}|z\d{3}s?))([il]?)"
    r"([a-z]{2,4}\d{3,4})-([123][a-z]{0,2})",
    re.IGNORECASE | re.ASCII,
)
_ECP5 = re.compile(
    r"LFE5(U|UM|UM5G)-(12|25|45|85)F-([678])(BG256|MG285|BG381|BG554|BG756|TG144)([CI]?)",
    re.IGNORECASE | re.ASCII,
)
_ICE40 = re.compile(
    r"iCE40(UP3K|UP5K|LP384|LP1K|HX1K|LP4K|HX4K|LP8K|HX8K)-([A-Z]{2}\d{1,3})(?:TR)?",
    re.IGNORECASE | re.ASCII,
)


def part_family(part: str) -> Part:
    """Take apart the name of an FPGA, as ``xc7a35ticsg324-1L`` or ``LFE5U-25F-6BG381C``."""
    if found := _XC7.fullmatch(part):
        die, grade, package = found[1].lower(), found[2].lower(), found[3].lower()
        speed = found[4].upper()
        return Part(f"{die}{grade}{package}-{speed}", "xc7", die + grade, package, speed,
                    CAPACITIES.get(f"xc7{die[3:]}"))
    if found := _ECP5.fullmatch(part):
        kind, size, speed = found[1].upper(), found[2], found[3]
        package = found[4].upper()
        if size != "12" or kind == "U":
            device = f"LFE5{kind}-{size}F"
            return Part(f"{device}-{speed}{package}{found[5].upper()}", "ecp5", device, package,
                        speed, CAPACITIES[f"LFE5-{size}F"])
    if found := _ICE40.fullmatch(part):
        device, package = f"iCE40{found[1].upper()}", found[2].upper()
        return Part(f"{device}-{package}", "ice40", device, package, "", CAPACITIES[device])
    raise UsageError(
        f"Part must be a 7-series, ECP5 or iCE40 FPGA with package and speed, like "
        f"xc7a35ticsg324-1L, LFE5U-25F-6BG381C or iCE40UP5K-SG48, not {part!r}"
    )


def _board(name: str, title: str, part: str, clock_mhz: int, platform: str, *,
           link: str, fastest_baud: int, leds: tuple[str, ...] = (), uart: Header | None = None,
           held_high: tuple[str, ...] = (), pll_pad: bool = False, pack: tuple[str, ...] = (),
           load: str = "") -> Board:
    known = part_family(part)
    assert known.capacity is not None
    return Board(name, title, known.family, known.device, known.package, known.speed, known.name,
                 known.capacity, clock_mhz * 1_000_000, link, fastest_baud, platform, uart, leds,
                 held_high, pll_pad, pack, load)


def _leds(count: int) -> tuple[str, ...]:
    return tuple(f"led {number}" for number in range(count))


#: The rate that even plain adapters (CP2102, CH340) keep.
_ADAPTER = 921_600

_FT2232 = "USB (FT2232H, its second port)"
_FT231 = "USB (FT231X)"

_CRAB = Header("N17", "M18", "a 3.3 V serial adapter: its TX to pin 0 of the header, its RX to "
                             "pin 1, and GND")
# The connectors J1 to J8 lie behind buffers that only drive outwards: nothing is heard there.
_KEY = Header("M13", "P11", "a 3.3 V serial adapter at J19: its TX to KEY+, its RX to DATA_LED-, "
                            "and GND")


def _ulx3s(size: str) -> Board:
    return _board(
        f"ulx3s_{size.lower()}", f"Radiona ULX3S {size}", f"LFE5U-{size}-6BG381C",
        25, f"ulx3s:ULX3S_{size}_Platform", link=_FT231, fastest_baud=3_000_000, leds=_leds(8),
        # The ESP32 on it restarts the board when this pin falls.
        held_high=("L2",), pack=("--compress",), load="openFPGALoader -b ulx3s {file}",
    )


def _crab(name: str, size: str, platform: str) -> Board:
    return _board(
        name, f"OrangeCrab r0.2 {size}", f"LFE5U-{size}-8MG285C", 48,
        f"orangecrab_r0_2:{platform}", link="two header pins and a serial adapter",
        fastest_baud=_ADAPTER, uart=_CRAB,
        leds=("rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
        pack=("--compress", "--freq", "38.8"),
        load="dfu-suffix -v 1209 -p 5af0 -a {file}, then dfu-util -a 0 -D {file}",
    )


BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        _board("arty_a7", "Digilent Arty A7-35T", "xc7a35ticsg324-1L", 100,
               "arty_a7:ArtyA7_35Platform", link=_FT2232, fastest_baud=3_000_000, leds=_leds(4),
               load="openFPGALoader -b arty_a7_35t {file}"),
        _board("arty_a7_100", "Digilent Arty A7-100T", "xc7a100ticsg324-1L", 100,
               "arty_a7:ArtyA7_100Platform", link=_FT2232, fastest_baud=3_000_000, leds=_leds(4),
               load="openFPGALoader -b arty_a7_100t {file}"),
        _board("cmod_a7", "Digilent Cmod A7-35T", "xc7a35tcpg236-1", 12,
               "cmod_a7:CmodA7_35Platform", link=_FT2232, fastest_baud=3_000_000,
               leds=(*_leds(2), "rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
               load="openFPGALoader -b cmoda7_35t {file}"),
        _board("cmod_a7_15", "Digilent Cmod A7-15T", "xc7a15tcpg236-1", 12,
               "cmod_a7:CmodA7_15Platform", link=_FT2232, fastest_baud=3_000_000,
               leds=(*_leds(2), "rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
               load="openFPGALoader -b cmoda7_15t {file}"),
        _board("nexys4ddr", "Digilent Nexys 4 DDR", "xc7a100tcsg324-1", 100,
               "nexys4ddr:Nexys4DDRPlatform", link=_FT2232, fastest_baud=3_000_000,
               leds=_leds(16), load="openFPGALoader -b nexys_a7_100 {file}"),
        _ulx3s("12F"),
        _ulx3s("25F"),
        _ulx3s("45F"),
        _ulx3s("85F"),
        _crab("orangecrab", "25F", "OrangeCrabR0_2_25FPlatform"),
        _crab("orangecrab_85f", "85F", "OrangeCrabR0_2_85FPlatform"),
        _board("colorlight_5a75b", "Colorlight 5A-75B r7.0", "LFE5U-25F-6BG256C", 25,
               "colorlight_5a75b_r7_0:Colorlight_5A75B_R70Platform",
               link="two pins of J19 and a serial adapter", fastest_baud=115_200, uart=_KEY,
               # Its only LED shares the pin that it answers on.
               pack=("--compress",), load="openFPGALoader -c ft232 {file}"),
        _board("icebreaker", "1BitSquared iCEBreaker", "iCE40UP5K-SG48", 12,
               "icebreaker:ICEBreakerPlatform", link=_FT2232, fastest_baud=3_000_000,
               leds=_leds(2), pll_pad=True, load="iceprog {file}"),
        _board("ice40_hx8k", "Lattice iCE40-HX8K Breakout", "iCE40HX8K-CT256", 12,
               "ice40_hx8k_b_evn:ICE40HX8KBEVNPlatform", link=_FT2232, fastest_baud=3_000_000,
               leds=_leds(8), load="iceprog -S {file}"),
    )
}


def find_board(name: str) -> Board:
    """Return the board of a name, or the one that a pin file (``.toml``) describes."""
    if name.endswith(".toml"):
        from sbnn_hw.boards.custom import load_board

        return load_board(Path(name))
    if name in BOARDS:
        return BOARDS[name]
    near = difflib.get_close_matches(name.lower().replace("-", "_"), BOARDS, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        f"There is no board called {name!r} ({meant}`sbnn-hw boards` lists them; a file of pins "
        "ends in .toml)"
    )
