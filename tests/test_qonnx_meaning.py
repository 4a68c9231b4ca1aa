"""Operators mean what ONNX and QONNX say: integers wrap, casts round, axes are axes."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")

from onnx import TensorProto, numpy_helper
from onnx_graphs import ONE, Writer

from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx import import_network

RNG = np.random.default_rng(0)


def signs(*shape):
    return RNG.choice([-1.0, 1.0], shape)


def start(shape=(1, 4, 4)):
    return Writer(shape).add("BipolarQuant", ONE, name="pixels").add("Flatten")


def layer(w, weights, name="hidden"):
    return w.add("MatMul", weights, name=name)


def end(w, inputs=6, name="last"):
    return w.add("BipolarQuant", ONE, name="sign").add("MatMul", LAST[:inputs], name=name)


LAST = signs(16, 3)


def digest(folder, writer):
    return import_network(writer.save(folder / "net.onnx", 3)).network.digest


def refused(folder, writer, match):
    with pytest.raises(ModelRejected, match=match):
        import_network(writer.save(folder / "net.onnx", 3))


# Constants


def fixed(op, array, *more, **attributes):
    """Return a network whose first weights are made by a node of constants."""
    w = start()
    tensor = w.tensor
    weights = w.fixed(op, array, *more, **attributes)
    w.tensor = tensor
    return end(layer(w, weights))


@pytest.mark.parametrize("narrow", [0, 1])
def test_one_signed_bit_of_weights_is_a_sign(tmp_path, narrow):
    latent = RNG.normal(0, 1, (16, 6))
    quant = fixed("Quant", latent, ONE, np.array(0.0), ONE, signed=1, narrow=narrow)
    assert digest(tmp_path, quant) == digest(tmp_path, end(layer(start(), np.sign(latent))))


def offset(w, tensor):
    return end(layer(w, np.ones((16, 6))).add("Sub", tensor))


def test_a_cast_of_constants_rounds(tmp_path):
    """4 + 2^−40 is 4 as float32, and a sum of 4 reaches it."""
    w = start()
    tensor = w.tensor
    cast = w.fixed("Cast", w.constant(np.array(4 + 2.0**-40), np.float64), to=1)
    w.tensor = tensor
    assert digest(tmp_path, offset(w, cast)) == digest(tmp_path, offset(start(), np.array(4.0)))


@pytest.mark.parametrize(
    ("op", "numbers", "kind", "match"),
    [
        ("Div", (7, 2), np.int64, r"Node n\d_Div \(Div\) gives 3.5 where ONNX has integers"),
        ("Sub", (3, 5), np.uint8, r"Node n\d_Sub \(Sub\) gives -2, which uint8 does not hold"),
        ("Mul", (100, 2), np.int8, r"Node n\d_Mul \(Mul\) gives 200, which int8 does not hold"),
    ],
)
def test_integer_constants_neither_wrap_nor_truncate(tmp_path, op, numbers, kind, match):
    w = start()
    tensor = w.tensor
    made = w.fixed(op, *(w.constant(np.array(float(n)), kind) for n in numbers))
    cast = w.fixed("Cast", made, to=1)
    w.tensor = tensor
    refused(tmp_path, offset(w, cast), match)


def test_a_scalar_that_is_not_finite_is_named(tmp_path):
    w = start()
    w.constants.append(numpy_helper.from_array(np.array(np.inf, np.float32), "level"))
    refused(tmp_path, offset(w, "level"), "initialiser 'level' is not finite$")


# Images of bytes


@pytest.mark.parametrize("op", ["Sub", "Add", "Mul", "Div"])
def test_bytes_are_cast_before_anything_is_computed(tmp_path, op):
    def network(*order):
        w = Writer((1, 4, 4), kind=TensorProto.UINT8)
        for step in order:
            if step == "Cast":
                w.add("Cast", to=1)
            else:
                w.add(op, w.constant(np.array(128.0), np.uint8), name="first")
        return end(w.add("Flatten"), 16)

    match = rf"Node first \({op}\) computes with integers \(uint8\).* put a Cast to float32 in"
    refused(tmp_path, network(op), match)
    refused(tmp_path, network(op, "Cast"), match)


# The end


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_a_softmax_runs_over_the_classes(tmp_path, op):
    plain = digest(tmp_path, end(start(), 16))
    assert digest(tmp_path, end(start(), 16).add(op)) == plain
    assert digest(tmp_path, end(start(), 16).add(op, axis=-1)) == plain
    refused(tmp_path, end(start(), 16).add(op, axis=0), "must run over the classes, on axis 1")
