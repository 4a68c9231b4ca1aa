"""Integer streams: computed as defined, proved within their range, kept in files, counted."""

import inspect
import json
import sys
import textwrap
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from random_networks import random_images, random_map_network, random_vector_network
from random_residual import Graph, random_affine, random_residual_network
from stream_reference import run, unrounded

from sbnn_hw import bops
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.unread import drop_unread
from sbnn_hw.netlist import (
    Affine,
    Concat,
    Constants,
    Edge,
    Encode,
    Flatten,
    Linear,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    SumPool2d,
    Sums,
    Taps,
    Window,
    Work,
    load,
    save,
    to_bytes,
)
from sbnn_hw.netlist.view import from_view, to_view, view_schema
from sbnn_hw.netlist.wiring import Wiring

SEEDS = range(120)


def differences(seeds, images=2):
    """Compare every value of random networks with the slow reference; return what differs."""
    found, seen = [], Counter()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        network = random_residual_network(rng)
        pixels = random_images(rng, network, images)
        names = [stage.name for stage in network.stages]
        values = network.compute(pixels, keep=names).values
        for image in range(images):
            wanted = run(network, pixels[image])
            for number, stage in enumerate(network.stages):
                got, edge = values[stage.name][image], network.edge_from(number)
                if not np.array_equal(got.astype(object), wanted[stage.name]):
                    found.append((seed, stage.name))
                if got.min() < edge.low or got.max() > edge.high:
                    found.append((seed, f"{stage.name} leaves its range"))
                _look(seen, stage, wanted, network)
    return found, seen


def _look(seen, stage, wanted, network):
    """Count what tests are for, by value where values decide, else by stage."""
    operation = stage.operation
    inputs = [wanted[network.stages[n].name] if n >= 0 else None for n in stage.sources]
    seen[operation.kind] += 1
    seen["joins"] += len(set(stage.sources)) > 1
    seen["forks"] += any(
        other is not stage and set(other.sources) & set(stage.sources) for other in network.stages
    )
    if isinstance(operation, Affine):
        exact = unrounded(operation, *inputs)
        seen["clamped low"] += int((exact < operation.low).sum())
        seen["clamped high"] += int((exact >= operation.high + 1).sum())
        within = (exact >= operation.low) & (exact < operation.high + 1)
        seen["within"] += int(within.sum())
        # The half that rounds is part of the offset: what lies half-way needs no floor.
        whole = np.array([value.denominator == 1 for value in exact.flat]).reshape(exact.shape)
        if operation.shift + operation.slope_shift:
            seen["halves"] += int((within & whole).sum())
            seen["floors"] += int((within & ~whole).sum())
        if operation.slopes is not None:
            plain = unrounded(replace(operation, slopes=None, offsets_behind=None, slope_shift=0),
                              *inputs)  # fmt: skip
            falls = operation.slopes < 0
            seen["falling slopes"] += int(((plain < 0) & falls & within).sum())
            seen["rising slopes"] += int(((plain < 0) & ~falls & within).sum())
    elif isinstance(operation, Encode) and inputs[0] is not None:
        seen["ties"] += int((inputs[0] == operation.thresholds[:, 0]).sum())
    elif isinstance(operation, Sums | SumPool2d | MaxPool2d):
        _look_at_window(seen, stage, network)


def _look_at_window(seen, stage, network):
    operation = stage.operation
    if (window := operation.window) is None:
        return
    seen["strides"] += max(window.stride) > 1
    if isinstance(operation, SumPool2d):
        edge = network.edges_into(network.stages.index(stage))[0]
        seen["hanging over"] += operation.simplified(edge).ceil
    elif isinstance(operation, Sums) and max(window.padding):
        padded = "values" if operation.pad is not None else operation.border
        seen[f"border of {padded}"] += 1


#: How often what tests are for must be seen, at least: values, then stages.
SEEN = {
    **dict.fromkeys(
        ("clamped low", "clamped high", "ties", "halves", "floors", "falling slopes",
         "rising slopes"), 500),
    **dict.fromkeys(
        ("border of zero", "border of minus", "border of values", "strides", "hanging over",
         "forks", "joins"), 20),
    **dict.fromkeys(
        ("affine", "concat", "encode", "flatten", "max_pool2d", "scores", "sum_pool2d", "sums"), 20),
}  # fmt: skip


def test_every_value_is_what_the_definition_says():
    found, seen = differences(SEEDS)
    assert found == []
    assert {name: count for name, count in seen.items() if count < SEEN.get(name, 0)} == {}
    assert set(SEEN) <= set(seen)


#: Faults, as changes of the text of a method.
FAULTS = {
    "rounding up": (Affine, "compute", "t >>= by", "t = -(-t >> by)"),
    "rounding to zero": (Affine, "compute", "t >>= by", "t = np.trunc(t / 2.0**by).astype(dtype)"),
    "clamp one too low": (Affine, "compute", "made.high)", "made.high - 1)"),
    "clamp one too high": (Affine, "compute", "made.low, ", "made.low + 1, "),
    "halves rounded down": (Affine, "compute", "t >>= by", "t = (t - (by > 0)) >> by"),
    "a shift of one more": (
        Affine,
        "compute",
        "self.shift + self.slope_shift",
        "self.shift + self.slope_shift + 1",
    ),
    "a shift of one less": (Affine, "compute", "t >>= by", "t >>= max(by - 1, 0)"),
    "slopes of the other sign": (Affine, "compute", "t * self", "t * -self"),
    "shift the other way": (Affine, "compute", "t << self", "t >> self"),
    "no offset behind": (Affine, "compute", "t += self.offsets_behind.astype(dtype)", "pass"),
    "ties do not fire": (Encode, "compute", ">= self", "> self"),
    "flips are lost": (Encode, "compute", "bits ^= self.flips", "pass"),
    "zeros around integers": (MaxPool2d, "compute", "edge.low", "0"),
    "zeros beyond the border": (SumPool2d, "compute", 'mode="edge"', 'mode="constant"'),
    "sources reversed": (Concat, "compute", "in inputs]", "in inputs[::-1]]"),
    "bits of one": (Wiring, "_lay_out", "2 * x.astype(dtype) - 1", "x.astype(dtype)"),
    "padding of zero": (Wiring, "_lay_out", "0 if self.pad is None else self.pad", "0"),
    "complements are lost": (Wiring, "_complements", "self.bipolar or", "True or"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, monkeypatch):
    where, method, old, new = FAULTS[fault]
    text = textwrap.dedent(inspect.getsource(getattr(where, method)))
    assert text.count(old) == 1
    space = dict(vars(sys.modules[where.__module__]))
    exec(text.replace(old, new), space)
    monkeypatch.setattr(where, method, space[method])
    seeds = iter(SEEDS)
    assert any(differences([seed], images=1)[0] for seed in seeds)


@pytest.mark.parametrize("make", [random_map_network, random_vector_network])
def test_layers_are_what_the_definition_says(make):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        network = make(rng)
        pixels = random_images(rng, network, 2)
        names = [stage.name for stage in network.stages]
        values = network.compute(pixels, keep=names).values
        for image in range(2):
            wanted = run(network, pixels[image])
            for name in names:
                assert np.array_equal(values[name][image].astype(object), wanted[name])


def test_wide_sums_are_exact_in_every_type():
    """Just below 2^24, just above it, and near 2^53."""
    rng = np.random.default_rng(0)
    for high, wide in ((255, 1000), (255, 70_000), ((1 << 40) - 1, (1 << 10) - 1)):
        taps = Taps.from_dense(np.ones((3, 8), int))
        weights = rng.choice([-wide, wide, wide - 1, 1], 24)
        sums = Sums(taps=taps, channels=8, weights=weights)
        edge = Edge((8,), -high, high)
        x = rng.choice([-high, high, high - 1, 1, -1], (50, 8))
        found = sums.compute(x, edge)
        for image, neuron in np.ndindex(50, 3):
            row = weights[8 * neuron : 8 * neuron + 8].tolist()
            exact = sum(w * v for w, v in zip(row, x[image].tolist(), strict=True))
            assert int(found[image, neuron]) == exact


def test_layers_beyond_floats_are_exact():
    """A layer may have sums of up to 60 bits, which no float has."""
    high = (1 << 57) - 1
    edge = Edge((4,), 0, high)
    taps = Taps.from_dense(np.array([[1, 1, 1, 0]]))
    x = np.array([[high, high, 1, 0], [high, high, 2, 0], [high, high, 3, 0]])
    layer = Linear(
        taps=taps, xi=0, k=0, thresholds=[[2 * high + 2]], flips=[False], fixed=np.zeros(0, int)
    )
    layer.infer(edge)
    assert layer.compute(x, edge).ravel().tolist() == [0, 1, 1]


# Proofs of ranges


def test_ranges_are_reached_and_not_left():
    """On all inputs of tiny operations: no value outside, and both ends occur."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        edge = Edge((2,), int(rng.integers(-4, 1)), int(rng.integers(1, 4)))
        grid = np.arange(edge.low, edge.high + 1)
        x = np.array(np.meshgrid(grid, grid)).reshape(2, -1).T
        taps = Taps.from_dense(np.ones((2, 2), int))
        weights = rng.integers(1, 4, 4) * rng.choice([-1, 1], 4)
        for operation in (
            Sums(taps=taps, channels=2, weights=weights),
            random_affine(rng, edge, bits=3, slopes=False),
            random_affine(rng, edge, bits=3, slopes=True),
        ):
            made, out = operation.infer(edge), operation.compute(x, edge)
            assert made.low <= out.min() <= out.max() <= made.high
            # With a slope the ends may lie between the values that occur.
            if getattr(operation, "slopes", None) is None:
                assert (int(out.min()), int(out.max())) == (made.low, made.high)


def test_zero_borders_and_padding_are_in_the_range():
    window = Window((3, 3), (1, 1), (1, 1))
    taps = Taps.from_dense(np.ones((1, 9), int))
    bits = Edge((2, 2, 1), scan="raster")
    zero = Sums(taps=taps, channels=1, window=window, border="zero")
    assert (zero.infer(bits).low, zero.infer(bits).high) == (-4, 4)
    padded = Sums(taps=taps, channels=1, window=window, pad=[7], weights=[-1] * 9)
    edge = Edge((2, 2, 1), 0, 7, "raster")
    assert (padded.infer(edge).low, padded.infer(edge).high) == (-63, -35)


# Refusals


def dense(rows):
    return Taps.from_dense(np.array(rows))


def sums(**changes):
    fields = {"taps": Taps.from_dense(np.ones((2, 4), int)), "channels": 4}
    return Sums(**(fields | changes))


def affine(**changes):
    fields = {"multipliers": [[1, 1]], "offsets": [0, 0], "shift": 0, "low": -8, "high": 7}
    return Affine(**(fields | changes))


PAIR = Edge((2,), -8, 7)
MAP = Edge((4, 4, 2), -8, 7, "raster")
PADDED = Window((3, 3), (1, 1), (1, 1))
NINE = Taps.from_dense(np.ones((1, 9), int))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sums(k=41), r"^k must be between 0 and 40, not 41, with Ξ 0$"),
        (lambda: sums(xi=2, k=1), r"^Ξ must be odd or k zero, not 2 and 1$"),
        (lambda: sums(xi=1, weights=[1] * 8), r"^Ξ must be zero with weights, not 1$"),
        (lambda: sums(weights=[1] * 7), r"^Weights must be \(8,\), not \(7,\)$"),
        (lambda: sums(weights=[0] * 8), r"^Weights must not be zero, and must be below 2\^31$"),
        (lambda: sums(weights=[1 << 31] * 8), r"^Weights must not be zero, and must be below 2\^31$"),
        (lambda: sums(taps=dense([[-1] * 4] * 2), weights=[1] * 8),
         r"^Taps with weights must not be inverted$"),
        (lambda: sums(taps=dense([[-1] * 4] * 2), xi=1),
         r"^Inverted taps are allowed only with Ξ = 0$"),
        (lambda: sums(channels=3), r"^Taps must be below 3, not 4$"),
        (lambda: sums(groups=3), r"^4 channels and 2 neurons cannot be divided into 3 groups$"),
        (lambda: sums(groups=2), r"^A neuron's taps must lie in its own group of channels$"),
        (lambda: sums(fixed=[0]), r"^Fixed inputs are allowed only where Ξ is not zero$"),
        (lambda: sums(xi=1, fixed=[1, 0]), r"^Fixed inputs must increase$"),
        (lambda: sums(xi=1, fixed=[4]), r"^Fixed inputs must be below 4$"),
        (lambda: sums(xi=1, fixed=[0]), r"^Fixed inputs must not be tapped$"),
        (lambda: sums(border="plus"), r"^Border must be minus or zero, not 'plus'$"),
        (lambda: sums(border="zero"), r"^A border of zero, and what padding holds, need padding$"),
        (lambda: sums(pad=[0] * 4), r"^A border of zero, and what padding holds, need padding$"),
        (lambda: Sums(taps=NINE, channels=1, window=PADDED, pad=[0, 0]),
         r"^Padding must hold 1 values, with a border of minus, not \(2,\) with a border of minus$"),
        (lambda: sums().infer(PAIR), r"^It takes a vector of 4 values, but receives \(2,\)$"),
        (lambda: Sums(taps=NINE, channels=1, window=PADDED).infer(MAP),
         r"^It takes a map of 1 channels, but receives \(4, 4, 2\)$"),
        (lambda: Sums(taps=NINE, channels=1, window=PADDED, border="zero").infer(
            Edge((4, 4, 1), 0, 3, "raster")),
         r"^A border of zero is for bits; padding of integers holds a value in each channel$"),
        (lambda: Sums(taps=NINE, channels=1, window=PADDED, pad=[9]).infer(
            Edge((4, 4, 1), -8, 7, "raster")), r"^Padding must lie between -8 and 7$"),
        (lambda: sums(taps=dense([[-1] * 4] * 2)).infer(Edge((4,), -1, 1)),
         r"^Inverted taps take unsigned values; use weights below zero$"),
        (lambda: sums(weights=[1 << 30] * 8).infer(Edge((4,), 0, 1 << 21)),
         r"^Its sums need more than 53 bits: they may reach 9007199254740992$"),
        (lambda: affine(multipliers=[[1, 1]] * 3),
         r"^Multipliers must be \(sources, channels\) of one or two sources, not \(3, 2\)$"),
        (lambda: affine(offsets=[0]), r"^Affine offsets must be \(2,\), one a channel, not \(1,\)$"),
        (lambda: affine(multipliers=[[0.5, 1]]),
         r"^Affine multipliers must be of type int64, not float64$"),
        (lambda: affine(shift=53), r"^Shift must be between 0 and 52, not 53$"),
        (lambda: affine(shift=-1), r"^Shift must be between 0 and 52, not -1$"),
        (lambda: affine(slopes=[1, 1], offsets_behind=[0, 0], slope_shift=31),
         r"^Slope shift must be between 0 and 30, not 31$"),
        (lambda: affine(slopes=[1, 1]), r"^Slopes, offsets behind them and a slope shift come together$"),
        (lambda: affine(slope_shift=1), r"^Slopes, offsets behind them and a slope shift come together$"),
        (lambda: affine(low=1, high=0), r"^A clamp must rise within 53 bits, not from 1 to 0$"),
        (lambda: affine(high=1 << 53),
         r"^A clamp must rise within 53 bits, not from -8 to 9007199254740992$"),
        (lambda: affine().infer(Edge((3,), -8, 7)), r"^It takes 2 channels, but receives \(3,\)$"),
        (lambda: affine(multipliers=[[1, 1]] * 2).infer(MAP, Edge((2, 4, 2), -8, 7, "raster")),
         r"^It joins streams of one shape, but receives \(4, 4, 2\) and \(2, 4, 2\)$"),
        (lambda: affine(multipliers=[[1 << 50, 1]]).infer(PAIR),
         r"^Its sums need more than 53 bits: they may reach 9007199254740992$"),
        (lambda: affine(slopes=[1 << 50, 1], offsets_behind=[0, 0], slope_shift=1).infer(PAIR),
         r"^Its sums need more than 53 bits: they may reach 9007199254740992$"),
        (lambda: SumPool2d(PADDED), r"^A pool of sums must have no padding, not 3×3 with stride 1×1 "),
        (lambda: SumPool2d(Window((2, 2))).infer(PAIR), r"^It takes a map, but receives \(2,\)$"),
        (lambda: SumPool2d(Window((5, 5))).infer(MAP), r"^A window of 5×5 does not fit a map of 4×4"),
        (lambda: SumPool2d(Window((4, 4))).infer(Edge((4, 4, 1), 0, 1 << 49, "raster")),
         r"^Its sums need more than 53 bits: they may reach 9007199254740992$"),
        (lambda: SumPool2d(Window((9, 9), (9, 9)), ceil=True).infer(MAP),
         r"^Its window must be at most twice as large as the map, not 9×9 with .* on 4×4$"),
        (lambda: sums(weights=[-(1 << 63)] * 8), r"^Weights must not be zero, and must be below 2\^31$"),
        (lambda: MaxPool2d(Window((2, 2)), [True, False]).infer(MAP),
         r"^It takes the AND of bits, but receives values from -8 to 7$"),
        (lambda: MaxPool2d(Window((2, 2)), [False]).infer(MAP),
         r"^It takes a map of 1 channels, but receives \(4, 4, 2\)$"),
        (lambda: Concat(1), r"^It takes between 2 and 65536 sources, not 1$"),
        (lambda: Concat(2).infer(MAP, PAIR),
         r"^It joins maps of one size, but receives \(4, 4, 2\) and \(2,\)$"),
        (lambda: Encode([[1, 0]]), r"^Encoder thresholds must be \(channels, planes\), not decreasing$"),
        (lambda: Encode([[1], [0]], [[True]]),
         r"^Encoder flips must be \(2, 1\), as its thresholds, not \(1, 1\)$"),
        (lambda: Encode([[-9], [0]]).infer(PAIR),
         r"^Encoder thresholds must lie between -8 and 8, not -9$"),
        (lambda: Encode([[9], [0]]).infer(PAIR), r"^Encoder thresholds must lie between -8 and 8, not 9$"),
        (lambda: Encode([[0]]).infer(PAIR), r"^It takes 1 channels, but receives \(2,\)$"),
        (lambda: Scores(taps=dense([[1, 1]]), offsets=[0], weights=[1, 2], shift=1),
         r"^Scores with weights have neither a minus nor a shift$"),
        (lambda: Scores(taps=dense([[1]]), offsets=[0], weights=[2]).infer(PAIR),
         r"^It takes a vector of 1 values, but receives \(2,\)$"),
        (lambda: Scores(taps=dense([[1, 1]]), offsets=[1 << 53], weights=[1, 2]).infer(PAIR),
         r"^Its sums need more than 53 bits: they may reach 9007199254741013$"),
        (lambda: Scores(taps=dense([[1, 1]]), offsets=[0]).infer(PAIR),
         r"^It takes a vector of 2 unsigned values, but receives \(2,\) signed$"),
        (lambda: Stage("join", affine(multipliers=[[1, 1]] * 2), (0,)),
         r"^Stage join must have 2 sources, not \(0,\)$"),
        (lambda: Stage("join", affine(), (0, 1)), r"^Stage join must have one source, not \(0, 1\)$"),
        (lambda: Network(MAP, (Stage("a", affine(multipliers=[[1, 1]] * 2), (-1, 1)),
                               Stage("b", affine(), (0,)))),
         r"^Stage a must receive from an earlier stage, not 1$"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be(make, message):
    with pytest.raises(ModelRejected, match=message):
        make()


# Files and views


@pytest.mark.parametrize("seed", range(12))
def test_files_and_views_come_back_the_same(seed, tmp_path):
    rng = np.random.default_rng(seed)
    network = random_residual_network(rng)
    assert network.schema == 2
    save(network, tmp_path / "net.sbnn")
    again = [load(tmp_path / "net.sbnn"), from_view(json.loads(json.dumps(to_view(network))))]
    pixels = random_images(rng, network, 5)
    names = [stage.name for stage in network.stages]
    wanted = network.compute(pixels, keep=names).values
    for other in again:
        assert other.digest == network.digest
        assert to_bytes(other) == to_bytes(network)
        found = other.compute(pixels, keep=names).values
        assert all(np.array_equal(found[name], wanted[name]) for name in names)


@pytest.mark.filterwarnings("ignore:Please use rfc3986:DeprecationWarning")
def test_views_fit_the_schema():
    jschon = pytest.importorskip("jschon", reason="needs jschon (pip install 'sbnn-hw[dev]')")
    jschon.create_catalog("2020-12")
    schema = jschon.JSONSchema(view_schema())
    for seed in range(2):
        view = json.loads(json.dumps(to_view(random_residual_network(np.random.default_rng(seed)))))
        assert view["version"] == 2
        assert schema.evaluate(jschon.JSON(view)).valid
        join = next(s for s in view["stages"] if s["operation"]["kind"] == "affine")
        join["sources"] = [0, 0, 0]
        assert not schema.evaluate(jschon.JSON(view)).valid


def test_a_view_of_version_1_has_no_streams():
    view = to_view(random_residual_network(np.random.default_rng(0)))
    view["version"] = 1
    with pytest.raises(ModelRejected, match=r"its version must be 2, not 1"):
        from_view(view)


def numbers_in(view, path=()):
    """Yield where the numbers of a view are."""
    items = view.items() if isinstance(view, dict) else enumerate(view)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from numbers_in(value, (*path, key))
        elif isinstance(value, int):
            yield (*path, key)


def test_whatever_a_number_is_there_is_a_network_or_a_sentence():
    rng = np.random.default_rng(0)
    refused = []
    for seed in range(6):
        text = json.dumps(to_view(random_residual_network(np.random.default_rng(seed))))
        places = [path for path in numbers_in(json.loads(text)) if path[0] == "stages"]
        for _ in range(50):
            view = json.loads(text)
            del view["digest"]
            at = view
            *way, last = places[int(rng.integers(len(places)))]
            for key in way:
                at = at[key]
            wild = [0, -1, 3, 99, 1 << 31, -(1 << 52), (1 << 62) - 1, -(1 << 63), True, None, 0.5]
            at[last] = wild[int(rng.integers(len(wild)))]
            try:
                network = from_view(view)
            except ModelRejected as error:
                refused.append(str(error))
                continue
            network.compute(random_images(rng, network, 1))
            assert network.canonical.digest == network.digest
    assert 50 < len(refused) < 300
    assert not any("\n" in sentence for sentence in refused)


# Constants, and what is read


def test_constants_follow_the_values():
    edge = Edge((3,), -4, 4)
    known = Constants(np.array([True, False, False]), np.array([3, 0, 0]))
    scale = Affine(
        multipliers=[[2, 0, 1]], offsets=[1, 9, 0], shift=1, low=-9, high=9,
    )  # fmt: skip
    found = scale.constants(known, edge)
    assert found.known.tolist() == [True, True, False]
    assert found.value[:2].tolist() == [3, 4]
    bits = Encode([[3], [-4], [5]], [[False], [True], [False]]).constants(known, edge)
    assert bits.known.tolist() == [True, True, True]
    assert bits.value.tolist() == [1, 0, 0]
    both = Concat(2).constants(known, found, edge, edge)
    assert both.known.tolist() == [True, False, False, True, True, False]
    pooled = SumPool2d(Window((2, 2))).constants(known, Edge((4, 4, 3), -4, 4, "raster"))
    assert pooled.value[0] == 12
    taps = dense([[1, 0, 0], [1, 1, 0], [0, 0, 0]])
    found = Sums(taps=taps, channels=3, weights=[-2, 1, 1]).constants(known, edge)
    assert found.known.tolist() == [True, False, True]
    assert found.value[[0, 2]].tolist() == [-6, 0]


@pytest.mark.parametrize("seed", range(25))
def test_what_is_constant_never_changes(seed):
    rng = np.random.default_rng(seed)
    network = random_residual_network(rng)
    known = {-1: Constants.none(network.input.channels)}
    names = [stage.name for stage in network.stages]
    values = network.compute(random_images(rng, network, 20), keep=names).values
    for number, stage in enumerate(network.stages):
        before = [known[source] for source in stage.sources]
        known[number] = stage.operation.constants(*before, *network.edges_into(number))
        flat = values[stage.name].reshape(-1, network.edge_from(number).channels)
        at = known[number].known
        assert (flat[:, at] == known[number].value[at]).all()


def test_dropping_what_is_not_read_keeps_the_scores():
    dropped = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        network = random_residual_network(rng)
        smaller = drop_unread(network)
        pixels = random_images(rng, network, 10)
        assert (network.compute(pixels).scores == smaller.compute(pixels).scores).all()
        dropped += sum(len(stage.absent) for stage in smaller.stages)
        for number in range(len(network.stages)):
            assert network.edge_from(number) == smaller.edge_from(number)
        assert load_of(smaller).digest == smaller.digest
    assert dropped > 20


def load_of(network):
    return from_view(json.loads(json.dumps(to_view(network))))


def test_a_planted_fault_in_what_is_read_is_found(monkeypatch):
    """An affine that says it reads the first source alone loses the second one's channels."""
    real = Affine.reads
    monkeypatch.setattr(
        Affine, "reads", lambda self, wanted, *e: (real(self, wanted, *e)[0], *[wanted & False] * (len(e) - 1))
    )  # fmt: skip
    differs = False
    for seed in range(10):
        rng = np.random.default_rng(seed)
        network = random_residual_network(rng)
        pixels = random_images(rng, network, 10)
        try:
            smaller = drop_unread(network)
        except ModelRejected:
            continue
        differs |= bool((network.compute(pixels).scores != smaller.compute(pixels).scores).any())
    assert differs


# Counts, and what cannot be exported yet


def small():
    """Return a small residual network: pixels, a stream, a block, scores."""
    graph = Graph(Edge.of_bits((4, 4, 2), 8, scan="raster"))
    rng = np.random.default_rng(0)
    first = Sums(
        taps=Taps.from_windows(np.ones((2, 9, 2), int)), channels=2, window=PADDED,
        weights=rng.choice([-3, 5, 4, -1], 36), pad=[128, 120],
    )  # fmt: skip
    stream = graph.add(first, -1)
    scale = affine(multipliers=[[3, 5]], offsets=[0, 1], shift=9, low=-128, high=127)
    stream = graph.add(scale, stream)
    bits = graph.add(Encode([[0], [3]], [[False], [True]]), stream)
    binary = Sums(
        taps=Taps.from_windows(np.ones((2, 9, 2), int)), channels=2, window=PADDED, border="zero"
    )
    wide = graph.add(binary, bits)
    join = affine(multipliers=[[7, -9], [8, 8]], offsets=[4, 4], shift=3, low=-128, high=127)
    stream = graph.add(join, wide, stream)
    pooled = graph.add(SumPool2d(Window((4, 4))), stream)
    flat = graph.add(Flatten(), pooled)
    scores = Scores(taps=dense([[1, 1]] * 3), weights=[3, 1, -2, 5, 6, 7], offsets=[0, 1, 2])
    graph.add(scores, flat)
    return graph.finish()


def test_work_is_counted():
    network = small()
    counts = bops.count(network)
    multiplied = int(np.isin(np.abs(network.stages[0].operation.weights), [3, 5]).sum()) * 16
    assert counts.others["sums0"] == Work(additions=36 * 16, multiplications=multiplied)
    assert counts.others["affine1"] == Work(additions=16, multiplications=32)
    # The shortcut is only shifted.
    assert counts.others["affine4"] == Work(additions=64, multiplications=32)
    assert counts.others["sum_pool2d5"] == Work(additions=15 * 2)
    assert counts.others["scores7"] == Work(additions=6, multiplications=4)
    (layer,) = counts.layers
    assert (layer.name, layer.sparse, layer.weights, layer.ones) == ("sums3", 36 * 16, 36, 36)
    assert counts.total("additions") == 36 * 16 + 16 + 64 + 30 + 6
    assert counts.total("multiplications") == multiplied + 32 + 32 + 4


def test_info_shows_work(tmp_path, capsys):
    save(small(), tmp_path / "net.sbnn")
    assert main(["info", "--model", str(tmp_path / "net.sbnn")]) == 0
    said = capsys.readouterr().out
    assert "stages       8, of which 1 join several ways\n" in said
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert "BOPs         576 per image" in said
    assert rows["affine4"][1:4] == ["affine", "sums3,", "affine1"]
    assert rows["affine4"][-4:] == ["–", "–", "64", "32"]
    assert rows["scores7"][-4:] == ["6", "–", "6", "4"]
    assert main(["info", "--model", str(tmp_path / "net.sbnn"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["bops"]["multiplications"] > 64
    assert summary["others"]["affine4"]["multiplications"] == 32


def chain(*operations, edge):
    stages = [Stage(f"{op.kind}{n}", op, (n - 1,)) for n, op in enumerate(operations)]
    return Network(edge, tuple(stages))


def test_integers_of_pixels_are_exported(tmp_path):
    """Without a layer in front; what has several forms may be read back in another one."""
    pytest.importorskip("onnx")
    from sbnn_hw.qonnx import export_network, import_network

    edge = Edge.of_bits((2, 2, 1), 8, scan="raster")
    weighted = Scores(taps=dense([[1] * 4] * 2), weights=[3] * 8, offsets=[0, 1])
    plain = Scores(taps=dense([[1] * 4] * 2), offsets=[0, 1])
    pool = MaxPool2d(Window((1, 1)), [False])
    pixels = np.random.default_rng(0).integers(0, 256, (50, 2, 2, 1)).astype(np.uint8)
    for number, network in enumerate(
        (
            chain(Flatten(), weighted, edge=edge),
            chain(pool, Flatten(), plain, edge=edge),
            chain(Encode([[3]], [[True]]), Flatten(), plain, edge=edge),
            chain(SumPool2d(Window((1, 1))), Flatten(), plain, edge=edge),
        )
    ):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(export_network(network))
        again = import_network(path).network
        assert (again.compute(pixels).scores == network.compute(pixels).scores).all()
        assert number or again.digest == network.digest


def test_pools_are_torchs():
    """Averages of 2×2 in ceil mode, times four, and maxima with padding, on integers."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for height, width in ((4, 4), (5, 7), (1, 3), (2, 5)):
        x = rng.integers(-128, 128, (3, height, width, 2))
        edge = Edge((height, width, 2), -128, 127, "raster")
        there = torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.float64)
        average = torch.nn.functional.avg_pool2d(there, 2, 2, ceil_mode=True)
        found = SumPool2d(Window((2, 2), (2, 2)), ceil=True).compute(x, edge)
        assert np.array_equal(found, (4 * average).numpy().transpose(0, 2, 3, 1))
        most = torch.nn.functional.max_pool2d(there, 3, 2, padding=1)
        found = MaxPool2d(Window((3, 3), (2, 2), (1, 1)), [False] * 2).compute(x, edge)
        assert np.array_equal(found, most.numpy().transpose(0, 2, 3, 1))


def test_sums_are_torchs_convolutions():
    """Weights 2^k·w01 + Ξ on −1, 0 and 1, in float64: what a model in evaluation mode computes."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    for xi, k in ((0, 0), (-1, 1), (-37, 8), (5, 3)):
        ones = rng.random((6, 9, 4)) < 0.3
        window = Window((3, 3), (2, 2), (1, 1))
        made = Sums(
            taps=Taps.from_windows(ones), channels=4, window=window, xi=xi, k=k, border="zero"
        )
        bits = rng.integers(0, 2, (5, 7, 6, 4))
        weights = (ones * 2.0**k + xi).reshape(6, 3, 3, 4).transpose(0, 3, 1, 2)
        wanted = torch.nn.functional.conv2d(
            torch.tensor(2.0 * bits.transpose(0, 3, 1, 2) - 1), torch.tensor(weights), stride=2,
            padding=1,
        )  # fmt: skip
        found = made.compute(bits, Edge((7, 6, 4), scan="raster"))
        assert np.array_equal(found, wanted.numpy().transpose(0, 2, 3, 1))
