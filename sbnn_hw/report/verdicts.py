"""What a report says, in a word and a sentence: whether it agrees, keeps time, fits."""

from dataclasses import dataclass
from typing import Any

from sbnn_hw.report.markup import SPACE, decimal, number

__all__ = ["Usage", "Verdict", "agreement", "bitstream", "fit", "timing", "usage"]

#: Cells whose number a board bounds, with their names in print.
BOUNDED = {"luts": "LUTs", "ffs": "Flip-flops", "bram": "Block RAM"}


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


def agreement(report: dict[str, Any]) -> Verdict:
    """Judge whether hardware and software agree; nothing compared is no agreement."""
    found = report["agreement"]
    if found is None:
        return Verdict("open", "Not simulated", "Hardware and software were not compared.")
    vectors, wrong = found["vectors"], found["mismatches"]
    if not vectors:
        return Verdict("open", "Nothing compared", "The simulation had no images.")
    faults = []
    if wrong:
        faults.append(f"{number(wrong)} of {number(vectors)} images differ")
    if found["violations"]:
        faults.append(
            f"the output violates the stream protocol in {number(found['violations'])} cycles"
        )
    for name, computed in (("latency", "latency_cycles"), ("interval", "initiation_interval")):
        measured, expected = found[name], report[computed]
        if None not in (measured, expected) and measured != expected:
            faults.append(f"{name} is {number(measured)} cycles, not {number(expected)}")
    measured, static = report["bops"]["measured"], report["bops"]["static"]
    if None not in (measured, static) and measured != static:
        faults.append(f"{number(measured)} operations measured, not {number(static)}")
    if faults:
        reason = "; ".join(faults)
        headline = "Hardware and software differ" if wrong else "Simulation found a fault"
        return Verdict("bad", headline, reason[0].upper() + reason[1:] + ".")
    compared = "class and scores" if found["scores"] else "class"
    return Verdict(
        "good",
        "Hardware equals software",
        f"{number(vectors)} of {number(vectors)} images equal in {compared}.",
    )


def timing(report: dict[str, Any]) -> Verdict:
    """Judge whether the design keeps its clock; a tool's word and its Fmax must both say so."""
    found = report["timing"] or {"met": None, "worst": None, "tool": None}
    target, fmax = report["clock_mhz"], report["fmax_mhz"]
    slow = None not in (target, fmax) and fmax < target
    clock = "its clock" if target is None else f"{decimal(target)}{SPACE}MHz"
    if found["met"] is False or slow:
        reached = "" if fmax is None else f" It reaches {decimal(fmax)}{SPACE}MHz."
        worst = f" Worst path: {found['worst']}." if found["worst"] else ""
        return Verdict("bad", "Timing not met", f"The design misses {clock}.{reached}{worst}")
    if found["met"] is None and (target is None or fmax is None):
        why = "No tool has placed and routed the design."
        if report["board"] is None and report["missing"]:
            # Without a board the timing is all that can be missing.
            why = _sentence(report["missing"])
        return Verdict("open", "Timing not measured", why)
    reached = "" if fmax is None else f", with an Fmax of {decimal(fmax)}{SPACE}MHz"
    return Verdict("good", "Timing met", f"The design meets {clock}{reached}.")


def usage(report: dict[str, Any]) -> list[Usage]:
    """Return what is known of the cells that a board bounds.

    Where only an estimate is there, it stands for the tables.
    """
    design = report["design"] or {}
    capacity = report["capacity"] or {}
    rows = []
    for key, name in BOUNDED.items():
        core, total = report[key], design.get(key)
        bound = capacity.get(key)
        if total is not None:
            # Synthesis of the whole may find savings in the core: the rest is never below zero.
            shell = None if core is None else max(0, total - core)
            core = None if core is None else min(core, total)
            rows.append(Usage(name, core, shell, total, bound))
        elif core is not None:
            rows.append(Usage(name, core, None, core, bound))
        elif key == "luts" and report["estimate"] and report["estimate"]["luts"] is not None:
            guess = report["estimate"]
            rows.append(
                Usage(name, guess["core"], guess["shell"], guess["luts"], bound, estimated=True)
            )
    return rows


def fit(report: dict[str, Any]) -> Verdict:
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
    tables = next((row for row in bounded if row.name == BOUNDED["luts"]), None)
    if tables is None:
        what = "The size of this part is not known." if rows else "Nothing was counted."
        return Verdict("open", "Fit not known", what)
    needs = f"{number(tables.total)} of {number(tables.capacity or 0)} LUTs"
    # A cell of an iCE40 has one table and one register: tables alone do not tell.
    if report["family"] == "ice40" and not tables.estimated:
        cells = (report["placed"] or {}).get("ICESTORM_LC")
        if cells is None:
            return Verdict("open", "Should fit", f"Not placed yet: {needs}.")
        needs = f"{number(cells[0])} of {number(cells[1])} logic cells"
    if tables.estimated:
        return Verdict("open", "Should fit", f"An estimate before synthesis: {needs}.")
    return Verdict("good", "Fits", f"{needs}.")


def bitstream(report: dict[str, Any]) -> Verdict:
    """Tell whether there is a bitstream."""
    if report["bitstream"] is not None:
        return Verdict("good", "Bitstream made", report["bitstream"])
    if report["board"] is None:
        return Verdict("open", "No bitstream", "A part without a board has no pins.")
    why = report["missing"] or "The build ended before that step"
    return Verdict("open", "No bitstream", _sentence(why))


def _sentence(words: str) -> str:
    return words if words.endswith(".") else f"{words}."


def _within(name: str) -> str:
    """Return a kind of cell as it stands inside a sentence."""
    return name if name.isupper() or name == "LUTs" else name[0].lower() + name[1:]
