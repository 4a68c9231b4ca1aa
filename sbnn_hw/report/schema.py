"""What a report holds: every field with its type, its unit and a sentence.

A build fills in these classes, ``report.json`` has their form, the page draws them, and
``bench/report_fields.py`` writes them into docs/report.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sbnn_hw.report.form import (
    Count,
    Flag,
    Length,
    Name,
    Number,
    Numerals,
    Saving,
    Share,
    Text,
    Whole,
    count_of,
    form_of,
    number_of,
    plain,
    read,
    require,
)

__all__ = [
    "FORM",
    "SCHEMA",
    "Available",
    "BuildStep",
    "Cells",
    "Comparison",
    "EnergyEstimate",
    "EstimatedCells",
    "FanIn",
    "KernelCounts",
    "LayerOperations",
    "NetworkInput",
    "NetworkOutput",
    "Operations",
    "PipelineStage",
    "PlanSummary",
    "PlannedPart",
    "PlannedStage",
    "Report",
    "RoutedTiming",
    "StageQueue",
    "Uart",
    "band",
]

#: Version of the form. It rises when a field goes or changes its meaning, not when one is added.
SCHEMA = 1

Baud = Annotated[float, number_of("baud")]
Bits = Annotated[int, count_of("bits")]
Cycles = Annotated[int, count_of("cycles")]
ImagesPerSecond = Annotated[float, number_of("images/s")]
Megahertz = Annotated[float, number_of("MHz")]
Nanojoules = Annotated[float, number_of("nJ")]
Nanoseconds = Annotated[float, number_of("ns")]
Picojoules = Annotated[float, number_of("pJ")]
Seconds = Annotated[float, number_of("s")]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Cells of a design, as synthesis counts them."""

    luts: Annotated[Count | None, "Look-up tables."] = None
    ffs: Annotated[Count | None, "Flip-flops."] = None
    bram: Annotated[Number | None, "Block RAMs. Half a block is 0.5."] = None
    carries: Annotated[Count | None, "Carry cells."] = None
    dsps: Annotated[Count | None, "DSP blocks."] = None
    srls: Annotated[Count | None, "LUTs, of those above, that are shift registers."] = None
    lutram: Annotated[Count | None, "LUTs, of those above, that are memory."] = None


@dataclass(frozen=True, kw_only=True)
class Available:
    """What a part has."""

    luts: Annotated[Count | None, "Look-up tables."] = None
    ffs: Annotated[Count | None, "Flip-flops."] = None
    bram: Annotated[Number | None, "Block RAMs."] = None


@dataclass(frozen=True, kw_only=True)
class EstimatedCells:
    """What a design should take, computed before synthesis from the costs of the heaps."""

    core: Annotated[Count | None, "LUTs of the network."] = None
    shell: Annotated[Count | None, "LUTs of what is around it."] = None
    registers: Annotated[Count | None, "Registers of both."] = None
    brams: Annotated[Count | None, "Block RAMs of the network and of the shell."] = None
    luts: Annotated[Count | None, "LUTs in total."] = None


@dataclass(frozen=True, kw_only=True)
class RoutedTiming:
    """What place and route says of the clock."""

    met: Annotated[Flag | None, "Whether the design keeps its clock."] = None
    worst: Annotated[Text | None, "The stage that has the longest path."] = None
    tool: Annotated[Text | None, "The tool that measured it."] = None


@dataclass(frozen=True, kw_only=True)
class Uart:
    """The serial line."""

    baud: Annotated[Baud, "Bits per second on the line."]
    clocks_per_bit: Annotated[Number, "Cycles of the board's clock for each of them."]


@dataclass(frozen=True, kw_only=True)
class FanIn:
    """How many connections the neurons of a stage have."""

    least: Annotated[Count, "The smallest number of connections."]
    most: Annotated[Count, "The largest number of connections."]
    histogram: Annotated[
        Mapping[Numerals, Count],
        "Maps each number of connections, as text, to the number of neurons that have it.",
    ]


@dataclass(frozen=True, kw_only=True)
class StageQueue:
    """Where what a stage reads from one source waits: for its other sources, or for its turn."""

    source: Annotated[Whole, "Number of the stage that it comes from; −1 for the input."]
    depth: Annotated[Count, "Values that it holds."]
    bits: Annotated[Bits, "Width of a value."]
    tables: Annotated[Count, "LUTs as generated, those of its memory too."]
    registers: Annotated[Count, "Flip-flops as generated."]
    block_ram: Annotated[Number, "Block RAMs as generated."]


@dataclass(frozen=True, kw_only=True)
class PipelineStage:
    """A stage of the pipeline."""

    name: Annotated[Name, "Its name in the netlist."]
    kind: Annotated[Name, "The operation that it does."]
    sources: Annotated[
        tuple[Whole, ...] | None,
        "Numbers of the stages that it reads, from 0; −1 is the network's input. Null means the "
        "stage before it.",
    ] = None
    shape: Annotated[tuple[Count, ...] | None, "Shape of its output."] = None
    width: Annotated[Bits | None, "Width of its output; 0 if it has no hardware of its own."] = None
    bits: Annotated[Bits | None, "Width of each value of its output."] = None
    signed: Annotated[Flag | None, "Whether these values are two's complement."] = None
    connections: Annotated[Count | None, "Its connections."] = None
    tables: Annotated[Count | None, "LUTs as generated."] = None
    registers: Annotated[Count | None, "Flip-flops as generated."] = None
    block_ram: Annotated[Number | None, "Block RAMs as generated."] = None
    queues: Annotated[
        tuple[StageQueue, ...], "Its queues; their LUTs, flip-flops and block RAMs are in its own."
    ] = ()
    latency: Annotated[Cycles | None, "From its input to its output."] = None
    fan_in: Annotated[FanIn | None, "Connections per neuron."] = None
    neurons: Annotated[Count | None, "Its neurons."] = None
    xi: Annotated[Whole | None, "Numerator of ξ = `xi` / 2^`k`."] = None
    k: Annotated[Count | None, "Exponent of the denominator of ξ."] = None
    additions: Annotated[
        Count | None, "Additions per image, where values have more than one bit."
    ] = None
    multiplications: Annotated[
        Count | None, "Multiplications per image, where values have more than one bit."
    ] = None


@dataclass(frozen=True, kw_only=True)
class NetworkInput:
    """What the network reads."""

    shape: Annotated[tuple[Count, ...], "Shape of an image."]
    bits: Annotated[Bits, "Width of a value."]
    beats: Annotated[Count | None, "Words per image."]
    width: Annotated[Bits | None, "Width of a word."]


@dataclass(frozen=True, kw_only=True)
class NetworkOutput:
    """What the network answers."""

    classes: Annotated[Count, "Number of classes."]
    width: Annotated[Bits | None, "Width of an answer."]
    names: Annotated[tuple[Text, ...] | None, "What the classes are called, if that is known."] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Binary operations for one image."""

    static: Annotated[Count | None, "Counted in the netlist."]
    # Not whole where images differ in their handshakes.
    measured: Annotated[Number | None, "Measured in simulation."]
    dense: Annotated[Count | None, "Of the dense network: 2N per neuron."]
    paper: Annotated[Number | None, "The paper's estimate EC·N, without q."]
    additions: Annotated[
        Count | None, "Additions of values of more than one bit, which are no binary operations."
    ] = None
    multiplications: Annotated[Count | None, "Multiplications of such values."] = None


@dataclass(frozen=True, kw_only=True)
class LayerOperations:
    """Binary operations of a layer for one image."""

    name: Annotated[Name, "The layer's stage."]
    sparse: Annotated[Count, "One for each connection, plus q."]
    dense: Annotated[Count, "2N per neuron."]
    q: Annotated[Count | None, "The part of `sparse` that is for q."]


@dataclass(frozen=True, kw_only=True)
class KernelCounts:
    """Binary kernels of 3×3 weights, and the shares that their zeros save."""

    histogram: Annotated[
        tuple[Count, ...], Length(10), "The number of kernels with 0, 1, … 9 ones."
    ]
    k0: Annotated[Share, "Kernels without a one."]
    k1: Annotated[Share, "Kernels with a single one."]
    bops_pr: Annotated[Saving, "BOPs saved if kernels with less than two ones are dropped."]
    sparse_pr: Annotated[Saving, "BOPs saved if all zeros are skipped."]
    # Kernels with many ones take more than nine bits: this can be below 0.
    bparams_pr: Annotated[Saving, "Storage saved compared with nine bits per kernel."]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The simulated hardware compared with the netlist's own arithmetic."""

    vectors: Annotated[Count, "Images compared."]
    images: Annotated[Text | None, "Name of the data, or `random`."]
    cycles: Annotated[Cycles | None, "Length of the simulation."]
    scores: Annotated[Flag | None, "Whether scores were compared too."]
    latency: Annotated[Cycles | None, "Latency as measured."]
    interval: Annotated[Number | None, "Cycles from image to image, as measured."]
    mismatches: Annotated[Count, "Images of which the results differ."]
    violations: Annotated[Count | None, "Cycles that break a rule of the streams."]
    stalls: Annotated[Flag | None, "Whether stalls were inserted."]


def band(value: float, low: float, high: float, unit: str, of: str = "") -> str:
    """Return an estimate as it is spoken, which always says what it is and how far it may be off.

    Examples
    --------
    >>> band(7.04e-10, 1.76e-10, 2.82e-9, "J", " an image")
    'about 0.7 nJ an image (estimate, 0.18 to 2.8)'
    """
    steps = {1e-12: "p", 1e-9: "n", 1e-6: "µ", 1e-3: "m", 1.0: ""}
    # The largest that leaves a tenth or more, so that most have few zeros.
    step = max((step for step in steps if value >= step / 10), default=1e-12)
    # Two figures; more would be a promise.
    rounded = [float(f"{each / step:.2g}") for each in (value, low, high)]
    shown = [f"{each:,.0f}" if each >= 100 else f"{each:g}" for each in rounded]
    return f"about {shown[0]} {steps[step]}{unit}{of} (estimate, {shown[1]} to {shown[2]})"


@dataclass(frozen=True, kw_only=True)
class EnergyEstimate:
    """What one image is estimated to take of dynamic energy; no board was measured."""

    nanojoules: Annotated[Nanojoules, "The estimate: `toggles` × `picojoules_per_toggle` / 1000."]
    low: Annotated[Nanojoules, "The lower end of its band: the estimate divided by `factor`."]
    high: Annotated[Nanojoules, "The upper end of its band: the estimate times `factor`."]
    factor: Annotated[Number, "How far the estimate may be off, either way: a judgement."]
    toggles: Annotated[Number, "Toggles of flip-flops and LUTs per image, counted in simulation."]
    images: Annotated[Count, "Images that were simulated for that, one behind the other."]
    picojoules_per_toggle: Annotated[Picojoules, "What the FPGA's family is estimated to take."]
    source: Annotated[Text, "Where the energy of a toggle comes from."]
    static: Annotated[Text, "What is known of static power, which is not in the estimate."]

    @classmethod
    def of(
        cls,
        *,
        toggles: float,
        images: int,
        picojoules: float,
        factor: float,
        source: str,
        static: str,
    ) -> "EnergyEstimate":
        """Return the estimate for so many toggles an image."""
        nanojoules = toggles * picojoules / 1000
        return cls(
            nanojoules=nanojoules,
            low=nanojoules / factor,
            high=nanojoules * factor,
            factor=factor,
            toggles=toggles,
            images=images,
            picojoules_per_toggle=picojoules,
            source=source,
            static=static,
        )

    def __str__(self) -> str:
        value, low, high = (each * 1e-9 for each in (self.nanojoules, self.low, self.high))
        return band(value, low, high, "J", " an image")

    def _check(self) -> None:
        """Refuse an estimate that does not follow from its toggles, or has no band."""
        require(self.factor > 1, "energy_estimate.factor", "more than 1", self.factor)
        for name in ("source", "static"):
            text = getattr(self, name)
            require(bool(text.strip()), f"energy_estimate.{name}", "a sentence", text)
        least = self.of(
            toggles=self.toggles,
            images=self.images,
            picojoules=self.picojoules_per_toggle,
            factor=self.factor,
            source=self.source,
            static=self.static,
        )
        for name in ("nanojoules", "low", "high"):
            given, due = getattr(self, name), getattr(least, name)
            right = math.isclose(given, due, rel_tol=1e-6)
            require(right, f"energy_estimate.{name}", f"{due:.6g}, as its toggles say", given)


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """What a stage has of its engine."""

    name: Annotated[Name, "Its name in the netlist."]
    cycles: Annotated[Cycles, "Cycles that it takes for an image."]
    tables: Annotated[Count | None, "LUTs as planned; null in an engine, whose stages share them."]
    program_bits: Annotated[Bits | None, "Bits of its program; null where there is none."]


@dataclass(frozen=True, kw_only=True)
class PlannedPart:
    """Stages that are built together: as wires, or as an engine that computes them in turn."""

    form: Annotated[Name, "`unrolled`, or the engine's form."]
    lanes: Annotated[Count, "Lanes of the engine; 0 for wires."]
    cycles: Annotated[Cycles, "Cycles from an image to the next."]
    tables: Annotated[Count, "LUTs as planned."]
    block_ram: Annotated[Number, "Block RAMs as planned."]
    stages: Annotated[tuple[PlannedStage, ...], "Its stages, in order."]


@dataclass(frozen=True, kw_only=True)
class PlanSummary:
    """How the network was planned; `plan.json` has all of it."""

    title: Annotated[Name, "The plan in a few words."]
    why: Annotated[Text, "Why it was chosen."]
    pace: Annotated[Text, "What sets the pace, and what would be faster."]
    parts: Annotated[tuple[PlannedPart, ...], "Wires and engines, in the order of the stages."]
    beats: Annotated[Cycles, "Cycles in which an image comes in."]
    interval: Annotated[Cycles, "Cycles from an image to the next."]
    shell_block_ram: Annotated[Count, "Block RAMs of the shell."]


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """A step of the build."""

    name: Annotated[Name, "Its name."]
    seconds: Annotated[Seconds | None, "How long it took."]
    cached: Annotated[Flag, "True if it was up to date and skipped."]
    file: Annotated[Text | None, "The file that it made."]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is known of a build.

    Fields are None where a value is not known or was not measured; ``docs/report.md`` explains
    each of them.
    """

    schema: Annotated[Count, "Version of the format: 1."]
    model: Annotated[Text, "Name of the model's file, without its folder."]
    network: Annotated[Name, "Digest of the netlist."]
    board: Annotated[Name | None, "The board's name on the command line."]
    board_title: Annotated[Name | None, "The board's full name."]
    part: Annotated[Name | None, "The FPGA."]
    family: Annotated[Name | None, "The FPGA's family."]
    connections: Annotated[Count, "Taps of the netlist, after constants are propagated."]
    weights: Annotated[Count | None, "Weights as trained."]
    ones: Annotated[Count | None, "Weights that are 1."]
    density: Annotated[Share | None, "`ones` / `weights`."]
    luts: Annotated[Count | None, "LUTs of the network's core, without the shell."]
    ffs: Annotated[Count | None, "Flip-flops of the core."]
    bram: Annotated[Number | None, "Block RAMs of the core. Half a block is 0.5."]
    carries: Annotated[Count | None, "Carry cells of the core."]
    dsps: Annotated[Count | None, "DSP blocks of the core."]
    luts_per_connection: Annotated[Number | None, "`luts` / `connections`."]
    counted_by: Annotated[Name | None, "Tool, version and command that counted the cells."]
    design: Annotated[
        Cells | None,
        "Cells of the whole design, with the board's shell or the AXI4-Stream interface.",
    ]
    placed: Annotated[
        Mapping[Text, Annotated[tuple[Number, ...], Length(2)]] | None,
        "Resources after place and route: `[used, available]`, by the tool's own names.",
    ]
    capacity: Annotated[Available | None, "What the part has."]
    estimate: Annotated[EstimatedCells | None, "What the design should take, before synthesis."]
    clock_mhz: Annotated[Megahertz | None, "The target clock."]
    fmax_mhz: Annotated[Megahertz | None, "The clock that place and route reached."]
    timing: Annotated[RoutedTiming | None, "What place and route says of the clock."]
    uart: Annotated[Uart | None, "The serial line."]
    link: Annotated[Text | None, "How the host talks to the board, and where to plug in."]
    load: Annotated[
        Text | None,
        "How to load the bitstream onto the board; while Vivado has still to run, it names "
        "`board/shell.bit`.",
    ]
    latency_cycles: Annotated[Cycles | None, "From an image's first word to its class."]
    initiation_interval: Annotated[
        Cycles | None, "From the start of an image to the start of the next."
    ]
    latency_ns: Annotated[Nanoseconds | None, "The latency at `clock_mhz`."]
    images_per_second: Annotated[ImagesPerSecond | None, "Rate of the core at `clock_mhz`."]
    link_images_per_second: Annotated[ImagesPerSecond | None, "Rate of the serial line."]
    levels_per_stage: Annotated[Count | None, "Tables between two registers."]
    energy_estimate: Annotated[
        EnergyEstimate | None,
        "What an image is estimated to take of dynamic energy; null unless the build was asked to "
        "count toggles (`--energy`).",
    ]
    plan: Annotated[PlanSummary | None, "How the hardware was planned."]
    stages: Annotated[tuple[PipelineStage, ...], "The stages of the pipeline, in order."]
    input: Annotated[NetworkInput, "What the network reads."]
    output: Annotated[NetworkOutput, "What the network answers."]
    bops: Annotated[Operations, "Binary operations per image."]
    bops_layers: Annotated[tuple[LayerOperations, ...], "Binary operations of each layer."]
    kernels: Annotated[KernelCounts | None, "Binary 3×3 kernels; null if there are none."]
    agreement: Annotated[Comparison | None, "What simulation found; null if there was none."]
    accuracy: Annotated[Share | None, "Share of the images that were right."]
    correct: Annotated[Count | None, "Number of images that were right."]
    data: Annotated[Text | None, "Name of the data."]
    confusion: Annotated[
        tuple[tuple[Count, ...], ...] | None,
        "A row for each true class with the number of images per answer; its diagonal adds up to "
        "`correct`.",
    ]
    steps: Annotated[tuple[BuildStep, ...], "The steps of the build, in order."]
    missing: Annotated[Text | None, "What was not made, and how to get it, in a sentence."]
    bitstream: Annotated[Name | None, "Name of the bitstream's file."]
    tools: Annotated[Mapping[Text, Text | None], "Version of each tool, by name."]
    digest: Annotated[Name, "Digest of all inputs: the model, options, versions of tools."]
    version: Annotated[Name, "Version of sbnn-hw."]

    @classmethod
    def read(cls, value: Any) -> "Report":
        """Return the report that the content of a report.json is.

        Raises
        ------
        ValueError
            If a field is missing or holds what it must not; the sentence names it.

        Examples
        --------
        >>> Report.read({"schema": 1})
        Traceback (most recent call last):
            ...
        ValueError: The report has no field model
        """
        require(isinstance(value, Mapping), "", "an object", value)
        # Another version may differ in anything else: this is the sentence that helps.
        schema = value.get("schema", SCHEMA)
        require(schema == SCHEMA, "schema", f"{SCHEMA} for this release", schema)
        report: Report = read(value, FORM)
        report._check_sums()
        return report

    def to_dict(self) -> dict[str, Any]:
        """Return what report.json holds."""
        written: dict[str, Any] = plain(self)
        return written

    @property
    def core(self) -> Cells:
        """The cells of the network's core, which stand in fields of their own."""
        return Cells(
            luts=self.luts, ffs=self.ffs, bram=self.bram, carries=self.carries, dsps=self.dsps
        )

    @property
    def place(self) -> str | None:
        """What the design is for, in the longest words that are known."""
        return self.board_title or self.board or self.part

    def _check_sources(self) -> None:
        """Refuse stages that read what does not come before them, or that nothing reads."""
        read = {-1}
        for number, stage in enumerate(self.stages):
            field, earlier = f"stages[{number}].sources", "numbers of earlier stages, or −1"
            require(stage.sources != (), field, "one or more", [])
            sources = (number - 1,) if stage.sources is None else stage.sources
            for source in sources:
                require(-1 <= source < number, field, earlier, source)
            for queue in stage.queues:
                own = f"stages[{number}].queues"
                require(queue.source in sources, own, "of stages that it reads", queue.source)
            read.update(sources)
        for number in range(len(self.stages) - 1):
            if number not in read:
                raise ValueError(
                    f"Field stages[{number}] of the report must be read by a later stage"
                )

    def _check_sums(self) -> None:
        """Refuse numbers that contradict each other."""
        if self.energy_estimate is not None:
            self.energy_estimate._check()
        self._check_sources()
        agreement, confusion, classes = self.agreement, self.confusion, self.output.classes
        if agreement is not None:
            most = f"at most agreement.vectors ({agreement.vectors})"
            wrong = agreement.mismatches
            require(wrong <= agreement.vectors, "agreement.mismatches", most, wrong)
        names = self.output.names
        if names is not None:
            require(len(names) == classes, "output.names", f"{classes} names", len(names))
        if confusion is None:
            return
        if {len(confusion), *map(len, confusion)} != {classes}:
            raise ValueError(
                f"Field confusion of the report must have {classes} rows and columns, "
                "as output.classes says"
            )
        right = sum(counts[index] for index, counts in enumerate(confusion))
        if self.correct is not None:
            diagonal = f"the diagonal of confusion ({right})"
            require(self.correct == right, "correct", diagonal, self.correct)


#: The form of the whole report.
FORM = form_of(Report)
