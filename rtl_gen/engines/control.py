"""What an engine of gap codes does in each cycle."""

from amaranth import *
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.engine.schedule import DRAIN, FILL, settling, waiting

__all__ = ["Control"]


class _State(enum.Enum):
    FILL = 0  # The program's first words are read.
    READY = 1  # Wait for an image.
    FREE = 2  # Wait until the result before was taken.
    FACTOR = 3  # Read Ξ.
    DRAIN = 4  # Wait until all inputs of a layer have been counted.
    MULTIPLY = 5  # Multiply their number by Ξ, bit by bit.
    HEAD = 6  # Read a group's header.
    FIRST = 7  # Its first codes, and how many there are.
    CODES = 8  # All others.
    WAIT = 9  # Until results can be read, or scores have been ranked.


class Control(wiring.Component):
    """The program's course: layers, groups, headers and codes.

    Members
    -------
    count : :py:`In(count_bits)`
        Code words of a group, less two; looked at with its first.
    full : :py:`In(1)`
        There is an image to begin with.
    taken : :py:`In(1)`
        The result was taken.
    advance, restart : :py:`Out(1)`
        Read the program's next word; begin again with its first.
    heads, loads, codes, ends, layer_ends : :py:`Out(1)`
        The word is a header's, the last of a group's header, a code word, the last of its group;
        and the group is the last one of its layer.
    frees : :py:`Out(1)`
        All inputs have been read.
    layer, group : :py:`Out`
        Whose turn it is.
    clears, counts, multiplies : :py:`Out(1)`
        Forget the product before; take the number of the image's inputs; multiply by a bit.
    """

    def __init__(self, shape):
        self._shape = shape
        super().__init__({
            "count": In(shape.spare_bits * shape.lanes),
            "full": In(1), "taken": In(1),
            "advance": Out(1), "restart": Out(1),
            "heads": Out(1), "loads": Out(1), "codes": Out(1), "ends": Out(1),
            "layer_ends": Out(1), "frees": Out(1),
            "layer": Out(range(max(2, len(shape.layers)))),
            "group": Out(range(max(2, *(layer.groups for layer in shape.layers)))),
            "clears": Out(1), "counts": Out(1), "multiplies": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        shape, last = self._shape, len(self._shape.layers) - 1
        heads = shape.header_words
        state = Signal(_State)
        longest = max(FILL, DRAIN, shape.q_bits, heads, settling(shape), waiting(shape))
        pause = Signal(range(max(2, longest)), init=FILL - 1)
        left = Signal(len(self.count), reset_less=True)
        busy = Signal()
        over = Signal()
        m.d.comb += over.eq(pause == 0)
        with m.If(~over):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.taken):
            m.d.sync += busy.eq(0)

        def go(to, cycles=1):
            m.d.sync += [state.eq(to), pause.eq(cycles - 1)]

        def begin(number):
            """Begin a layer."""
            if number == last:
                go(_State.FREE)
            elif shape.layers[number].counts:
                go(_State.FACTOR, heads)
            else:
                go(_State.HEAD, heads)

        with m.Switch(state):
            with m.Case(_State.FILL):
                m.d.comb += self.advance.eq(1)
                with m.If(over):
                    go(_State.READY)
            with m.Case(_State.READY), m.If(self.full):
                begin(0)
            with m.Case(_State.FREE), m.If(~busy):
                m.d.sync += busy.eq(1)
                go(_State.HEAD, heads)
            if shape.counts:
                with m.Case(_State.FACTOR):
                    m.d.comb += [self.advance.eq(1), self.heads.eq(1), self.clears.eq(1)]
                    with m.If(over):
                        go(_State.DRAIN, DRAIN)
                with m.Case(_State.DRAIN):
                    m.d.comb += self.counts.eq(self.layer == 0)
                    with m.If(over):
                        go(_State.MULTIPLY, shape.q_bits)
                with m.Case(_State.MULTIPLY):
                    m.d.comb += self.multiplies.eq(1)
                    with m.If(over):
                        go(_State.HEAD, heads)
            with m.Case(_State.HEAD):
                m.d.comb += [self.advance.eq(1), self.heads.eq(1), self.loads.eq(over)]
                if shape.counts:
                    plain = [n for n, layer in enumerate(shape.layers) if not layer.counts]
                    with m.Switch(self.layer), m.Case(*plain):
                        m.d.comb += self.clears.eq(1)
                with m.If(over):
                    go(_State.FIRST)
            with m.Case(_State.FIRST):
                m.d.comb += [self.advance.eq(1), self.codes.eq(1)]
                m.d.sync += left.eq(self.count)
                go(_State.CODES)
            with m.Case(_State.CODES):
                m.d.comb += [self.advance.eq(1), self.codes.eq(1), self.ends.eq(left == 0)]
                m.d.sync += left.eq(left - 1)
                with m.If(self.ends):
                    self._end(m, go, begin)
            with m.Case(_State.WAIT), m.If(over):
                self._go_on(m, go, begin)
        m.d.sync += self.frees.eq(self.ends & self.layer_ends & (self.layer == 0))

        return m

    def _end(self, m, go, begin):
        """Go on to the next group, the next layer, or the next image."""
        shape, last = self._shape, len(self._shape.layers) - 1
        with m.Switch(self.layer):
            for n, layer in enumerate(shape.layers):
                with m.Case(n):
                    m.d.comb += self.layer_ends.eq(self.group == layer.groups - 1)
        m.d.sync += self.group.eq(Mux(self.layer_ends, 0, self.group + 1))
        with m.If(self.layer_ends):
            m.d.sync += self.layer.eq(Mux(self.layer == last, 0, self.layer + 1))
        with m.If(self.layer == last):
            m.d.comb += self.restart.eq(self.layer_ends)
            if waiting(shape):
                go(_State.WAIT, waiting(shape))
            else:
                with m.If(self.layer_ends):
                    go(_State.FILL, FILL)
                with m.Else():
                    go(_State.HEAD, shape.header_words)
        with m.Elif(self.layer_ends):
            if settling(shape):
                go(_State.WAIT, settling(shape))
            else:
                with m.Switch(self.layer):
                    for n in range(last):
                        with m.Case(n):
                            begin(n + 1)
        with m.Else():
            go(_State.HEAD, shape.header_words)

    def _go_on(self, m, go, begin):
        """Go on behind a wait: layer and group are those that come."""
        shape, last = self._shape, len(self._shape.layers) - 1
        with m.Switch(self.layer):
            for n in range(last + 1):
                with m.Case(n):
                    if not n:
                        # Nothing waits in front of the first layer but an image's end, or of
                        # scores that are the only layer.
                        if last:
                            go(_State.FILL, FILL)
                        else:
                            with m.If(self.group == 0):
                                go(_State.FILL, FILL)
                            with m.Else():
                                go(_State.HEAD, shape.header_words)
                    else:
                        with m.If(self.group == 0):
                            begin(n)
                        with m.Else():
                            go(_State.HEAD, shape.header_words)
