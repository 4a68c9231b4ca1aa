"""Does the hardware say what the software says? The verdict on a design and a set of images."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw import bops
from sbnn_hw.design import Design, StageDesign
from sbnn_hw.errors import UsageError
from sbnn_hw.files import write_atomically
from sbnn_hw.netlist import Network
from sbnn_hw.sim.build import Waveform, usable_waveform
from sbnn_hw.sim.library import Library, Probe, Trace, compile_design, primitives
from sbnn_hw.sim.watchdog import explain, patience
from sbnn_hw.sim.waves import find_waveform, views_of
from sbnn_hw.vectors import pack_images, unpack_results

__all__ = ["Agreement", "Mismatch", "check_agreement"]

Array = npt.NDArray[Any]

#: The version of agreement.json's form.
SCHEMA = 1

# How likely the source offers and the sink takes, where stalls are asked for.
_ODDS = 0.7


@dataclass(frozen=True)
class Mismatch:
    """The first place where hardware and software differ.

    ``layer`` and ``neuron`` tell the earliest stage whose values differ for the image, and the
    first neuron there; ``pixel`` is its place in a map, row by row.
    """

    image: int
    layer: str
    neuron: int
    pixel: int
    hardware: int
    software: int

    def __str__(self) -> str:
        return (
            f"image {self.image}, layer {self.layer}, neuron {self.neuron}, pixel {self.pixel}: "
            f"hardware {self.hardware}, software {self.software}"
        )


@dataclass(frozen=True)
class Agreement:
    """What a simulation of some images showed."""

    # Images simulated, and those whose class or scores differ, that got no answer, or a second.
    vectors: int
    mismatches: int
    # Values inside the network that were compared, and those that differ.
    values: int
    value_mismatches: int
    first: Mismatch | None
    # What a design that gave too few results is waiting for, in a sentence.
    stopped: str | None
    violations: int  # Cycles in which the output broke the rules of streams.
    overflows: list[str]  # Queues that were too short for what came, the first one first.
    # Cycles in all; from the first input of an image by itself to its result; and between the
    # results of images that follow each other. The last two are measured without stalls only.
    cycles: int
    latency: int | None
    interval: float | None
    computed: dict[str, int]  # Latency and interval as the design has them.
    stalls: bool
    seed: int
    # For each stage with taps, what one image takes: measured as handshakes times connections
    # counted in the hardware, and as the netlist has it.
    operations: dict[str, dict[str, float]]
    seconds: dict[str, float] = field(default_factory=dict)  # What compiling and simulating took.
    # The classes that the hardware gave.
    classes: Array = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    @property
    def equal(self) -> bool:
        """Whether hardware and software agree in every bit and cycle that was compared."""
        return not self.differences

    @property
    def operations_equal(self) -> bool:
        """Whether the operations measured are those of the netlist.

        Hardware that leaves out a connection that cannot matter takes fewer.
        """
        return all(each["measured"] == each["static"] for each in self.operations.values())

    @property
    def differences(self) -> list[str]:
        """What is not as it should be, in words."""
        found = [f"the queue of {each} is too short" for each in self.overflows]
        if self.stopped is not None:
            found.append(self.stopped)
        if self.mismatches:
            found.append(f"the results of {self.mismatches:,} of {self.vectors:,} images differ")
        if self.value_mismatches:
            found.append(
                f"{self.value_mismatches:,} of {self.values:,} values inside the stages differ"
            )
        if self.violations:
            found.append(f"the output breaks the rules of streams in {self.violations:,} cycles")
        for name, measured in (("latency", self.latency), ("interval", self.interval)):
            if measured is not None and measured != self.computed[name]:
                found.append(f"{name} is {measured:g} cycles, not {self.computed[name]}")
        return found

    def to_dict(self, network: Network, design: Design) -> dict[str, Any]:
        """Return plain values, for agreement.json."""
        counts = bops.count(network)
        return {
            "schema": SCHEMA,
            "network": network.digest,
            "family": design.family,
            "scores": bool(design.output.score_bits),
            "equal": self.equal,
            "operations_equal": self.operations_equal,
            **{key: value for key, value in asdict(self).items() if key != "classes"},
            "bops": {
                "measured": sum(each["measured"] for each in self.operations.values()),
                "static": counts.by_connections,
                "dense": counts.total("dense"),
                # The paper's estimate: as many operations as there are ones, and no q.
                "paper": round(counts.density * counts.total("binary_macs")),
            },
        }


def check_agreement(
    network: Network,
    verilog: str,
    design: Design,
    pixels: Array,
    *,
    stalls: bool = False,
    seed: int = 0,
    inside: bool = False,
    waves: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Agreement:
    """Simulate a design on images and compare all that it says with the network.

    The images have shape (images, height, width, channels). With ``stalls``, source and sink
    hesitate at random, as ``seed`` chooses. With ``inside``, the values of every stage are compared
    too, pixel by pixel. What was simulated is written as a waveform to ``waves``, whether or not it
    agrees. ``progress`` takes a few words whenever something that takes long starts.
    """
    names = [stage.name for stage in network.stages]
    if design.network != network.digest or [stage.name for stage in design.stages] != names:
        raise UsageError("The design was generated from another network; generate it again")
    pixels = network.check_pixels(pixels)
    if not len(pixels):
        raise UsageError("There must be one image or more to simulate")
    report = progress or (lambda _: None)
    started = time.perf_counter()
    waveform = None if waves is None else usable_waveform(find_waveform(waves))
    library = _compile(verilog, design, inside, len(pixels), report, waveform)
    compiled = time.perf_counter()
    report(f"simulating {len(pixels):,} images{' with stalls' if stalls else ''}")
    odds = _ODDS if stalls else 1.0
    if waves is None:
        trace = _run(library, pixels, design, odds, seed)
    else:
        trace = _run_and_write(library, pixels, design, odds, seed, waves)
    simulated = time.perf_counter()
    outcome = network.compute(pixels, keep=_seen(design) if inside else ())
    wrong = _wrong_images(trace, outcome.classes, outcome.scores, design)
    compared = differing = 0
    first = None
    if inside:
        compared, differing, first = _compare_inside(trace, outcome.values, design)
    if first is None and wrong.any():
        part = pixels[: int(wrong.argmax()) + 1]
        first = _locate(network, verilog, design, part, odds, seed, report)
    return Agreement(
        vectors=len(pixels),
        mismatches=int(wrong.sum()) + max(0, len(trace.outputs) - len(pixels)),
        values=compared,
        value_mismatches=differing,
        first=first,
        stopped=_stopped(trace, design, len(pixels), odds),
        violations=trace.violations,
        overflows=_overflows(trace, design),
        cycles=int(trace.given_at[-1]) + 1 if len(trace.given_at) else trace.cycles,
        latency=None if stalls else _latency(_run(library, pixels[:1], design, 1.0, 0)),
        interval=None if stalls else _interval(trace, design),
        computed={"latency": design.latency, "interval": design.interval},
        stalls=stalls,
        seed=seed,
        operations=_operations(network, trace, design, len(pixels)),
        classes=unpack_results(trace.outputs, design.output)[0],
        seconds={"compile": compiled - started, "simulate": simulated - compiled},
    )


def _seen(design: Design) -> list[str]:
    """Return the stages whose values can be seen."""
    return [stage.name for stage in design.stages if stage.payload is not None]


def _queues(design: Design) -> dict[str, str]:
    """Return the signals that tell which queue was too short, by the queues' names."""
    return {
        f"stage {stage.name} for what comes from {queue.source or 'the input'}": queue.overflow
        for stage in design.stages
        for queue in stage.queues
    }


def _overflows(trace: Trace, design: Design) -> list[str]:
    """Return the queues that were too short, in order: their signals stay 1 from then on."""
    found = [name for name in _queues(design) if trace.counts[name]]
    return sorted(found, key=lambda name: -trace.counts[name])


def _stopped(trace: Trace, design: Design, images: int, odds: float) -> str | None:
    """Return what a design is waiting for, if it gave too few results."""
    if len(trace.outputs) >= images:
        return None
    plain = design.to_dict()
    names = {stage.name for stage in design.stages if stage.strobes}
    counts = {name: count for name, count in trace.counts.items() if name in names}
    reason = explain(plain, len(trace.taken_at), len(trace.outputs), counts, trace.waiting)
    return f"nothing moved for {patience(plain, odds):,} cycles when {reason}"


def _compile(
    verilog: str,
    design: Design,
    inside: bool,
    images: int,
    report: Callable[[str], None],
    waveform: Waveform | None = None,
) -> Library:
    probes = [Probe(name, (overflow,)) for name, overflow in _queues(design).items()]
    for stage in design.stages:
        if stage.strobes:
            payload = stage.payload if inside else None
            width = stage.width if payload else 0
            probes.append(Probe(stage.name, stage.strobes, payload, width))
        probes += [Probe(f"{stage.name} {n}", each) for n, each in enumerate(stage.issues)]
    return compile_design(
        {"primitives.v": primitives(), "top.v": verilog},
        in_width=design.input.width,
        out_width=design.output.width,
        probes=probes,
        vectors=images * design.input.beats,
        waveform=waveform,
        views=() if waveform is None else views_of(design.output),
        progress=report,
    )


def _run(
    library: Library,
    pixels: Array,
    design: Design,
    odds: float,
    seed: int,
    waves: Path | None = None,
) -> Trace:
    # One result more than is due is waited for, so that one too many is seen too.
    return library.run(
        pack_images(pixels, design.input),
        expect=len(pixels) + 1,
        valid_odds=odds,
        ready_odds=odds,
        seed=seed,
        limit=patience(design.to_dict(), odds),
        waves=waves,
    )


def _run_and_write(
    library: Library, pixels: Array, design: Design, odds: float, seed: int, waves: Path
) -> Trace:
    """Run, and write the waveform whole or not at all."""
    runs: list[Trace] = []
    write_atomically(
        waves,
        lambda file: runs.append(_run(library, pixels, design, odds, seed, Path(file.name))),
    )
    return runs[0]


def _wrong_images(
    trace: Trace, classes: Array, scores: Array, design: Design
) -> npt.NDArray[np.bool_]:
    wrong = np.ones(len(classes), bool)
    given, given_scores = unpack_results(trace.outputs[: len(classes)], design.output)
    wrong[: len(given)] = given != classes[: len(given)]
    if given_scores.shape[1]:
        wrong[: len(given)] |= (given_scores != scores[: len(given)]).any(axis=1)
    return wrong


def _compare_inside(
    trace: Trace, values: dict[str, Array], design: Design
) -> tuple[int, int, Mismatch | None]:
    """Compare what every stage handed on; return how many values, how many differ, the first."""
    compared = differing = 0
    found: list[Mismatch] = []
    for stage in design.stages:
        if stage.name not in values:
            continue
        width, bits = stage.width, stage.value_bits
        images = len(values[stage.name])
        # Values of several bits are compared bit by bit.
        ordered, placed = _in_order(values[stage.name], stage)
        wanted = (ordered[..., None] >> np.arange(bits) & 1).reshape(-1, width)
        beats = len(wanted) // images
        rows = trace.values[stage.name]
        given = np.unpackbits(rows, axis=1, bitorder="little")[:, :width]
        # One word too many, or too few, counts as a whole row of differences.
        differing += abs(len(given) - len(wanted)) * width
        given, wanted = given[: len(wanted)], wanted[: len(given)]
        # What nothing reads need not be built, nor what is made of it.
        read = np.repeat(~np.isin(np.arange(width // bits), stage.unread), bits) & np.resize(
            np.repeat(placed, bits).reshape(-1, width), given.shape
        )
        differs = (given != wanted) & read
        compared += int(read.sum())
        differing += int(differs.sum())
        if differs.any():
            row, bit = (int(axis[0]) for axis in np.nonzero(differs))
            (image, pixel), neuron = divmod(row, beats), bit // bits
            own = slice(neuron * bits, (neuron + 1) * bits)
            if stage.order:
                pixel, neuron = 0, stage.order[pixel * (width // bits) + neuron]
            weights = 1 << np.arange(bits)
            if stage.signed:
                weights[-1] *= -1
            said, meant = (int(each[row, own] @ weights) for each in (given, wanted))
            found.append(Mismatch(image, stage.name, neuron, pixel, said, meant))
    # The earliest image, and in it the earliest stage: min is stable.
    return compared, differing, min(found, key=lambda each: each.image) if found else None


def _in_order(values: Array, stage: StageDesign) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return values in the order in which they come, and which of an image's there are."""
    flat = values.reshape(len(values), -1)
    if not stage.order:
        return flat, np.ones(flat.shape[1], bool)
    order = np.array(stage.order)
    none = np.zeros((len(flat), 1), flat.dtype)
    return np.concatenate([flat, none], axis=1)[:, order], order < flat.shape[1]


def _locate(
    network: Network,
    verilog: str,
    design: Design,
    part: Array,
    odds: float,
    seed: int,
    report: Callable[[str], None],
) -> Mismatch | None:
    """Simulate again, with a view inside and the same stalls, up to the image that went wrong."""
    report(f"looking for the first difference of image {len(part) - 1}")
    library = _compile(verilog, design, True, len(part), report)
    trace = _run(library, part, design, odds, seed)
    outcome = network.compute(part, keep=_seen(design))
    _, _, first = _compare_inside(trace, outcome.values, design)
    if first is not None:
        return first
    wrong = _wrong_images(trace, outcome.classes, outcome.scores, design)
    if not wrong.any():
        return None
    image = int(wrong.argmax())
    last = network.stages[-1].name
    if image >= len(trace.outputs):
        return Mismatch(image, last, 0, 0, -1, int(outcome.classes[image]))
    given, scores = unpack_results(trace.outputs[image : image + 1], design.output)
    for number, (hardware, software) in enumerate(
        zip(scores[0].tolist(), outcome.scores[image].tolist(), strict=False)
    ):
        if hardware != software:
            return Mismatch(image, last, number, 0, hardware, software)
    return Mismatch(image, last, int(given[0]), 0, int(given[0]), int(outcome.classes[image]))


def _latency(trace: Trace) -> int | None:
    return int(trace.given_at[0] - trace.taken_at[0]) if len(trace.given_at) else None


def _interval(trace: Trace, design: Design) -> float | None:
    # Behind the last image no other one comes, and its result may come sooner. Where images are
    # held back, the second one is, and all others follow it.
    times = trace.given_at[1 if design.input.held else 0 : -1]
    if len(times) < 2:
        return None
    return float(times[-1] - times[0]) / (len(times) - 1)


def _ratio(total: float, count: int) -> float:
    # A handshake too many or too few is seen: it is no whole number then.
    return total // count if total % count == 0 else total / count


def _operations(
    network: Network, trace: Trace, design: Design, images: int
) -> dict[str, dict[str, float]]:
    """Return handshakes × connections of each stage with taps, and what the netlist has."""
    static = {layer.name: layer.sparse + layer.additions for layer in bops.count(network).layers}
    operations = {}
    for stage in design.stages:
        if stage.name not in static:
            continue
        # A stage that nobody can see is not measured.
        handshakes = trace.counts.get(stage.name, 0)
        done: float = handshakes * (stage.connections + stage.counted)
        if stage.issues:
            # One connection after the other; q is counted once an image.
            done = sum(trace.counts[f"{stage.name} {n}"] for n in range(len(stage.issues)))
            done += _ratio(handshakes * stage.counted, stage.words)
        operations[stage.name] = {
            "handshakes": handshakes,
            "connections": stage.connections,
            "shared": stage.counted,
            "measured": _ratio(done, images),
            "static": static[stage.name],
        }
    return operations
