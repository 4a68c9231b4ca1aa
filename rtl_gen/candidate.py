"""Ways to build a stage: values to choose among."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Edge, Stage
from sbnn_hw.rtl_gen.core import Core, Tables
from sbnn_hw.rtl_gen.gather import Gather
from sbnn_hw.rtl_gen.heap import FAMILIES
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Arrival", "Candidate", "Place", "candidates_of", "choose", "gather", "realises"]


@dataclass(frozen=True, eq=False)
class Arrival:
    """How the values of an edge come.

    Parameters
    ----------
    raster : bool
        A pixel at a time; else all at once.
    times : array of int
        In which cycles they come, if one image comes by itself, a beat in every cycle.
    between : int
        The fewest cycles from one to the next.
    gathered : tuple of str and Edge, optional
        The name of a stage that makes a vector of a map's pixels, and that map. It is left to the
        stage behind it whether the vector is made or the pixels are counted as they come.
    """

    raster: bool
    times: np.ndarray
    between: int = 1
    gathered: tuple[str, Edge] | None = None

    def after(self, parts: Iterable[Core]) -> "Arrival":
        """Return how the outputs of cores in a chain come."""
        times, between = self.times, self.between
        for core in parts:
            times, between = core.times(times), core.gap(between)
        return replace(self, times=times, between=between, gathered=None)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to build a stage.

    Parameters
    ----------
    parts : mapping of str to Core
        Cores in a chain, by name; the last one bears the stage's name. None where the stage is
        left to the one behind it.
    connections : int
        The connections that were wired, found by following the tables.
    counted : int
        The inputs that q is the sum of, where the stage reads q.
    unread : tuple of int
        Bits that nothing reads and that are not built.
    arrival : Arrival, optional
        How its outputs come, where the parts do not tell.
    """

    parts: Mapping[str, Core]
    connections: int = 0
    counted: int = 0
    unread: tuple[int, ...] = ()
    arrival: Arrival | None = None

    def __post_init__(self):
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    @property
    def area(self) -> float:
        """What the cores take: a table comes with two registers."""
        tables = sum(core.tables for core in self.parts.values())
        registers = sum(core.registers for core in self.parts.values())
        return max(tables, registers / 2)


@dataclass(frozen=True, eq=False)
class Place:
    """Where a stage stands: what it reads, how that comes, and what of it is read.

    Parameters
    ----------
    stage : Stage
        What is built.
    edge, out : Edge
        What it receives, and hands on.
    arrival : Arrival
        How what it receives comes.
    read : array of bool, of the shape of ``out``
        Values that a later stage reads.
    options : Options
        How the network becomes hardware.
    alone : bool
        Whether it is the only stage, so that its output must be a register.
    """

    stage: Stage
    edge: Edge
    out: Edge
    arrival: Arrival
    read: np.ndarray
    options: Options
    alone: bool = False

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.stage.name

    @property
    def family(self):
        """The family's tables."""
        return FAMILIES[self.options.family]

    @property
    def values(self) -> int:
        """Values that come together."""
        return self.edge.channels if self.arrival.raster else self.edge.size

    @property
    def width(self) -> int:
        """Bits that come together."""
        return self.values * self.edge.bits

    def tables(self, width, function, least=1):
        """Return a function of some bits as a core."""
        return Tables(width, function, family=self.options.family,
                      levels_per_stage=self.options.levels_per_stage,
                      split_pairs=self.options.split_pairs, least=least)

    def split(self, bits):
        """Part literals into values."""
        size = self.edge.bits
        return [bits[n : n + size] for n in range(0, self.values * size, size)]


@dataclass(frozen=True)
class _Realisation:
    function: Callable[[Place], Iterable[Candidate]]
    gathers: bool


_REALISATIONS: dict[str, _Realisation] = {}


def realises(kind: str, *, gathers: bool = False):
    """Make a function that yields candidates the hardware of an operation, by the kind's name.

    Parameters
    ----------
    kind : str
        The operation's kind.
    gathers : bool
        Whether it sees to it itself that pixels become a vector, where it reads one that is made of
        pixels. Else the vector is made in front of it.
    """
    def enter(function):
        known = _REALISATIONS.get(kind)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"Kind {kind!r} must have one realisation, not two")
        _REALISATIONS[kind] = _Realisation(function, gathers)
        return function

    return enter


def gather(place: Place) -> dict[str, Core]:
    """Return what makes a vector of pixels, if the stage reads one that is made of them."""
    if place.arrival.gathered is None:
        return {}
    name, edge = place.arrival.gathered
    return {name: Gather(edge.size // edge.channels, edge.channels * edge.bits)}


def candidates_of(place: Place) -> list[Candidate]:
    """Return the ways to build a stage."""
    kind = place.stage.operation.kind
    if kind not in _REALISATIONS:
        raise ModelRejected(f"no hardware is generated for the operation {kind!r}")
    realisation = _REALISATIONS[kind]
    before = {} if realisation.gathers else gather(place)
    return [
        replace(candidate, parts={**before, **candidate.parts})
        for candidate in realisation.function(place)
    ]


def choose(candidates: Iterable[Candidate]) -> Candidate:
    """Return the candidate that takes least, the first of several that take the same."""
    return min(candidates, key=lambda candidate: candidate.area)
