"""Waveforms of a simulation, and the file that shows them in GTKWave in the order of the data."""

from collections.abc import Iterator
from math import log2
from pathlib import Path

from sbnn_hw.design import Design, OutputStream
from sbnn_hw.errors import UsageError
from sbnn_hw.sim.build import WAVEFORMS, Waveform
from sbnn_hw.sim.library import View

__all__ = ["MOST", "SHOWN", "find_waveform", "save_file", "views_of"]

#: Images in a waveform unless told, and at most: every signal is in it, in every cycle.
SHOWN, MOST = 3, 100

# The bench around the design, as Verilator names it.
_BENCH = "TOP.sbnn_bench"

# How GTKWave draws a signal: in binary, hexadecimal, decimal, or decimal with a sign.
_BINARY, _HEXADECIMAL, _DECIMAL, _SIGNED = "@28", "@22", "@24", "@420"
_OPEN, _CLOSE = "@800200", "@1000200"

# Nanoseconds of a cycle in a waveform, cycles of reset before the first, and the parts of the time
# scale that fit into GTKWave's window.
_CYCLE_NS, _RESET, _FRAMES = 10, 2, 4

Row = tuple[str, str, int]  # How a signal is drawn, its path and its bits.


def find_waveform(path: Path) -> Waveform:
    """Return the kind of waveform that a file's name asks for, or say which there are."""
    if path.suffix not in WAVEFORMS:
        raise UsageError(f"Waves must be a file that ends in {' or '.join(WAVEFORMS)}, not {path}")
    return WAVEFORMS[path.suffix]


def views_of(output: OutputStream) -> list[View]:
    """Return the class and the scores, which share the output's word, as signals of their own."""
    width, bits = output.index_bits, output.score_bits
    views = [View("result_class", 0, width, signed=False)]
    if bits:
        views += [
            View(f"score_{number}", width + number * bits, bits, signed=True)
            for number in range(output.classes)
        ]
    return views


def save_file(design: Design, waves: str, cycles: int) -> str:
    """Return what GTKWave shows of a waveform: its signals by stage, for the first ``cycles``.

    ``waves`` is the name of the waveform's file, which lies beside.
    """
    lines = ["[*] Made by sbnn-hw: the streams and stages of the design, in the order of the data."]
    # GTKWave has no way to write these in a name; it then has to be told the file.
    if waves.isprintable() and '"' not in waves and "\\" not in waves:
        lines.append(f'[dumpfile] "{waves}"')
    # The zoom is the binary logarithm of the nanoseconds in a part of the time scale.
    zoom = log2((_RESET + cycles + 1) * _CYCLE_NS / _FRAMES)
    lines += ["[timestart] 0", "[size] 1400 900", f"*{-zoom:.6f} 0", "[signals_width] 320"]
    for title, rows in _groups(design):
        # Some words of a name could end a line and be read as an order.
        name = "".join(c if c.isprintable() else "?" for c in title)
        lines += [_OPEN, f"-{name}"]
        for radix, path, width in rows:
            lines += [radix, f"{_BENCH}.{path}{f'[{width - 1}:0]' if width > 1 else ''}"]
        lines += [_CLOSE, f"-{name}"]
    return "\n".join(lines) + "\n"


def _groups(design: Design) -> Iterator[tuple[str, list[Row]]]:
    yield "clock and reset", [_bit("clk"), _bit("rst")]
    yield "input stream", _stream("i", design.input.width)
    for stage in design.stages:
        if not stage.strobes:
            continue
        rows = [_bit(f"dut.{path}") for path in stage.strobes]
        if stage.payload is not None:
            rows.append(_word(f"dut.{stage.payload}", stage.width))
        yield f"{stage.name} ({stage.kind})", rows
    yield "output stream", _stream("o", design.output.width)
    yield (
        "class and scores" if design.output.score_bits else "class",
        [
            (_SIGNED if view.signed else _DECIMAL, view.name, view.width)
            for view in views_of(design.output)
        ],
    )


def _stream(name: str, width: int) -> list[Row]:
    return [_bit(f"{name}_valid"), _bit(f"{name}_ready"), _word(f"{name}_payload", width)]


def _bit(path: str) -> Row:
    return _BINARY, path, 1


def _word(path: str, width: int) -> Row:
    return (_HEXADECIMAL if width > 1 else _BINARY), path, width
