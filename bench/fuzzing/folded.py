"""Networks in engines: the words of their programs executed, against the netlist."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.engine import Folded, Program, compile_program, fold
from sbnn_hw.engine.chain import first_foldable
from sbnn_hw.engine.folded import LANES
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Linear, Network, Scores, Stage

__all__ = ["check_folded"]

Rng = np.random.Generator
Array = npt.NDArray[Any]


def check_folded(
    rng: Rng, network: Network, values: dict[int, Array]
) -> Iterator[tuple[str, Folded | None, str]]:
    """Yield the form of an engine, the engine, and what it computes wrong, if anything.

    ``values`` has what the netlist says that each stage hands on, by its number. The engine
    computes all of the network or its end. One that can be loaded gets another network's program
    too; what does not fit is refused, and not counted.
    """
    first = first_foldable(network)
    if first == len(network.stages):
        return
    if rng.random() < 0.3:
        first = int(rng.integers(first, len(network.stages)))
    form = str(rng.choice(list(LANES)))
    lanes, loadable = int(rng.choice(LANES[form])), bool(rng.random() < 0.3)
    where = f"{form}, {lanes} lanes, from stage {first}{', loadable' * loadable}: "
    try:
        folded = fold(network, form=form, lanes=lanes, loadable=loadable, first=first)
    except ModelRejected:
        return  # Another form may take it.
    wrong = _compare(folded, values)
    yield form, folded, where + wrong if wrong else ""
    if loadable:
        other = _changed(rng, network, first)
        try:
            program = compile_program(other, folded.shape, first)
        except ModelRejected:
            return
        again = replace(folded, network=other, program=program)
        wrong = _compare(again, {**values, **_computed(other, first, values)})
        yield f"{form}, loaded", None, f"{where}another network: {wrong}" if wrong else ""


def _compare(folded: Folded, values: dict[int, Array]) -> str:
    """Return what an engine computes that the netlist does not, in words."""
    network, program = folded.network, folded.program
    found = folded.compute(values[folded.first - 1])
    at = len(network.stages) - len(folded.shape.layers)
    layers = [stage.operation for stage in network.stages[at:]]
    for number, places in enumerate(found.places):
        wanted = _placed(program, number, values[at + number])
        if (places != wanted).any():
            image, place = (int(n[0]) for n in np.nonzero(places != wanted))
            return f"image {image}, layer {number}: place {place} is {places[image, place]}"
    scores = values[len(network.stages) - 1]
    if (found.scores != scores).any():
        image, score = (int(n[0]) for n in np.nonzero(found.scores != scores))
        return (
            f"image {image}: score {score} is {found.scores[image, score]}, "
            f"not {scores[image, score]}"
        )
    if (found.classes != scores.argmax(axis=1)).any():
        return "a class is not that of the first largest score"
    for number, (layer, issued) in enumerate(zip(layers, found.taps, strict=True)):
        assert isinstance(layer, Linear | Scores)
        read = network.read[at + number].reshape(-1)
        if issued != layer.taps.fan_in[read].sum():
            return f"layer {number}: {issued} taps are issued, not {layer.taps.fan_in[read].sum()}"
    return ""


def _placed(program: Program, number: int, values: Array) -> Array:
    """Return what the netlist says that a layer's places hold: 0 where they have no neuron."""
    with_none = np.concatenate([values, np.zeros((len(values), 1), values.dtype)], axis=1)
    placed: Array = with_none[:, program.orders[number]]
    return placed


def _computed(network: Network, first: int, values: dict[int, Array]) -> dict[int, Array]:
    """Return what the stages from one on hand on, by their numbers."""
    found = {first - 1: values[first - 1]}
    for number in range(first, len(network.stages)):
        operation = network.stages[number].operation
        found[number] = operation.compute(found[number - 1], network.edge_into(number))
    return found


def _changed(rng: Rng, network: Network, first: int) -> Network:
    """Return a network with other neurons, and mostly with fewer connections."""
    stages = list(network.stages)
    for number in range(first, len(stages)):
        layer = stages[number].operation
        if isinstance(layer, Linear | Scores):
            kept = layer.taps.only(rng.random(len(layer.taps.indices)) < rng.choice([0.7, 1.0]))
            made: Linear | Scores
            if isinstance(layer, Linear):
                low, high = replace(layer, taps=kept).reach(network.edge_into(number))
                moved = layer.thresholds + rng.integers(-1, 2, layer.thresholds.shape)
                made = replace(
                    layer, taps=kept, thresholds=np.clip(moved, low, high + 1), flips=~layer.flips
                )
            else:
                made = replace(layer, taps=kept, offsets=layer.offsets[::-1])
            stages[number] = Stage(stages[number].name, made, stages[number].sources)
    return Network(network.input, tuple(stages))
