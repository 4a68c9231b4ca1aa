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
from sbnn_hw.rtl_gen.candidate import ESTIMATES, Arrival, Place, candidates_of, choose, meet
from sbnn_hw.rtl_gen.lower import comes_by_pixels, is_shared
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
    raster = comes_by_pixels(network, options)
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival.of_input(raster, beats)}
    stages, blocks = {}, 0.0
    for number, stage in enumerate(network.stages):
        origins = list(dict.fromkeys(stage.sources))
        with naming(f"Stage {stage.name}: "):
            meeting = meet(
                stage.name, [network.edge_from(origin) for origin in origins],
                [arrivals[origin] for origin in origins], find_family(family),
            )
            place = Place(
                stage, network.edges_into(number), network.edge_from(number), meeting.arrival,
                network.read[number], options, shared=is_shared(network, number),
            )
            if (known := ESTIMATES.get(stage.operation.kind)) is not None:
                found = known(place, searched)
                arrivals[number] = found.arrival
                tables, more = found.tables, found.blocks
            else:
                laid_out = choose(candidates_of(place))
                after = meeting.arrival.after(laid_out.parts.values())
                arrivals[number] = laid_out.arrival or after
                tables, more = float(laid_out.cost.tables), laid_out.cost.blocks
        queues = sum((part.cost for part in meeting.parts.values()), Cost())
        stages[stage.name] = round(tables + queues.tables)
        blocks += more + queues.blocks
    return Estimate(stages, blocks)
