"""From the stages of a netlist to cores in a chain."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import sbnn_hw.rtl_gen.stages  # noqa: F401  # enters the hardware of all operations
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.netlist import INPUT, Edge, Network, Stage
from sbnn_hw.rtl_gen.candidate import Arrival, Candidate, Place, candidates_of, choose
from sbnn_hw.rtl_gen.core import Core
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Lowered", "Options", "lower", "lower_stage"]

#: Names that the module around the cores has for itself.
_TAKEN = ("clk", "rst", "enable")


@dataclass(frozen=True, eq=False)
class Lowered:
    """The cores of a network.

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
    def cores(self) -> dict[str, Core]:
        """All cores by name, in order."""
        return {name: core for each in self.chosen.values() for name, core in each.parts.items()}

    @property
    def connections(self) -> dict[str, int]:
        """For each stage, the connections that were wired."""
        return {name: each.connections for name, each in self.chosen.items()}


def lower(network: Network, options: Options) -> Lowered:
    """Return the cores that compute a network."""
    _require_chain(network)
    windows = any(stage.operation.windowed for stage in network.stages)
    if windows and options.input == "image":
        raise UsageError(
            "A network with windows takes its input one pixel per clock, not one image; use "
            "--input pixel or auto"
        )
    raster = (windows or options.input == "pixel") and len(network.input.shape) == 3
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival(raster, np.arange(beats))}
    chosen: dict[str, Candidate] = {}
    names: set[str] = set()
    for number, stage in enumerate(network.stages):
        (source,) = stage.sources
        place = Place(
            stage, network.edge_from(source), network.edge_from(number), arrivals[source],
            network.read[number], options,
        )
        try:
            found = choose(candidates_of(place))
            _check_names(found, names)
        except ModelRejected as error:
            raise ModelRejected(f"Stage {stage.name}: {error}") from None
        chosen[stage.name] = found
        arrivals[number] = found.arrival or arrivals[source].after(found.parts.values())
    last = network.edge_from(len(network.stages) - 1)
    return Lowered(
        chosen,
        beats,
        latency=int(arrivals[len(network.stages) - 1].times[-1]),
        index_bits=max(1, (last.channels - 1).bit_length()),
        score_bits=last.bits,
    )


def lower_stage(stage: Stage, edge: Edge, options: Options) -> dict[str, Core]:
    """Return the cores that compute one stage by itself."""
    out = stage.operation.infer(edge)
    arrival = Arrival(len(edge.shape) == 3, np.arange(edge.size // edge.channels))
    place = Place(stage, edge, out, arrival, np.ones(out.shape, bool), options, alone=True)
    parts = choose(candidates_of(place)).parts
    if not parts or out.signed:
        raise ValueError(f"Stage must compute bits by itself, not {stage.operation.kind}")
    return dict(parts)


def _require_chain(network: Network) -> None:
    """Refuse what is no chain: cores have one input, and all stop together."""
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
