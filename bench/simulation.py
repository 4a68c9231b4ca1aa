"""Measure generation and simulation: seconds, memory, images a second, and cocotb's beside it.

Prints a table; all of it is measured in one run, from an empty cache. Takes five to ten minutes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from sbnn_hw import datasets, netlist
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Edge, Encode, Flatten, Linear, Network, Scores, Stage, Taps

ROOT = Path(__file__).parents[1]


def wide_network(connections: int) -> Network:
    """Return a random network of about so many connections, ξ = 0, 95 % sparse."""
    rng = np.random.default_rng(0)
    neurons = round(connections / (784 * 0.05 + 0.05 * 1024))
    sizes = [784, neurons, 1024]
    stages = [Stage("encode", Encode(np.array([[128]])), (-1,)), Stage("flatten", Flatten(), (0,))]
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        taps = Taps.from_dense((rng.random((outputs, inputs)) < 0.05).astype(np.int8))
        thresholds = np.maximum(1, taps.fan_in // 2)[None]
        layer = Linear(
            taps=taps, xi=0, k=0, thresholds=thresholds, flips=np.zeros(outputs, bool), fixed=[]
        )
        stages.append(Stage(f"linear{number}", layer, (len(stages) - 1,)))
    taps = Taps.from_dense((rng.random((10, 1024)) < 0.05).astype(np.int8))
    scores = Scores(taps=taps, negative=False, shift=0, offsets=np.zeros(10))
    stages.append(Stage("scores", scores, (len(stages) - 1,)))
    return Network(Edge.of_bits((28, 28, 1), 8, scan="raster"), tuple(stages))


def in_a_process(code: str, *arguments: str) -> dict[str, float]:
    """Run a function of this file in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", code, *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def generate_part(path: str, out: str) -> dict[str, float]:
    """Generate a design; return seconds and the peak of memory."""
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.lower import Options

    network = netlist.load(Path(path))
    started = time.perf_counter()
    design = generate(network, Options(family="xc7"))
    seconds = time.perf_counter() - started
    folder = Path(out)
    folder.mkdir(exist_ok=True)
    (folder / "top.v").write_text(design.verilog)
    (folder / "design.json").write_text(design.to_json())
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    tables = sum(stage["tables"] for stage in design.description["stages"])
    return {"seconds": seconds, "megabytes": max(own, children) / 1024, "tables": tables}


def verdict_part(path: str, folder: str) -> dict[str, float]:
    """Simulate all of MNIST, from text to verdict, twice: the second time from the cache."""
    from sbnn_hw.sim.agreement import check_agreement

    network = netlist.load(Path(path))
    verilog = (Path(folder) / "top.v").read_text()
    description = json.loads((Path(folder) / "design.json").read_text())
    pixels = datasets.find("mnist").load("test").pixels
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        agreement = check_agreement(network, verilog, description, pixels)
        if not agreement.equal:
            raise SystemExit(f"differs: {agreement.first}")
        seconds.append(time.perf_counter() - started)
    return {"first": seconds[0], "again": seconds[1]}


def rate_part(path: str, folder: str) -> dict[str, float]:
    """Return images a second of the library, compiled for many, and of cocotb."""
    from sbnn_hw.sim.library import compile_design, primitives
    from sbnn_hw.sim.suite import write_suite
    from sbnn_hw.sim.vectors import pack_images, pack_results
    from sbnn_hw.sim.verilator import find

    network = netlist.load(Path(path))
    verilog = (Path(folder) / "top.v").read_text()
    description = json.loads((Path(folder) / "design.json").read_text())
    pixels = datasets.find("mnist").load("test").pixels
    started = time.perf_counter()
    library = compile_design(
        {"primitives.v": primitives(), "top.v": verilog},
        in_width=description["input"]["width"],
        out_width=description["output"]["width"],
        vectors=1_000_000,
    )
    compiled = time.perf_counter() - started
    beats = pack_images(pixels, description)
    started = time.perf_counter()
    trace = library.run(beats, expect=len(pixels))
    library_rate = len(pixels) / (time.perf_counter() - started)
    outcome = network.compute(pixels)
    assert np.array_equal(trace.outputs, pack_results(outcome.classes, outcome.scores, description))

    place = Path(folder) / "cocotb"
    write_suite(place, network, verilog, description, pixels, limit=3000)
    environment = {**find().environment(), "RATE_FOLDER": str(place / "tests")}
    os.environ.update(environment)
    # As the library is compiled: with Verilator's own flags GCC alone takes ten minutes.
    os.environ["MAKEFLAGS"] = r" -- OPT_FAST=-O1\ -fdisable-rtl-combine\ -fno-tree-ter OPT_SLOW=-O0"
    sys.path.insert(0, str(ROOT / "bench"))
    from cocotb_tools.runner import get_runner

    runner = get_runner("verilator")
    runner.build(
        sources=[place / "tests" / "primitives.v", place / "top.v"],
        hdl_toplevel="top",
        build_dir=place / "build",
        build_args=["-Wno-fatal", "-Wno-WIDTH", "-Wno-PINMISSING", "--no-timing", "-O3"],
        timescale=("1ns", "1ps"),
        log_file=place / "build.log",
    )
    runner.test(
        hdl_toplevel="top",
        test_module="cocotb_rate",
        build_dir=place / "build",
        test_dir=place,
        log_file=place / "test.log",
        extra_env={"PYTHONPATH": str(ROOT / "bench"), "RATE_FOLDER": str(place / "tests")},
    )
    rate = json.loads((place / "tests" / "rate.json").read_text())
    cocotb_rate = rate["images"] / rate["seconds"]
    return {"library": library_rate, "cocotb": cocotb_rate, "compile": compiled}


PARTS = {"generate": generate_part, "verdict": verdict_part, "rate": rate_part}


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(PARTS[args.part[0]](*args.part[1:])))
        return
    with tempfile.TemporaryDirectory() as place:
        os.environ["SBNN_CACHE"] = f"{place}/cache"
        networks = {
            name: open_network(ROOT / "models" / f"{name}.pt")
            for name in ("mnist_sfc_98", "mnist_sfc_95")
        }
        networks["100,000 connections"] = wide_network(100_000)
        for number, (name, network) in enumerate(networks.items()):
            path, folder = f"{place}/{number}.sbnn", f"{place}/{number}"
            netlist.save(network, Path(path))
            made = in_a_process("generate", path, folder)
            print(
                f"{name}: {network.connections:,} connections, made in {made['seconds']:.1f} s, "
                f"{made['megabytes']:,.0f} MB, {made['tables']:,} tables",
                flush=True,
            )
            if not name.startswith("mnist"):
                continue
            found = in_a_process("verdict", path, folder)
            print(
                f"{name}: from text to the verdict on 10,000 images {found['first']:.1f} s, "
                f"from the cache {found['again']:.1f} s",
                flush=True,
            )
            if name == "mnist_sfc_98":
                rates = in_a_process("rate", path, folder)
                print(
                    f"{name}: {rates['library']:,.0f} images/s in the library (compiled in "
                    f"{rates['compile']:.0f} s), {rates['cocotb']:,.0f} in cocotb: "
                    f"{rates['library'] / rates['cocotb']:.1f} times",
                    flush=True,
                )


if __name__ == "__main__":
    main()
