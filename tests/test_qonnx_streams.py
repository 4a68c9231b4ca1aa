"""Integer streams as ONNX: what is written comes back, and graphs from elsewhere are exact."""

import contextlib
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")
pytest.importorskip("qonnx", reason="needs qonnx's executor (pip install 'sbnn-hw[dev]')")

import onnx
from executor import differences, evaluate, feed, reference_scores
from onnx_graphs import ONE, Writer
from onnx_streams import random_stream_graph
from random_networks import random_images
from random_residual import random_residual_network

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.stairs import Level, Stairs, find_join, find_scaling, steps_of
from sbnn_hw.fold.surds import Surd
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Affine, Encode, MaxPool2d, SumPool2d, Sums
from sbnn_hw.qonnx import import_network
from sbnn_hw.qonnx.export import save_network
from sbnn_hw.qonnx.quantisers import Levels
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.agreement import check_agreement


def residual(seed):
    """Return a random residual network of 8-bit pixels, and images."""
    rng = np.random.default_rng(seed)
    while (network := random_residual_network(rng)).input.bits != 8:
        pass
    return network, random_images(rng, network, 20)


def scores_of(path, pixels):
    """Return what an executor makes of a file."""
    kind = onnx.load(path).graph.input[0].type.tensor_type.elem_type
    if kind == onnx.TensorProto.DOUBLE:
        return reference_scores(path, feed(pixels, "raw").astype(np.float64))
    return list(evaluate(path, feed(pixels, "raw")).values())[-1]


# What is written


@pytest.mark.parametrize("seed", range(40))
def test_the_way_back_gives_the_same_netlist(tmp_path, seed):
    network, pixels = residual(seed)
    save_network(network, tmp_path / "net.onnx")
    back = open_network(tmp_path / "net.onnx")
    assert back.digest == network.digest
    assert np.array_equal(back.compute(pixels).scores, network.compute(pixels).scores)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40, 300))
def test_many_ways_back_give_the_same_netlist(tmp_path, seed):
    network, _ = residual(seed)
    save_network(network, tmp_path / "net.onnx")
    assert open_network(tmp_path / "net.onnx").digest == network.digest


@pytest.mark.parametrize("name", ["resnet:4,8x1", "xnor_resnet18", "reactnet_a"])
def test_folded_networks_come_back(tmp_path, name):
    """Their neurons, Ξ of many bits, constants that were absorbed and what nothing reads."""
    pytest.importorskip("torch", reason="needs PyTorch (pip install 'sbnn-hw[train]')")
    from test_train_integers import random_model

    from sbnn_hw.train import fold_model

    model, config, _ = random_model(random.Random(f"onnx {name}"), name, stream_bits=8)
    for drop in (False, True):
        network = fold_model(model, config.shape, drop_unread=drop).network
        save_network(network, tmp_path / "net.onnx")
        assert open_network(tmp_path / "net.onnx").digest == network.digest


def test_the_one_form_comes_back_too(tmp_path):
    """Sums that became neurons are written as those."""
    written = 0
    for seed in range(12):
        network, pixels = residual(seed)
        # Neurons that do not count what is not constant cannot be written.
        with contextlib.suppress(ModelRejected):
            save_network(network.canonical, tmp_path / "net.onnx")
            back = open_network(tmp_path / "net.onnx")
            assert np.array_equal(back.compute(pixels).scores, network.compute(pixels).scores)
            written += 1
    assert written > 6


@pytest.mark.parametrize("seed", range(12))
def test_other_tools_compute_the_same_scores(tmp_path, seed):
    network, pixels = residual(seed)
    save_network(network, tmp_path / "net.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"))
    outcome = network.compute(pixels)
    scores = scores_of(tmp_path / "net.onnx", pixels)
    assert np.array_equal(scores, outcome.scores)
    assert np.array_equal(scores.argmax(axis=1), outcome.classes)


def test_multipliers_offsets_and_shifts_are_written_as_integers(tmp_path):
    network, _ = residual(0)
    save_network(network, tmp_path / "net.onnx")
    graph = onnx.load(tmp_path / "net.onnx").graph
    numbers = {x.name: onnx.numpy_helper.to_array(x) for x in graph.initializer}
    stage = next(stage for stage in network.stages if isinstance(stage.operation, Affine))
    affine = stage.operation
    assert np.array_equal(numbers[f"{stage.name}_m0"].ravel(), affine.multipliers[0])
    assert np.array_equal(numbers[f"{stage.name}_b"].ravel(), affine.offsets)
    assert numbers[f"{stage.name}_s"] == 1 << affine.shift + affine.slope_shift


def test_sums_that_doubles_would_round_are_refused(tmp_path):
    network, _ = residual(0)

    def wide(stage):
        affine = stage.operation
        if affine.kind != "affine" or affine.slopes is not None:
            return stage
        return replace(stage, operation=replace(affine, offsets=affine.offsets + (1 << 51)))

    with pytest.raises(ModelRejected, match="too large to be exact in float64: they may reach"):
        save_network(
            replace(network, stages=tuple(map(wide, network.stages))), tmp_path / "net.onnx"
        )


@pytest.mark.parametrize("fault", ["floor", "offset", "slope"])
def test_a_fault_in_the_file_is_seen(tmp_path, fault):
    """Rounding the other way, an offset that is one off, a slope that is left out."""
    network, pixels = next(
        pair
        for pair in map(residual, range(99))
        if any(getattr(stage.operation, "slopes", None) is not None for stage in pair[0].stages)
    )
    save_network(network, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    for node in model.graph.node:
        if fault == "floor" and node.op_type == "Floor":
            node.op_type = "Ceil"
        elif fault == "slope" and node.op_type == "PRelu":
            node.op_type = "Identity"
            del node.input[1]
    for tensor in model.graph.initializer:
        if fault == "offset" and tensor.name.startswith("affine") and tensor.name.endswith("_b"):
            array = onnx.numpy_helper.to_array(tensor) + 1
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, tmp_path / "net.onnx")
    assert not np.array_equal(
        scores_of(tmp_path / "net.onnx", pixels), network.compute(pixels).scores
    )


# What is read


def check(path, how=None, *, count=100, seed=0, close=False):
    """Import a file; compare every value of streams and bits, and the class, with the executor's.

    Where scores are ``close``, an executor's rounding may choose another class.
    """
    imported = import_network(path, pixels=how, drop_unread=False)
    rng = np.random.default_rng(seed)
    shape = (count, *imported.network.input.shape)
    pixels = rng.integers(0, 256, shape)
    pixels = np.where(rng.random(shape) < 0.2, rng.choice([0, 127, 128, 255], shape), pixels)
    pixels = pixels.astype(np.uint8)
    tensors = evaluate(path, feed(pixels, imported.pixels))
    outcome, wrong = differences(imported, tensors, pixels)
    assert not any(wrong.values()), wrong
    scores = list(tensors.values())[-1].reshape(count, -1)
    sure = np.ones(count, bool)
    if close:
        best = np.sort(scores, axis=1)
        sure = best[:, -1] - best[:, -2] > 1e-4 * np.abs(scores).max()
    assert np.array_equal(outcome.classes[sure], scores.argmax(axis=1)[sure])
    slim = import_network(path, pixels=how).network
    assert np.array_equal(slim.compute(pixels).scores, outcome.scores)
    return imported, outcome


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_say_what_their_executor_says(tmp_path, seed):
    writer, how, classes = random_stream_graph(np.random.default_rng(seed))
    check(writer.save(tmp_path / "net.onnx", classes), how, count=40, seed=seed)


@pytest.mark.parametrize("seed", range(100, 130))
def test_scales_may_be_any_floats(tmp_path, seed):
    writer, how, classes = random_stream_graph(np.random.default_rng(seed), exact=False)
    path = writer.save(tmp_path / "net.onnx", classes)
    try:
        import_network(path, pixels=how)
    except ModelRejected as error:  # a layer that reads a scale for each channel
        refused = str(error)
    else:
        check(path, how, count=40, seed=seed, close=True)
        return
    assert "that are not integers of up to 16 bits times one scale" in refused


@pytest.mark.parametrize("fault", ["ties", "clamp", "thresholds"])
def test_a_fault_in_the_import_is_seen(tmp_path, monkeypatch, fault):
    """Ties that are rounded the other way, a clamp that is one off, a comparator that is."""
    if fault == "ties":
        reached = Levels.reached
        monkeypatch.setattr(Levels, "reached", lambda self, level: (reached(self, level)[0], False))
    elif fault == "clamp":
        find = "sbnn_hw.qonnx.rounding.Affine"
        monkeypatch.setattr(find, lambda high, **rest: Affine(high=high - 1, **rest))
    else:
        steps = "sbnn_hw.qonnx.rounding.steps_of"
        monkeypatch.setattr(steps, lambda stairs: (steps_of(stairs)[0] + 1, steps_of(stairs)[1]))
    red = 0
    for seed in range(8):
        writer, how, classes = random_stream_graph(np.random.default_rng(seed))
        try:
            check(writer.save(tmp_path / "net.onnx", classes), how, count=40, seed=seed)
        except (AssertionError, ModelRejected):
            red += 1
    assert red >= 4


# Brevitas


@pytest.fixture(scope="session")
def brevitas():
    pytest.importorskip("brevitas", reason="needs Brevitas (pip install 'sbnn-hw[dev]')")
    import brevitas_models

    return brevitas_models


def brevitas_file(brevitas, folder, model, shape):
    model = brevitas.calibrate(brevitas.scramble(model, 0), shape)
    return brevitas.export(model, shape, folder / "net.onnx")


@pytest.mark.parametrize(("blocks", "quantised"), [(1, False), (2, False), (2, True)])
def test_a_residual_network_of_brevitas_is_exact(tmp_path, brevitas, blocks, quantised):
    """Streams of four bits beside binary convolutions, on 1,000 images."""
    model = brevitas.residual(8, blocks, quantised=quantised)
    path = brevitas_file(brevitas, tmp_path, model, (3, 8, 8))
    imported, outcome = check(path, count=1000, close=True)
    assert imported.pixels == "unit"
    joins = [s for s in imported.network.stages if len(s.sources) == 2]
    assert len(joins) == 2 * blocks
    assert {imported.network.edge_from(s).bits for s in range(len(imported.network.stages))} >= {
        1,
        4,
    }
    assert len(np.unique(outcome.classes)) > 1


def test_a_residual_block_of_brevitas_is_built(tmp_path, brevitas):
    """From the file to Verilog, and its every value simulated."""
    path = brevitas_file(brevitas, tmp_path, brevitas.residual(3, side=4, classes=3), (3, 4, 4))
    network = open_network(path)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 4, 4, 3)).astype(np.uint8)
    tensors = evaluate(path, feed(pixels, "unit"))
    scores = list(tensors.values())[-1]
    assert np.array_equal(network.compute(pixels).classes, scores.argmax(axis=1))
    made = generate(network, Options())
    for stalls in (False, True):
        found = check_agreement(
            network, made.verilog, made.design, pixels, inside=True, stalls=stalls
        )
        assert found.differences == []


@pytest.mark.parametrize(("bits", "weight_bits"), [(2, 4), (2, 2), (4, 8)])
def test_linear_layers_of_several_bits_are_exact(tmp_path, brevitas, bits, weight_bits):
    model = brevitas.several_bits([64, 32, 16, 10], bits=bits, weight_bits=weight_bits)
    path = brevitas_file(brevitas, tmp_path, model, (1, 8, 8))
    imported, outcome = check(path, count=1000, close=True)
    sums = [s.operation for s in imported.network.stages if isinstance(s.operation, Sums)]
    # Two bits are −α, 0 and α: taps, of which those of −α are inverted.
    assert all((x.weights is None) == (weight_bits == 2) for x in sums)
    assert imported.network.stages[-1].operation.weights is not None
    assert len(np.unique(outcome.classes)) > 3


# Which operations graphs become


def stream(bits=4, scale=0.5, **attributes):
    """Return a writer whose last tensor is a stream of maps (2, 4, 4)."""
    rng = np.random.default_rng(3)
    w = Writer((1, 4, 4)).add("BipolarQuant", ONE)
    w.add("Conv", rng.choice([-1.0, 1.0], (2, 1, 3, 3)), pads=[1] * 4)
    levels = (np.array(scale), np.array(0.0), np.array(float(bits)))
    return w.add(
        "Quant", *levels, **{"signed": 1, "narrow": 0, "rounding_mode": "ROUND"} | attributes
    )


def end(w, inputs):
    rng = np.random.default_rng(4)
    return w.add("Flatten").add("MatMul", rng.integers(-3, 4, (inputs, 3)).astype(float))


def kinds(tmp_path, w):
    imported, _ = check(w.save(tmp_path / "net.onnx", 3), "signed")
    return [stage.operation for stage in imported.network.stages]


def test_ties_that_a_floor_cannot_say_are_counted(tmp_path):
    """Averages of four values, rounded to even numbers: comparators whose bits are added up."""
    w = stream().add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    w.add(
        "Quant",
        np.array(0.5),
        np.array(0.0),
        np.array(4.0),
        signed=1,
        narrow=0,
        rounding_mode="ROUND",
    )
    made = kinds(tmp_path, end(w, 8))
    at = next(n for n, x in enumerate(made) if isinstance(x, SumPool2d))
    assert isinstance(made[at + 1], Encode)
    assert made[at + 1].thresholds.shape[1] == 15
    assert isinstance(made[at + 2], Sums)


def test_a_pool_of_integers_keeps_the_largest(tmp_path):
    turned = stream().add("Mul", np.array([1.0, -2.0]).reshape(1, 2, 1, 1))
    for w in (stream(), turned):
        w.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        assert any(isinstance(x, MaxPool2d) for x in kinds(tmp_path, end(w, 8)))


def test_a_relu_is_a_clamp(tmp_path):
    """Relu and an unsigned quantiser are the same as the quantiser alone."""
    digests = set()
    for relu in (True, False):
        w = Writer((1, 4, 4)).add("BipolarQuant", ONE)
        w.add("Conv", np.random.default_rng(3).choice([-1.0, 1.0], (2, 1, 3, 3)), pads=[1] * 4)
        if relu:
            w.add("Relu")
        w.add(
            "Quant",
            np.array(0.3),
            np.array(0.0),
            np.array(2.0),
            signed=0,
            narrow=0,
            rounding_mode="ROUND",
        )
        path = end(w, 32).save(tmp_path / "net.onnx", 3)
        check(path, "signed", close=True)
        digests.add(import_network(path, pixels="signed").network.digest)
    assert len(digests) == 1


def test_two_layers_without_a_quantiser_between_are_sums_of_sums(tmp_path):
    w = stream().add("Conv", np.random.default_rng(0).choice([-1.0, 2.0, 3.0], (2, 2, 3, 3)))
    w.add("Conv", np.random.default_rng(0).choice([-1.0, 0.0, 1.0], (3, 2, 1, 1)))
    assert sum(isinstance(x, Sums) for x in kinds(tmp_path, end(w, 12))) == 3


# Stairs, against fractions


def stairs(rng, sources):
    """Return the stairs of a random quantiser, ties among them, and what it makes of values."""
    root = Fraction(int(rng.choice([2, 3, 4, 5, 12])))
    plain = rng.random() < 0.5
    unit = Surd(1) if plain else Surd.root(root).inverse()
    factors = [Fraction(int(rng.integers(-9, 10)), 8) for _ in range(sources)]
    offset = Fraction(int(rng.integers(-9, 10)), 8)
    levels = [Level(Surd(n + Fraction(1, 2)), bool(n % 2 == 0)) for n in range(-4, 3)]
    ranges = tuple((-int(rng.integers(0, 20)), int(rng.integers(0, 20))) for _ in range(sources))
    found = Stairs(tuple(unit * f for f in factors), unit * offset, tuple(levels), ranges)
    values = np.stack([x.ravel() for x in np.meshgrid(*(np.arange(a, b + 1) for a, b in ranges))])
    want = []
    for row in values.T:
        z = offset + sum(f * int(x) for f, x in zip(factors, row, strict=True))
        # Compare z·unit with n + 1/2 by squares.
        square = z * abs(z) / (1 if plain else root)
        marks = [Fraction(2 * n + 1, 2) for n in range(-4, 3)]
        want.append(
            sum(
                square > m * abs(m) or (square == m * abs(m) and not x.strict)
                for m, x in zip(marks, levels, strict=True)
            )
        )
    return found, values, np.array(want)


@pytest.mark.parametrize("seed", range(200))
def test_stairs_are_those_of_fractions(seed):
    rng = np.random.default_rng(seed)
    found, values, want = stairs(rng, sources=int(rng.integers(1, 3)))
    scaling = find_scaling([found], -4)
    if scaling is not None:
        sums = (scaling.multipliers.T @ values)[0] + scaling.offsets[0]
        assert np.array_equal(np.clip(sums >> scaling.shift, -4, 3) + 4, want)
    joined = find_join(found)
    assert joined is not None or len(found.ranges) == 2
    if joined is not None:
        sums = np.array(joined[0]) @ values
        assert np.array_equal((sums >= joined[1][:, None]).sum(axis=0), want)
    if len(found.ranges) == 1:
        steps, falls = steps_of(found)
        reached = values[0] < steps[:, None] if falls else values[0] >= steps[:, None]
        assert np.array_equal(reached.sum(axis=0), want)


def test_most_stairs_without_ties_have_a_scaling():
    found = [stairs(np.random.default_rng(seed), sources=2)[0] for seed in range(200)]
    rooted = [x for x in found if any(f.rational is None for f in x.factors)]
    assert sum(find_scaling([x], -4) is not None for x in rooted) > 0.9 * len(rooted)


def test_surds_that_are_equal_are_zero_apart():
    root = Surd.root
    assert not root(Fraction(8)) - root(Fraction(2)) * 2
    assert (root(Fraction(2)) * root(Fraction(3)) - root(Fraction(6))).sign() == 0
    assert (root(Fraction(3, 7)).inverse() * root(Fraction(3, 7))).rational == 1
    # √2 + √3 − √(5 + 2√6) would be zero; its rational neighbours are not.
    near = Fraction(31462643699419723423, 10**19)
    assert (root(Fraction(2)) + root(Fraction(3)) - near).sign() == 1
    assert (root(Fraction(2)) + root(Fraction(3)) - near - Fraction(1, 10**18)).sign() == -1
