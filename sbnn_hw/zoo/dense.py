"""Measure the dense networks that sparse ones are compared with."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw import __version__, bops
from sbnn_hw.flow.network_steps import fold
from sbnn_hw.flow.steps import Steps, code_digest, value_digest
from sbnn_hw.netlist import Network
from sbnn_hw.yosys import synthesise
from sbnn_hw.zoo.densify import densify
from sbnn_hw.zoo.hardware import plain_counts, resources
from sbnn_hw.zoo.models import Facts
from sbnn_hw.zoo.network import measure_accuracy, model_facts, open_model
from sbnn_hw.zoo.numbers import Number, number
from sbnn_hw.zoo.setup import Setup, keep, measured_by

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = ["ALL", "HEAVY", "Dense", "dense_beside", "measure_dense", "prepare_dense"]

#: Dense networks of more connections are synthesised lightly: memory would not do otherwise.
HEAVY = 50_000

#: Fan-ins are all looked up: none is this large.
ALL = 1 << 30


@dataclass(frozen=True)
class Dense:
    """A dense network to compare sparse ones with."""

    name: str  # The checkpoint's, or one that tells the topology.
    facts: Facts  # Of the checkpoint, or of the sparse model that is compared with it.
    network: Network
    accuracy: Number | None = None  # Known where it was trained.


def prepare_dense(path: Path, setup: Setup) -> Dense:
    """Fold a trained dense model and measure its accuracy; it is too large to simulate."""
    flow, facts, network, images = open_model(path, setup)
    return Dense(path.stem, facts, network, measure_accuracy(flow, network, images))


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

    found = keep(steps, "table", reads, estimated)
    by = f"sbnn-hw {__version__}, the heaps' costs"
    computed = number(found["luts"], "LUT", by, "computed")
    if network.connections <= setup.dense_limit:

        def find() -> dict[str, Any]:
            from sbnn_hw.rtl_gen.design import generate as generate_text

            progress("dense", f"generating {network.connections:,} connections")
            generated = generate_text(network, options)
            progress("dense", "Yosys: the dense network")
            found = plain_counts(synthesise(generated.verilog, "xc7", light=light).counts)
            return found | {"latency": generated.design.latency}

        found = keep(steps, "dense", reads, find)
        by = f"sbnn-hw {__version__}"
        latency = {"latency": number(found["latency"], "clocks", by, "computed")}
        numbers |= resources(found, setup.tools, light=light) | latency
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
