"""The integer network: validated once, computes itself, one file that comes back the same."""

import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest
from random_models import random_convnet, random_mlp, random_pixels

from sbnn_hw.errors import ModelRejected, OutputRefused
from sbnn_hw.models import open_network
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Linear,
    MaxPool2d,
    Network,
    Recode,
    Scores,
    Stage,
    Taps,
    Window,
    find_borders,
    load,
    save,
    to_bytes,
)
from sbnn_hw.netlist.view import load_view, save_view
from sbnn_hw.train import fold_model


def linear(weights, thresholds, *, xi=0, k=0, flips=None, fixed=()):
    taps = Taps.from_dense(np.array(weights))
    return Linear(
        taps=taps, xi=xi, k=k, thresholds=np.array([thresholds]),
        flips=np.zeros(len(taps), bool) if flips is None else np.array(flips),
        fixed=np.array(fixed, np.int64),
    )  # fmt: skip


def scores(weights, offsets=None, shift=0, negative=False):
    taps = Taps.from_dense(np.array(weights))
    return Scores(
        taps=taps, negative=negative, shift=shift,
        offsets=np.zeros(len(taps), np.int64) if offsets is None else np.array(offsets),
    )  # fmt: skip


def chain(*operations, shape=(1, 1, 3)):
    stages = [
        Stage(f"{operation.kind}_{n}", operation, (n - 1,))
        for n, operation in enumerate(operations)
    ]
    return Network(Edge.of_bits(shape, 8, scan="raster"), tuple(stages))


def small():
    return chain(
        Encode(np.array([[100]] * 3)),
        Flatten(),
        linear([[1, 0, 1], [0, 1, -1]], [1, 2]),
        scores([[1, 0], [0, 1]], [1, 0], shift=1),
    )


def bits_of(count):
    bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return (bits * 200).astype(np.uint8).reshape(-1, 1, 1, count)


def test_computes_by_definition_on_every_input():
    outcome = small().compute(bits_of(3), keep=["linear_2"])
    for image in range(8):
        a, b, c = (image >> n & 1 for n in range(3))
        hidden = [int(a + c >= 1), int(b + (1 - c) >= 2)]
        assert outcome.values["linear_2"][image].tolist() == hidden
        wanted = [2 * (2 * hidden[0] - 1) + 1, 2 * (2 * hidden[1] - 1)]
        assert outcome.scores[image].tolist() == wanted
        assert outcome.classes[image] == wanted.index(max(wanted))


def test_first_maximum_wins():
    network = chain(
        Encode(np.array([[100]])), Flatten(), scores([[1], [1], [1]], [0, 1, 1]), shape=(1, 1, 1)
    )
    assert network.compute(bits_of(1)).classes.tolist() == [1, 1]


def test_q_counts_all_inputs_but_the_fixed():
    """2·pc_S − pc_N ≥ C, with an input that is constant left out of pc_N."""
    layer = linear([[1, 0, 0]], [1], xi=-1, k=1, fixed=[2])
    x = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1]], np.uint8)
    assert layer.compute(x, Edge((3,))).ravel().tolist() == [1, 0, 0]
    low, high = layer.reach(Edge((3,)))
    assert (low.item(), high.item()) == (-1, 1)


def test_batches_of_any_size_and_the_empty_one():
    network = small()
    pixels = bits_of(3)
    whole = network.compute(np.tile(pixels, (300, 1, 1, 1)))
    assert np.array_equal(whole.scores, np.tile(network.compute(pixels).scores, (300, 1)))
    assert network.compute(pixels[:0]).scores.shape == (0, 2)


@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (2, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1)])
@pytest.mark.parametrize("size", [(1, 1), (2, 5), (7, 7)])
def test_border_classes_are_the_masks_that_occur(kernel, stride, size):
    padding = ((kernel[0] - 1) // 2 or 1, (kernel[1] - 1) // 2)
    window = Window(kernel, stride, padding)
    try:
        rows, columns = window.output(*size)
    except ModelRejected:
        pytest.skip("the window does not fit this map")
    borders = find_borders(window, *size)
    seen = set()
    for i in range(rows):
        for j in range(columns):
            mask = [
                0 <= i * stride[0] - padding[0] + y < size[0]
                and 0 <= j * stride[1] - padding[1] + x < size[1]
                for y in range(kernel[0])
                for x in range(kernel[1])
            ]
            assert borders.valid[borders.of[i, j]].tolist() == mask
            seen.add(tuple(mask))
    assert len(borders) == len(seen)
    assert borders.of.ravel()[0] == 0
    if kernel == (3, 3) and stride == (1, 1) and size == (7, 7):
        assert len(borders) == 9


def test_taps_of_a_window_are_positions_then_channels_group_by_group():
    weights = np.array([[[1, 0], [0, -1]], [[0, 0], [1, 1]], [[0, 1], [0, 0]], [[0, 0], [0, 0]]])
    taps = Taps.from_windows(weights, groups=2)
    assert (taps.width, taps.starts.tolist()) == (8, [0, 2, 4, 5, 5])
    # Channels 0 and 1 are those of the first two neurons, 2 and 3 those of the others.
    assert taps.indices.tolist() == [0, 5, 4, 5, 3]
    assert taps.inverted.tolist() == [False, True, False, False, False]


def test_pool_is_or_and_and():
    pool = MaxPool2d(Window((2, 2), (2, 2), (1, 1)), np.array([False, True]))
    x = np.zeros((1, 2, 2, 2), np.uint8)
    x[0, 0, 0] = [1, 1]
    x[0, 1, 1] = [0, 1]
    out = pool.compute(x, Edge((2, 2, 2), scan="raster"))
    assert out[0, ..., 0].tolist() == [[1, 0], [0, 0]]
    # Each window holds one bit of the map; padding is 1 for AND, so it changes nothing.
    assert out[0, ..., 1].tolist() == [[1, 0], [0, 1]]


# Validation: one sentence, what and where


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recode([1, 2, 3, 4]), r"^Levels must be a table that begins with 0, does not decrease"),
        (lambda: Recode([0, 2, 1, 3]), r"^Levels must be a table that begins with 0, does not decrease"),
        (lambda: Recode([0, 0, 1, 1]), r"^Levels must be a table .* ends between 2 and the largest"),
        (lambda: Recode([0, 0, 1, 9]), r"^Levels must be a table .* ends between 2 and the largest"),
        (lambda: Recode([0, 0, 2, 2]), r"^Levels must have no common factor, and change some value$"),
        (lambda: Recode([0, 1, 2, 3]), r"^Levels must have no common factor, and change some value$"),
        (lambda: chain(Recode([0, 0, 1, 2]), Flatten(), scores([[1, 0, 1]])),
         r"^Stage levels_0: It takes values up to 3, but receives 8 bits$"),
        (lambda: Taps(3, [0, 2], [0, 3], [False] * 2), r"^Taps must be below 3, not 3 \(neuron 0\)$"),
        (lambda: Taps(3, [0, 1, 3], [2, 1, 1], [False] * 3),
         r"^Taps of a neuron must increase \(neuron 1\)$"),
        (lambda: Taps(3, [0, 2], [0], [False]), r"^Tap starts must rise from 0 to 1, not from 0 to 2$"),
        (lambda: Taps(3, [0], [], []), r"^A layer must have one neuron or more$"),
        (lambda: Taps(0, [0, 0], [], []), r"^A layer must have between 1 and 2\^32 inputs, not 0$"),
        (lambda: Taps(3, [0, 1], [-1], [False]), r"^Tap indices must be of type uint32, not int64$"),
        (lambda: linear([[1, 0]], [1], xi=2, k=1), r"^Ξ must be odd or k zero, not 2 and 1$"),
        (lambda: linear([[1, -1]], [1], xi=1, k=1), r"^Inverted taps are allowed only with Ξ = 0$"),
        (lambda: linear([[1, 0]], [1, 2]), r"^Thresholds must be \(classes, 1\), not \(1, 2\)$"),
        (lambda: linear([[1, 0]], [1], fixed=[0]),
         r"^Fixed inputs are allowed only where Ξ is not zero$"),
        (lambda: linear([[1, 0]], [1], xi=1, k=1, fixed=[0]), r"^Fixed inputs must not be tapped$"),
        (lambda: Edge((3, 3)), r"^An edge's shape must be \(length,\) or \(height, width, channels\), "),
        (lambda: Window((3, 3), (1, 1), (3, 0)), r"^Padding must be smaller than the kernel, not "),
        (lambda: Stage("Linear 1", Flatten(), (-1,)),
         r"^A stage's name must be up to 63 lower-case letters, digits and underscores, not 'Linear 1'$"),
        (lambda: Stage("a;b", Flatten(), (-1,)), r"^A stage's name must be up to 63 lower-case letters"),
        (lambda: chain(Flatten()), r"^The last stage, flatten_0, must give scores$"),
        (lambda: chain(Flatten(), scores([[1, 0]])),
         r"^Stage scores_1: It takes a vector of 2 unsigned values, but receives \(3,\)$"),
        (lambda: chain(Encode(np.array([[100]] * 3)), Flatten(), linear([[1, 0, 1]], [4]),
                       scores([[1]])),
         r"^Stage linear_2: threshold of neuron 0 must be between 0 and 3, not 4$"),
        (lambda: Network(Edge.of_bits((1,), 8), (Stage("s", scores([[1]]), (0,)),)),
         r"^Stage s must receive from an earlier stage, not 0$"),
        (lambda: Network(Edge.of_bits((1,), 8), ()), r"^A network must have one stage or more$"),
        (lambda: chain(Encode(np.array([[257]] * 3)), Flatten(), scores([[1, 0, 0]])),
         r"^Stage encode_0: Encoder thresholds must lie between 0 and 256, not 257$"),
    ],
)  # fmt: skip
def test_refuses_what_cannot_be(make, message):
    with pytest.raises(ModelRejected, match=message):
        make()


def test_a_stage_that_nobody_reads_is_refused():
    first = Stage("one", Flatten(), (-1,))
    second = Stage("two", Flatten(), (-1,))
    with pytest.raises(ModelRejected, match=r"^Stage one is not read by any later stage$"):
        Network(Edge.of_bits((1, 1, 2), 8), (first, second, Stage("s", scores([[1, 0]]), (1,))))


def test_sums_that_would_leave_64_bits_are_refused():
    taps = Taps(2**20, [0, 2**20], np.arange(2**20), np.zeros(2**20, bool))
    wide = Scores(taps=taps, negative=False, shift=40, offsets=np.zeros(1, int))
    with pytest.raises(ModelRejected, match=r"^Scores must be below 2\^60, not up to "):
        wide.infer(Edge.of_bits((2**20,), 8))
    layer = Linear(
        taps=taps, xi=1, k=40, thresholds=np.zeros((1, 1), int), flips=np.zeros(1, bool),
        fixed=np.zeros(0, int),
    )  # fmt: skip
    with pytest.raises(
        ModelRejected, match=r"^Stage l: its sums need more than 60 bits, with k = 40 and"
    ):
        Network(
            Edge.of_bits((2**20,), 8),
            (Stage("l", layer, (-1,)), Stage("s", scores([[1]]), (0,))),
        )


def test_values_cannot_be_changed():
    network = small()
    with pytest.raises(ValueError, match="read-only"):
        network.stages[2].operation.thresholds[0, 0] = 7


def test_pixels_are_checked():
    with pytest.raises(
        ModelRejected, match=r"^Images must be integers of shape \(count, 1, 1, 3\)"
    ):
        small().compute(np.zeros((2, 3), np.uint8))
    with pytest.raises(ModelRejected, match=r"^Pixels must be between 0 and 255$"):
        small().compute(np.full((1, 1, 1, 3), 256))
    with pytest.raises(ModelRejected, match=r"^No stage is called 'x'$"):
        small().compute(bits_of(3), keep=["x"])


# The file


def test_file_comes_back_the_same(tmp_path):
    rng = np.random.default_rng(0)
    for make in (random_mlp, random_convnet):
        for domain in ("learned", "zero", "signed", "bnn"):
            model, shape = make(rng, domain)
            network = fold_model(model, shape).network
            path = tmp_path / "net.sbnn"
            save(network, path)
            loaded = load(path)
            assert to_bytes(loaded) == path.read_bytes()
            assert loaded.digest == network.digest
            pixels = random_pixels(rng, shape, 20)
            names = [stage.name for stage in network.stages]
            one, two = (n.compute(pixels, keep=names) for n in (network, loaded))
            assert all(np.array_equal(one.values[name], two.values[name]) for name in names)


def test_bytes_are_stable():
    """The same network gives the same bytes on any machine: this digest must never change."""
    assert hashlib.sha256(to_bytes(small())).hexdigest() == FILE_DIGEST
    assert small().digest == NETWORK_DIGEST


FILE_DIGEST = "018dc184e38ff52ba0dcb641c4f022ad51d08e8247e0a9244a708131ba6c2b28"
NETWORK_DIGEST = "46b94f8a127c53cfb47dc16e6b272ba46388eac56f046a4de7123302f78fc901"


def test_digest_tells_every_difference():
    digests = {small().digest}
    base = small().stages
    for change in (
        {"taps": Taps.from_dense(np.array([[1, 1, 0], [0, 1, -1]]))},
        {"taps": Taps.from_dense(np.array([[1, 0, 1], [0, 1, 1]]))},
        {"thresholds": np.array([[2, 2]])},
        {"flips": np.array([True, False])},
    ):
        changed = replace(base[2], operation=replace(base[2].operation, **change))
        digests.add(Network(small().input, (*base[:2], changed, base[3])).digest)
    assert len(digests) == 5


def test_every_flipped_byte_is_refused(tmp_path):
    content = to_bytes(small())
    path = tmp_path / "net.sbnn"
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ModelRejected, match=r"net\.sbnn is (not a netlist|damaged)"):
            load(path)


def test_every_truncation_is_refused(tmp_path):
    content = to_bytes(small())
    path = tmp_path / "net.sbnn"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ModelRejected, match=r"net\.sbnn is (not a netlist|damaged)"):
            load(path)


def resealed(content, old, new):
    """Return a file with a changed description and a right checksum: a liar, not an accident."""
    (length,) = struct.unpack_from("<Q", content, 8)
    text = content[16 : 16 + length].replace(old, new)
    assert text != content[16 : 16 + length]
    body = content[:8] + struct.pack("<Q", len(text)) + text + content[16 + length : -32]
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"schema":1', b'"schema":3', "it has schema 3, but this sbnn-hw reads 1 to 2; fold the checkpoint"),
        (b'"schema":1', b'"schema":2', "its schema must be 1, not 2"),
        (b'"kind":"flatten"', b'"kind":"eval"', "no operation is called 'eval'"),
        (b'"width":3', b'"width":-3', "its taps are not lists of inputs"),
        (b'"width":3', b'"width":1e9', "width must not be 1000000000.0"),
        (b'"shape":[1,1,3]', b'"shape":[1,1,9999999]', "It takes 3 channels"),
        (b'"shape":[2]', b'"shape":[999999999]', "its arrays are cut short"),
        (b'"shape":[2]', b'"shape":[-2]', "an array's shape is wrong"),
        (b'"type":"|u1"', b'"type":"|O8"', "an array has type '|O8'"),
        (b'"array":1,', b'"array":0,', "an array is out of order"),
        (b'"k":0', b'"k":99', "k must be between 0 and 40"),
        (b'"name":"linear_2"', b'"name":"x; endmodule"', "A stage's name must be up to 63 lower-case"),
        (b'"sources":[1]', b'"sources":[3]', "must receive from an earlier stage, not 3"),
        (b'"shift":1', b'"shift":2', "its digest does not match its content"),
        (b'"stages":[', b'"stages":[[', "is not a netlist"),
        (b'"negative":false', b'"negative":0', "negative must not be 0"),
        (b'"ones":null', b'"ones":255', "its ones must be between"),
        (b'"ones":null', b'"ones":true', "ones must not be True"),
        (b'"kernels":null', b'"kernels":[1]', "its kernels must be ten numbers that add up to"),
        (b'"shape":[1,1,3]', b'"shape":[8388608,8388608,3]', "must have fewer than 2^24 values"),
        (b'"shift":1', b'"shift":41', "Score shift must be between 0 and 40"),
    ],
)  # fmt: skip
def test_lies_in_the_description_are_refused(tmp_path, old, new, message):
    path = tmp_path / "net.sbnn"
    path.write_bytes(resealed(to_bytes(small()), old, new))
    with pytest.raises(ModelRejected) as raised:
        load(path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_netlist_names_the_cure(tmp_path):
    with pytest.raises(
        ModelRejected, match=r"^No netlist at \S+nope\.sbnn \(make one with `sbnn-hw fold`\)$"
    ):
        load(tmp_path / "nope.sbnn")


def test_names_of_files_may_be_strings(tmp_path):
    network = fold_model(*random_mlp(np.random.default_rng(0), "zero")[:2]).network
    save(network, str(tmp_path / "net.sbnn"))
    assert load(str(tmp_path / "net.sbnn")).digest == network.digest
    save_view(network, str(tmp_path / "net.json"))
    assert load_view(str(tmp_path / "net.json")).digest == network.digest
    assert open_network(str(tmp_path / "net.json")).digest == network.digest


def test_cannot_write_where_there_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputRefused, match=r"^Cannot write \S+file/net\.sbnn: "):
        save(small(), tmp_path / "file" / "net.sbnn")


def test_convolution_refuses_taps_of_another_group():
    taps = Taps.from_dense(np.eye(2, dtype=int)[::-1])
    with pytest.raises(ModelRejected, match=r"^A neuron's taps must lie in its own group of"):
        Conv2d(
            taps=taps, xi=0, k=0, thresholds=np.ones((1, 2), int), flips=np.zeros(2, bool),
            fixed=np.zeros(0, int), channels=2, window=Window((1, 1)), groups=2,
        )  # fmt: skip


def test_low_bits_that_decide_nothing_are_told():
    rng = np.random.default_rng(0)
    values = np.arange(256).reshape(-1, 1)
    for _ in range(50):
        step = 1 << int(rng.integers(0, 7))
        places = rng.choice(np.arange(1, 256 // step), int(rng.integers(1, 4)), replace=False)
        encoder, edge = Encode(np.sort(places)[None] * step), Edge.of_bits((1,), 8)
        ignored = encoder.ignored_bits
        assert ignored >= step.bit_length() - 1
        bits = encoder.compute(values, edge)
        assert (encoder.compute(values >> ignored << ignored, edge) == bits).all()
        # One more decides something.
        assert (encoder.compute(values >> ignored + 1 << ignored + 1, edge) != bits).any()
    assert Flatten().ignored_bits == 0
