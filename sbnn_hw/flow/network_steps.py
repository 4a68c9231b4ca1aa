"""The steps up to hardware that is shown to be right: fold, generate, simulate."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbnn_hw import netlist
from sbnn_hw.boards.clocks import plan_clock
from sbnn_hw.boards.table import Board
from sbnn_hw.data.find import find_data, is_known
from sbnn_hw.data.input_format import FILES as INPUT_FORMAT
from sbnn_hw.data.input_format import describe_input
from sbnn_hw.data.own import Known, OwnData, is_own
from sbnn_hw.datasets import Images
from sbnn_hw.errors import DataMissing, ModelRejected, ToolMissing
from sbnn_hw.files import write_text
from sbnn_hw.flow.plan import TOGGLES, UNTIL, Built, Flow, left_by
from sbnn_hw.flow.planning import clock_of
from sbnn_hw.flow.steps import NOTES, code_digest, file_digest
from sbnn_hw.generate import SUITE, generate_design
from sbnn_hw.hardware import AGREEMENT, AXI, DESCRIPTION, NETLIST, VERILOG
from sbnn_hw.images import random_images
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Network

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = [
    "choose_clock",
    "choose_images",
    "count_toggles",
    "fold",
    "generate",
    "simulate",
]

#: Random images, where there are no others.
_RANDOM = 1000

#: Images whose toggles are counted, at most: more hardly change the mean.
_TOGGLED = 1000

# What opens a model, by its kind. The module that decides between them counts alone.
_OPENERS = {
    ".pt": ("sbnn_hw.datasets", "sbnn_hw.train.checkpoint", "sbnn_hw.train.fold"),
    ".onnx": ("sbnn_hw.qonnx.importer",),
}


def fold(flow: Flow) -> tuple[Network, str | None]:
    model = flow.plan.model

    def make() -> tuple[Any, list[str]]:
        network = open_network(model, flow.plan.pixels)
        if (before or {}).get("network") != network.digest:
            # Nothing of another network may stay, however far this build gets.
            flow.steps.remove(left_by(*UNTIL))
        netlist.save(network, flow.plan.out / NETLIST)
        return {"data": _trained_on(model), "network": network.digest}, [NETLIST]

    kind = model.suffix.lower()
    reads = {
        "model": file_digest(model),
        "kind": kind,
        "code": code_digest(
            *("sbnn_hw.netlist", *_OPENERS.get(kind, ())),
            # Which data sets have names is asked too; how they are read is not.
            alone=(__name__, "sbnn_hw.models", "sbnn_hw.data.find"),
        ),
        "torch": flow.tools.get("torch"),
        "onnx": flow.tools.get("onnx"),
        "pixels": flow.plan.pixels,
    }
    before = flow.steps.last("netlist")
    found = flow.steps.run("netlist", reads, make)
    return netlist.load(flow.plan.out / NETLIST), found["data"]


def _trained_on(model: Path) -> str | None:
    """Return the data set that a checkpoint says it was trained on, if it is a known one."""
    if model.suffix.lower() != ".pt":
        return None
    from sbnn_hw.train.checkpoint import load_checkpoint

    name = load_checkpoint(model).training.get("data")
    if not isinstance(name, str):
        return None
    return name if is_known(name) or (is_own(name) and Path(name).exists()) else None


def choose_images(
    flow: Flow, network: Network, trained_on: str | None
) -> tuple[Images, str | None]:
    """Return the images to simulate, and the data set they are of, if they have labels."""
    if isinstance(flow.plan.data, OwnData):
        return _images_of(flow.plan.data, network, flow.plan.model), flow.plan.data.name
    name = flow.plan.data or trained_on
    if name is not None:
        known = Known.of(network.meaning, network.input)
        try:
            dataset = find_data(name, flow.plan.data_options, known, root=flow.plan.data_root)
            fits = dataset.shape == tuple(network.input.shape)
            if flow.plan.data and not (fits and dataset.classes == network.classes):
                raise ModelRejected(
                    f"{flow.plan.model} takes images of "
                    f"{'×'.join(map(str, network.input.shape))} in {network.classes} classes, but "
                    f"{dataset.name} has {'×'.join(map(str, dataset.shape))} in {dataset.classes}"
                )
            if fits:
                if isinstance(dataset, OwnData):
                    flow.say("data", dataset.said)
                return dataset.load("test", flow.plan.data_root), name
        except (DataMissing, ToolMissing) as error:
            # Who names the data, or their folder, wants these images.
            if flow.plan.data or flow.plan.data_root is not None:
                raise
            flow.say("netlist", f"random images, since {error}")
    pixels = random_images(network, _RANDOM)
    return Images(pixels, np.zeros(len(pixels), np.uint8)), None


def _images_of(data: OwnData, network: Network, model: Path) -> Images:
    """Return the test rows of data that are read already, if they are of the network's kind."""
    mine = (data.shape, data.bits, data.classes)
    meaning = network.meaning or data.meaning
    if mine != (tuple(network.input.shape), network.input.bits, network.classes) or (
        (data.meaning.classes, data.meaning.columns) != (meaning.classes, meaning.columns)
    ):
        raise ModelRejected(
            f"The classes or values of {data.name} are not those that {model} was trained with; "
            f"read the data with network=…"
        )
    return data.load("test")


def choose_clock(flow: Flow, built: Built) -> None:
    target = flow.plan.target
    if isinstance(target, Board):
        built.clock = plan_clock(target, flow.plan.clock_hz, flow.plan.link)
    built.clock_hz = clock_of(target, flow.plan.clock_hz, flow.plan.link)


def generate(flow: Flow, built: Built, options: "Options", images: Images) -> None:
    network = built.network

    def make() -> tuple[Any, list[str]]:
        generate_design(network, flow.plan.out, options, images.pixels)
        tests = sorted(path.name for path in (flow.plan.out / "tests").iterdir())
        suite = [f"tests/{name}" for name in tests if (flow.plan.out / "tests" / name).is_file()]
        return {}, [VERILOG, DESCRIPTION, AXI, NETLIST, *INPUT_FORMAT, *suite]

    reads = {
        "network": network.digest,
        # Names are not in the network's digest.
        "input": describe_input(network),
        "options": asdict(options),
        "vectors": _array_digest(images.pixels[:SUITE]),
        "code": code_digest("sbnn_hw.generate", alone=(__name__,)),
        "tools": [flow.tools["amaranth"], flow.tools["yosys"]],
    }
    flow.steps.run("rtl", reads, make)
    built.design = flow.folder.load()[2]


def simulate(flow: Flow, built: Built, images: Images, labelled: str | None) -> None:
    from sbnn_hw.sim.agreement import check_agreement

    network, verilog, design = flow.folder.load()
    classes = network.classes

    def make() -> tuple[Any, list[str]]:
        # A verdict of another run must not outlive one that breaks off.
        flow.folder.remove(AGREEMENT)
        runs = [
            check_agreement(
                network,
                verilog,
                design,
                images.pixels,
                stalls=stalls,
                progress=lambda text: flow.say("simulation", text),
            )
            for stalls in (False, True)
        ]
        steady, stalled = runs
        counts = np.zeros((classes, classes), np.int64)
        if labelled:
            answered = steady.classes[: len(images)]
            np.add.at(counts, (images.labels[: len(answered)], answered), 1)
        verdict = flow.folder.record(
            steady,
            network,
            design,
            verilog,
            labelled or "random",
            images.labels if labelled else None,
            stalled={
                "vectors": stalled.vectors,
                "mismatches": stalled.mismatches,
                "violations": stalled.violations,
                "cycles": stalled.cycles,
            },
        )
        for run in runs:
            flow.folder.insist(run)
        confusion = counts.tolist() if labelled else None
        return {"verdict": verdict, "confusion": confusion}, [AGREEMENT]

    reads = {
        "verilog": file_digest(flow.plan.out / VERILOG),
        "description": file_digest(flow.plan.out / DESCRIPTION),
        "network": network.digest,
        "classes": [network.class_name(number) for number in range(classes)],
        "pixels": _array_digest(images.pixels),
        "labels": _array_digest(images.labels) if labelled else None,
        "data": labelled,
        "code": code_digest("sbnn_hw.hardware", "sbnn_hw.sim.agreement", alone=(__name__,)),
        "tools": [flow.tools["verilator"], flow.tools["compiler"]],
    }
    built.simulated = flow.steps.run("simulation", reads, make)


def count_toggles(flow: Flow, built: Built, images: Images) -> None:
    """Count toggles, if the build shall estimate energy; forget them if it shall not."""
    if not flow.plan.energy:
        flow.steps.remove((TOGGLES, f"{NOTES}/toggles.json"))
        return
    _, verilog, design = flow.folder.load()
    pixels = images.pixels[:_TOGGLED]

    def make() -> tuple[Any, list[str]]:
        from sbnn_hw.sim.toggles import count_toggles as count

        found = asdict(
            count(verilog, design, pixels, progress=lambda text: flow.say("toggles", text))
        )
        write_text(flow.plan.out / TOGGLES, json.dumps(found, indent=1) + "\n")
        return found, [TOGGLES]

    reads = {
        "verilog": file_digest(flow.plan.out / VERILOG),
        "description": file_digest(flow.plan.out / DESCRIPTION),
        "pixels": _array_digest(pixels),
        "code": code_digest("sbnn_hw.sim.toggles", alone=(__name__,)),
        "tools": [flow.tools["verilator"], flow.tools["compiler"]],
    }
    built.toggles = flow.steps.run("toggles", reads, make)


def _array_digest(array: Any) -> str:
    return hashlib.sha256(repr(array.shape).encode() + np.ascontiguousarray(array).data).hexdigest()
