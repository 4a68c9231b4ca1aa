"""What a network will take of an FPGA, told from its netlist alone.

Neurons are looked up in the heaps' exact costs; what is shared between them is not known yet, so
the estimate is a little high. An operation that has no estimate is laid out. Generating the
hardware gives the count itself.
"""

from dataclasses import dataclass

from sbnn_hw.cost.cost import Cost
from sbnn_hw.cost.prices import SEARCHED
from sbnn_hw.errors import naming
from sbnn_hw.families import find_family
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.candidate import ESTIMATES, Arrival, candidates_of, choose
from sbnn_hw.rtl_gen.lower import comes_by_pixels, hold_of, place_of
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
    options = Options(family=family)
    raster = comes_by_pixels(network, options)
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival.of_input(raster, beats)}
    costs = {}
    for number, stage in enumerate(network.stages):
        with naming(f"Stage {stage.name}: "):
            place, meeting = place_of(network, number, arrivals, options)
            if (known := ESTIMATES.get(stage.operation.kind)) is not None:
                found = known(place, searched)
                cost, arrivals[number] = found.cost, found.arrival
            else:
                laid_out = choose(candidates_of(place))
                after = meeting.arrival.after(laid_out.parts.values())
                cost, arrivals[number] = laid_out.cost, laid_out.arrival or after
        queues = sum((part.cost for part in meeting.parts.values()), Cost())
        costs[stage.name] = cost + queues
    # What holds pixels back belongs to the first stage.
    hold = hold_of(network, arrivals[len(network.stages) - 1], beats, find_family(family))
    if hold is not None:
        costs[network.stages[0].name] += hold.cost
    return Estimate(costs)
