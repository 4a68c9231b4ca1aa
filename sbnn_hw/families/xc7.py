"""Xilinx 7-series: Artix, Kintex, Virtex, Spartan and Zynq."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from sbnn_hw.families.energy import Switching
from sbnn_hw.families.family import FpgaFamily, Part
from sbnn_hw.families.pll import Cell, Limits, Pll, PllKind, Settings, nearest_divisors
from sbnn_hw.families.programs import Platform, Synthesiser
from sbnn_hw.families.resources import Capacity, CellCosts, Memory, Packing, Speed, TableMemory
from sbnn_hw.families.tables import LookUp, PairCell, Sums, TableCell

__all__ = ["XC7"]

_PINS = ("I0", "I1", "I2", "I3", "I4", "I5")

# What synth_xilinx does for its tables, with abc in the place of abc9.
_LIGHT = (
    "opt_expr -mux_undef -noclkinv\nabc -luts 2:2,3,6:5\nclean\nxilinx_srl -fixed -minlen 3\n"
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6\n"
    "xilinx_dffopt\nopt_lut_ins -tech xilinx\n"
)

#: By the vendor's product tables.
_CAPACITIES = {
    "xc7a12t": Capacity(8_000, 16_000, 20, 40),
    "xc7a15t": Capacity(10_400, 20_800, 25, 45),
    "xc7a25t": Capacity(14_600, 29_200, 45, 80),
    "xc7a35t": Capacity(20_800, 41_600, 50, 90),
    "xc7a50t": Capacity(32_600, 65_200, 75, 120),
    "xc7a75t": Capacity(47_200, 94_400, 105, 180),
    "xc7a100t": Capacity(63_400, 126_800, 135, 240),
    "xc7a200t": Capacity(134_600, 269_200, 365, 740),
    "xc7s6": Capacity(3_750, 7_500, 5, 10),
    "xc7s15": Capacity(8_000, 16_000, 10, 20),
    "xc7s25": Capacity(14_600, 29_200, 45, 80),
    "xc7s50": Capacity(32_600, 65_200, 75, 120),
    "xc7s75": Capacity(48_000, 96_000, 90, 140),
    "xc7s100": Capacity(64_000, 128_000, 120, 160),
    "xc7k70t": Capacity(41_000, 82_000, 135, 240),
    "xc7k160t": Capacity(101_400, 202_800, 325, 600),
    "xc7k325t": Capacity(203_800, 407_600, 445, 840),
    "xc7k355t": Capacity(222_600, 445_200, 715, 1_440),
    "xc7k410t": Capacity(254_200, 508_400, 795, 1_540),
    "xc7k420t": Capacity(260_600, 521_200, 835, 1_680),
    "xc7k480t": Capacity(298_600, 597_200, 955, 1_920),
    "xc7v585t": Capacity(364_200, 728_400, 795, 1_260),
    "xc7v2000t": Capacity(1_221_600, 2_443_200, 1_292, 2_160),
    "xc7vx330t": Capacity(204_000, 408_000, 750, 1_120),
    "xc7vx415t": Capacity(257_600, 515_200, 880, 2_160),
    "xc7vx485t": Capacity(303_600, 607_200, 1_030, 2_800),
    "xc7vx550t": Capacity(346_400, 692_800, 1_180, 2_880),
    "xc7vx690t": Capacity(433_200, 866_400, 1_470, 3_600),
    "xc7vx980t": Capacity(612_000, 1_224_000, 1_500, 3_600),
    "xc7vx1140t": Capacity(712_000, 1_424_000, 1_880, 3_360),
    "xc7vh580t": Capacity(362_800, 725_600, 940, 1_680),
    "xc7vh870t": Capacity(547_600, 1_095_200, 1_410, 2_520),
    "xc7z007s": Capacity(14_400, 28_800, 50, 66),
    "xc7z010": Capacity(17_600, 35_200, 60, 80),
    "xc7z012s": Capacity(34_400, 68_800, 72, 120),
    "xc7z014s": Capacity(40_600, 81_200, 107, 170),
    "xc7z015": Capacity(46_200, 92_400, 95, 160),
    "xc7z020": Capacity(53_200, 106_400, 140, 220),
    "xc7z030": Capacity(78_600, 157_200, 265, 400),
    "xc7z035": Capacity(171_900, 343_800, 500, 900),
    "xc7z045": Capacity(218_600, 437_200, 545, 900),
    "xc7z100": Capacity(277_400, 554_800, 755, 2_020),
}

#: By the first digit of the speed grade, taken from the data sheet; see docs/boards.md.
_SPEEDS = {"1": Speed(2.5, 1.30), "2": Speed(2.2, 1.10), "3": Speed(2.0, 1.00)}

# Artix, Kintex, Virtex (V, VX and VH), Spartan and Zynq, also for cars (xa) and defence (xq).
_NAME = re.compile(
    r"(x[acq]7(?:a\d{2,3}t|k\d{2,3}t|v[xh]?\d{3,4}t|s\d{1,3}|z\d{3}s?))([il]?)"
    r"([a-z]{2,4}\d{3,4})-([123][a-z]{0,2})",
    re.IGNORECASE | re.ASCII,
)


def _read_part(name: str) -> Part | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    die, grade, package = found[1].lower(), found[2].lower(), found[3].lower()
    speed = found[4].upper()
    return Part(f"{die}{grade}{package}-{speed}", XC7, die + grade, package, speed,
                _CAPACITIES.get(f"xc7{die[3:]}"), _SPEEDS[speed[0]])


def _settings(
    limits: Limits, clock: Fraction, target: Fraction, *, step: int
) -> Iterator[tuple[Fraction, Settings]]:
    """List settings; the factor is a multiple of one over ``step``."""
    for divide, detector in limits.detectors(clock, 56):
        for factor in limits.factors(detector / step, 64 * step):
            if factor < 2 * step:
                continue
            oscillator = detector * factor / step
            for out in nearest_divisors(oscillator, target, 128):
                yield oscillator / out, {
                    "DIVCLK_DIVIDE": divide, "CLKFBOUT_MULT": Fraction(factor, step),
                    "CLKOUT0_DIVIDE": out,
                }


def _cell(pll: Pll, pad: bool) -> Cell:
    settings = pll.settings
    factor, divide = settings["CLKFBOUT_MULT"], settings["CLKOUT0_DIVIDE"]
    if pll.primitive == "MMCME2_BASE":
        scales = {"CLKFBOUT_MULT_F": float(factor), "CLKOUT0_DIVIDE_F": float(divide)}
    else:
        scales = {"CLKFBOUT_MULT": int(factor), "CLKOUT0_DIVIDE": int(divide)}
    period = float(Fraction(10**9) / pll.clock_in)
    return Cell(
        pll.primitive,
        {**scales, "DIVCLK_DIVIDE": int(settings["DIVCLK_DIVIDE"]),
         "CLKIN1_PERIOD": round(period, 3)},
        inputs={"CLKIN1": "source", "CLKFBIN": "feedback", "RST": 0, "PWRDWN": 0},
        outputs={"CLKFBOUT": "feedback", "CLKOUT0": "made", "LOCKED": "locked"},
    )


XC7 = FpgaFamily(
    name="xc7",
    title="7-series",
    look_up=LookUp(inputs=6, paired=5),
    cells=TableCell("LUT{}", "INIT", _PINS, "O",
                    PairCell("LUT6_2", "INIT", _PINS[:5], _PINS[5], lower="O5", upper="O6")),
    sums=Sums(bit=0.75, choice=1.1, adder=1, counter=1.5),
    # A block of 36 kbit is two of 18.
    memory=Memory(
        byte_bits=32_768,
        shapes=((16_384, 1), (8_192, 2), (4_096, 4), (2_048, 9), (1_024, 18), (512, 36)),
        piece=0.5, weight=129, cells={"RAMB36E1": 1, "RAMB18E1": 0.5}, shifted=64,
        in_tables=(TableMemory(32, 6, 4, 8), TableMemory(64, 3, 4, 8), TableMemory(128, 1, 4, 8)),
    ),
    catalogue=("artix7", "kintex7", "spartan7", "virtex7", "zynq"),
    costs=CellCosts(
        logic={**{f"LUT{inputs}": 1 for inputs in range(1, 7)}, "LUT6_2": 1, "INV": 1},
        shift=dict.fromkeys(("SRL16", "SRL16E", "SRLC16", "SRLC16E", "SRLC32E"), 1),
        memory={
            **{"RAM16X1S": 1, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4},
            **{"RAM16X1D": 2, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4},
            **{"RAM32M": 4, "RAM64M": 4},
        },
        carries={"CARRY4": 0},
        flip_flops=r"FD[RSCP]E(_1)?|LD[CP]E",
        muxes=r"MUXF[5-9]",
        multipliers="DSP48E1",
    ),
    synthesis=Synthesiser(
        command="synth_xilinx -family xc7 -flatten",
        no_pads=" -noiopad -noclkbuf",
        # Nothing here multiplies, and a large design waits minutes for the search for what might.
        network=" -nodsp",
        models="+/xilinx/cells_sim.v", opaque=True, light=_LIGHT,
    ),
    switching=Switching(
        capacitance_pf=0.54, volts=1.0, factor=4,
        source="Assumed: the capacitance derived for iCE40 (40 nm), made smaller in the ratio of "
               "the feature sizes, 28 to 40; no published figure for a net of this family was "
               "found.",
        static="Static power is not in it: it depends on the part and its temperature, and the "
               "vendor's power estimator tells it.",
    ),
    packing=Packing(),
    shell=(600, 650),
    example="xc7a35ticsg324-1L",
    read_part=_read_part,
    # DS181. The output must also pass a global buffer, which ends at 464 MHz.
    plls=(
        PllKind("PLLE2_BASE", Limits.of_mhz((19, 800), (19, 450), (800, 1600), (6.25, 464)),
                partial(_settings, step=1), _cell),
        # An MMCM multiplies by eighths too.
        PllKind("MMCME2_BASE", Limits.of_mhz((10, 800), (10, 450), (600, 1200), (4.6875, 464)),
                partial(_settings, step=8), _cell),
    ),
    platform=Platform(
        base="amaranth.vendor:XilinxPlatform", standard=("IOSTANDARD", "LVCMOS33"),
        options={"toolchain": "Vivado"}, clock_buffer="BUFG", derives_clocks=True,
    ),
    files=("xdc", "tcl"),
    bitstream="bit",
    toolchains=("vivado", "openxc7"),
)
