"""Gather what a build found out into the report, and write it."""

import json
import os
import shlex
from typing import Any

from sbnn_hw import __version__, bops
from sbnn_hw.boards.clocks import ClockPlan
from sbnn_hw.boards.fit import Need
from sbnn_hw.boards.links import SPI, UART
from sbnn_hw.boards.protocol import OVERHEAD, Wire
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.design import StageDesign
from sbnn_hw.files import write_text
from sbnn_hw.flow.plan import BOARD, LEFT, Built, Plan, bitstream_of
from sbnn_hw.flow.steps import Steps, value_digest
from sbnn_hw.netlist import INPUT, Network
from sbnn_hw.planner import HardwarePlan
from sbnn_hw.report import SCHEMA, Report, render, schema

__all__ = ["HTML", "JSON", "load_command", "make_report"]

JSON, HTML = "report.json", "report.html"


def make_report(plan: Plan, built: Built, steps: Steps, tools: dict[str, str]) -> Report:
    """Return the report of a build, and write it as JSON and as a page."""
    written = _gather(plan, built, steps, tools).to_dict()
    report = Report.read(written)
    write_text(plan.out / HTML, render(report))
    write_text(plan.out / JSON, json.dumps(written, indent=2) + "\n")
    return report


def _gather(plan: Plan, built: Built, steps: Steps, tools: dict[str, str]) -> Report:
    network, target = built.network, plan.target
    board = target if isinstance(target, Board) else None
    counts = bops.summarise(network)
    verdict = built.simulated["verdict"] if built.simulated else None
    confusion = built.simulated["confusion"] if built.simulated else None
    core, whole, routed = built.core or {}, built.whole, built.routed or {}
    luts, connections = core.get("luts"), counts["connections"]
    design = built.design
    clock_hz, clock, fit, capacity = built.clock_hz, built.clock, built.fit, target.capacity
    interval, latency = (design.interval, design.latency) if design else (None, None)
    correct = vectors = None
    if confusion is not None:
        correct = sum(row[n] for n, row in enumerate(confusion))
        vectors = sum(map(sum, confusion))
    return Report(
        schema=SCHEMA,
        # The name alone: where it lies is nobody else's business. It need not be text; what cannot
        # be shown is shown as such.
        model=os.fsencode(plan.model.name).decode(errors="replace"),
        network=network.digest,
        board=board.name if board else None,
        board_title=board.title if board else None,
        part=board.part if board else target.name,
        family=target.family.name,
        connections=connections,
        weights=counts["weights"],
        ones=counts["ones"],
        density=counts["density"],
        luts=luts,
        ffs=core.get("ffs"),
        bram=core.get("bram"),
        carries=core.get("carries"),
        dsps=core.get("dsps"),
        luts_per_connection=luts / connections if luts is not None and connections else None,
        counted_by=f"Yosys {tools['yosys']}, {target.family.synthesis.tool}" if core else None,
        design=schema.Cells(**whole) if whole else None,
        placed=routed.get("utilisation"),
        capacity=schema.Available(luts=capacity.luts, ffs=capacity.flip_flops, bram=capacity.brams)
        if capacity
        else None,
        estimate=_estimate(fit) if fit else None,
        clock_mhz=clock_hz / 1e6 if clock_hz else None,
        fmax_mhz=routed.get("fmax_mhz"),
        timing=schema.RoutedTiming(
            met=routed.get("met"), worst=routed.get("worst"), tool=routed.get("tool")
        ),
        uart=schema.Uart(baud=clock.baud.rate, clocks_per_bit=clock.baud.divisor)
        if clock and clock.link is UART
        else None,
        link=_link(target, clock),
        load=load_command(target, _loaded(built, target)),
        latency_cycles=latency,
        initiation_interval=interval,
        latency_ns=latency * 1e9 / clock_hz if latency is not None and clock_hz else None,
        images_per_second=clock_hz / interval if interval and clock_hz else None,
        link_images_per_second=_link_rate(built),
        levels_per_stage=design.levels_per_stage if design else None,
        energy_estimate=_energy(built, target),
        plan=_plan(built.plan) if built.plan else None,
        stages=_stages(built, counts),
        input=schema.NetworkInput(
            shape=network.input.shape,
            bits=network.input.bits,
            beats=design.input.beats if design else None,
            width=design.input.width if design else None,
        ),
        output=schema.NetworkOutput(
            classes=network.classes,
            width=design.output.width if design else None,
            names=network.meaning.classes if network.meaning else None,
        ),
        bops=schema.Operations(
            static=counts["by_connections"],
            measured=verdict["bops"]["measured"] if verdict else None,
            dense=counts["bops"]["dense"],
            paper=round(counts["density"] * counts["bops"]["binary_macs"]),
            additions=counts["bops"]["additions"],
            multiplications=counts["bops"]["multiplications"],
        ),
        bops_layers=tuple(
            schema.LayerOperations(
                name=layer["name"], **{key: layer["bops"][key] for key in ("sparse", "dense", "q")}
            )
            for layer in counts["layers"]
        ),
        kernels=schema.KernelCounts(**counts["kernels"]) if counts["kernels"] else None,
        agreement=_agreement(verdict) if verdict else None,
        accuracy=correct / vectors if correct is not None and vectors else None,
        correct=correct,
        data=verdict["images"] if confusion is not None and verdict else None,
        confusion=confusion,
        steps=tuple(
            schema.BuildStep(name=s.name, seconds=s.seconds, cached=s.cached, file=s.file)
            for s in steps.done
        ),
        missing=built.missing,
        bitstream=next((s.file for s in steps.done if s.file in LEFT["bitstream"]), None),
        tools=dict(sorted(tools.items())),
        digest=value_digest([step.digest for step in steps.done]),
        version=__version__,
    )


def _estimate(fit: Need) -> schema.EstimatedCells:
    return schema.EstimatedCells(
        core=fit.network, shell=fit.shell, registers=fit.registers, brams=fit.brams, luts=fit.luts
    )


def _plan(plan: HardwarePlan) -> schema.PlanSummary:
    made = plan.arrangement
    return schema.PlanSummary(
        title=made.title,
        why=plan.why,
        pace=plan.pace,
        parts=tuple(
            schema.PlannedPart(
                form=part.form,
                lanes=part.lanes,
                cycles=part.cycles,
                tables=part.cost.tables,
                block_ram=part.cost.blocks,
                stages=tuple(
                    schema.PlannedStage(
                        name=stage.name,
                        cycles=stage.cycles,
                        tables=None if part.lanes else stage.cost.tables,
                        program_bits=stage.cost.memory_bits if part.lanes else None,
                    )
                    for stage in part.stages
                ),
            )
            for part in made.candidates
        ),
        beats=made.beats,
        interval=made.interval,
        shell_block_ram=plan.need.image_brams,
    )


def _energy(built: Built, target: Board | Part) -> schema.EnergyEstimate | None:
    """Return what an image should take, if toggles were counted."""
    if built.toggles is None:
        return None
    counted, switching = built.toggles, target.family.switching
    return schema.EnergyEstimate.of(
        toggles=(counted["registers"] + counted["tables"]) / counted["images"],
        images=counted["images"],
        picojoules=switching.picojoules,
        factor=switching.factor,
        source=switching.source,
        static=switching.static,
    )


def _link(target: Board | Part, clock: ClockPlan | None) -> str | None:
    """Return how the host talks to a board, and where to plug in."""
    if not isinstance(target, Board):
        return None
    if clock is not None and clock.link is SPI and target.spi is not None:
        return f"SPI, SCK up to {clock.baud.rate / 1e6:.4g} MHz: {target.spi.where}"
    return target.link if target.uart is None else f"{target.link}: {target.uart.where}"


def _loaded(built: Built, target: Board | Part) -> str:
    """Return the file that a board is loaded with, below the build's folder."""
    if built.missing and "vivado" in target.family.toolchains:
        return f"{BOARD}/shell.bit"
    return bitstream_of(target)


def load_command(target: Board | Part, file: str) -> str | None:
    """Return the command that brings a bitstream to a board; None if none is known."""
    if not isinstance(target, Board) or not target.load:
        return None
    return target.load.format(file=shlex.quote(file))


def _agreement(verdict: dict[str, Any]) -> schema.Comparison:
    """Return the verdict in short: a result that differs, with or without stalls, counts."""
    same = ("vectors", "images", "cycles", "scores", "latency", "interval")
    runs = (verdict, verdict["stalled"])
    return schema.Comparison(
        **{key: verdict[key] for key in same},
        mismatches=max(run["mismatches"] for run in runs),
        violations=sum(run["violations"] for run in runs),
        stalls=True,
    )


def _link_rate(built: Built) -> float | None:
    """Return how many images a second the line lets through, in full packets."""
    if built.clock is None or built.design is None:
        return None
    wire = Wire.of(built.design)
    if not wire.batch:
        return None
    bytes_per_second = built.clock.baud.rate / built.clock.link.byte_bits
    return bytes_per_second / (wire.image_bytes + OVERHEAD / wire.batch)


def _stages(built: Built, counts: dict[str, Any]) -> tuple[schema.PipelineStage, ...]:
    """Return the stages of the pipeline, with what is known of each."""
    network = built.network
    layers = {layer["name"]: layer for layer in counts["layers"]}
    described = {stage.name: stage for stage in built.design.stages} if built.design else {}
    stages = []
    for number, stage in enumerate(network.stages):
        hardware, layer = described.get(stage.name), layers.get(stage.name, {})
        edge, operation = network.edge_from(number), stage.operation
        work = operation.work(*network.edges_into(number))
        stages.append(
            schema.PipelineStage(
                name=stage.name,
                kind=operation.kind,
                sources=stage.sources,
                shape=edge.shape,
                width=hardware.width if hardware else None,
                bits=edge.bits,
                signed=edge.signed,
                connections=operation.connections,
                tables=hardware.cost.tables if hardware else None,
                registers=hardware.cost.registers if hardware else None,
                block_ram=hardware.cost.blocks if hardware else None,
                queues=_queues(hardware, network) if hardware else (),
                latency=hardware.latency if hardware else None,
                fan_in=schema.FanIn(**layer["fan_in"]) if layer else None,
                neurons=layer.get("neurons"),
                xi=layer.get("xi"),
                k=layer.get("k"),
                additions=work.additions,
                multiplications=work.multiplications,
            )
        )
    return tuple(stages)


def _queues(stage: StageDesign, network: Network) -> tuple[schema.StageQueue, ...]:
    numbers = {each.name: number for number, each in enumerate(network.stages)} | {"": INPUT}
    return tuple(
        schema.StageQueue(
            source=numbers[queue.source],
            depth=queue.depth,
            bits=queue.bits,
            tables=queue.cost.tables,
            registers=queue.cost.registers,
            block_ram=queue.cost.blocks,
        )
        for queue in stage.queues
    )
