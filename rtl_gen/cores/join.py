"""Queues, and what waits in them for each other."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from sbnn_hw.rtl_gen.cores.core import Core, builds, flow
from sbnn_hw.rtl_gen.parts.join import Join, overflow_name

__all__ = ["JoinCore", "keep"]


@builds(Join)
class JoinCore(Core):
    """A queue for each input; all are taken from together.

    Members
    -------
    i0, i1, … : :py:`In(flow(width))`
        What comes in, in the place of :py:`i`.
    """

    def __init__(self, part):
        self.part = part
        wiring.Component.__init__(self, {
            "enable": In(1),
            **{f"i{n}": In(flow(width)) for n, width in enumerate(part.widths)},
            "o": Out(flow(part.width_out)),
        })

    @property
    def inputs(self):
        """What comes in."""
        return [getattr(self, f"i{n}") for n in range(len(self.part.widths))]

    def elaborate(self, platform):
        m = Module()

        fire = Signal()
        # Nothing reads them, so that synthesis leaves them out; simulation looks at them.
        overflows = [Signal(name=overflow_name(n)) for n in range(len(self.inputs))]
        heads = [
            keep(m, f"queue{n}", queue, self.enable, source, fire, overflow)
            for n, (queue, source, overflow) in enumerate(
                zip(self.part.queues, self.inputs, overflows, strict=True))
        ]
        m.d.comb += [
            fire.eq(Cat(valid for valid, _ in heads).all()),
            self.o.valid.eq(fire),
            self.o.payload.eq(Cat(value for _, value in heads)),
        ]

        return m


def keep(m, name, queue, enable, source, taken, overflow):
    """Add a queue; return whether it holds a value, and the first, which goes when ``taken``.

    Once a value too many has come, ``overflow`` stays 1.
    """
    valid = Signal(name=f"{name}_valid")
    if not queue.words:
        first = Signal(queue.bits, name=f"{name}_first", reset_less=True)
        with m.If(enable):
            with m.If(source.valid):
                m.d.sync += [first.eq(source.payload), valid.eq(1)]
                with m.If(valid & ~taken):
                    m.d.sync += overflow.eq(1)
            with m.Elif(taken):
                m.d.sync += valid.eq(0)
        return valid, first

    memory = Memory(shape=queue.bits, depth=queue.places, init=[])
    m.submodules[f"{name}_memory"] = memory
    write = memory.write_port()
    read = memory.read_port()
    at = Signal(range(queue.places), name=f"{name}_at")
    level = Signal(range(queue.places), name=f"{name}_level")
    # The first value is what the memory has read; the next is read when that goes. Never is a place
    # read that is being written, and synthesis can see that.
    moves = Signal(name=f"{name}_moves")
    enters = Signal(name=f"{name}_enters")
    m.d.comb += [
        moves.eq(enable & (level != 0) & (~valid | taken)),
        enters.eq(enable & source.valid),
        write.addr.eq(at), write.data.eq(source.payload), write.en.eq(enters),
        read.addr.eq(at - level), read.en.eq(moves),
    ]
    with m.If(moves):
        m.d.sync += valid.eq(1)
    with m.Elif(enable & taken):
        m.d.sync += valid.eq(0)
    with m.If(enters):
        m.d.sync += at.eq(at + 1)
        with m.If(~moves):
            m.d.sync += level.eq(level + 1)
            with m.If(level == queue.words):
                m.d.sync += overflow.eq(1)
    with m.Elif(moves):
        m.d.sync += level.eq(level - 1)
    return valid, read.data
