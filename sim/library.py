"""A Verilated design as a shared library that simulates whole batches of numpy rows.

Compiling the C++ takes far longer than simulating, so everything here is about compiling little:
a bench that keeps Verilator from writing most of the design twice (``harness.cpp`` says how), few
large files, a precompiled header, no optimisation unless very many cycles are wanted, and a cache.
"""

import ctypes
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ToolFailed
from sbnn_hw.families import table_cells
from sbnn_hw.families.tables import Ports
from sbnn_hw.sim.build import BENCH, Progress, Waveform, compile_once

__all__ = [
    "Calls",
    "Library",
    "Probe",
    "Trace",
    "View",
    "compile_design",
    "declare_probes",
    "open_library",
    "primitives",
    "quiet_about",
    "resource",
    "show_probes",
]

Bytes = npt.NDArray[np.uint8]
Cycles = npt.NDArray[np.uint64]

#: What each function of a library returns, and what it takes.
Calls = Mapping[str, tuple[Any, list[Any]]]

# Optimised C++ takes about twice as long to compile and runs several times as fast; both grow with
# the design, so that the number of cycles from which it pays hardly depends on the design.
_MANY = 100_000

# Cycles in one call of the library, after which Python can notice that the user wants to stop.
_BUDGET = 10_000


@dataclass(frozen=True)
class Probe:
    """Signals inside a design, looked at just before every rising edge of the clock."""

    name: str  # Name of the probe in a :class:`Trace`.
    # One-bit signals by their paths below the top module, such as ``"fc1.valid"``. The cycles in
    # which all of them are 1 are counted.
    strobes: tuple[str, ...]
    payload: str | None = None  # A signal whose values in those cycles are kept.
    width: int = 0  # Bits of the payload.

    def __post_init__(self) -> None:
        if (self.payload is None) != (self.width == 0):
            raise ValueError(
                f"Width of probe {self.name} must go with a payload, not {self.width!r}"
            )
        for path in self.paths:
            if not path or any(c in '"\\*?' or c.isspace() for c in path):
                raise ValueError(f"Path of a probe must be names joined by dots, not {path!r}")

    @property
    def paths(self) -> tuple[str, ...]:
        """Every signal that the probe looks at."""
        return self.strobes if self.payload is None else (*self.strobes, self.payload)


@dataclass(frozen=True)
class View:
    """A part of the output's word that a waveform shows as a signal of its own."""

    name: str
    low: int  # The lowest of its bits.
    width: int
    signed: bool

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", self.name):
            raise ValueError(f"Name of a view must be words joined by _, not {self.name!r}")

    @property
    def verilog(self) -> str:
        """Its declaration in the bench."""
        kind = "wire signed" if self.signed else "wire"
        bits = f"o_payload[{self.low + self.width - 1}:{self.low}]"
        return f"  {kind} [{self.width - 1}:0] {self.name} = {bits};\n"


@dataclass(frozen=True)
class Trace:
    """What a design did with a batch of beats."""

    outputs: Bytes  # One row for each word that came out.
    # The cycle in which each beat went in, and each word came out; the first after reset is 0.
    # Beats that were not taken have no entry.
    taken_at: Cycles
    given_at: Cycles
    cycles: int  # Cycles simulated after reset.
    complete: bool  # As many words came as were expected.
    # Cycles in which an offered word was taken back or changed before it was taken.
    violations: int
    counts: dict[str, int]  # For each probe the cycles in which all its strobes were 1.
    values: dict[str, Bytes]  # For each probe one row for each of these cycles.
    # The probes whose first strobe was 1 in the last cycle while another was not: what has a word
    # to give that is not taken.
    waiting: frozenset[str] = frozenset()
    # For each public signal, by its path below the top module, how often each bit changed from
    # one cycle to the next; only if the design is watched.
    changes: dict[str, Cycles] = field(default_factory=dict)


class _Batch(ctypes.Structure):
    # The same, in the same order, as in harness.cpp.
    _fields_ = (
        ("beats", ctypes.c_void_p),
        ("beat_count", ctypes.c_uint64),
        ("outputs", ctypes.c_void_p),
        ("expect", ctypes.c_uint64),
        ("taken_at", ctypes.c_void_p),
        ("given_at", ctypes.c_void_p),
        ("valid_odds", ctypes.c_double),
        ("ready_odds", ctypes.c_double),
        ("limit", ctypes.c_uint64),
        ("taken", ctypes.c_uint64),
        ("given", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("violations", ctypes.c_uint64),
    )


_HANDLE, _NUMBER = ctypes.c_void_p, ctypes.c_uint64

# Of harness.cpp.
_CALLS: Calls = {
    "sbnn_create": (_HANDLE, [_NUMBER, _NUMBER, ctypes.c_char_p]),
    "sbnn_destroy": (None, [_HANDLE]),
    "sbnn_error": (ctypes.c_char_p, [_HANDLE]),
    "sbnn_run": (ctypes.c_int, [_HANDLE, ctypes.POINTER(_Batch), _NUMBER]),
    "sbnn_count": (_NUMBER, [_HANDLE, _NUMBER]),
    "sbnn_waits": (ctypes.c_int, [_HANDLE, _NUMBER]),
    "sbnn_values": (_HANDLE, [_HANDLE, _NUMBER]),
    "sbnn_watched": (_NUMBER, [_HANDLE]),
    "sbnn_watched_name": (ctypes.c_char_p, [_HANDLE, _NUMBER]),
    "sbnn_watched_bits": (_NUMBER, [_HANDLE, _NUMBER]),
    "sbnn_changes": (_HANDLE, [_HANDLE, _NUMBER]),
}


class Library:
    """A compiled design, with the probes it was compiled with. Every run starts it from reset."""

    def __init__(
        self, path: Path, *, in_width: int, out_width: int, probes: Sequence[Probe] = ()
    ) -> None:
        self.path = path
        self.in_width = in_width
        self.out_width = out_width
        self.probes = tuple(probes)
        self._calls = open_library(path, _CALLS)
        # Asks for the probes, so that a wrong path is an error at once.
        self._calls.sbnn_destroy(self._create(0, 0, None))

    def run(
        self,
        beats: Bytes,
        *,
        expect: int,
        valid_odds: float = 1.0,
        ready_odds: float = 1.0,
        seed: int = 0,
        limit: int = 100_000,
        reset_cycles: int = 2,
        waves: Path | None = None,
    ) -> Trace:
        """Send beats through the design until ``expect`` words have come out.

        A beat is a row of bytes, bit 0 in the lowest bit of the first. Ask for one word more than
        are due to see that no other one comes. The odds are how likely the source offers its next
        beat, and the sink is ready, in a cycle; what is offered stays until it is taken. The same
        seed gives the same stalls. A design in which nothing goes in or comes out for ``limit``
        cycles is given up. A design that was compiled with a waveform writes it to ``waves``.
        """
        self._check(beats, expect, valid_odds, ready_odds)
        beats = np.ascontiguousarray(beats)
        outputs = np.zeros((expect, _bytes(self.out_width)), np.uint8)
        taken_at = np.zeros(len(beats), np.uint64)
        given_at = np.zeros(expect, np.uint64)
        batch = _Batch(
            beats=beats.ctypes.data,
            beat_count=len(beats),
            outputs=outputs.ctypes.data,
            expect=expect,
            taken_at=taken_at.ctypes.data,
            given_at=given_at.ctypes.data,
            valid_odds=valid_odds,
            ready_odds=ready_odds,
            limit=limit,
        )
        handle = self._create(seed, reset_cycles, waves)
        try:
            while not self._calls.sbnn_run(handle, ctypes.byref(batch), _BUDGET):
                pass
            self._raise_error(handle)
            counts, values = self._read_probes(handle)
            changes = self._read_changes(handle)
            waiting = frozenset(
                probe.name
                for index, probe in enumerate(self.probes)
                if self._calls.sbnn_waits(handle, index)
            )
        finally:
            self._calls.sbnn_destroy(handle)
        return Trace(
            outputs=outputs[: batch.given],
            taken_at=taken_at[: batch.taken],
            given_at=given_at[: batch.given],
            cycles=batch.cycles,
            complete=batch.given == expect,
            violations=batch.violations,
            counts=counts,
            values=values,
            waiting=waiting,
            changes=changes,
        )

    def _check(self, beats: Bytes, expect: int, valid_odds: float, ready_odds: float) -> None:
        width = _bytes(self.in_width)
        if beats.dtype != np.uint8 or beats.ndim != 2 or beats.shape[1] != width:
            raise ValueError(
                f"Beats must be rows of {width} bytes, not {beats.dtype} of shape {beats.shape!r}"
            )
        if self.in_width % 8 and (beats[:, -1] >> self.in_width % 8).any():
            raise ValueError(f"Beats must have no bit set above their {self.in_width}")
        if expect < 0:
            raise ValueError(f"Expected words must not be negative, not {expect!r}")
        for odds in (valid_odds, ready_odds):
            if not 0 <= odds <= 1:
                raise ValueError(f"Odds must be between 0 and 1, not {odds!r}")

    def _create(self, seed: int, reset_cycles: int, waves: Path | None) -> int:
        path = None if waves is None else os.fsencode(waves)
        handle: int = self._calls.sbnn_create(seed, reset_cycles, path)
        try:
            self._raise_error(handle)
        except BaseException:
            self._calls.sbnn_destroy(handle)
            raise
        return handle

    def _raise_error(self, handle: int) -> None:
        error: str = self._calls.sbnn_error(handle).decode(errors="replace")
        if error.startswith("probe: "):
            raise ToolFailed(
                "The signals of the design do not match its description: "
                f"{error.removeprefix('probe: ')}"
            )
        if error.startswith("waves: "):
            raise ToolFailed(f"There is no waveform: {error.removeprefix('waves: ')}")
        if error:
            raise ToolFailed(f"Verilator stopped the simulation: {error}")

    def _read_probes(self, handle: int) -> tuple[dict[str, int], dict[str, Bytes]]:
        counts = {}
        values = {}
        for index, probe in enumerate(self.probes):
            count = counts[probe.name] = self._calls.sbnn_count(handle, index)
            size = count * _bytes(probe.width)
            content = (
                ctypes.string_at(self._calls.sbnn_values(handle, index), size) if size else b""
            )
            values[probe.name] = np.frombuffer(content, np.uint8).reshape(
                count, _bytes(probe.width)
            )
        return counts, values

    def _read_changes(self, handle: int) -> dict[str, Cycles]:
        calls = self._calls
        changes = {}
        for number in range(calls.sbnn_watched(handle)):
            name = calls.sbnn_watched_name(handle, number).decode()
            size = 8 * calls.sbnn_watched_bits(handle, number)
            content = ctypes.string_at(calls.sbnn_changes(handle, number), size)
            changes[name] = np.frombuffer(content, np.uint64)
        return changes


def _bytes(width: int) -> int:
    return (width + 7) // 8


def open_library(path: Path, calls: Calls) -> ctypes.CDLL:
    """Load a shared library whose functions return and take these, or say why it cannot be."""
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ToolFailed(
            f"The compiled simulation {path} cannot be loaded ({reason}): if that disk does not "
            f"allow programs to run, point $SBNN_CACHE at a folder on another one"
        ) from None
    for name, (result, arguments) in calls.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# Compiling


def primitives() -> str:
    """Return Verilog models of the tables that generated text may instantiate, of all families.

    A table is an index into its answers, and nothing more: Verilator makes a shift of it, and the
    two outputs of a pair share the index. Special cases for adders and xors of products gained
    nothing from text to results, and trees of multiplexers took more than twice as long.
    """
    cells = defaultdict(list)
    for cell in table_cells():
        cells[cell.name].append(cell)
    return "\n".join(_model(same) for same in cells.values())


def _model(cells: Sequence[Ports]) -> str:
    """Return the model of a cell; families may name its pins differently, and it has them all."""
    inputs = dict.fromkeys(pin for cell in cells for pin in cell.inputs)
    outputs = dict.fromkeys(pin for cell in cells for pin in cell.outputs)
    lines = []
    for name, contents, (*low, last), pins in cells:
        # Of two outputs the first has the lower half of the answers.
        for pin, high in zip(pins, ["1'b0", last][-len(pins) :], strict=True):
            index = ", ".join([high, *reversed(low)])
            lines.append(f"  assign {pin} = {contents}[{{{index}}}];\n")
        size = 1 << len(low) + 1
        head = f"module {name} #(parameter [{size - 1}:0] {contents} = 0)"
    return (
        f"{head} (input {', '.join(inputs)}, output {', '.join(outputs)});\n"
        f"{''.join(lines)}endmodule\n"
    )


def resource(name: str) -> str:
    """Return the text of a file that lies beside this one."""
    return resources.files("sbnn_hw.sim").joinpath(name).read_text(encoding="utf-8")


def compile_design(
    sources: Mapping[str, str],
    *,
    top: str = "top",
    in_width: int,
    out_width: int,
    probes: Iterable[Probe] = (),
    vectors: int = 10_000,
    watch: bool = False,
    waveform: Waveform | None = None,
    views: Iterable[View] = (),
    progress: Progress | None = None,
) -> Library:
    """Compile Verilog text to a library, or take the one that was compiled before.

    Verilator reads the sources in their order. The top module has the ports ``clk``, ``rst``
    (synchronous, active high) and the streams ``i__payload``, ``i__valid``, ``i__ready`` and
    ``o__payload``, ``o__valid``, ``o__ready``. About ``vectors`` cycles will be simulated: very
    many are worth optimised C++. With ``watch``, the changes of every signal that the text declares
    public are counted. With a ``waveform``, a run can write one of all signals, and of the
    ``views``.
    """
    probes = tuple(probes)
    _check_design(sources, in_width, out_width, probes)
    texts = {
        "sbnn_bench.v": BENCH.format(
            top=top,
            in_width=in_width,
            out_width=out_width,
            views="".join(view.verilog for view in views),
        ),
        "sbnn_bench.vlt": _configuration(sources, probes, waveform),
        "cpp/design.h": _header(in_width, out_width, probes, watch, waveform),
        "cpp/probes.h": resource("probes.h"),
        "cpp/harness.cpp": resource("harness.cpp"),
    }
    path = compile_once(sources, texts, many=vectors > _MANY, progress=progress, waveform=waveform)
    return Library(path, in_width=in_width, out_width=out_width, probes=probes)


def _check_design(
    sources: Mapping[str, str], in_width: int, out_width: int, probes: Sequence[Probe]
) -> None:
    if in_width < 1 or out_width < 1:
        raise ValueError(f"Payloads must have at least one bit, not {min(in_width, out_width)!r}")
    if not sources:
        raise ValueError("Sources must be at least one file, not none")
    for name in sources:
        if name != Path(name).name or not name.endswith((".v", ".sv")) or "sbnn_bench" in name:
            raise ValueError(f"Source must be named like top.v, not {name!r}")
    if len({probe.name for probe in probes}) != len(probes):
        raise ValueError("Probes must have different names")


def _configuration(
    sources: Iterable[str], probes: Iterable[Probe], waveform: Waveform | None
) -> str:
    """Keep the probed signals visible, and Verilator quiet about all text but the bench."""
    # The pins of tables are wires of the design: they need not be in a waveform twice.
    hidden = 'tracing_off -file "primitives.v"\n' if waveform else ""
    return quiet_about(sources) + show_probes(probes) + hidden


def quiet_about(sources: Iterable[str]) -> str:
    """Return a configuration that keeps Verilator from complaining of some files."""
    return "`verilator_config\n" + "".join(f'lint_off -file "{name}"\n' for name in sources)


def _header(
    in_width: int,
    out_width: int,
    probes: Iterable[Probe],
    watch: bool,
    waveform: Waveform | None,
) -> str:
    waves = ""
    if waveform is not None:
        waves = f'#include "{waveform.runtime}.h"\n#define WAVES {waveform.writer}\n'
    return (
        f'#include "Vdesign.h"\n#define IN_WIDTH {in_width}\n#define OUT_WIDTH {out_width}\n'
        f"{declare_probes(probes, 'TOP.sbnn_bench.dut')}#define WATCH {int(watch)}\n{waves}"
    )


def declare_probes(probes: Iterable[Probe], place: str) -> str:
    """Return what ``probes.h`` needs to know; the paths of the signals start below a scope."""

    def quoted(path: str | None) -> str:
        return f'"{path}"' if path else "nullptr"

    specs = ", ".join(
        f"{{{{{', '.join(map(quoted, p.strobes))}}}, {quoted(p.payload)}, {p.width}}}"
        for p in probes
    )
    return f'#define DUT "{place}"\n#define PROBES {{{specs}}}\n'


def show_probes(probes: Iterable[Probe]) -> str:
    """Return a configuration that keeps the signals of probes visible.

    By name in every module: which module an instance is of, only Verilator knows.
    """
    names = sorted({path.rpartition(".")[2] for probe in probes for path in probe.paths})
    return "".join(f'public_flat_rd -module "*" -var "{name}"\n' for name in names)
