"""A network in an engine: its shape, its program, how long it takes and what it costs."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from sbnn_hw.cost.cost import Cost
from sbnn_hw.engine.bitmap import fit_bitmap
from sbnn_hw.engine.chain import Chain, read_chain
from sbnn_hw.engine.compiler import compile_chain
from sbnn_hw.engine.evaluate import Evaluated, evaluate
from sbnn_hw.engine.program import Program, place_layers, sum_bits_of
from sbnn_hw.engine.schedule import Schedule, pace_of, schedule_of
from sbnn_hw.engine.shape import LayerShape, Shape, bits_for
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.netlist import Network

__all__ = ["LANES", "Folded", "check_form", "fold", "foldable"]

#: The lanes that each form of programs can have.
LANES = {"gaps": (1, 2, 4, 8, 16, 32), "bitmap": (16, 32, 64, 128)}

#: A plan that can be loaded has room for one word more in so many.
_ROOM = 16

#: Bits of a code that are tried.
_GAP_BITS = range(2, 15)


@dataclass(frozen=True, eq=False)
class Folded:
    """A network, from a stage on, in an engine."""

    network: Network
    chain: Chain
    program: Program

    @property
    def shape(self) -> Shape:
        """What the hardware is built from."""
        return self.program.shape

    @cached_property
    def schedule(self) -> Schedule:
        """How long it takes."""
        return schedule_of(self.shape, self.program.lengths)

    @property
    def first(self) -> int:
        """The number of the first stage in it."""
        return self.chain.first

    @property
    def interval(self) -> int:
        """Cycles between results."""
        return self.schedule.interval

    @property
    def latency(self) -> int:
        """Cycles from the first value of an image to its result."""
        return self.schedule.latency

    @property
    def pace(self) -> int:
        """Cycles that it takes for a value to come in."""
        return pace_of(self.shape)

    @property
    def cycles(self) -> dict[str, int]:
        """Cycles of each layer by its stage's name, and of loading under an empty name."""
        names = [layer.name for layer in self.chain.layers]
        return {"": self.schedule.load, **dict(zip(names, self.schedule.layers, strict=True))}

    def cost(self, family: Any) -> Cost:
        """Return what its hardware takes of a family."""
        from sbnn_hw.engine.cost import engine_cost

        return engine_cost(self.shape, family)

    def compute(self, values: npt.NDArray[Any]) -> Evaluated:
        """Execute the program's words on a batch of what comes in."""
        return evaluate(self.program, values)


def foldable(network: Network, first: int = 0) -> str:
    """Return why an engine cannot compute a network from a stage on; empty if it can."""
    try:
        read_chain(network, first)
    except ModelRejected as error:
        return str(error)
    return ""


def fold(
    network: Network, *, form: str = "gaps", lanes: int = 4, loadable: bool = False, first: int = 0
) -> Folded:
    """Return a network in an engine, from a stage on.

    Parameters
    ----------
    network : Network
        A chain of an encoder, linear layers and scores, from the stage on.
    form : str
        ``gaps``: codes of the steps from tap to tap.
    lanes : int
        Neurons at a time.
    loadable : bool
        Whether another program can be loaded.
    first : int
        The number of the first stage.
    """
    check_form(form, lanes)
    chain = read_chain(network, first)
    fit = fit_bitmap if form == "bitmap" else _fit_gaps
    return Folded(network, chain, compile_chain(chain, fit(chain, lanes, loadable)))


def check_form(form: str, lanes: int) -> None:
    """Refuse a form, or a number of lanes, that no engine has."""
    if form not in LANES:
        raise UsageError(f"Form must be {' or '.join(LANES)}, not {form!r}")
    if lanes not in LANES[form]:
        known = ", ".join(map(str, LANES[form]))
        raise UsageError(f"Lanes of {form} must be one of {known}, not {lanes!r}")


def _fit_gaps(chain: Chain, lanes: int, loadable: bool) -> Shape:
    """Return the shape whose program takes the fewest bits."""
    signed = any(layer.taps.inverted.any() for layer in chain.layers)
    unit = max(layer.unit for layer in chain.layers)
    last = chain.layers[-1]
    drop = unit - chain.shift - 1
    sums = max(chain.score_bits + drop, *(sum_bits_of(layer, unit) for layer in chain.layers))
    score_bits = chain.score_bits
    if loadable:
        # Another network's sums may be larger.
        sums, score_bits = sums + 2, score_bits + 1
    draft = Shape(
        form="gaps", lanes=lanes, gap_bits=1, signed=signed, sum_bits=sums, unit=unit,
        count_bits=0, depth=0, loadable=loadable, values=chain.values, value_bits=chain.value_bits,
        thresholds=tuple(map(tuple, chain.thresholds.tolist())),
        flips=tuple(map(tuple, chain.flips.tolist())),
        fixed=tuple(chain.layers[0].fixed.tolist()), layers=(), score_bits=score_bits,
        shift=chain.shift, negative=last.negative and not signed,
    )  # fmt: skip
    groups = None
    if loadable:
        groups = tuple(-(-len(layer.taps) // lanes) for layer in chain.layers)
    longest = max(bits_for(len(layer.taps) + chain.inputs) for layer in chain.layers)
    found = [
        _with_codes(draft, chain, bits, groups) for bits in _GAP_BITS if bits <= max(4, longest)
    ]
    return min(found, key=lambda shape: (shape.depth * shape.word_bits, shape.depth))


def _with_codes(draft: Shape, chain: Chain, gap_bits: int, groups: tuple[int, ...] | None) -> Shape:
    """Return a shape for codes of so many bits."""
    placed = list(place_layers(chain, draft.lanes, gap_bits, groups))
    before = [chain.inputs, *(len(each.order) for each in placed)]
    layers = tuple(
        LayerShape(inputs, len(each.lengths), len(each.layer.taps), bool(each.layer.xi))
        for inputs, each in zip(before, placed, strict=False)
    )
    longest = max(int(each.lengths.max()) for each in placed)
    count_bits = (longest - 2).bit_length()
    if draft.loadable:
        # Another network's longest group may have twice as many codes.
        count_bits += 1
    shape = replace(draft, gap_bits=gap_bits, layers=layers, count_bits=max(1, count_bits))
    words = sum(int(each.lengths.sum()) + shape.header_words * len(each.lengths) for each in placed)
    words += shape.header_words * sum(layer.counts for layer in layers)
    if draft.loadable:
        # Another network with as many connections may have a few codes more.
        words += -(-words // _ROOM)
    return replace(shape, depth=words)
