"""What is known of the stages that an engine computes."""

from collections.abc import Iterator

from sbnn_hw.cost.cost import Cost
from sbnn_hw.design import StageDesign
from sbnn_hw.engine.folded import Folded
from sbnn_hw.families import find_family
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.rtl_gen.options import Options

__all__ = ["AHEAD", "describe_engine"]

#: Images that come in before the one in front of them is done: two halves of a memory hold them.
AHEAD = 2

#: Where an engine's signals are, below the top module.
_CORE = "engine.core"


def describe_engine(network: Network, engine: Folded, options: Options) -> Iterator[StageDesign]:
    """Yield what is known of the stages in an engine; the first layer bears what all of them take.

    All layers share the hardware, so that it cannot be told whose it is.
    """
    numbers = {layer.name: n for n, layer in enumerate(engine.chain.layers)}
    for number in range(engine.first, len(network.stages)):
        name = network.stages[number].name
        if name in numbers:
            yield _describe_layer(network, engine, numbers[name], options)
        else:
            yield _describe_front(network, engine, number)


def _describe_layer(network: Network, engine: Folded, n: int, options: Options) -> StageDesign:
    shape, layer = engine.shape, engine.chain.layers[n]
    edge, last = network.edge_from(layer.number), n == len(shape.layers) - 1
    lanes = shape.lanes
    size = len(layer.taps)
    order = tuple(place if place >= 0 else size for place in engine.program.orders[n].tolist())
    taps = "taps{}" if shape.bitmap else "lane{}.taps"
    width = lanes
    if last:
        width = shape.index_bits + (shape.classes * shape.score_bits if options.scores else 0)
    return StageDesign(
        name=layer.name,
        kind=network.stages[layer.number].operation.kind,
        sources=_sources(network, layer.number),
        queues=(),
        cores=("engine",),
        connections=int(layer.needed[layer.taps.neurons].sum()),
        counted=layer.taps.width if layer.xi else 0,
        cost=engine.cost(find_family(options.family)) if not n else Cost(),
        latency=engine.schedule.layers[n],
        words=1 if last else shape.handed(shape.layers[n]),
        width=width,
        value_bits=edge.bits,
        signed=edge.signed,
        unread=(),
        strobes=(f"{_CORE}.gives{n}",),
        payload=None if last else f"{_CORE}.results",
        order=() if last else order,
        issues=tuple((f"{_CORE}.{taps.format(lane)}", f"{_CORE}.at{n}") for lane in range(lanes)),
    )


def _describe_front(network: Network, engine: Folded, number: int) -> StageDesign:
    """Return what is known of an encoder, whose bits are written as words, or of a flatten."""
    stage, edge, shape = network.stages[number], network.edge_from(number), engine.shape
    encodes = stage.name == engine.chain.encoder
    words = -(-shape.inputs // shape.lanes)
    order: tuple[int, ...] = ()
    if encodes and shape.inputs % shape.lanes:
        order = tuple(min(n, shape.inputs) for n in range(words * shape.lanes))
    return StageDesign(
        name=stage.name,
        kind=stage.operation.kind,
        sources=_sources(network, number),
        queues=(),
        cores=("engine",) if encodes else (),
        connections=0,
        counted=0,
        cost=Cost(),
        latency=engine.schedule.load if encodes else 0,
        words=words if encodes else 1,
        width=shape.lanes if encodes else 0,
        value_bits=edge.bits,
        signed=edge.signed,
        unread=(),
        strobes=(f"{_CORE}.feeder.write",) if encodes else (),
        payload=f"{_CORE}.feeder.data" if encodes else None,
        order=order,
    )


def _sources(network: Network, number: int) -> tuple[str, ...]:
    stages = network.stages
    return tuple("" if n == INPUT else stages[n].name for n in stages[number].sources)
