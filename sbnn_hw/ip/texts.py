"""How others take up a core: templates in Verilog and VHDL, FuseSoC, LiteX, and a page to read."""

from textwrap import dedent, fill, indent

from sbnn_hw.families import find_family
from sbnn_hw.ip.core import ADDRESS_BITS, LIBRARY, VENDOR, VERSION, IpDescription, Port
from sbnn_hw.ip.files import COMPONENT, FUSESOC, LITEX, NETWORK, PRIMITIVES, VERILOG, VHDL, WRAPPER
from sbnn_hw.ip.registers import REGISTERS

__all__ = [
    "fusesoc_core",
    "litex_module",
    "readme",
    "register_table",
    "verilog_instance",
    "vhdl_instance",
]


def verilog_instance(core: IpDescription) -> str:
    """Return a module that instantiates the core, to copy from."""
    wide = max(len(port.name) for port in core.ports)
    ports = ",\n".join(f"  .{port.name:<{wide}} ({port.name})" for port in core.ports)
    declared = ",\n".join(
        f"  {'output' if port.output else 'input '} wire {_verilog_range(port)}{port.name}"
        for port in core.ports
    )
    return (
        f"// {core.title}: copy the instance, and connect your own signals.\n"
        f"module {core.module}_example (\n{declared}\n);\n\n"
        f"{core.module} {core.module}_0 (\n{ports}\n);\n\nendmodule\n"
    )


def _verilog_range(port: Port) -> str:
    return f"[{port.width - 1}:0] " if port.width > 1 else ""


def vhdl_instance(core: IpDescription) -> str:
    """Return an entity that declares and instantiates the core, to copy from."""
    wide = max(len(port.name) for port in core.ports)
    declared = ";\n".join(
        f"      {port.name:<{wide}} : {'out' if port.output else 'in '} {_vhdl_type(port)}"
        for port in core.ports
    )
    outer = indent(dedent(declared), "    ")
    ports = ",\n".join(f"      {port.name:<{wide}} => {port.name}" for port in core.ports)
    return f"""\
-- {core.title}: copy component and instance, and connect your own signals.
library ieee;
use ieee.std_logic_1164.all;

entity {core.module}_example is
  port (
{outer}
  );
end entity;

architecture example of {core.module}_example is
  component {core.module} is
    port (
{declared}
    );
  end component;
begin
  {core.module}_0 : {core.module}
    port map (
{ports}
    );
end architecture;
"""


def _vhdl_type(port: Port) -> str:
    return f"std_logic_vector({port.width - 1} downto 0)" if port.width > 1 else "std_logic"


def fusesoc_core(core: IpDescription) -> str:
    """Return the core's description for FuseSoC, in CAPI2."""
    return f"""\
CAPI=2:
name: "{VENDOR}:{LIBRARY}:{core.module}:{VERSION}"
description: "{core.title}"
filesets:
  rtl:
    files: ["{NETWORK}", "{WRAPPER}"]
    file_type: verilogSource
  # Models of look-up tables and flip-flops, which tools of an FPGA have of their own.
  primitives:
    files: ["{PRIMITIVES}"]
    file_type: verilogSource
targets:
  default: &default
    filesets: [rtl]
    toplevel: "{core.module}"
  sim:
    <<: *default
    description: "The core alone, for a testbench of yours"
    filesets: [primitives, rtl]
  lint:
    <<: *default
    description: "Let Verilator read the core"
    filesets: [primitives, rtl]
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: ["-Wno-fatal"]
"""


def litex_module(core: IpDescription) -> str:
    """Return a Python module with the core as a module of LiteX."""
    given = {"aclk": "ClockSignal()", "aresetn": "~ResetSignal()"}
    stream = {"TDATA": "data", "TVALID": "valid", "TREADY": "ready", "TLAST": "last"}
    lite = {"ADDR": "addr", "PROT": "prot", "DATA": "data", "STRB": "strb", "RESP": "resp"}
    lite |= {"VALID": "valid", "READY": "ready"}
    for port in core.ports:
        if port.bus in ("s_axis", "m_axis"):
            end = "sink" if port.bus == "s_axis" else "source"
            given[port.name] = f"self.{end}.{stream[port.signal]}"
        elif port.bus == "s_axi":
            split = 1 if port.signal[0] in "WBR" else 2
            channel, signal = port.signal[:split].lower(), lite[port.signal[split:]]
            cut = f"[:{ADDRESS_BITS}]" if signal == "addr" else ""
            given[port.name] = f"self.bus.{channel}.{signal}{cut}"
            if signal == "prot":
                given[port.name] = "Constant(0, 3)"
    ports = "\n".join(
        f"            {'o' if port.output else 'i'}_{port.name}={given[port.name]},"
        for port in core.ports
    )
    return f'''\
"""{core.title} as a module of LiteX.

In a SoC, with this file's folder as ``core``::

    from core.litex_core import Core

    self.sbnn = Core(platform)
    self.bus.add_slave("sbnn", self.sbnn.bus, SoCRegion(size=Core.SIZE, cached=False))

Images go into ``sbnn.sink``, results come from ``sbnn.source``; README.md says how they lie there.
"""

from pathlib import Path

from litex.gen import ClockSignal, Constant, Instance, LiteXModule, ResetSignal
from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXILiteInterface


class Core(LiteXModule):
    """The core, in the system's clock domain."""

    SOURCES = ("{NETWORK}", "{WRAPPER}")
    SIZE = 0x{1 << ADDRESS_BITS:X}

    def __init__(self, platform):
        self.sink = stream.Endpoint([("data", {core.s_width})])
        self.source = stream.Endpoint([("data", {core.m_width})])
        self.bus = AXILiteInterface(data_width=32, address_width=32)
        self.specials += Instance(
            "{core.module}",
{ports}
        )
        for name in self.SOURCES:
            platform.add_source(str(Path(__file__).resolve().parent / name), "verilog")
'''


def readme(core: IpDescription) -> str:
    """Return what a user has to know of the core, as Markdown."""
    design = core.design
    shape = "×".join(map(str, design.input.shape))
    parts = -(-design.input.width // core.s_width)
    images = (
        f"- `s_axis` takes images of {shape} values, row by row, in "
        f"{_words(core.image_words, core.s_width)} each. TLAST is set with the last word of an "
        f"image, and only there. {'An image' if design.input.beats == 1 else 'Each pixel'}, with "
        f"values of {_count(design.input.value_bits, 'bit')}, lies in "
        f"{_words(parts, core.s_width)}, the "
        "first value in the lowest bits of the first word; bits that are left over are not read. "
        "There is no TKEEP: all bytes of a word count."
    )
    results = (
        "- `m_axis` gives a result for each image, in order, in "
        f"{_words(core.result_words, core.m_width)} each; TLAST is set with the last. The lowest "
        f"{design.output.index_bits} bits, those of the first word, are the number of the class"
    )
    if design.output.score_bits:
        results += (
            f"; above it are {design.output.classes} scores of {design.output.score_bits} bits "
            "each, in two's complement, the first class lowest"
        )
    results += ". The rest is zero."
    registers = (
        "On `s_axi`, AXI4-Lite, 32 bits each. Writes obey the byte strobes. Other addresses, and "
        "writes to what is read-only, are answered with SLVERR. Stop the source before RESET: a "
        "word that it still offers is the first of the next image. Up to two results that are "
        "already at m_axis still come, whole; then BUSY is 0."
    )
    catalogue = "IP-XACT, for Vivado: add this folder to the project's IP repositories"
    if not find_family(design.family).catalogue:
        catalogue = "IP-XACT; Vivado does not offer it, because it has no parts of this family"
    ports = "\n".join(
        f"| `{port.name}` | {'out' if port.output else 'in'} | {port.width} |"
        for port in core.ports
    )
    return f"""\
# {core.title}

The module is `{core.module}`. Everything runs on `aclk`; `aresetn` is a synchronous reset, active
low.

| file | what it is |
|---|---|
| `{WRAPPER}`, `{NETWORK}` | the core; both are needed |
| `{COMPONENT}` | {catalogue} |
| `{FUSESOC}` | for FuseSoC: `fusesoc library add` this folder |
| `{LITEX}` | for LiteX |
| `{VERILOG}`, `{VHDL}` | templates of an instance |
| `{PRIMITIVES}` | models of look-up tables, for simulation where the tool has none |

## Streams

{_filled(images)}
{_filled(results)}

## Registers

{_filled(registers)}

{register_table(core)}

## Ports

| port | direction | bits |
|---|---|---|
{ports}
"""


def _filled(text: str) -> str:
    return fill(text, 100, subsequent_indent="  " * text.startswith("- "))


def _words(count: int, width: int) -> str:
    return f"{_count(count, 'word')} of {_count(width // 8, 'byte')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def register_table(core: IpDescription | None = None) -> str:
    """Return the registers as a table, with what they hold in a core."""
    lines = ["| address | register | access | what it is |", "|---|---|---|---|"]
    if core:
        lines = ["| address | register | access | value | what it is |", "|---|---|---|---|---|"]
    for register in REGISTERS:
        text = register.text
        for field in register.fields:
            text += f"; bit {field.bit}, {field.name}: {field.text}"
        value = "" if core is None or register.value is None else f"`0x{register.value(core):08X}`"
        lines.append(
            f"| `0x{register.offset:03X}` | `{register.name}` | {register.access} |"
            + (f" {value} |" if core else "")
            + f" {text} |"
        )
    return "\n".join(lines)
