"""Generate a design: Verilog text, and a description of its ports and stages."""

from dataclasses import dataclass

from sbnn_hw.design import Design
from sbnn_hw.netlist import Network
from sbnn_hw.rtl_gen.axi import AxiStream, Boxed
from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import describe
from sbnn_hw.rtl_gen.verilog import find_yosys, to_verilog

__all__ = ["Generated", "generate", "generate_axi"]


@dataclass(frozen=True)
class Generated:
    """Generated hardware.

    Parameters
    ----------
    verilog : str
        The text; its top module is ``top``.
    design : Design
        What the ports carry, how long it takes, and what the stages are.
    """

    verilog: str
    design: Design


def generate(network: Network, options: Options | None = None) -> Generated:
    """Generate the hardware of a network; the same network gives the same bytes."""
    find_yosys()
    top = Datapath(network, options)
    return Generated(to_verilog(top), describe(network, top.lowered, top.options))


def generate_axi(design: Design, width: int | None = None) -> str:
    """Return the Verilog of an AXI4-Stream face, ``top_axi``, for the module ``top``.

    The input is as wide as a pixel, or as ``width`` bits; an image that comes as a whole takes
    64-bit words.
    """
    if width is None:
        beat = design.input.width
        width = 8 * -(-beat // 8) if beat <= 64 else 64
    return to_verilog(AxiStream(Boxed(design), width), "top_axi")
