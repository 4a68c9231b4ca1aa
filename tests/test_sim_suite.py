"""The regression suite: passes for every kind of stage, needs nothing of the project, sees faults."""

import ast
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from random_networks import (
    random_encoder,
    random_images,
    random_linear,
    random_scores,
    random_taps,
    with_thresholds,
)
from random_residual import random_residual_network

from sbnn_hw.errors import UsageError
from sbnn_hw.netlist import Conv2d, Edge, Flatten, MaxPool2d, Network, Stage, Window
from sbnn_hw.rtl_gen.axi import AxiStream
from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import describe_output
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim import verilator
from sbnn_hw.sim.library import primitives
from sbnn_hw.sim.suite import write_suite
from sbnn_hw.vectors import pack_results

pytest.importorskip("cocotb_tools")
needs_tools = pytest.mark.skipif(
    not (shutil.which("c++") and shutil.which("make")), reason="needs a C++ compiler and make"
)

#: Each design that is simulated: the edge that comes in, the stages, and how they are lowered.
DESIGNS = {
    "vector": (((3, 3, 2), 8), ["encode", "flatten", "linear", "scores"], {"family": "xc7"}),
    "gathered": (
        ((6, 5, 2), 4),
        ["encode", "conv_minus", "pool", "flatten", "linear", "scores"],
        {"family": "ecp5", "flatten": "gather"},
    ),
    "accumulated": (
        ((5, 6, 1), 4),
        ["conv_zero", "flatten", "linear", "scores"],
        {"family": "ice40", "flatten": "accumulate"},
    ),
}

#: Every stage with nothing but scores behind it.
ALONE = {
    "linear": (((2, 3, 2), 1), ["flatten", "linear", "scores"], {}),
    "encode": (((2, 3, 2), 4), ["encode", "flatten", "scores"], {}),
    "conv_minus": (((4, 5, 2), 1), ["conv_minus", "flatten", "scores"], {"flatten": "gather"}),
    "conv_zero": (((4, 5, 2), 1), ["conv_zero", "flatten", "scores"], {"flatten": "accumulate"}),
    "pool": (((5, 4, 2), 1), ["pool", "flatten", "scores"], {"flatten": "gather"}),
    "gather": (((3, 3, 2), 1), ["flatten", "scores"], {"input": "pixel", "flatten": "gather"}),
    "accumulate": (
        ((3, 3, 2), 1),
        ["flatten", "scores"],
        {"input": "pixel", "flatten": "accumulate"},
    ),
}


def make_conv(rng, edge, border):
    window = Window((3, 3), (1, 1), (1, 1)) if border == "minus" else Window((3, 2), (2, 1), (1, 0))
    taps = random_taps(rng, 3, window.size * edge.channels)
    xi, k = (-1, 3) if border == "minus" else (0, 0)

    def make(thresholds):
        return Conv2d(
            taps=taps, xi=xi, k=k, thresholds=thresholds, flips=np.array([0, 1, 0], bool),
            fixed=np.zeros(0, np.int64), channels=edge.channels, window=window, groups=1, border=border,
        )  # fmt: skip

    return with_thresholds(rng, make, edge, 3)


MAKERS = {
    "encode": random_encoder,
    "flatten": lambda rng, edge: Flatten(),
    "linear": lambda rng, edge: random_linear(rng, edge, 6),
    "conv_minus": lambda rng, edge: make_conv(rng, edge, "minus"),
    "conv_zero": lambda rng, edge: make_conv(rng, edge, "zero"),
    "pool": lambda rng, edge: MaxPool2d(
        Window((2, 2), (2, 2), (0, 0)), np.arange(edge.channels) % 2 == 1
    ),
    "scores": lambda rng, edge: random_scores(rng, edge, 3),
}


def make_network(name, seed=0):
    """Make networks until one is found whose answers depend on the image."""
    ((shape, bits), kinds, _) = (DESIGNS | ALONE)[name]
    for attempt in itertools.count(seed):
        rng = np.random.default_rng(attempt)
        edge = first = Edge.of_bits(shape, bits, scan="raster")
        stages = []
        for number, kind in enumerate(kinds):
            operation = MAKERS[kind](rng, edge)
            edge = operation.infer(edge)
            stages.append(Stage(f"{operation.kind}{number}", operation, (number - 1,)))
        network = Network(first, tuple(stages))
        images = random_images(rng, network, 60)
        if len(np.unique(network.compute(images).scores, axis=0)) > 3:
            return network, images
    return None


def emit(folder, name, **options):
    network, images = make_network(name)
    made = generate(network, Options(**((DESIGNS | ALONE)[name][2] | options)))
    write_suite(folder, network, made.verilog, made.design, images)
    return made


#: Verilator's own C++ is the same for each design: compiled once, it is handed out again.
KEEPER = """\
#!/bin/sh
for last; do :; done
case "$last" in
*/include/verilated*.cpp) ;;
*) exec "$@" ;;
esac
kept="{folder}/$(basename "$last").o"
object=$(basename "$last" .cpp).o
if test -f "$kept"; then cp "$kept" "$object"; exit; fi
"$@" && cp "$object" "$kept.$$" && mv "$kept.$$" "$kept"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return the environment of somebody who does not have this project."""
    folder = tmp_path_factory.mktemp("kept")
    keeper = folder / "keep"
    keeper.write_text(KEEPER.format(folder=folder))
    keeper.chmod(0o755)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(folder), "OBJCACHE": str(keeper), "SUITE_CYCLES": "1500"}


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """Return a function that emits a design once, and gives its folder again."""
    folders = {}

    def get(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            emit(folders[name], name)
        return folders[name]

    return get


def run_suite(folder, environment, *arguments):
    return subprocess.run(
        [sys.executable, "-I", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def verdict(done):
    """Return how many tests passed and failed."""
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    assert "error" not in counts, done.stdout + done.stderr
    assert counts, done.stdout + done.stderr
    return counts.get("passed", 0), counts.get("failed", 0)


# What is written


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    return folder, emit(folder, "gathered")


def test_suite_has_all_that_it_needs(written):
    folder, made = written
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "design.json", "tests/README.md", "tests/design_bench.py", "tests/expected.hex",
        "tests/primitives.v", "tests/test_design.py", "tests/vectors.hex",
        "tests/verilator_setup.py", "tests/watchdog.py", "top.v",
    ]  # fmt: skip
    assert (folder / "top.v").read_text() == made.verilog
    assert (folder / "design.json").read_text() == made.design.to_json()


def test_nothing_of_the_model_is_pasted_into_code(written):
    folder, _ = written
    for name in ("design_bench.py", "test_design.py", "README.md"):
        assert (folder / "tests" / name).read_bytes() == (
            ROOT / "sim/suite_files" / name
        ).read_bytes()
    for name in ("verilator_setup.py", "watchdog.py"):
        assert (folder / "tests" / name).read_bytes() == (ROOT / "sim" / name).read_bytes()


def test_suite_imports_nothing_but_cocotb_and_pytest(written):
    folder, _ = written
    others = {"cocotb", "cocotb_tools", "pytest", "verilator_setup", "watchdog"}
    allowed = sys.stdlib_module_names | others
    for path in (folder / "tests").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_vectors_are_words_in_hexadecimal(written):
    folder, made = written
    network, images = make_network("gathered")
    stream = made.design.input
    lines = (folder / "tests/vectors.hex").read_text().splitlines()
    assert len(lines) == len(images) * stream.beats
    assert {len(line) for line in lines} == {-(-stream.width // 4)}
    pixel = images[0].reshape(-1, 2)[1]
    assert int(lines[1], 16) == pixel[0] | int(pixel[1]) << 4
    result = made.design.output
    lines = (folder / "tests/expected.hex").read_text().splitlines()
    assert len(lines) == len(images)
    mask = (1 << result.index_bits) - 1
    assert [int(line, 16) & mask for line in lines] == network.compute(images).classes.tolist()


def test_limit_takes_the_first_images(tmp_path):
    network, images = make_network("vector")
    made = generate(network, Options())
    write_suite(tmp_path, network, made.verilog, made.design, images, limit=4)
    assert len((tmp_path / "tests/expected.hex").read_text().splitlines()) == 4


def test_wrong_arguments_are_refused_in_one_sentence(tmp_path):
    network, images = make_network("vector")
    made = generate(network, Options())

    def write(pixels, other=network, **more):
        write_suite(tmp_path, other, made.verilog, made.design, pixels, **more)

    with pytest.raises(
        UsageError, match=r"^There must be one image or more in a regression suite$"
    ):
        write(images[:0])
    with pytest.raises(UsageError, match=r"^Limit must be 1 or more, not 0$"):
        write(images, limit=0)
    other, images = make_network("vector", seed=100)
    with pytest.raises(
        UsageError, match=r"^The design was generated from another network; generate it again$"
    ):
        write(images, other)
    assert not list(tmp_path.iterdir())


# What it finds


@needs_tools
@pytest.mark.parametrize("name", DESIGNS)
def test_suite_passes(emitted, environment, name):
    folder = emitted(name)
    cores = [
        c
        for stage in json.loads((folder / "design.json").read_text())["stages"]
        for c in stage["cores"]
    ]
    assert (name == "accumulated") == any(core.endswith("_sums") for core in cores)
    assert (name == "gathered") == any(core.startswith("flatten") for core in cores)
    done = run_suite(folder, environment)
    assert verdict(done) == (10, 0), done.stdout + done.stderr
    assert not list((folder / "tests").rglob("*.part"))


@needs_tools
def test_one_wrong_word_is_found(emitted, environment, tmp_path):
    """The design that was built before is simulated again, so this takes no time."""
    folder = emitted("vector")
    path = folder / "tests/expected.hex"
    before = path.read_text()
    lines = before.splitlines()
    lines[40] = f"{int(lines[40], 16) ^ 1:0{len(lines[40])}x}"
    path.write_text("\n".join(lines) + "\n")
    try:
        done = run_suite(folder, environment, "-k", "claim")
    finally:
        path.write_text(before)
    # Only this bench gets that far.
    assert verdict(done) == (6, 1), done.stdout
    assert re.search(r"every_vector_gives_its_result/\S+: result 40 is [0-9a-f]+, not", done.stdout)


def planted(emitted, tmp_path, name, change):
    """Copy a suite and change its Verilog."""
    folder = tmp_path / name
    ignore = shutil.ignore_patterns("build", "__pycache__")
    shutil.copytree(emitted(name), folder, ignore=ignore)
    before = (folder / "top.v").read_text()
    after = change(before)
    assert before != after
    (folder / "top.v").write_text(after)
    return folder


@needs_tools
def test_one_wrong_table_is_found(emitted, environment, tmp_path):
    def invert(text):
        match = list(re.finditer(r"\.INIT\((\d+)'h([0-9a-f]+)\)", text))[-1]
        width, table = int(match[1]), int(match[2], 16)
        wrong = f".INIT({width}'h{table ^ (1 << width) - 1:x})"
        return text[: match.start()] + wrong + text[match.end() :]

    folder = planted(emitted, tmp_path, "vector", invert)
    passed, failed = verdict(run_suite(folder, environment, "-k", "claim"))
    assert failed >= 5
    assert passed + failed == 7


@needs_tools
def test_a_stage_that_gives_no_words_is_named(emitted, environment, tmp_path):
    names = [stage["name"] for stage in json.loads((emitted("vector") / "design.json").read_text())[
        "stages"] if stage["strobes"]]  # fmt: skip

    def kill(text):
        start = text.index(f"module \\top.{names[0]} ")
        end = text.index("endmodule", start)
        body = re.sub(r"o_valid <= (?!1'h0)[^;]+;", "o_valid <= 1'h0;", text[start:end])
        return text[:start] + body + text[end:]

    folder = planted(emitted, tmp_path, "vector", kill)
    done = run_suite(folder, environment, "-k", "latency")
    assert verdict(done) == (0, 1), done.stdout
    assert re.search(
        rf"latency_is_as_described: nothing moved for \d+ cycles; sent again, 0 of 1 results have "
        rf"come: stage {names[0]} has handed on 0 of 1 words",
        done.stdout,
    ), done.stdout


@needs_tools
@pytest.mark.long
def test_register_that_is_not_reset_is_found(emitted, environment, tmp_path):
    """The place in the image survives a reset: only the benches with resets can see it."""

    def forget(text):
        # The last reset of a register whose first value is zero, in the module that has windows.
        start = text.index("module \\top.conv2d1_window")
        end = text.index("endmodule", start)
        body = re.sub(r"(?m)^(\s*)if \(rst\) begin$", r"\1if (1'b0) begin", text[start:end])
        return text[:start] + body + text[end:]

    folder = planted(emitted, tmp_path, "gathered", forget)
    done = run_suite(folder, environment)
    assert "reset_in_mid_stream_leaves_nothing_behind/" in done.stdout
    assert verdict(done)[1] >= 2


@needs_tools
@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40", "generic"])
@pytest.mark.parametrize("name", ALONE)
def test_each_stage_alone_passes(environment, tmp_path, name, family):
    emit(tmp_path, name, family=family)
    done = run_suite(tmp_path, environment)
    assert verdict(done) == (10, 0), done.stdout + done.stderr


@needs_tools
@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40", "generic"])
def test_a_residual_network_passes(environment, tmp_path, family):
    """Two ways part and meet, images are held back, and classes take many cycles."""
    rng = np.random.default_rng(0)
    network = random_residual_network(rng, blocks=2, shape=(6, 5, 1))
    made = generate(network, Options(family=family))
    assert made.design.input.held
    write_suite(tmp_path, network, made.verilog, made.design, random_images(rng, network, 20))
    done = run_suite(tmp_path, environment)
    assert verdict(done) == (10, 0), done.stdout + done.stderr


# AXI4-Stream


@needs_tools
def test_axi_stream_carries_images_and_tells_wrong_frames(environment, tmp_path):
    network, images = make_network("vector")
    images = images[:30]
    hardware = Datapath(network, Options(family="xc7"))
    (tmp_path / "top.v").write_text(to_verilog(AxiStream(hardware, width=8)))
    (tmp_path / "primitives.v").write_text(primitives())
    outcome = network.compute(images)
    results = pack_results(
        outcome.classes,
        outcome.scores,
        describe_output(network, hardware.lowered, hardware.options),
    )
    case = {
        "images": [image.ravel().tolist() for image in images],  # 8-bit pixels: a word each
        "expected": [int.from_bytes(row.tobytes(), "little") for row in results],
        "width": 8,
    }
    (tmp_path / "case.json").write_text(json.dumps(case))
    script = (
        "from cocotb_tools.runner import get_results, get_runner\n"
        "runner = get_runner('verilator')\n"
        "runner.build(sources=['primitives.v', 'top.v'], hdl_toplevel='top',\n"
        "             timescale=('1ns', '1ps'),\n"
        "             build_args=['-Wno-fatal', '-Wno-WIDTH', '--output-split', '0'])\n"
        "results = runner.test(hdl_toplevel='top', test_module='axi_bench')\n"
        "assert get_results(results) == (4, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={
            **environment,
            "PATH": verilator.find().environment()["PATH"],
            "PYTHONPATH": str(Path(__file__).parent),
            "AXI_CASE": str(tmp_path / "case.json"),
            "MAKEFLAGS": " -- OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
