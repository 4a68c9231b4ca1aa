"""The names of a core's files, which lie in one folder and name each other."""

__all__ = ["FILES", "FOLDER"]

#: The folder of a core, beside its design.
FOLDER = "ip"

NETWORK, WRAPPER, PRIMITIVES = "network.v", "sbnn_axi.v", "primitives.v"
COMPONENT, FUSESOC, LITEX = "component.xml", "sbnn.core", "litex_core.py"
VERILOG, VHDL, README = "instance.v", "instance.vhd", "README.md"

#: All of them. The catalogues' come last: where they are, all the rest is.
FILES = (
    NETWORK, WRAPPER, PRIMITIVES, VERILOG, VHDL, README, LITEX, FUSESOC, COMPONENT,
)  # fmt: skip
