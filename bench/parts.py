"""Compare what memories and windows are said to take with what Yosys makes of them.

Writes docs/bench/parts.json, which tests compare with today's costs. Takes a few minutes.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from sbnn_hw.cost.memory import SHORT
from sbnn_hw.families import find_fpga_family, fpga_families
from sbnn_hw.files import write_text
from sbnn_hw.netlist import Window
from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.parts.window import Scan, Windows
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.yosys import synthesise

RESULTS = Path(__file__).parents[1] / "docs/bench/parts.json"

#: Kernel, stride and padding, the same in both directions; sides of maps; bits of a pixel.
WINDOWS = ((2, 2, 0), (3, 1, 0), (3, 1, 1), (3, 2, 1), (5, 1, 0), (5, 2, 2))
SIDES, BITS = (8, 14, 16, 28, 32, 56), (4, 24)

#: Words of memories, as far as no shift register takes them, and bits of a word.
WORDS = (9, 16, 28, 32, 64, 65, 128, 224, 256, 512, 1024)
WIDTHS = (1, 3, 8, 16, 24, 36, 64)


class Line(wiring.Component):
    """A memory that gives each word once more, as many steps later as it has words."""

    def __init__(self, words: int, bits: int) -> None:
        self._words, self._bits = words, bits
        super().__init__({"step": In(1), "i": In(bits), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        """Read in front of what is written."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._bits, depth=self._words, init=[])
        write, read = memory.write_port(), memory.read_port()
        at, following = Signal(range(self._words)), Signal(range(self._words))
        m.d.comb += [
            following.eq(Mux(at == self._words - 1, 0, at + 1)),
            *(write.addr.eq(at), write.data.eq(self.i), write.en.eq(self.step)),
            *(read.addr.eq(following), read.en.eq(self.step), self.o.eq(read.data)),
        ]
        with m.If(self.step):
            m.d.sync += at.eq(following)
        return m


def window(family: str, kernel: int, stride: int, padding: int, side: int, bits: int) -> Windows:
    """Return a window that reads every bit."""
    scan = Scan(Window((kernel,) * 2, (stride,) * 2, (padding,) * 2), side, side)
    taps = list(itertools.product(range(kernel**2), range(bits)))
    return Windows(scan, bits, taps, family=find_fpga_family(family))


def components() -> Iterator[tuple[str, list[int], str, wiring.Component]]:
    """Yield the kind of each thing that is measured, its sizes, the family and the component."""
    for family, memory in ((each.name, each.memory) for each in fpga_families()):
        for words, bits in itertools.product(WORDS, WIDTHS):
            if words > max(SHORT, memory.shifted):
                yield "memory", [words, bits], family, Line(words, bits)
        for shape, side, bits in itertools.product(WINDOWS, SIDES, BITS):
            yield (
                *("window", [*shape, side, bits], family),
                core_of(window(family, *shape, side, bits)),
            )


def main() -> None:
    """Measure all, and write the results."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = []
    for kind, sizes, family, component in components():
        counts = synthesise(to_verilog(component), family).counts
        blocks = find_fpga_family(family).memory.count(counts.cells)
        rows.append([kind, family, sizes, counts.luts, counts.flip_flops, blocks])
        print(*rows[-1], flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    note = "rows: kind, family, sizes, then tables, registers and blocks as Yosys counts them"
    write_text(RESULTS, f'{{{json.dumps("what")}: {json.dumps(note)},\n"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
