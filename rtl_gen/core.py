"""Parts of a pipeline: payload and valid move together while ``enable`` is set."""

from dataclasses import dataclass

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.fabric import emit, pair_tables
from sbnn_hw.rtl_gen.heap import FAMILIES
from sbnn_hw.rtl_gen.logic import Logic
from sbnn_hw.rtl_gen.pipeline import cut

__all__ = ["Core", "Tables", "Wired", "flow"]


def flow(width):
    """Return the signature of a stream that cannot wait: payload and valid."""
    return wiring.Signature({"payload": Out(width), "valid": Out(1)})


class Core(wiring.Component):
    """A part of a pipeline.

    It has no ready: whoever chains cores stops them all by lowering :py:`enable`.

    Members
    -------
    enable : :py:`In(1)`
        Whether registers follow in this cycle.
    i : :py:`In(flow(width_in))`
        What comes in; taken in every cycle in which enable and valid are set.
    o : :py:`Out(flow(width_out))`
        What goes out.
    """

    # A core that was weighed against another and left is no oversight.
    _MustUse__silence = True

    #: Cycles from an input to the output that it completes.
    latency: int

    #: Look-up tables and register bits, where they can be told.
    tables: int = 0
    registers: int = 0

    def __init__(self, width_in, width_out):
        super().__init__({
            "enable": In(1),
            "i": In(flow(width_in)),
            "o": Out(flow(width_out)),
        })

    def times(self, arrivals):
        """Return in which cycles outputs are given, for inputs in some cycles."""
        return arrivals + self.latency

    def gap(self, between):
        """Return the fewest cycles from one output to the next, if inputs are so far apart."""
        return between


@dataclass(frozen=True)
class Wired:
    """The literals of a function's outputs, and the connections that were wired for them."""

    outputs: list[int]
    connections: int = 0


class Tables(Core):
    """A function of one vector, as tables in ranks. Takes a vector in every cycle.

    The latency is the number of ranks: the depth in tables divided by ``levels_per_stage``,
    rounded up.

    Parameters
    ----------
    function : callable
        Takes a :class:`Logic` and the literals of the input's bits, returns those of the output's,
        or :class:`Wired`.
    least : int
        The fewest ranks: with one, the output is a register even where nothing is computed.
    """

    def __init__(self, width_in, function, *, family, levels_per_stage, split_pairs=False,
                 least=0):
        self.logic = Logic(width_in)
        made = function(self.logic, [self.logic.input(n) for n in range(width_in)])
        wired = made if isinstance(made, Wired) else Wired(made)
        literals, self.connections = wired.outputs, wired.connections
        self._outputs = self.logic.positive(literals)
        self._ranks = cut(self.logic, self._outputs, levels_per_stage, least)
        self._family, self._split_pairs = family, split_pairs
        self.latency = self._ranks.count
        super().__init__(width_in, len(literals))

    @property
    def tables(self) -> int:
        """Number of look-up tables; a pair is one, unless it is split."""
        nets = [net for net in self._ranks.nets if self.logic.reads[net]]
        if self._split_pairs:
            return len(nets)
        return len(pair_tables(self.logic, nets, self._ranks, FAMILIES[self._family].paired))

    @property
    def registers(self) -> int:
        """Number of register bits, those of the valid chain included."""
        return self._ranks.registers + self.latency

    def elaborate(self, platform):
        m = Module()

        valid = self.i.valid
        for rank in range(1, self.latency + 1):
            held = Signal(name=f"valid{rank}" if rank < self.latency else "o_valid")
            with m.If(self.enable):
                m.d.sync += held.eq(valid)
            valid = held
        payload = emit(m, self.logic, self.i.payload, self._outputs, self._ranks, self.enable,
                       self._family, split_pairs=self._split_pairs)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(payload)]

        return m
