"""Simulated boards for the tests: a network behind its shell, on a line of 8 clocks a bit."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from sbnn_hw.boards.protocol import ANSWER, REQUEST, Parser, Wire, pack
from sbnn_hw.boards.shell import Shell
from sbnn_hw.design import Design
from sbnn_hw.netlist import Edge, Encode, Flatten, Linear, Network, Scores, Stage, Taps
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim.library import primitives
from sbnn_hw.sim.line import Line, compile_line
from sbnn_hw.vectors import pack_results

DIVISOR, LEDS, CLOCK_HZ = 8, 4, 25_000_000

#: Cycles of a byte on the line.
BYTE = 10 * DIVISOR


def small_network(shape=(28, 28, 1), hidden=(24,), classes=10, fan_in=9, seed=0):
    """Return a random network of thresholded pixels, with few connections."""
    rng = np.random.default_rng(seed)
    stages = [
        Stage("encode", Encode(np.full((shape[-1], 1), 128)), (-1,)),
        Stage("flatten", Flatten(), (0,)),
    ]
    sizes = [int(np.prod(shape)), *hidden]
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        dense = np.zeros((outputs, inputs), np.int8)
        for row in dense:
            row[rng.choice(inputs, min(fan_in, inputs), replace=False)] = rng.choice([-1, 1])
        taps = Taps.from_dense(dense)
        layer = Linear(
            taps=taps,
            xi=0,
            k=0,
            thresholds=np.maximum(1, taps.fan_in // 2)[None],
            flips=rng.random(outputs) < 0.5,
            fixed=[],
        )
        stages.append(Stage(f"linear{number}", layer, (len(stages) - 1,)))
    taps = Taps.from_dense((rng.random((classes, sizes[-1])) < 0.4).astype(np.int8))
    scores = Scores(
        taps=taps, negative=False, shift=0, offsets=rng.integers(-3, 4, classes).astype(np.int64)
    )
    stages.append(Stage("scores", scores, (len(stages) - 1,)))
    return Network(Edge.of_bits(tuple(shape), 8, scan="raster"), tuple(stages))


@dataclass
class Rig:
    """A network, its design, and the library of its board."""

    network: Network
    design: Design
    verilog: str
    library: Path

    @property
    def wire(self):
        """How its images look on the line."""
        return Wire.of(self.design)

    def line(self, **noise):
        """Return a board that was just reset."""
        return Line(self.library, self.design, divisor=DIVISOR, **noise)

    def results(self, pixels):
        """Return the bytes that must come back for images."""
        outcome = self.network.compute(pixels)
        return pack_results(outcome.classes, outcome.scores, self.design.output).tobytes()


def make_rig(network, *, edit=(), change=lambda text: text, **options):
    """Return the board of a network.

    ``edit`` plants faults in the text of its shell, and ``change`` in that of the network.
    """
    made = generate(network, Options(family="generic", **options))
    shell = Shell(made.design, divisor=DIVISOR, clock_hz=CLOCK_HZ, leds=LEDS)
    text = to_verilog(shell, "shell")
    for pattern, fault in edit:
        text, found = re.subn(pattern, fault, text)
        assert found, f"nothing is like {pattern}"
    sources = {"primitives.v": primitives(), "top.v": change(made.verilog), "shell.v": text}
    library = compile_line(sources, made.design, divisor=DIVISOR, leds=LEDS)
    return Rig(network, made.design, made.verilog, library)


class Talk:
    """Says packets to a simulated board, and reads its answers."""

    def __init__(self, line):
        self.line = line
        self.parser = Parser(ANSWER, 1 << 16)

    def send(self, data, wait=0):
        """Send bytes and wait so many cycles; return the packets that come."""
        heard = b""
        while data:
            taken, came = self.line.run(data, 2000)
            data, heard = data[taken:], heard + came
        # The last byte is still on its way.
        _, came = self.line.run(b"", 2 * BYTE + wait)
        return self.parser.feed(heard + came)

    def ask(self, kind, number, payload=b"", wait=40_000):
        """Send a packet; return the packets that come."""
        return self.send(pack(REQUEST, kind, number, payload), wait)
