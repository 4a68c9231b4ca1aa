"""A board without the board: its shell, Verilated, at the other end of a serial line."""

import ctypes
import time
from collections.abc import Mapping
from pathlib import Path

from sbnn_hw.design import Design
from sbnn_hw.errors import Disagreement, ToolFailed
from sbnn_hw.sim.build import Progress, compile_once
from sbnn_hw.sim.library import (
    Calls,
    Probe,
    declare_probes,
    open_library,
    quiet_about,
    resource,
    show_probes,
)
from sbnn_hw.sim.watchdog import explain, patience

__all__ = ["Line", "LinePort", "compile_line"]

#: Cycles in one go: enough that Python takes no time, few enough that bytes come back soon.
GO = 2_000

_BENCH = """\
module sbnn_bench (
  input clk,
  input next_rst,
  input next_rx,
  output tx,
  output [{leds}-1:0] leds
);
  reg rst = 1'b1;
  reg rx = 1'b1;
  always @(posedge clk) begin
    rst <= next_rst;
    rx <= next_rx;
  end
  shell dut (
    .clk(clk),
    .rst(rst),
    .rx(rx),
    .tx(tx),
    .leds(leds)
  );
endmodule
"""

_HEADER = '#include "Vdesign.h"\n#define DIVISOR {divisor}\n'

# The scope of the network in a board.
_NETWORK = "TOP.sbnn_bench.dut.core"


class _Talk(ctypes.Structure):
    # The same, in the same order, as in line.cpp.
    _fields_ = (
        ("sent", ctypes.c_char_p),
        ("sent_count", ctypes.c_uint64),
        ("heard", ctypes.c_void_p),
        ("heard_room", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("noise", ctypes.c_double),
        ("taken", ctypes.c_uint64),
        ("given", ctypes.c_uint64),
        ("broken", ctypes.c_uint64),
    )


_HANDLE = ctypes.c_void_p

# Of line.cpp.
_CALLS: Calls = {
    "line_create": (_HANDLE, [ctypes.c_uint64]),
    "line_destroy": (None, [_HANDLE]),
    "line_error": (ctypes.c_char_p, [_HANDLE]),
    "line_lights": (ctypes.c_uint, [_HANDLE]),
    "line_count": (ctypes.c_uint64, [_HANDLE, ctypes.c_uint64]),
    "line_waits": (ctypes.c_int, [_HANDLE, ctypes.c_uint64]),
    "line_run": (None, [_HANDLE, ctypes.POINTER(_Talk)]),
}


def _probes(design: Design) -> tuple[Probe, ...]:
    """Return what goes into the network and comes out of it, and what its stages hand on.

    Last comes what makes the network forget all images, if it can be loaded.
    """
    ends = tuple(Probe(f" {name}", (f"{name}__valid", f"{name}__ready")) for name in "io")
    stages = (Probe(stage.name, stage.strobes) for stage in design.stages if stage.strobes)
    resets = (Probe(" reset", ("program__reset",)),) if design.program else ()
    return (*ends, *stages, *resets)


class Line:
    """A simulated board, from reset on.

    A bit takes ``divisor`` clocks. Each bit on the line, in either direction, is turned round with
    the probability ``noise``; ``seed`` chooses which. A network that gives no result for so long
    that it has stopped is told in a sentence, an error of :meth:`run`.
    """

    def __init__(
        self, path: Path, design: Design, *, divisor: int, noise: float = 0.0, seed: int = 0
    ) -> None:
        if not 0 <= noise <= 1:
            raise ValueError(f"Noise must be between 0 and 1, not {noise!r}")
        self.divisor, self.noise = divisor, noise
        #: Cycles simulated, and bytes that came without a stop bit.
        self.cycles = self.broken = 0
        self._calls = open_library(path, _CALLS)
        self._handle: int = self._calls.line_create(seed)
        self._design, self._probes = design.to_dict(), _probes(design)
        # What went into the network and came out of it, and the last cycle in which that changed.
        self._moved, self._moved_at = (0, 0), 0
        # Cycles in which it was reset, and what had gone in and come out by then.
        self._resets, self._forgotten = 0, (0, 0)

    def close(self) -> None:
        """End the simulation."""
        if self._handle:
            self._calls.line_destroy(self._handle)
            self._handle = 0

    @property
    def lights(self) -> int:
        """The board's lights, the first in the lowest bit."""
        return int(self._calls.line_lights(self._handle))

    def run(self, sent: bytes, cycles: int) -> tuple[int, bytes]:
        """Simulate some cycles; return how many bytes went on the line, and those that came.

        Bytes go as fast as the line takes them, and it stays quiet once they are through.
        """
        heard = ctypes.create_string_buffer(cycles // (10 * self.divisor) + 2)
        talk = _Talk(
            sent=sent,
            sent_count=len(sent),
            heard=ctypes.addressof(heard),
            heard_room=len(heard),
            cycles=cycles,
            noise=self.noise,
        )
        self._calls.line_run(self._handle, ctypes.byref(talk))
        if error := self._calls.line_error(self._handle).decode(errors="replace"):
            raise ToolFailed(f"Verilator stopped the simulation: {error}")
        self.cycles += cycles
        self.broken += talk.broken
        self._watch()
        return talk.taken, heard.raw[: talk.given]

    def _watch(self) -> None:
        """Raise an error if the network owes a result and nothing has moved for too long."""
        taken, given = (self._calls.line_count(self._handle, n) for n in range(2))
        if self._design["program"] is not None:
            resets = self._calls.line_count(self._handle, len(self._probes) - 1)
            if resets != self._resets:
                self._resets, self._forgotten = resets, (taken, given)
        if (taken, given) != self._moved:
            self._moved, self._moved_at = (taken, given), self.cycles
            return
        taken, given = taken - self._forgotten[0], given - self._forgotten[1]
        whole, more = divmod(taken, self._design["input"]["beats"])
        # A result may have to wait for the rest of an image that has begun.
        owed = whole - bool(more) > given
        silent = self.cycles - self._moved_at
        if not owed or silent < patience(self._design) or self._calls.line_waits(self._handle, 1):
            return
        counts, waiting = {}, set()
        for number, probe in enumerate(self._probes[2:], 2):
            if probe.name == " reset":
                continue
            counts[probe.name] = self._calls.line_count(self._handle, number)
            if self._calls.line_waits(self._handle, number):
                waiting.add(probe.name)
        reason = explain(self._design, taken, given, counts, waiting)
        raise Disagreement(
            f"The simulated network has stopped: nothing moved for {silent:,} cycles when {reason}"
        )


class LinePort:
    """A port, as a host's driver wants one, at whose other end is a simulated board.

    Simulated time passes while the host waits for bytes, and only then.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._sent, self._heard = bytearray(), bytearray()
        #: Seconds that :meth:`read` waits; none at all if there is no number.
        self.timeout: float | None = None

    def read(self, size: int = 1) -> bytes:
        """Return up to ``size`` bytes, fewer if the time-out is over."""
        end = time.monotonic() + (self.timeout or 0)
        while len(self._heard) < size and time.monotonic() < end:
            taken, heard = self._line.run(bytes(self._sent[:4096]), GO)
            del self._sent[:taken]
            self._heard += heard
        part = bytes(self._heard[:size])
        del self._heard[:size]
        return part

    def write(self, data: bytes) -> int:
        """Send bytes: they are on the line as soon as somebody reads."""
        self._sent += data
        return len(data)

    def close(self) -> None:
        """End the simulation."""
        self._line.close()


def compile_line(
    sources: Mapping[str, str],
    design: Design,
    *,
    divisor: int,
    leds: int,
    progress: Progress | None = None,
) -> Path:
    """Compile a board's Verilog to a library for :class:`Line`, or take the one compiled before.

    The top module is ``shell``, with the ports ``clk``, ``rst``, ``rx``, ``tx`` and ``leds``, of
    which there is one at least; in it is the ``design``, as ``core``. A bit takes ``divisor``
    clocks.
    """
    probes = _probes(design)
    texts = {
        "sbnn_bench.v": _BENCH.format(leds=leds),
        "sbnn_bench.vlt": quiet_about(sources) + show_probes(probes),
        "cpp/design.h": _HEADER.format(divisor=divisor) + declare_probes(probes, _NETWORK),
        "cpp/probes.h": resource("probes.h"),
        "cpp/line.cpp": resource("line.cpp"),
    }
    return compile_once(sources, texts, many=True, progress=progress)
