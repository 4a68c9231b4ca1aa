"""Windows of a map that arrives a pixel at a time, row by row."""

import numpy as np
from amaranth import *
from amaranth.lib.memory import Memory, WritePort
from amaranth.utils import bits_for

from sbnn_hw.rtl_gen.cores.core import Core, builds
from sbnn_hw.rtl_gen.parts.window import Windows

__all__ = ["WindowsCore"]


@builds(Windows)
class WindowsCore(Core):
    """Lines of the map, and the registers of a window that moves along them."""

    def elaborate(self, platform):
        m = Module()

        scan = self.part.scan
        width, size = scan.width, scan.height * scan.width
        rows, columns = scan.output
        down, across = scan.window.stride

        # Pixels of the map that have come.
        taken = Signal(bits_for(size - 1))
        # Where the window is, in pixels from the first one, while there is one.
        active = Signal()
        y = Signal(bits_for((rows - 1) * down))
        x = Signal(bits_for(width - 1))
        # Windows over the lower border come by themselves while no next map has begun.
        step = Signal()
        begin = Signal()
        fresh = Signal()
        m.d.comb += [
            step.eq(self.i.valid | (active & (taken == 0))),
            begin.eq(self.i.valid & (taken == scan.first)),
        ]
        with m.If(self.enable):
            m.d.sync += fresh.eq(step)
            with m.If(self.i.valid):
                m.d.sync += taken.eq(Mux(taken == size - 1, 0, taken + 1))
            with m.If(begin):
                m.d.sync += [active.eq(1), x.eq(0), y.eq(0)]
            with m.Elif(step):
                m.d.sync += x.eq(Mux(x == width - 1, 0, x + 1))
                with m.If(x == width - 1):
                    m.d.sync += y.eq(y + 1)
                with m.If((y == (rows - 1) * down) & (x == (columns - 1) * across)):
                    m.d.sync += active.eq(0)

        # The windows that count, when strides leave some out.
        counts = active & fresh
        if (columns - 1) * across < width - 1:
            counts &= x <= (columns - 1) * across
        end_of_row = x == width - 1
        for name, stride, moves, returns in (
            ("row",    down,   end_of_row,  begin),
            ("column", across, Const(1, 1), begin | end_of_row),
        ):
            if stride > 1:
                phase = Signal(range(stride), name=f"{name}_phase")
                with m.If(self.enable & step):
                    with m.If(returns):
                        m.d.sync += phase.eq(0)
                    with m.Elif(moves):
                        m.d.sync += phase.eq(Mux(phase == stride - 1, 0, phase + 1))
                counts &= phase == 0
        complete = Signal()
        m.d.comb += complete.eq(counts)

        bits = self._registers(m, self.enable & step)
        code = self._class_code(m, y, x)
        if not self.part.padded:
            m.d.comb += [self.o.valid.eq(complete), self.o.payload.eq(Cat(*bits, code))]
            return m

        outside = self._outside(m, y, x)
        held = Signal(len(self.o.payload), name="o_payload", reset_less=True)
        valid = Signal(name="o_valid")
        with m.If(self.enable):
            m.d.sync += [valid.eq(complete), held.eq(Cat(*bits, code))]
            # The registers' own set or reset does it: no table is spent.
            for position, inside in enumerate(outside):
                with m.If(inside):
                    m.d.sync += [held[number].eq(fill) for number, ((where, _), fill)
                                 in enumerate(zip(self.part.taps, self.part.fill, strict=True))
                                 if where == position]
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(held)]

        return m

    def _registers(self, m, step):
        """Return the bits of the window, padding not yet thought of."""
        kernel_rows, kernel_columns = self.part.scan.window.kernel
        reach = self.part.reach
        values = {}
        source = None
        for line in range(kernel_rows):
            wanted = self.part.kept(line)
            if not wanted:
                break
            if line == 0:
                newest = Signal(len(wanted), name="line0", reset_less=True)
                with m.If(step):
                    m.d.sync += newest.eq(Cat(self.i.payload[bit] for bit in wanted))
            else:
                newest = self._delay(m, line, Cat(source[bit] for bit in wanted), step)
            source = before = dict(zip(wanted, newest, strict=True))
            values.update({(line, 0, bit): value for bit, value in source.items()})
            for back in range(1, max(reach[line].values(), default=0) + 1):
                further = sorted(bit for bit, most in reach[line].items() if most >= back)
                held = Signal(len(further), name=f"line{line}_{back}", reset_less=True)
                with m.If(step):
                    m.d.sync += held.eq(Cat(before[bit] for bit in further))
                before = dict(zip(further, held, strict=True))
                values.update({(line, back, bit): value for bit, value in before.items()})
        result = []
        for position, bit in self.part.taps:
            row, column = divmod(position, kernel_columns)
            result.append(values[kernel_rows - 1 - row, kernel_columns - 1 - column, bit])
        return result

    def _delay(self, m, line, value, step):
        """Return what a value was a line ago."""
        width = self.part.scan.width
        if self.part.shifted:
            for number in range(width):
                held = Signal(len(value), name=f"line{line}_d{number}", reset_less=True)
                with m.If(step):
                    m.d.sync += held.eq(value)
                value = held
            return value
        memory = Memory(shape=len(value), depth=width, init=[])
        m.submodules[f"line{line}"] = memory
        # Place and route depends on names, and the published clocks were found with these.
        kind = WritePort.Signature(addr_width=bits_for(width - 1), shape=len(value))
        write = WritePort(kind, memory=memory, domain="sync", path=("$signature",))
        read = memory.read_port()
        at = Signal(range(width), name=f"line{line}_at")
        following = Signal(range(width), name=f"line{line}_next")
        # What is read was written a line ago, and is written over in the next step.
        m.d.comb += [
            following.eq(Mux(at == width - 1, 0, at + 1)),
            write.addr.eq(at), write.data.eq(value), write.en.eq(step),
            read.addr.eq(following), read.en.eq(step),
        ]
        with m.If(step):
            m.d.sync += at.eq(following)
        return read.data

    def _inside(self, axis):
        """Return for each window along an axis which of its positions lie inside the map."""
        scan, window = self.part.scan, self.part.scan.window
        size = (scan.height, scan.width)[axis]
        at = np.arange(scan.output[axis])[:, None] * window.stride[axis]
        at = at - window.padding[axis] + np.arange(window.kernel[axis])
        return (at >= 0) & (at < size)

    def _outside(self, m, y, x):
        """Return for each position in the window whether it lies outside the map."""
        window, masks = self.part.scan.window, []
        for axis, at in enumerate((y, x)):
            inside = self._inside(axis)
            stride = window.stride[axis]
            mask = Signal(window.kernel[axis], name=("row_outside", "column_outside")[axis])
            for position in range(len(mask)):
                ends = np.flatnonzero(~inside[:, position]) * stride
                m.d.comb += mask[position].eq(_any(at == int(end) for end in ends))
            masks.append(mask)
        rows, columns = masks
        outside = []
        for position in range(window.size):
            row, column = divmod(position, window.kernel[1])
            either = Signal(name=f"outside{position}")
            m.d.comb += either.eq(rows[row] | columns[column])
            outside.append(either)
        return outside

    def _class_code(self, m, y, x):
        """Return the number of the window's class."""
        window, classes = self.part.scan.window, self.part.classes
        if classes is None:
            return Const(0, 0)
        code = Signal(self.part.class_bits, name="border")
        kinds = []
        for axis, at in enumerate((y, x)):
            _, first, kind = np.unique(self._inside(axis), axis=0, return_index=True,
                                       return_inverse=True)
            kind = kind.reshape(-1)
            common = int(np.bincount(kind).argmax())
            number = Signal(bits_for(len(first) - 1), name=("row_kind", "column_kind")[axis])
            with m.Switch(at):
                for index in np.flatnonzero(kind != common):
                    with m.Case(int(index) * window.stride[axis]):
                        m.d.comb += number.eq(int(kind[index]))
                with m.Default():
                    m.d.comb += number.eq(common)
            kinds.append((number, kind))
        (row_kind, of_row), (column_kind, of_column) = kinds
        with m.Switch(Cat(row_kind, column_kind)):
            for row in np.unique(of_row):
                for column in np.unique(of_column):
                    where = np.flatnonzero(of_row == row)[0], np.flatnonzero(of_column == column)[0]
                    with m.Case(int(row) | int(column) << len(row_kind)):
                        m.d.comb += code.eq(int(classes[where]))
            with m.Default():
                m.d.comb += code.eq(0)
        return code


def _any(conditions):
    result = Const(0, 1)
    for condition in conditions:
        result = result | condition
    return result
