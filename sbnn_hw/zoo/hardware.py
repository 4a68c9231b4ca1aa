"""What tools measure and count of a network's hardware."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sbnn_hw import __version__
from sbnn_hw.boards.nextpnr import place_out_of_context, synthesise_board
from sbnn_hw.boards.table import part_family
from sbnn_hw.datasets import Images
from sbnn_hw.flow.plan import Built, Flow
from sbnn_hw.flow.steps import code_digest, file_digest, value_digest
from sbnn_hw.hardware import VERILOG
from sbnn_hw.netlist import Network
from sbnn_hw.yosys import Counts, synthesise
from sbnn_hw.zoo.network import bytes_digest
from sbnn_hw.zoo.numbers import Number, number
from sbnn_hw.zoo.setup import ECP5, XC7, Setup, keep

if TYPE_CHECKING:
    from sbnn_hw.rtl_gen.lower import Options

__all__ = ["count_xc7", "plain_counts", "rates", "resources", "route_ecp5", "simulated", "toggles"]

#: The clock of the Arty A7-35T, at which speeds on 7-series are given.
XC7_HZ = 100_000_000

#: What nextpnr aims at.
ECP5_HZ = 100_000_000


def simulated(
    verdict: dict[str, Any], counts: dict[str, Any], tools: dict[str, str]
) -> dict[str, Number]:
    """Return what the simulation of the whole test set showed, beside what the netlist counts.

    The operations that it measures are those of connections. Where these add 8-bit pixels, they
    are no binary operations. What other stages add and multiply is counted in the netlist alone.
    """
    counted = counts["bops"]
    of_connections = counts["by_connections"] - counted["sparse"]
    by = f"verilator {tools['verilator']}"
    stalled, found = verdict["stalled"], verdict["bops"]
    equal = verdict["vectors"] - verdict["mismatches"]
    equal_stalled = stalled["vectors"] - stalled["mismatches"]
    netlist = f"sbnn-hw {__version__} netlist"
    work = {}
    # Only where streams are multiplied, and not in a first layer that adds pixels.
    streams = counted["multiplications"] or counted["additions"] != of_connections
    if streams:
        count, unit = counted["multiplications"], "multiplications of integers an image"
        work["multiplications"] = number(count, unit, netlist, "counted")
    what = "integers" if streams else "pixels"
    return {
        "images_equal": number(equal, "images", by),
        "images_equal_with_stalls": number(equal_stalled, "images", by),
        "latency": number(verdict["latency"], "clocks", by),
        "interval": number(verdict["interval"], "clocks an image", by),
        "bops": number(found["measured"] - of_connections, "binary operations an image", by),
        "bops_sparse": number(
            found["static"] - of_connections, "binary operations an image", netlist, "counted"
        ),
        "bops_dense": number(found["dense"], "binary operations an image", netlist, "counted"),
        "additions": number(
            counted["additions"], f"additions of {what} an image", netlist, "counted"
        ),
        **work,
    }


def resources(
    counts: Mapping[str, Any], tools: dict[str, str], *, light: bool = False
) -> dict[str, Number]:
    command = part_family(XC7).family.synthesis.network_command
    by = f"yosys {tools['yosys']}, {command}{', abc in place of abc9' if light else ''}"
    units = {
        "luts": "LUT",
        "flip_flops": "flip-flops",
        "brams": "BRAM of 36 kbit",
        "dsps": "DSP48",
        "carries": "CARRY4",
        "muxes": "MUXF7 and MUXF8",
    }
    return {key: number(counts[key], unit, by, "counted") for key, unit in units.items()}


def plain_counts(counts: Counts) -> dict[str, Any]:
    plain = asdict(counts)
    # Two blocks of 18 kbit are one.
    return plain | {"brams": part_family(XC7).family.memory.count(counts.cells)}


def count_xc7(flow: Flow) -> dict[str, Number]:
    """Count the cells of the network by itself: encoder, argmax and pipeline, and no shell."""
    verilog = flow.plan.out / VERILOG
    reads = {
        "verilog": file_digest(verilog),
        "code": code_digest("sbnn_hw.yosys", "sbnn_hw.boards.nextpnr"),
        "yosys": flow.tools["yosys"],
    }

    def find() -> dict[str, Any]:
        flow.say("xc7", "Yosys: the network by itself")
        return plain_counts(synthesise(verilog.read_text(encoding="utf-8"), "xc7").counts)

    return resources(keep(flow.steps, "xc7", reads, find), flow.tools)


def route_ecp5(flow: Flow, network: Network, options: "Options") -> dict[str, Number]:
    """Place and route the network by itself on an ECP5, out of context: it has no pins."""
    part = part_family(ECP5)
    chosen = replace(options, family=part.family.name)
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
        generated = generate_text(network, chosen)
        flow.say("ecp5", "Yosys for ECP5")
        files = {"top.v": generated.verilog}
        made = synthesise_board(files, part.family, folder, top="top", pins=False)
        flow.say("ecp5", f"nextpnr for {ECP5}: a minute or more")
        routed = place_out_of_context(folder, part, clock_hz=ECP5_HZ, name="top")
        return {
            "fmax_mhz": routed.fmax_mhz,
            "luts": made.counts.luts,
            "latency": generated.design.latency,
        }

    found = keep(flow.steps, "ecp5", reads, find)
    by = f"nextpnr-ecp5 {flow.tools['nextpnr']}, {ECP5} out of context"
    yosys = f"yosys {flow.tools['yosys']}, {part.family.synthesis.network_command}"
    return {
        "ecp5_fmax": number(found["fmax_mhz"], "MHz", by),
        "ecp5_luts": number(found["luts"], "LUT4", yosys, "counted"),
        "ecp5_latency": number(found["latency"], "clocks", f"sbnn-hw {__version__}", "computed"),
    }


def toggles(flow: Flow, built: Built, images: Images, setup: Setup) -> dict[str, Number]:
    """Count what changes in the simulated network while images follow each other."""
    verilog = flow.plan.out / VERILOG
    pixels = images.pixels[: setup.toggled]
    reads = {
        "verilog": file_digest(verilog),
        "design": value_digest(built.known_design.to_dict()),
        "pixels": bytes_digest(pixels),
        "code": code_digest("sbnn_hw.sim.toggles"),
        "tools": [flow.tools["verilator"], flow.tools["compiler"]],
    }

    def find() -> dict[str, Any]:
        from sbnn_hw.sim.toggles import count_toggles

        text = verilog.read_text(encoding="utf-8")
        return asdict(
            count_toggles(
                text, built.known_design, pixels, progress=lambda said: flow.say("toggles", said)
            )
        )

    found = keep(flow.steps, "toggles", reads, find)
    count = found["images"]
    by = f"verilator {flow.tools['verilator']}, {count:,} images"
    both = found["registers"] + found["tables"]
    return {
        "toggles": number(both / count, "toggles an image", by),
        "toggles_of_registers": number(found["registers"] / count, "toggles an image", by),
        "toggles_of_tables": number(found["tables"] / count, "toggles an image", by),
    }


def rates(numbers: dict[str, Number]) -> dict[str, Number]:
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
