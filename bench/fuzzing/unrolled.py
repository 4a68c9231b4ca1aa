"""Every candidate of every stage of a network, computed by its parts, against the netlist."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fuzzing.parts import Bits, run_parts, to_bits, to_numbers
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import INPUT, Edge, Network
from sbnn_hw.rtl_gen.candidate import Arrival, Candidate, Place, candidates_of
from sbnn_hw.rtl_gen.lower import Options, comes_by_pixels, place_of

__all__ = ["check_unrolled", "random_options"]

Array = npt.NDArray[Any]

FAMILIES = ("xc7", "ecp5", "ice40", "generic")


def random_options(rng: np.random.Generator) -> Options:
    """Return options that change what is built, not what it computes."""
    return Options(
        family=str(rng.choice(FAMILIES)),
        levels_per_stage=int(rng.integers(1, 4)),
        input=str(rng.choice(["auto", "pixel"])),
        share=int(rng.choice([0, 0, 40])),
        scores=bool(rng.random() < 0.9),
    )


def check_unrolled(
    rng: np.random.Generator, network: Network, values: dict[int, Array], options: Options
) -> Iterator[tuple[str, str]]:
    """Yield, for each candidate, the kind of its stage and what is wrong with it, if anything is.

    ``values`` has what the netlist says that each stage hands on, by its number. Hardware that
    cannot be built ends it.
    """
    raster = comes_by_pixels(network, options)
    beats = network.input.size // network.input.channels if raster else 1
    arrivals = {INPUT: Arrival.of_input(raster, beats)}
    for number, stage in enumerate(network.stages):
        try:
            place, meeting = place_of(network, number, arrivals, options)
            candidates = candidates_of(place)
        except ModelRejected:
            return
        words = _words(place, [values[source] for source in dict.fromkeys(stage.sources)])
        for which, candidate in enumerate(candidates):
            if not candidate.parts:
                continue
            wrong = _compare(place, candidate, words, values[number])
            where = f"stage {stage.name}, candidate {which} of {options}: "
            yield stage.operation.kind, where + wrong if wrong else ""
        taken = candidates[int(rng.integers(len(candidates)))]
        arrivals[number] = taken.arrival or meeting.arrival.after(taken.parts.values())


def _words(place: Place, sources: list[Array]) -> Bits:
    """Return the words that come to a stage: those of all its sources side by side."""
    found = []
    edges = dict(zip(place.stage.sources, place.edges, strict=True)).values()
    for value, edge in zip(sources, edges, strict=True):
        together = edge.channels if place.arrival.raster else edge.size
        if place.arrival.gathered is not None:
            # It sees to it itself that pixels become a vector.
            together = place.arrival.gathered[1].channels
        found.append(to_bits(value.reshape(len(value), -1, together), edge.bits))
    return np.concatenate(found, axis=2)


def _compare(place: Place, candidate: Candidate, words: Bits, wanted: Array) -> str:
    """Return what of a candidate differs from the netlist, in words."""
    given = run_parts(candidate.parts.values(), words)
    if place.stage.operation.scoring:
        return _compare_scores(place, given, wanted)
    found = _numbers(given, place.out).reshape(wanted.shape)
    wrong = (found != wanted) & place.read
    if wrong.any():
        at = tuple(int(n[0]) for n in np.nonzero(wrong))
        return f"value {at} is {found[at]}, not {wanted[at]}"
    return ""


def _compare_scores(place: Place, given: Bits, wanted: Array) -> str:
    bits = max(1, (place.out.size - 1).bit_length())
    index = to_numbers(given[:, 0, :bits], bits)[:, 0]
    if place.options.scores:
        found = _numbers(given[:, :, bits:], place.out).reshape(wanted.shape)
        if (found != wanted).any():
            at = tuple(int(n[0]) for n in np.nonzero(found != wanted))
            return f"score {at} is {found[at]}, not {wanted[at]}"
    classes = wanted.argmax(axis=1)
    if (index != classes).any():
        image = int(np.argmax(index != classes))
        return f"class of image {image} is {index[image]}, not {classes[image]}"
    return ""


def _numbers(words: Bits, edge: Edge) -> npt.NDArray[np.int64]:
    return to_numbers(words, edge.bits, edge.signed)
