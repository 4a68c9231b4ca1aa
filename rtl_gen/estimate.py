"""What a network will take of an FPGA, told from its netlist alone.

Neurons are looked up in the heaps' exact costs; what is shared between them is not known yet, so
the estimate is a little high. An operation that has no estimate is laid out. Generating the
hardware gives the count itself.
"""

from dataclasses import dataclass, replace

import numpy as np

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import SEARCHED
from sbnn_hw.errors import naming
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.candidate import (
    ESTIMATES,
    Arrival,
    candidates_of,
    choose,
    require_hardware,
)
from sbnn_hw.rtl_gen.lower import comes_by_pixels, place_of, require_chain
from sbnn_hw.rtl_gen.options import Options

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """What a network will take, by the stage's name; registers are not told beforehand."""

    costs: dict[str, Cost]

    @property
    def stages(self) -> dict[str, int]:
        """Look-up tables by the stage's name."""
        return {name: cost.tables for name, cost in self.costs.items()}

    @property
    def luts(self) -> int:
        """Tables in all."""
        return sum(self.stages.values())

    @property
    def blocks(self) -> float:
        """Blocks of memory in all."""
        return sum(cost.blocks for cost in self.costs.values())


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
    require_chain(network)
    options = Options(family=family)
    # When values come does not matter here, only how far apart.
    arrivals = {INPUT: Arrival(comes_by_pixels(network, options), np.zeros(1, np.int64))}
    costs = {}
    for number, stage in enumerate(network.stages):
        place = place_of(network, number, arrivals, options)
        arrival = place.arrival
        with naming(f"Stage {stage.name}: "):
            require_hardware(place)
            if (known := ESTIMATES.get(stage.operation.kind)) is not None:
                found = known(place, searched)
                costs[stage.name] = found.cost
                arrivals[number] = replace(arrival, between=found.between, gathered=None)
            else:
                laid_out = choose(candidates_of(place))
                costs[stage.name] = laid_out.cost
                arrivals[number] = laid_out.arrival or arrival.after(laid_out.parts.values())
    return Estimate(costs)
