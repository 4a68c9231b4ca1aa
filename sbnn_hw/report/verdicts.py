"""What a report says, in a word and a sentence: whether it agrees, keeps time, fits."""

from dataclasses import dataclass

from sbnn_hw.families import FAMILIES, FpgaFamily
from sbnn_hw.families.resources import Packing
from sbnn_hw.report.markup import SPACE, decimal, number
from sbnn_hw.report.schema import Available, Cells, Report, RoutedTiming

__all__ = ["Usage", "Verdict", "agreement", "bitstream", "cells", "fit", "timing", "usage"]

TABLES, FLIP_FLOPS, BLOCK_RAM = "LUTs", "Flip-flops", "Block RAM"

#: Cells whose number a board bounds, by their names in print.
BOUNDED = TABLES, FLIP_FLOPS, BLOCK_RAM


@dataclass(frozen=True)
class Verdict:
    """A judgement: ``good``, ``bad`` or ``open``, with a headline and the reason."""

    state: str
    headline: str
    reason: str


@dataclass(frozen=True)
class Usage:
    """Cells of one kind: the core's, the shell's, and what the board has.

    ``estimated`` tells that nothing was counted yet and the numbers come from the heaps' costs.
    """

    name: str
    core: float | None
    shell: float | None
    total: float
    capacity: float | None
    estimated: bool = False

    @property
    def over(self) -> bool:
        """Whether the board has fewer."""
        return self.capacity is not None and self.total > self.capacity


def agreement(report: Report) -> Verdict:
    """Judge whether hardware and software agree; nothing compared is no agreement."""
    found = report.agreement
    if found is None:
        return Verdict("open", "Not simulated", "Hardware and software were not compared.")
    vectors, wrong = found.vectors, found.mismatches
    if not vectors:
        return Verdict("open", "Nothing compared", "The simulation had no images.")
    faults = []
    if wrong:
        faults.append(f"{number(wrong)} of {number(vectors)} images differ")
    if found.violations:
        faults.append(
            f"the output violates the stream protocol in {number(found.violations)} cycles"
        )
    for name, took, expected in (
        ("latency", found.latency, report.latency_cycles),
        ("interval", found.interval, report.initiation_interval),
    ):
        if took is not None and expected is not None and took != expected:
            faults.append(f"{name} is {number(took)} cycles, not {number(expected)}")
    measured, static = report.bops.measured, report.bops.static
    if measured is not None and static is not None and measured != static:
        faults.append(f"{number(measured)} operations measured, not {number(static)}")
    if faults:
        reason = "; ".join(faults)
        headline = "Hardware and software differ" if wrong else "Simulation found a fault"
        return Verdict("bad", headline, reason[0].upper() + reason[1:] + ".")
    compared = "class and scores" if found.scores else "class"
    return Verdict(
        "good",
        "Hardware equals software",
        f"{number(vectors)} of {number(vectors)} images equal in {compared}.",
    )


def timing(report: Report) -> Verdict:
    """Judge whether the design keeps its clock; a tool's word and its Fmax must both say so."""
    found = report.timing or RoutedTiming()
    target, fmax = report.clock_mhz, report.fmax_mhz
    slow = target is not None and fmax is not None and fmax < target
    clock = "its clock" if target is None else f"{decimal(target)}{SPACE}MHz"
    if found.met is False or slow:
        reached = "" if fmax is None else f" It reaches {decimal(fmax)}{SPACE}MHz."
        worst = f" Worst path: {found.worst}." if found.worst else ""
        return Verdict("bad", "Timing not met", f"The design misses {clock}.{reached}{worst}")
    if found.met is None and (target is None or fmax is None):
        why = "No tool has placed and routed the design."
        if report.board is None and report.missing:
            # Without a board the timing is all that can be missing.
            why = _sentence(report.missing)
        return Verdict("open", "Timing not measured", why)
    reached = "" if fmax is None else f", with an Fmax of {decimal(fmax)}{SPACE}MHz"
    return Verdict("good", "Timing met", f"The design meets {clock}{reached}.")


def cells(report: Report) -> list[tuple[str, float | None, float | None, float | None]]:
    """Return how many cells of each kind the core and the whole design take, and the part has."""
    core, design = report.core, report.design or Cells()
    capacity = report.capacity or Available()
    return [
        (TABLES, core.luts, design.luts, capacity.luts),
        (FLIP_FLOPS, core.ffs, design.ffs, capacity.ffs),
        (BLOCK_RAM, core.bram, design.bram, capacity.bram),
        ("Carry cells", core.carries, design.carries, None),
        ("DSP blocks", core.dsps, design.dsps, None),
    ]


def usage(report: Report) -> list[Usage]:
    """Return what is known of the cells that a board bounds.

    Where only an estimate is there, it stands for the tables.
    """
    guess = report.estimate
    rows = []
    for name, own, total, bound in cells(report):
        if name not in BOUNDED:
            continue
        if total is not None:
            # Synthesis of the whole may find savings in the core: the rest is never below zero.
            shell = None if own is None else max(0, total - own)
            rows.append(Usage(name, None if own is None else min(own, total), shell, total, bound))
        elif own is not None:
            rows.append(Usage(name, own, None, own, bound))
        elif name == TABLES and guess is not None and guess.luts is not None:
            rows.append(Usage(name, guess.core, guess.shell, guess.luts, bound, estimated=True))
    return rows


def fit(report: Report) -> Verdict:
    """Judge whether the design fits the board."""
    rows = usage(report)
    bounded = [row for row in rows if row.capacity is not None]
    over = [row for row in bounded if row.over]
    if over:
        needs = ", ".join(
            f"{number(row.total)} of {number(row.capacity or 0)} {_within(row.name)}"
            for row in over
        )
        return Verdict("bad", "Does not fit", f"Needs {needs}.")
    tables = next((row for row in bounded if row.name == TABLES), None)
    if tables is None:
        what = "The size of this part is not known." if rows else "Nothing was counted."
        return Verdict("open", "Fit not known", what)
    needs = f"{number(tables.total)} of {number(tables.capacity or 0)} LUTs"
    family = FAMILIES.get(report.family or "")
    packing = family.packing if isinstance(family, FpgaFamily) else Packing()
    # Where a cell has one table and one register, tables alone do not tell.
    if packing.cell and not tables.estimated:
        cells = (report.placed or {}).get(packing.cell)
        if cells is None:
            return Verdict("open", "Should fit", f"Not placed yet: {needs}.")
        needs = f"{number(cells[0])} of {number(cells[1])} {packing.unit}"
    if tables.estimated:
        return Verdict("open", "Should fit", f"An estimate before synthesis: {needs}.")
    return Verdict("good", "Fits", f"{needs}.")


def bitstream(report: Report) -> Verdict:
    """Tell whether there is a bitstream."""
    if report.bitstream is not None:
        return Verdict("good", "Bitstream made", report.bitstream)
    if report.board is None:
        return Verdict("open", "No bitstream", "A part without a board has no pins.")
    why = report.missing or "The build ended before that step"
    return Verdict("open", "No bitstream", _sentence(why))


def _sentence(words: str) -> str:
    return words if words.endswith(".") else f"{words}."


def _within(name: str) -> str:
    """Return a kind of cell as it stands inside a sentence."""
    return name if name.isupper() or name == TABLES else name[0].lower() + name[1:]
