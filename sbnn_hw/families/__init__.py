"""Families of FPGAs, a file each. A new one is a new file and its line in the list below."""

from collections.abc import Iterator

from sbnn_hw.errors import UsageError
from sbnn_hw.families.ecp5 import ECP5
from sbnn_hw.families.family import Family, FpgaFamily, Part
from sbnn_hw.families.generic import GENERIC
from sbnn_hw.families.ice40 import ICE40
from sbnn_hw.families.resources import Capacity, Speed
from sbnn_hw.families.tables import LookUp, Ports
from sbnn_hw.families.xc7 import XC7

__all__ = [
    "FAMILIES",
    "Capacity",
    "Family",
    "FpgaFamily",
    "LookUp",
    "Part",
    "Speed",
    "any_of",
    "find_family",
    "find_fpga_family",
    "fpga_families",
    "table_cells",
]

#: All families, by name.
FAMILIES: dict[str, Family] = {family.name: family for family in (XC7, ECP5, ICE40, GENERIC)}


def fpga_families() -> list[FpgaFamily]:
    """Return the families of FPGAs: all but what is written as gates for other tools."""
    return [family for family in FAMILIES.values() if isinstance(family, FpgaFamily)]


def table_cells() -> Iterator[Ports]:
    """List the cells of all families that are tables."""
    for family in FAMILIES.values():
        if family.cells is not None:
            yield from family.cells.variants()


def find_family(name: str) -> Family:
    """Return a family by its name, or say which there are."""
    if name not in FAMILIES:
        raise UsageError(f"Family must be one of {', '.join(FAMILIES)}, not {name!r}")
    return FAMILIES[name]


def find_fpga_family(name: str) -> FpgaFamily:
    """Return a family of FPGAs by its name, or say which there are."""
    families = {family.name: family for family in fpga_families()}
    if name not in families:
        raise UsageError(f"Family must be one of {', '.join(families)}, not {name!r}")
    return families[name]


def any_of(words: list[str]) -> str:
    """Join words for a sentence, as ``xc7, ecp5 or ice40``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
