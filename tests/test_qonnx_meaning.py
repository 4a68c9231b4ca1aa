"""Operators mean what ONNX and QONNX say: integers wrap, casts round, axes are axes."""

import time
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")

from onnx import TensorProto, numpy_helper
from onnx_graphs import ONE, Writer

from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.qonnx import import_network
from sbnn_hw.qonnx.constants import Constant
from sbnn_hw.qonnx.graph import Node
from sbnn_hw.qonnx.quantisers import levels_of, quantise_constant

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
        (
            "Div",
            (7, 2),
            np.int64,
            r"Node n\d_Div \(Div\) gives 3.5, but ONNX computes with integers",
        ),
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

    match = rf"Node first \({op}\) computes with integers \(uint8\).* insert a Cast to float32"
    refused(tmp_path, network(op), match)
    refused(tmp_path, network(op, "Cast"), match)


# The end


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_a_softmax_runs_over_the_classes(tmp_path, op):
    plain = digest(tmp_path, end(start(), 16))
    assert digest(tmp_path, end(start(), 16).add(op)) == plain
    assert digest(tmp_path, end(start(), 16).add(op, axis=-1)) == plain
    refused(tmp_path, end(start(), 16).add(op, axis=0), "must run over the classes, on axis 1")


# Weights


def test_signs_and_thresholds_of_constants_are_computed(tmp_path):
    latent = np.round(RNG.normal(0, 1, (16, 6)), 1)
    latent[0, 0] = 0.0
    for op, want, more, attributes in (
        ("Sign", np.sign(latent), (), {}),
        (
            "MultiThreshold",
            np.where(latent >= 0.5, 1.0, -1.0),
            (np.full((6, 1), 0.5),),
            {"out_scale": 2.0, "out_bias": -1.0},
        ),
    ):
        made = digest(tmp_path, fixed(op, latent, *more, **attributes))
        assert made == digest(tmp_path, end(layer(start(), want)))


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "FLOOR", "HALF_UP"])
def test_rounding_by_doubles_is_exact(mode):
    """Numbers on, and next to, the places at which levels change."""
    halves = np.arange(-12, 13) / 2
    near = np.concatenate([halves, np.nextafter(halves, 9), np.nextafter(halves, -9)])
    scales = np.array([[0.1], [3.0], [-0.7]])
    x = Constant.of(near * scales)
    kinds = {1: Constant.of(scales), 2: Constant.of(np.array(1.0)), 3: Constant.of(np.array(3.0))}
    node = Node("weights", "Quant", ("",) * 4, ("out",), {"rounding_mode": mode})
    made, levels = quantise_constant(node, x, kinds), levels_of(node, kinds)
    for (row, column), code in np.ndenumerate(made.codes):
        a, s = Fraction(x.doubles()[row, column]), Fraction(scales[row, 0])
        assert made.rationals[code] == levels.quantised(a, s, Fraction(1))


def test_ternary_weights_with_many_numbers_and_scales_are_quick(tmp_path):
    latent = RNG.normal(0, 1, (784, 400))
    scales = RNG.uniform(0.3, 0.7, (1, 400))
    node = Node("weights", "Quant", ("",) * 4, ("out",), {"narrow": 1})
    kinds = {1: Constant.of(scales), 2: Constant.of(np.array(0.0)), 3: Constant.of(np.array(2.0))}
    begun = time.process_time()
    made = quantise_constant(node, Constant.of(latent), kinds)
    assert time.process_time() - begun < 5
    want = np.clip(np.rint(latent / scales), -1, 1) * scales
    assert np.array_equal(made.doubles(), want)


@pytest.mark.parametrize("op", ["Mul", "Pow"])
def test_squares_of_squares_are_refused(tmp_path, op):
    w = start()
    tensor, number = w.tensor, w.constant(np.array(1.1))
    for _ in range(40):
        number = w.fixed(op, number, number if op == "Mul" else np.array(2.0))
    w.tensor = tensor
    refused(tmp_path, offset(w, number), rf"\({op}\) gives a number of more than 4,096 bits")


# Clips


MATRIX = signs(16, 6)


def clipped(ends, quantiser=("BipolarQuant", ONE), **attributes):
    w = layer(start(), MATRIX)
    if ends is not None:
        w.add("Clip", *(np.array(end) for end in ends))
    w.add(quantiser[0], *quantiser[1:], name="sign", **attributes)
    return w.add("MatMul", LAST[:6])


def test_a_clip_around_the_threshold_changes_no_bit(tmp_path):
    quant = ("Quant", np.array(-2.0), np.array(3.0), np.array(1.0))  # compares with 6
    assert digest(tmp_path, clipped((-1.0, 1.0))) == digest(tmp_path, clipped(None))
    assert digest(tmp_path, clipped((5.0, 7.0), quant)) == digest(tmp_path, clipped(None, quant))


@pytest.mark.parametrize(
    ("ends", "quantiser", "level"),
    [
        ((0.0, 1.0), ("BipolarQuant", ONE), "0"),
        ((-1.0, 0.0), ("BipolarQuant", ONE), "0"),
        ((-1.0, 1.0), ("Quant", np.array(-2.0), np.array(3.0), np.array(1.0)), "6"),
        ((-1.0, 1.0), ("MultiThreshold", np.arange(6.0).reshape(6, 1) / 3), "1"),
    ],
)
def test_a_clip_that_cuts_the_threshold_off_is_refused(tmp_path, ends, quantiser, level):
    match = rf"Node sign \({quantiser[0]}\) compares with {level}, which is not between"
    refused(tmp_path, clipped(ends, quantiser), match)


def test_a_clip_at_the_end_is_refused(tmp_path):
    match = r"\(Clip\) is the last and does not give scores"
    refused(tmp_path, clipped(None).add("Clip", np.array(-1.0)), match)


def test_a_clip_elsewhere_counts_where_it_cuts(tmp_path):
    """Twice what is cut off at −1 never is −3, which a comparison with it sees."""
    w = layer(start(), MATRIX).add("Clip", np.array(-1.0)).add("Mul", np.array(2.0))
    always = import_network(end(w.add("Add", np.array(3.0))).save(tmp_path / "net.onnx", 3)).network
    assert not any(len(stage.operation.taps.indices) for _, stage, _ in always.layers())
    w = layer(start(), MATRIX).add("Clip", np.array(-1.0)).add("Mul", np.array(2.0))
    assert digest(tmp_path, end(w)) == digest(tmp_path, end(layer(start(), MATRIX)))


# Behind the class


@pytest.mark.parametrize(
    ("op", "more", "attributes"),
    [
        ("Cast", (), {"to": 6}),
        ("Squeeze", (np.array([1]),), {}),
        ("Identity", (), {}),
        ("Reshape", (np.array([-1]),), {}),
    ],
)
@pytest.mark.parametrize("finds", ["ArgMax", "TopK"])
def test_the_class_may_change_its_shape_and_type(tmp_path, finds, op, more, attributes):
    w = end(start(), 16)
    if finds == "ArgMax":
        w.add("ArgMax", axis=1)
    else:
        w.add("TopK", np.array([1]), outputs=2, name="top").tensor = "top_out1"
    w.add(op, *more, **attributes)
    assert digest(tmp_path, w) == digest(tmp_path, end(start(), 16))


@pytest.mark.parametrize(("op", "attributes"), [("Neg", {}), ("Cast", {"to": 9})])
def test_nothing_else_stands_behind_the_class(tmp_path, op, attributes):
    w = end(start(), 16).add("ArgMax", axis=1, name="best").add(op, **attributes)
    refused(tmp_path, w, rf"\({op}\) follows best, which gives the class")


# Words


def test_a_batch_norm_of_bits_is_told_what_it_normalises(tmp_path):
    w = start().add("BatchNormalization", *[np.ones(16)] * 4, name="norm")
    refused(tmp_path, end(w, 16), r"Node norm \(BatchNormalization\) normalises bits; put it after")


def test_a_window_that_cannot_be_is_told_in_words(tmp_path):
    w = Writer((1, 4, 4)).add("BipolarQuant", ONE).add("Conv", signs(1, 1, 1, 1), pads=[3] * 4)
    words = "has an impossible window: Padding must .* 1×1 with stride 1×1 and padding 3×3$"
    refused(tmp_path, w.add("BipolarQuant", ONE), words)


def test_info_shows_how_pixels_are_fed(tmp_path, capsys):
    path = end(start(), 16).save(tmp_path / "net.onnx", 3)
    assert main(["info", "--model", str(path)]) == 0
    assert "pixels       signed: (2p − 255)/255, from −1 to 1\n" in capsys.readouterr().out
