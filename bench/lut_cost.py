"""Count what hidden neurons and whole models take, by Yosys, against plain sums.

The results go into docs/bench/lut_cost.json, the tables into docs/lut_cost.md. Everything is
counted in one run, by the same tool; that takes ten minutes.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from pages import put, table

from sbnn_hw import datasets, netlist
from sbnn_hw.cost.heap import lut_cost
from sbnn_hw.families import FAMILIES
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Layer, Linear
from sbnn_hw.rtl_gen import layers as rtl_layers
from sbnn_hw.rtl_gen.cores import Core, core_of
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.parts.tables import Tables
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.tools import version_of
from sbnn_hw.yosys import find_yosys, synthesise

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs/lut_cost.md", ROOT / "docs/bench/lut_cost.json"


def without_q(layer: Layer, counted: float) -> Linear:
    """Return a layer that compares taps alone, q as it is where so many inputs are set.

    A neuron that this makes constant gets the nearest threshold that does not, so that every
    connection that is counted is built.
    """
    whole = np.ceil((layer.thresholds - layer.xi * counted) / 2**layer.k).astype(np.int64)
    whole = np.clip(whole, np.minimum(1, layer.taps.fan_in), layer.taps.fan_in)
    return Linear(
        taps=layer.taps, xi=0, k=0, thresholds=whole, flips=layer.flips, fixed=np.zeros(0)
    )


def hidden_layers(network: netlist.Network, pixels: np.ndarray) -> list[Linear]:
    """Return the hidden layers without q, at the mean of pc_N over some images."""
    names = [stage.name for stage in network.stages]
    values = network.compute(pixels, keep=names).values
    found = []
    for number, _, layer in network.layers():
        if isinstance(layer, Linear):
            before = network.stages[network.stages[number].sources[0]].name
            x = values[before].reshape(len(pixels), -1)
            counted = np.delete(x, layer.fixed, axis=1).sum(axis=1).mean()
            found.append(without_q(layer, float(counted)))
    return found


class Sums(wiring.Component):
    """A layer written as plain sums, each neuron's compared with its threshold."""

    def __init__(self, layer: Linear) -> None:
        self._layer = layer
        super().__init__({"i": In(layer.taps.width), "o": Out(len(layer.taps))})

    def elaborate(self, platform: object) -> Module:
        """Add up and compare."""
        m = Module()
        fires = []
        for neuron in range(len(self._layer.taps)):
            at = self._layer.taps.of(neuron)
            fire = Signal(name=f"n{neuron}")
            bits = [self.i[int(tap)] for tap in self._layer.taps.indices[at]]
            total = _sum(bits)
            m.d.comb += fire.eq(
                (total >= int(self._layer.thresholds[0][neuron])) ^ bool(self._layer.flips[neuron])
            )
            fires.append(fire)
        result = Signal(len(fires))
        m.d.sync += result.eq(Cat(*fires))
        m.d.comb += self.o.eq(result)
        return m


def _sum(bits: list):  # type: ignore[no-untyped-def, type-arg]
    if len(bits) < 2:
        return bits[0] if bits else Const(0, 1)
    middle = len(bits) // 2
    return _sum(bits[:middle]) + _sum(bits[middle:])


def heaps(layer: Linear, family: str, share: int = 0) -> Core:
    """Return the layer as threshold heaps, by the generator's own code."""

    def function(logic, bits):  # type: ignore[no-untyped-def]
        values = [[bit] for bit in bits]
        return rtl_layers.fire(logic, layer, values, [], [], FAMILIES[family], share)

    part = Tables(layer.taps.width, function, family=FAMILIES[family], levels_per_stage=3)
    return core_of(part)


def count_hidden(name: str, hidden: list[Linear], family: str) -> dict[str, Any]:
    """Count hidden neurons without q, as heaps and as sums."""
    row = {
        "model": name,
        "family": family,
        "connections": sum(layer.connections for layer in hidden),
        "worst": sum(
            max(_cost(int(n), c, family) for c in range(1, int(n) + 1))
            for layer in hidden
            for n in layer.taps.fan_in
            if n
        ),
    }
    for kind, make in (
        ("heaps", lambda layer: heaps(layer, family)),
        ("shared", lambda layer: heaps(layer, family, 3000)),
        ("sums", Sums),
    ):
        texts = [to_verilog(make(layer)) for layer in hidden]
        row[kind] = sum(synthesise(text, family).counts.luts for text in texts)
    print(row, flush=True)
    return row


def _cost(inputs: int, threshold: int, family: str) -> int:
    return lut_cost((inputs,), threshold, FAMILIES[family])


def count_whole(name: str, network: netlist.Network, family: str, share: int) -> dict[str, Any]:
    """Count a whole network: q, encoder, argmax and registers included."""
    made = generate(network, Options(family=family, share=share))
    counts = synthesise(made.verilog, family).counts
    row = {
        "model": name,
        "family": family,
        "share": share,
        "network": network.digest,
        "connections": network.connections,
        "luts": counts.luts,
        "flip_flops": counts.flip_flops,
        "carries": counts.carries,
        "brams": counts.brams,
        "latency": made.design.latency,
        # What was counted: a test generates this text again and compares.
        "verilog": hashlib.sha256(made.verilog.encode()).hexdigest(),
    }
    print(row, flush=True)
    return row


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables in Markdown, by their marks on the page."""

    def each(row: dict[str, Any], kind: str) -> str:
        return f"{row[kind]:,} ({row[kind] / row['connections']:.3f})"

    kinds = ("heaps", "shared", "worst", "sums")
    hidden = [
        (row["model"], row["family"], f"{row['connections']:,}", *(each(row, k) for k in kinds))
        for row in results["hidden"]
    ]
    whole = [
        (
            *(row["model"], row["family"], "yes" if row["share"] else "no"),
            *(f"{row['connections']:,}", f"{row['luts']:,}"),
            *(f"{row['luts'] / row['connections']:.3f}", f"{row['flip_flops']:,}"),
            *(f"{row['carries']:,}", f"{row['brams']:,}", str(row["latency"])),
        )
        for row in results["whole"]
    ]
    return {
        "bench/lut_cost.py: hidden": table(("model", "family", "connections", *kinds), hidden),
        "bench/lut_cost.py: whole": table(
            (
                *("model", "family", "shared", "connections", "LUTs", "each"),
                *("flip-flops", "carries", "BRAM", "latency"),
            ),
            whole,
        ),
    }


def main() -> None:
    """Count everything; write the results, and the tables into the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    models = {
        name: open_network(ROOT / "models" / f"{name}.pt")
        for name in ("digits", "mnist_sfc_98", "mnist_sfc_95")
    }
    whole = [
        count_whole(name, network, family, share)
        for name, network in models.items()
        for family in ("xc7", "ecp5", "ice40")
        for share in (0, 3000)
        if family == "xc7" or (not share and name == "digits")
    ]
    hidden = []
    for name in ("digits", "mnist_sfc_95"):
        pixels = datasets.find(name.split("_")[0]).load("test").pixels
        layers = hidden_layers(models[name], pixels)
        hidden += [count_hidden(name, layers, family) for family in ("xc7", "ecp5", "ice40")]
    results = {"yosys": version_of(find_yosys()), "hidden": hidden, "whole": whole}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put(PAGE, tables(results))


if __name__ == "__main__":
    main()
