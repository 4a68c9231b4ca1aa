"""Networks as programs, of whichever form a shape has."""

from sbnn_hw.engine.bitmap import compile_bitmap
from sbnn_hw.engine.chain import Chain, read_chain
from sbnn_hw.engine.program import Program, compile_gaps
from sbnn_hw.engine.shape import Shape
from sbnn_hw.netlist import Network

__all__ = ["compile_chain", "compile_program"]


def compile_program(network: Network, shape: Shape, first: int = 0) -> Program:
    """Return the program by which an engine computes a network from a stage on.

    A network that the shape cannot hold is refused.
    """
    return compile_chain(read_chain(network, first), shape)


def compile_chain(chain: Chain, shape: Shape) -> Program:
    """Return the program of a chain for a shape."""
    return compile_bitmap(chain, shape) if shape.bitmap else compile_gaps(chain, shape)
