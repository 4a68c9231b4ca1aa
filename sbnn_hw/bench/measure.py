"""Measure one model: every step by digest, so that nothing is measured twice."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sbnn_hw import __version__, bops
from sbnn_hw.bench.dense import densify
from sbnn_hw.bench.numbers import Number, number
from sbnn_hw.bench.zoo import Facts, hardware_of, is_routed, read_facts
from sbnn_hw.boards.nextpnr import (
    bram_blocks,
    find_nextpnr,
    place_out_of_context,
    synthesise_board,
)
from sbnn_hw.boards.table import part_family
from sbnn_hw.datasets import Images
from sbnn_hw.errors import ModelRejected, SbnnError
from sbnn_hw.files import write_atomically
from sbnn_hw.flow.context import Flow
from sbnn_hw.flow.network_steps import choose_images, fold, generate, simulate
from sbnn_hw.flow.plan import Built, Plan, require_tools
from sbnn_hw.flow.steps import Steps, code_digest, file_digest, value_digest
from sbnn_hw.hardware import VERILOG
from sbnn_hw.netlist import Network
from sbnn_hw.tools import version_of
from sbnn_hw.yosys import FAMILIES, Counts, synthesise

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = [
    "ALL",
    "HEAVY",
    "SYNTHESISED",
    "Dense",
    "Setup",
    "dense_beside",
    "hardware_options",
    "measure_dense",
    "measure_model",
    "measured_by",
    "model_facts",
    "prepare_dense",
    "require_all",
]

#: Arty A7-35T's FPGA and its clock.
XC7, XC7_HZ = "xc7a35ticsg324-1L", 100_000_000

#: The ECP5 of the ULX3S, large enough for most, in the slowest grade; what nextpnr aims at.
ECP5, ECP5_HZ = "LFE5U-85F-6BG381C", 100_000_000

#: Dense networks up to so many connections are synthesised; a quick run leaves more to the table.
SYNTHESISED, SYNTHESISED_QUICK = 200_000, 20_000

#: Dense networks of more connections are synthesised lightly: memory would not do otherwise.
HEAVY = 50_000

#: Images of a quick run, and those whose toggles are counted.
QUICK, TOGGLED, TOGGLED_QUICK = 1_000, 1_000, 100

#: Fan-ins are all looked up: none is this large.
ALL = 1 << 30


@dataclass(frozen=True)
class Setup:
    """How all models are measured.

    Parameters
    ----------
    work : Path
        Where steps leave their files, a folder for each model.
    tools : dict of str to str
        Versions of the tools.
    say : callable
        Takes the name of a model, of a step, and a few words.
    data_root : Path, optional
        Where data sets are.
    quick : bool
        Fewer images, no place and route, and dense networks from the table where they are large.
    """

    work: Path
    tools: dict[str, str]
    say: Callable[[str, str, str], None]
    data_root: Path | None = None
    quick: bool = False

    @property
    def dense_limit(self) -> int:
        """Connections up to which a dense network is synthesised."""
        return SYNTHESISED_QUICK if self.quick else SYNTHESISED

    def flow(self, path: Path, data: str | None = None) -> Flow:
        """Return what the steps of a build need, for one model."""
        folder = self.work / path.stem
        plan = Plan(
            model=path, target=part_family(XC7), out=folder, data=data, data_root=self.data_root
        )

        def progress(step: str, text: str) -> None:
            self.say(path.stem, step, text)

        return Flow(plan, Steps(folder, progress), self.tools, progress)


@dataclass(frozen=True)
class Dense:
    """A dense network to compare sparse ones with.

    Parameters
    ----------
    name : str
        The checkpoint's, or one that tells the topology.
    facts : Facts
        Of the checkpoint, or of the sparse model that is compared with it.
    network : Network
        The network itself.
    accuracy : Number, optional
        Known where it was trained.
    """

    name: str
    facts: Facts
    network: Network
    accuracy: Number | None = None


def require_all(path: Path, *, quick: bool) -> dict[str, str]:
    """Make sure, before the first step, that all tools are here; return their versions."""
    plan = Plan(model=path, target=part_family(XC7), out=Path(), until="simulation")
    tools = require_tools(plan)
    if not quick:
        tools["nextpnr"] = version_of(find_nextpnr("ecp5").place)
    return tools


def _keep(
    steps: Steps, name: str, reads: Mapping[str, object], find: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Do a step whose result is a file of plain values, unless it is done."""

    def make() -> tuple[Any, list[str]]:
        value = find()
        text = json.dumps(value, indent=1) + "\n"
        file = f"{name}.json"
        write_atomically(steps.folder / file, lambda out: out.write(text.encode()))
        return value, [file]

    found: dict[str, Any] = steps.run(name, reads, make)
    return found


def model_facts(path: Path, setup: Setup) -> Facts:
    """Return what a model says of itself."""
    if not path.is_file():
        raise ModelRejected(f"No model at {path} (train one with `sbnn-hw train`)")
    reads = {
        "model": file_digest(path),
        "code": code_digest("sbnn_hw.train.checkpoint", "sbnn_hw.bench.zoo"),
    }
    return Facts(**_keep(setup.flow(path).steps, "facts", reads, lambda: asdict(read_facts(path))))


def _open(path: Path, setup: Setup) -> tuple[Flow, Facts, Network, Images]:
    """Fold a model, and read the test images of the data that it was trained on."""
    facts = model_facts(path, setup)
    flow = setup.flow(path, facts.data)
    network, _ = fold(flow)
    images, _ = choose_images(flow, network, facts.data)
    if setup.quick:
        images = Images(images.pixels[:QUICK], images.labels[:QUICK])
    return flow, facts, network, images


def _accuracy(flow: Flow, network: Network, images: Images) -> Number:
    """Measure how many test images the integer network puts in the right class."""
    reads = {
        "network": network.digest,
        "images": _images_digest(images),
        "code": code_digest("sbnn_hw.netlist"),
        "numpy": flow.tools["numpy"],
    }

    def find() -> dict[str, Any]:
        classes = network.compute(images.pixels).classes
        return {"correct": int((classes == images.labels).sum()), "images": len(images)}

    found = _keep(flow.steps, "accuracy", reads, find)
    return number(
        found["correct"] / found["images"],
        "share of test images",
        f"sbnn-hw {__version__} netlist, numpy {flow.tools['numpy']}",
    )


def _images_digest(images: Images) -> str:
    arrays = (images.pixels, images.labels)
    return value_digest([[list(a.shape), _bytes_digest(a)] for a in arrays])


def _bytes_digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def measure_model(path: Path, setup: Setup) -> tuple[dict[str, Any], list[SbnnError]]:
    """Measure a sparse model, but not the dense network that it is compared with.

    What one tool cannot do is told in ``problems``, with the numbers of the others, and returned
    too; a model that cannot be folded, or whose hardware is not its network, is an error.
    """
    flow, facts, network, images = _open(path, setup)
    accuracy = _accuracy(flow, network, images)
    options = hardware_options(path)
    built = Built(network)
    generate(flow, built, options, images)
    simulate(flow, built, images, facts.data)
    assert built.simulated is not None
    verdict = built.simulated["verdict"]
    counts = bops.summarise(network)
    numbers = {
        "accuracy": accuracy,
        **_simulated(verdict, counts["bops"]["additions"], setup.tools),
    }
    problems: list[dict[str, str]] = []
    errors: list[SbnnError] = []

    def attempt(step: str, find: Callable[[], dict[str, Number]]) -> None:
        try:
            numbers.update(find())
        except SbnnError as error:
            text = " ".join(str(error).split())
            problems.append({"step": step, "error": text})
            errors.append(error)
            setup.say(path.stem, step, f"failed: {text}")

    attempt("xc7", lambda: _xc7(flow))
    if not setup.quick and is_routed(path):
        attempt("ecp5", lambda: _ecp5(flow, network, options))
    attempt("toggles", lambda: _toggles(flow, built, images, setup))
    numbers |= _rates(numbers)
    entry = {
        "name": path.stem,
        "data": facts.data,
        "images": len(images),
        "model": facts.model,
        "domain": facts.domain,
        "seed": facts.seed,
        "signed": any(bool(layer.taps.inverted.any()) for _, _, layer in network.layers()),
        # What was counted: whoever makes it again can compare.
        "network": network.digest,
        "verilog": file_digest(flow.plan.out / VERILOG),
        "input": "image" if built.description["input"]["beats"] == 1 else "pixel",
        "hardware": asdict(options),
        **{key: counts[key] for key in ("connections", "weights", "ones", "density")},
        "numbers": numbers,
        "problems": problems,
        "topology": facts.topology,
        "measured_by": measured_by(setup.tools),
    }
    return entry, errors


def measured_by(tools: Mapping[str, str]) -> str:
    """Return a digest of the code and tools that make hardware, simulate and count it."""
    code = (
        *("rtl_gen", "rtl_gen.stages", "sim", "netlist", "fold", "yosys", "boards.nextpnr"),
        *("bops", "bench.dense"),
    )
    own = code_digest(*(f"sbnn_hw.{name}" for name in code))
    return value_digest([own, dict(tools)])[:16]


def hardware_options(path: Path) -> "Options":
    """Return how a model becomes hardware."""
    from sbnn_hw.rtl_gen.lower import Options

    return Options(family="xc7", **hardware_of(path))


def _simulated(verdict: dict[str, Any], additions: int, tools: dict[str, str]) -> dict[str, Number]:
    """Return what the simulation of the whole test set showed.

    It counts ``additions`` of 8-bit pixels too, which are no binary operations.
    """
    by = f"verilator {tools['verilator']}"
    stalled, found = verdict["stalled"], verdict["bops"]
    equal = verdict["vectors"] - verdict["mismatches"]
    equal_stalled = stalled["vectors"] - stalled["mismatches"]
    netlist = f"sbnn-hw {__version__} netlist"
    return {
        "images_equal": number(equal, "images", by),
        "images_equal_with_stalls": number(equal_stalled, "images", by),
        "latency": number(verdict["latency"], "clocks", by),
        "interval": number(verdict["interval"], "clocks an image", by),
        "bops": number(found["measured"] - additions, "binary operations an image", by),
        "bops_sparse": number(
            found["static"] - additions, "binary operations an image", netlist, "counted"
        ),
        "bops_dense": number(found["dense"], "binary operations an image", netlist, "counted"),
        "additions": number(additions, "additions of pixels an image", netlist, "counted"),
    }


def _resources(
    counts: Mapping[str, Any], tools: dict[str, str], *, light: bool = False
) -> dict[str, Number]:
    by = f"yosys {tools['yosys']}, {FAMILIES['xc7']}{', abc in place of abc9' if light else ''}"
    units = {
        "luts": "LUT",
        "flip_flops": "flip-flops",
        "brams": "BRAM of 36 kbit",
        "dsps": "DSP48",
        "carries": "CARRY4",
        "muxes": "MUXF7 and MUXF8",
    }
    return {key: number(counts[key], unit, by, "counted") for key, unit in units.items()}


def _plain_counts(counts: Counts) -> dict[str, Any]:
    plain = asdict(counts)
    # Two blocks of 18 kbit are one.
    return plain | {"brams": bram_blocks(counts, "xc7")}


def _xc7(flow: Flow) -> dict[str, Number]:
    """Count the cells of the network by itself: encoder, argmax and pipeline, and no shell."""
    verilog = flow.plan.out / VERILOG
    reads = {
        "verilog": file_digest(verilog),
        "code": code_digest("sbnn_hw.yosys", "sbnn_hw.boards.nextpnr"),
        "yosys": flow.tools["yosys"],
    }

    def find() -> dict[str, Any]:
        flow.say("xc7", "Yosys: the network by itself")
        return _plain_counts(synthesise(verilog.read_text(encoding="utf-8"), "xc7").counts)

    return _resources(_keep(flow.steps, "xc7", reads, find), flow.tools)


def _ecp5(flow: Flow, network: Network, options: "Options") -> dict[str, Number]:
    """Place and route the network by itself on an ECP5, out of context: it has no pins."""
    chosen = replace(options, family="ecp5")
    reads = {
        "network": network.digest,
        "options": asdict(chosen),
        "part": [ECP5, ECP5_HZ],
        "code": code_digest(
            *("sbnn_hw.rtl_gen", "sbnn_hw.rtl_gen.stages", "sbnn_hw.netlist"),
            *("sbnn_hw.boards.nextpnr", "sbnn_hw.yosys"),
        ),
        "tools": [flow.tools[name] for name in ("amaranth", "yosys", "nextpnr")],
    }

    def find() -> dict[str, Any]:
        from sbnn_hw.rtl_gen.design import generate as generate_text

        folder = flow.plan.out / "ecp5"
        flow.say("ecp5", "generating for ECP5")
        design = generate_text(network, chosen)
        flow.say("ecp5", "Yosys for ECP5")
        files = {"top.v": design.verilog}
        made = synthesise_board(files, "ecp5", folder, top="top", pins=False)
        flow.say("ecp5", f"nextpnr for {ECP5}: a minute or more")
        routed = place_out_of_context(folder, part_family(ECP5), clock_hz=ECP5_HZ, name="top")
        return {
            "fmax_mhz": routed.fmax_mhz,
            "luts": made.counts.luts,
            "latency": design.description["latency"],
        }

    found = _keep(flow.steps, "ecp5", reads, find)
    by = f"nextpnr-ecp5 {flow.tools['nextpnr']}, {ECP5} out of context"
    yosys = f"yosys {flow.tools['yosys']}, {FAMILIES['ecp5']}"
    return {
        "ecp5_fmax": number(found["fmax_mhz"], "MHz", by),
        "ecp5_luts": number(found["luts"], "LUT4", yosys, "counted"),
        "ecp5_latency": number(found["latency"], "clocks", f"sbnn-hw {__version__}", "computed"),
    }


def _toggles(flow: Flow, built: Built, images: Images, setup: Setup) -> dict[str, Number]:
    """Count what changes in the simulated network while images follow each other."""
    verilog = flow.plan.out / VERILOG
    pixels = images.pixels[: TOGGLED_QUICK if setup.quick else TOGGLED]
    reads = {
        "verilog": file_digest(verilog),
        "pixels": _bytes_digest(pixels),
        "code": code_digest("sbnn_hw.sim"),
        "tools": [flow.tools["verilator"], flow.tools["compiler"]],
    }

    def find() -> dict[str, Any]:
        from sbnn_hw.sim.toggles import count_toggles

        text = verilog.read_text(encoding="utf-8")
        return asdict(
            count_toggles(
                text, built.description, pixels, progress=lambda said: flow.say("toggles", said)
            )
        )

    found = _keep(flow.steps, "toggles", reads, find)
    count = found["images"]
    by = f"verilator {flow.tools['verilator']}, {count:,} images"
    both = found["registers"] + found["tables"]
    return {
        "toggles": number(both / count, "toggles an image", by),
        "toggles_of_registers": number(found["registers"] / count, "toggles an image", by),
        "toggles_of_tables": number(found["tables"] / count, "toggles an image", by),
    }


def _rates(numbers: dict[str, Number]) -> dict[str, Number]:
    """Return images a second, from clocks that are given or found."""
    by = f"sbnn-hw {__version__}"
    interval = numbers["interval"]["value"]
    at = f"images/s at {XC7_HZ / 1e6:g} MHz, which no tool has timed"
    rates = {"images_per_second": number(XC7_HZ / interval, at, by, "computed")}
    fmax = numbers.get("ecp5_fmax")
    if fmax is not None and fmax["value"] is not None:
        rate = fmax["value"] * 1e6 / interval
        rates["ecp5_images_per_second"] = number(rate, "images/s at Fmax", by, "computed")
    return rates


# Dense networks


def prepare_dense(path: Path, setup: Setup) -> Dense:
    """Fold a trained dense model and measure its accuracy; it is too large to simulate."""
    flow, facts, network, images = _open(path, setup)
    return Dense(path.stem, facts, network, _accuracy(flow, network, images))


def dense_beside(path: Path, setup: Setup) -> Dense:
    """Return the untrained dense network of a sparse model's topology."""
    facts = model_facts(path, setup)
    network = densify(fold(setup.flow(path))[0])
    return Dense(f"dense {facts.model} ({facts.data})", facts, network)


def measure_dense(dense: Dense, setup: Setup, options: "Options") -> dict[str, Any]:
    """Count what a dense network takes: by Yosys, or from the heaps' costs if it is very large."""
    network = dense.network
    # The same topology built otherwise is another design.
    key = value_digest([network.digest, asdict(options)])[:16]
    folder = setup.work / f"dense-{key}"

    def progress(step: str, text: str) -> None:
        setup.say(dense.name, step, text)

    steps = Steps(folder, progress)
    code = ("sbnn_hw.rtl_gen", "sbnn_hw.rtl_gen.stages", "sbnn_hw.netlist", "sbnn_hw.yosys")
    light = network.connections > HEAVY
    reads = {
        "network": network.digest,
        "options": asdict(options),
        "light": light,
        "code": code_digest(*code),
        "tools": [setup.tools[name] for name in ("amaranth", "yosys")],
    }
    numbers: dict[str, Number] = {}

    def estimated() -> dict[str, Any]:
        from sbnn_hw.rtl_gen.estimate import estimate

        return {"luts": estimate(network, "xc7", searched=ALL).luts}

    found = _keep(steps, "table", reads, estimated)
    by = f"sbnn-hw {__version__}, the heaps' costs"
    computed = number(found["luts"], "LUT", by, "computed")
    if network.connections <= setup.dense_limit:

        def find() -> dict[str, Any]:
            from sbnn_hw.rtl_gen.design import generate as generate_text

            progress("dense", f"generating {network.connections:,} connections")
            design = generate_text(network, options)
            progress("dense", "Yosys: the dense network")
            found = _plain_counts(synthesise(design.verilog, "xc7", light=light).counts)
            return found | {"latency": design.description["latency"]}

        found = _keep(steps, "dense", reads, find)
        by = f"sbnn-hw {__version__}"
        latency = {"latency": number(found["latency"], "clocks", by, "computed")}
        numbers |= _resources(found, setup.tools, light=light) | latency
        # Beside what is counted it tells how good it is where nothing is.
        numbers["luts_computed"] = computed
    else:
        numbers["luts"] = computed
    if dense.accuracy is not None:
        numbers["accuracy"] = dense.accuracy
    return {
        # Measured by other code, or with other tools, it is another one.
        "id": value_digest([key, measured_by(setup.tools)])[:16],
        "name": dense.name,
        "data": dense.facts.data,
        "model": dense.facts.model,
        "trained": dense.accuracy is not None,
        "network": network.digest,
        "connections": network.connections,
        "weights": bops.count(network).total("weights"),
        "numbers": numbers,
    }
