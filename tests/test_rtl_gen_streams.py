"""Hardware of integer streams: sums, affines, pools, signs, classes by integer weights."""

import inspect
import itertools
import textwrap

import numpy as np
import pytest
from random_networks import random_images, random_taps
from random_residual import (
    Graph,
    random_affine,
    random_binary_sums,
    random_residual_network,
    random_sign,
    random_weighted_sums,
)
from simulated import run_part, run_streams

from sbnn_hw.families import find_family
from sbnn_hw.netlist import (
    Concat,
    Edge,
    Flatten,
    MaxPool2d,
    Scores,
    Stage,
    SumPool2d,
    Window,
)
from sbnn_hw.rtl_gen import numbers
from sbnn_hw.rtl_gen.candidate import Arrival, Place, candidates_of, choose
from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.island import Single
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.parts.accumulate import Accumulate
from sbnn_hw.rtl_gen.parts.best import Best
from sbnn_hw.rtl_gen.parts.dot import Dot
from sbnn_hw.rtl_gen.stages import vector
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim.agreement import check_agreement
from sbnn_hw.yosys import synthesise

FAMILIES = ["xc7", "ecp5", "ice40", "generic"]


def test_weights_are_sums_of_few_powers_of_two():
    for weight in range(-300, 301):
        digits = numbers.digits(weight)
        assert sum(sign << exponent for sign, exponent in digits) == weight
        assert len(digits) <= abs(weight).bit_count()
    # As few as there can be: tried for all that two digits make.
    two = {
        a + b for a, b in itertools.product([s << n for s in (1, -1) for n in range(8)], repeat=2)
    }
    assert all(len(numbers.digits(weight)) <= 2 for weight in two)


def tabled(operation, edges, x, family):
    """Compute an operation on vectors by the tables that would be built for it."""
    out = operation.infer(*edges)
    read = np.ones(out.shape, bool)
    stage = Stage("alone", operation, tuple(range(-1, len(edges) - 1)))
    place = Place(stage, edges, out, Arrival.of_input(False, 1), read, Options(family=family))
    tables = choose(candidates_of(place)).parts["alone"]
    cases = len(x[0])
    words = []
    for values, edge in zip(x, edges, strict=True):
        bits = values[:, :, None].astype(np.int64) >> np.arange(edge.bits) & 1
        words += [int("".join(map(str, row)), 2) for row in bits.reshape(cases, -1).T.tolist()]
    found = tables.logic.evaluate(words, tables.outputs, cases)
    bits = np.array([[int(c) for c in f"{word:0{cases}b}"] for word in found]).T
    weights = 1 << np.arange(out.bits)
    if out.signed:
        weights[-1] *= -1
    return bits.reshape(cases, -1, out.bits) @ weights


def random_values(rng, edge, count):
    """Return values of an edge, many of them at its ends and around zero."""
    shape = (count, *edge.shape)
    ends = [edge.low, edge.high, np.clip(-1, edge.low, edge.high), np.clip(0, edge.low, edge.high)]
    return np.where(
        rng.random(shape) < 0.3,
        rng.choice(ends, shape),
        rng.integers(edge.low, edge.high + 1, shape),
    )


def random_edge(rng, channels):
    low = int(rng.integers(-200, 20))
    return Edge((channels,), low, low + int(rng.integers(1, 300)))


def random_join(rng):
    sources = int(rng.integers(1, 3))
    if rng.random() < 0.5:
        edges = tuple(random_edge(rng, 3) for _ in range(sources))
        return random_affine(rng, *edges), edges
    # Few bits, and multipliers of many digits: these are multiplied by tables.
    lows = rng.integers(-8, 1, sources).tolist()
    edges = tuple(Edge((3,), low, low + int(rng.integers(1, 8))) for low in lows)
    return random_affine(rng, *edges, most=1000), edges


@pytest.mark.parametrize("family", FAMILIES)
def test_an_affine_is_what_the_netlist_computes(family):
    """With slopes and without; both ends of the clamp, and zero, are among the values."""
    rng = np.random.default_rng(FAMILIES.index(family))
    ends = slopes = tables = 0
    for _ in range(40):
        operation, edges = random_join(rng)
        tables += any(
            edge.bits <= find_family(family).inputs and len(numbers.digits(int(m))) > 2
            for row, edge in zip(operation.multipliers, edges, strict=True)
            for m in row
        )
        x = [random_values(rng, edge, 200) for edge in edges]
        wanted = operation.compute(*x, *edges)
        assert (tabled(operation, edges, x, family) == wanted).all()
        ends += (wanted == operation.low).any() and (wanted == operation.high).any()
        slopes += operation.slopes is not None
    assert ends > 5
    assert slopes > 3
    assert tables > 10


#: Faults, as changes of the text of a function.
FAULTS = {
    "rounding up": (numbers, "_shifted", "(raised << by)", "(raised << by) + (1 << by) - 1"),
    "halves rounded down": (numbers, "_shifted", "(raised << by)", "(raised << by) - (by > 0)"),
    "clamp one too low": (
        numbers._Raised, "clamp", "= ends, clamp", "= ends, (clamp[0], clamp[1] - 1)"
    ),
    "clamp one too high": (
        numbers._Raised, "clamp", "= ends, clamp", "= ends, (clamp[0] + 1, clamp[1])"
    ),
    "a shift of one more": (numbers, "affine", "operation.shift", "operation.shift + 1"),
    "a shift of one less": (numbers, "affine", "operation.shift", "max(operation.shift - 1, 0)"),
    "a slope's other sign": (numbers, "affine", "int(operation.slopes", "-int(operation.slopes"),
    "a source without its sign": (numbers, "weigh", "if signed", "if False"),
    "a table of another factor": (numbers, "_looked_up", "[factor * min", "[(factor + 1) * min"),
    "an offset taken twice": (numbers, "_looked_up", "offset = left", "offset = left + 1"),
    "a table without its sign": (numbers, "_looked_up", "edge.signed and n >>", "False and n >>"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_in_an_affine_is_found(fault, monkeypatch):
    where, name, old, new = FAULTS[fault]
    text = textwrap.dedent(inspect.getsource(getattr(where, name)))
    assert text.count(old) == 1
    monkeypatch.setattr(where, name, changed(text.replace(old, new), name))
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(24):
        operation, edges = random_join(rng)
        x = [random_values(rng, edge, 200) for edge in edges]
        wrong += bool((tabled(operation, edges, x, "xc7") != operation.compute(*x, *edges)).any())
    assert wrong > 2


def changed(text, name):
    """Return a function of ``numbers`` by another text."""
    space = dict(vars(numbers))
    exec(text, space)
    return space[name]


def test_signs_and_channels_side_by_side_are_what_the_netlist_computes():
    rng = np.random.default_rng(3)
    for family in FAMILIES:
        for _ in range(6):
            edge = random_edge(rng, 3)
            x = [random_values(rng, edge, 200)]
            encode = random_sign(rng, edge, planes=int(rng.integers(1, 4)))
            assert (tabled(encode, (edge,), x, family) == encode.compute(*x, edge)).all()
            edges = edge, random_edge(rng, 2)
            x.append(random_values(rng, edges[1], 200))
            concat = Concat(2)
            assert (tabled(concat, edges, x, family) == concat.compute(*x, *edges)).all()


def pack_words(values, bits):
    return sum((int(value) & (1 << bits) - 1) << bits * n for n, value in enumerate(values))


def random_stage(kind, rng):
    """Return an operation, and the edge that it receives."""
    shape = (int(rng.integers(3, 7)), int(rng.integers(3, 7)), 2)
    edge = Edge(shape, -int(rng.integers(1, 20)), int(rng.integers(1, 20)), scan="raster")
    match kind:
        case "binary":
            edge = Edge(shape, scan="raster")
            return random_binary_sums(rng, edge, 4, stride=int(rng.integers(1, 3))), edge
        case "weighted":
            return random_weighted_sums(rng, edge, 3, stride=int(rng.integers(1, 3))), edge
        case "sum_pool":
            kernel = tuple(int(rng.integers(1, 4)) for _ in range(2))
            stride = tuple(int(rng.integers(1, size + 1)) for size in kernel)
            return SumPool2d(Window(kernel, stride), ceil=bool(rng.random() < 0.6)), edge
        case "whole":
            return SumPool2d(Window(shape[:2])), edge
        case "max_pool":
            window = (
                Window((3, 3), (2, 2), (1, 1)) if rng.random() < 0.5 else Window((2, 2), (2, 2))
            )
            return MaxPool2d(window, [False, False]), edge


@pytest.mark.parametrize("kind", ["binary", "weighted", "sum_pool", "whole", "max_pool"])
def test_a_stage_of_integers_alone_says_what_its_operation_computes(kind):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        operation, edge = random_stage(kind, rng)
        dut = Single(Stage("alone", operation, (-1,)), edge, Options(levels_per_stage=2))
        x = random_values(rng, edge, 3)
        words = [pack_words(row, edge.bits) for row in x.reshape(-1, edge.channels)]
        out = operation.infer(edge)
        rows = operation.compute(x, edge).reshape(-1, out.channels)
        wanted = [pack_words(row, out.bits) for row in rows]
        odds = 1.0 if seed % 2 else 0.5
        assert run_streams(dut, words, len(wanted), odds=odds, seed=seed) == wanted, seed


@pytest.mark.parametrize("family", FAMILIES)
def test_every_value_of_a_residual_network_agrees(family):
    """With and without stalls; latency and interval are as computed."""
    seed = FAMILIES.index(family)
    network = small_residual(seed, 700)
    made = generate(network, Options(family=family, levels_per_stage=2))
    pixels = random_images(np.random.default_rng(seed), network, 8)
    steady = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    stalled = check_agreement(
        network, made.verilog, made.design, pixels, inside=True, stalls=True, seed=seed
    )
    assert steady.differences == stalled.differences == []
    assert (steady.latency, steady.interval) == (made.design.latency, made.design.interval)
    assert steady.operations_equal
    told = steady.to_dict(network, made.design)["bops"]
    assert told["measured"] == told["static"]
    seen = [stage for stage in made.design.stages if stage.payload]
    assert {"sums", "affine"} <= {stage.kind for stage in seen}
    assert any(stage.signed and stage.value_bits > 2 for stage in seen)


def small_residual(seed, most):
    """Return the first random network from a seed on that takes few tables."""
    for attempt in itertools.count(seed):
        rng = np.random.default_rng(attempt)
        shape = (int(rng.integers(3, 5)), int(rng.integers(3, 5)), 1)
        network = random_residual_network(rng, blocks=1, shape=shape)
        if lower(network, Options(family="xc7")).cost.tables <= most:
            return network
    return None


def classifier(rng, *, shape=(3, 4, 3), classes=4):
    """Return a network that ends with integer weights on the sums of a whole map."""
    graph = Graph(Edge.of_bits(shape, 4, scan="raster"))
    sums = graph.add(random_weighted_sums(rng, graph.input, 3), -1)
    stream = graph.add(random_affine(rng, graph.edges[sums], bits=5, slopes=False), sums)
    pooled = graph.add(SumPool2d(Window(shape[:2])), stream)
    flat = graph.add(Flatten(), pooled)
    taps = random_taps(rng, classes, 3, most=3)
    weights = rng.integers(1, 90, len(taps.indices)) * rng.choice([-1, 1], len(taps.indices))
    graph.add(Scores(taps=taps, weights=weights, offsets=rng.integers(-99, 99, classes)), flat)
    return graph.finish()


@pytest.mark.parametrize("serial", [0, 1])
def test_classes_by_integer_weights_take_many_cycles_where_that_is_smaller(serial):
    network = classifier(np.random.default_rng(0), shape=(8, 8, 2))
    options = Options(family="ecp5", serial=serial)
    lowered = lower(network, options)
    assert any(isinstance(part, Dot) for part in lowered.parts.values()) == (not serial)
    assert any(isinstance(part, Accumulate) for part in lowered.parts.values())
    made = generate(network, options)
    pixels = random_images(np.random.default_rng(1), network, 12)
    for stalls in (False, True):
        found = check_agreement(
            network, made.verilog, made.design, pixels, inside=True, stalls=stalls
        )
        assert found.differences == []
        assert found.operations_equal


def test_the_first_largest_score_wins():
    """Ties, and scores of both signs; words come as close as they may."""
    rng = np.random.default_rng(0)
    for classes, bits in ((2, 3), (5, 4), (10, 6)):
        part = Best(classes, bits, True, find_family("generic"))
        scores = rng.integers(-(1 << bits - 1), 1 << bits - 1, (40, classes))
        scores[::3] = scores[::3, :1]
        words = [pack_words(row, bits) for row in scores]
        number = max(1, (classes - 1).bit_length())
        wanted = [
            int(row.argmax()) | word << number for row, word in zip(scores, words, strict=True)
        ]
        for odds in (1.0, 0.5):
            given, times, arrivals = run_part(part, words, odds=odds, apart=part.latency)
            assert given == wanted
            assert times == part.times(np.array(arrivals)).tolist()


@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
def test_what_classes_over_many_cycles_take_is_near_what_yosys_counts(family):
    rng = np.random.default_rng(0)
    known = find_family(family)
    dot = Dot(8, rng.integers(-90, 90, (6, 32)), rng.integers(-9, 9, 6), 20, 1, known)
    for part in (dot, Best(6, 20, True, known)):
        counts = synthesise(to_verilog(core_of(part)), family).counts
        assert part.cost.tables == pytest.approx(counts.luts, rel=0.4)
        assert part.cost.registers == pytest.approx(counts.flip_flops, rel=0.05, abs=6)


def test_a_vector_that_comes_too_soon_is_told(monkeypatch):
    """A planted fault: the classes take more cycles than lie between two images."""
    network = classifier(np.random.default_rng(0), shape=(5, 5, 2))
    monkeypatch.setattr(vector, "cycles_between", lambda arrival: 1000)
    made = generate(network, Options(family="ecp5"))
    monkeypatch.undo()
    assert made.design.stages[-1].queues
    found = check_agreement(network, made.verilog, made.design, random_images(
        np.random.default_rng(1), network, 4))  # fmt: skip
    assert found.overflows == ["stage scores4 for what comes from flatten3"]


def test_estimates_are_near_what_is_laid_out():
    for seed in range(4):
        network = small_residual(seed, 2000)
        laid_out = lower(network, Options(family="xc7")).cost.tables
        assert estimate(network, "xc7").luts == pytest.approx(laid_out, rel=0.25)
