"""Networks from elsewhere: every hidden bit is what the graph's own executor says."""

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")
pytest.importorskip("qonnx", reason="needs qonnx's executor (pip install 'sbnn-hw[dev]')")

import onnx
from executor import ModelWrapper, differences, evaluate, feed
from onnx import TensorProto, helper
from onnx_graphs import ONE, Writer, random_graph
from qonnx.core.datatype import DataType
from qonnx.transformation.insert_topk import InsertTopK
from qonnx.transformation.merge_onnx_models import MergeONNXModels
from qonnx.util.cleanup import cleanup_model

from sbnn_hw.errors import ModelRejected
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Encode, MaxPool2d
from sbnn_hw.qonnx import import_network
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.export import save_network
from sbnn_hw.qonnx.weights import recognise


def pixels_for(rng, network, count=300):
    """Return images, many of whose pixels lie at the comparators' thresholds."""
    shape = (count, *network.input.shape)
    pixels = rng.integers(0, 256, shape)
    edges = np.array([0, 255])
    for stage in network.stages:
        if isinstance(stage.operation, Encode):
            near = stage.operation.thresholds.ravel()
            edges = np.unique(np.concatenate([edges, near, near - 1]))
    return np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), pixels).astype(np.uint8)


def check(path, how=None, *, count=300, seed=0):
    """Import a file and compare every hidden bit and the class with the executor's."""
    imported = import_network(path, pixels=how, drop_unread=False)
    pixels = pixels_for(np.random.default_rng(seed), imported.network, count)
    tensors = evaluate(path, feed(pixels, imported.pixels))
    outcome, wrong = differences(imported, tensors, pixels)
    assert not any(wrong.values()), wrong
    scores = list(tensors.values())[-1].reshape(count, -1)
    assert np.array_equal(outcome.classes, scores.argmax(axis=1))
    slim = import_network(path, pixels=how).network
    assert np.array_equal(slim.compute(pixels).scores, outcome.scores)
    return imported


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_say_what_their_executor_says(tmp_path, seed):
    writer, how, classes = random_graph(np.random.default_rng(seed))
    path = writer.save(tmp_path / "net.onnx", classes)
    check(path, how, count=100, seed=seed)


def test_few_random_graphs_are_refused(tmp_path):
    refused = 0
    for seed in range(100, 130):
        writer, how, classes = random_graph(np.random.default_rng(seed))
        try:
            import_network(writer.save(tmp_path / "net.onnx", classes), pixels=how)
        except ModelRejected:
            refused += 1
    assert refused <= 3


# Brevitas


@pytest.fixture(scope="session")
def brevitas():
    pytest.importorskip("brevitas", reason="needs Brevitas (pip install 'sbnn-hw[dev]')")
    import brevitas_models

    return brevitas_models


def brevitas_file(brevitas, folder, model, shape, seed=0):
    return brevitas.export(brevitas.scramble(model, seed), shape, folder / "net.onnx")


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("tfc", 64), ("sfc", 256), pytest.param("lfc", 1024, marks=pytest.mark.long)],
)
def test_finns_mlps_of_brevitas_are_exact(tmp_path, brevitas, name, hidden):
    path = brevitas_file(brevitas, tmp_path, brevitas.pynq(name), (1, 28, 28))
    imported = check(path, count=1000)
    assert imported.pixels == "unit"  # the graph has 2x − 1 in front
    assert set(imported.traces) == {"encode", "linear0", "linear1", "linear2"}
    # ± weights are tapped on the side that has fewer, and q makes up for the other.
    weights = sum(a * b for a, b in pairwise([784, hidden, hidden, hidden, 10]))
    assert imported.network.connections < weights / 2
    assert [(r.xi, r.k) for r in imported.reports[:-1]] == [(-1, 1)] * 3


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_finns_cnv_with_its_input_of_8_bits_is_exact(tmp_path, brevitas):
    path = brevitas_file(brevitas, tmp_path, brevitas.pynq("cnv"), (3, 32, 32))
    imported = check(path, count=1000)
    assert imported.pixels == "unit"
    assert len(imported.traces) == 10


@pytest.mark.parametrize(
    ("width", "options"),
    [
        pytest.param(1 / 16, {}, id="narrow"),
        pytest.param(1 / 16, {"pool_first": True, "padding": 1}, id="padded"),
    ],
)
def test_finns_cnv_of_brevitas_is_exact(tmp_path, brevitas, width, options):
    model = brevitas.cnv(width, **options)
    path = brevitas_file(brevitas, tmp_path, model, (3, 32, 32))
    imported = check(path, count=1000)
    # Pools behind a sign have bits of their own; in front of one they are part of the layer.
    assert len(imported.traces) == (9 if options else 11)
    if options:  # in front of batch norms of both signs
        pools = [s.operation for s in imported.network.stages if isinstance(s.operation, MaxPool2d)]
        assert all(pool.all_of.any() and not pool.all_of.all() for pool in pools)
        assert imported.network.stages[1].operation.border == "zero"


def test_an_input_of_8_bits_is_a_table_of_pixels(tmp_path, brevitas):
    """2p/255 − 1 as a multiple of 1/128: none is 0, and two pixels are 127."""
    model = brevitas.cnv(1 / 16, first=brevitas.eight_bits)
    path = brevitas_file(brevitas, tmp_path, model, (3, 32, 32))
    network = check(path, count=1000).network
    p = np.arange(256)
    assert network.stages[0].operation.table.tolist() == np.minimum(p + (p > 127), 255).tolist()
    save_network(network, tmp_path / "back.onnx")
    assert import_network(tmp_path / "back.onnx").network.digest == network.digest


def as_nodes(model):
    """Make nodes of all initialisers, as old exporters do."""
    tensors = [*model.graph.initializer]
    del model.graph.initializer[:]
    for tensor in reversed(tensors):
        node = helper.make_node("Constant", [], [tensor.name], value=tensor)
        model.graph.node.insert(0, node)


def as_inputs(model):
    """Name all initialisers among the inputs, as exporters for old runtimes do."""
    for tensor in model.graph.initializer:
        value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(value)


def in_domain(name):
    def change(model):
        for node in model.graph.node:
            node.domain = node.domain and name
        model.opset_import[1].domain = name

    return change


def with_idle_nodes(model):
    """Put an Identity and a Dropout in front of each quantiser of activations."""
    for number, node in reversed([*enumerate(model.graph.node)]):
        if node.op_type == "BipolarQuant" and not node.input[0].startswith("features"):
            names = [node.input[0], f"idle{number}", f"dropped{number}"]
            node.input[0] = names[2]
            for op, (before, after) in zip(("Dropout", "Identity"), ((1, 2), (0, 1)), strict=True):
                idle = helper.make_node(op, [names[before]], [names[after]])
                model.graph.node.insert(number, idle)


def cleaned(model):
    model.CopyFrom(cleanup_model(ModelWrapper(model)).model)


def between_bytes_and_class(model):
    """Divide bytes by 255 in front and find the class behind, as FINN's users do."""
    cleaned(model)
    wrapper = ModelWrapper(model).transform(InsertTopK(k=1))
    image = wrapper.graph.input[0].name
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [255.0])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, wrapper.get_tensor_shape(image))
        for name in ("bytes", "unit")
    ]
    node = helper.make_node("Div", ["bytes", "scale"], ["unit"])
    graph = helper.make_graph([node], "front", ends[:1], ends[1:], [scale])
    front = ModelWrapper(helper.make_model(graph, opset_imports=model.opset_import[:1]))
    wrapper = wrapper.transform(MergeONNXModels(front))
    wrapper.set_tensor_datatype(wrapper.graph.input[0].name, DataType["UINT8"])
    model.CopyFrom(wrapper.model)


@pytest.fixture(scope="module")
def small(tmp_path_factory, brevitas):
    """The file of a small network of BNN-PYNQ's, by the exporter that traces."""
    model = brevitas.scramble(brevitas.fc([9, 7], side=4, classes=4), 0)
    folder = tmp_path_factory.mktemp("small")
    return model, brevitas.export(model, (1, 4, 4), folder / "net.onnx", dynamo=False)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(as_nodes, id="constants are nodes"),
        pytest.param(as_inputs, id="constants are inputs"),
        pytest.param(in_domain("onnx.brevitas"), id="onnx.brevitas"),
        pytest.param(in_domain("finn.custom_op.general"), id="finn"),
        pytest.param(with_idle_nodes, id="identity and dropout"),
        pytest.param(cleaned, id="cleanup"),
        pytest.param(between_bytes_and_class, id="bytes and class"),
    ],
)
@pytest.mark.filterwarnings("ignore:Assuming 4D input is NCHW")
def test_what_users_make_of_a_file_is_the_same_network(tmp_path, small, change):
    model = onnx.load(small[1])
    count = len(model.graph.node)
    change(model)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    imported = import_network(tmp_path / "net.onnx")
    assert imported.network.digest == import_network(small[1]).network.digest
    assert imported.pixels == ("raw" if change is between_bytes_and_class else "unit")
    assert change is not with_idle_nodes or len(model.graph.node) == count + 6


@pytest.mark.parametrize("options", [{}, {"dynamo": False, "opset_version": 9}], ids=["new", "old"])
def test_both_exporters_give_the_same_network(tmp_path, brevitas, small, options):
    """The one folds Pow of constants and writes Gemm; the other leaves both to us."""
    path = brevitas.export(small[0], (1, 4, 4), tmp_path / "net.onnx", **options)
    check(path)
    assert import_network(path).network.digest == import_network(small[1]).network.digest


def test_scales_of_each_channel_are_exact(tmp_path, brevitas):
    model = brevitas.mlp([16, 24, 24, 5], quant=brevitas.ChannelWeight)
    check(brevitas_file(brevitas, tmp_path, model, (1, 4, 4)), count=1000)


# Numbers


def one_layer(front, *, shape=(1, 2, 2), classes=2, weights=None):
    """Return a network of comparators and scores."""
    w = Writer(shape)
    front(w)
    w.add("Flatten")
    size = int(np.prod(shape))
    return w.add("MatMul", np.eye(size, classes) if weights is None else weights)


def thresholds_of(imported):
    return imported.network.stages[0].operation.thresholds.tolist()


@pytest.mark.parametrize("pixel", [1, 77, 100, 128, 254])
@pytest.mark.parametrize("how", ["signed", "unit", "raw", "fixed"])
def test_a_pixel_exactly_on_a_threshold_fires(tmp_path, how, pixel):
    level = feed(np.full((1, 1, 1, 1), pixel), how)
    writer = one_layer(
        lambda w: w.add(
            "MultiThreshold", level.reshape(1, 1), out_dtype="BIPOLAR", out_scale=2.0, out_bias=-1.0
        )
    )
    imported = check(writer.save(tmp_path / "net.onnx", 2), how)
    assert thresholds_of(imported) == [[pixel]]


@pytest.mark.parametrize(
    ("front", "how"),
    [
        (lambda w: w.add("BipolarQuant", ONE), "signed"),
        (lambda w: w.add("Mul", np.array(2.0)).add("Sub", ONE).add("BipolarQuant", ONE), "unit"),
        (
            lambda w: (
                w.add("Div", np.array(255.0))
                .add("Mul", np.array(2.0))
                .add("Sub", ONE)
                .add("BipolarQuant", ONE)
            ),
            "raw",
        ),
    ],
)
def test_how_pixels_are_fed_is_seen_from_the_graph(tmp_path, front, how):
    imported = check(one_layer(front).save(tmp_path / "net.onnx", 2))
    assert imported.pixels == how
    assert thresholds_of(imported) == [[128]]


def test_bytes_are_pixels_themselves(tmp_path):
    w = Writer((1, 2, 2), kind=TensorProto.UINT8)
    w.add("Cast", to=1).add("Sub", np.array(99.5)).add("BipolarQuant", ONE).add("Flatten")
    path = w.add("MatMul", np.eye(4, 2)).save(tmp_path / "net.onnx", 2)
    assert thresholds_of(import_network(path)) == [[100]]
    w = one_layer(lambda w: w.add("Sub", np.array(99.5)).add("BipolarQuant", ONE))
    w.annotations["image"] = "UINT8"
    assert thresholds_of(import_network(w.save(tmp_path / "net.onnx", 2))) == [[100]]


def test_maps_with_channels_last_are_read_as_the_graph_transposes_them(tmp_path):
    rng = np.random.default_rng(0)
    last, first = Writer((5, 4, 2)), Writer((2, 5, 4))
    kernel, matrix = rng.choice([-1.0, 1.0], (3, 2, 2, 2)), rng.choice([-1.0, 1.0], (36, 4))
    digests = []
    scaled = Writer((5, 4, 2)).add("Sub", np.array(0.5)).add("Mul", np.array(2.0))
    for w in (last, scaled):
        w.add("Transpose", perm=[0, 3, 1, 2])
    for w in (first, last, scaled):
        w.add("BipolarQuant", ONE).add("Conv", kernel).add("BipolarQuant", ONE).add("Flatten")
        network = import_network(w.add("MatMul", matrix).save(tmp_path / "a.onnx", 4)).network
        assert network.input.shape == (5, 4, 2)
        digests.append(network.digest)
    assert digests[0] == digests[1] == digests[2]


def test_a_shape_may_be_asked_for_in_part(tmp_path):
    """The batch alone, and the last axes of constants, one of them empty."""
    rng = np.random.default_rng(0)
    w = Writer((1, 4, 4)).add("BipolarQuant", ONE)
    image = w.tensor
    batch = w.fixed("Shape", image, start=0, end=1)
    rest = w.fixed("Shape", np.zeros((3, 16)), start=-1)
    nothing = w.fixed("Flatten", np.zeros((0, 2)), axis=1)
    target = w.fixed("Concat", batch, rest, w.fixed("Reshape", nothing, np.array([0])), axis=0)
    w.tensor = image
    path = w.add("Reshape", target).add("MatMul", rng.choice([-1.0, 1.0], (16, 3)))
    assert import_network(path.save(tmp_path / "NET.ONNX", 3)).network.classes == 3
    assert open_network(tmp_path / "NET.ONNX").classes == 3


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, brevitas):
    page = Path(__file__).parents[1] / "docs/qonnx.md"
    (code,) = re.findall(r"```python\n(.*?export_qonnx\(.*?)```", page.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page.name, "exec"), {})
    imported = import_network(tmp_path / "theirs.onnx")
    assert imported.pixels == "signed"
    assert imported.network.input.shape == (28, 28, 1)


def test_padding_zero_and_padding_in_front_of_the_quantiser_differ(tmp_path):
    """Zero is nothing to a sum; in front of the quantiser it becomes +1."""
    rng = np.random.default_rng(3)
    kernel, matrix = rng.choice([-1.0, 1.0], (4, 2, 3, 3)), rng.choice([-1.0, 1.0], (64, 3))
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    fronts = {
        "own": lambda w: w.add("BipolarQuant", ONE).add("Conv", kernel, pads=[1] * 4),
        "zero": lambda w: w.add("BipolarQuant", ONE).add("Pad", pads, np.array(0.0)).add("Conv", kernel),
        "minus": lambda w: w.add("BipolarQuant", ONE).add("Pad", pads, np.array(-1.0)).add("Conv", kernel),
        "before": lambda w: w.add("Pad", pads, np.array(0.0)).add("BipolarQuant", ONE).add("Conv", kernel),
        "plus": lambda w: w.add("BipolarQuant", ONE).add("Pad", pads, np.array(1.0)).add("Conv", kernel),
    }  # fmt: skip
    digests = {}
    for name, front in fronts.items():
        w = Writer((2, 4, 4))
        front(w)
        w.add("BipolarQuant", ONE).add("Flatten").add("MatMul", matrix)
        imported = check(w.save(tmp_path / f"{name}.onnx", 3))
        digests[name] = imported.network.digest
    assert digests["own"] == digests["zero"]
    assert digests["before"] == digests["plus"]
    assert len(set(digests.values())) == 3


def test_dense_weights_take_fewer_operations(tmp_path):
    """A wide layer adds q up once; a layer of one neuron taps everything."""

    def reports(neurons, minus=None):
        rng = np.random.default_rng(1)
        w = Writer((1, 6, 6)).add("BipolarQuant", ONE).add("Flatten")
        weights = rng.choice([-1.0, 1.0], (36, neurons))
        if minus is not None:
            weights = np.where(np.arange(36) < minus, -1.0, 1.0)[:, None].repeat(neurons, 1)
        w.add("MatMul", weights).add("BipolarQuant", ONE)
        w.add("MatMul", np.ones((neurons, 2)) - 2 * np.eye(neurons, 2))
        return check(w.save(tmp_path / "net.onnx", 2)).reports

    assert (reports(32)[0].xi, reports(32)[0].k) == (-1, 1)
    assert reports(1)[0].xi == 0
    # Two neurons: 2·18 taps and 36 inputs for q are as many as 2·36 taps, 2·17 + 36 are fewer.
    assert reports(2, minus=18)[0].xi == 0
    assert reports(2, minus=17)[0].xi == reports(2, minus=19)[0].xi == -1


@pytest.mark.parametrize(("groups", "xi"), [(1, -1), (2, 0)])
def test_every_group_of_dense_weights_needs_a_q_of_its_own(groups, xi):
    """Four neurons of 18 taps: 4·9 taps and a q of 18 are fewer than 4·18, with 2 q they are not."""
    weights = np.where(np.arange(18) < 9, -1, 1)[None].repeat(4, 0)
    found = recognise(Constant.of(weights), scores=False, hint=None, groups=groups)
    assert np.sign(found.xi) == xi


@pytest.mark.parametrize(
    ("values", "xi"),
    [((-0.25, 2.25), Fraction(-1, 10)), ((0.5, 2.5), Fraction(1, 4)), ((0.0, 3.0), Fraction(0))],
)
def test_two_values_get_their_xi(tmp_path, values, xi):
    rng = np.random.default_rng(2)
    ones = rng.random((25, 6)) < 0.2
    w = Writer((1, 5, 5)).add("BipolarQuant", ONE).add("Flatten")
    w.add("MatMul", np.where(ones, values[1], values[0])).add("Add", np.array(0.125))
    w.add("BipolarQuant", ONE).add("MatMul", rng.choice([-1.0, 1.0], (6, 3)))
    report = check(w.save(tmp_path / "net.onnx", 3)).reports[0]
    assert abs(Fraction(report.xi, 2**report.k) - xi) <= Fraction(1, 2 ** (report.k + 1))
    network = import_network(tmp_path / "net.onnx").network
    assert network.stages[2].ones == ones.sum()


def test_where_an_executor_rounds_the_fold_does_not(tmp_path):
    """z = 3 and an offset of −2^−30: floats forget it, and have the bit wrong."""
    w = Writer((1, 2, 2)).add("BipolarQuant", ONE).add("Flatten")
    w.add("MatMul", np.ones((4, 1))).add("Add", np.array(-(2.0**-30))).add("Sub", np.array(2.0))
    w.add("BipolarQuant", ONE).add("MatMul", np.array([[1.0, -1.0]]))
    path = w.save(tmp_path / "net.onnx", 2)
    imported = import_network(path)
    pixels = np.array([255, 255, 255, 0], np.uint8).reshape(1, 2, 2, 1)  # z = 2
    tensors = evaluate(path, feed(pixels, "signed"))
    trace = imported.traces["linear0"]
    bit = imported.network.compute(pixels, keep=["linear0"]).values["linear0"].item()
    exact = Fraction(2) - Fraction(2) ** -30 - 2
    assert exact < 0
    assert bit == 0
    assert tensors[trace.tensor].item() == 1.0  # fl(2 − 2^−30) − 2 = 0, whose sign is +1


def test_a_sign_whose_argument_is_never_zero_is_a_bit(tmp_path):
    rng = np.random.default_rng(5)
    w = Writer((1, 3, 3)).add("Sign").add("Flatten")
    w.add("MatMul", rng.choice([-1.0, 1.0], (9, 5))).add("Sign")  # nine odd numbers are never 0
    w.add("MatMul", rng.choice([-1.0, 1.0], (5, 3)))
    check(w.save(tmp_path / "net.onnx", 3), "signed")


@pytest.mark.parametrize("end", ["argmax", "topk", "softmax", "softmax argmax"])
def test_what_finds_the_class_may_stand_at_the_end(tmp_path, end):
    plain = one_layer(lambda w: w.add("BipolarQuant", ONE))
    want = import_network(plain.save(tmp_path / "a.onnx", 2)).network.digest
    w = one_layer(lambda w: w.add("BipolarQuant", ONE))
    if "softmax" in end:
        w.add("Softmax", axis=1)
    if "argmax" in end:
        w.add("ArgMax", axis=1)
        w.output_kind = TensorProto.INT64
    if end == "topk":
        w.add("TopK", np.array([1]), outputs=2)
    assert import_network(w.save(tmp_path / "b.onnx")).network.digest == want


def test_nodes_in_another_order_are_the_same_network(tmp_path):
    rng = np.random.default_rng(7)
    writer, how, classes = random_graph(np.random.default_rng(8))
    model = writer.model(classes)
    want = import_network(writer.save(tmp_path / "a.onnx", classes), pixels=how).network.digest
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    (tmp_path / "b.onnx").write_bytes(model.SerializeToString())
    assert import_network(tmp_path / "b.onnx", pixels=how).network.digest == want


def test_a_batch_whose_size_is_open_is_one_image(tmp_path):
    model = one_layer(lambda w: w.add("BipolarQuant", ONE)).model(2)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    assert import_network(tmp_path / "net.onnx").network.input.shape == (2, 2, 1)
