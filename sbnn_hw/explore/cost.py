"""What a network takes, without synthesis: the tables of the design as it would be generated."""

from sbnn_hw.netlist import Network

__all__ = ["tables_of"]


def tables_of(network: Network) -> int:
    """Return the look-up tables of a network on a 7-series FPGA.

    Every heap, comparison and sum is laid out as `sbnn-hw generate` does, with encoder, q and
    argmax; only the text is not written. Of a network that takes an image a clock Yosys then finds
    hardly anything to add or to take away; counters and lines of pixels are not in it.
    """
    from sbnn_hw.rtl_gen.design import outline
    from sbnn_hw.rtl_gen.lower import Options

    stages = outline(network, Options(family="xc7"))["stages"]
    return sum(int(stage["tables"]) for stage in stages)
