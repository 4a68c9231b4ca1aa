"""The memory of a program: read in order, a word a clock, and loaded byte by byte if it can be."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from sbnn_hw.engine.banks import bank_sizes

__all__ = ["IN_BLOCKS", "LOADING", "Store"]

#: Keeps synthesis from making tables of a memory.
IN_BLOCKS = {"ram_style": "block", "rom_style": "block"}

#: What writes a program.
LOADING = wiring.Signature({
    "reset": Out(1),
    "valid": Out(1),
    "byte": Out(8),
})


class Store(wiring.Component):
    """A program's memory, in banks, with a register behind it.

    Two cycles after ``advance`` was set for an address, its word is there.

    Members
    -------
    restart : :py:`In(1)`
        The next word is the first.
    advance : :py:`In(1)`
        Move on by a word.
    word : :py:`Out(word_bits)`
        The word that was read.
    program : :py:`In(LOADING)`
        A program to write; only where it is loadable. After ``reset``, bytes are those of the first
        word on; ``busy`` is set from ``reset`` until the last word was written.
    """

    def __init__(self, words, shape, family):
        self._words, self._shape = words, shape
        self._banks = bank_sizes(shape.depth, shape.word_bits, family)
        super().__init__({
            "restart": In(1),
            "advance": In(1),
            "word": Out(shape.word_bits),
            **({"program": In(LOADING), "busy": Out(1)} if shape.loadable else {}),
        })

    def elaborate(self, platform):
        m = Module()

        shape = self._shape
        address = Signal(range(shape.depth))
        with m.If(self.restart):
            m.d.sync += address.eq(0)
        with m.Elif(self.advance):
            m.d.sync += address.eq(address + 1)
        ports, begin = [], 0
        for number, size in enumerate(self._banks):
            words = self._words[begin : begin + size]
            memory = Memory(shape=shape.word_bits, depth=size, init=words, attrs=IN_BLOCKS)
            m.submodules[f"bank{number}"] = memory
            read = memory.read_port()
            m.d.comb += [read.addr.eq(address), read.en.eq(self.advance)]
            ports.append((begin, size, memory, read))
            begin += size
        chosen = Signal(range(len(ports)))
        data = ports[0][3].data
        for number, (begin, _, _, read) in enumerate(ports[1:], 1):
            with m.If(self.advance), m.If(address >= begin):
                m.d.sync += chosen.eq(number)
            data = Mux(chosen >= number, read.data, data)
        if len(ports) > 1:
            with m.If(self.advance & (address < ports[1][0])):
                m.d.sync += chosen.eq(0)
        with m.If(self.advance):
            m.d.sync += self.word.eq(data)
        if shape.loadable:
            self._load(m, ports)

        return m

    def _load(self, m, ports):
        """Write words as their bytes come."""
        shape, program = self._shape, self.program
        size = shape.word_bytes
        held = Signal(8 * size, reset_less=True)
        number = Signal(range(size))
        address = Signal(range(shape.depth))
        writes = Signal()
        m.d.sync += writes.eq(0)
        with m.If(program.valid & self.busy):
            m.d.sync += held.eq(Cat(held[8:], program.byte))
            with m.If(number == size - 1):
                m.d.sync += [number.eq(0), writes.eq(1)]
            with m.Else():
                m.d.sync += number.eq(number + 1)
        with m.If(writes):
            m.d.sync += address.eq(address + 1)
            with m.If(address == shape.depth - 1):
                m.d.sync += self.busy.eq(0)
        with m.If(program.reset):
            m.d.sync += [self.busy.eq(1), number.eq(0), address.eq(0), writes.eq(0)]
        for begin, bank, memory, _ in ports:
            write = memory.write_port()
            m.d.comb += [
                write.addr.eq(address), write.data.eq(held),
                write.en.eq(writes & (address >= begin) & (address < begin + bank)),
            ]
