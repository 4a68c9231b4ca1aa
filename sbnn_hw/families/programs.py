"""How programs are called for a family: Yosys, nextpnr and the packer, and Amaranth's platforms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Platform", "Router", "Synthesiser"]


@dataclass(frozen=True, kw_only=True)
class Synthesiser:
    """How Yosys synthesises for a family."""

    command: str  # For a whole board, whose pins have buffers already.
    models: str  # Yosys's models of the cells.
    no_pads: str = ""  # What is added where ports are no pins: no buffers for them.
    network: str = ""  # What is added for a network alone.
    no_names: str = ""  # What is added for a part without a board, whose report needs no names.
    # Whether tables that a text instantiates are hidden from Yosys: it would not change them, and
    # where there are tens of thousands it runs out of memory on the way.
    opaque: bool = False
    # What maps the tables of very large designs in place of abc9; empty if there is nothing.
    light: str = ""

    @property
    def tool(self) -> str:
        """The command's name."""
        return self.command.split()[0]

    @property
    def network_command(self) -> str:
        """The command for a network alone."""
        return f"{self.command}{self.no_pads}{self.network}"

    def board_command(self, top: str, *, pins: bool, options: str = "") -> str:
        """Return the command for a whole design; with ``pins`` its ports are the FPGA's."""
        command = f"{self.command} -top {top}{'' if pins else self.no_pads} {options}".rstrip()
        return command if pins else command + self.no_names


@dataclass(frozen=True, kw_only=True)
class Router:
    """How nextpnr and the packer of a family are called."""

    # The family's nextpnr, and the program that makes a bitstream of what was routed.
    program: str
    packer: str
    # Takes device, package and speed; returns the options that name them, or None for a device
    # that nextpnr does not know.
    select: Callable[[str, str, str], tuple[str, ...] | None]
    pins: str  # The kind of file that has the pins, and the option that names it.
    routed: tuple[str, str]  # The option that names the routed design, and that file's ending.
    pack: tuple[str, ...]  # The packer's arguments; ``{routed}`` and ``{bitstream}`` are the files.
    pack_options: tuple[str, ...] = ()  # Its options for a board that says nothing of them.
    options: tuple[str, ...] = ()  # More options of nextpnr.
    out_of_context: bool = False  # Whether a design without pins can be routed.


@dataclass(frozen=True, kw_only=True)
class Platform:
    """How Amaranth writes the files of a board."""

    base: str  # Amaranth's platform, as ``module:Class``.
    standard: tuple[str, str]  # What the standard of a pin is called, and the one of 3.3 V.
    # What a platform is made with, and what its scripts are written with.
    options: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    # The cell, from ``I`` to ``O``, that puts a clock on a global net; empty if the tools do so
    # by themselves.
    clock_buffer: str = ""
    # Whether the tools derive the constraint of a PLL's output from that of its input.
    derives_clocks: bool = False
