"""Vivado: a complete project as files, a check that it is consistent, and a run of it.

The files can be taken to a machine that has Vivado; where it is on PATH it is run, and its reports
are read.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sbnn_hw.boards.nextpnr import run_tool, stage_of_path, start_log
from sbnn_hw.boards.results import Prepared, Routed, remove_files
from sbnn_hw.boards.table import Part, part_family
from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError

__all__ = [
    "Timing", "build_scripts", "check_project", "find_vivado", "parse_timing", "parse_utilisation",
    "part_project", "run_vivado",
]

_TCL = """\
# A network without a board: out of context, around AXI4-Stream.
create_project -force -name {name} -part {part}
{sources}read_xdc -mode out_of_context {name}.xdc
synth_design -top {name} -mode out_of_context
report_timing_summary -file {name}_timing_synth.rpt
report_utilization -file {name}_utilization_synth.rpt
opt_design
place_design
report_utilization -hierarchical -file {name}_utilization_hierarchical_place.rpt
report_utilization -file {name}_utilization_place.rpt
route_design
phys_opt_design
report_timing_summary -max_paths 10 -file {name}_timing.rpt
write_checkpoint -force {name}_route.dcp
quit
"""

_XDC = """\
create_clock -name clk -period {period} [get_ports clk]
# Where the clock will come from, so that its delay is part of the timing.
set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports clk]
"""

_SH = """\
#!/bin/sh
set -e
cd "$(dirname "$0")"
command -v "${{VIVADO:-vivado}}" > /dev/null || {{
    echo "Vivado was not found: source its settings64.sh, or set VIVADO to its path" >&2
    exit 3
}}
"${{VIVADO:-vivado}}" -mode batch -nojournal -log {name}.log -source {name}.tcl
"""

_BAT = """\
@echo off
cd /d "%~dp0"
if not defined VIVADO set VIVADO=vivado
call "%VIVADO%" -mode batch -nojournal -log {name}.log -source {name}.tcl || exit /b
"""


def part_project(
    part: Part, clock_hz: int, sources: Mapping[str, str], name: str = "top_axi"
) -> Prepared:
    """Return a project for a part without a board: the network with AXI4-Stream, out of context.

    One of the sources, Verilog by file name, has the top module ``name``; its clock is ``clk``.
    """
    if "vivado" not in part.family.toolchains:
        raise UsageError(f"Vivado projects are for 7-series parts, and {part.name} is not one")
    if clock_hz <= 0:
        raise UsageError(f"Clock must be above 0 Hz, not {clock_hz!r}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII):
        raise ValueError(f"Top module must have a plain name, not {name!r}")
    for file in sources:
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.v", file, re.ASCII):
            raise ValueError(f"Source must be named like top.v, not {file!r}")
    adds = "".join(f"add_files {file}\n" for file in sources)
    return Prepared(name, {
        **sources,
        f"{name}.tcl": _TCL.format(name=name, part=part.name, sources=adds),
        f"{name}.xdc": _XDC.format(period=f"{1e9 / clock_hz:.3f}"),
        **build_scripts(name),
    })


def build_scripts(name: str) -> dict[str, str]:
    """Return what runs a project, from whichever folder: a script for a shell, one for Windows."""
    return {
        f"build_{name}.sh": _SH.format(name=name),
        f"build_{name}.bat": _BAT.format(name=name).replace("\n", "\r\n"),
    }


def find_vivado() -> str:
    """Return the Vivado to use: ``$VIVADO``, or the one on PATH."""
    named = os.environ.get("VIVADO") or "vivado"
    if found := shutil.which(named):
        return found
    raise ToolMissing(
        "Vivado was not found: put it on PATH (`source settings64.sh`) or set $VIVADO, or copy "
        "the project's folder to a machine that has Vivado"
    )


def run_vivado(
    folder: Path, *, clock_hz: int, stages: Iterable[str] = (), name: str = "shell",
    bitstream: bool = True,
) -> Routed:
    """Run a project, and read what it reports.

    ``stages`` are the names of the network's modules, to tell the worst path's from. Out of context
    a project writes no bitstream.
    """
    vivado = find_vivado()
    log, made = folder / f"{name}.log", folder / f"{name}.bit"
    timing, used = folder / f"{name}_timing.rpt", folder / f"{name}_utilization_place.rpt"
    said = folder / "vivado.out"
    remove_files(made, timing, used, log)
    start_log(said)
    status = run_tool(
        [vivado, "-mode", "batch", "-nojournal", "-log", log.name, "-source", f"{name}.tcl"],
        folder, said,
    )
    wanted = (timing, used, made) if bitstream else (timing, used)
    missing = [path.name for path in wanted if not path.is_file()]
    if status or missing:
        text = said.read_text(encoding="utf-8", errors="replace")
        errors = re.findall(r"^ERROR: (.*)", text, re.MULTILINE)
        why = f"it wrote no {missing[0]}" if missing and not status else "it stopped"
        what = errors[0].strip().rstrip(".") if errors else why
        raise ToolFailed(f"Vivado failed: {what} (its output is in {said})")
    result = parse_timing(timing.read_text(encoding="utf-8", errors="replace"))
    return Routed(
        made if bitstream else None,
        result.fmax_mhz,
        result.met,
        stage_of_path(result.names, stages),
        said,
        parse_utilisation(used.read_text(encoding="utf-8", errors="replace")),
        "vivado" if result.version is None else f"vivado {result.version}",
    )


@dataclass(frozen=True)
class Timing:
    """What a timing summary says of the slowest path between registers."""

    #: Time left; negative if the clock is not met. None where no path is constrained.
    slack_ns: float | None
    #: The clock at which nothing would be left.
    fmax_mhz: float | None
    #: The cells and nets along the path.
    names: tuple[str, ...] = ()
    #: The version of Vivado.
    version: str | None = None
    #: Time left for holding, and of the shortest pulse.
    hold_ns: float | None = None
    pulse_ns: float | None = None

    @property
    def met(self) -> bool:
        """Whether nothing is violated: setup, hold, and the widths of pulses."""
        return all(
            slack is None or slack >= 0 for slack in (self.slack_ns, self.hold_ns, self.pulse_ns)
        )


_NUMBER = r"(-?\d+(?:\.\d+)?)"


def parse_timing(text: str) -> Timing:
    """Read what ``report_timing_summary`` wrote."""
    version = re.search(r"^\| Tool Version\s*:\s*Vivado v\.?(\S+)", text, re.MULTILINE)
    release = version[1] if version else None
    summary = re.search(r"^[ \t]*(WNS\(ns\).*)\n[\s-]*\n[ \t]*(\S.*)$", text, re.MULTILINE)
    if summary is None:
        raise ToolFailed("Cannot read Vivado's timing summary")
    # Names of columns have spaces, but two and more of them lie between columns.
    row = dict(zip(re.split(r"\s{2,}", summary[1].strip()), summary[2].split(), strict=False))

    def slack_of(column: str) -> float | None:
        value = row.get(column, "NA")
        return float(value) if re.fullmatch(_NUMBER, value) else None

    worst, hold, pulse = (slack_of(f"{name}(ns)") for name in ("WNS", "WHS", "WPWS"))
    if worst is None:
        return Timing(None, None, (), release, hold, pulse)

    found: tuple[float, float, tuple[str, ...]] | None = None
    for path in re.split(r"^(?=Slack[ :(])", text, flags=re.MULTILINE)[1:]:
        slack = re.match(rf"Slack(?: \(\w+\))?\s*:\s*{_NUMBER}ns", path)
        needed = re.search(rf"^\s*Requirement:\s*{_NUMBER}ns", path, re.MULTILINE)
        kind = re.search(r"^\s*Path Type:\s*(\w+)", path, re.MULTILINE)
        if slack is None or needed is None or kind is None or kind[1] != "Setup":
            continue
        left, period = float(slack[1]), float(needed[1])
        if found is None or left < found[0]:
            found = left, period, tuple(re.findall(r"(?<!\S)[^\s(),]+/[^\s(),]+", path))
    if found is None:
        # Without a detailed path there is still the fastest clock's period.
        rows = re.findall(
            rf"^\S+\s+\{{[^}}]*\}}\s+{_NUMBER}\s+{_NUMBER}\s*$", text, re.MULTILINE
        )
        if not rows:
            raise ToolFailed("Vivado's timing summary has no path and no clock")
        found = worst, min(float(period) for period, _ in rows), ()
    left, period, names = found
    fmax = 1000 / (period - left) if period > left else None
    return Timing(worst, fmax, names, release, hold, pulse)


def parse_utilisation(text: str) -> dict[str, tuple[float, float]]:
    """Read what ``report_utilization`` wrote: for each site type how many are used, of how many."""
    result: dict[str, tuple[float, float]] = {}
    columns: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "Used" in cells and "Available" in cells:
            columns = cells
        elif columns and len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            try:
                used, available = float(row["Used"]), float(row["Available"])
            except ValueError:
                continue
            # A synthesised table says LUTs*, for it is an estimate.
            result.setdefault(cells[0].rstrip("*"), (_whole(used), _whole(available)))
    if not result:
        raise ToolFailed("Cannot read Vivado's utilisation report")
    return result


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


# ---- Is a project consistent?

#: Cells of the FPGA that the texts use; every other module must be defined in them.
_PRIMITIVES = re.compile(
    r"I?O?BUFT?|BUFG|BUFGCTRL|PLLE2_BASE|MMCME2_BASE|FD[RSCP]E|LUT[1-6]|LUT6_2|MUXF[78]|CARRY4"
    r"|SRL16E|SRLC32E|RAMB(18|36)E1|RAM\d+X1[SD]|RAM(32|64)M|STARTUPE2|DSP48E1"
)
_WORDS = {
    "module", "endmodule", "assign", "always", "initial", "if", "else", "case", "casez", "begin",
    "end", "wire", "reg", "input", "output", "inout", "integer", "parameter", "localparam", "for",
    "endcase", "function", "posedge", "negedge", "or", "and", "not",
}
_IDENTIFIER = r"(?:\\\S+|[A-Za-z_][\w$]*)"


def check_project(folder: Path, name: str = "shell") -> list[str]:
    """Return what is inconsistent in a Vivado project; nothing if all fits together.

    Every file that a script names must be there, every port must have a pin and a standard, every
    pin a port, every module a text, and braces and quotes must be balanced.
    """
    tcl, xdc = folder / f"{name}.tcl", folder / f"{name}.xdc"
    scripts = [folder / f"build_{name}.sh", folder / f"build_{name}.bat"]
    faults = [f"{path.name} is missing" for path in (tcl, xdc, *scripts) if not path.is_file()]
    if faults:
        return faults
    text = _read(tcl)
    for path in scripts:
        sourced = re.findall(r"-source (\S+)", _read(path))
        if sourced != [tcl.name]:
            faults.append(f"{path.name} runs {' '.join(sourced) or 'nothing'}, not {tcl.name}")
    for path in (tcl, xdc):
        faults += [f"{path.name}: {fault}" for fault in _unbalanced(_read(path))]

    named = [word for line in text.splitlines() for word in _named_files(line)]
    faults += [f"{tcl.name} names {file}, which is missing" for file in named
               if not (folder / file).is_file()]
    if xdc.name not in named:
        faults.append(f"{tcl.name} does not read {xdc.name}")
    verilog = "\n".join(_read(folder / file) for file in named
                        if file.endswith(".v") and (folder / file).is_file())
    found = re.search(r"^create_project .*-part (\S+)", text, re.MULTILINE)
    try:
        if found is None or "vivado" not in part_family(found[1]).family.toolchains:
            faults.append(f"{tcl.name} names no 7-series part")
    except UsageError:
        faults.append(f"{tcl.name} names no 7-series part")

    defined = set(re.findall(rf"^\s*module ({_IDENTIFIER}) ?[(#]", verilog, re.MULTILINE))
    top = re.search(r"^synth_design .*-top (\S+)", text, re.MULTILINE)
    if top is None or top[1] not in defined:
        faults.append(f"{tcl.name} synthesises {top[1] if top else 'nothing'}, which has no source")
        return faults
    for module in sorted(_instantiated(verilog) - defined):
        if not _PRIMITIVES.fullmatch(module):
            faults.append(f"module {module} is used, but has no source")
    context = "-mode out_of_context" in text
    faults += _check_pins(_read(xdc), _ports(verilog, top[1]), xdc.name, pins=not context)
    return faults


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _named_files(line: str) -> Iterator[str]:
    words = line.split()
    if words and words[0] in ("add_files", "read_xdc", "read_verilog", "source"):
        yield words[-1].strip('"')


def _instantiated(verilog: str) -> set[str]:
    """Return the modules that a text instantiates, as Yosys lays them out."""
    pattern = rf"^\s*({_IDENTIFIER}) +(?:#\(|{_IDENTIFIER} ?\()"
    return {word for word in re.findall(pattern, verilog, re.MULTILINE) if word not in _WORDS}


def _ports(verilog: str, top: str) -> set[str]:
    """Return the ports of a module, one name for each bit."""
    body = re.search(
        rf"^\s*module {re.escape(top)} ?\((.*?)\);(.*?)^endmodule", verilog,
        re.MULTILINE | re.DOTALL,
    )
    if body is None:
        return set()
    ports = set()
    for high, low, port in re.findall(
        rf"^\s*(?:input|output|inout)(?: wire| reg)?(?: \[(\d+):(\d+)\])? ({_IDENTIFIER}) ?;",
        body[2], re.MULTILINE,
    ):
        if high:
            ports |= {f"{port}[{bit}]" for bit in range(int(low), int(high) + 1)}
        else:
            ports.add(port)
    undeclared = {word.strip() for word in body[1].split(",")} - {p.split("[")[0] for p in ports}
    return ports | {port for port in undeclared if port}


def _check_pins(xdc: str, ports: set[str], file: str, *, pins: bool) -> list[str]:
    faults = []
    where: dict[str, str] = {}
    standards = set()
    for line in xdc.splitlines():
        for port in re.findall(r'\[get_ports "?([^"\]\s]+(?:\[\d+\])?)"?\]', line):
            if port not in ports:
                faults.append(f"{file} has a constraint for {port}, which is not a port")
        if found := re.match(
            r'\s*set_property (LOC|PACKAGE_PIN|IOSTANDARD) "?(\w+)"? '
            r'\[get_ports "?([^"\s]+?)"?\]\s*$', line
        ):
            if found[1] == "IOSTANDARD":
                standards.add(found[3])
            elif found[2] in where.values():
                faults.append(f"{file} uses the pin {found[2]} twice")
            else:
                where[found[3]] = found[2]
    clocks = re.findall(r'create_clock .*\[get_(?:nets|ports) "?([^"\]\s]+)"?\]', xdc)
    if not any(clock in ports for clock in clocks):
        faults.append(f"{file} constrains no clock")
    if pins:
        faults += [f"port {port} has no pin in {file}" for port in sorted(ports - set(where))]
        faults += [f"port {port} has no IOSTANDARD in {file}"
                   for port in sorted(ports & set(where) - standards)]
    return faults


def _unbalanced(text: str) -> list[str]:
    """Return which braces, brackets or quotes of a Tcl text do not close."""
    faults, stack, quoted = [], [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        escaped = False
        for sign in line:
            if escaped:
                escaped = False
            elif sign == "\\":
                escaped = True
            elif sign == '"':
                quoted = not quoted
            elif sign in "{[":
                stack.append(sign)
            elif sign in "}]" and (not stack or stack.pop() + sign not in ("{}", "[]")):
                faults.append(f"line {number} has one {sign} too many")
                stack.clear()
        if quoted:
            faults.append(f"line {number} has an open quote")
            quoted = False
    if stack:
        faults.append(f"a {stack[-1]} is never closed")
    return faults
