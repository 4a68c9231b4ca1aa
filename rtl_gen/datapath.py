"""The whole network between two streams."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.netlist import Network
from sbnn_hw.rtl_gen.engines.place import join_engine
from sbnn_hw.rtl_gen.engines.store import LOADING
from sbnn_hw.rtl_gen.island import join
from sbnn_hw.rtl_gen.lower import Options, lower

__all__ = ["Datapath"]


class Datapath(wiring.Component):
    """A whole network between two streams.

    An input is taken in every cycle in which no result waits to be taken. From an image's first
    input to its result it takes :py:`latency` cycles, if inputs come in every cycle.

    Members
    -------
    i : :py:`In(stream.Signature(width_in))`
        An image, or one pixel after the other: the first pixel, and of it the first channel, least
        significant.
    o : :py:`Out(stream.Signature(data.StructLayout))`
        The number of the class, and the scores in two's complement.
    program : :py:`In(LOADING)`
        A program to write, where an engine's can be loaded.
    """

    # A network that is refused, or only asked what it would cost, is no oversight.
    _MustUse__silence = True

    def __init__(self, network: Network, options: Options | None = None) -> None:
        self.options = options or Options()
        self.lowered = lower(network, self.options)
        self.beats, self.latency = self.lowered.beats, self.lowered.latency
        shape = {"index": self.lowered.index_bits}
        if self.options.scores:
            shape["scores"] = data.ArrayLayout(signed(self.lowered.score_bits), network.classes)
        super().__init__({
            "i": In(stream.Signature(self.lowered.width_in)),
            "o": Out(stream.Signature(data.StructLayout(shape))),
            **({"program": In(LOADING)} if self.options.loadable else {}),
        })

    def elaborate(self, platform):
        if self.lowered.engine is not None:
            return join_engine(self, self.lowered, self.options)
        return join(self, self.lowered.islands)
