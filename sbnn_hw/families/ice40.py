"""Lattice iCE40."""

import re
from collections.abc import Iterator
from fractions import Fraction

from sbnn_hw.families.energy import Switching
from sbnn_hw.families.family import FpgaFamily, Part
from sbnn_hw.families.pll import MHZ, Cell, Limits, Pll, PllKind, Settings
from sbnn_hw.families.programs import Platform, Router, Synthesiser
from sbnn_hw.families.resources import Capacity, CellCosts, Memory, Packing, Speed
from sbnn_hw.families.tables import LookUp, Sums, TableCell

__all__ = ["ICE40"]

#: By the vendor's product tables. There are as many registers as tables.
_CAPACITIES = {
    "UP3K": Capacity(2_800, 2_800, 20, 4),
    "UP5K": Capacity(5_280, 5_280, 30, 8),
    "LP384": Capacity(384, 384, 0, 0),
    "LP1K": Capacity(1_280, 1_280, 16, 0),
    "HX1K": Capacity(1_280, 1_280, 16, 0),
    # The 4K is an 8K that is sold as less, and the open tools take all of its tables too.
    "LP4K": Capacity(7_680, 7_680, 20, 0),
    "HX4K": Capacity(7_680, 7_680, 20, 0),
    "LP8K": Capacity(7_680, 7_680, 32, 0),
    "HX8K": Capacity(7_680, 7_680, 32, 0),
}

#: By the first letters of the device, measured with nextpnr; see docs/boards.md.
_SPEEDS = {"HX": Speed(6.5, 0.85), "LP": Speed(9.5, 1.30), "UP": Speed(18.0, 2.20)}

_NAME = re.compile(
    rf"iCE40({'|'.join(_CAPACITIES)})-([A-Z]{{2}}\d{{1,3}})(?:TR)?", re.IGNORECASE | re.ASCII
)

#: Megahertz of the phase detector from which the next setting of the filter holds.
_FILTER = (17, 26, 44, 66, 101)


def _read_part(name: str) -> Part | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    size, package = found[1].upper(), found[2].upper()
    device = f"iCE40{size}"
    return Part(f"{device}-{package}", ICE40, device, package, "", _CAPACITIES[size],
                _SPEEDS[size[:2]])


def _select(device: str, package: str, speed: str) -> tuple[str, ...] | None:
    size = device.removeprefix("iCE40")
    return (f"--{size.lower()}", "--package", package.lower()) if size in _CAPACITIES else None


def _settings(
    limits: Limits, clock: Fraction, target: Fraction
) -> Iterator[tuple[Fraction, Settings]]:
    for divide, detector in limits.detectors(clock, 16):
        band = 1 + sum(detector >= edge * MHZ for edge in _FILTER)
        for factor in limits.factors(detector, 128):
            for divq in range(1, 7):
                yield detector * factor / 2**divq, {
                    "DIVR": divide - 1, "DIVF": factor - 1, "DIVQ": divq, "FILTER_RANGE": band,
                }


def _cell(pll: Pll, pad: bool) -> Cell:
    widths = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
    return Cell(
        "SB_PLL40_PAD" if pad else "SB_PLL40_CORE",
        parameters={
            "FEEDBACK_PATH": "SIMPLE",
            **{name: (int(pll.settings[name]), width) for name, width in widths.items()},
        },
        inputs={
            # A pin that belongs to the PLL must have no buffer.
            **({"PACKAGEPIN": "pin"} if pad else {"REFERENCECLK": "source"}),
            "RESETB": 1, "BYPASS": 0,
        },
        outputs={"PLLOUTGLOBAL": "clock", "LOCK": "locked"},
    )


ICE40 = FpgaFamily(
    name="ice40",
    title="iCE40",
    look_up=LookUp(inputs=4, paired=0),
    cells=TableCell("SB_LUT4", "LUT_INIT", ("I0", "I1", "I2", "I3"), "O"),
    sums=Sums(bit=2.0, choice=2.0, adder=2, counter=2.3),
    memory=Memory(
        byte_bits=4_096,
        shapes=((2_048, 2), (1_024, 4), (512, 8), (256, 16)),
        cells={
            "SB_RAM40_4K": 1, "SB_RAM40_4KNR": 1, "SB_RAM40_4KNW": 1, "SB_RAM40_4KNRNW": 1,
            "SB_SPRAM256KA": 1,
        },
        weight=64, in_registers=64,
    ),
    costs=CellCosts(
        logic={"SB_LUT4": 1},
        # The tables of an adder are cells themselves.
        carries={"SB_CARRY": 0},
        flip_flops=r"SB_DFF\w*",
        multipliers="SB_MAC16",
    ),
    synthesis=Synthesiser(command="synth_ice40", models="+/ice40/cells_sim.v"),
    # A cell has one table and one register; about half the registers are not fed by a table that
    # has no other reader, and take a cell of their own.
    switching=Switching(
        capacitance_pf=0.77, volts=1.2, factor=3,
        source="Derived from a published measurement of an iCE40 UP5K (tinyVision.ai, ice40_power):"
               " what an 8-bit multiplier draws, divided by the toggles counted in its netlist.",
        static="Static power is not in it: the core of an iCE40 UP5K with a blank design drew "
               "86 µA at 1.22 V (0.1 mW) in the same measurement; larger parts draw more.",
    ),
    packing=Packing(unit="logic cells", alone=0.5, cell="ICESTORM_LC"),
    shell=(900, 650),
    example="iCE40UP5K-SG48",
    read_part=_read_part,
    # FPGA-DS-02029, FPGA-DS-02008.
    plls=(
        PllKind("SB_PLL40", Limits.of_mhz((10, 133), (10, 133), (533, 1066), (16, 275)),
                _settings, _cell),
    ),
    platform=Platform(
        base="amaranth.vendor:SiliconBluePlatform", standard=("IO_STANDARD", "SB_LVCMOS")
    ),
    files=("pcf",),
    bitstream="bin",
    router=Router(
        program="nextpnr-ice40", packer="icepack", select=_select,
        pins="pcf", routed=("--asc", "asc"), pack=("{routed}", "{bitstream}"),
    ),
)
