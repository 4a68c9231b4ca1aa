"""Whole sets of images: the verdict, what it measures, and that it sees faults."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from random_networks import (
    _Builder,
    random_images,
    random_map_network,
    random_scores,
    random_vector_network,
    with_thresholds,
)

from sbnn_hw import bops
from sbnn_hw.cost.cost import Cost
from sbnn_hw.design import StageDesign
from sbnn_hw.errors import ToolFailed, UsageError
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Conv2d, Edge, Encode, Flatten, Linear, MaxPool2d, Taps, Window
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import outline
from sbnn_hw.sim.agreement import _compare_inside, check_agreement

MODELS = Path(__file__).parents[1] / "models"
FAMILIES = ["xc7", "ecp5", "ice40", "generic"]


def verdict(network, pixels, *, family="xc7", spoil=None, **options):
    made = generate(network, Options(family=family))
    text = spoil(made.verilog) if spoil else made.verilog
    agreement = check_agreement(network, text, made.design, pixels, **options)
    return agreement, made.design


@pytest.mark.parametrize("kind", [random_vector_network, random_map_network])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_value_of_every_stage_agrees_and_latency_and_interval_are_as_computed(kind, family):
    rng = np.random.default_rng(FAMILIES.index(family) + 20)
    network = kind(rng)
    agreement, design = verdict(
        network, random_images(rng, network, 12), family=family, inside=True
    )
    assert agreement.equal
    assert agreement.values
    assert agreement.latency == design.latency
    assert agreement.interval == design.interval


def test_operations_measured_are_those_of_the_netlist():
    rng = np.random.default_rng(8)
    network = random_map_network(rng)
    agreement, design = verdict(network, random_images(rng, network, 5))
    layers = {layer.name: layer for layer in bops.count(network).layers}
    assert layers.keys() == agreement.operations.keys()
    for name, operations in agreement.operations.items():
        assert operations["handshakes"] == 5 * layers[name].windows
        assert operations["connections"] == layers[name].connections
        assert operations["measured"] == layers[name].sparse + layers[name].additions
    plain = agreement.to_dict(network, design)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["bops"]["measured"] == plain["bops"]["static"]
    assert plain["bops"]["dense"] == bops.count(network).total("dense")


def renamed(design, old, new):
    """Return a design some of whose signals have other names."""

    def change(path):
        return path and path.replace(f".{old}", f".{new}")

    return replace(
        design,
        stages=tuple(
            replace(s, strobes=tuple(map(change, s.strobes)), payload=change(s.payload))
            for s in design.stages
        ),
    )


def test_stages_are_watched_as_the_design_tells_whatever_signals_and_kinds_are_called():
    rng = np.random.default_rng(9)
    network = random_vector_network(rng)
    made = generate(network, Options(family="xc7"))
    text, design = made.verilog, made.design
    for old, new in (("o__valid", "given"), ("o__payload", "word"), ("enable", "go")):
        # The top module comes first, and its own ports keep their names.
        top, rest = text.split("endmodule", 1)
        text = top.replace(f".{old}(", f".{new}(") + "endmodule"
        text += re.sub(rf"\b{old}\b", new, rest)
        design = renamed(design, old, new)
    design = replace(design, stages=tuple(replace(s, kind="thing") for s in design.stages))
    agreement = check_agreement(network, text, design, random_images(rng, network, 5), inside=True)
    assert agreement.equal
    assert agreement.operations_equal
    assert agreement.values
    with pytest.raises(
        ToolFailed,
        match=r"^The signals of the design do not match its description: no signal \w+\.o__valid$",
    ):
        check_agreement(network, text, made.design, random_images(rng, network, 5))


@pytest.mark.parametrize(
    ("fault", "values", "operations"),
    [
        # A strobe that is always 1 sees words that are none.
        (lambda stage: {"strobes": stage.strobes[1:]}, False, False),
        (lambda stage: {"connections": stage.connections + 1}, True, False),
        (lambda stage: {"counted": stage.counted + 1}, True, False),
        (lambda stage: {"strobes": (), "payload": None}, True, False),
        (lambda stage: {}, True, True),
    ],
    ids=["strobe", "connections", "counted", "unseen", "none"],
)
def test_a_design_that_tells_something_wrong_is_found_out(fault, values, operations):
    rng = np.random.default_rng(8)
    network = random_map_network(rng)
    made = generate(network, Options(family="xc7"))
    stages = list(made.design.stages)
    seen = next(n for n, stage in enumerate(stages) if stage.connections and stage.payload)
    stages[seen] = replace(stages[seen], **fault(stages[seen]))
    design = replace(made.design, stages=tuple(stages))
    pixels = random_images(rng, network, 5)
    agreement = check_agreement(network, made.verilog, design, pixels, inside=True)
    assert (agreement.equal, agreement.operations_equal) == (values, operations)


@pytest.mark.parametrize("kind", [random_vector_network, random_map_network])
@pytest.mark.parametrize("how", ["auto", "pixel"])
def test_values_that_may_be_left_out_are_those_that_the_netlist_does_not_read(kind, how):
    left_out = 0
    for seed in range(10):
        network = kind(np.random.default_rng(seed))
        design = outline(network, Options(input=how))
        for stage, read in zip(design.stages[:-1], network.read, strict=False):
            if stage.width:
                together = read.reshape(-1, stage.width // stage.value_bits)
                assert np.flatnonzero(~together.any(axis=0)).tolist() == list(stage.unread)
                left_out += len(stage.unread)
    assert left_out


@pytest.mark.parametrize(
    ("given", "differing", "first"),
    [
        ([1, 2, 3], 0, None),
        ([1, 0, 3], 0, None),  # nothing reads the second value
        ([1, 2, 1], 1, (2, 1, 3)),
        ([2, 2, 3], 2, (0, 2, 1)),
    ],
)
def test_values_of_several_bits_are_compared_where_they_are_read(given, differing, first):
    stage = StageDesign(
        name="wide", kind="any", sources=("",), queues=(), signed=False, cores=("wide",), connections=0, counted=0, cost=Cost(), latency=1,
        words=1, width=6, value_bits=2, unread=(1,), strobes=("wide.o__valid",), payload="wide.o__payload",
    )  # fmt: skip
    word = sum(value << 2 * n for n, value in enumerate(given))
    trace = SimpleNamespace(values={"wide": np.array([[word]], np.uint8)})
    design = SimpleNamespace(stages=[stage])
    compared, wrong, found = _compare_inside(trace, {"wide": np.array([[1, 2, 3]])}, design)
    assert (compared, wrong) == (4, differing)
    seen = found and (found.neuron, found.hardware, found.software)
    assert seen == first


def digits_network():
    return open_network(MODELS / "digits.pt")


def flip(text, module, name):
    """Complement the table that drives a net of a module."""
    start = text.index(f"module \\top.{module} ")
    end = text.index("endmodule", start)
    instance = re.compile(
        r"(LUT\w+) #\(\s*\.INIT\((\d+)'h([0-9a-f]+)\)\s*\) (\S+) \((.*?)\);", re.DOTALL
    )
    for found in instance.finditer(text, start, end):
        output = re.search(rf"\.(O\d?)\({re.escape(name)}\)", found[5])
        if output:
            size, value = int(found[2]), int(found[3], 16)
            full = (1 << size) - 1
            mask = {"O": full, "O5": full & (1 << 32) - 1, "O6": full & ~((1 << 32) - 1)}[output[1]]
            return f"{text[: found.start(3)]}{value ^ mask:x}{text[found.end(3) :]}"
    raise AssertionError(f"no table drives {name}")


def last_net(text, module, neuron):
    start = text.index(f"module \\top.{module} ")
    nets = re.findall(rf"\b(n{neuron}_\d+)\b", text[start : text.index("endmodule", start)])
    return max(set(nets), key=lambda net: int(net.split("_")[1]))


def test_a_planted_fault_is_found_with_layer_and_neuron():
    network = digits_network()
    rng = np.random.default_rng(0)
    pixels = random_images(rng, network, 40)
    values = network.compute(pixels, keep=["linear1"]).values["linear1"]
    wide = int(np.argmax(network.stages[3].operation.taps.fan_in))

    def spoil(text):
        return flip(text, "linear1", last_net(text, "linear1", wide))

    agreement, _ = verdict(network, pixels, spoil=spoil)
    assert agreement.mismatches
    assert not agreement.equal
    first = agreement.first
    assert (first.layer, first.neuron) == ("linear1", wide)
    assert first.software == values[first.image, wide]
    assert first.hardware == 1 - first.software


def test_a_wrong_class_is_seen_where_all_scores_are_right():
    network = digits_network()
    pixels = random_images(np.random.default_rng(0), network, 40)

    def spoil(text):
        start = text.index("module \\top.scores ")
        nets = re.findall(r"\b(best\d+_\d+_\d+)\b", text[start : text.index("endmodule", start)])
        last = max(set(nets), key=lambda net: [int(part) for part in net[4:].split("_")])
        return flip(text, "scores", last)

    agreement, _ = verdict(network, pixels, spoil=spoil)
    assert agreement.mismatches
    assert agreement.first.layer == "scores"


def test_a_design_of_another_network_is_refused():
    one, two = (random_vector_network(np.random.default_rng(seed)) for seed in (1, 2))
    made = generate(one)
    with pytest.raises(
        UsageError, match=r"^The design was generated from another network; generate it again$"
    ):
        check_agreement(
            two, made.verilog, made.design, random_images(np.random.default_rng(0), two, 1)
        )


def test_stalls_change_nothing_but_the_cycles():
    rng = np.random.default_rng(31)
    network = random_map_network(rng)
    pixels = random_images(rng, network, 10)
    plain, _ = verdict(network, pixels)
    for seed in range(3):
        stalled, _ = verdict(network, pixels, stalls=True, seed=seed, inside=True)
        assert stalled.equal
        assert stalled.latency is None
        assert stalled.cycles > plain.cycles


def sparse_conv(rng, edge, neurons, density=0.1):
    channels, window = edge.channels, Window((3, 3))
    taps = Taps.from_dense((rng.random((neurons, 9 * channels)) < density).astype(int))
    xi, k = -int(rng.integers(1, 8)) * 2 - 1, 7

    def make(thresholds):
        return Conv2d(
            taps=taps, xi=xi, k=k, thresholds=thresholds, flips=rng.random(neurons) < 0.5,
            fixed=np.zeros(0, np.int64), channels=channels, window=window,
        )  # fmt: skip

    return with_thresholds(rng, make, edge, neurons)


def small_cnv(rng):
    """Return the CNV shape with an eighth of its channels, nine tenths of the weights zero."""
    builder = _Builder(Edge.of_bits((32, 32, 3), 8, scan="raster"))
    builder.add(Encode(np.array([[64, 128, 192]] * 3)))
    for width in (8, 8, "pool", 16, 16, "pool", 32, 32):
        if width == "pool":
            builder.add(MaxPool2d(Window((2, 2), (2, 2)), rng.random(builder.edge.channels) < 0.3))
        else:
            builder.add(sparse_conv(rng, builder.edge, width))
    builder.add(Flatten())
    taps = Taps.from_dense((rng.random((64, builder.edge.size)) < 0.1).astype(int))

    def make(thresholds):
        return Linear(
            taps=taps,
            xi=0,
            k=0,
            thresholds=thresholds,
            flips=rng.random(64) < 0.5,
            fixed=np.zeros(0, np.int64),
        )

    builder.add(with_thresholds(rng, make, builder.edge, 64))
    builder.add(random_scores(rng, builder.edge, 10))
    return builder.finish()


def test_a_small_cnv_is_exact_in_every_pixel_of_every_layer(data_root):
    from sbnn_hw import datasets

    pixels = datasets.find("cifar10").load("test", data_root).pixels[:100]
    network = small_cnv(np.random.default_rng(0))
    agreement, design = verdict(network, pixels, inside=True)
    assert agreement.equal
    pixels_seen = (
        30 * 30 * 8
        + 28 * 28 * 8
        + 14 * 14 * 8
        + 12 * 12 * 16
        + 10 * 10 * 16
        + 5 * 5 * 16
        + 3 * 3 * 32
        + 32
        + 64
    )
    # Whatever something reads is compared, wherever it is in a map.
    assert 0.95 * (pixels_seen + 32 * 32 * 9) < agreement.values / 100 <= pixels_seen + 32 * 32 * 9
    seen = [
        np.broadcast_to(mask.reshape(-1, mask.shape[-1]).any(axis=0), mask.shape)
        for mask in network.read[:-1]
    ]
    flat = [stage.operation.kind == "flatten" for stage in network.stages[:-1]]
    assert agreement.values == 100 * sum(
        int(mask.sum()) for mask, skipped in zip(seen, flat, strict=True) if not skipped
    )
    assert agreement.latency == design.latency
    assert agreement.interval == design.interval == 1024


def mnist_agreement(name, mnist, stalls):
    network = open_network(MODELS / f"{name}.pt")
    agreement, design = verdict(network, mnist.pixels, stalls=stalls, seed=1)
    assert (agreement.vectors, agreement.mismatches) == (10_000, 0)
    assert agreement.equal
    assert agreement.operations_equal
    if not stalls:
        assert (agreement.latency, agreement.interval) == (design.latency, 1)


@pytest.mark.parametrize("stalls", [False, True], ids=["steady", "stalls"])
def test_sfc_98_is_bit_exact_on_all_of_mnist(mnist, stalls):
    mnist_agreement("mnist_sfc_98", mnist, stalls)


@pytest.mark.long
@pytest.mark.parametrize("stalls", [False, True], ids=["steady", "stalls"])
def test_sfc_95_is_bit_exact_on_all_of_mnist(mnist, stalls):
    mnist_agreement("mnist_sfc_95", mnist, stalls)
