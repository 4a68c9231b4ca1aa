"""Count what hidden neurons and whole models take, by Yosys, against plain sums.

Writes docs/lut_cost.md. Everything in it is counted in one run, by the same tool; that takes ten
minutes.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sbnn_hw import datasets, netlist
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Layer, Linear
from sbnn_hw.rtl_gen import layers
from sbnn_hw.rtl_gen.core import Tables
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.heap import FAMILIES, lut_cost
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.yosys import synthesise

ROOT = Path(__file__).parents[1]


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


def heaps(layer: Linear, family: str, share: int = 0) -> Tables:
    """Return the layer as threshold heaps, by the generator's own code."""

    def function(logic, bits):  # type: ignore[no-untyped-def]
        values = [[bit] for bit in bits]
        return layers.fire(logic, layer, values, [], [], FAMILIES[family], share)

    return Tables(layer.taps.width, function, family=family, levels_per_stage=3)


def hidden_rows(name: str, hidden: list[Linear], say) -> list[str]:  # type: ignore[no-untyped-def]
    """Count hidden neurons without q, as heaps and as sums."""
    connections = sum(layer.connections for layer in hidden)
    rows = []
    for family in ("xc7", "ecp5", "ice40"):
        counts = []
        for kind, make in (
            ("heaps", lambda layer, family=family: heaps(layer, family)),
            ("shared", lambda layer, family=family: heaps(layer, family, 3000)),
            ("sums", lambda layer, family=family: Sums(layer)),
        ):
            started = time.perf_counter()
            total = sum(synthesise(to_verilog(make(layer)), family).counts.luts for layer in hidden)
            counts.append(f"{total:,} ({total / connections:.3f})")
            seconds = time.perf_counter() - started
            say(f"{name} {family} {kind}: {counts[-1]} ({seconds:.0f} s)")
        worst = sum(
            lut_cost((int(n),), c, FAMILIES[family])
            for layer in hidden
            for n in layer.taps.fan_in
            if n
            for c in [max(range(1, int(n) + 1), key=lambda c: _cost(int(n), c, family))]
        )
        counts.insert(2, f"{worst:,} ({worst / connections:.3f})")
        rows.append(f"| {name} | {family} | {connections:,} | {' | '.join(counts)} |")
    return rows


def _cost(inputs: int, threshold: int, family: str) -> int:
    return lut_cost((inputs,), threshold, FAMILIES[family])


def whole_row(name: str, network: netlist.Network, family: str, share: int, say) -> str:  # type: ignore[no-untyped-def]
    """Count a whole network: q, encoder, argmax and registers included."""
    design = generate(network, Options(family=family, share=share))
    counts = synthesise(design.verilog, family).counts
    per = counts.luts / network.connections
    say(f"{name} whole {family} share {share}: {counts.luts:,} ({per:.3f})")
    return (
        f"| {name} | {family} | {'yes' if share else 'no'} | {network.connections:,} | "
        f"{counts.luts:,} | {per:.3f} | {counts.flip_flops:,} | {counts.carries:,} | "
        f"{counts.brams:,} | {design.description['latency']} |"
    )


def main() -> None:
    """Count everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "lut_cost.md")
    args = parser.parse_args()

    def say(text: str) -> None:
        print(text, flush=True)

    models = {
        name: open_network(ROOT / "models" / f"{name}.pt")
        for name in ("digits", "mnist_sfc_98", "mnist_sfc_95")
    }
    whole = [
        whole_row(name, network, family, share, say)
        for name, network in models.items()
        for family in ("xc7", "ecp5", "ice40")
        for share in (0, 3000)
        if family == "xc7" or (not share and name == "digits")
    ]
    hidden = []
    for name in ("digits", "mnist_sfc_95"):
        pixels = datasets.find(name.split("_")[0]).load("test").pixels
        hidden += hidden_rows(name, hidden_layers(models[name], pixels), say)
    text = PAGE.format(hidden="\n".join(hidden), whole="\n".join(whole))
    args.out.write_text(text, encoding="utf-8")


PAGE = """# What a connection costs

`python bench/lut_cost.py` makes this page. Yosys counts the look-up tables (LUTs) of the whole
flattened design, without pins: LUT1 to LUT6, LUT6_2 and inverters count one each, shift registers
and memory count at their cost. The [glossary](glossary.md) explains the terms.

## Hidden neurons, without q

This table has the taps and thresholds of the shipped models. q, the sum of all inputs, is fixed at
its mean over the test images, so that only the taps are compared. Compare *heaps* with *sums*; the
number in brackets is tables per connection.

- *heaps*: what the generator makes.
- *shared*: the same, with taps that several neurons have in common counted once (`--share 3000`).
- *worst*: the heaps' exact costs, with the most expensive threshold for each neuron.
- *sums*: `sum >= C`, as Yosys builds it, where C is the threshold.

| model | family | connections | heaps | shared | worst | sums |
|---|---|---|---|---|---|---|
{hidden}

## Whole models

This table includes q, encoder, argmax, scores and pipeline registers (three tables between two
registers). *each* is LUTs per connection, *latency* is in clock cycles.

| model | family | shared | connections | LUTs | each | flip-flops | carries | BRAM | latency |
|---|---|---|---|---|---|---|---|---|---|
{whole}

`sbnn-hw bench` measures dense networks with weights −1 and +1 of the same topologies
([bench.md](bench.md)).
"""

if __name__ == "__main__":
    main()
