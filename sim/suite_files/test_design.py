"""Build the design with Verilator, run the benches of ``design_bench.py``, and tell what failed.

Needs cocotb 2, Verilator, pytest, make and a C++ compiler; see ``README.md``.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cocotb_tools.runner import Runner, get_runner
from verilator_setup import find_program

HERE = Path(__file__).parent
BUILD = HERE / "build"
TOP = HERE.parent / "top.v"
PRIMITIVES = HERE / "primitives.v"

#: The benches by name: each is a claim.
CLAIMS = re.findall(r"(?m)^async def (\w+)\(dut\b", (HERE / "design_bench.py").read_text())

#: What is checked again for other contents of the registers before reset.
ANY_START = r"every_vector_gives_its_result/valid_odds=1\.0/ready_odds=1\.0$|reset_drops"

# The text is a tool's, so warnings on style say nothing. The benches' time goes into Python: C++
# that is optimised takes longer to compile than it saves.
FLAGS = ["-Wno-fatal", "-Wno-WIDTH", "-Wno-PINMISSING", "--no-timing"]
if TOP.stat().st_size < 500_000:
    # In several files, the headers of a small design would take longer than itself.
    FLAGS += ["--output-split", "0"]
MAKEFLAGS = " -- OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"

Failures = dict[str, list[str]]


@pytest.fixture(scope="session")
def builds() -> Iterator[Path]:
    """Put Verilator on PATH, and return the folder for what it makes."""
    for tool in ("make", "c++"):
        if not shutil.which(tool):
            pytest.fail(f"{tool} is needed to simulate (`apt install g++ make`)")
    program, version = find_program(BUILD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
        # One that is set for another Verilator would lead this one to foreign include files.
        patch.delenv("VERILATOR_ROOT", raising=False)
        patch.setenv("MAKEFLAGS", os.environ.get("MAKEFLAGS") or MAKEFLAGS)
        # A folder of its own for each version: what another one left would be mixed in.
        yield BUILD / f"with-{version}"


def build(text: Path, folder: Path, flags: Sequence[str] = ()) -> Runner:
    """Compile the design, unless nothing changed since it was."""
    runner = get_runner("verilator")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    try:
        runner.build(
            sources=[PRIMITIVES, text],
            hdl_toplevel="top",
            build_dir=folder / "objects",
            build_args=[*FLAGS, *flags],
            timescale=("1ns", "1ps"),
            log_file=log,
        )
    except RuntimeError as error:
        pytest.fail(f"{error}; {log} ends with\n{tail(log)}")
    return runner


def simulate(runner: Runner, folder: Path, name: str, *arguments: str, only: str = "") -> Failures:
    """Run benches; return for each claim that was checked what failed."""
    results, log = folder / f"{name}.xml", folder / f"{name}.log"
    try:
        runner.test(
            hdl_toplevel="top",
            test_module="design_bench",
            test_dir=folder,
            results_xml=str(results),
            log_file=log,
            plusargs=arguments,
            test_filter=only or None,
            seed=1,
        )
    except (SystemExit, RuntimeError):
        # The runner gives up where a bench failed. Which one it was is in the results.
        if not results.exists():
            pytest.fail(f"The simulation broke off; {log} ends with\n{tail(log)}")
    found: Failures = {}
    for case in ElementTree.parse(results).iter("testcase"):
        bench = str(case.get("name"))
        failures = found.setdefault(re.split(r"\W", bench)[0], [])
        for problem in [*case.iter("failure"), *case.iter("error")]:
            reason = problem.get("message") or problem.get("error_msg") or problem.text or "failed"
            # The lines below the first are pytest's dissection of the assertion.
            failures.append(f"{bench}: {reason.strip().splitlines()[0]}")
    return found


def tail(log: Path, lines: int = 25) -> str:
    """Return the end of a file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def without_initial_values(text: str) -> str:
    """Return Verilog whose registers start with no value of their own.

    An FPGA loads initial values with the bitstream. They are taken away to see that reset alone
    brings the design into its first state; contents of memories stay.
    """
    return re.sub(r"(?m)^(\s*reg\b[^=;]*)=[^;]+;", r"\1;", text)


@pytest.fixture(scope="session")
def outcome(builds: Path) -> Failures:
    """Run every bench once."""
    folder = builds / "as-generated"
    return simulate(build(TOP, folder), folder, "benches")


@pytest.fixture(scope="session")
def any_start(builds: Path) -> tuple[Runner, Path]:
    """Build the design such that registers hold anything before reset."""
    folder = builds / "any-start"
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "top.v"
    stripped = without_initial_values(TOP.read_text())
    if not text.exists() or text.read_text() != stripped:
        text.write_text(stripped)
    flags = ["--x-initial", "unique", "--x-assign", "unique"]
    return build(text, folder, flags), folder


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds(outcome: Failures, claim: str) -> None:
    """Each bench passes, with all its parameters."""
    assert claim in outcome, f"{claim} was not run"
    if outcome[claim]:
        pytest.fail("\n".join(outcome[claim]), pytrace=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_register_contents_before_reset_give_the_same_results(
    any_start: tuple[Runner, Path], seed: int
) -> None:
    """Registers and unknown values are random, and each result is still as expected."""
    runner, folder = any_start
    arguments = ("+verilator+rand+reset+2", f"+verilator+seed+{seed}")
    found = simulate(runner, folder, f"seed{seed}", *arguments, only=ANY_START)
    assert len(found) == 2, f"{', '.join(found) or 'nothing'} was run"
    failures = [failure for each in found.values() for failure in each]
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
