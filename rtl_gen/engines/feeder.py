"""What takes the values of an image, compares them with thresholds, and writes them as words."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw.engine.shape import bits_for

__all__ = ["Feeder"]


class Feeder(wiring.Component):
    """Values of images, into two halves of a memory in turn.

    A value's bits take a cycle each, or two cycles if there is but one lane: a lane's word must be
    able to wait while a result is written.

    Members
    -------
    i : :py:`In(stream.Signature(value_bits))`
        Values.
    half : :py:`Out(1)`
        The half that is written.
    full : :py:`In(2)`
        Halves that are not to be written.
    filled : :py:`Out(2)`
        A half that is full from now on.
    busy : :py:`In(1)`
        The memory is written by another: a word waits.
    write, address, data : :py:`Out`
        What is written, within a half.
    count, closes : :py:`Out`
        The sum of the inputs of a half, and which half's it is when all of them are in it; only
        where they are counted.
    """

    def __init__(self, shape):
        self._shape = shape
        self.lanes = 1 if shape.integers else shape.lanes
        self.words = -(-shape.inputs // self.lanes)
        counted = shape.layers[0].counts
        super().__init__({
            "i": In(stream.Signature(shape.value_bits)),
            "half": Out(1),
            "full": In(2),
            "filled": Out(2),
            "busy": In(1),
            "write": Out(1),
            "write_half": Out(1),
            "address": Out(range(self.words)),
            "data": Out(shape.value_bits if shape.integers else self.lanes),
            **({"count": Out(shape.q_bits), "closes": Out(2)} if counted else {}),
        })

    def elaborate(self, platform):
        m = Module()

        shape, lanes = self._shape, self.lanes
        slow = lanes == 1 and not shape.integers
        steps = shape.planes
        # Where we are: the half, the input in it, the plane of a value, and its channel.
        position = Signal(range(self.words * lanes))
        last = Signal()
        open_ = Signal()
        takes = Signal()
        m.d.comb += [
            last.eq(position == self.words * lanes - 1),
            open_.eq(~self.full.bit_select(self.half, 1)),
        ]
        if slow:
            second = Signal()
            with m.If(open_ & self.i.valid):
                m.d.sync += second.eq(~second)
            open_ = open_ & second
        pads = Const(0)
        if shape.inputs % lanes:
            # The rest of the last word holds nothing.
            pads = Signal()
            m.d.comb += pads.eq(position >= shape.inputs)
        m.d.comb += takes.eq(open_ & (self.i.valid | pads))
        plane = Const(0)
        if steps > 1:
            plane = Signal(range(steps))
        ends = plane == steps - 1 if steps > 1 else Const(1)
        m.d.comb += self.i.ready.eq(open_ & ends & ~pads)
        if steps > 1:
            with m.If(takes & ~pads):
                m.d.sync += plane.eq(Mux(ends, 0, plane + 1))
        with m.If(takes):
            m.d.sync += position.eq(Mux(last, 0, position + 1))
            with m.If(last):
                m.d.sync += self.half.eq(~self.half)
        value = self._value(m, plane, takes & ends & ~pads)
        self._count(m, position, takes, last, Mux(pads, 0, value))
        if shape.integers:
            m.d.comb += [
                self.write.eq(takes), self.write_half.eq(self.half), self.data.eq(value),
                self.address.eq(position),
            ]
            m.d.comb += self.filled.eq(Mux(takes & last, 1 << self.half, 0))
        else:
            self._pack(m, position, takes, last, value & ~pads)

        return m

    def _value(self, m, plane, moves):
        """Return what the first layer reads of the value that is there."""
        shape, payload = self._shape, self.i.payload
        if not shape.thresholds:
            return payload
        channels = len(shape.thresholds)
        table = [
            (threshold, flip)
            for own, flips in zip(shape.thresholds, shape.flips, strict=True)
            for threshold, flip in zip(own, flips, strict=True)
        ]
        bits = Signal(len(shape.thresholds[0]))
        found = Signal()
        if len(set(shape.thresholds)) == len(set(shape.flips)) == 1:
            # A comparison with constants for each plane.
            for n, (threshold, flip) in enumerate(table[: shape.planes]):
                m.d.comb += bits[n].eq((payload >= threshold) ^ flip)
            m.d.comb += found.eq(bits.bit_select(plane, 1) if shape.planes > 1 else bits)
            return found
        # Else a table of thresholds, by channel and plane.
        number = Signal(range(len(table)))
        channel = Signal(range(channels))
        if shape.planes == 1:
            m.d.comb += number.eq(channel)
        else:
            m.d.comb += number.eq(channel * shape.planes + plane)
        if channels > 1:
            with m.If(moves):
                m.d.sync += channel.eq(Mux(channel == channels - 1, 0, channel + 1))
        threshold = Signal(shape.value_bits + 1)
        flip = Signal()
        with m.Switch(number):
            for n, (own, flipped) in enumerate(table):
                with m.Case(n):
                    m.d.comb += [threshold.eq(own), flip.eq(flipped)]
        m.d.comb += found.eq((payload >= threshold) ^ flip)
        return found

    def _count(self, m, position, takes, last, value):
        """Add up inputs, but those that do not count."""
        shape = self._shape
        if not shape.layers[0].counts:
            return
        counted = Signal(shape.value_bits if shape.integers else 1)
        m.d.comb += counted.eq(value)
        if shape.fixed:
            with m.Switch(position), m.Case(*shape.fixed):
                m.d.comb += counted.eq(0)
        total = Signal(shape.q_bits)
        m.d.comb += [
            self.count.eq(total + counted),
            self.closes.eq(Mux(takes & last, 1 << self.half, 0)),
        ]
        with m.If(takes):
            m.d.sync += total.eq(Mux(last, 0, self.count))

    def _pack(self, m, position, takes, last, bit):
        """Make words of bits; a word waits while another is written."""
        lanes = self.lanes
        packed = Signal(lanes, reset_less=True)
        complete = Signal()
        held = Signal(lanes, reset_less=True)
        waits = Signal()
        address = Signal(range(self.words), reset_less=True)
        ends = Signal(reset_less=True)
        half = Signal(reset_less=True)
        place = position[: bits_for(lanes)]
        if lanes > 1:
            m.d.comb += complete.eq(takes & (place == lanes - 1))
            with m.If(takes):
                m.d.sync += packed.bit_select(place, 1).eq(bit)
        else:
            m.d.comb += complete.eq(takes)
        m.d.comb += [
            self.write.eq(waits & ~self.busy), self.write_half.eq(half),
            self.address.eq(address), self.data.eq(held),
            self.filled.eq(Mux(self.write & ends, 1 << half, 0)),
        ]
        with m.If(complete):
            m.d.sync += [
                held.eq(Cat(packed[: lanes - 1], bit)), waits.eq(1), ends.eq(last),
                address.eq(position[bits_for(lanes) :]), half.eq(self.half),
            ]
        with m.Elif(self.write):
            m.d.sync += waits.eq(0)
