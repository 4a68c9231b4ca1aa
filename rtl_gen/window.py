"""Windows of a map that arrives a pixel at a time, row by row."""

from dataclasses import dataclass

import numpy as np
from amaranth import *
from amaranth.lib.memory import Memory, WritePort
from amaranth.utils import bits_for

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Window
from sbnn_hw.rtl_gen.core import Core

__all__ = ["Scan", "Windows"]

#: Lines up to this long are shift registers in a family that has them in tables.
SHIFTED = {"xc7": 64}

#: Lines up to this long are registers everywhere: a memory would cost more.
SHORT = 8


@dataclass(frozen=True)
class Scan:
    """When the windows of a map are complete, counted in pixels.

    A window is complete with its last pixel, or where that lies beyond the right or lower border,
    at the moment when a pixel there would have come. Windows that hang over the lower border come
    while the next map arrives, or, if none does, by themselves.
    """

    window: Window
    height: int
    width: int

    def __post_init__(self):
        columns, across = self.output[1], self.window.stride[1]
        if (
            self.first >= self.height * self.width
            or self.last - self.first >= self.height * self.width
            or (columns - 1) * across >= self.width
        ):
            raise ModelRejected(
                f"a window of {self.window.kernel[0]}×{self.window.kernel[1]} with padding "
                f"{self.window.padding[0]}, {self.window.padding[1]} on a map of "
                f"{self.height}×{self.width} cannot be streamed at one pixel per clock; use less "
                f"padding or a larger map"
            )

    @property
    def output(self):
        """Windows down and across."""
        return self.window.output(self.height, self.width)

    def _when(self, row, column):
        y = row * self.window.stride[0] - self.window.padding[0] + self.window.kernel[0] - 1
        x = column * self.window.stride[1] - self.window.padding[1] + self.window.kernel[1] - 1
        return y * self.width + x

    @property
    def first(self):
        """The pixel with which the first window is complete."""
        return self._when(0, 0)

    @property
    def last(self):
        """The pixel, perhaps one beyond the map, with which the last window is complete."""
        rows, columns = self.output
        return self._when(rows - 1, columns - 1)

    @property
    def whens(self):
        """For each window the pixel with which it is complete."""
        rows, columns = self.output
        return np.array([[self._when(r, c) for c in range(columns)] for r in range(rows)]).ravel()

    def gap(self, between):
        """Return the fewest cycles between two windows, if pixels are ``between`` cycles apart.

        Beyond the lower border there may be a window in every cycle.
        """
        when = self.whens
        size = self.height * self.width
        # Those that come with a pixel of the map, and those of the next map behind the last one.
        cycles = np.minimum(when, size - 1) * between + np.maximum(when - (size - 1), 0)
        following = (size + when[0] - when[-1]) * between
        return int(min([*np.diff(cycles), following]))

    def times(self, arrivals):
        """Return in which cycle each window is complete, if one map comes by itself."""
        when = self.whens
        inside = np.minimum(when, len(arrivals) - 1)
        return arrivals[inside] + (when - inside)


class Windows(Core):
    """The bits of each window that somebody reads.

    Takes a pixel in every cycle; gives at most one window for each. Windows are given in raster
    order: one cycle after they are complete, or two with padding.

    Parameters
    ----------
    window : Window
        Kernel, stride and padding.
    height, width, bits : int
        The map, and how many bits a pixel has.
    taps : sequence of (int, int)
        For each bit of the output the position in the window, and the bit of the pixel there.
    fill : sequence of int
        For each bit of the output what padding reads as.
    classes : array (rows, columns), optional
        A number for each window, given behind the bits.
    """

    def __init__(self, window, height, width, bits, taps, *, fill=None, classes=None,
                 family="generic"):
        self.scan = Scan(window, height, width)
        self._window, self._height, self._width, self._bits = window, height, width, bits
        self._taps = list(taps)
        self._fill = list(fill) if fill is not None else [0] * len(self._taps)
        self._classes, self._family = classes, family
        self.padded = any(window.padding)
        self.latency = 2 if self.padded else 1
        class_bits = 0 if classes is None else int(classes.max()).bit_length()
        self.tables, self.registers = self._cost(class_bits)
        super().__init__(bits, len(self._taps) + class_bits)

    def times(self, arrivals):
        """Return when outputs are given, for arrivals of one map by itself."""
        return self.scan.times(arrivals) + self.latency

    def gap(self, between):
        """Return the fewest cycles from one window to the next."""
        return self.scan.gap(between)

    def _reach(self):
        """Return how far back each bit is read in each line, lines counted from the newest."""
        rows, columns = self._window.kernel
        reach = [{} for _ in range(rows)]
        for position, bit in self._taps:
            row, column = divmod(position, columns)
            line, back = reach[rows - 1 - row], columns - 1 - column
            line[bit] = max(line.get(bit, 0), back)
        return reach

    def _cost(self, class_bits):
        """Return tables and registers, lines included where they are no memory, control not."""
        reach = self._reach()
        tables = 0
        registers = sum(back for line in reach for back in line.values())
        for line in range(len(reach)):
            wanted = len({bit for further in reach[line:] for bit in further})
            registers += wanted
            if line and self._width <= SHORT:
                registers += wanted * (self._width - 1)
            elif line and self._width <= SHIFTED.get(self._family, 0):
                tables += wanted * -(-(self._width - 1) // 32)
        if self.padded:
            registers += len(self._taps) + class_bits
        return tables, registers

    def elaborate(self, platform):
        m = Module()

        window, width = self._window, self._width
        rows, columns = self.scan.output
        down, across = window.stride

        # Pixels of the map that have come.
        taken = Signal(bits_for(self._height * width - 1))
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
            begin.eq(self.i.valid & (taken == self.scan.first)),
        ]
        with m.If(self.enable):
            m.d.sync += fresh.eq(step)
            with m.If(self.i.valid):
                m.d.sync += taken.eq(Mux(taken == self._height * width - 1, 0, taken + 1))
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
        if not self.padded:
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
                                 in enumerate(zip(self._taps, self._fill, strict=True))
                                 if where == position]
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.eq(held)]

        return m

    def _registers(self, m, step):
        """Return the bits of the window, padding not yet thought of."""
        kernel_rows, kernel_columns = self._window.kernel
        reach = self._reach()
        values = {}
        source = None
        for line in range(kernel_rows):
            wanted = sorted({bit for further in reach[line:] for bit in further})
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
        for position, bit in self._taps:
            row, column = divmod(position, kernel_columns)
            result.append(values[kernel_rows - 1 - row, kernel_columns - 1 - column, bit])
        return result

    def _delay(self, m, line, value, step):
        """Return what a value was a line ago."""
        width = self._width
        if width <= max(SHORT, SHIFTED.get(self._family, 0)):
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
        size = (self._height, self._width)[axis]
        at = np.arange(self.scan.output[axis])[:, None] * self._window.stride[axis]
        at = at - self._window.padding[axis] + np.arange(self._window.kernel[axis])
        return (at >= 0) & (at < size)

    def _outside(self, m, y, x):
        """Return for each position in the window whether it lies outside the map."""
        masks = []
        for axis, at in enumerate((y, x)):
            inside = self._inside(axis)
            stride = self._window.stride[axis]
            mask = Signal(self._window.kernel[axis], name=("row_outside", "column_outside")[axis])
            for position in range(len(mask)):
                ends = np.flatnonzero(~inside[:, position]) * stride
                m.d.comb += mask[position].eq(_any(at == int(end) for end in ends))
            masks.append(mask)
        rows, columns = masks
        outside = []
        for position in range(self._window.size):
            row, column = divmod(position, self._window.kernel[1])
            either = Signal(name=f"outside{position}")
            m.d.comb += either.eq(rows[row] | columns[column])
            outside.append(either)
        return outside

    def _class_code(self, m, y, x):
        """Return the number of the window's class."""
        if self._classes is None:
            return Const(0, 0)
        code = Signal(int(self._classes.max()).bit_length(), name="border")
        kinds = []
        for axis, at in enumerate((y, x)):
            _, first, kind = np.unique(self._inside(axis), axis=0, return_index=True,
                                       return_inverse=True)
            kind = kind.reshape(-1)
            common = int(np.bincount(kind).argmax())
            number = Signal(bits_for(len(first) - 1), name=("row_kind", "column_kind")[axis])
            with m.Switch(at):
                for index in np.flatnonzero(kind != common):
                    with m.Case(int(index) * self._window.stride[axis]):
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
                        m.d.comb += code.eq(int(self._classes[where]))
            with m.Default():
                m.d.comb += code.eq(0)
        return code


def _any(conditions):
    result = Const(0, 1)
    for condition in conditions:
        result = result | condition
    return result
