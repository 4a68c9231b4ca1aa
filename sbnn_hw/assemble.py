"""Put an integer network together from trained layers: thresholds, constants, what nobody reads.

Whoever has trained layers (the fold of a checkpoint, an importer) describes them one after the
other; each is folded with what is known to be constant in front of it. What cannot be folded is
refused with a reason; the caller knows the layer's name and puts it in front.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.exact import Norm, Problem, Solution, align_scores, solve
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
    Scores,
    Stage,
    Taps,
    Window,
    kernel_histogram,
)

__all__ = ["Assembler", "Closing", "LayerReport", "fewer_taps"]

Int = npt.NDArray[np.int64]


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
    """Builds a chain of stages from the input on.

    Parameters
    ----------
    input : Edge
        What the network receives.
    """

    def __init__(self, input: Edge) -> None:
        self._input = input
        self._stages: list[Stage] = []
        self._edge = input
        #: For each channel of the last edge: the bit it always has, or −1.
        self._constants = np.full(input.channels, -1, np.int8)
        self.reports: list[LayerReport] = []

    @property
    def edge(self) -> Edge:
        """What the last stage hands on."""
        return self._edge

    def _append(self, name: str, operation: Any, **trained: Any) -> None:
        edge = operation.infer(self._edge)
        self._stages.append(Stage(name, operation, (len(self._stages) - 1,), **trained))
        self._edge = edge

    # Stages without taps

    def encode(self, name: str, thresholds: Int) -> None:
        """Add an encoder with thresholds (channels, planes)."""
        self._append(name, Encode(thresholds))
        self._constants = np.full(self._edge.channels, -1, np.int8)

    def levels(self, name: str, table: Int) -> None:
        """Add the table that pixels are rounded by."""
        self._append(name, Levels(table))

    def flatten(self, name: str) -> None:
        """Add the reading of a map as a vector."""
        repeats = self._edge.size // self._edge.channels
        self._append(name, Flatten())
        self._constants = np.tile(self._constants, repeats)

    def pool(self, name: str, window: Window, all_of: npt.NDArray[np.bool_] | None = None) -> None:
        """Add a pool: OR, but AND in the channels of ``all_of``."""
        if all_of is None:
            all_of = np.zeros(self._edge.channels, bool)
        self._append(name, MaxPool2d(window, all_of))

    # Layers

    def linear(
        self,
        name: str,
        taps: Taps,
        *,
        eta: Fraction,
        xi: Fraction,
        norm: Norm,
        closing: Closing = _PLAIN,
    ) -> None:
        """Add a linear layer of weights η·(w01 + ξ)."""
        if self._edge.shape != (taps.width,):
            raise ModelRejected(f"it takes {taps.width} inputs, but receives {self._edge.shape!r}")
        self._add_layer(name, taps, eta, xi, norm, closing, None)

    def conv(
        self,
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
    ) -> None:
        """Add a convolution of weights η·(w01 + ξ); see :class:`Conv2d` for its taps."""
        channels = taps.width // window.size
        if len(self._edge.shape) != 3 or self._edge.channels != channels:
            raise ModelRejected(
                f"it takes maps of {channels} channels, but receives {self._edge.shape!r}"
            )
        # A placeholder with the right geometry; `_add_layer` fills in the thresholds.
        if not any(window.padding):
            border = "minus"  # without padding there is no border to speak of
        shape = Conv2d(
            taps=taps,
            xi=0,
            k=0,
            thresholds=np.zeros((1, len(taps)), np.int64),
            flips=np.zeros(len(taps), bool),
            fixed=np.zeros(0, np.int64),
            channels=channels,
            window=window,
            groups=groups,
            border=border,  # type: ignore[arg-type]
        )
        self._add_layer(name, taps, eta, xi, norm, closing, shape)

    def _add_layer(
        self,
        name: str,
        taps: Taps,
        eta: Fraction,
        xi: Fraction,
        norm: Norm,
        closing: Closing,
        conv: Conv2d | None,
    ) -> None:
        edge, maximum, neurons = self._edge, self._edge.maximum, len(taps)
        channels = edge.channels
        constants = self._constants.copy()
        if conv is not None and conv.border == "minus" and any(conv.window.padding):
            constants[constants > 0] = -1  # padding holds 0, so a channel of ones is not constant
        fixed = np.flatnonzero(constants >= 0)

        # Per class: which taps lie inside the map, which of them read a constant.
        valid = conv.borders(edge).valid if conv is not None else np.ones((1, 1), bool)
        groups = conv.groups if conv is not None else 1
        position = (taps.indices // channels).astype(np.int64)
        value = constants[taps.indices % channels].astype(np.int64)
        reads = np.where(taps.inverted, 1 - value, value) * maximum
        dropped = value >= 0
        group_of = np.repeat(np.arange(groups), neurons // groups)
        known = np.where(constants > 0, maximum, 0).reshape(groups, -1).sum(axis=1)[group_of]
        stay = (constants < 0).reshape(groups, -1).sum(axis=1)[group_of]
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
            constant_inputs=positions * known,
            most_tapped=live * maximum,
            most_others=(positions * stay - live) * maximum,
            extra=closing.extra,
            least_k=closing.least_k,
        )
        solution = _solve(problem, closing.ties)
        if closing.turned is not None:
            solution = solution.complement(closing.turned)

        constant = solution.constants >= 0
        kept = taps.only(~dropped & ~constant[taps.neurons])
        # Outside the map an inverted tap still reads one (the bit of padding is 0).
        position = (kept.indices // channels).astype(np.int64)
        always = np.array([kept.per_neuron(~mask[position] & kept.inverted) for mask in valid])
        common: dict[str, Any] = {
            "taps": kept,
            "xi": solution.xi,
            "k": solution.k,
            "thresholds": solution.thresholds + (always * maximum << solution.k),
            "flips": solution.flips & ~constant,
            "fixed": fixed if solution.xi else np.zeros(0, np.int64),
        }
        layer: Layer = (
            Linear(**common)
            if conv is None
            else Conv2d(
                **common, channels=channels, window=conv.window, groups=groups, border=conv.border
            )
        )
        layer = _canonical(layer, edge, solution.constants)
        trained: dict[str, Any] = {"ones": len(taps.indices)}
        if conv is not None and conv.window.kernel == (3, 3):
            trained["kernels"] = kernel_histogram(taps, channels, groups)
        self._append(name, layer, **trained)
        self._constants = solution.constants
        self.reports.append(
            LayerReport(
                name,
                solution.xi,
                solution.k,
                solution.decisions,
                solution.rationals,
                int(constant.sum()),
                len(fixed),
            )
        )

    def scores(
        self,
        name: str,
        taps: Taps,
        *,
        eta: Fraction,
        offsets: list[Fraction],
        least_shift: int = 0,
    ) -> None:
        """Add the class scores η·z'_j + offset_j; what is common to all classes is left out."""
        edge, maximum = self._edge, self._edge.maximum
        if edge.shape != (taps.width,):
            raise ModelRejected(f"it takes {taps.width} inputs, but receives {edge.shape!r}")
        if eta == 0:
            raise ModelRejected("η is zero, so all its weights are alike")
        value = self._constants[taps.indices].astype(np.int64)
        dropped = value >= 0
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
            raise ModelRejected("its offsets are too large beside its weights")
        # The one form: minus is said once if all taps have it, else by each tap that has it.
        minus = kept.inverted ^ (eta < 0)
        negative = bool(minus.all()) and len(minus) > 0
        kept = Taps(kept.width, kept.starts, kept.indices, minus ^ negative)
        layer = Scores(taps=kept, negative=negative, shift=shift, offsets=np.array(rounded))
        self._append(name, layer, ones=len(taps.indices))
        self.reports.append(LayerReport(name, 0, 0, 0, 0, 0, int((self._constants >= 0).sum())))

    def finish(self, *, drop_unread: bool = True) -> Network:
        """Return the network; neurons that nothing reads lose their taps unless told otherwise."""
        network = Network(self._input, tuple(self._stages))
        if not drop_unread:
            return network
        network = _drop_unread(network)
        absent = {stage.name: len(stage.absent) for stage in network.stages}
        self.reports = [replace(r, absent=absent.get(r.name, 0)) for r in self.reports]
        return network


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
                f"neuron {int(np.flatnonzero(differs)[0])} can be exactly zero, whose sign is 0 "
                f"and no bit; use BipolarQuant"
            )
    return strict


def _canonical(layer: Layer, edge: Edge, constants: npt.NDArray[np.int8]) -> Layer:
    """Return the one form of a layer: constants at the end of their range, few inversions."""
    low, high = layer.reach(edge)
    thresholds = np.where(constants == 1, low, np.where(constants == 0, high + 1, layer.thresholds))
    taps, flips = layer.taps, layer.flips.copy()
    if taps.inverted.any():
        # A neuron and the complement of one with all taps inverted are the same; keep the one
        # with fewer inversions, or with a first tap that is not inverted.
        count, fan_in = taps.per_neuron(taps.inverted), taps.fan_in
        first = np.zeros(len(taps), bool)
        wired = fan_in > 0
        first[wired] = taps.inverted[taps.starts[:-1][wired]]
        turn = (2 * count > fan_in) | ((2 * count == fan_in) & first)
        inverted = taps.inverted ^ turn[taps.neurons]
        taps = Taps(taps.width, taps.starts, taps.indices, inverted)
        thresholds = np.where(turn, fan_in * edge.maximum - thresholds + 1, thresholds)
        flips ^= turn
    if (layer.xi, layer.k) == (-1, 1):
        return fewer_taps(replace(layer, thresholds=thresholds), edge, constants)
    return replace(layer, taps=taps, thresholds=thresholds, flips=flips)


def fewer_taps(layer: Layer, edge: Edge, constants: npt.NDArray[np.int8]) -> Layer:
    """Where ξ is −1/2, tap what a neuron has not tapped if that is fewer.

    2·pc_S − pc_N changes its sign when S is exchanged for all the other inputs.
    """
    taps, neurons = layer.taps, len(layer.taps)
    if isinstance(layer, Conv2d):
        channels, groups, positions = layer.channels, layer.groups, layer.window.size
    else:
        channels, groups, positions = taps.width, 1, 1
    counted = np.ones(channels, bool)
    counted[layer.fixed] = False
    member = counted.reshape(groups, -1)
    # Which inputs each group counts, in the order of taps: position, then channel.
    places = np.zeros((groups, positions, groups, channels // groups), bool)
    places[np.arange(groups), :, np.arange(groups)] = member[:, None]
    own = places.reshape(groups, positions * channels)
    size = own.sum(axis=1)[np.arange(neurons) * groups // neurons]
    fan_in = taps.fan_in
    first = np.zeros(neurons, np.int64)
    wired = fan_in > 0
    first[wired] = taps.indices[taps.starts[:-1][wired]]
    leading = own.argmax(axis=1)[np.arange(neurons) * groups // neurons]
    turn = (2 * fan_in > size) | ((2 * fan_in == size) & (first != leading))
    turn &= (constants < 0) & wired
    if not turn.any():
        return layer
    parts = []
    for neuron in range(neurons):
        indices = taps.indices[taps.of(neuron)]
        if turn[neuron]:
            mask = own[neuron * groups // neurons].copy()
            mask[indices] = False
            indices = np.flatnonzero(mask).astype(np.uint32)
        parts.append(indices)
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    joined = np.concatenate(parts)
    return replace(
        layer,
        taps=Taps(taps.width, starts, joined, np.zeros(len(joined), bool)),
        thresholds=np.where(turn, 1 - layer.thresholds, layer.thresholds),
        flips=layer.flips ^ turn,
    )


def _drop_unread(network: Network) -> Network:
    """Strip the neurons that nothing reads, from the last stage to the first.

    Where Ξ is not zero every input counts in pc_N, so nothing is unread there.
    """
    stages = list(network.stages)
    read: dict[int, npt.NDArray[np.bool_]] = {}

    def mark(source: int, channels: npt.NDArray[np.bool_]) -> None:
        if source != INPUT:
            read[source] = read.get(source, np.zeros_like(channels)) | channels

    for number in reversed(range(len(stages))):
        stage, operation = stages[number], stages[number].operation
        edge = network.edge_into(number)
        if isinstance(operation, Layer):
            own = read[number]
            unread = np.flatnonzero(~own & (operation.taps.fan_in > 0))
            if len(unread):
                gone = np.zeros(len(operation.taps), bool)
                gone[unread] = True
                kept = operation.taps.only(~gone[operation.taps.neurons])
                layer = replace(operation, taps=kept, flips=operation.flips & ~gone)
                constants = np.where(gone, 0, -1).astype(np.int8)
                operation = _canonical(layer, edge, constants)  # type: ignore[assignment]
                stages[number] = replace(stage, operation=operation, absent=unread)
        source = stage.sources[0]
        match operation:
            case Scores() | Linear() | Conv2d():
                seen = np.zeros(edge.channels, bool)
                if isinstance(operation, Layer) and operation.xi:
                    seen[:] = True
                seen[operation.taps.indices % edge.channels] = True
                mark(source, seen)
            case Flatten():
                mark(source, np.any(read[number].reshape(-1, edge.channels), axis=0))
            case MaxPool2d():
                mark(source, read[number])
            case Encode() | Levels():
                mark(source, np.ones(edge.channels, bool))
    for number, stage in enumerate(stages):
        if isinstance(stage.operation, MaxPool2d) and stage.sources[0] != INPUT:
            stages[number] = replace(stage, absent=stages[stage.sources[0]].absent)
    return Network(network.input, tuple(stages))
