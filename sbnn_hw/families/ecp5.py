"""Lattice ECP5."""

import re
from collections.abc import Iterator
from fractions import Fraction

from sbnn_hw.families.energy import Switching
from sbnn_hw.families.family import FpgaFamily, Part
from sbnn_hw.families.pll import MHZ, Cell, Limits, Pll, PllKind, Settings, nearest_divisors
from sbnn_hw.families.programs import Platform, Router, Synthesiser
from sbnn_hw.families.resources import Capacity, CellCosts, Memory, Packing, Speed, TableMemory
from sbnn_hw.families.tables import LookUp, Sums, TableCell

__all__ = ["ECP5"]

#: By size, from the vendor's product table. There are as many registers as tables.
_CAPACITIES = {
    # The 12F is a 25F that is sold as less. The open tools reach all of it, and that is taken;
    # Lattice vouches for 12,000 tables and 32 blocks of it.
    "12": Capacity(24_288, 24_288, 56, 28),
    "25": Capacity(24_288, 24_288, 56, 28),
    "45": Capacity(43_848, 43_848, 108, 72),
    "85": Capacity(83_640, 83_640, 208, 156),
}

#: By speed grade, measured with nextpnr; see docs/boards.md.
_SPEEDS = {"6": Speed(8.0, 1.60), "7": Speed(7.4, 1.50), "8": Speed(6.8, 1.35)}

#: What nextpnr calls them.
_PACKAGES = {
    "BG256": "CABGA256", "MG285": "CSFBGA285", "BG381": "CABGA381", "BG554": "CABGA554",
    "BG756": "CABGA756", "TG144": "TQFP144",
}

_DEVICE = re.compile(r"LFE5(U|UM|UM5G)-(12|25|45|85)F", re.IGNORECASE | re.ASCII)
_NAME = re.compile(
    rf"({_DEVICE.pattern})-([678])({'|'.join(_PACKAGES)})([CI]?)", re.IGNORECASE | re.ASCII
)


def _read_part(name: str) -> Part | None:
    found = _NAME.fullmatch(name)
    if found is None or (found[3] == "12" and found[2].upper() != "U"):
        return None
    device, speed, package = found[1].upper(), found[4], found[5].upper()
    order = f"{device}-{speed}{package}{found[6].upper()}"
    return Part(order, ECP5, device, package, speed, _CAPACITIES[found[3]], _SPEEDS[speed])


def _select(device: str, package: str, speed: str) -> tuple[str, ...] | None:
    found = _DEVICE.fullmatch(device)
    if found is None:
        return None
    kind = "" if found[1] == "U" else f"{found[1].lower()}-"
    return f"--{kind}{found[2]}k", "--package", _PACKAGES[package], "--speed", speed


def _settings(
    limits: Limits, clock: Fraction, target: Fraction
) -> Iterator[tuple[Fraction, Settings]]:
    """List settings. CLKOP closes the loop, CLKOS is the output: more than with one for both."""
    for divide, detector in limits.detectors(clock, 128):
        for total in limits.factors(detector, 80 * 128):
            feedback = next((f for f in range(1, 81) if total % f == 0 and total // f <= 128), None)
            if feedback is None:
                continue
            for out in nearest_divisors(detector * total, target, 128):
                yield detector * total / out, {
                    "CLKI_DIV": divide, "CLKFB_DIV": feedback, "CLKOP_DIV": total // feedback,
                    "CLKOS_DIV": out,
                }


def _cell(pll: Pll, pad: bool) -> Cell:
    divide = {name: int(value) for name, value in pll.settings.items()}
    return Cell(
        "EHXPLLL",
        attributes={
            "FREQUENCY_PIN_CLKI": f"{float(pll.clock_in / MHZ):.6f}",
            "FREQUENCY_PIN_CLKOS": f"{float(pll.clock_out / MHZ):.6f}",
            # As ecppll has them: the loop's filter.
            "ICP_CURRENT": "12", "LPF_RESISTOR": "8",
            "MFG_ENABLE_FILTEROPAMP": "1", "MFG_GMCREF_SEL": "2",
        },
        parameters={
            "PLLRST_ENA": "DISABLED", "INTFB_WAKE": "DISABLED", "STDBY_ENABLE": "DISABLED",
            "DPHASE_SOURCE": "DISABLED", "FEEDBK_PATH": "CLKOP",
            **{f"OUTDIVIDER_MUX{letter}": f"DIV{letter}" for letter in "ABCD"},
            "CLKI_DIV": divide["CLKI_DIV"], "CLKFB_DIV": divide["CLKFB_DIV"],
            "CLKOP_ENABLE": "ENABLED", "CLKOP_DIV": divide["CLKOP_DIV"],
            "CLKOP_CPHASE": divide["CLKOP_DIV"] - 1, "CLKOP_FPHASE": 0,
            "CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": divide["CLKOS_DIV"],
            "CLKOS_CPHASE": divide["CLKOS_DIV"] - 1, "CLKOS_FPHASE": 0,
        },
        inputs={
            "RST": 0, "STDBY": 0, "CLKI": "source", "CLKFB": "feedback",
            "PHASESEL0": 0, "PHASESEL1": 0, "PHASEDIR": 1, "PHASESTEP": 1, "PHASELOADREG": 1,
            "PLLWAKESYNC": 0, "ENCLKOP": 0,
        },
        outputs={"CLKOP": "feedback", "CLKOS": "made", "LOCK": "locked"},
    )


ECP5 = FpgaFamily(
    name="ecp5",
    title="ECP5",
    look_up=LookUp(inputs=4, paired=0),
    cells=TableCell("LUT4", "INIT", ("A", "B", "C", "D"), "Z"),
    sums=Sums(bit=2.0, choice=2.0, adder=2, counter=2.5),
    memory=Memory(
        byte_bits=16_384,
        shapes=((16_384, 1), (8_192, 2), (4_096, 4), (2_048, 9), (1_024, 18), (512, 36)),
        weight=128, cells={"DP16KD": 1, "PDPW16KD": 1}, in_tables=(TableMemory(16, 4, 6, 4),),
    ),
    costs=CellCosts(
        logic={"LUT4": 1},
        # Four tables hold the bits, two more are lost to the write port.
        memory={"TRELLIS_DPR16X4": 6},
        # An adder cell is two tables with a carry between.
        carries={"CCU2C": 2},
        flip_flops="TRELLIS_FF",
        muxes="PFUMX|L6MUX21",
        multipliers="MULT18X18D|ALU54B",
    ),
    synthesis=Synthesiser(
        # Multiplexers between tables double the count: what they save in depth is not needed here.
        command="synth_ecp5 -nowidelut",
        no_pads=" -noiopad",
        # Most of the time would go into names.
        no_names=" -run begin:check\nhierarchy -check\ncheck\nblackbox =A:whitebox",
        models="+/ecp5/cells_sim.v",
    ),
    switching=Switching(
        capacitance_pf=0.77, volts=1.1, factor=4,
        source="Assumed: the capacitance derived for iCE40, which is made in 40 nm too; no "
               "published figure for a net of this family was found.",
        static="Static power is not in it: it depends on the part and its temperature, and the "
               "vendor's power estimator tells it.",
    ),
    packing=Packing(),
    shell=(900, 650),
    example="LFE5U-25F-6BG381C",
    read_part=_read_part,
    # FPGA-DS-02012.
    plls=(
        PllKind("EHXPLLL", Limits.of_mhz((8, 400), (10, 400), (400, 800), (3.125, 400)),
                _settings, _cell),
    ),
    platform=Platform(
        base="amaranth.vendor:LatticeECP5Platform", standard=("IO_TYPE", "LVCMOS33"),
        overrides={"synth_opts": "-nowidelut"},
    ),
    files=("lpf",),
    bitstream="bit",
    router=Router(
        program="nextpnr-ecp5", packer="ecppack", select=_select,
        # The default router takes many times as long on networks, whose nets have many readers.
        options=("--router", "router2"),
        pins="lpf", routed=("--textcfg", "config"), out_of_context=True,
        pack=("--input", "{routed}", "--bit", "{bitstream}"), pack_options=("--compress",),
    ),
)
