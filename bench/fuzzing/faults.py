"""Faults to plant in programs, their evaluator and the lowering: the fuzzer must find each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from sbnn_hw.engine import evaluate, folded
from sbnn_hw.rtl_gen import layers

__all__ = ["FAULTS", "planted"]

#: What stands in for a function: it is given that function.
Change = Callable[[Callable[..., Any]], Callable[..., Any]]


def _escape(take_steps: Callable[..., Any]) -> Callable[..., Any]:
    def changed(slots: Any, bits: int) -> Any:
        steps, taps, inverted = take_steps(slots, bits)
        return steps + np.cumsum(~taps, axis=0), taps, inverted

    return changed


def _polarity(take_steps: Callable[..., Any]) -> Callable[..., Any]:
    def changed(slots: Any, bits: int) -> Any:
        steps, taps, inverted = take_steps(slots, bits)
        return steps, taps, np.zeros_like(inverted)

    return changed


def _threshold(header: Callable[..., Any]) -> Callable[..., Any]:
    def changed(shape: Any, slots: Any) -> Any:
        starts, flips, count = header(shape, slots)
        return starts - 1, flips, count

    return changed


def _flip(header: Callable[..., Any]) -> Callable[..., Any]:
    def changed(shape: Any, slots: Any) -> Any:
        starts, flips, count = header(shape, slots)
        return starts, np.zeros_like(flips), count

    return changed


def _count(run: Callable[..., Any]) -> Callable[..., Any]:
    def changed(program: Any, values: Any) -> Any:
        shape = program.shape
        left = sorted({*range(shape.inputs)} - {*shape.fixed})
        if len(left) > 1:
            fixed = tuple(sorted((*shape.fixed, left[0])))
            program = replace(program, shape=replace(shape, fixed=fixed))
        return run(program, values)

    return changed


def _last(made: Callable[..., Any]) -> Callable[..., Any]:
    def changed(self: Any, scores: Any, *others: Any) -> None:
        made(self, scores, *others)
        self.classes = scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)

    return changed


def _tap(weigh_taps: Callable[..., Any]) -> Callable[..., Any]:
    def changed(taps: Any, values: Any) -> Any:
        heaps = weigh_taps(taps, values)
        longest = max(heaps, key=len)
        del longest[-1:]
        return heaps

    return changed


def _tie(compare: Callable[..., Any]) -> Callable[..., Any]:
    def changed(logic: Any, left: Any, right: Any, family: Any) -> Any:
        return compare(logic, right, left, family) ^ 1

    return changed


def _shared(made: Callable[..., Any]) -> Callable[..., Any]:
    def changed(self: Any, logic: Any, counted: Any, *others: Any) -> None:
        made(self, logic, counted[1:], *others)

    return changed


#: By name: what goes wrong, and what is changed where.
FAULTS: dict[str, tuple[str, Any, str, Change]] = {
    "escape": ("an escape moves on by one too many", evaluate, "take_steps", _escape),
    "polarity": ("inverted taps are read as they are", evaluate, "take_steps", _polarity),
    "threshold": ("a threshold is one too high", evaluate, "_header", _threshold),
    "count": ("Ξ's sum leaves an input out", folded, "evaluate", _count),
    "flip": ("flips are ignored", evaluate, "_header", _flip),
    "argmax": ("the last of several maxima wins", evaluate.Evaluated, "__init__", _last),
    "tap": ("a heap has lost a tap", layers, "weigh_taps", _tap),
    "tie": ("the later class wins a tie in tables", layers, "compare", _tie),
    "shared": ("q of tables leaves a bit out", layers.SharedSum, "__init__", _shared),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault for a while."""
    _, where, attribute, change = FAULTS[name]
    with patch.object(where, attribute, change(getattr(where, attribute))):
        yield
