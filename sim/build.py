"""Compile a Verilated design: few large files, precompiled headers, no make."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sbnn_hw.cache import keep_log, make_once, no_space
from sbnn_hw.errors import ToolFailed, ToolMissing
from sbnn_hw.sim.verilator import Compiler, Verilator, require

__all__ = ["BENCH", "WAVEFORMS", "Progress", "Waveform", "compile_once", "usable_waveform"]

Progress = Callable[[str], None]

# Characters of C++ in one call of the compiler: fewer calls read the headers less often, but more
# than this takes more memory than a small machine has for each core.
_PART = 4_000_000

_VERILATE = (
    *("--cc", "--no-timing", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal"),
    *("--top-module", "sbnn_bench", "--prefix", "Vdesign", "--Mdir", "cpp"),
)

# Hidden symbols and no unique ones: two designs in one process must not share anything.
_CXX = (
    *("-std=gnu++17", "-fPIC", "-w", "-fvisibility=hidden"),
    *("-DVL_USER_FATAL", "-DVL_TIME_CONTEXT", "-DVL_IGNORE_UNKNOWN_ARCH"),
    *("-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0"),
)
_NO_WAVEFORM = ("-DVM_TRACE=0", "-DVM_TRACE_FST=0")
_GCC = ("-fno-gnu-unique",)
_OPTIMISE = ("-O1",)
# One pass takes nine tenths of the time, and the result runs as fast without it; temporaries that
# are not put back into expressions are allocated to registers in half the time.
_OPTIMISE_GCC = (*_OPTIMISE, "-fdisable-rtl-combine", "-fno-tree-ter")


@dataclass(frozen=True)
class Waveform:
    """A kind of waveform that Verilator can write."""

    name: str
    option: str  # Verilator's.
    definitions: tuple[str, ...]  # For the C++ compiler.
    writer: str  # The class that writes it, and the file that has the class.
    runtime: str
    # What that file includes, what it is linked with, and how to get both.
    headers: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    cure: str = ""


# Headers that stand in for those of libraries that are not installed.
_PLAIN = ("lz4.h", "zlib.h")

#: Waveforms by the ending of their files.
WAVEFORMS = {
    ".fst": Waveform(
        name="FST",
        option="--trace-fst",
        definitions=("-DVM_TRACE=1", "-DVM_TRACE_FST=1"),
        writer="VerilatedFstC",
        runtime="verilated_fst_c",
        headers=("zlib.h", "lz4.h"),
        libraries=("-lz", "-llz4"),
        cure="zlib and lz4 with their headers (`apt install zlib1g-dev liblz4-dev`); a file that "
        "ends in .vcd needs nothing more",
    ),
    ".vcd": Waveform(
        name="VCD",
        option="--trace",
        definitions=("-DVM_TRACE=1", "-DVM_TRACE_VCD=1"),
        writer="VerilatedVcdC",
        runtime="verilated_vcd_c",
    ),
}


def usable_waveform(waveform: Waveform) -> Waveform:
    """Return a kind of waveform as it can be compiled here, or say what it needs."""
    verilator, compiler = require()
    if _compiles(waveform, compiler):
        return waveform
    # Older Verilators have another writer, which asks more of its libraries.
    if (verilator.root / "include" / "fstcpp").is_dir():
        plain = _without_libraries(waveform)
        if _compiles(plain, compiler):
            return plain
    raise ToolMissing(f"{waveform.name} waveforms need {waveform.cure}")


def _without_libraries(waveform: Waveform) -> Waveform:
    """Return a kind of waveform whose writer does not compress, and so needs no library."""
    folder = Path(__file__).parent / "plain"
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in _PLAIN}
    # What is compiled with other texts has another name in the cache.
    flags = (f"-I{folder}", f"-DSBNN_PLAIN=0x{_digest_of(*texts.items())[:8]}")
    return replace(waveform, definitions=(*waveform.definitions, *flags), libraries=())


def _compiles(waveform: Waveform, compiler: Compiler) -> bool:
    includes = "".join(f"#include <{name}>\n" for name in waveform.headers)
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(str(compiler.program), "-x", "c++", *waveform.definitions, "-"),
                *(*waveform.libraries, "-o", "tried"),
            ],
            input=f"{includes}int main() {{}}\n",
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.returncode == 0


_HEADERS = """\
#include "verilated.h"
#include "verilated_sym_props.h"
#include "verilated_syms.h"
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
"""

BENCH = """\
module sbnn_bench (
  input clk,
  input next_rst,
  input [{in_width}-1:0] next_i_payload,
  input next_i_valid,
  input next_o_ready,
  output reg i_valid,
  output i_ready,
  output [{out_width}-1:0] o_payload,
  output o_valid,
  output reg o_ready
);
  reg rst = 1'b1;
  reg [{in_width}-1:0] i_payload = 0;
  initial i_valid = 1'b0;
  initial o_ready = 1'b0;
  always @(posedge clk) begin
    rst <= next_rst;
    i_payload <= next_i_payload;
    i_valid <= next_i_valid;
    o_ready <= next_o_ready;
  end
  \\{top}  dut (
    .clk(clk),
    .rst(rst),
    .i__payload(i_payload),
    .i__valid(i_valid),
    .i__ready(i_ready),
    .o__payload(o_payload),
    .o__valid(o_valid),
    .o__ready(o_ready)
  );
{views}endmodule
"""


def _digest_of(*parts: object) -> str:
    """Return a short name for values that all have a faithful ``repr``."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _tools_of(verilator: Verilator, compiler: Compiler) -> tuple[str, ...]:
    """Return what tells one pair of tools from another."""
    return verilator.version, str(verilator.root), str(compiler.program), compiler.version


def _flags_of(compiler: Compiler, waveform: Waveform | None) -> tuple[str, ...]:
    """Return the compiler's flags but for the optimisation."""
    flags = (*_CXX, *(waveform.definitions if waveform else _NO_WAVEFORM))
    return flags if "clang" in compiler.version else (*flags, *_GCC)


def _verilate_flags(waveform: Waveform | None) -> tuple[str, ...]:
    return (*_VERILATE, waveform.option) if waveform else _VERILATE


def _optimise_for(compiler: Compiler, *, many: bool) -> tuple[str, ...]:
    """Return the flags that optimise, if many cycles make it worth while."""
    if not many:
        return ("-O0",)
    return _OPTIMISE if "clang" in compiler.version else _OPTIMISE_GCC


def compile_once(
    sources: Mapping[str, str],
    texts: Mapping[str, str],
    *,
    many: bool,
    progress: Progress | None,
    waveform: Waveform | None = None,
) -> Path:
    """Compile Verilog to a shared library, or take the one that was compiled before.

    ``texts`` are the bench and the C++ around the sources. If ``many`` cycles will be simulated, it
    is worth while to optimise. ``progress`` takes a few words whenever something that takes long
    starts or ends. What can write a ``waveform`` is another library than what cannot.
    """
    verilator, compiler = require()
    optimise = _optimise_for(compiler, many=many)
    flags = [*_verilate_flags(waveform), *_flags_of(compiler, waveform), *optimise]
    digest = _digest_of(*sources.items(), *texts.items(), flags, *_tools_of(verilator, compiler))

    def make(folder: Path) -> None:
        report = progress or (lambda _: None)
        build = Build(folder, digest, verilator, compiler, optimise, waveform, report)
        build.verilate(sources, texts)
        build.compile()

    return make_once(f"simulations/{digest}", make) / "design.so"


@dataclass(frozen=True)
class Build:
    """One design on its way from Verilog to a shared library, in a folder of its own."""

    folder: Path
    digest: str
    verilator: Verilator
    compiler: Compiler
    optimise: tuple[str, ...]
    waveform: Waveform | None
    report: Progress

    def verilate(self, sources: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Write the C++ of the design."""
        self.report("verilating")
        (self.folder / "cpp").mkdir()
        for name, text in {**sources, **texts}.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        said = self._run(
            "Verilator",
            [
                *(str(self.verilator.program), *_verilate_flags(self.waveform)),
                *("sbnn_bench.vlt", "sbnn_bench.v", *sources),
            ],
        )
        # The bench is the only text whose warnings are on, and it is fine if the ports are.
        for line in said.splitlines():
            if line.startswith(("%Warning-WIDTH", "%Warning-PIN")) and "sbnn_bench.v" in line:
                raise ToolFailed(f"The ports of the design do not match its description: {line}")

    def compile(self) -> None:
        """Compile and link the C++, and remove it."""
        cpp = self.folder / "cpp"
        slow = sorted(path for path in cpp.glob("*.cpp") if path.stem.endswith("Slow"))
        fast = sorted(set(cpp.glob("*.cpp")) - set(slow))
        parts = (
            # Verilator sets aside what runs once, which is not worth optimising.
            [*self._parts("slow", slow, ("-O0",)), *self._parts("fast", fast, self.optimise)]
            if self.optimise != ("-O0",)
            else self._parts("part", fast + slow, self.optimise)
        )
        objects = self._compile_all(parts)
        runtime = self._runtime()
        self._run(
            "The linker",
            [
                *(str(self.compiler.program), "-shared", "-Wl,-Bsymbolic", "-o", "design.so"),
                *map(str, [*objects, *sorted(runtime.glob("*.o"))]),
                "-pthread",
                *(self.waveform.libraries if self.waveform else ()),
            ],
        )
        shutil.rmtree(cpp)

    def _parts(
        self, name: str, files: Sequence[Path], optimise: tuple[str, ...]
    ) -> list[tuple[Path, tuple[str, ...]]]:
        """Share the files out over one compilation for each core, or more if they are large."""
        sizes = {file: file.stat().st_size for file in files}
        # A small design takes less time in one piece than it takes to read the headers twice.
        whole = sum(sizes.values())
        number = max(min(_cores(), -(-whole // 200_000)), -(-whole // _PART), 1)
        shares: list[list[Path]] = [[] for _ in range(number)]
        for file in sorted(files, key=lambda file: (-sizes[file], file)):
            min(shares, key=lambda share: sum(sizes[x] for x in share)).append(file)
        parts = []
        for index, share in enumerate(filter(None, shares)):
            path = self.folder / "cpp" / f"{name}{index}.cxx"
            path.write_text("".join(f'#include "{file.name}"\n' for file in share))
            parts.append((path, optimise))
        return parts

    def _compile_all(self, parts: Sequence[tuple[Path, tuple[str, ...]]]) -> list[Path]:
        # Before the threads start: each would wait for the other's lock on it.
        headers = {optimise: self._precompiled(optimise) for _, optimise in parts}
        self.report(f"compiling 0/{len(parts)}")
        with ThreadPoolExecutor(_cores()) as pool:
            jobs = [
                pool.submit(self._compile, path, optimise, ("-include", str(headers[optimise])))
                for path, optimise in parts
            ]
            try:
                for done, job in enumerate(as_completed(jobs), 1):
                    job.result()
                    self.report(f"compiling {done}/{len(parts)}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [job.result() for job in jobs]

    def _compile(
        self, source: Path, optimise: Sequence[str], extra: Sequence[str] = (), end: str = ".o"
    ) -> Path:
        include = self.verilator.root / "include"
        target = source.with_suffix(end) if end == ".o" else Path(f"{source}{end}")
        if include in source.parents:
            target = self.folder / target.name
        self._run(
            "The C++ compiler",
            [
                *(
                    str(self.compiler.program),
                    *_flags_of(self.compiler, self.waveform),
                    *optimise,
                    *extra,
                ),
                *(f"-I{include}", f"-I{include / 'vltstd'}", "-Icpp"),
                *("-c", str(source), "-o", str(target)),
            ],
        )
        return target

    def _runtime(self) -> Path:
        """Compile what every Verilated design needs; once for each pair of tools."""

        def make(folder: Path) -> None:
            self.report("compiling Verilator's runtime")
            build = self._elsewhere(folder)
            with ThreadPoolExecutor(_cores()) as pool:
                names = ["verilated", "verilated_threads"]
                if self.waveform is not None:
                    names.append(self.waveform.runtime)
                files = (self.verilator.root / "include" / f"{name}.cpp" for name in names)
                list(pool.map(lambda file: build._compile(file, ("-O1",)), files))

        return make_once(self._shared("runtime", ()), make)

    def _precompiled(self, optimise: tuple[str, ...]) -> Path:
        """Compile the headers that every design includes; they take longer than a small design."""

        def make(folder: Path) -> None:
            header = folder / "headers.h"
            header.write_text(_HEADERS)
            # A compiler that does not know its precompiled form reads the header itself.
            if "clang" not in self.compiler.version:
                language = ("-x", "c++-header")
                self._elsewhere(folder)._compile(header, optimise, language, end=".gch")

        return make_once(self._shared("headers", optimise), make) / "headers.h"

    def _shared(self, name: str, optimise: tuple[str, ...]) -> str:
        tools = _tools_of(self.verilator, self.compiler)
        flags = _flags_of(self.compiler, self.waveform)
        return f"{name}-{_digest_of(tools, flags, optimise, _HEADERS)}"

    def _elsewhere(self, folder: Path) -> "Build":
        return replace(self, folder=folder)

    def _run(self, tool: str, command: Sequence[str]) -> str:
        """Run a program in the folder; if it fails, keep what it said."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            # In English, so that some of what they say is understood.
            env={**self.verilator.environment(), "LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            if full := no_space(done.stdout):
                raise full
            log = keep_log(f"{self.digest}.log", f"$ {' '.join(command)}\n{done.stdout}")
            if log is None:
                raise ToolFailed(f"{tool} failed on the design: {done.stdout[:200]}")
            raise ToolFailed(f"{tool} failed on the design (its output is in {log})")
        return done.stdout


def _cores() -> int:
    return len(os.sched_getaffinity(0))
