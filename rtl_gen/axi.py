"""An AXI4-Stream face for a network: bytes in, bytes out."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.design import Design
from sbnn_hw.rtl_gen.engines.store import LOADING
from sbnn_hw.rtl_gen.streams import Widen

__all__ = ["AxiStream", "Boxed"]


def axi_stream(width):
    """Return the signature of an AXI4-Stream of a width, from its source."""
    return wiring.Signature({
        "tdata":  Out(width),
        "tvalid": Out(1),
        "tready": In(1),
        "tlast":  Out(1),
    })


class Boxed(wiring.Component):
    """A network whose Verilog lies in another file, as a module called ``top`` or as given.

    Members
    -------
    i, o
        As those of :class:`sbnn_hw.rtl_gen.datapath.Datapath`, the output as plain bits.
    program
        Only of a design that can be loaded: the bytes of a program.
    """

    def __init__(self, design: Design, module: str = "top") -> None:
        self._module = module
        self.beats = design.input.beats
        members = {
            "i": In(stream.Signature(design.input.width)),
            "o": Out(stream.Signature(design.output.width)),
        }
        self._loadable = design.program is not None
        if self._loadable:
            members["program"] = In(LOADING)
        super().__init__(members)

    def elaborate(self, platform):
        program = {}
        if self._loadable:
            program = {f"i_program__{name}": getattr(self.program, name)
                       for name in ("reset", "valid", "byte")}
        return Instance(self._module, **program,
            i_clk=ClockSignal(), i_rst=ResetSignal(),
            i_i__payload=self.i.payload, i_i__valid=self.i.valid, o_i__ready=self.i.ready,
            o_o__payload=self.o.payload, o_o__valid=self.o.valid, i_o__ready=self.o.ready)


class AxiStream(wiring.Component):
    """A network behind AXI4-Stream, input and output widths in whole bytes.

    Inputs that are wider than ``width`` come in several words, the least significant first, and
    an image's last word carries ``tlast``. One that carries it too early, or a last word without
    it, is an error of the source: :py:`misframed` is then set until reset, and the words are
    counted as they come.

    A result is one word, and each one is the last of its packet.

    Members
    -------
    s_axis : :py:`In(axi_stream(width))`
        Images.
    m_axis : :py:`Out(axi_stream(8 * n))`
        Results: the class in the lowest bits, scores above.
    misframed : :py:`Out(1)`
        Whether a ``tlast`` was out of place.

    Attributes
    ----------
    words : int
        Words that make an image.
    index : Signal
        The number, in its image, of the word that comes next.
    """

    def __init__(self, network: wiring.Component, width: int | None = None) -> None:
        self._network = network
        beat = len(network.i.payload)
        self._width = width or 8 * -(-beat // 8)
        if self._width % 8:
            raise ValueError(f"Width must be in whole bytes, not {self._width!r} bits")
        self._words = -(-beat // self._width)
        self.words = self._words * network.beats
        self.index = Signal(range(self.words))
        super().__init__({
            "s_axis": In(axi_stream(self._width)),
            "m_axis": Out(axi_stream(8 * -(-len(Value.cast(network.o.payload)) // 8))),
            "misframed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.network = network = self._network

        source = network.i
        if self._words > 1:
            m.submodules.widen = widen = Widen(self._width, self._words)
            m.d.comb += [
                network.i.payload.eq(widen.o.payload),
                network.i.valid.eq(widen.o.valid),
                widen.o.ready.eq(network.i.ready),
            ]
            source = widen.i
        m.d.comb += [
            source.payload.eq(self.s_axis.tdata),
            source.valid.eq(self.s_axis.tvalid),
            self.s_axis.tready.eq(source.ready),
            self.m_axis.tdata.eq(network.o.payload),
            self.m_axis.tvalid.eq(network.o.valid),
            self.m_axis.tlast.eq(1),
            network.o.ready.eq(self.m_axis.tready),
        ]

        index, words = self.index, self.words
        with m.If(self.s_axis.tvalid & self.s_axis.tready):
            m.d.sync += index.eq(Mux(index == words - 1, 0, index + 1))
            with m.If(self.s_axis.tlast != (index == words - 1)):
                m.d.sync += self.misframed.eq(1)

        return m
