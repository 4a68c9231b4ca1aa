"""Ways to build a stage: values to choose among."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from sbnn_hw.rtl_gen.parts.join import Join, fit_queues
from sbnn_hw.rtl_gen.parts.part import Part, Times
from sbnn_hw.rtl_gen.parts.tables import Function, Tables

__all__ = [
    "CYCLES", "ESTIMATES", "Arrival", "Candidate", "Estimated", "Meeting", "Place",
    "candidates_of", "choose", "estimates", "gather", "meet", "realises",
]

Op = TypeVar("Op", bound=Operation)

#: Images, and cycles, for which images follow each other where the greatest leads are looked for.
#: What happens to an image depends on itself and on the next; the last has none. The cycles must
#: be more than one image takes from its last beat to its result.
SEVERAL, CYCLES = 4, 1024

#: Cycles between two beats that come slowly: all that one sets off is over before the next.
SLOW = 1 << 16


@dataclass(frozen=True, eq=False)
class Arrival:
    """How the values of an edge come.

    Parameters
    ----------
    raster : bool
        A pixel at a time; else all at once.
    times : array of int
        In which cycles they come, if one image comes by itself, a beat in every cycle.
    patterns : tuple of array of int
        In which cycles they come, if some images follow each other: a beat in every cycle; a beat
        now and then; the same, but each image's first beat directly behind the one before it.
    between : int
        The fewest cycles from one to the next.
    waits : bool
        Whether some may come with the next image's beats, not by themselves.
    gathered : tuple of str and Edge, optional
        The name of a stage that makes a vector of a map's pixels, and that map. It is left to the
        stage behind it whether the vector is made or the pixels are counted as they come.
    """

    raster: bool
    times: Times
    patterns: tuple[Times, ...]
    between: int = 1
    waits: bool = False
    gathered: tuple[str, Edge] | None = None

    @classmethod
    def of_input(cls, raster: bool, beats: int, cycles: int = CYCLES) -> "Arrival":
        """Return how the network's input comes, for so many cycles and some images more."""
        quick = np.arange((SEVERAL + -(-cycles // beats)) * beats)
        slow = SLOW * quick
        behind = slow - (SLOW - 1) * (quick // beats)
        return cls(raster, np.arange(beats), (quick, slow, behind))

    def after(self, parts: Iterable[Part]) -> "Arrival":
        """Return how the outputs of parts in a chain come."""
        times, patterns, between, waits = self.times, self.patterns, self.between, self.waits
        for part in parts:
            waits |= any(map(part.waits, patterns))
            times, between = part.times(times), part.gap(between)
            patterns = tuple(map(part.times, patterns))
        return replace(self, times=times, patterns=patterns, between=between, waits=waits,
                       gathered=None)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where a stage's sources meet.

    Parameters
    ----------
    parts : mapping of str to Part
        The join, by name; nothing where there is but one source.
    arrival : Arrival
        How what has met comes.
    """

    parts: Mapping[str, Join]
    arrival: Arrival


def meet(name: str, edges: Sequence[Edge], arrivals: Sequence[Arrival], family: Family) -> Meeting:
    """Return where different sources meet, with queues for whatever comes first."""
    first, *others = arrivals
    if not others:
        return Meeting({}, first)
    if any(each.gathered or each.raster != first.raster for each in arrivals):
        raise ModelRejected("it reads a map and a vector, which cannot meet in hardware")
    bits = [edge.bits * (edge.channels if first.raster else edge.size) for edge in edges]
    every = list(zip(*((each.times, *each.patterns) for each in arrivals), strict=True))
    join = fit_queues(bits, every, family)
    times, *patterns = map(join.meet, every)
    between, waits = min(each.between for each in arrivals), any(each.waits for each in arrivals)
    arrival = Arrival(first.raster, times, tuple(patterns), between, waits)
    return Meeting({f"{name}_join": join}, arrival)


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
    edges : tuple of Edge
        What it receives from each source.
    out : Edge
        What it hands on.
    arrival : Arrival
        How what it receives comes, from all sources together.
    read : array of bool, of the shape of ``out``
        Values that a later stage reads.
    options : Options
        How the network becomes hardware.
    alone : bool
        Whether it is the only stage, so that its output must be a register.
    shared : bool
        Whether several stages read it, or one that has other sources too.
    """

    stage: Stage
    edges: tuple[Edge, ...]
    out: Edge
    arrival: Arrival
    read: npt.NDArray[np.bool_]
    options: Options
    alone: bool = False
    shared: bool = False

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
    def edge(self) -> Edge:
        """What it receives from its only source."""
        (edge,) = self.edges
        return edge

    @property
    def values(self) -> int:
        """Values that come together from its only source."""
        return self._together(self.edge)

    @property
    def width(self) -> int:
        """Bits that come together."""
        return sum(self._together(edge) * edge.bits for edge in self._origins.values())

    @property
    def _origins(self) -> dict[int, Edge]:
        """Its different sources: one that it names twice comes once."""
        return dict(zip(self.stage.sources, self.edges, strict=True))

    @property
    def read_together(self) -> npt.NDArray[np.bool_]:
        """Of the values that it hands on together, those that a later stage reads."""
        read: npt.NDArray[np.bool_] = self.read.reshape(-1)
        if self.arrival.raster:
            read = np.logical_or.reduce(read.reshape(-1, self.out.channels))
        return read

    def _together(self, edge: Edge) -> int:
        return edge.channels if self.arrival.raster else edge.size

    def tables(self, width: int, function: Function, least: int = 1) -> Tables:
        """Return a function of some bits as tables."""
        return Tables(width, function, family=self.family,
                      levels_per_stage=self.options.levels_per_stage,
                      split_pairs=self.options.split_pairs, least=least)

    def split(self, bits: list[int]) -> list[list[int]]:
        """Part literals into the values of its only source."""
        (values,) = self.split_sources(bits)
        return values

    def split_sources(self, bits: list[int]) -> list[list[list[int]]]:
        """Part literals into the values of each source."""
        found, at = {}, 0
        for origin, edge in self._origins.items():
            end = at + self._together(edge) * edge.bits
            found[origin] = [bits[n : n + edge.bits] for n in range(at, end, edge.bits)]
            at = end
        return [found[source] for source in self.stage.sources]


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
    """What a stage will take, and how its outputs come, as far as that is known."""

    cost: Cost
    arrival: Arrival


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
    return min(candidates, key=lambda candidate: candidate.cost.area)
