"""From the stages of a netlist to parts in islands, each joined to those that it reads."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import sbnn_hw.rtl_gen.stages  # noqa: F401  # enters the hardware of all operations
from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine.chain import first_foldable
from sbnn_hw.engine.folded import Folded, fold
from sbnn_hw.errors import ModelRejected, UsageError, naming
from sbnn_hw.families import Family, find_family
from sbnn_hw.netlist import INPUT, Edge, Flatten, Network, Stage
from sbnn_hw.rtl_gen.candidate import (
    CYCLES,
    Arrival,
    Candidate,
    Meeting,
    Place,
    candidates_of,
    choose,
    meet,
)
from sbnn_hw.rtl_gen.graph import OUTSIDE, Graph
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.parts.hold import HOLD, Hold
from sbnn_hw.rtl_gen.parts.part import Part

__all__ = [
    "Lowered", "Options", "comes_by_pixels", "hold_of", "is_shared", "lower", "lower_stage",
    "place_of",
]

#: Names that the module around the cores has for itself.
_TAKEN = ("clk", "rst", "enable")

#: Names that stand beside the cores where an engine follows them.
_BESIDE = ("engine", "spread")


@dataclass(frozen=True, eq=False)
class Lowered:
    """The parts of a network.

    Parameters
    ----------
    chosen : mapping of str to Candidate
        How each stage is built, in order.
    reads : mapping of str to tuple of str
        For each part, by name, those that it reads.
    beats : int
        Inputs that make an image.
    held : int
        How many of them must have come before an image begins that follows another; 0 if none is
        held back.
    latency : int
        Cycles from the first of them to the result, if they come in every cycle.
    index_bits, score_bits : int
        Bits of the class's number, and of each score.
    engine : Folded, optional
        What computes the stages behind all parts.
    arrival : Arrival, optional
        How what the last part gives comes, if there are parts.
    pause : int
        Cycles that an image takes to come through the parts in front of an engine.
    """

    chosen: Mapping[str, Candidate]
    reads: Mapping[str, tuple[str, ...]]
    beats: int
    held: int
    latency: int
    index_bits: int
    score_bits: int
    engine: Folded | None = None
    arrival: Arrival | None = None
    pause: int = 0

    @property
    def width_in(self) -> int:
        """Bits of an input."""
        if self.chosen or self.engine is None:
            return self.graph.width_in
        return self.engine.shape.value_bits

    @property
    def interval(self) -> int:
        """Cycles between results."""
        return self.beats if self.engine is None else max(self.pause, self.engine.interval)

    @property
    def parts(self) -> dict[str, Part]:
        """All parts by name, in order."""
        return {name: part for each in self.chosen.values() for name, part in each.parts.items()}

    @property
    def graph(self) -> Graph:
        """All parts, and what each reads."""
        return Graph(self.parts, self.reads)

    @property
    def islands(self) -> tuple[Graph, ...]:
        """Parts that stop and start together; a stream joins each island to the next.

        All that is generated today is one island (docs/decisions/0007-one-stall.md).
        """
        return (self.graph,)

    @cached_property
    def cost(self) -> Cost:
        """What all parts take together."""
        return sum((each.cost for each in self.chosen.values()), Cost())

    @property
    def connections(self) -> dict[str, int]:
        """For each stage, the connections that were wired."""
        return {name: each.connections for name, each in self.chosen.items()}


def lower(network: Network, options: Options) -> Lowered:
    """Return the parts that compute a network."""
    if options.form != "unrolled":
        return _lower_folded(network, options)
    found, cycles = _lower(network, options, CYCLES), CYCLES
    while _meets(network) and found.latency - found.beats > cycles:
        # Queues were sized for fewer images than are on their way at a time.
        cycles = 2 * found.latency
        found = _lower(network, options, cycles)
    return found


def _lower_folded(network: Network, options: Options) -> Lowered:
    """Return an engine that computes a network from a stage on, and the parts in front of it."""
    first = _first_folded(network, options)
    engine = fold(
        network, form=options.form, lanes=options.lanes, loadable=options.loadable, first=first
    )
    shape = engine.shape
    if not first:
        return Lowered(
            {}, {}, shape.values, 0, engine.latency, shape.index_bits, shape.score_bits, engine
        )
    for stage in network.stages[:first]:
        if len(set(stage.sources)) > 1:
            raise ModelRejected(
                f"Stage {stage.name}: streams that meet cannot stand in front of an engine; unroll "
                "the whole network"
            )
    front = _lower(network, options, CYCLES, first)
    assert front.arrival is not None
    times = front.arrival.times
    # Each word stops what is in front, but for a cycle, until its values have been taken.
    stops = len(times) * (shape.values // len(times) * engine.pace - 1)
    entered = int(times[-1]) + stops
    latency = entered + engine.latency - (shape.values - 1) * engine.pace
    # The next image's first word may come while the last word of this one is filled up.
    apart = int(front.arrival.patterns[0][len(times)] - front.arrival.patterns[0][len(times) - 1])
    pads = 0 if shape.integers else -shape.inputs % shape.lanes
    pause = front.beats + stops + max(0, pads + 1 - apart)
    return replace(
        front, latency=latency, index_bits=shape.index_bits, score_bits=shape.score_bits,
        engine=engine, pause=pause,
    )


def _first_folded(network: Network, options: Options) -> int:
    """Return the number of the first stage in an engine."""
    names = [stage.name for stage in network.stages]
    if not options.folded:
        first = first_foldable(network)
        if first == len(names):
            # Say why the last stage cannot be folded.
            first -= 1
    elif options.folded in names:
        first = names.index(options.folded)
    else:
        raise UsageError(f"Network has no stage {options.folded!r} to fold from; see sbnn-hw info")
    # What is in front gives pixels; an engine takes them one by one in any case.
    while first and isinstance(network.stages[first - 1].operation, Flatten):
        first -= 1
    return first


def _meets(network: Network) -> bool:
    """Return whether some stage has different sources."""
    return any(len(set(stage.sources)) > 1 for stage in network.stages)


def _lower(
    network: Network, options: Options, cycles: int, stop: int | None = None
) -> Lowered:
    """Return the parts of all stages, or of those in front of one."""
    whole = stop is None
    stop = len(network.stages) if stop is None else stop
    raster = comes_by_pixels(network, options)
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival.of_input(raster, beats, cycles)}
    # The part that gives what each stage hands on.
    ends = {INPUT: OUTSIDE}
    chosen: dict[str, Candidate] = {}
    reads: dict[str, tuple[str, ...]] = {}
    for number, stage in enumerate(network.stages[:stop]):
        origins = list(dict.fromkeys(stage.sources))
        with naming(f"Stage {stage.name}: "):
            place, meeting = place_of(network, number, arrivals, options)
            found = choose(candidates_of(place))
            arrivals[number] = found.arrival or meeting.arrival.after(found.parts.values())
            found = replace(found, parts={**meeting.parts, **found.parts})
            _check_names(found, reads, () if whole else _BESIDE)
        chosen[stage.name] = found
        before = tuple(ends[origin] for origin in origins)
        for name in found.parts:
            reads[name], before = before, (name,)
        (ends[number],) = before
    last, results = network.edge_from(stop - 1), arrivals[stop - 1]
    latency, held = int(results.times[-1]), 0
    hold = hold_of(network, results, beats, find_family(options.family))
    if hold is not None:
        chosen, reads = _behind(hold, network.stages[0].name, chosen, reads)
        latency, held = latency + hold.latency, hold.needed
    return Lowered(
        chosen,
        reads,
        beats,
        held,
        latency=latency,
        index_bits=max(1, (last.channels - 1).bit_length()),
        score_bits=last.bits,
        arrival=results,
    )


def place_of(
    network: Network, number: int, arrivals: Mapping[int, Arrival], options: Options
) -> tuple[Place, Meeting]:
    """Return where a stage stands and how its sources meet, given how their outputs come."""
    stage = network.stages[number]
    origins = list(dict.fromkeys(stage.sources))
    meeting = meet(
        stage.name, [network.edge_from(origin) for origin in origins],
        [arrivals[origin] for origin in origins], find_family(options.family),
    )
    place = Place(
        stage, network.edges_into(number), network.edge_from(number), meeting.arrival,
        network.read[number], options, shared=is_shared(network, number),
    )
    return place, meeting


def hold_of(network: Network, results: Arrival, beats: int, family: Family) -> Hold | None:
    """Return what holds pixels back, if results have to wait for those of the next image."""
    if not _meets(network) or not results.waits:
        return None
    bits = network.input.bits * network.input.size // beats
    # At full rate, a pixel of the next image comes in each cycle up to the result.
    ends = np.arange(1, len(results.patterns[0]) - 1) * beats - 1
    needed = int((results.patterns[0][: len(ends)] - ends).max())
    alone = int(results.times[-1]) - (beats - 1)
    return Hold(beats, bits, min(needed, beats), alone, family)


def _behind(hold: Hold, first: str, chosen: dict[str, Candidate],
            reads: dict[str, tuple[str, ...]],
            ) -> tuple[dict[str, Candidate], dict[str, tuple[str, ...]]]:
    """Put what holds pixels back in front of all that reads them, as the first stage's part."""
    if HOLD in reads:
        raise ModelRejected(f"Stage {HOLD} has the name of another part; rename it")
    moved = {name: tuple(read or HOLD for read in each) for name, each in reads.items()}
    parts = {HOLD: hold, **chosen[first].parts}
    return (chosen | {first: replace(chosen[first], parts=parts)},
            {HOLD: (OUTSIDE,), **moved})


def is_shared(network: Network, number: int) -> bool:
    """Return whether several stages read a stage, or one that has other sources too."""
    readers = [stage for stage in network.stages if number in stage.sources]
    return len(readers) > 1 or any(set(stage.sources) != {number} for stage in readers)


def comes_by_pixels(network: Network, options: Options) -> bool:
    """Whether a network takes its input one pixel per clock."""
    windows = any(stage.operation.windowed for stage in network.stages)
    if windows and options.input == "image":
        raise UsageError(
            "A network with windows takes its input one pixel per clock, not one image; use "
            "--input pixel or auto"
        )
    return (windows or options.input == "pixel") and len(network.input.shape) == 3


def lower_stage(stage: Stage, edge: Edge, options: Options) -> dict[str, Part]:
    """Return the parts that compute one stage by itself."""
    out = stage.operation.infer(edge)
    arrival = Arrival.of_input(len(edge.shape) == 3, edge.size // edge.channels)
    place = Place(stage, (edge,), out, arrival, np.ones(out.shape, bool), options, alone=True)
    parts = choose(candidates_of(place)).parts
    if not parts or stage.operation.scoring:
        raise ValueError(f"Stage must compute bits by itself, not {stage.operation.kind}")
    return dict(parts)


def _check_names(
    candidate: Candidate, names: Collection[str], beside: Collection[str] = ()
) -> None:
    for name in candidate.parts:
        if name in (*_TAKEN, *beside) or "__" in name:
            raise ModelRejected("its name is also the name of a port; rename it")
        if name in names:
            raise ModelRejected(f"its part {name} has the name of another stage; rename that stage")
