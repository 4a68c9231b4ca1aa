"""Put an integer network together from trained layers.

Each method adds a stage: it takes the handle of what the stage reads and returns the handle of
what the stage hands on. A layer is folded with what is known to be constant in front of it. What
cannot be folded is refused with a reason; the caller knows the layer's name and puts it in front.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.constants import absorb_affine, absorb_encode, absorb_scores, absorb_sums
from sbnn_hw.fold.exact import Norm, Problem, Solution, align_scores, solve
from sbnn_hw.fold.unread import drop_unread
from sbnn_hw.netlist import (
    INPUT,
    Affine,
    Constants,
    Conv2d,
    Edge,
    Encode,
    Layer,
    Linear,
    Network,
    Operation,
    Scores,
    Stage,
    Sums,
    Taps,
    Window,
)
from sbnn_hw.netlist.layer import Tapped
from sbnn_hw.netlist.layer_form import canonical_layer

__all__ = ["Assembler", "Handle", "LayerReport", "Summed", "Trained"]

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Handle:
    """What a stage hands on, while a network is put together."""

    #: The stage's number; :data:`INPUT` is the network's input.
    stage: int
    edge: Edge
    #: The channels that always have the same value.
    constants: Constants


@dataclass(frozen=True, eq=False)
class Summed:
    """Sums that stand for others: V = factor·value + moved, which has a number for each channel."""

    handle: Handle
    factor: int
    moved: Int


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """What a layer's weights mean, and how its sums become bits."""

    #: Weights are η·(w01 + ξ).
    eta: Fraction
    xi: Fraction
    norm: Norm
    #: What a neuron does whose y is exactly zero: it fires, it rests, or it must not occur.
    ties: Literal["fire", "rest", "refuse"] = "fire"
    #: What is added to z/η whatever the inputs are, for each border class and neuron.
    extra: Sequence[Sequence[Fraction]] | None = None
    #: Where the search for k begins.
    least_k: int = 0
    #: Neurons whose bit is the complement of what they say.
    turned: Bool | None = None


@dataclass(frozen=True)
class LayerReport:
    """What folding a layer found.

    ``decisions`` pairs of sums were proved to be decided as exact arithmetic does, ``rationals``
    of them by rationals since floats were too close.
    """

    name: str
    xi: int
    k: int
    decisions: int
    rationals: int
    constants: int
    fixed_inputs: int
    absent: int = 0


class Assembler:
    """Builds a graph of stages."""

    def __init__(self, input: Edge) -> None:
        self._input = input
        self._stages: list[Stage] = []
        self.reports: list[LayerReport] = []

    @property
    def input(self) -> Handle:
        """The network's own input."""
        return Handle(INPUT, self._input, Constants.none(self._input.channels))

    def add(self, name: str, operation: Operation, *sources: Handle, **counts: Any) -> Handle:
        """Add a stage; ``counts`` are what :class:`Stage` keeps of the weights as trained."""
        edges = [source.edge for source in sources]
        edge = operation.infer(*edges)
        constants = operation.constants(*(source.constants for source in sources), *edges)
        numbers = tuple(source.stage for source in sources)
        self._stages.append(Stage(name, operation, numbers, **counts))
        return Handle(len(self._stages) - 1, edge, constants)

    def linear(self, source: Handle, name: str, taps: Taps, trained: Trained) -> Handle:
        """Add a linear layer."""
        if source.edge.shape != (taps.width,):
            raise ModelRejected(f"it takes {taps.width} inputs, but receives {source.edge.shape!r}")
        return self._layer(source, name, Linear(**_unfolded(taps)), trained)

    def conv(
        self,
        source: Handle,
        name: str,
        taps: Taps,
        trained: Trained,
        *,
        window: Window,
        groups: int = 1,
        border: str = "minus",
    ) -> Handle:
        """Add a convolution; see :class:`Conv2d` for its taps."""
        channels = taps.width // window.size
        if len(source.edge.shape) != 3 or source.edge.channels != channels:
            raise ModelRejected(
                f"it takes maps of {channels} channels, but receives {source.edge.shape!r}"
            )
        if not any(window.padding):
            border = "minus"  # without padding there is no border to speak of
        layer = Conv2d(
            **_unfolded(taps),
            channels=channels,
            window=window,
            groups=groups,
            border=border,  # type: ignore[arg-type]
        )
        return self._layer(source, name, layer, trained)

    def _layer(self, source: Handle, name: str, layer: Layer, trained: Trained) -> Handle:
        """Add a layer that has all but its thresholds."""
        before = source.constants
        if layer.pads_zeros:  # ones are not constant there
            before = replace(before, known=before.known & (before.value == 0))
        dropped, problem = _problem(layer, source.edge, before, trained)
        solution = _solve(problem, trained.ties)
        if trained.turned is not None:
            solution = solution.complement(trained.turned)
        folded = _folded(layer, source.edge, before, dropped, solution)
        handle = self.add(name, folded, source, ones=layer.connections, kernels=layer.kernels())
        report = LayerReport(
            name,
            solution.xi,
            solution.k,
            solution.decisions,
            solution.rationals,
            constants=int((solution.constants >= 0).sum()),
            fixed_inputs=int(before.known.sum()),
        )
        self.reports.append(report)
        return handle

    def scores(
        self,
        source: Handle,
        name: str,
        taps: Taps,
        *,
        eta: Fraction,
        offsets: list[Fraction],
        least_shift: int = 0,
    ) -> Handle:
        """Add the class scores η·z'_j + offset_j; what is common to all classes is left out."""
        edge, maximum = source.edge, source.edge.maximum
        if edge.shape != (taps.width,):
            raise ModelRejected(f"it takes {taps.width} inputs, but receives {edge.shape!r}")
        if eta == 0:
            raise ModelRejected("η is zero, so all its weights are equal")
        before = source.constants
        dropped, value = before.known[taps.indices], before.value[taps.indices]
        reads = np.where(taps.inverted, maximum - value, value)
        known = taps.per_neuron(np.where(dropped, 2 * reads - maximum, 0))
        kept = taps.only(~dropped)
        sign = 1 if eta > 0 else -1
        exact = [
            maximum * offset / abs(eta) + sign * int(steps)
            for offset, steps in zip(offsets, known, strict=True)
        ]
        reach = [int(n) * maximum for n in kept.fan_in]
        shift, rounded = align_scores(exact, reach, least_shift)
        if max(map(abs, rounded)) >= 1 << 60:
            raise ModelRejected("its offsets are too large compared with its weights")
        # The one form: minus is said once if all taps have it, else by each tap that has it.
        minus = kept.inverted ^ (eta < 0)
        negative = bool(minus.all()) and len(minus) > 0
        kept = Taps(kept.width, kept.starts, kept.indices, minus ^ negative)
        layer = Scores(taps=kept, negative=negative, shift=shift, offsets=np.array(rounded))
        handle = self.add(name, layer, source, ones=len(taps.indices))
        self.reports.append(LayerReport(name, 0, 0, 0, 0, 0, int(before.known.sum())))
        return handle

    # Integer streams

    def sums(self, source: Handle, name: str, sums: Sums) -> Summed:
        """Add sums; those of constants are not built, but said."""
        made, moved = absorb_sums(sums, source.edge, source.constants)
        counts = {"ones": sums.connections, "kernels": sums.kernels()}
        if sums.weights is not None:
            counts = {}
        return Summed(self.add(name, made, source, **counts), 1, moved)

    def affine(self, name: str, affine: Affine, sums: Summed, *joined: Handle) -> Handle:
        """Add an affine of sums, as what they stand for, and of a stream that joins them."""
        first, *others = affine.multipliers
        affine = replace(
            affine,
            multipliers=np.array([first * sums.factor, *others]),
            offsets=affine.offsets + first * sums.moved,
        )
        sources = (sums.handle, *joined)
        absorbed = absorb_affine(affine, *(source.constants for source in sources))
        return self.add(name, absorbed, *sources)

    def signs(self, name: str, thresholds: Int, sums: Summed, flips: Bool | None = None) -> Handle:
        """Add the bits [V ≥ threshold] of sums, or of a stream.

        There is a threshold for each channel, or several that do not decrease.
        """
        source = sums.handle
        thresholds = thresholds.reshape(len(thresholds), -1)
        # The least value for which factor·value + moved reaches the threshold.
        least = -((sums.moved[:, None] - thresholds) // sums.factor)
        encode = Encode(least, None if flips is None else flips.reshape(least.shape))
        return self.encode(source, name, encode)

    def encode(self, source: Handle, name: str, encode: Encode) -> Handle:
        """Add an encoder of a stream; thresholds beyond its range are brought to its ends."""
        return self.add(name, absorb_encode(encode, source.edge, source.constants), source)

    def weighted_scores(self, source: Handle, name: str, scores: Scores) -> Handle:
        """Add class scores with weights."""
        return self.add(name, absorb_scores(scores, source.constants), source)

    def finish_streams(self, *, drop: bool = True) -> Network:
        """Return a network of integer streams in its one form, without what nothing reads.

        Otherwise it has every stage that was added, with all its channels.
        """
        network = Network(self._input, tuple(self._stages))
        if drop:
            network = drop_unread(network.canonical).canonical
        self.reports = _reports(network)
        return network

    def finish(self, *, drop: bool = True) -> Network:
        """Return the network; neurons that nothing reads lose their taps unless told otherwise."""
        self._stages = _needed(self._stages)
        network = Network(self._input, tuple(self._stages))
        if network.schema > 1:
            return self.finish_streams(drop=drop)
        if not drop:
            return network
        network = drop_unread(network)
        absent = {stage.name: len(stage.absent) for stage in network.stages}
        self.reports = [replace(r, absent=absent.get(r.name, 0)) for r in self.reports]
        return network


def _needed(stages: list[Stage]) -> list[Stage]:
    """Return the stages that the last one depends on."""
    needed = {len(stages) - 1}
    for number in reversed(range(len(stages))):
        if number in needed:
            needed.update(stages[number].sources)
    kept = [number for number in range(len(stages)) if number in needed]
    place = {INPUT: INPUT, **{number: at for at, number in enumerate(kept)}}
    return [
        replace(stages[number], sources=tuple(place[source] for source in stages[number].sources))
        for number in kept
    ]


def _reports(network: Network) -> list[LayerReport]:
    """Return what is to say of the layers of a complete network, whose thresholds are stored."""
    known = {INPUT: Constants.none(network.input.channels)}
    reports = []
    for number, stage in enumerate(network.stages):
        before = [known[source] for source in stage.sources]
        known[number] = stage.operation.constants(*before, *network.edges_into(number))
        if isinstance(stage.operation, Tapped):
            constant = known[number].known.copy()
            constant[stage.absent] = False
            reports.append(
                LayerReport(
                    stage.name,
                    stage.operation.xi,
                    stage.operation.k,
                    decisions=0,
                    rationals=0,
                    constants=int(constant.sum()),
                    fixed_inputs=int(before[0].known.sum()),
                    absent=len(stage.absent),
                )
            )
    return reports


def _unfolded(taps: Taps) -> dict[str, Any]:
    """Return the fields of a layer that has its taps, and no thresholds yet."""
    return {
        "taps": taps,
        "xi": 0,
        "k": 0,
        "thresholds": np.zeros((1, len(taps)), np.int64),
        "flips": np.zeros(len(taps), bool),
        "fixed": np.zeros(0, np.int64),
    }


def _problem(layer: Layer, edge: Edge, before: Constants, trained: Trained) -> tuple[Bool, Problem]:
    """Return which taps read a constant, and what there is to decide about the others."""
    taps, neurons, maximum = layer.taps, len(layer.taps), edge.maximum
    known, value = before.known, before.value
    channels, groups = layer.channels, layer.groups
    valid = layer.borders(edge).valid
    # Per class: which taps lie inside the map, which of them read a constant.
    position = (taps.indices // channels).astype(np.int64)
    dropped, read = known[taps.indices % channels], value[taps.indices % channels]
    reads = np.where(taps.inverted, maximum - read, read)
    group_of = np.repeat(np.arange(groups), neurons // groups)
    always = np.where(known, value, 0).reshape(groups, -1).sum(axis=1)[group_of]
    stay = (~known).reshape(groups, -1).sum(axis=1)[group_of]
    inside = [mask[position] for mask in valid]
    positions = valid.sum(axis=1)[:, None]
    live = np.array([taps.per_neuron(mask & ~dropped) for mask in inside])
    problem = Problem(
        eta=trained.eta,
        xi=trained.xi,
        maximum=maximum,
        norm=trained.norm,
        taps=np.array([taps.per_neuron(mask) for mask in inside]),
        inputs=positions * np.full(neurons, channels // groups),
        constant_taps=np.array(
            [taps.per_neuron(np.where(mask & dropped, reads, 0)) for mask in inside]
        ),
        constant_inputs=positions * always,
        most_tapped=live * maximum,
        most_others=(positions * stay - live) * maximum,
        extra=trained.extra,
        least_k=trained.least_k,
    )
    return dropped, problem


def _folded(
    layer: Layer, edge: Edge, before: Constants, dropped: Bool, solution: Solution
) -> Layer:
    """Return a layer that decides as the solution does, without the taps that are dropped."""
    constant = solution.constants >= 0
    taps = layer.taps.only(~dropped & ~constant[layer.taps.neurons])
    # Outside the map an inverted tap still reads one (the bit of padding is 0).
    position = (taps.indices // layer.channels).astype(np.int64)
    outside = [~mask[position] for mask in layer.borders(edge).valid]
    always = np.array([taps.per_neuron(mask & taps.inverted) for mask in outside])
    folded = replace(
        layer,
        taps=taps,
        xi=solution.xi,
        k=solution.k,
        thresholds=solution.thresholds + (always * edge.maximum << solution.k),
        flips=solution.flips & ~constant,
        fixed=np.flatnonzero(before.known) if solution.xi else np.zeros(0, np.int64),
    )
    return canonical_layer(folded, edge, solution.constants)


def _solve(problem: Problem, ties: str) -> Solution:
    """Solve a problem; "y > 0" is what "−y ≥ 0" is not."""
    loose = solve(problem) if ties != "rest" else None
    if ties == "fire":
        assert loose is not None
        return loose
    strict = solve(replace(problem, norm=problem.norm.negated())).complement(
        np.ones(problem.taps.shape[1], bool)
    )
    if loose is not None:
        differs = (loose.thresholds != strict.thresholds).any(axis=0)
        differs |= (loose.constants != strict.constants) | (loose.k != strict.k)
        if differs.any():
            raise ModelRejected(
                f"neuron {int(np.flatnonzero(differs)[0])} can be exactly zero, and Sign makes 0 "
                f"of it, which is not a bit; use BipolarQuant"
            )
    return strict
