"""Compute a residual network of integer streams in numpy; print the seconds of each operation.

python bench/stream_speed.py [--width 64] [--ones 0.01] [--images 100] [--shortcut real|duplicate]
    [--out docs/bench/stream_speed.json]

OMP_NUM_THREADS=1 in the environment keeps the products on one core.

The network is ResNet-18 for 32×32 images, with random weights: a first convolution of 8-bit
weights, sixteen sparse binary ones, each joined with its shortcut, and a classifier.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist import (
    INPUT,
    Affine,
    Concat,
    Edge,
    Encode,
    Flatten,
    Network,
    Operation,
    Scores,
    Stage,
    SumPool2d,
    Sums,
    Taps,
    Window,
)

Int = npt.NDArray[np.int64]


class Graph:
    """Adds stages, and knows what each hands on."""

    def __init__(self, edge: Edge) -> None:
        self.input = edge
        self.edges = {INPUT: edge}
        self.stages: list[Stage] = []

    def add(self, operation: Operation, *sources: int) -> int:
        """Add a stage; return its number."""
        number = len(self.stages)
        self.edges[number] = operation.infer(*(self.edges[source] for source in sources))
        self.stages.append(Stage(f"{operation.kind}{number}", operation, sources))
        return number


def scaled(graph: Graph, rng: np.random.Generator, *sources: int) -> int:
    """Add an affine that brings sums into the range of eight bits; a shortcut is only shifted."""
    first = graph.edges[sources[0]]
    m = rng.integers(200, 400, (1, first.channels)) * rng.choice([-1, 1], (1, first.channels))
    shift = max(8, int(300 * (first.high - first.low)).bit_length() - 9)
    if len(sources) > 1:
        m = np.concatenate([m, np.full((1, first.channels), 1 << shift)])
    offsets = rng.integers(-(1 << shift), 1 << shift, first.channels)
    affine = Affine(multipliers=m, offsets=offsets, shift=shift, low=-128, high=127)
    return graph.add(affine, *sources)


def convolution(
    rng: np.random.Generator, shape: tuple[int, int, int], window: Window, ones: float
) -> Sums:
    """Return a sparse binary convolution with padding of zeros."""
    taps = Taps.from_windows((rng.random(shape) < ones).astype(np.int8))
    return Sums(taps=taps, channels=shape[2], window=window, border="zero")


def integers(
    rng: np.random.Generator, shape: tuple[int, int, int], window: Window, pad: bool
) -> Sums:
    """Return a convolution of eight-bit weights."""
    taps = Taps.from_windows(np.ones(shape, np.int8))
    weights = rng.integers(1, 128, len(taps.indices)) * rng.choice([-1, 1], len(taps.indices))
    around = np.full(shape[2], 120) if pad else None
    return Sums(taps=taps, channels=shape[2], window=window, weights=weights, pad=around)


def resnet18(width: int, ones: float, shortcut: str) -> Network:
    """Return the network."""
    rng = np.random.default_rng(0)
    graph = Graph(Edge.of_bits((32, 32, 3), 8, scan="raster"))
    near = Window((3, 3), (1, 1), (1, 1))
    stream = graph.add(integers(rng, (width, 9, 3), near, True), INPUT)
    stream = scaled(graph, rng, stream)
    for layer in range(4):
        for block in range(4):
            edge = graph.edges[stream]
            shrinks = layer > 0 and block == 0
            channels = width << layer
            stride = 2 if shrinks else 1
            thresholds = rng.integers(-20, 21, (edge.channels, 1))
            bits = graph.add(Encode(thresholds), stream)
            window = Window((3, 3), (stride, stride), (1, 1))
            sums = graph.add(convolution(rng, (channels, 9, edge.channels), window, ones), bits)
            if shrinks and shortcut == "real":
                window = Window((1, 1), (2, 2))
                wide = graph.add(integers(rng, (channels, 1, edge.channels), window, False), stream)
                stream = scaled(graph, rng, wide)
            elif shrinks:
                pooled = graph.add(SumPool2d(Window((2, 2), (2, 2)), ceil=True), stream)
                stream = graph.add(Concat(2), pooled, pooled)
            stream = scaled(graph, rng, sums, stream)
    edge = graph.edges[stream]
    pooled = graph.add(SumPool2d(Window((edge.shape[0], edge.shape[1]))), stream)
    flat = graph.add(Flatten(), pooled)
    taps = Taps.from_dense(np.ones((10, edge.channels), np.int8))
    weights = rng.integers(1, 128, len(taps.indices)) * rng.choice([-1, 1], len(taps.indices))
    graph.add(Scores(taps=taps, weights=weights, offsets=np.zeros(10, np.int64)), flat)
    return Network(graph.input, tuple(graph.stages))


def main() -> None:
    """Build the network, compute it, and print how long that took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--ones", type=float, default=0.01)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--shortcut", choices=("real", "duplicate"), default="real")
    parser.add_argument("--out", type=Path, help="write settings and seconds as JSON")
    args = parser.parse_args()
    started = time.perf_counter()
    network = resnet18(args.width, args.ones, args.shortcut)
    print(f"build      {time.perf_counter() - started:7.2f} s   {network.connections:,} taps")
    started = time.perf_counter()
    digest = network.digest
    print(f"digest     {time.perf_counter() - started:7.2f} s   {digest[:16]}")
    pixels = np.random.default_rng(1).integers(0, 256, (args.images, 32, 32, 3)).astype(np.uint8)
    seconds: Counter[str] = Counter()
    values = {INPUT: pixels}
    for number, stage in enumerate(network.stages):
        inputs = [values[source] for source in stage.sources]
        started = time.perf_counter()
        values[number] = stage.operation.compute(*inputs, *network.edges_into(number))
        seconds[stage.operation.kind] += time.perf_counter() - started
    for kind, spent in seconds.most_common():
        print(f"{kind:<10} {spent:7.2f} s")
    started, worked = time.perf_counter(), time.process_time()
    network.compute(pixels)
    found = {
        "seconds": round(time.perf_counter() - started, 2),
        "processor_seconds": round(time.process_time() - worked, 2),
    }
    print(f"compute    {found['seconds']:7.2f} s   {args.images} images")
    print(f"           {found['processor_seconds']:7.2f} s of processors")
    if args.out:
        settings = {name: getattr(args, name) for name in ("width", "ones", "images", "shortcut")}
        record = {**settings, "connections": network.connections, **found}
        args.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
