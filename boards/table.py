"""The boards that are known by name, and the parts that are known without one.

A board is an entry in a table (docs/boards.md says how to add one). Nothing here imports a
description of pins: those come from amaranth-boards when a board is built for.
"""

import difflib
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from sbnn_hw.errors import UsageError
from sbnn_hw.families import Capacity, Family, FpgaFamily, Part, Speed, any_of, fpga_families

__all__ = [
    "BOARDS", "Board", "Header", "Part", "PinFile", "SpiHeader", "find_board", "part_family",
    "plain",
]


@dataclass(frozen=True)
class Header:
    """Two pins that a serial adapter is plugged into."""

    #: The FPGA's pins, named from its side: it hears on ``rx``.
    rx: str
    tx: str
    #: Words that tell where on the board to plug in.
    where: str


@dataclass(frozen=True)
class SpiHeader:
    """Five pins that a microcontroller is wired to, as the master of SPI."""

    #: Pins of the FPGA, or of the connector if one is named; the chip select is active low.
    cs: str
    sck: str
    mosi: str
    miso: str
    ready: str
    #: Words that tell where on the board they are.
    where: str
    #: Name and number of a connector of the platform.
    connector: tuple[str, int] | None = None


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
    """A board."""

    #: The name in commands, and the one on the box.
    name: str
    title: str
    family: FpgaFamily
    #: The FPGA; ``part`` is what one would order.
    device: str
    package: str
    speed: str
    part: str
    capacity: Capacity
    #: The oscillator.
    clock_hz: int
    #: How the host talks to it.
    link: str
    #: The highest rate that the way to the host is good for.
    fastest_baud: int
    #: ``module:Class`` in amaranth_boards; empty if the pins come from a file.
    platform: str = ""
    #: Pins of a header; none if the board's own serial port is used.
    uart: Header | None = None
    #: Resources of the platform, as ``led 0`` or ``rgb_led 0 r``; life comes first.
    leds: tuple[str, ...] = ()
    #: Pins that must be driven high, or another chip on the board interferes.
    held_high: tuple[str, ...] = ()
    #: Whether, on iCE40, the oscillator's pin belongs to a PLL: it must then take it from there.
    pll_pad: bool = False
    #: Options for the program that packs the bitstream.
    pack: tuple[str, ...] = ()
    #: How a bitstream, called ``{file}`` here, is brought to the board.
    load: str = ""
    #: The pins where there is no platform.
    pins: PinFile | None = None
    #: Pins for SPI; none if the board has no obvious ones.
    spi: SpiHeader | None = None

    @property
    def speed_class(self) -> Speed:
        """How fast its tables are; see :func:`sbnn_hw.boards.clocks.levels_for`."""
        return part_family(self.part).speed_class


def part_family(part: str) -> Part:
    """Take apart the name of an FPGA, as ``xc7a35ticsg324-1L`` or ``LFE5U-25F-6BG381C``."""
    families = fpga_families()
    for family in families:
        if found := family.read_part(part):
            return found
    raise UsageError(
        f"Part must be a {any_of([family.title for family in families])} FPGA with package and "
        f"speed, like {any_of([family.example for family in families])}, not {part!r}"
    )


def plain(value: Any) -> Any:
    """Return what a board or part consists of, as values that JSON knows.

    A family becomes its name, and what JSON does not know becomes text.
    """
    if isinstance(value, Family):
        return value.name
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _board(name: str, title: str, part: str, clock_mhz: int, platform: str, *,
           link: str, fastest_baud: int, leds: tuple[str, ...] = (), uart: Header | None = None,
           held_high: tuple[str, ...] = (), pll_pad: bool = False, pack: tuple[str, ...] = (),
           load: str = "", spi: SpiHeader | None = None) -> Board:
    known = part_family(part)
    assert known.capacity is not None
    return Board(name, title, known.family, known.device, known.package, known.speed, known.name,
                 known.capacity, clock_mhz * 1_000_000, link, fastest_baud, platform, uart, leds,
                 held_high, pll_pad, pack, load, spi=spi)


def _leds(count: int) -> tuple[str, ...]:
    return tuple(f"led {number}" for number in range(count))


def _pmod(name: str) -> SpiHeader:
    """Return the pins of a first Pmod, as Digilent's standard has them for SPI (type 2A)."""
    return SpiHeader("1", "4", "2", "3", "7", f"{name}: CS at pin 1, MOSI at 2, MISO at 3, SCK at "
                     "4, ready at 7, and GND", ("pmod", 0))


#: The rate that even plain adapters (CP2102, CH340) keep.
_ADAPTER = 921_600

_FT2232 = "USB (FT2232H, its second port)"
_FT231 = "USB (FT231X)"

_CRAB = Header("N17", "M18", "a 3.3 V serial adapter: its TX to pin 0 of the header, its RX to "
                             "pin 1, and GND")
_CRAB_SPI = SpiHeader("10", "sck", "copi", "cipo", "9", "the header: CS at pin 10, SCK, MOSI and "
                      "MISO at the pins with these names, ready at pin 9, and GND", ("io", 0))
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
        fastest_baud=_ADAPTER, uart=_CRAB, spi=_CRAB_SPI,
        leds=("rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
        pack=("--compress", "--freq", "38.8"),
        load="dfu-suffix -v 1209 -p 5af0 -a {file}, then dfu-util -a 0 -D {file}",
    )


BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        _board("arty_a7", "Digilent Arty A7-35T", "xc7a35ticsg324-1L", 100,
               "arty_a7:ArtyA7_35Platform", link=_FT2232, fastest_baud=3_000_000, leds=_leds(4),
               load="openFPGALoader -b arty_a7_35t {file}", spi=_pmod("Pmod JA")),
        _board("arty_a7_100", "Digilent Arty A7-100T", "xc7a100ticsg324-1L", 100,
               "arty_a7:ArtyA7_100Platform", link=_FT2232, fastest_baud=3_000_000, leds=_leds(4),
               load="openFPGALoader -b arty_a7_100t {file}", spi=_pmod("Pmod JA")),
        _board("cmod_a7", "Digilent Cmod A7-35T", "xc7a35tcpg236-1", 12,
               "cmod_a7:CmodA7_35Platform", link=_FT2232, fastest_baud=3_000_000,
               leds=(*_leds(2), "rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
               load="openFPGALoader -b cmoda7_35t {file}", spi=_pmod("Pmod JA")),
        _board("cmod_a7_15", "Digilent Cmod A7-15T", "xc7a15tcpg236-1", 12,
               "cmod_a7:CmodA7_15Platform", link=_FT2232, fastest_baud=3_000_000,
               leds=(*_leds(2), "rgb_led 0 r", "rgb_led 0 g", "rgb_led 0 b"),
               load="openFPGALoader -b cmoda7_15t {file}", spi=_pmod("Pmod JA")),
        _board("nexys4ddr", "Digilent Nexys 4 DDR", "xc7a100tcsg324-1", 100,
               "nexys4ddr:Nexys4DDRPlatform", link=_FT2232, fastest_baud=3_000_000,
               leds=_leds(16), load="openFPGALoader -b nexys_a7_100 {file}",
               spi=_pmod("Pmod JA")),
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
               leds=_leds(2), pll_pad=True, load="iceprog {file}",
               spi=_pmod("PMOD 1A")),
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
