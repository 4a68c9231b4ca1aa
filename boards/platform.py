"""The top of a board: clock, reset, serial line and LEDs around the shell, as files for synthesis.

Amaranth and amaranth-boards know the pins; nothing of them is needed before a board is built for.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from amaranth import *
from amaranth.build import Attrs, Clock, Pins, Resource, Subsignal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.vendor import LatticeECP5Platform, SiliconBluePlatform, XilinxPlatform

from sbnn_hw.boards.clocks import ClockPlan
from sbnn_hw.boards.results import Prepared
from sbnn_hw.boards.table import Board
from sbnn_hw.boards.vivado import build_scripts
from sbnn_hw.errors import ToolMissing, UsageError
from sbnn_hw.rtl_gen.verilog import clean, writing_verilog

__all__ = ["BoardTop", "prepare_board"]

#: The board's module; ``top`` is the network's.
NAME = "shell"

#: How long everything stays in reset after configuration: iCE40's memories read as zeros for some
#: 3 µs, and clocks settle.
_RESET_SECONDS = 15e-6

#: The resource that the pins of a header get.
_HEADER = "sbnn_uart"
_HELD = "sbnn_high"

#: What each family calls the standard of a pin, and the one for headers.
_STANDARD = {
    "xc7":   ("IOSTANDARD", "LVCMOS33"),
    "ecp5":  ("IO_TYPE", "LVCMOS33"),
    "ice40": ("IO_STANDARD", "SB_LVCMOS"),
}

_VENDORS = {
    "xc7":   XilinxPlatform,
    "ecp5":  LatticeECP5Platform,
    "ice40": SiliconBluePlatform,
}

#: Written by Amaranth, but of no use here: commands are run without its scripts, save Vivado's.
_LEFT_OUT = {
    "xc7":   (f"{NAME}.debug.v", f"build_{NAME}.json"),
    "ecp5":  (f"{NAME}.debug.v", f"build_{NAME}.json", f"build_{NAME}.sh", f"build_{NAME}.bat"),
    "ice40": (f"{NAME}.debug.v", f"build_{NAME}.json", f"build_{NAME}.sh", f"build_{NAME}.bat"),
}


def _clock_signal(name):
    """Make a signal for a clock, under a name that constraints can find."""
    return Signal(name=name)


class BoardTop(Elaboratable):
    """Everything on a board: the shell, and what makes its clock, reset, serial line and LEDs.

    Domain ``sync`` runs from the oscillator or a PLL. It is in reset until 15 µs after the PLL
    has locked and the reset button, where there is one, has been let go.

    Parameters
    ----------
    board : Board
        Where the pins are.
    plan : ClockPlan
        The clock, and the serial line's divisor.
    shell_factory : callable
        Takes ``clocks_per_bit`` and ``led_count``; returns a component with ``rx``, ``tx`` and
        ``leds``, which has a synchroniser for ``rx`` of its own.
    """

    def __init__(self, board, plan, shell_factory):
        self._board = board
        self._plan = plan
        self._factory = shell_factory

    def elaborate(self, platform):
        m = Module()
        board, plan = self._board, self._plan

        clock_port = platform.request(platform.default_clk, dir="-")
        clock = _clock_signal("clk")
        locked = Const(1)
        if plan.pll is None:
            m.submodules.clk_buffer = buffer = io.Buffer("i", clock_port)
            self._distribute(m, buffer.i, clock)
        else:
            locked = Signal()
            self._add_pll(m, clock_port, clock, locked)
            if board.family != "xc7":
                # Vivado derives the constraint of a PLL's output from that of its input.
                platform.add_clock_constraint(clock, float(plan.pll.clock_out))

        self._add_reset(m, platform, clock, locked)

        shell = self._factory(plan.baud.divisor, len(board.leds))
        m.submodules.shell = shell

        uart = platform.request("uart" if board.uart is None else _HEADER, dir="-")
        m.submodules.rx_buffer = rx_buffer = io.Buffer("i", uart.rx)
        m.submodules.tx_buffer = tx_buffer = io.Buffer("o", uart.tx)
        m.d.comb += [
            shell.rx.eq(rx_buffer.i),
            tx_buffer.o.eq(shell.tx),
        ]

        requested = {}
        for number, led in enumerate(board.leds):
            name, index, *color = led.split()
            if (name, index) not in requested:
                requested[name, index] = platform.request(name, int(index), dir="-")
            port = requested[name, index]
            for part in color:
                port = getattr(port, part)
            m.submodules[f"led{number}_buffer"] = buffer = io.Buffer("o", port)
            m.d.comb += buffer.o.eq(shell.leds[number])

        for number in range(len(board.held_high)):
            port = platform.request(_HELD, number, dir="-")
            m.submodules[f"high{number}_buffer"] = buffer = io.Buffer("o", port)
            m.d.comb += buffer.o.eq(1)

        return m

    def _distribute(self, m, source, clock):
        """Put a clock on a global net."""
        if self._board.family == "xc7":
            m.submodules.clk_global = Instance("BUFG", i_I=source, o_O=clock)
        else:
            # Here the tools do so by themselves.
            m.d.comb += clock.eq(source)

    def _add_reset(self, m, platform, clock, locked):
        """Make the domains: one that times the reset, and the one that everything else is in."""
        stop = ~locked if self._plan.pll is not None else None
        if platform.default_rst is not None:
            port = platform.request(platform.default_rst, dir="-")
            m.submodules.rst_buffer = buffer = io.Buffer("i", port)
            stop = buffer.i if stop is None else stop | buffer.i

        m.domains.por = por = ClockDomain(reset_less=stop is None, local=True)
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [por.clk.eq(clock), sync.clk.eq(clock)]
        if stop is not None:
            m.submodules.rst_sync = ResetSynchronizer(stop, domain="por")

        cycles = max(int(_RESET_SECONDS * self._plan.hz), 1)
        timer = Signal(range(cycles + 1))
        ready = Signal()
        # It counts up from 0: if the first edge comes while the FPGA still wakes up, no bit but
        # the lowest can change, and the reset is not cut short.
        with m.If(timer == cycles):
            m.d.por += ready.eq(1)
        with m.Else():
            m.d.por += timer.eq(timer + 1)
        # Registers all over the FPGA are reset by this one: no table may lie between.
        reset = Signal(init=1)
        m.d.por += reset.eq(~ready)
        m.d.comb += sync.rst.eq(reset)

    def _add_pll(self, m, port, clock, locked):
        pll = self._plan.pll
        settings = pll.settings
        if pll.primitive == "SB_PLL40":
            self._add_ice40_pll(m, port, clock, locked)
            return
        m.submodules.clk_buffer = buffer = io.Buffer("i", port)
        made = Signal()
        feedback = Signal()
        if pll.primitive == "EHXPLLL":
            m.submodules.pll = Instance("EHXPLLL",
                a_FREQUENCY_PIN_CLKI=_megahertz(pll.clock_in),
                a_FREQUENCY_PIN_CLKOS=_megahertz(pll.clock_out),
                # As ecppll has them: the loop's filter.
                a_ICP_CURRENT="12", a_LPF_RESISTOR="8",
                a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
                p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
                p_DPHASE_SOURCE="DISABLED", p_FEEDBK_PATH="CLKOP",
                p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB",
                p_OUTDIVIDER_MUXC="DIVC", p_OUTDIVIDER_MUXD="DIVD",
                p_CLKI_DIV=settings["CLKI_DIV"], p_CLKFB_DIV=settings["CLKFB_DIV"],
                p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=settings["CLKOP_DIV"],
                p_CLKOP_CPHASE=settings["CLKOP_DIV"] - 1, p_CLKOP_FPHASE=0,
                p_CLKOS_ENABLE="ENABLED", p_CLKOS_DIV=settings["CLKOS_DIV"],
                p_CLKOS_CPHASE=settings["CLKOS_DIV"] - 1, p_CLKOS_FPHASE=0,
                i_RST=Const(0), i_STDBY=Const(0), i_CLKI=buffer.i, i_CLKFB=feedback,
                i_PHASESEL0=Const(0), i_PHASESEL1=Const(0), i_PHASEDIR=Const(1),
                i_PHASESTEP=Const(1), i_PHASELOADREG=Const(1), i_PLLWAKESYNC=Const(0),
                i_ENCLKOP=Const(0),
                o_CLKOP=feedback, o_CLKOS=made, o_LOCK=locked)
        else:
            fractional = pll.primitive == "MMCME2_BASE"
            factor = settings["CLKFBOUT_MULT"]
            divide = settings["CLKOUT0_DIVIDE"]
            period = float(Fraction(10**9) / pll.clock_in)
            scales = {
                "p_CLKFBOUT_MULT_F": float(factor), "p_CLKOUT0_DIVIDE_F": float(divide),
            } if fractional else {
                "p_CLKFBOUT_MULT": int(factor), "p_CLKOUT0_DIVIDE": divide,
            }
            m.submodules.pll = Instance(pll.primitive,
                **scales,
                p_DIVCLK_DIVIDE=settings["DIVCLK_DIVIDE"], p_CLKIN1_PERIOD=round(period, 3),
                i_CLKIN1=buffer.i, i_CLKFBIN=feedback, i_RST=Const(0), i_PWRDWN=Const(0),
                o_CLKFBOUT=feedback, o_CLKOUT0=made, o_LOCKED=locked)
        self._distribute(m, made, clock)

    def _add_ice40_pll(self, m, port, clock, locked):
        settings = self._plan.pll.settings
        numbers = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
        common = {
            "p_FEEDBACK_PATH": "SIMPLE",
            **{f"p_{name}": Const(settings[name], width) for name, width in numbers.items()},
            "i_RESETB": Const(1), "i_BYPASS": Const(0),
            "o_PLLOUTGLOBAL": clock, "o_LOCK": locked,
        }
        if self._board.pll_pad:
            # The pin belongs to the PLL: no buffer may lie between.
            m.submodules.pll = Instance("SB_PLL40_PAD", i_PACKAGEPIN=port.io, **common)
        else:
            m.submodules.clk_buffer = buffer = io.Buffer("i", port)
            m.submodules.pll = Instance("SB_PLL40_CORE", i_REFERENCECLK=buffer.i, **common)


def _megahertz(hz):
    return f"{float(hz / 1_000_000):.6f}"


def _make_platform(board):
    """Return the board's platform, with the pins that its table entry adds."""
    if board.pins is not None:
        platform = _from_pin_file(board)()
    else:
        module, _, name = board.platform.partition(":")
        try:
            found = getattr(importlib.import_module(f"amaranth_boards.{module}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "amaranth_boards":
                raise
            raise ToolMissing(
                f"Building for {board.name} needs amaranth-boards (pip install 'sbnn-hw[flow]')"
            ) from None
        platform = found(**({"toolchain": "Vivado"} if board.family == "xc7" else {}))
    if (platform.device, platform.package) != (board.device, board.package):
        raise UsageError(
            f"The table has {board.device} in {board.package} for {board.name}, but its platform "
            f"has {platform.device} in {platform.package}"
        )

    attribute, standard = _STANDARD[board.family]
    attrs = Attrs(**{attribute: standard if board.pins is None else board.pins.io_standard})
    if board.uart is not None:
        platform.add_resources([Resource(_HEADER, 0,
            Subsignal("rx", Pins(board.uart.rx, dir="i")),
            Subsignal("tx", Pins(board.uart.tx, dir="o")),
            attrs)])
    platform.add_resources([
        Resource(_HELD, number, Pins(pin, dir="o"), attrs)
        for number, pin in enumerate(board.held_high)
    ])
    return platform


def _from_pin_file(board):
    """Make a platform class from a pin file."""
    pins = board.pins
    attribute, _ = _STANDARD[board.family]
    attrs = Attrs(**{attribute: pins.io_standard})
    resources = [
        Resource("clk", 0, Pins(pins.clock_pin, dir="i"), Clock(board.clock_hz), attrs),
        *(
            Resource("led", number, Pins(pin, dir="o", invert=pins.leds_active_low), attrs)
            for number, pin in enumerate(pins.led_pins)
        ),
    ]
    if pins.reset_pin is not None:
        resources.append(Resource("rst", 0,
            Pins(pins.reset_pin, dir="i", invert=pins.reset_active_low), attrs))
    described = {
        "device": board.device, "package": board.package, "speed": board.speed,
        "default_clk": "clk", "default_rst": None if pins.reset_pin is None else "rst",
        "resources": resources, "connectors": [],
    }
    return type("PinFilePlatform", (_VENDORS[board.family],), described)


def prepare_board(board: Board, shell_factory: Callable[[int, int], Any], clock_plan: ClockPlan,
                  sources: Mapping[str, str]) -> Prepared:
    """Return everything that synthesis reads for a board; the same input gives the same bytes.

    Parameters
    ----------
    board : Board
        Where it shall run.
    shell_factory : callable
        See :class:`BoardTop`.
    clock_plan : ClockPlan
        See :func:`sbnn_hw.boards.clocks.plan_clock`.
    sources : dict of str to str
        Verilog by file name; the network is ``top.v``.
    """
    for name in sources:
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.v", name, re.ASCII) or name == f"{NAME}.v":
            raise ValueError(f"Source must be named like top.v, not {name!r}")
    platform = _make_platform(board)
    for name, text in sources.items():
        platform.add_file(name, text)
    overrides = {"synth_opts": "-nowidelut"} if board.family == "ecp5" else {}
    with writing_verilog(), warnings.catch_warnings():
        # Boards give attributes as numbers and truths, which newer releases warn of.
        warnings.simplefilter("ignore", DeprecationWarning)
        plan = platform.prepare(
            BoardTop(board, clock_plan, shell_factory), NAME, emit_src=False, **overrides
        )
    files = {
        name: clean(content) if name == f"{NAME}.v" else content
        for name, content in plan.files.items()
        if name not in _LEFT_OUT[board.family]
    }
    if board.family == "xc7":
        # Amaranth's own find their files only from the folder that they are in.
        files |= build_scripts(NAME)
    return Prepared(NAME, {
        name: content if isinstance(content, bytes) or content.endswith("\n") else content + "\n"
        for name, content in files.items()
    })
