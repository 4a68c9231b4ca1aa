"""Gather what a build found out into the report, and write it."""

import json
import os
import shlex
from dataclasses import asdict
from typing import Any

from sbnn_hw import __version__, bops
from sbnn_hw.boards.protocol import OVERHEAD, Wire
from sbnn_hw.boards.table import Board, Part
from sbnn_hw.files import write_atomically
from sbnn_hw.flow.plan import BITSTREAMS, BOARD, Built, Plan
from sbnn_hw.flow.steps import Steps, value_digest
from sbnn_hw.report import SCHEMA, check, render

__all__ = ["HTML", "JSON", "load_command", "make_report"]

JSON, HTML = "report.json", "report.html"

_SYNTHESIS = {"xc7": "synth_xilinx", "ecp5": "synth_ecp5", "ice40": "synth_ice40"}


def make_report(plan: Plan, built: Built, steps: Steps, tools: dict[str, str]) -> dict[str, Any]:
    """Return the report of a build, and write it as JSON and as a page."""
    report = _gather(plan, built, steps, tools)
    check(report)
    page = render(report)
    text = json.dumps(report, indent=2) + "\n"
    write_atomically(plan.out / HTML, lambda file: file.write(page.encode()))
    write_atomically(plan.out / JSON, lambda file: file.write(text.encode()))
    return report


def _gather(plan: Plan, built: Built, steps: Steps, tools: dict[str, str]) -> dict[str, Any]:
    network, target = built.network, plan.target
    counts = bops.summarise(network)
    verdict = built.simulated["verdict"] if built.simulated else None
    confusion = built.simulated["confusion"] if built.simulated else None
    core = built.core or {}
    luts, connections = core.get("luts"), counts["connections"]
    description = built.description
    clock_hz = built.clock_hz
    interval, latency = description.get("interval"), description.get("latency")
    correct = vectors = None
    if confusion is not None:
        correct = sum(row[n] for n, row in enumerate(confusion))
        vectors = sum(map(sum, confusion))
    capacity = target.capacity
    routed = built.routed
    return {
        "schema": SCHEMA,
        # The name alone: where it lies is nobody else's business. It need not be text; what cannot
        # be shown is shown as such.
        "model": os.fsencode(plan.model.name).decode(errors="replace"),
        "network": network.digest,
        "board": target.name if isinstance(target, Board) else None,
        "board_title": target.title if isinstance(target, Board) else None,
        "part": target.part if isinstance(target, Board) else target.name,
        "family": target.family,
        "connections": connections,
        "weights": counts["weights"],
        "ones": counts["ones"],
        "density": counts["density"],
        "luts": luts,
        "ffs": core.get("ffs"),
        "bram": core.get("bram"),
        "carries": core.get("carries"),
        "dsps": core.get("dsps"),
        "luts_per_connection": luts / connections if luts is not None and connections else None,
        "counted_by": f"Yosys {tools['yosys']}, {_SYNTHESIS[target.family]}" if core else None,
        "design": built.whole,
        "placed": None if routed is None else routed["utilisation"],
        "capacity": None
        if capacity is None
        else {"luts": capacity.luts, "ffs": capacity.flip_flops, "bram": capacity.brams},
        "estimate": None if built.fit is None else asdict(built.fit),
        "clock_mhz": clock_hz / 1e6 if clock_hz else None,
        "fmax_mhz": routed["fmax_mhz"] if routed else None,
        "timing": {
            "met": routed["met"] if routed else None,
            "worst": routed["worst"] if routed else None,
            "tool": routed["tool"] if routed else None,
        },
        "uart": None
        if built.clock is None
        else {"baud": built.clock.baud.rate, "clocks_per_bit": built.clock.baud.divisor},
        "link": _link(target),
        "load": load_command(target, _loaded(built, target)),
        "latency_cycles": latency,
        "initiation_interval": interval,
        "latency_ns": latency * 1e9 / clock_hz if latency is not None and clock_hz else None,
        "images_per_second": clock_hz / interval if interval and clock_hz else None,
        "link_images_per_second": _link_rate(built),
        "levels_per_stage": description.get("options", {}).get("levels_per_stage"),
        "stages": _stages(built, counts),
        "input": {
            "shape": list(network.input.shape),
            "bits": network.input.bits,
            "beats": description["input"]["beats"] if description else None,
            "width": description["input"]["width"] if description else None,
        },
        "output": {
            "classes": network.classes,
            "width": description["output"]["width"] if description else None,
        },
        "bops": {
            "static": counts["bops"]["sparse"] + counts["bops"]["additions"],
            "measured": verdict["bops"]["measured"] if verdict else None,
            "dense": counts["bops"]["dense"],
            "paper": round(counts["density"] * counts["bops"]["binary_macs"]),
        },
        "bops_layers": [
            {
                "name": layer["name"],
                **{key: layer["bops"][key] for key in ("sparse", "dense", "q")},
            }
            for layer in counts["layers"]
        ],
        "kernels": counts["kernels"],
        "agreement": None if verdict is None else _agreement(verdict),
        "accuracy": None if not vectors else correct / vectors if correct is not None else None,
        "correct": correct,
        "data": verdict["images"] if confusion is not None and verdict else None,
        "confusion": confusion,
        "steps": [
            {"name": s.name, "seconds": s.seconds, "cached": s.cached, "file": s.file}
            for s in steps.done
        ],
        "missing": built.missing,
        "bitstream": next((s.file for s in steps.done if s.file.endswith((".bit", ".bin"))), None),
        "tools": dict(sorted(tools.items())),
        "digest": value_digest([step.digest for step in steps.done]),
        "version": __version__,
    }


def _link(target: Board | Part) -> str | None:
    """Return how the host talks to a board, and where to plug in."""
    if not isinstance(target, Board):
        return None
    return target.link if target.uart is None else f"{target.link}: {target.uart.where}"


def _loaded(built: Built, target: Board | Part) -> str:
    """Return the file that a board is loaded with, below the build's folder."""
    if built.missing and target.family == "xc7":
        return f"{BOARD}/shell.bit"
    return BITSTREAMS[target.family]


def load_command(target: Board | Part, file: str) -> str | None:
    """Return the command that brings a bitstream to a board; None if none is known."""
    if not isinstance(target, Board) or not target.load:
        return None
    return target.load.format(file=shlex.quote(file))


def _agreement(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict in short: a result that differs, with or without stalls, counts."""
    same = ("vectors", "images", "cycles", "scores", "latency", "interval")
    runs = (verdict, verdict["stalled"])
    return {
        **{key: verdict[key] for key in same},
        "mismatches": max(run["mismatches"] for run in runs),
        "violations": sum(run["violations"] for run in runs),
        "stalls": True,
    }


def _link_rate(built: Built) -> float | None:
    """Return how many images a second the serial line lets through, in full packets."""
    if built.clock is None or not built.description:
        return None
    wire = Wire.of(built.description)
    if not wire.batch:
        return None
    return built.clock.baud.rate / 10 / (wire.image_bytes + OVERHEAD / wire.batch)


def _stages(built: Built, counts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the stages of the pipeline, with what is known of each."""
    layers = {layer["name"]: layer for layer in counts["layers"]}
    described = {stage["name"]: stage for stage in built.description.get("stages", [])}
    stages = []
    for number, stage in enumerate(built.network.stages):
        edge = built.network.edge_from(number)
        hardware, layer = described.get(stage.name, {}), layers.get(stage.name, {})
        stages.append(
            {
                "name": stage.name,
                "kind": stage.operation.kind,
                "shape": list(edge.shape),
                "width": hardware.get("width"),
                "connections": layer.get("connections", 0),
                "tables": hardware.get("tables"),
                "registers": hardware.get("registers"),
                "latency": hardware.get("latency"),
                "fan_in": layer.get("fan_in"),
                "neurons": layer.get("neurons"),
                "xi": layer.get("xi"),
                "k": layer.get("k"),
            }
        )
    return stages
