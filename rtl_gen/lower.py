"""From the stages of a netlist to parts in islands."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import sbnn_hw.rtl_gen.stages  # noqa: F401  # enters the hardware of all operations
from sbnn_hw.cost.cost import Cost
from sbnn_hw.errors import ModelRejected, UsageError, naming
from sbnn_hw.netlist import INPUT, Edge, Network, Stage
from sbnn_hw.rtl_gen.candidate import Arrival, Candidate, Place, candidates_of, choose
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.rtl_gen.parts.part import Part

__all__ = [
    "Lowered", "Options", "comes_by_pixels", "lower", "lower_stage", "place_of", "require_chain",
]

#: Names that the module around the cores has for itself.
_TAKEN = ("clk", "rst", "enable")


@dataclass(frozen=True, eq=False)
class Lowered:
    """The parts of a network.

    Parameters
    ----------
    chosen : mapping of str to Candidate
        How each stage is built, in order.
    beats : int
        Inputs that make an image.
    latency : int
        Cycles from the first of them to the result, if they come in every cycle.
    index_bits, score_bits : int
        Bits of the class's number, and of each score.
    """

    chosen: Mapping[str, Candidate]
    beats: int
    latency: int
    index_bits: int
    score_bits: int

    @property
    def parts(self) -> dict[str, Part]:
        """All parts by name, in order."""
        return {name: part for each in self.chosen.values() for name, part in each.parts.items()}

    @property
    def islands(self) -> tuple[dict[str, Part], ...]:
        """Parts that stop and start together; a stream joins each island to the next.

        All that is generated today is one island (docs/decisions/0007-one-stall.md).
        """
        return (self.parts,)

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
    require_chain(network)
    raster = comes_by_pixels(network, options)
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival(raster, np.arange(beats))}
    chosen: dict[str, Candidate] = {}
    names: set[str] = set()
    for number, stage in enumerate(network.stages):
        place = place_of(network, number, arrivals, options)
        with naming(f"Stage {stage.name}: "):
            found = choose(candidates_of(place))
            _check_names(found, names)
        chosen[stage.name] = found
        arrivals[number] = found.arrival or place.arrival.after(found.parts.values())
    last = network.edge_from(len(network.stages) - 1)
    return Lowered(
        chosen,
        beats,
        latency=int(arrivals[len(network.stages) - 1].times[-1]),
        index_bits=max(1, (last.channels - 1).bit_length()),
        score_bits=last.bits,
    )


def place_of(
    network: Network, number: int, arrivals: Mapping[int, Arrival], options: Options
) -> Place:
    """Return where a stage of a chain stands, given how the outputs of each stage come."""
    (source,) = network.stages[number].sources
    return Place(
        network.stages[number], network.edge_from(source), network.edge_from(number),
        arrivals[source], network.read[number], options,
    )


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
    arrival = Arrival(len(edge.shape) == 3, np.arange(edge.size // edge.channels))
    place = Place(stage, edge, out, arrival, np.ones(out.shape, bool), options, alone=True)
    parts = choose(candidates_of(place)).parts
    if not parts or out.signed:
        raise ValueError(f"Stage must compute bits by itself, not {stage.operation.kind}")
    return dict(parts)


def require_chain(network: Network) -> None:
    """Refuse what is no chain: parts have one input, and all stop together."""
    for number, stage in enumerate(network.stages):
        if stage.sources != (number - 1,):
            raise ModelRejected(
                f"Stage {stage.name} does not read the stage in front of it alone, and hardware "
                f"is only generated for chains of stages"
            )


def _check_names(candidate: Candidate, names: set[str]) -> None:
    for name in candidate.parts:
        if name in _TAKEN or "__" in name:
            raise ModelRejected("its name is also the name of a port; rename it")
        if name in names:
            raise ModelRejected(f"its part {name} has the name of another stage; rename that stage")
        names.add(name)
