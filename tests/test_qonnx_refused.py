"""What cannot be mapped is refused in one sentence, in bounded memory, from one file alone."""

import contextlib
import re
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import ONE, Writer

from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.qonnx import import_network
from sbnn_hw.qonnx import read as reading

RNG = np.random.default_rng(0)


def signs(*shape):
    return RNG.choice([-1.0, 1.0], shape)


def start(shape=(1, 4, 4)):
    return Writer(shape).add("BipolarQuant", ONE, name="pixels")


def hidden(w=None, neurons=6, name="hidden"):
    w = w or start().add("Flatten")
    return w.add("MatMul", signs(16, neurons), name=name)


def end(w, inputs=6):
    return w.add("BipolarQuant", ONE, name="sign").add("MatMul", signs(inputs, 3), name="last")


def whole():
    return end(hidden())


def model_bytes(change=lambda model: None, writer=None):
    model = (writer or whole()).model(3)
    change(model)
    return model.SerializeToString()


def cycle(model):
    model.graph.node[2].input[0] = model.graph.node[3].output[0]


def missing(model):
    del model.graph.initializer[1]


def half(model):
    tensor = model.graph.initializer[1]
    array = numpy_helper.to_array(tensor).astype(np.float16)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def half_input(model):
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def dynamic(model):
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"


def old(model):
    model.opset_import[0].version = 7


def new(model):
    model.opset_import[0].version = 99


def external(model):
    tensor = model.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret.bin")


def quietly_external(model):
    """Name another file, but say nothing of where the data lie."""
    model.graph.initializer[1].external_data.add(key="location", value="/etc/passwd")


def short_tensor(model):
    tensor = model.graph.initializer[1]
    tensor.raw_data = tensor.raw_data[:-4]


def huge_tensor(model):
    tensor = model.graph.initializer[1]
    del tensor.dims[:]
    tensor.dims.extend([1 << 30, 1 << 30])


def endless(model):
    tensor = model.graph.initializer[1]
    array = numpy_helper.to_array(tensor).copy()
    array[2, 3] = np.inf
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def twice(model):
    model.graph.initializer.add().CopyFrom(model.graph.initializer[1])


def same_output(model):
    model.graph.node[3].output[0] = model.graph.node[2].output[0]


def two_inputs(model):
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info("mask", 1, [1, 4]))


def no_output(model):
    del model.graph.output[:]


def unmade_output(model):
    model.graph.output[0].name = "nowhere"


def no_opset(model):
    del model.opset_import[:]


def stranger(model):
    model.graph.node[2].domain = "com.example"


def giant_image(model):
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1 << 30


def with_function(model):
    model.functions.add(name="Mine", domain="mine")


def levels(bits, scale=1.0):
    """Return scale, zero point and bit width of a `Quant`."""
    return np.array(scale), np.array(0.0), np.array(float(bits))


def stream(w=None):
    """Return a writer whose last tensor is a stream of six 4-bit integers."""
    return hidden(w).add("Quant", *levels(4), name="stream", signed=1)


def joined(*others, name="join", op="Add", **attributes):
    """Return a network that joins a stream with another tensor."""
    w = stream()
    one = w.tensor
    for op_of_other, more in others:
        w.add(op_of_other, *more)
    return w.add(op, one, name=name, **attributes)


def real_map():
    """Return a convolution of a stream by real weights."""
    w = start().add("Conv", signs(2, 1, 3, 3), pads=[1] * 4)
    w.add("Quant", *levels(4), signed=1).add("Conv", RNG.normal(0, 1, (2, 2, 3, 3)), name="real")
    return w.add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(8, 3))


def around_a_map(value):
    w = start().add("Conv", signs(2, 1, 3, 3), pads=[1] * 4)
    w.add("Quant", *levels(4, 0.5), signed=1)
    w.add("Pad", np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.array(value), mode="constant")
    w.add("Conv", signs(2, 2, 3, 3), name="conv")
    return w.add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(32, 3))


def averaged(**attributes):
    w = start().add("Conv", signs(2, 1, 3, 3), pads=[1] * 4).add("Quant", *levels(4), signed=1)
    w.add("AveragePool", name="average", **attributes)
    return w.add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(8, 3))


def over_a_root(w):
    return end(w.add("Div", w.fixed("Sqrt", np.array(-1.0))))


def packed(model):
    """Add 17 MB of integers that parsing makes larger."""
    model.graph.initializer.add(name="x", data_type=3, dims=[17 << 20]).int32_data.extend(
        np.zeros(17 << 20, np.int32)
    )


def escapes(model):
    missing(model)
    model.graph.node[2].name = "hid\x1b[31mden"


def long_name(model):
    missing(model)
    model.graph.node[2].name = "x" * 500


def second_output(model):
    """Read the mask of a `Dropout` whose first output is left out."""
    model.graph.node[3].input[0] = "mask"
    made = model.graph.node[2].output[0]
    model.graph.node.append(helper.make_node("Dropout", [made], ["", "mask"], name="drop"))


MALFORMED = {
    "junk": (b"\xa5\x5a" * 50, "it is not ONNX: byte 0 does not begin a part of a model"),
    "text": (b"a network, honestly", "it is not ONNX: byte 0 does not begin a part of a model"),
    "empty": (b"", "it holds no graph in its 0 bytes; is it an ONNX file?"),
    "truncated": (model_bytes()[:-40], r"it is cut short: the part that begins at byte [\d,]+ ends at"),
    "truncated early": (model_bytes()[:9], r"it is cut short"),
    "no text": (
        model_bytes().replace(b"BipolarQuant", b"\xff" * 12),
        r"the operator of node pixels is not text",
    ),
    "damaged inside": (
        model_bytes().replace(b"\x1a\x06hidden", b"\x1a\x78hidden"),
        r"it is cut short: the part that begins at byte [\d,]+ ends at .* of a part of the graph",
    ),
    "no such field": (
        model_bytes().replace(b"\x1a\x06hidden", b"\x02\x06hidden"),
        r"its [\d,]+ bytes are not an ONNX model, though they begin like one",
    ),
    "many parts": (b"\x42\x00" * 5000, "it is not ONNX: it has more than 4,096 parts, up to byte 8,192"),
    "two graphs": (
        b"\x3a\x02\x52\x00" + model_bytes(), r"it holds 2 graphs in its [\d,]+ bytes; is it an ONNX file",
    ),
    "parts of a node": (b"\x3a\x84\x80\x40\x0a\x80\x80\x40" + b"\x0a\x00" * (1 << 19), "it has more than 131,072 parts"),
    "packed integers": (
        model_bytes(packed), "tensors hold more than 16,777,216 bytes of packed integers; store them as raw",
    ),
    "escapes": (model_bytes(escapes), "Node hid\N{REPLACEMENT CHARACTER}\\[31mden .MatMul. reads"),
    "long name": (model_bytes(long_name), r"Node x{80}… \(MatMul\) reads"),
    "indices alone": (model_bytes(second_output), r"Node sign \(BipolarQuant\) reads 'mask', a second output"),
    "cycle": (model_bytes(cycle), r"Node hidden \(MatMul\) is part of a cycle"),
    "missing initialiser": (
        model_bytes(missing), r"Node hidden \(MatMul\) reads 'c1', which nothing makes: an init",
    ),
    "float16": (model_bytes(half), "initialiser 'c1' has float16 numbers; use float32"),
    "float16 input": (model_bytes(half_input), "input 'image' has float16 numbers; images must"),
    "dynamic": (model_bytes(dynamic), "input 'image' has a size that is not fixed, 'height' on axis 2"),
    "old": (model_bytes(old), "it uses operator set 7 of ONNX; 9 to 26 are supported"),
    "new": (model_bytes(new), "it uses operator set 99 of ONNX; 9 to 26 are supported"),
    "no opset": (model_bytes(no_opset), "it does not say which operator set it uses"),
    "external": (model_bytes(external), r"initialiser 'c1' is stored in another file, '../../secret.bin'"),
    "quietly external": (model_bytes(quietly_external), "'c1' is stored in another file, '/etc/passwd'"),
    "short tensor": (model_bytes(short_tensor), "'c1' of shape .16, 6. needs 384 bytes, but has 380"),
    "huge tensor": (model_bytes(huge_tensor), "needs 4,611,686,018,427,387,904 bytes, but has 384"),
    "infinite": (model_bytes(endless), r"initialiser 'c1' is not finite at \(2, 3\)"),
    "same initialiser": (model_bytes(twice), "initialiser 'c1' is defined twice"),
    "same output": (model_bytes(same_output), r"Node sign \(BipolarQuant\) makes .* already exists"),
    "two inputs": (model_bytes(two_inputs), "one input, the image, not 'image', 'mask'"),
    "no output": (model_bytes(no_output), "the graph has no output"),
    "unmade output": (model_bytes(unmade_output), "Output 'nowhere' is not made by any node"),
    "stranger": (model_bytes(stranger), r"Node hidden \(MatMul\) comes from 'com.example'"),
    "giant image": (model_bytes(giant_image), "images of more than 4 million values"),
    "function": (model_bytes(with_function), "function 'Mine' is defined in the file; inline it"),
}  # fmt: skip


def flat_constant():
    w = hidden()
    return end(w.add("Add", w.fixed("Flatten", np.ones((1, 6)), axis=7)))


def indices():
    w = start((2, 4, 4)).add("Conv", signs(4, 2, 1, 1))
    made, names = w.tensor, ["", "indices"]
    w.nodes.append(
        helper.make_node("MaxPool", [made], names, name="pool", kernel_shape=[2, 2], strides=[2, 2])
    )
    w.tensor = "indices"
    return w.add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(36, 3))


def graph(make):
    return model_bytes(writer=make)


UNSUPPORTED = {
    "real weights": (
        graph(end(start().add("Flatten").add("MatMul", RNG.normal(0, 1, (16, 6)), name="hidden"))),
        r"Node hidden \(MatMul\) has weights in neuron 0 that are not integers of up to 16 bits times one scale",
    ),
    "real convolution of a stream": (
        graph(real_map()), r"Node real \(Conv\) has weights in neuron 0 that are not integers of up to 16 bits",
    ),
    "scales by channel in front of a layer": (
        graph(hidden().add(
            "Quant", RNG.uniform(0.1, 1, (1, 6)), np.array(0.0), np.array(4.0), name="acts", signed=1
        ).add("MatMul", signs(6, 3), name="last")),
        r"Node last \(MatMul\) has weights in neuron 0 that are not integers .* with one scale per neuron",
    ),
    "9-bit activations": (
        graph(end(hidden().add("Quant", *levels(9), name="acts", signed=1))),
        r"Node acts \(Quant\) gives activations of 512 levels; up to 256 \(8 bits\) can be mapped",
    ),
    "256 thresholds": (
        graph(end(hidden().add("MultiThreshold", np.arange(256.0)[None], name="acts", out_dtype="UINT9"))),
        r"Node acts \(MultiThreshold\) gives activations of 257 levels; up to 256",
    ),
    "sigmoid": (
        graph(end(hidden().add("Sigmoid", name="curve"))),
        r"Node curve \(Sigmoid\) cannot be mapped; supported are BipolarQuant, Quant, MultiThreshold",
    ),
    "join of two shapes": (
        graph(end(joined(("MatMul", (signs(6, 3),)), ("Quant", levels(4))))),
        r"Node join \(Add\) joins tensors of two shapes, \(3,\) and \(6,\) an image",
    ),
    "product of two tensors": (
        graph(end(joined(("Mul", (np.array(2.0),)), op="Mul"))),
        r"Node join \(Mul\) joins two tensors that depend on the image; only Add, Sub, Sum, Concat may do so",
    ),
    "join of what no quantiser rounded": (
        graph(end(joined(("Relu", ())))),
        r"Node join \(Add\) joins a tensor that was clipped or bent and not quantised; quantise it",
    ),
    "concatenated images": (
        graph(end(joined(("Mul", (np.array(2.0),)), op="Concat", axis=0))),
        r"Node join \(Concat\) must join channels, on axis 1",
    ),
    "padding that is no value of a stream": (
        graph(around_a_map(0.25)),
        r"Node conv \(Conv\) pads channel 0 with 0.25, which is none of the values that the channel can have",
    ),
    "padded average": (
        graph(averaged(kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4)),
        r"Node average \(AveragePool\) pads what it averages, which cannot be mapped",
    ),
    "average of a part of a window": (
        graph(averaged(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)),
        r"Node average \(AveragePool\) rounds its size up \(ceil_mode\) and averages 2 of 3 values at the border",
    ),
    "negative slope": (
        graph(end(hidden().add("LeakyRelu", alpha=-0.5).add("Quant", *levels(4), name="acts", signed=1))),
        r"Node acts \(Quant\) has a slope below zero, which turns the order of values round",
    ),
    "batch norm without a quantiser": (
        graph(hidden().add("BatchNormalization", *[np.ones(6)] * 4).add("MatMul", signs(6, 3), name="next")),
        r"Node next \(MatMul\) reads a batch norm that no quantiser has rounded, and whose roots are no fractions",
    ),
    "clip without a quantiser": (
        graph(hidden().add("Clip", np.array(-1.0), np.array(1.0)).add("MatMul", signs(6, 3), name="next")),
        r"Node next \(MatMul\) reads values that no quantiser has rounded; quantise them before it",
    ),
    "stream as scores": (
        graph(stream()), r"Node stream \(Quant\) is the last and not a linear layer, whose largest output",
    ),
    "no scores": (graph(hidden().add("BipolarQuant", ONE, name="sign")), "Node sign is the last and does not give scores"),
    "sign of zero": (
        graph(hidden().add("Sign", name="sign").add("MatMul", signs(6, 3))),
        r"Node sign \(Sign\) closes layer hidden: neuron \d+ can be exactly zero, and Sign makes 0 of it",
    ),
    "per-class scales": (
        graph(whole().add("Mul", np.array([[1.0, 2.0, 3.0]]), name="scale")),
        r"Node scale \(Mul\) gives the scores of last a different scale for each class",
    ),
    "two batch norms": (
        graph(end(hidden()
            .add("BatchNormalization", *[np.ones(6)] * 4, name="one")
            .add("BatchNormalization", *[np.ones(6)] * 4, name="two"))),
        r"Node two \(BatchNormalization\) is a second batch norm after one layer",
    ),
    "training": (
        graph(end(hidden().add("BatchNormalization", *[np.ones(6)] * 4, name="norm", training_mode=1))),
        r"Node norm \(BatchNormalization\) must have four constants, and not be in training mode",
    ),
    "dilation": (
        graph(start().add("Conv", signs(2, 1, 2, 2), name="conv", dilations=[2, 2])
              .add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(8, 3))),
        r"Node conv \(Conv\) has a dilation, which cannot be mapped",
    ),
    "uneven pads": (
        graph(start().add("Conv", signs(2, 1, 2, 2), name="conv", pads=[1, 1, 0, 0])
              .add("BipolarQuant", ONE).add("Flatten").add("MatMul", signs(32, 3))),
        r"Node conv \(Conv\) has pads \(1, 1, 0, 0\); both sides must have the same",
    ),
    "unknown feeding": (
        graph(end(Writer((1, 4, 4)).add("Mul", np.array(3.0)).add("BipolarQuant", ONE, name="pixels")
                  .add("Flatten"), 16)),
        r"Node pixels \(BipolarQuant\) reads pixels p that the graph does not scale to −1…1.*--pixels",
    ),
    "too many levels": (
        graph(end(Writer((1, 4, 4)).add(
            "Quant", np.array([2.0**-15]), np.array(0.0), np.array(16.0), name="many", signed=1
        ).add("Flatten").add("MatMul", signs(16, 6)))),
        r"Node many \(Quant\) rounds pixels to 65,536 levels; 3 to 256 can be mapped",
    ),
    "levels by channel": (
        graph(end(Writer((2, 2, 4)).add(
            "Quant", np.array([0.5, 0.125]).reshape(1, 2, 1, 1), np.array(0.0), np.array(8.0), name="two",
            signed=1,
        ).add("Flatten").add("MatMul", signs(16, 6)))),
        r"Node two \(Quant\) rounds pixels differently from channel to channel; use one scale",
    ),
    "root of a negative number": (
        graph(over_a_root(hidden())), r"Node n\d+_Sqrt \(Sqrt\) takes the root of a negative number",
    ),
    "wrong width": (graph(hidden().add("MatMul", signs(9, 3), name="bad")), r"Node bad \(MatMul\)"),
    "moves the batch": (
        graph(end(start().add("Transpose", perm=[1, 0, 2, 3], name="turn").add("Flatten"), 16)),
        r"Node turn \(Transpose\) moves the batch",
    ),
    "division by zero": (
        graph(end(hidden().add("Div", np.array(0.0), name="over"))), r"Node over \(Div\) divides by zero",
    ),
    "last of equals": (
        graph(whole().add("ArgMax", axis=1, select_last_index=1, name="best")),
        r"Node best \(ArgMax\) takes the last of equal scores",
    ),
    "top two": (
        graph(whole().add("TopK", np.array([2]), outputs=2, name="best")),
        r"Node best \(TopK\) must take only the largest score",
    ),
    "flattened constants": (
        graph(flat_constant()), r"Node \w+ \(Flatten\) must flatten at one of its 2 axes",
    ),
    "pool of indices": (
        graph(indices()), r"Node pool \(MaxPool\) gives indices, which cannot be mapped",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [pytest.param(*case, id=name) for name, case in (MALFORMED | UNSUPPORTED).items()],
)
def test_is_refused_in_one_sentence(tmp_path, capsys, content, message):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelRejected) as refused:
        import_network(path)
    text = str(refused.value)
    assert text.startswith(f"{path}: ")
    assert re.search(message, text), text
    assert "\n" not in text
    assert main(["info", "--model", str(path)]) == 1
    assert capsys.readouterr().err == f"E: {text}\n"


def test_the_same_graph_unharmed_is_taken(tmp_path):
    (tmp_path / "net.onnx").write_bytes(model_bytes())
    assert import_network(tmp_path / "net.onnx").network.classes == 3


def test_every_node_of_the_sentence_is_supported():
    from sbnn_hw.qonnx.nodes import MEANINGS, SUPPORTED
    from sbnn_hw.qonnx.stream_nodes import JOINS

    assert set(re.findall(r"\w+", SUPPORTED)) == {*MEANINGS, *JOINS} - {"LogSoftmax"}


@pytest.mark.parametrize("junk", [b"\x00", b"\x42", b"\xff"])
def test_junk_of_100_megabytes_is_not_even_read(tmp_path, junk):
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(junk * (1 << 20))
    tracemalloc.start()
    with pytest.raises(ModelRejected, match=r"it is (not ONNX: |cut short)"):
        import_network(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        file.truncate(reading.LARGEST + 1)  # takes no room on the disk
    with pytest.raises(
        ModelRejected, match=r"it has 268,435,457 bytes, more than the limit of 268,435,456"
    ):
        import_network(path)


def field(number, content):
    """Return a field with a length, as protobuf writes it."""
    head = b""
    for value in (number << 3 | 2, len(content)):
        while value > 127:
            head, value = head + bytes([value & 127 | 128]), value >> 7
        head += bytes([value])
    return head + content


#: Parts of two bytes, 8 MB of them, in all places of a model where they become objects.
PARTS = b"\x0a\x00" * (4 << 20)
MANY = {
    "nodes": field(7, PARTS),
    "tensors": field(7, b"\x2a\x00" * (4 << 20)),
    "inputs of a node": field(7, field(1, PARTS)),
    "attributes of a node": field(7, field(1, b"\x2a\x00" * (4 << 20))),
    "integers of an attribute": field(7, field(1, field(5, b"\x40\x00" * (4 << 20)))),
    "packed integers of an attribute": field(7, field(1, field(5, field(8, bytes(8 << 20))))),
    "functions": field(25, field(7, PARTS)),
    "graphs": field(7, PARTS) + field(7, b""),
}
MEMORY = """
import pathlib, re, sys
from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx import import_network
status = pathlib.Path("/proc/self/status")  # what getrusage tells is inherited
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1]) >> 10
small, *paths = map(pathlib.Path, sys.argv[1:])
import_network(small)
for path in paths:
    before = peak()
    try:
        import_network(path)
        print("taken", peak() - before)
    except ModelRejected as error:
        print("parts" in str(error), peak() - before)
"""


def test_junk_in_the_shape_of_a_model_takes_bounded_memory(tmp_path):
    """Millions of parts are refused before they are objects; unread numbers stay bytes."""
    junk = dict(MANY)
    unread = field(
        5, b"\x08" + b"\x80\x80\x80\x08" + b"\x10\x03" + field(8, b"x") + field(9, bytes(16 << 20))
    )
    model = onnx.ModelProto.FromString(model_bytes())
    whole_graph = model.graph.SerializeToString()
    model.ClearField("graph")
    junk["numbers"] = model.SerializeToString() + field(7, whole_graph + unread)
    paths = [tmp_path / "small.onnx", *(tmp_path / f"{name}.onnx" for name in junk)]
    for path, content in zip(paths, (model_bytes(), *junk.values()), strict=True):
        path.write_bytes(content)
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, *map(str, paths)], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [word for word, _ in lines] == ["True"] * len(MANY) + ["taken"]
    # In MB; each file has 8, or 16 that are read once and parsed once.
    assert all(int(more) < 40 for _, more in lines), lines


def test_a_long_chain_is_walked_once(tmp_path):
    """Twice as many nodes take twice as long, not four times."""
    w = whole()
    for _ in range(16000):
        w.add("Identity")
    start_time = time.process_time()
    assert import_network(w.save(tmp_path / "net.onnx", 3)).network.classes == 3
    assert time.process_time() - start_time < 5


WRONG_TYPES = {
    "Conv": ("group", "strides", "pads", "auto_pad", "kernel_shape", "dilations"),
    "BatchNormalization": ("epsilon",),
    "Gemm": ("alpha", "beta", "transB"),
    "MultiThreshold": ("out_scale", "out_bias", "data_layout"),
    "Quant": ("rounding_mode",),
    "MaxPool": ("kernel_shape", "strides"),
    "Transpose": ("perm",),
    "Flatten": ("axis",),
    "Squeeze": ("axes",),
    "Pad": ("pads", "value"),
    "Gather": ("axis",),
}


def with_every_attribute():
    """Return a network with all the operators above, each in its place."""
    w = start((2, 6, 6)).add("Gather", np.array([1, 0]), axis=1)
    w.add("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0)
    w.add("Conv", signs(2, 2, 3, 3)).add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    w.add("BatchNormalization", *[np.ones(2)] * 4)
    w.add("MultiThreshold", np.zeros((2, 1)), out_scale=2.0, out_bias=-1.0)
    w.add("Transpose", perm=[0, 2, 3, 1]).add("Flatten", axis=1)
    w.add("Gemm", signs(18, 6), np.zeros(6))
    w.add("Quant", ONE, np.array(0.0), ONE, rounding_mode="ROUND", signed=0)
    w.add("Reshape", np.array([1, 1, 6])).add("Squeeze", axes=[1])
    return w.add("MatMul", signs(6, 3))


def test_an_attribute_of_the_wrong_type_is_a_sentence(tmp_path):
    path = with_every_attribute().save(tmp_path / "net.onnx", 3)
    import_network(path)
    model = onnx.load(path)
    for op, keys in WRONG_TYPES.items():
        for key in keys:
            # Some of these are right, or stand for a number; a list of texts never does.
            for value in (7, 0.5, "x", [1.5, 2.5], ["a"]):
                changed = onnx.ModelProto.FromString(model.SerializeToString())
                node = next(node for node in changed.graph.node if node.op_type == op)
                kept = [item for item in node.attribute if item.name != key]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute(key, value)])
                path.write_bytes(changed.SerializeToString())
                with contextlib.suppress(ModelRejected):
                    import_network(path)
            with pytest.raises(
                ModelRejected, match=f"has an attribute {key!r} that is not (a|text)"
            ):
                import_network(path)


OPENED = []
WATCHING = [False]


def _watch(event, arguments):
    if WATCHING[0] and event == "open":
        OPENED.append(str(arguments[0]))


def test_no_file_but_the_given_one_is_opened(tmp_path):
    """Whatever a graph names: nothing beside it is read, and nothing is written."""
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\0" * 384)
    path = tmp_path / "a" / "b" / "net.onnx"
    path.parent.mkdir(parents=True)
    sys.addaudithook(_watch)
    import_network_once = tmp_path / "plain.onnx"
    import_network_once.write_bytes(model_bytes())
    import_network(import_network_once)  # whatever Python has to load is loaded now
    for content in (model_bytes(), model_bytes(external), model_bytes(quietly_external)):
        path.write_bytes(content)
        OPENED.clear()
        WATCHING[0] = True
        try:
            import_network(path)
        except ModelRejected:
            pass
        finally:
            WATCHING[0] = False
        assert set(OPENED) == {str(path)}


def test_names_and_choices_that_are_wrong(tmp_path, capsys):
    with pytest.raises(ModelRejected, match=r"^No ONNX file at nope\.onnx$"):
        import_network(tmp_path.__class__("nope.onnx"))
    (tmp_path / "net.onnx").write_bytes(model_bytes())
    with pytest.raises(
        UsageError, match=r"^Pixels must be one of signed, unit, raw, fixed, not 'x'$"
    ):
        import_network(tmp_path / "net.onnx", pixels="x")
    assert main(["info", "--model", "a.sbnn", "--pixels", "unit"]) == 2
    assert "Only ONNX files (.onnx) need --pixels" in capsys.readouterr().err


def test_a_hint_that_is_no_hint_is_none(tmp_path):
    want = import_with(tmp_path, {})
    for hint in ("[]", "{", '{"hidden": 3}', '{"hidden": [1, 99]}', '{"hidden": ["a", "b"]}'):
        assert import_with(tmp_path, {"sbnn_hw.layers": hint}) == want
    with pytest.raises(
        ModelRejected, match=r"its metadata say that pixels are fed as 'hot', not one of signed"
    ):
        import_with(tmp_path, {"sbnn_hw.pixels": "hot"})


def test_a_wrong_hint_changes_no_decision(tmp_path):
    """Ξ and k of the file are where the search begins, and nothing is believed."""
    pixels = RNG.integers(0, 256, (500, 4, 4, 1)).astype(np.uint8)
    outcomes = []
    for hint in (
        "{}",
        '{"hidden": [-3, 5]}',
        '{"hidden": [-1, 1], "last": [0, 7]}',
        '{"hidden": [0, 0]}',
    ):
        import_with(tmp_path, {"sbnn_hw.layers": hint})
        outcomes.append(import_network(tmp_path / "net.onnx").network.compute(pixels).classes)
    assert all(np.array_equal(outcomes[0], other) for other in outcomes)


FIXED = model_bytes()


def import_with(folder, metadata):
    model = onnx.ModelProto.FromString(FIXED)
    helper.set_model_props(model, metadata)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return import_network(folder / "net.onnx").network.digest
