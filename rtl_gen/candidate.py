"""Ways to build a stage: values to choose among."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sbnn_hw.cost.cost import Cost
from sbnn_hw.errors import ModelRejected
from sbnn_hw.families import Family, find_family
from sbnn_hw.netlist import Edge, Operation, Stage
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.parts.gather import Gather
from sbnn_hw.rtl_gen.parts.part import Part, Times
from sbnn_hw.rtl_gen.parts.tables import Function, Tables

__all__ = [
    "ESTIMATES", "Arrival", "Candidate", "Estimated", "Place", "candidates_of", "choose",
    "estimates", "gather", "realises", "require_hardware",
]

Op = TypeVar("Op", bound=Operation)


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
    times: Times
    between: int = 1
    gathered: tuple[str, Edge] | None = None

    def after(self, parts: Iterable[Part]) -> "Arrival":
        """Return how the outputs of parts in a chain come."""
        times, between = self.times, self.between
        for part in parts:
            times, between = part.times(times), part.gap(between)
        return replace(self, times=times, between=between, gathered=None)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to build a stage.

    Parameters
    ----------
    parts : mapping of str to Part
        Parts in a chain, by name; the last one bears the stage's name. None where the stage is
        left to the one behind it.
    connections : int
        The connections that were wired, found by following the tables.
    counted : int
        The inputs that q is the sum of, where the stage reads q.
    arrival : Arrival, optional
        How its outputs come, where the parts do not tell.
    """

    parts: Mapping[str, Part]
    connections: int = 0
    counted: int = 0
    arrival: Arrival | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    @cached_property
    def cost(self) -> Cost:
        """What its parts take together."""
        return sum((part.cost for part in self.parts.values()), Cost())


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
    read: npt.NDArray[np.bool_]
    options: Options
    alone: bool = False

    def operation(self, kind: type[Op]) -> Op:
        """The stage's operation, which is of a kind that is known."""
        assert isinstance(self.stage.operation, kind)
        return self.stage.operation

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.stage.name

    @property
    def family(self) -> Family:
        """The family that is built for."""
        return find_family(self.options.family)

    @property
    def values(self) -> int:
        """Values that come together."""
        return self.edge.channels if self.arrival.raster else self.edge.size

    @property
    def width(self) -> int:
        """Bits that come together."""
        return self.values * self.edge.bits

    def tables(self, width: int, function: Function, least: int = 1) -> Tables:
        """Return a function of some bits as tables."""
        return Tables(width, function, family=self.family,
                      levels_per_stage=self.options.levels_per_stage,
                      split_pairs=self.options.split_pairs, least=least)

    def split(self, bits: list[int]) -> list[list[int]]:
        """Part literals into values."""
        size = self.edge.bits
        return [bits[n : n + size] for n in range(0, self.values * size, size)]


#: Yields the ways to build a stage.
Realise = Callable[[Place], Iterable[Candidate]]


@dataclass(frozen=True)
class _Realisation:
    function: Realise
    gathers: bool


_REALISATIONS: dict[str, _Realisation] = {}


def realises(kind: str, *, gathers: bool = False) -> Callable[[Realise], Realise]:
    """Make a function that yields candidates the hardware of an operation, by the kind's name.

    Parameters
    ----------
    kind : str
        The operation's kind.
    gathers : bool
        Whether it sees to it itself that pixels become a vector, where it reads one that is made of
        pixels. Else the vector is made in front of it.
    """
    def enter(function: Realise) -> Realise:
        known = _REALISATIONS.get(kind)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"Kind {kind!r} must have one realisation, not two")
        _REALISATIONS[kind] = _Realisation(function, gathers)
        return function

    return enter


@dataclass(frozen=True)
class Estimated:
    """What a stage will take, and the fewest cycles between two of its outputs."""

    cost: Cost
    between: int = 1


#: Estimates a stage from its netlist; heaps are looked up to a fan-in, and grow evenly above it.
Estimator = Callable[[Place, int], Estimated]

#: By the operation's kind. What has none is laid out.
ESTIMATES: dict[str, Estimator] = {}


def estimates(kind: str) -> Callable[[Estimator], Estimator]:
    """Make a function the estimate of an operation, by the kind's name."""
    def enter(function: Estimator) -> Estimator:
        known = ESTIMATES.setdefault(kind, function)
        if known.__module__ != function.__module__:
            raise ValueError(f"Kind {kind!r} must have one estimate, not two")
        ESTIMATES[kind] = function
        return function

    return enter


def gather(place: Place) -> dict[str, Part]:
    """Return what makes a vector of pixels, if the stage reads one that is made of them."""
    if place.arrival.gathered is None:
        return {}
    name, edge = place.arrival.gathered
    return {name: Gather(edge.size // edge.channels, edge.channels * edge.bits, place.family)}


#: Operations whose hardware is for bits and pixels alone: netlists of the first schema.
_WITHOUT_STREAMS = ("encode", "max_pool2d", "scores")


def require_hardware(place: Place) -> None:
    """Refuse a stage that no hardware is generated for."""
    kind = place.stage.operation.kind
    if kind not in _REALISATIONS:
        raise ModelRejected(f"no hardware is generated for the operation {kind!r}")
    if kind in _WITHOUT_STREAMS and place.stage.operation.needs(place.edge) > 1:
        raise ModelRejected(
            f"no hardware is generated for the operation {kind!r} on integer streams"
        )


def candidates_of(place: Place) -> list[Candidate]:
    """Return the ways to build a stage."""
    require_hardware(place)
    kind = place.stage.operation.kind
    realisation = _REALISATIONS[kind]
    before = {} if realisation.gathers else gather(place)
    return [
        replace(candidate, parts={**before, **candidate.parts})
        for candidate in realisation.function(place)
    ]


def choose(candidates: Iterable[Candidate]) -> Candidate:
    """Return the candidate that takes least, the first of several that take the same."""
    return min(candidates, key=lambda candidate: candidate.cost.area)
