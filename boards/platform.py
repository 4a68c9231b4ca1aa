"""The top of a board: clock, reset, line and LEDs around the shell, as files for synthesis.

Amaranth and amaranth-boards know the pins; nothing of them is needed before a board is built for.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from amaranth import *
from amaranth.build import Attrs, Clock, Pins, Resource, Subsignal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from sbnn_hw.boards.clocks import ClockPlan
from sbnn_hw.boards.links import SPI
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

#: The resources that the pins of headers get.
_HEADER = "sbnn_uart"
_SPI = "sbnn_spi"
_HELD = "sbnn_high"

#: Written by Amaranth, but of no use here: commands are run without its scripts.
_LEFT_OUT = (f"{NAME}.debug.v", f"build_{NAME}.json", f"build_{NAME}.sh", f"build_{NAME}.bat")


def _clock_signal(name):
    """Make a signal for a clock, under a name that constraints can find."""
    return Signal(name=name)


class BoardTop(Elaboratable):
    """Everything on a board: the shell, and what makes its clock, reset, serial line and LEDs.

    Domain ``sync`` runs from the oscillator or a PLL. It is in reset until 15 µs after the PLL
    has locked and the reset button, where there is one, has been let go.

    ``shell_factory`` takes ``clocks_per_bit`` and ``led_count``. It returns a component with
    ``leds`` and the pins of the plan's line, which has synchronisers for its inputs of its own.
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
            if not board.family.platform.derives_clocks:
                platform.add_clock_constraint(clock, float(plan.pll.clock_out))

        self._add_reset(m, platform, clock, locked)

        shell = self._factory(plan.baud.divisor, len(board.leds))
        m.submodules.shell = shell

        if plan.link is SPI:
            self._add_spi(m, platform, shell)
        else:
            self._add_uart(m, platform, shell)

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

    def _add_uart(self, m, platform, shell):
        uart = platform.request("uart" if self._board.uart is None else _HEADER, dir="-")
        m.submodules.rx_buffer = rx_buffer = io.Buffer("i", uart.rx)
        m.submodules.tx_buffer = tx_buffer = io.Buffer("o", uart.tx)
        m.d.comb += [
            shell.rx.eq(rx_buffer.i),
            tx_buffer.o.eq(shell.tx),
        ]

    def _add_spi(self, m, platform, shell):
        spi = platform.request(_SPI, dir="-")
        m.submodules.cs_buffer = cs_buffer = io.Buffer("i", spi.cs)
        m.submodules.sck_buffer = sck_buffer = io.Buffer("i", spi.sck)
        m.submodules.mosi_buffer = mosi_buffer = io.Buffer("i", spi.mosi)
        m.submodules.miso_buffer = miso_buffer = io.Buffer("o", spi.miso)
        m.submodules.ready_buffer = ready_buffer = io.Buffer("o", spi.ready)
        m.d.comb += [
            # Its pin is not inverted: the shell itself takes it low.
            shell.cs_n.eq(cs_buffer.i),
            shell.sck.eq(sck_buffer.i),
            shell.mosi.eq(mosi_buffer.i),
            miso_buffer.o.eq(shell.miso),
            miso_buffer.oe.eq(shell.miso_oe),
            ready_buffer.o.eq(shell.ready),
        ]

    def _distribute(self, m, source, clock):
        """Put a clock on a global net."""
        buffer = self._board.family.platform.clock_buffer
        if buffer:
            m.submodules.clk_global = Instance(buffer, i_I=source, o_O=clock)
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
        cell = self._board.family.pll_cell(self._plan.pll, pad=self._board.pll_pad)
        made = Signal()
        feedback = Signal()
        nets = {"clock": clock, "made": made, "feedback": feedback, "locked": locked}
        if "pin" in cell.inputs.values():
            # The pin belongs to the PLL: no buffer may lie between.
            nets["pin"] = port.io
        else:
            m.submodules.clk_buffer = buffer = io.Buffer("i", port)
            nets["source"] = buffer.i
        m.submodules.pll = Instance(cell.name,
            *(("a", name, value) for name, value in cell.attributes.items()),
            *(("p", name, Const(*value) if isinstance(value, tuple) else value)
              for name, value in cell.parameters.items()),
            *(("i", pin, nets[net] if isinstance(net, str) else Const(net))
              for pin, net in cell.inputs.items()),
            *(("o", pin, nets[net]) for pin, net in cell.outputs.items()))
        if "made" in cell.outputs.values():
            self._distribute(m, made, clock)


def _make_platform(board):
    """Return the board's platform, with the pins that its table entry adds."""
    if board.pins is not None:
        platform = _from_pin_file(board)()
    else:
        try:
            found = _find_class(f"amaranth_boards.{board.platform}")
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "amaranth_boards":
                raise
            raise ToolMissing(
                f"Building for {board.name} needs amaranth-boards (pip install 'sbnn-hw[flow]')"
            ) from None
        platform = found(**board.family.platform.options)
    if (platform.device, platform.package) != (board.device, board.package):
        raise UsageError(
            f"The table has {board.device} in {board.package} for {board.name}, but its platform "
            f"has {platform.device} in {platform.package}"
        )

    attribute, standard = board.family.platform.standard
    attrs = Attrs(**{attribute: standard if board.pins is None else board.pins.io_standard})
    if board.uart is not None:
        platform.add_resources([Resource(_HEADER, 0,
            Subsignal("rx", Pins(board.uart.rx, dir="i")),
            Subsignal("tx", Pins(board.uart.tx, dir="o")),
            attrs)])
    if board.spi is not None:
        directions = {"cs": "i", "sck": "i", "mosi": "i", "miso": "o", "ready": "o"}
        platform.add_resources([Resource(_SPI, 0, *(
            Subsignal(name, Pins(getattr(board.spi, name), dir=way, conn=board.spi.connector))
            for name, way in directions.items()), attrs)])
    platform.add_resources([
        Resource(_HELD, number, Pins(pin, dir="o"), attrs)
        for number, pin in enumerate(board.held_high)
    ])
    return platform


def _find_class(place):
    """Return what lies at ``module:Class``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _from_pin_file(board):
    """Make a platform class from a pin file."""
    pins = board.pins
    attribute, _ = board.family.platform.standard
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
    return type("PinFilePlatform", (_find_class(board.family.platform.base),), described)


def prepare_board(board: Board, shell_factory: Callable[[int, int], Any], clock_plan: ClockPlan,
                  sources: Mapping[str, str]) -> Prepared:
    """Return everything that synthesis reads for a board; the same input gives the same bytes.

    ``shell_factory`` is as in :class:`BoardTop`. ``sources`` are Verilog by file name; the network
    is ``top.v``.
    """
    for name in sources:
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.v", name, re.ASCII) or name == f"{NAME}.v":
            raise ValueError(f"Source must be named like top.v, not {name!r}")
    platform = _make_platform(board)
    for name, text in sources.items():
        platform.add_file(name, text)
    with writing_verilog(), warnings.catch_warnings():
        # Boards give attributes as numbers and truths, which newer releases warn of.
        warnings.simplefilter("ignore", DeprecationWarning)
        plan = platform.prepare(
            BoardTop(board, clock_plan, shell_factory), NAME, emit_src=False,
            **board.family.platform.overrides,
        )
    files = {
        name: clean(content) if name == f"{NAME}.v" else content
        for name, content in plan.files.items()
        if name not in _LEFT_OUT
    }
    if "vivado" in board.family.toolchains:
        # Amaranth's own find their files only from the folder that they are in.
        files |= build_scripts(NAME)
    return Prepared(NAME, {
        name: content if isinstance(content, bytes) or content.endswith("\n") else content + "\n"
        for name, content in files.items()
    })
