"""Generate a design: Verilog text, and a description of its ports and stages."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sbnn_hw.netlist import Network as Netlist
from sbnn_hw.rtl_gen.axi import AxiStream, Boxed
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.network import Network
from sbnn_hw.rtl_gen.verilog import find_yosys, to_verilog

__all__ = ["SCHEMA", "Design", "generate", "generate_axi", "outline"]

#: The version of the description's form.
SCHEMA = 1


@dataclass(frozen=True)
class Design:
    """Generated hardware.

    Parameters
    ----------
    verilog : str
        The text; its top module is ``top``.
    description : dict
        What the ports carry, how long it takes, and what the stages are; see docs/hardware.md.
    """

    verilog: str
    description: dict[str, Any]

    def to_json(self) -> str:
        """Return the description as text."""
        return json.dumps(self.description, indent=2) + "\n"


def describe(network: Netlist, top: Any) -> dict[str, Any]:
    """Return what a user of the design must know, and what its simulation measures."""
    lowered, options = top.lowered, top.options
    stages = []
    for stage in network.stages:
        chosen = lowered.chosen[stage.name]
        cores, parts = list(chosen.parts), list(chosen.parts.values())
        stages.append({
            "name": stage.name,
            "kind": stage.operation.kind,
            "cores": cores,
            "connections": chosen.connections,
            "counted": chosen.counted,
            "unread": list(chosen.unread),
            "tables": sum(core.tables for core in parts),
            "registers": sum(core.registers for core in parts),
            "latency": sum(core.latency for core in parts),
            "width": len(parts[-1].o.payload) if parts else 0,
            # Where nothing is computed there is no register, and nothing to look at.
            "visible": bool(parts) and parts[-1].latency > 0 and cores[-1] == stage.name,
        })
    return {
        "schema": SCHEMA,
        "network": network.digest,
        "options": asdict(options),
        "input": {
            "beats": lowered.beats,
            "width": len(top.i.payload),
            "value_bits": network.input.bits,
            "shape": list(network.input.shape),
        },
        "output": {
            "width": len(top.o.payload.as_value()),
            "index_bits": lowered.index_bits,
            "score_bits": lowered.score_bits if options.scores else 0,
            "classes": network.classes,
        },
        "latency": top.latency,
        "interval": lowered.beats,
        "stages": stages,
    }


def outline(network: Netlist, options: Options) -> dict[str, Any]:
    """Return the description of a design without generating its text."""
    return describe(network, Network(network, options))


def generate(network: Netlist, options: Options | None = None) -> Design:
    """Generate the hardware of a network; the same network gives the same bytes."""
    find_yosys()
    top = Network(network, options)
    return Design(to_verilog(top), describe(network, top))


def generate_axi(description: dict[str, Any], width: int | None = None) -> str:
    """Return the Verilog of an AXI4-Stream face, ``top_axi``, for the module ``top``.

    The input is as wide as a pixel, or as ``width`` bits; an image that comes as a whole takes
    64-bit words.
    """
    if width is None:
        beat = description["input"]["width"]
        width = 8 * -(-beat // 8) if beat <= 64 else 64
    return to_verilog(AxiStream(Boxed(description), width), "top_axi")
