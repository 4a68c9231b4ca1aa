"""When a design has stopped, and what it is waiting for: a sentence that names the stage.

Reads ``design.json`` as plain values and needs nothing of this project: a copy is written beside
each generated design, for its suite.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

__all__ = ["explain", "patience"]

Plain = Mapping[str, Any]


def patience(design: Plain, odds: float = 1.0) -> int:
    """Return the cycles after which a design in which nothing goes in or comes out has stopped.

    A result takes the latency at most; where images are held back, an interval more. Everything is
    allowed twice, and if source or sink hesitate, by so much more as ``odds`` say.
    """
    return int((2 * (design["latency"] + design["interval"]) + 50) / odds)


def explain(
    design: Plain, taken: int, given: int, counts: Mapping[str, int], waiting: Collection[str]
) -> str:
    """Say which stage of a design that has stopped gives no more words.

    ``taken`` and ``given`` are the words that went in and the results that came out; ``counts`` the
    words that each stage handed on, by its name. A stage that is ``waiting`` offers a word that is
    not taken, so that one behind it is to blame.
    """
    images = Fraction(taken, design["input"]["beats"])
    found = (
        _full_queue(design, counts, taken)
        or _closed_stage(design, counts, waiting)
        or _silent_stage(design, counts, images)
    )
    results = f"{given} of {-(-images.numerator // images.denominator)} results have come"
    if found is None:
        return f"{results}, and no stage that can be seen is to blame"
    return f"{results}: {found}"


def _full_queue(design: Plain, counts: Mapping[str, int], taken: int) -> str | None:
    """Name a queue that holds all that it can, for a source that must wait for it, if there is one.

    What a stage has taken and not handed on is in its queue or in its own pipeline.
    """
    for stage in design["stages"]:
        if stage["name"] not in counts:
            continue
        words = {
            source: (counts[source] if source else taken) - counts[stage["name"]]
            for source in stage["sources"]
            if not source or source in counts
        }
        if len(words) < 2 or min(words.values()) > stage["latency"]:
            continue
        for queue in stage["queues"]:
            waits = words.get(queue["source"], 0)
            if waits >= queue["depth"] and waits > min(words.values()):
                late = min(words, key=lambda source: words[source])
                return (
                    f"stage {stage['name']} waits for {_called(late)}, and its queue of "
                    f"{queue['depth']} for what comes from {_called(queue['source'])} is full"
                )
    return None


def _closed_stage(design: Plain, counts: Mapping[str, int], waiting: Collection[str]) -> str | None:
    """Name the last stage that does not take what is offered, and offers nothing itself.

    Parts that stop together may offer something or not when they are stopped; whatever stops them
    comes behind them.
    """
    for stage in reversed(design["stages"]):
        name = stage["name"]
        offered = [source for source in stage["sources"] if source in waiting]
        if name in counts and name not in waiting and offered:
            return (
                f"stage {name} has handed on {counts[name]} words, and does not take what comes "
                f"from {_called(offered[0])}"
            )
    return None


def _silent_stage(design: Plain, counts: Mapping[str, int], images: Fraction) -> str | None:
    """Name the first stage that has handed on less than it got."""
    done = {"": images}
    for stage in design["stages"]:
        name = stage["name"]
        before = min(done[source] for source in stage["sources"])
        done[name] = Fraction(counts[name], stage["words"]) if name in counts else before
        if done[name] < before:
            words = -(-before.numerator // before.denominator) * stage["words"]
            return f"stage {name} has handed on {counts[name]} of {words} words"
    return None


def _called(source: str) -> str:
    return f"stage {source}" if source else "the input"
