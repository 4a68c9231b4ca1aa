"""A board that is described by a pin file: TOML, strictly read (docs/boards.md has an example)."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

from sbnn_hw.boards.table import Board, Header, PinFile, SpiHeader, part_family
from sbnn_hw.errors import UsageError

__all__ = ["load_board", "parse_board"]

#: Balls (A1 … AW39) and the numbered pins of small packages.
_PIN = re.compile(r"[A-Z]{1,2}[1-9][0-9]?|[1-9][0-9]{0,2}", re.ASCII)
_STANDARD = re.compile(r"[A-Z][A-Z0-9_]{0,31}", re.ASCII)

#: Larger files are not pin files.
_LARGEST = 64 * 1024

_KEYS = {
    "": {"name", "part", "io_standard", "leds", "leds_active_low", "clock", "uart", "spi",
         "reset"},
    "clock": {"pin", "mhz", "pll_pad"},
    "uart": {"rx", "tx", "fastest_baud", "where"},
    "spi": {"cs", "sck", "mosi", "miso", "ready", "where"},
    "reset": {"pin", "active_low"},
}


def load_board(path: Path) -> Board:
    """Read a pin file."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"Pin file {str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"Pin file {str(path)!r} must have at most {_LARGEST} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"Pin file {str(path)!r} is not UTF-8 text") from None
    return parse_board(text, path.name)


def parse_board(text: str, file: str) -> Board:
    """Return the board that the text of a pin file describes.

    ``file`` is the file's name, for messages, and for the board's where it has none.
    """
    try:
        pins = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"Pin file {file!r} is not TOML: {error}") from None
    reader = _Reader(file)
    reader.check_keys(pins, "")
    clock = reader.table(pins, "clock")
    spi = reader.table(pins, "spi") if "spi" in pins else None
    # One of the two is enough.
    uart = reader.table(pins, "uart") if "uart" in pins or spi is None else None
    reset = reader.table(pins, "reset") if "reset" in pins else None

    name = reader.value(pins, "name", str, _plain_name(file))
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name, re.ASCII):
        raise reader.wrong("name", "be small letters, digits and underscores", name)
    part = part_family(reader.value(pins, "part", str))
    if part.capacity is None:
        raise UsageError(
            f"Pin file {file!r} names the part {part.name}, whose capacity is not known; name a "
            f"part with known capacity"
        )
    standard = reader.value(pins, "io_standard", str, part.family.platform.standard[1])
    if not _STANDARD.fullmatch(standard):
        raise reader.wrong("io_standard", "be like LVCMOS33", standard)
    leds = reader.value(pins, "leds", list, [])
    if len(leds) > 16:
        raise reader.wrong("leds", "be at most 16 pins", leds)
    mhz = clock.get("mhz")
    if isinstance(mhz, bool) or not isinstance(mhz, int | float) or not 0.5 <= mhz <= 800:
        raise reader.wrong("clock.mhz", "be a number from 0.5 to 800", mhz)
    baud = reader.value(uart or {}, "uart.fastest_baud", int, 921_600)
    if not 115_200 <= baud <= 12_000_000:
        raise reader.wrong("uart.fastest_baud", "be from 115200 to 12000000", baud)

    used = PinFile(
        clock_pin=reader.pin(clock, "clock.pin"),
        io_standard=standard,
        led_pins=tuple(reader.pin({"leds": pin}, "leds") for pin in leds),
        leds_active_low=reader.value(pins, "leds_active_low", bool, False),
        reset_pin=None if reset is None else reader.pin(reset, "reset.pin"),
        reset_active_low=True if reset is None else reader.value(
            reset, "reset.active_low", bool, True
        ),
    )
    header = None if uart is None else Header(
        reader.pin(uart, "uart.rx"), reader.pin(uart, "uart.tx"), reader.where(uart, "uart"),
    )
    wires = None if spi is None else SpiHeader(
        reader.pin(spi, "spi.cs"), reader.pin(spi, "spi.sck"), reader.pin(spi, "spi.mosi"),
        reader.pin(spi, "spi.miso"), reader.pin(spi, "spi.ready"), reader.where(spi, "spi"),
    )
    # A build has one line: the same pins may serve both.
    for line in (
        [] if header is None else [header.rx, header.tx],
        [] if wires is None else [wires.cs, wires.sck, wires.mosi, wires.miso, wires.ready],
    ):
        names = [used.clock_pin, *line, *used.led_pins]
        names += [] if used.reset_pin is None else [used.reset_pin]
        if twice := sorted({pin for pin in names if names.count(pin) > 1}):
            raise UsageError(f"Pin file {file!r} uses the pin {twice[0]} twice")
    return Board(
        name, f"{name}, by its pin file", part.family, part.device, part.package, part.speed,
        part.name, part.capacity, round(mhz * 1_000_000), "the serial pins of its pin file", baud,
        uart=header, spi=wires,
        leds=tuple(f"led {number}" for number in range(len(leds))),
        pll_pad=reader.value(clock, "clock.pll_pad", bool, False),
        pack=() if part.family.router is None else part.family.router.pack_options, pins=used,
    )


def _plain_name(file: str) -> str:
    stem = re.sub(r"[^a-z0-9]+", "_", Path(file).stem.lower()).strip("_")[:40]
    return stem if stem[:1].isalpha() else f"board_{stem}"[:40].rstrip("_")


class _Reader:
    """Takes values out of a pin file, and says what is wrong with it."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, key: str, what: str, value: Any) -> UsageError:
        return UsageError(f"Pin file {self._file!r}: {key} must {what}, not {value!r}")

    def check_keys(self, table: dict[str, Any], where: str) -> None:
        known = _KEYS[where]
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, sorted(known), n=1)
                every = f"known are {', '.join(sorted(known))}"
                cure = f"did you mean {near[0]}?" if near else every
                place = f" in [{where}]" if where else ""
                raise UsageError(
                    f"Pin file {self._file!r} has an unknown key {key!r}{place} ({cure})"
                )

    def table(self, pins: dict[str, Any], key: str) -> dict[str, Any]:
        found = pins.get(key)
        if found is None:
            raise UsageError(f"Pin file {self._file!r} has no table [{key}]")
        if not isinstance(found, dict):
            raise self.wrong(key, "be a table", found)
        self.check_keys(found, key)
        return found

    def value(self, table: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
        found = table.get(key.rpartition(".")[2], default)
        if found is None:
            raise UsageError(f"Pin file {self._file!r} must set {key}")
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            word = {str: "text", list: "a list", bool: "true or false", int: "a whole number"}[kind]
            raise self.wrong(key, f"be {word}", found)
        return found

    def where(self, table: dict[str, Any], line: str) -> str:
        default = {"uart": "a serial adapter at", "spi": "a master at"}[line]
        found = self.value(table, f"{line}.where", str, f"{default} the pins of the file")
        if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,200}", found):
            raise self.wrong(f"{line}.where", "be one line of at most 200 characters", found)
        return str(found)

    def pin(self, table: dict[str, Any], key: str) -> str:
        found = table.get(key.rpartition(".")[2])
        if found is None:
            raise UsageError(f"Pin file {self._file!r} must set {key}")
        # A package with numbered pins may have them as numbers.
        name = str(found) if isinstance(found, int) and not isinstance(found, bool) else found
        if not isinstance(name, str) or not _PIN.fullmatch(name):
            raise self.wrong(key, "be a pin, like E3 or 35", found)
        return name
