"""A Verilated design as a shared library that simulates whole batches of numpy rows.

Compiling the C++ takes far longer than simulating, so everything here is about compiling little:
a bench that keeps Verilator from writing most of the design twice (``harness.cpp`` says how), few
large files, a precompiled header, no optimisation unless very many cycles are wanted, and a cache.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ToolFailed
from sbnn_hw.sim.build import (
    BENCH,
    VERILATE,
    Build,
    Progress,
    digest_of,
    flags_of,
    optimise_for,
    tools_of,
)
from sbnn_hw.sim.cache import make_once
from sbnn_hw.sim.verilator import require

__all__ = [
    "Library",
    "Probe",
    "Trace",
    "compile_design",
    "open_library",
    "primitives",
    "quiet_about",
    "resource",
]

Bytes = npt.NDArray[np.uint8]
Cycles = npt.NDArray[np.uint64]

# Optimised C++ takes about twice as long to compile and runs several times as fast; both grow with
# the design, so that the number of cycles from which it pays hardly depends on the design.
_MANY = 100_000

# Cycles in one call of the library, after which Python can notice that the user wants to stop.
_BUDGET = 10_000


@dataclass(frozen=True)
class Probe:
    """Signals inside a design, looked at just before every rising edge of the clock.

    Parameters
    ----------
    name : str
        Name of the probe in a :class:`Trace`.
    strobes : tuple of str
        One-bit signals by their paths below the top module, such as ``"fc1.valid"``. The cycles
        in which all of them are 1 are counted.
    payload : str, optional
        A signal whose values in those cycles are kept.
    width : int
        Bits of the payload.
    """

    name: str
    strobes: tuple[str, ...]
    payload: str | None = None
    width: int = 0

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
class Trace:
    """What a design did with a batch of beats.

    Parameters
    ----------
    outputs : array of bytes
        One row for each word that came out.
    taken_at, given_at : array of uint64
        The cycle in which each beat went in, and each word came out; the first after reset is 0.
        Beats that were not taken have no entry.
    cycles : int
        Cycles simulated after reset.
    complete : bool
        As many words came as were expected.
    violations : int
        Cycles in which an offered word was taken back or changed before it was taken.
    counts : dict of str to int
        For each probe the cycles in which all its strobes were 1.
    values : dict of str to array of bytes
        For each probe one row for each of these cycles.
    changes : dict of str to array of uint64
        For each public signal, by its path below the top module, how often each bit changed from
        one cycle to the next; only if the design is watched.
    """

    outputs: Bytes
    taken_at: Cycles
    given_at: Cycles
    cycles: int
    complete: bool
    violations: int
    counts: dict[str, int]
    values: dict[str, Bytes]
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


class Library:
    """A compiled design. Every run starts it anew, from reset.

    Parameters
    ----------
    path : Path
        The shared library.
    in_width, out_width : int
        Bits of the two payloads.
    probes : sequence of Probe
        The probes it was compiled with.
    """

    def __init__(
        self, path: Path, *, in_width: int, out_width: int, probes: Sequence[Probe] = ()
    ) -> None:
        self.path = path
        self.in_width = in_width
        self.out_width = out_width
        self.probes = tuple(probes)
        self._calls = _load(path)
        # Asks for the probes, so that a wrong path is an error at once.
        self._calls.sbnn_destroy(self._create(0, 0))

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
    ) -> Trace:
        """Send beats through the design until ``expect`` words have come out.

        Parameters
        ----------
        beats : array of bytes
            One row for each beat, bit 0 in the lowest bit of the first byte.
        expect : int
            Words to wait for. Ask for one more than are due to see that no other one comes.
        valid_odds, ready_odds : float
            How likely the source offers its next beat, and the sink is ready, in a cycle. What is
            offered stays until it is taken.
        seed : int
            Chooses the stalls; the same seed gives the same stalls.
        limit : int
            Cycles in which nothing goes in or comes out before the design is given up.
        reset_cycles : int
            Cycles with reset asserted before the first.
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
        handle = self._create(seed, reset_cycles)
        try:
            while not self._calls.sbnn_run(handle, ctypes.byref(batch), _BUDGET):
                pass
            self._raise_error(handle)
            counts, values = self._read_probes(handle)
            changes = self._read_changes(handle)
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

    def _create(self, seed: int, reset_cycles: int) -> int:
        handle: int = self._calls.sbnn_create(seed, reset_cycles)
        try:
            self._raise_error(handle)
        except BaseException:
            self._calls.sbnn_destroy(handle)
            raise
        return handle

    def _raise_error(self, handle: int) -> None:
        error: str = self._calls.sbnn_error(handle).decode(errors="replace")
        if error.startswith("probe: "):
            raise ValueError(f"Design cannot be probed: {error.removeprefix('probe: ')}")
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


def open_library(path: Path) -> ctypes.CDLL:
    """Load a shared library, or say in a sentence why it cannot be."""
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ToolFailed(
            f"The compiled simulation {path} cannot be loaded ({reason}): if that disk does not "
            f"allow programs to run, point $SBNN_CACHE at a folder on another one"
        ) from None


def _load(path: Path) -> ctypes.CDLL:
    calls = open_library(path)
    handle, number = ctypes.c_void_p, ctypes.c_uint64
    calls.sbnn_create.restype = handle
    calls.sbnn_create.argtypes = [number, number]
    calls.sbnn_destroy.restype = None
    calls.sbnn_destroy.argtypes = [handle]
    calls.sbnn_error.restype = ctypes.c_char_p
    calls.sbnn_error.argtypes = [handle]
    calls.sbnn_run.restype = ctypes.c_int
    calls.sbnn_run.argtypes = [handle, ctypes.POINTER(_Batch), number]
    calls.sbnn_count.restype = number
    calls.sbnn_count.argtypes = [handle, number]
    calls.sbnn_values.restype = handle
    calls.sbnn_values.argtypes = [handle, number]
    calls.sbnn_watched.restype = number
    calls.sbnn_watched.argtypes = [handle]
    calls.sbnn_watched_name.restype = ctypes.c_char_p
    calls.sbnn_watched_name.argtypes = [handle, number]
    calls.sbnn_watched_bits.restype = number
    calls.sbnn_watched_bits.argtypes = [handle, number]
    calls.sbnn_changes.restype = handle
    calls.sbnn_changes.argtypes = [handle, number]
    return calls


# Compiling


def primitives() -> str:
    """Return Verilog models of the FPGA primitives that generated text may instantiate."""
    return resource("primitives.v")


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
    progress: Progress | None = None,
) -> Library:
    """Compile Verilog text to a library, or take the one that was compiled before.

    Parameters
    ----------
    sources : mapping of str to str
        Verilog text by file name, in the order in which Verilator shall read it.
    top : str
        The top module. It has the ports ``clk``, ``rst`` (synchronous, active high) and the streams
        ``i__payload``, ``i__valid``, ``i__ready`` and ``o__payload``, ``o__valid``, ``o__ready``.
    in_width, out_width : int
        Bits of the two payloads.
    probes : iterable of Probe
        Signals inside the design to look at.
    vectors : int
        About how many cycles will be simulated. Very many are worth optimised C++.
    watch : bool
        Whether to count the changes of every signal that the text declares public.
    progress : callable, optional
        Called with a few words whenever something that takes long starts or ends.
    """
    probes = tuple(probes)
    _check_design(sources, in_width, out_width, probes)
    verilator, compiler = require()
    report = progress or (lambda _: None)
    optimise = optimise_for(compiler, many=vectors > _MANY)
    texts = {
        "sbnn_bench.v": BENCH.format(top=top, in_width=in_width, out_width=out_width),
        "sbnn_bench.vlt": _configuration(sources, probes),
        "cpp/design.h": _header(in_width, out_width, probes, watch),
        "cpp/harness.cpp": resource("harness.cpp"),
    }
    flags = [*VERILATE, *flags_of(compiler), *optimise]
    digest = digest_of(*sources.items(), *texts.items(), flags, *tools_of(verilator, compiler))

    def make(folder: Path) -> None:
        build = Build(folder, digest, verilator, compiler, optimise, report)
        build.verilate(sources, texts)
        build.compile()

    folder = make_once(f"simulations/{digest}", make)
    return Library(folder / "design.so", in_width=in_width, out_width=out_width, probes=probes)


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


def _configuration(sources: Iterable[str], probes: Iterable[Probe]) -> str:
    """Keep the probed signals visible, and Verilator quiet about all text but the bench."""
    # By name in every module: which module an instance is of, only Verilator knows.
    names = sorted({path.rpartition(".")[2] for probe in probes for path in probe.paths})
    return quiet_about(sources) + "".join(
        f'public_flat_rd -module "*" -var "{name}"\n' for name in names
    )


def quiet_about(sources: Iterable[str]) -> str:
    """Return a configuration that keeps Verilator from complaining of some files."""
    return "`verilator_config\n" + "".join(f'lint_off -file "{name}"\n' for name in sources)


def _header(in_width: int, out_width: int, probes: Iterable[Probe], watch: bool) -> str:
    def quoted(path: str | None) -> str:
        return f'"{path}"' if path else "nullptr"

    specs = ", ".join(
        f"{{{{{', '.join(map(quoted, p.strobes))}}}, {quoted(p.payload)}, {p.width}}}"
        for p in probes
    )
    return (
        f'#include "Vdesign.h"\n#define IN_WIDTH {in_width}\n#define OUT_WIDTH {out_width}\n'
        f"#define PROBES {{{specs}}}\n#define WATCH {int(watch)}\n"
    )
