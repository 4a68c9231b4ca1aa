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
from sbnn_hw.fold.canonical import canonical, drop_unread
from sbnn_hw.fold.exact import Norm, Problem, Solution, align_scores, solve
from sbnn_hw.netlist import (
    INPUT,
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Layer,
    Levels,
    Linear,
    MaxPool2d,
    Network,
    Operation,
    Scores,
    Stage,
    Taps,
    Window,
)

__all__ = ["Assembler", "Closing", "Handle", "LayerReport"]

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Handle:
    """What a stage hands on, while a network is put together.

    Parameters
    ----------
    stage : int
        The stage's number; :data:`INPUT` is the network's input.
    edge : Edge
        Its values.
    known : array of bool (channels)
        Channels that always have the same value.
    value : array of int (channels)
        That value, where it is known.
    """

    stage: int
    edge: Edge
    known: Bool
    value: Int


@dataclass(frozen=True, eq=False)
class Closing:
    """How a layer's sums become bits, beyond its batch norm.

    Parameters
    ----------
    ties : str
        What a neuron does whose y is exactly zero: it fires, it rests, or it must not occur.
    extra : sequences (classes, neurons) of Fraction, optional
        What is added to z/η whatever the inputs are, for each border class.
    least_k : int
        Where the search for k begins.
    turned : array of bool, optional
        Neurons whose bit is the complement of what they say.
    """

    ties: Literal["fire", "rest", "refuse"] = "fire"
    extra: Sequence[Sequence[Fraction]] | None = None
    least_k: int = 0
    turned: npt.NDArray[np.bool_] | None = None


_PLAIN = Closing()


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
    """Builds a graph of stages.

    Parameters
    ----------
    input : Edge
        What the network receives.
    """

    def __init__(self, input: Edge) -> None:
        self._input = input
        self._stages: list[Stage] = []
        self.reports: list[LayerReport] = []

    @property
    def input(self) -> Handle:
        """The network's own input."""
        return _varying(INPUT, self._input)

    def _append(
        self, source: Handle, name: str, operation: Operation, **trained: Any
    ) -> tuple[int, Edge]:
        edge = operation.infer(source.edge)
        self._stages.append(Stage(name, operation, (source.stage,), **trained))
        return len(self._stages) - 1, edge

    # Stages without taps

    def encode(self, source: Handle, name: str, thresholds: Int) -> Handle:
        """Add an encoder with thresholds (channels, planes)."""
        return _varying(*self._append(source, name, Encode(thresholds)))

    def levels(self, source: Handle, name: str, table: Int) -> Handle:
        """Add the table that pixels are rounded by."""
        return _varying(*self._append(source, name, Levels(table)))

    def flatten(self, source: Handle, name: str) -> Handle:
        """Add the reading of a map as a vector."""
        repeats = source.edge.size // source.edge.channels
        known, value = np.tile(source.known, repeats), np.tile(source.value, repeats)
        return Handle(*self._append(source, name, Flatten()), known, value)

    def pool(self, source: Handle, name: str, window: Window, all_of: Bool | None = None) -> Handle:
        """Add a pool: OR, but AND in the channels of ``all_of``."""
        if all_of is None:
            all_of = np.zeros(source.edge.channels, bool)
        pool = MaxPool2d(window, all_of)
        return Handle(*self._append(source, name, pool), source.known, source.value)

    # Layers

    def linear(
        self,
        source: Handle,
        name: str,
        taps: Taps,
        *,
        eta: Fraction,
        xi: Fraction,
        norm: Norm,
        closing: Closing = _PLAIN,
    ) -> Handle:
        """Add a linear layer of weights η·(w01 + ξ)."""
        if source.edge.shape != (taps.width,):
            raise ModelRejected(f"it takes {taps.width} inputs, but receives {source.edge.shape!r}")
        return self._layer(source, name, Linear(**_unfolded(taps)), eta, xi, norm, closing)

    def conv(
        self,
        source: Handle,
        name: str,
        taps: Taps,
        *,
        eta: Fraction,
        xi: Fraction,
        norm: Norm,
        window: Window,
        groups: int = 1,
        border: str = "minus",
        closing: Closing = _PLAIN,
    ) -> Handle:
        """Add a convolution of weights η·(w01 + ξ); see :class:`Conv2d` for its taps."""
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
        return self._layer(source, name, layer, eta, xi, norm, closing)

    def _layer(
        self,
        source: Handle,
        name: str,
        layer: Layer,
        eta: Fraction,
        xi: Fraction,
        norm: Norm,
        closing: Closing,
    ) -> Handle:
        """Add a layer that has all but its thresholds."""
        edge, taps = source.edge, layer.taps
        known = source.known
        if isinstance(layer, Conv2d) and layer.border == "minus" and any(layer.window.padding):
            known = known & (source.value == 0)  # padding holds 0: ones are not constant there
        dropped, problem = _problem(layer, edge, known, source.value, eta, xi, norm, closing)
        solution = _solve(problem, closing.ties)
        if closing.turned is not None:
            solution = solution.complement(closing.turned)
        constant = solution.constants >= 0
        kept = taps.only(~dropped & ~constant[taps.neurons])
        # Outside the map an inverted tap still reads one (the bit of padding is 0).
        position = (kept.indices // layer.channels).astype(np.int64)
        valid = layer.borders(edge).valid
        always = np.array([kept.per_neuron(~mask[position] & kept.inverted) for mask in valid])
        folded = replace(
            layer,
            taps=kept,
            xi=solution.xi,
            k=solution.k,
            thresholds=solution.thresholds + (always * edge.maximum << solution.k),
            flips=solution.flips & ~constant,
            fixed=np.flatnonzero(known) if solution.xi else np.zeros(0, np.int64),
        )
        folded = canonical(folded, edge, solution.constants)
        number, out = self._append(
            source, name, folded, ones=layer.connections, kernels=layer.kernels()
        )
        self.reports.append(
            LayerReport(
                name,
                solution.xi,
                solution.k,
                solution.decisions,
                solution.rationals,
                int(constant.sum()),
                int(known.sum()),
            )
        )
        return Handle(number, out, constant, np.maximum(solution.constants, 0).astype(np.int64))

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
        dropped, value = source.known[taps.indices], source.value[taps.indices]
        reads = np.where(taps.inverted, 1 - value, value)
        known = taps.per_neuron(np.where(dropped, (2 * reads - 1) * maximum, 0))
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
        handle = _varying(*self._append(source, name, layer, ones=len(taps.indices)))
        self.reports.append(LayerReport(name, 0, 0, 0, 0, 0, int(source.known.sum())))
        return handle

    def finish(self, *, drop: bool = True) -> Network:
        """Return the network; neurons that nothing reads lose their taps unless told otherwise."""
        network = Network(self._input, tuple(self._stages))
        if not drop:
            return network
        network = drop_unread(network)
        absent = {stage.name: len(stage.absent) for stage in network.stages}
        self.reports = [replace(r, absent=absent.get(r.name, 0)) for r in self.reports]
        return network


def _varying(stage: int, edge: Edge) -> Handle:
    """Return the handle of values of which none is constant."""
    return Handle(stage, edge, np.zeros(edge.channels, bool), np.zeros(edge.channels, np.int64))


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


def _problem(
    layer: Layer,
    edge: Edge,
    known: Bool,
    value: Int,
    eta: Fraction,
    xi: Fraction,
    norm: Norm,
    closing: Closing,
) -> tuple[Bool, Problem]:
    """Return which taps read a constant, and what there is to decide about the others."""
    taps, neurons, maximum = layer.taps, len(layer.taps), edge.maximum
    channels, groups = layer.channels, layer.groups
    valid = layer.borders(edge).valid
    # Per class: which taps lie inside the map, which of them read a constant.
    position = (taps.indices // channels).astype(np.int64)
    dropped, read = known[taps.indices % channels], value[taps.indices % channels]
    reads = np.where(taps.inverted, 1 - read, read) * maximum
    group_of = np.repeat(np.arange(groups), neurons // groups)
    always = np.where(known & (value > 0), maximum, 0).reshape(groups, -1).sum(axis=1)[group_of]
    stay = (~known).reshape(groups, -1).sum(axis=1)[group_of]
    inside = [mask[position] for mask in valid]
    positions = valid.sum(axis=1)[:, None]
    live = np.array([taps.per_neuron(mask & ~dropped) for mask in inside])
    problem = Problem(
        eta=eta,
        xi=xi,
        maximum=maximum,
        norm=norm,
        taps=np.array([taps.per_neuron(mask) for mask in inside]),
        inputs=positions * np.full(neurons, channels // groups),
        constant_taps=np.array(
            [taps.per_neuron(np.where(mask & dropped, reads, 0)) for mask in inside]
        ),
        constant_inputs=positions * always,
        most_tapped=live * maximum,
        most_others=(positions * stay - live) * maximum,
        extra=closing.extra,
        least_k=closing.least_k,
    )
    return dropped, problem


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
