"""Count how often a design's flip-flops and look-up tables change while images go through it.

A toggle is a bit that is not what it was one clock before. Counted are the outputs of all
flip-flops and of all look-up tables that the text instantiates, as they are once they have settled
in a clock: glitches, the clock itself, wires of the input, and logic and memories that are left to
synthesis are not. It is a stand-in for dynamic energy that compares designs of one generator.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from sbnn_hw.design import Design
from sbnn_hw.errors import ToolFailed, UsageError
from sbnn_hw.families import table_cells
from sbnn_hw.sim.build import Progress
from sbnn_hw.sim.library import compile_design, primitives
from sbnn_hw.sim.watchdog import patience
from sbnn_hw.vectors import pack_images

__all__ = ["Signal", "Toggles", "count_toggles", "find_signals", "make_public"]

Kind = Literal["register", "table"]

# A name as Verilog has it: plain, or with a backslash before and a space behind.
_NAME = r"(?:\\\S+ |[A-Za-z_]\w*)"
_MODULE = re.compile(rf"^module ({_NAME}) ?\(.*?^endmodule$", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(rf"^  always @\(posedge clk\)\n    ({_NAME}) ?<= ", re.MULTILINE)
_INSTANCE = re.compile(rf"^  ({_NAME}) ?(?:#\(\n.*?^  \) )?({_NAME}) ?\(\n(.*?)^  \);", re.M | re.S)
_TABLES = {cell.name for cell in table_cells()}
_PINS = "|".join(sorted({pin for cell in table_cells() for pin in cell.outputs}))
_OUTPUT = re.compile(rf"^    \.(?:{_PINS})\(({_NAME}) ?(?:\[(\d+)\])?\)", re.MULTILINE)
_DECLARED = r"^  (?:reg|wire) (?:signed )?(?:\[(\d+):0\] )?{name} ?(?=[;=])"


@dataclass(frozen=True)
class Signal:
    """Bits of a signal whose toggles count, by its path below the top module."""

    path: str
    kind: Kind
    bits: tuple[int, ...]


@dataclass(frozen=True)
class Toggles:
    """What changed while images went through a design, one behind the other."""

    # How many images, and the clocks from reset to the last result.
    images: int
    cycles: int
    # Toggles in all of flip-flops' outputs, and of tables' outputs.
    registers: int
    tables: int
    # How many bits were looked at.
    register_bits: int
    table_bits: int

    @property
    def each(self) -> float:
        """Toggles for each image."""
        return (self.registers + self.tables) / self.images


def _modules(verilog: str) -> dict[str, str]:
    return {_plain(found[1]): found[0] for found in _MODULE.finditer(verilog)}


def _plain(name: str) -> str:
    return name.removeprefix("\\").rstrip(" ")


def _counted(text: str) -> dict[str, tuple[Kind, tuple[int, ...]]]:
    """Return the signals of one module that count, and which of their bits."""
    found: dict[str, tuple[Kind, tuple[int, ...]]] = {}
    for match in _REGISTER.finditer(text):
        name = match[1]
        declared = _declaration(name).search(text)
        # Without a declaration of its own it is a word of a memory.
        if declared is not None:
            found[name] = ("register", tuple(range(int(declared[1] or 0) + 1)))
    for match in _INSTANCE.finditer(text):
        if _plain(match[1]) in _TABLES:
            for output in _OUTPUT.finditer(match[3]):
                name, bit = output[1], output[2]
                _, bits = found.get(name, ("table", ()))
                found[name] = ("table", (*bits, int(bit or 0)))
    return found


def _declaration(name: str) -> re.Pattern[str]:
    return re.compile(_DECLARED.format(name=re.escape(name)), re.MULTILINE)


def find_signals(verilog: str, top: str = "top") -> list[Signal]:
    """Return every flip-flop and every output of a table in generated text."""
    modules = _modules(verilog)

    def walk(name: str, path: str) -> Iterator[Signal]:
        text = modules[name]
        for signal, (kind, bits) in _counted(text).items():
            yield Signal(path + _plain(signal), kind, bits)
        for match in _INSTANCE.finditer(text):
            if (below := _plain(match[1])) in modules:
                yield from walk(below, f"{path}{_plain(match[2])}.")

    if top not in modules:
        raise UsageError(f"There is no module {top} in the Verilog; generate the design again")
    return list(walk(top, ""))


def make_public(verilog: str) -> str:
    """Return text whose counted signals a simulation can look at."""
    parts = []
    end = 0
    for match in _MODULE.finditer(verilog):
        counted = _counted(match[0])

        def mark(declared: re.Match[str], counted: dict[str, Any] = counted) -> str:
            public = " /*verilator public_flat_rd*/" if declared[1] in counted else ""
            return f"{declared[0]}{public}"

        pattern = rf"^  (?:reg|wire) (?:signed )?(?:\[\d+:0\] )?({_NAME})(?= ?[;=])"
        parts += [verilog[end : match.start()], re.sub(pattern, mark, match[0], flags=re.M)]
        end = match.end()
    return "".join([*parts, verilog[end:]])


def count_toggles(
    verilog: str, design: Design, pixels: npt.NDArray[Any], *, progress: Progress | None = None
) -> Toggles:
    """Send images through a design, one behind the other, and count its toggles.

    Counting starts from the state that reset leaves, so that the first image counts too, and ends
    with the last result. Which images follow each other matters. ``progress`` takes a few words
    whenever something that takes long starts.
    """
    if not len(pixels):
        raise UsageError("There must be one image or more to simulate")
    signals = find_signals(verilog)
    beats = pack_images(pixels, design.input)
    library = compile_design(
        {"primitives.v": primitives(), "top.v": make_public(verilog)},
        in_width=design.input.width,
        out_width=design.output.width,
        vectors=len(beats),
        watch=True,
        progress=progress,
    )
    trace = library.run(beats, expect=len(pixels), limit=patience(design.to_dict()))
    if not trace.complete:
        raise ToolFailed(
            f"The design gave {len(trace.outputs):,} of {len(pixels):,} results while its toggles "
            "were counted; simulate it with `sbnn-hw simulate`"
        )
    totals = {"register": 0, "table": 0}
    bits = {"register": 0, "table": 0}
    for signal in signals:
        if signal.path not in trace.changes:
            raise ToolFailed(f"Verilator shows no signal {signal.path} of the design")
        totals[signal.kind] += int(trace.changes[signal.path][list(signal.bits)].sum())
        bits[signal.kind] += len(signal.bits)
    return Toggles(
        images=len(pixels),
        cycles=trace.cycles,
        registers=totals["register"],
        tables=totals["table"],
        register_bits=bits["register"],
        table_bits=bits["table"],
    )
