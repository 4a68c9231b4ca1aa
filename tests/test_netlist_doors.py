"""What cannot be a residual network is refused at the door: in Python, in files, in views.

Each refusal is one sentence. Files are also changed at random: whatever they hold, a network or a
sentence comes out, in bounded time and memory.
"""

import json
import time
import tracemalloc

import numpy as np
import pytest
from fuzzed import change, changed_file, join, split
from random_residual import random_residual_network

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import (
    Affine,
    Concat,
    Edge,
    Encode,
    Flatten,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    SumPool2d,
    Sums,
    Taps,
    Window,
    load,
)
from sbnn_hw.netlist.file import to_bytes
from sbnn_hw.netlist.view import from_view, to_view

PIXELS = Edge.of_bits((4, 4, 2), 8, scan="raster")


def affine(sources=1, **changes):
    fields = {"multipliers": [[1, 1]] * sources, "offsets": [0, 0], "shift": 1,
              "low": -128, "high": 127}  # fmt: skip
    return Affine(**(fields | changes))


def near(**changes):
    """Return a convolution of two channels with integer weights."""
    taps = Taps.from_windows(np.ones((2, 9, 2), np.int8))
    weights = np.arange(1, 1 + len(taps.indices))
    window = Window((3, 3), (1, 1), (1, 1))
    fields = {"taps": taps, "channels": 2, "window": window, "weights": weights, "pad": [128, 128]}
    return Sums(**(fields | changes))


def scores(**changes):
    taps = Taps.from_dense(np.ones((3, 2), np.int8))
    fields = {"taps": taps, "weights": [1, -2, 3, 4, -5, 6], "offsets": [0, 7, -7]}
    return Scores(**(fields | changes))


def residual(**changes):
    """Return the stages of a small residual network; each may be another."""
    made = {
        "first": (near(), (-1,)),
        "stream": (affine(multipliers=[[3, -2]], shift=4), (0,)),
        "bits": (Encode([[0], [5]]), (1,)),
        "sums": (Sums(taps=Taps.from_windows(np.eye(2, dtype=np.int8)[:, None]), channels=2,
                      window=Window((1, 1)), xi=-1, k=1), (2,)),
        "join": (affine(2, multipliers=[[9, 5], [2, 2]]), (3, 1)),
        "pool": (SumPool2d(Window((4, 4))), (4,)),
        "flat": (Flatten(), (5,)),
        "scores": (scores(), (6,)),
    }  # fmt: skip
    return tuple(Stage(name, *stage) for name, stage in (made | changes).items())


def network(**changes):
    return Network(PIXELS, residual(**changes))


def test_the_small_network_is_one():
    made = network()
    assert made.schema == 2
    assert from_view(json.loads(json.dumps(to_view(made)))).digest == made.digest


WIDE = Edge((4, 4, 2), -(1 << 40), 1 << 40, "raster")
BY_HAND = [
    # Streams whose bits are out of range, or that nothing can say.
    (lambda: Edge((4,), -(1 << 62), 0), "An edge's values must have 1 to 62 bits, not 63"),
    (lambda: Edge.of_bits((4,), 0), "An edge's values must have 1 to 62 bits, not 0"),
    (lambda: Edge((4,), 5, 4), "An edge's range must rise, not from 5 to 4"),
    (lambda: Edge((1 << 12, 1 << 12, 1)),
     "An edge must have fewer than 2^24 values, not (4096, 4096, 1)"),
    (lambda: affine(shift=-1), "Shift must be between 0 and 52, not -1"),
    (lambda: affine(shift=53), "Shift must be between 0 and 52, not 53"),
    (lambda: affine(shift=1.0), "Affine shift must be an integer, not 1.0"),
    (lambda: affine(low="a"), "Affine low must be an integer, not 'a'"),
    (lambda: affine(low=3, high=2), "A clamp must rise within 53 bits, not from 3 to 2"),
    (lambda: affine(low=-(1 << 53)),
     "A clamp must rise within 53 bits, not from -9007199254740992 to 127"),
    (lambda: affine(multipliers=[[1, float("nan")]]),
     "Affine multipliers must be of type int64, not float64"),
    (lambda: affine(multipliers=[[1, 1 << 70]]),
     "Affine multipliers must be of type int64, not [[1, 1180591620717411303424]]"),
    (lambda: affine(offsets=[[1], [2, 3]]),
     "Affine offsets must be of type int64, not [[1], [2, 3]]"),
    (lambda: affine(multipliers=[[1, None]]),
     "Affine multipliers must be of type int64, not [[1, None]]"),
    (lambda: affine(multipliers=[[1, 1, 1]]), "Affine offsets must be (3,), one a channel, not (2,)"),
    (lambda: affine(slopes=[1], offsets_behind=[0, 0]),
     "Affine slopes must be (2,), one a channel, not (1,)"),
    (lambda: affine(slopes=[1, 1], offsets_behind=[0, 0, 0]),
     "Affine offsets_behind must be (2,), one a channel, not (3,)"),
    (lambda: Concat(2.5), "Concat count must be an integer, not 2.5"),
    (lambda: scores(weights=[1, 2, 3]), "Weights must be (6,), not (3,)"),
    (lambda: scores(offsets=[0]), "Score offsets must be (3,), not (1,)"),
    (lambda: Taps((1 << 32) + 1, [0, 0], [], []),
     "A layer must have between 1 and 2^32 inputs, not 4294967297"),
    (lambda: Stage(7, Flatten(), (0,)),
     "A stage's name must be up to 63 lower-case letters, digits and underscores, not 7"),
    (lambda: Stage("a", Flatten(), ("b",)), "Stage a must name its sources by numbers, not ('b',)"),
    (lambda: Stage("a", Flatten(), (0.0,)), "Stage a must name its sources by numbers, not (0.0,)"),
    # Stages that do not fit each other.
    (lambda: affine(3 - 1, multipliers=[[1 << 15] * 2] * 2).infer(WIDE, WIDE),
     "Its sums need more than 53 bits: they may reach 72057594037927936"),
    (lambda: affine(slopes=[1 << 20] * 2, offsets_behind=[0] * 2, slope_shift=20).infer(WIDE),
     "Its sums need more than 53 bits: they may reach 1152921504606846976"),
    (lambda: near(pad=None, weights=[1 << 10] * 36).infer(WIDE),
     f"Its sums need more than 53 bits: they may reach {18 << 50}"),
    (lambda: SumPool2d(Window((4, 4))).infer(Edge((4, 4, 2), 0, 1 << 50, "raster")),
     "Its sums need more than 53 bits: they may reach 18014398509481984"),
    (lambda: network(join=(affine(2), (3, 0)), pool=(SumPool2d(Window((5, 5))), (4,))),
     "Stage pool: A window of 5×5 does not fit a map of 4×4 with padding 0, 0"),
    (lambda: network(sums=(MaxPool2d(Window((2, 2), (2, 2)), [False] * 2), (2,))),
     "Stage join: It joins streams of one shape, but receives (2, 2, 2) and (4, 4, 2)"),
    (lambda: network(sums=(SumPool2d(Window((2, 2), (2, 2))), (2,)), join=(Concat(2), (3, 1))),
     "Stage join: It joins maps of one size, but receives (2, 2, 2) and (4, 4, 2)"),
    (lambda: network(stream=(affine(multipliers=[[1, 1, 1]], offsets=[0] * 3), (0,))),
     "Stage stream: It takes 3 channels, but receives (4, 4, 2)"),
    (lambda: network(scores=(scores(taps=Taps.from_dense(np.ones((2, 3), np.int8)),
                                    offsets=[0, 0]), (6,))),
     "Stage scores: It takes a vector of 3 values, but receives (2,)"),
    # Graphs that are none.
    (lambda: network(stream=(affine(2), (0, 4))),
     "Stage stream must receive from an earlier stage, not 4"),
    (lambda: network(stream=(affine(), (1,))),
     "Stage stream must receive from an earlier stage, not 1"),
    (lambda: network(stream=(affine(), (-2,))),
     "Stage stream must receive from an earlier stage, not -2"),
    (lambda: network(join=(affine(), (3,)), bits=(Encode([[0], [5]]), (0,))),
     "Stage stream is not read by any later stage"),
    (lambda: Network(PIXELS, residual()[:-1]), "The last stage, flat, must give scores"),
    (lambda: Network(PIXELS, (*residual(), residual()[0])),
     "Stage names must differ, but several are 'first'"),
    (lambda: Network(PIXELS, ()), "A network must have one stage or more"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), BY_HAND)
def test_python_refuses_it(make, sentence):
    with pytest.raises(ModelRejected) as refused:
        make()
    assert str(refused.value) == sentence


# The same in files and views


def put(text, way, value):
    """Change a field of a description; numbers and names are a way to it."""
    *to, last = way
    for key in to:
        text = text[key]
    text[last] = value


def stage(name):
    return ["stages", [each.name for each in residual()].index(name)]


NUMBERS = {  # in both forms
    (*stage("stream"), "operation", "shift"): {
        -1: "Shift must be between 0 and 52, not -1", 53: "Shift must be between 0 and 52, not 53",
        1.0: "shift must not be 1.0", "4": "shift must not be '4'",
        float("nan"): "shift must not be nan", float("inf"): "shift must not be inf",
        10**30: f"Shift must be between 0 and 52, not {10**30}",
    },
    (*stage("stream"), "operation", "low"): {
        500: "A clamp must rise within 53 bits, not from 500 to 127",
        -(1 << 60): f"A clamp must rise within 53 bits, not from {-(1 << 60)} to 127",
        None: "low must not be None",
    },
    (*stage("stream"), "operation", "slope_shift"): {
        1: "Slopes, offsets behind them and a slope shift come together",
        -1: "Slope shift must be between 0 and 30, not -1",
    },
    (*stage("join"), "sources"): {
        (3,): "Stage join must have 2 sources, not (3,)",
        (3, 4): "Stage join must receive from an earlier stage, not 4",
        (3, 7): "Stage join must receive from an earlier stage, not 7",
        (3, -5): "Stage join must receive from an earlier stage, not -5",
        (3, 3.0): "a stage's sources are not numbers",
        (3, 5): "Stage join must receive from an earlier stage, not 5",
    },
    (*stage("pool"), "operation", "window", "kernel"): {
        (5, 5): "Stage pool: A window of 5×5 does not fit a map of 4×4 with padding 0, 0",
        (65535, 65535): "Stage pool: Its window must be at most twice as large as the map, not "
        "65535×65535 with stride 1×1 and padding 0×0 on 4×4",
        (0, 4): "A window must have sizes above zero, not 0×4 with stride 1×1 and padding 0×0",
        (4,): "kernel must not be [4]", (4, "4"): "kernel must not be [4, '4']",
    },
    ("input", "bits"): {
        0: "An edge's values must have 1 to 62 bits, not 0",
        63: "An edge's values must have 1 to 62 bits, not 63",
    },
    ("input", "shape"): {
        (4, 4, 1 << 23): "An edge must have fewer than 2^24 values, not (4, 4, 8388608)",
        (4, 4, 1 << 30): "the input's shape is wrong",
        (4, 4): "An edge's shape must be (length,) or (height, width, channels), not (4, 4)",
    },
}  # fmt: skip
SAME = [(way, value, said) for way, values in NUMBERS.items() for value, said in values.items()]


@pytest.mark.parametrize(("way", "value", "sentence"), SAME)
def test_files_and_views_refuse_it(tmp_path, way, value, sentence):
    value = list(value) if isinstance(value, tuple) else value
    text, arrays = split(to_bytes(network()))
    put(text, way, value)
    path = tmp_path / "a.sbnn"
    path.write_bytes(join(text, arrays))
    with pytest.raises(ModelRejected) as refused:
        load(path)
    assert str(refused.value) in (f"{path}: {sentence}", f"{path} is not a netlist ({sentence})")
    view = to_view(network())
    put(view, way, value)
    with pytest.raises(ModelRejected) as refused:
        from_view(json.loads(json.dumps(view)))
    assert str(refused.value) in (sentence, f"it is not a view of a netlist ({sentence})")


LISTS = [  # in views, which have arrays as lists
    ((*stage("stream"), "operation", "multipliers"), [[1, 2, 3]],
     "Affine offsets must be (3,), one a channel, not (2,)"),
    ((*stage("stream"), "operation", "multipliers"), [[1, 2]] * 3,
     "Multipliers must be (sources, channels) of one or two sources, not (3, 2)"),
    ((*stage("stream"), "operation", "multipliers"), [[1, 2], [3]],
     "it is not a view of a netlist (a list mixes kinds or lengths)"),
    ((*stage("stream"), "operation", "multipliers"), [[1, 1 << 62]],
     "it is not a view of a netlist (a number needs more than 62 bits)"),
    ((*stage("stream"), "operation", "multipliers"), [[1, 1 << 52]],
     "Stage stream: Its sums need more than 53 bits: they may reach "),
    ((*stage("stream"), "operation", "offsets"), [1 << 53, 0],
     "Stage stream: Its sums need more than 53 bits: they may reach"),
    ((*stage("stream"), "operation", "slopes"), [1, 2],
     "Slopes, offsets behind them and a slope shift come together"),
    ((*stage("scores"), "operation", "weights"), [1, 2], "Weights must be (6,), not (2,)"),
    ((*stage("scores"), "operation", "weights"), [1, 2, 3, 4, 5, 0],
     "Weights must not be zero, and must be below 2^31"),
    ((*stage("bits"), "operation", "thresholds"), [[0], [999]],
     "Stage bits: Encoder thresholds must lie between -128 and 128, not 999"),
    ((*stage("first"), "operation", "pad"), [128, 256],
     "Stage first: Padding must lie between 0 and 255"),
]  # fmt: skip


@pytest.mark.parametrize(("way", "value", "sentence"), LISTS)
def test_views_refuse_it(way, value, sentence):
    view = to_view(network())
    put(view, way, value)
    with pytest.raises(ModelRejected) as refused:
        from_view(json.loads(json.dumps(view)))
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("name", ["shift", "offsets", "multipliers", "low", "high", "slope_shift"])
def test_a_missing_field_is_named(name):
    view = to_view(network())
    del view["stages"][1]["operation"][name]
    with pytest.raises(ModelRejected) as refused:
        from_view(view)
    assert str(refused.value) == f"it is not a view of a netlist ({name} is missing)"


# Files that are small, and would be large


def bomb(stages, shape=(4, 4, 2), bits=8):
    """Return the view of stages that nobody has checked."""
    made = [
        {"name": f"s{n}", "ones": None, "kernels": None, "absent": [], **each}
        for n, each in enumerate(stages)
    ]
    edge = {"shape": list(shape), "bits": bits, "signed": False, "scan": "raster"}
    return {"format": "sbnn-hw netlist view", "version": 2, "input": edge, "stages": made}


def operation(kind, sources, **fields):
    return {"sources": sources, "operation": {"kind": kind, **fields}}


def one_tap(width):
    return {"width": width, "inputs": [[0]], "inverted": None}


def sums_of(width, source=-1, **changes):
    fields = {"taps": one_tap(width), "xi": 0, "k": 0, "fixed": [], "channels": width,
              "groups": 1, "border": "minus"}  # fmt: skip
    return operation("sums", [source], **(fields | changes))


def window(kernel, padding, stride=1):
    return {"kernel": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}


def end(width, source):
    return operation(
        "scores", [source], taps=one_tap(width), negative=False, shift=0, offsets=[0], weights=[1]
    )


MILLIONS = (4095, 4095, 1)
FLAT = operation("flatten", [-1])
BOMBS = {
    "a wide vector": bomb([FLAT, end(4095 * 4095, 0)], MILLIONS),
    "counted by q": bomb([FLAT, sums_of(4095 * 4095, 0, xi=1), end(1, 1)], MILLIONS),
    "a window with many borders": bomb([
        sums_of(3000 * 3000, channels=1, window=window(3000, 2999), border="zero", xi=1),
        operation("flatten", [0]), end(9, 1)], (4, 4, 1), 1),
    "a large window": bomb([
        sums_of(60000 * 60000, channels=1, window=window(60000, 29999)),
        operation("flatten", [0]), end(9, 1)], (4, 4, 1)),
    "neurons of wide values": bomb([
        FLAT, operation("affine", [0], multipliers=[[1 << 30]], offsets=[0], shift=0, low=0,
                        high=1 << 40, slope_shift=0),
        sums_of(1, 1, xi=1), operation("encode", [2], thresholds=[[5]]), end(1, 3)], (1, 1, 1)),
    "a source many times": bomb([
        FLAT, operation("concat", [0] * 65536, count=65536), end(65536 * 255, 1)], (1, 255, 1)),
    "many stages": bomb([operation("sum_pool2d", [n - 1], window=window(1, 0), ceil=False)
                         for n in range(2000)] + [operation("flatten", [1999]), end(32, 2000)]),
    "nested lists": {**bomb([FLAT]), "stages": [[[[]]]]},
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_stay_small(name):
    tracemalloc.start()
    started, said = time.process_time(), ""
    try:
        said = from_view(json.loads(json.dumps(BOMBS[name]))).digest
    except ModelRejected as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(said) < 300
    assert peak < 1.5 * (1 << 30)
    assert time.process_time() - started < 20


# Files that are changed at random


def fuzz(seeds, tmp_path):
    """Read changed files and views; return how many were refused, and how many were networks."""
    path = tmp_path / "a.sbnn"
    refused, right, slowest = [], 0, 0.0
    made = [random_residual_network(np.random.default_rng(seed)) for seed in range(8)]
    forms = [(to_bytes(each), json.dumps(to_view(each))) for each in made]
    for seed in seeds:
        rng = np.random.default_rng([21, seed])
        content, text = forms[seed % len(forms)]
        started = time.process_time()
        try:
            if seed % 2:
                path.write_bytes(changed_file(rng, content))
                load(path)
            else:
                view = json.loads(text)
                del view["digest"]
                change(rng, view)
                again = from_view(json.loads(json.dumps(view)))
                assert from_view(to_view(again)).digest == again.digest
            right += 1
        except ModelRejected as error:
            refused.append(str(error))
        slowest = max(slowest, time.process_time() - started)
    assert slowest < 10
    for sentence in refused:
        assert "\n" not in sentence
        assert len(sentence.replace(str(path), "")) < 300
    return refused, right


def test_a_changed_file_is_a_network_or_a_sentence(tmp_path):
    refused, right = fuzz(range(300), tmp_path)
    assert len(refused) > 200
    assert right > 3
    assert len({sentence[-20:] for sentence in refused}) > 40


@pytest.mark.long
def test_many_changed_files_are_networks_or_sentences(tmp_path):
    refused, right = fuzz(range(300, 5300), tmp_path)
    assert len(refused) > 4000
    assert right > 50
