"""A lane: it follows a neuron's codes, reads what they tap, and adds it up."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from sbnn_hw.engine.shape import bits_for
from sbnn_hw.rtl_gen.engines.store import IN_BLOCKS

__all__ = ["Lane"]


class Lane(wiring.Component):
    """A neuron at a time.

    A slot of a program word comes in; four cycles later what it taps is added.

    Members
    -------
    slot : :py:`In(slot_bits)`
        Its part of the program word.
    heads : :py:`In(1)`
        The slot is a header's.
    loads : :py:`In(1)`
        It is the last one of a group's header: four cycles later the sum begins at its start value.
    codes : :py:`In(1)`
        The slot is a code.
    base, first, negative : :py:`In`
        Where the layer's inputs begin, in the next cycle; and whether it is the first layer, and
        reads complements, three cycles later.
    q : :py:`In(sum_bits)`
        What a group's sum begins with, besides its start value.
    write, address, data : :py:`In`
        What is written to its copy of the activations.
    value_write, value_address, value : :py:`In`
        The same for integers that come in.
    sum, flip : :py:`Out`
        The sum, and whether it fires where that is negative.
    head : :py:`Out`
        Its header.
    taps : :py:`Out(1)`
        A code that was a tap, in the cycle before. Nothing but simulation looks at it.
    """

    def __init__(self, shape):
        self._shape = shape
        self._head_bits = shape.header_words * shape.slot_bits
        words = max(2, shape.activation_words)
        super().__init__({
            "slot": In(shape.slot_bits),
            "heads": In(1), "loads": In(1), "codes": In(1),
            "base": In(range(words)),
            "first": In(1), "negative": In(1),
            "adds": In(1),
            "q": In(shape.sum_bits if shape.counts else 0),
            "write": In(1), "address": In(range(words)), "data": In(shape.lanes),
            **({"value_write": In(1), "value_address": In(bits_for(shape.values) + 1),
                "value": In(shape.value_bits), "value_half": In(1)} if shape.integers else {}),
            "sum": Out(shape.sum_bits),
            "flip": Out(1),
            "head": Out(self._head_bits),
            "taps": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        shape = self._shape
        code = self.slot[: shape.gap_bits]
        with m.If(self.heads):
            m.d.sync += self.head.eq(Cat(self.slot, self.head))
        # A tap is one place further than a step that only moves.
        escape = Signal()
        position = Signal(shape.position_bits, reset_less=True)
        m.d.comb += escape.eq(code.all())
        with m.If(self.codes):
            m.d.sync += position.eq(position + code + ~escape)
        with m.If(self.loads):
            m.d.sync += position.eq(~0)
        m.d.sync += self.taps.eq(self.codes & ~escape)
        inverted = Signal()
        if shape.signed:
            m.d.sync += inverted.eq(self.slot[-1])
        read = self._read(m, position, inverted)
        self._add(m, read)

        return m

    def _read(self, m, position, inverted):
        """Return what a tap adds, three cycles after the position is there."""
        shape = self._shape
        read2 = Signal()
        read3 = Signal()
        m.d.sync += [read2.eq(self.taps), read3.eq(read2)]
        turned = self.negative
        if shape.signed:
            inverted2 = Signal(reset_less=True)
            inverted3 = Signal(reset_less=True)
            m.d.sync += [inverted2.eq(inverted), inverted3.eq(inverted2)]
            turned = turned ^ inverted3
        bits = Signal()
        if shape.activation_words:
            memory = m.submodules.activations = Memory(
                shape=shape.lanes, depth=max(2, shape.activation_words), init=[], attrs=IN_BLOCKS)
            write = memory.write_port()
            read = memory.read_port()
            select = bits_for(shape.lanes)
            word = Signal(shape.lanes, reset_less=True)
            m.d.comb += [
                write.addr.eq(self.address), write.data.eq(self.data), write.en.eq(self.write),
                read.addr.eq(position[select:] | self.base), read.en.eq(1),
            ]
            m.d.sync += word.eq(read.data)
            if select:
                select2 = Signal(select, reset_less=True)
                select3 = Signal(select, reset_less=True)
                m.d.sync += [select2.eq(position[:select]), select3.eq(select2)]
                m.d.comb += bits.eq(word.bit_select(select3, 1))
            else:
                m.d.comb += bits.eq(word)
        if not shape.integers:
            found = Signal()
            m.d.sync += found.eq(read3 & (bits ^ turned))
            return found
        values = m.submodules.values = Memory(
            shape=shape.value_bits, depth=(1 << bits_for(shape.values)) + shape.values, init=[],
            attrs=IN_BLOCKS)
        write = values.write_port()
        read = values.read_port()
        value = Signal(shape.value_bits, reset_less=True)
        found = Signal(shape.value_bits)
        m.d.comb += [
            write.addr.eq(self.value_address), write.data.eq(self.value),
            write.en.eq(self.value_write),
            read.addr.eq(Cat(position[: bits_for(shape.values)], self.value_half)), read.en.eq(1),
        ]
        m.d.sync += value.eq(read.data)
        with m.If(read3):
            # An inverted integer is its complement, bit by bit.
            m.d.sync += found.eq(
                Mux(self.first, value ^ turned.replicate(shape.value_bits), bits ^ turned))
        with m.Else():
            m.d.sync += found.eq(0)
        return found

    def _add(self, m, found):
        """Add up what is read; begin with the header's start value."""
        shape = self._shape
        begins = self.adds
        start = self.head[: shape.sum_bits]
        m.d.sync += self.sum.eq(
            Mux(begins, start, self.sum)
            + Mux(begins, self.q if shape.counts else 0, found << shape.unit))
        with m.If(begins):
            m.d.sync += self.flip.eq(self.head[shape.sum_bits])
