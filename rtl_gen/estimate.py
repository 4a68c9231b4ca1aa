"""What a network will take of an FPGA, told from its netlist alone.

Neurons are looked up in the heaps' exact costs; what is shared between them is not known yet, so
the estimate is a little high. An operation that has no estimate is laid out. Generating the
hardware gives the count itself.
"""

from dataclasses import dataclass, replace

import numpy as np

from sbnn_hw.cost.prices import SEARCHED
from sbnn_hw.errors import naming
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.candidate import (
    ESTIMATES,
    Arrival,
    Place,
    candidates_of,
    choose,
    require_hardware,
)
from sbnn_hw.rtl_gen.lower import comes_by_pixels
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """What a network will take.

    Parameters
    ----------
    stages : dict of str to int
        Look-up tables by the stage's name.
    blocks : float
        Blocks of memory.
    """

    stages: dict[str, int]
    blocks: float = 0.0

    @property
    def luts(self) -> int:
        """Tables in all."""
        return sum(self.stages.values())


def estimate(network: Network, family: str, *, searched: int = SEARCHED) -> Estimate:
    """Estimate what a network takes, without a shell.

    Parameters
    ----------
    network : Network
        What would be built.
    family : str
        For which FPGAs.
    searched : int
        The largest fan-in that is looked up; above it the cost is taken to grow evenly.
    """
    options = Options(family=family)
    # When values come does not matter here, only how far apart.
    arrivals = {INPUT: Arrival(comes_by_pixels(network, options), np.zeros(1, np.int64))}
    stages, blocks = {}, 0.0
    for number, stage in enumerate(network.stages):
        source, *_ = stage.sources
        arrival = arrivals[source]
        place = Place(
            stage, network.edge_from(source), network.edge_from(number), arrival,
            network.read[number], options,
        )
        with naming(f"Stage {stage.name}: "):
            require_hardware(place)
        if (known := ESTIMATES.get(stage.operation.kind)) is not None:
            found = known(place, searched)
            arrivals[number] = replace(arrival, between=found.between, gathered=None)
            tables, more = found.tables, found.blocks
        else:
            laid_out = choose(candidates_of(place))
            arrivals[number] = laid_out.arrival or arrival.after(laid_out.parts.values())
            tables, more = laid_out.cost.tables, laid_out.cost.blocks
        stages[stage.name] = round(tables)
        blocks += more
    return Estimate(stages, blocks)
