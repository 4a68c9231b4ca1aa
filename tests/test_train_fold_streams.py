"""The fold of integer streams: every stream value, bit and score is torch's and the reference's."""

import json
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from integer_reference import Reference
from test_train_authors import make_reactnet18, make_reactnet_a, make_resnet18, weights_of, write
from test_train_integers import NAMES, plan_of, random_model

from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Assembler, Summed
from sbnn_hw.netlist import Affine, Conv2d, Edge, Encode, Flatten, Scores, Sums, Taps, Window, load
from sbnn_hw.netlist.file import encode
from sbnn_hw.train import fold_model, load_checkpoint, save_checkpoint
from sbnn_hw.train.authors import convert
from sbnn_hw.train.checkpoint import Checkpoint, used_values
from sbnn_hw.train.config import STREAMS
from sbnn_hw.train.data import TensorImages
from sbnn_hw.train.fold import check_modules
from sbnn_hw.train.fold_check import check_fold
from sbnn_hw.train.quantise import quantise


def images_of(pixels):
    return pixels.numpy().transpose(0, 2, 3, 1).astype(np.uint8)


def stage_of(stream):
    """Return the stages that may have a stream of the reference."""
    name = stream.replace(".", "_")
    ends = ("_affine", "_bn_affine", "_bn2_affine", "_affines_0", "")
    return [f"{name}{end}" for end in ends]


def differences_from_reference(network, config, values, pixels):
    """Return how many values of streams and scores are not the reference's, and how many are."""
    names = {stage.name for stage in network.stages}
    reference, plan = Reference(config, values), plan_of(config)
    found = network.compute(images_of(pixels), keep=names)
    whole = not any(len(stage.absent) for stage in network.stages)
    numbers = {stage.name: number for number, stage in enumerate(network.stages)}
    different = count = 0
    for image, one in enumerate(pixels.numpy()):
        scores = reference.scores(one, plan)
        different += sum(a != b for a, b in zip(found.scores[image].tolist(), scores, strict=True))
        for stream, expected in reference.streams.items():
            want = expected.transpose(1, 2, 0).astype(np.int64)
            for name in stage_of(stream):
                if name in names and found.values[name][image].shape == want.shape:
                    read = np.ones(want.shape, bool) if whole else network.read[numbers[name]]
                    different += int(((found.values[name][image] != want) & read).sum())
                    count += int(read.sum())
                    break
    return different, count


def check(name, seed, **choices):
    model, config, pixels = random_model(random.Random(f"fold {name} {seed}"), name, **choices)
    whole = fold_model(model, config.shape, drop_unread=False)
    result = check_fold(model, whole, images_of(pixels))
    assert result.exact, result.first
    different, count = differences_from_reference(whole.network, config, used_values(model), pixels)
    assert (different, count > 50) == (0, True)
    # What is written: in its one form, without what nothing reads.
    folded = fold_model(model, config.shape)
    result = check_fold(model, folded, images_of(pixels))
    assert result.exact, result.first
    assert result.values >= 2 * config.classes  # the scores, where all else is constant
    assert differences_from_reference(folded.network, config, used_values(model), pixels)[0] == 0
    assert len(folded.network.stages) <= len(whole.network.stages)
    assert folded.network.connections <= whole.network.connections
    return whole, folded


BITS = dict(zip(NAMES, (2, 3, 4, 5, 6, 7, 8), strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_every_value_is_torchs_and_the_references(name, seed):
    check(name, seed, stream_bits=BITS[name] if seed else 8)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(2, 20))
def test_every_value_of_many_networks_is_torchs(name, seed):
    check(name, seed, stream_bits=2 + seed % 7)


@pytest.mark.parametrize("domain", ["learned", "signed", "zero", "symmetric", "bnn"])
@pytest.mark.parametrize("padding_value", [0, -1])
def test_domains_and_borders(domain, padding_value):
    first, shortcut = (("real", "duplicate"), ("binary", "real"))[padding_value == 0]
    check(
        "resnet:4,8x1", domain, domain=domain, padding_value=padding_value, first=first,
        shortcut=shortcut, normalise="", xi_bits=4 if domain == "learned" else None,
    )  # fmt: skip


@pytest.mark.parametrize("padding_value", [0, -1])
def test_several_signs_of_a_stream(padding_value):
    _, folded = check(
        "resnet:4,8x1e2", "levels", sign_planes=3, stream_bits=5, padding_value=padding_value
    )
    encodes = [s.operation for s in folded.network.stages if isinstance(s.operation, Encode)]
    assert [encode.thresholds.shape[1] for encode in encodes] == [3, 3]


def test_signs_of_sums_are_neurons_and_what_is_the_same_comes_once():
    whole, folded = check("resnet:4,8x1", "form", shortcut="real")
    kinds = [stage.operation.kind for stage in folded.network.stages]
    assert kinds.count("conv2d") == 2  # the first convolution of each block
    assert not any(isinstance(stage.operation, Conv2d) for stage in whole.network.stages)
    again = folded.network.canonical
    assert [stage.name for stage in again.stages] == [s.name for s in folded.network.stages]
    assert encode(again, names=True)[0] == encode(folded.network, names=True)[0]


# Planted faults


def with_fault(folded, name, change):
    """Return the same network, with one operation changed."""
    stages = [
        replace(stage, operation=change(stage.operation)) if stage.name == name else stage
        for stage in folded.network.stages
    ]
    return replace(folded, network=replace(folded.network, stages=tuple(stages)))


def moved(values, by=1):
    return values + by * (np.arange(len(values)) == len(values) - 1)


FAULTS = {
    "offset": ("layer1_0_bn2_affine", lambda op: replace(op, offsets=moved(op.offsets, 1 << op.shift))),
    "high": ("layer1_0_bn2_affine", lambda op: replace(op, high=op.high - 1)),
    "low": ("layer1_0_bn2_affine", lambda op: replace(op, low=op.low + 1)),
    "shift": ("layer1_0_bn2_affine", lambda op: replace(op, shift=op.shift + 1)),
    "flip": (
        "layer1_0_bn1",
        lambda op: Encode(op.thresholds, ~(np.zeros(op.thresholds.shape, bool) if op.flips is None else op.flips)),
    ),
    "threshold": ("layer1_0_sign1", lambda op: Encode(np.minimum(op.thresholds + 1, 4))),
    "score": ("scores", lambda op: replace(op, offsets=moved(op.offsets))),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_finds_a_fault(fault):
    model, config, pixels = random_model(
        random.Random(5), "resnet:4,8x1", 8, stream_bits=3, domain="zero", xi_bits=None,
        first="binary", normalise="",
    )  # fmt: skip
    folded = fold_model(model, config.shape, drop_unread=False)
    assert check_fold(model, folded, images_of(pixels)).exact
    result = check_fold(model, with_fault(folded, *FAULTS[fault]), images_of(pixels))
    assert not result.exact
    assert result.mismatches > 0
    assert f"stage {FAULTS[fault][0]} differs" in result.first


def test_an_offset_off_by_one_in_the_fold_is_found(monkeypatch):
    """Without a shift, every value that is not clamped shows it."""
    model, config, pixels = random_model(
        random.Random(5), "resnet:4,8x1", 8, stream_bits=8, domain="zero", xi_bits=None,
    )  # fmt: skip
    model.layer1[0].bn2.affine.shift.fill_(0)
    model.layer1[0].bn2.affine.multiplier.fill_(1)
    model.layer1[0].bn2.affine.second.fill_(0)
    model.layer1[0].bn2.affine.offset.fill_(0)
    real = Assembler.affine

    def wrong(self, name, affine, *rest):
        return real(self, name, replace(affine, offsets=moved(affine.offsets)), *rest)

    assert check_fold(model, fold_model(model, config.shape), images_of(pixels)).exact
    monkeypatch.setattr(Assembler, "affine", wrong)
    assert not check_fold(model, fold_model(model, config.shape), images_of(pixels)).exact


# Constants


@pytest.mark.parametrize("seed", range(40))
def test_constants_are_absorbed(seed):
    """Sums, affines, encoders and scores behind constant channels compute what they did."""
    rng = np.random.default_rng(seed)
    channels, side = 4, 4
    plain, absorbing = (Assembler(Edge.of_bits((side, side, channels), 2)) for _ in range(2))
    weights = rng.integers(-2, 3, (3, 9 * 2 * channels))
    pad = rng.integers(0, 2, 2 * channels) if rng.random() < 0.5 else None
    padding = int(rng.integers(0, 2))
    border = "zero" if padding and pad is None and rng.random() < 0.3 else "minus"
    xi, k = ((0, 0), (-1, 1), (3, 2))[rng.integers(3)]
    taps = Taps.from_dense((weights > 0).astype(np.int8))
    fields = {"taps": taps, "xi": xi, "k": k}
    if border == "minus" and rng.random() < 0.5:
        taps = Taps.from_dense((weights != 0).astype(np.int8))
        fields = {"taps": taps, "weights": weights[np.nonzero(weights)]}
    elif not xi:
        fields = {"taps": Taps.from_dense(np.sign(weights).astype(np.int8))}
    sums = Sums(
        **fields, channels=2 * channels, window=Window((3, 3), (1, 1), (padding, padding)),
        border=border, pad=pad if padding else None,
    )  # fmt: skip
    # Two planes for each channel; half of the bits are constant.
    thresholds = np.sort(rng.integers(0, 5, (channels, 2)), axis=1)
    first = Encode(thresholds, rng.random((channels, 2)) < 0.3)
    scale = Affine(
        multipliers=rng.integers(-3, 4, (1, 3)), offsets=rng.integers(-9, 9, 3), shift=1,
        low=-20, high=20,
    )  # fmt: skip
    scores = {}
    for assembler, absorb in ((plain, False), (absorbing, True)):
        at = assembler.add("bits", first, assembler.input)
        if absorb:
            found = assembler.sums(at, "sums", sums)
            at = assembler.affine("affine", scale, found)
            bits = assembler.signs("signs", np.array([-1, 0, 1]), found)
        else:
            found = assembler.add("sums", sums, at)
            at = assembler.add("affine", scale, found)
            t = np.clip([[-1], [0], [1]], found.edge.low, found.edge.high + 1)
            bits = assembler.add("signs", Encode(t), found)
        joined = Affine(multipliers=[[1] * 3, [2] * 3], offsets=[0] * 3, shift=0, low=-50, high=50)
        if absorb:
            at = assembler.affine("join", joined, Summed(at, 1, np.zeros(3, np.int64)), bits)
        else:
            at = assembler.add("join", joined, at, bits)
        at = assembler.add("flatten", Flatten(), at)
        size = at.edge.channels
        made = np.arange(1, 2 * size + 1) % 5 - 2
        made = np.where(made == 0, 3, made)
        last = Scores(
            taps=Taps.from_dense(np.ones((2, size), np.int8)),
            weights=made,
            offsets=np.array([1, -2]),
        )
        if absorb:
            assembler.weighted_scores(at, "scores", last)
        else:
            assembler.add("scores", last, at)
        network = assembler.finish_streams(drop=absorb)
        pixels = np.random.default_rng(seed).integers(0, 4, (20, side, side, channels))
        scores[absorb] = network.compute(pixels).scores
    assert (scores[True] == scores[False]).all()


def test_constants_in_front_of_sums_lose_their_taps():
    assembler = Assembler(Edge.of_bits((2, 2, 2), 1))
    at = assembler.add("bits", Encode(np.array([[0, 1], [1, 2]])), assembler.input)
    assert at.constants.known.tolist() == [True, False, False, True]
    for padding, moved_by, taps in ((0, 9 * 4, 18), (1, 0, 27)):
        window = Window((3, 3), (1, 1), (padding, padding))
        sums = Sums(
            taps=Taps.from_dense(np.ones((1, 36), np.int8)), channels=4, window=window, k=2, xi=-1
        )
        edge = Edge.of_bits((4, 4, 4), 1)
        found = assembler.sums(replace(at, edge=edge), f"sums{padding}", sums)
        operation = assembler._stages[-1].operation
        # A one in front of padding with zeros is not constant.
        assert operation.fixed.tolist() == ([0, 3] if not padding else [3])
        assert operation.connections == taps
        assert found.moved.tolist() == [moved_by - (9 if not padding else 0)]


# Commands and files


AUTHORS = [
    ("resnet18", "cifar10", make_resnet18),
    ("reactnet18", "cifar100", make_reactnet18),
    pytest.param("reactnet_a", "imagenet", make_reactnet_a, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("name", "data", "make"), AUTHORS)
def test_the_authors_files_become_netlists(tmp_path, name, data, make):
    """Their layout, random weights and batch norms: converted, quantised, folded, compared."""
    path = write(tmp_path / "theirs.pth", name, make(2, classes=7))
    checkpoint = convert(path, name, data).checkpoint
    height, width, channels = checkpoint.config.shape
    pixels = np.random.default_rng(3).integers(0, 256, (4, height, width, channels), np.uint8)
    tensor = torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())
    made = quantise(checkpoint, TensorImages(tensor, torch.zeros(4).long()), images=4).checkpoint
    for drop in (False, True):
        folded = fold_model(made.model, made.config.shape, drop_unread=drop)
        result = check_fold(made.model, folded, pixels)
        assert result.exact, result.first
        assert result.values + result.bits > 20_000


def sparse(state, ones):
    """Leave a share of the authors' binary weights above zero."""
    seed = torch.Generator().manual_seed(5)
    for weight in weights_of(state):
        above = torch.rand(weight.shape, generator=seed) < ones
        size = weight.abs().clamp_min(1e-6)  # of millions, some are exactly zero
        weight.copy_(torch.where(above, size, -size))
    return state


FULL = [
    ("resnet18", "cifar10", make_resnet18, 64, 200),
    ("reactnet18", "cifar100", make_reactnet18, 64, 200),
    ("reactnet_a", "imagenet", make_reactnet_a, 32, 4),
]


@pytest.mark.parametrize(
    ("name", "data", "make", "base", "images", "ones"),
    [
        ("resnet18", "cifar10", make_resnet18, 4, 6, 0.05),
        ("reactnet18", "cifar100", make_reactnet18, 4, 6, 0.05),
        *(
            pytest.param(*case, ones, marks=pytest.mark.long)
            for case in FULL
            for ones in (0.01, 0.05, 0.5)
        ),
    ],
)
def test_the_commands_take_the_authors_files(
    tmp_path, capsys, name, data, make, base, images, ones
):
    """From the authors' file to a netlist, by commands, on images with structure."""
    classes = 4
    # Where a random τ is almost zero, ξ is too large for a grid; of this seed none is.
    state = sparse(make(base, classes=classes, seed=2), ones)
    write(tmp_path / "theirs.pth", name, state)
    side = 224 if name == "reactnet_a" else 32
    rng = np.random.default_rng(4)
    coarse = rng.integers(40, 216, (images, side // 8, side // 8, 3)).repeat(8, 1).repeat(8, 2)
    pixels = (coarse + rng.integers(-40, 40, coarse.shape)).astype(np.uint8)
    labels = np.arange(images) % classes
    own = tmp_path / "own.npz"
    np.savez(own, x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    files = {kind: tmp_path / f"a.{kind}.pt" for kind in ("converted", "quantised")}
    for words in (
        ("convert", "--model", tmp_path / "theirs.pth", "--as", name, "--data", data,
         "--out", files["converted"]),
        ("quantise", "--model", files["converted"], "--data", own, "--images", images,
         "--out", files["quantised"]),
        ("fold", "--model", files["quantised"], "--data", own, "--images", images,
         "--out", tmp_path / "a.sbnn", "--json"),
    ):  # fmt: skip
        code, said = run(capsys, *words)
        assert code == 0, said.err
    agreement = json.loads(said.out)["agreement"]
    assert (agreement["images"], agreement["mismatches"], agreement["class_mismatches"]) == (
        images, 0, 0
    )  # fmt: skip
    assert agreement["bits"] > 1000 * images
    assert agreement["values"] > 1000 * images
    assert load(tmp_path / "a.sbnn").input.shape == (side, side, 3)


def test_progress_is_told(checkpoint, tmp_path, capsys, monkeypatch):
    """A line now and then, on stderr; without it, a long comparison would say nothing."""
    from sbnn_hw.commands.common import Progress

    monkeypatch.setattr(Progress, "EVERY", 0.0)
    monkeypatch.setattr("sbnn_hw.train.fold_check._TENSORS", 64 * 4 * 10)
    words = ("fold", "--model", checkpoint, "--out", tmp_path / "a.sbnn", "--data", "digits")
    code, said = run(capsys, *words, "--images", 35)
    assert code == 0, said.err
    assert re.fullmatch(r"comparing with torch\n(\d+ of 35 images, \d+ s left\n){3,}", said.err), (
        said.err
    )
    assert " and 35 classes are those of torch" in said.out


def run(capsys, *words):
    code = main([str(word) for word in words])
    return code, capsys.readouterr()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Return the file of a random network for digits."""
    from sbnn_hw.train.exact import settle
    from sbnn_hw.train.models import ModelConfig, build_model

    torch.manual_seed(2)
    config = ModelConfig(
        "resnet:4,8x1", (8, 8, 1), 10, stream_bits=6, weight_bits=8, domain="learned", xi_bits=4
    )
    model = build_model(config)
    with torch.no_grad():
        for _ in range(3):
            model(torch.randint(0, 256, (50, 1, 8, 8)).float())
    settle(model.eval())
    path = tmp_path_factory.mktemp("streams") / "a.pt"
    save_checkpoint(path, Checkpoint(config, model))
    return path


def test_the_command_says_how_much_was_compared(checkpoint, tmp_path, capsys):
    out = tmp_path / "a.sbnn"
    words = ("fold", "--model", checkpoint, "--out", out, "--data", "digits")
    code, said = run(capsys, *words)
    assert code == 0, said.err
    model = load_checkpoint(checkpoint).model
    whole = fold_model(model, (8, 8, 1), drop_unread=False)
    # Four streams of the blocks and the first, pools and scores; a bit for each sign.
    bits = 360 * (2 * 8 * 8 * 4 + 8 * 8 * 4 + 4 * 4 * 8)
    *_, last = said.out.splitlines()
    assert last.startswith(f"agreement    {bits:,} hidden bits, ")
    assert last.endswith(" values of streams and 360 classes are those of torch (all integers)")
    _, said = run(capsys, *words, "--json")
    agreement = json.loads(said.out)["agreement"]
    sizes = [
        whole.network.edge_from(number).size
        for number, stage in enumerate(whole.network.stages)
        if stage.name in whole.modules and not isinstance(stage.operation, Encode)
    ]
    assert (agreement["bits"], agreement["values"]) == (bits, 360 * sum(sizes))
    # The file is the network, and the other commands take it.
    network = load(out)
    assert network.digest == fold_model(model, (8, 8, 1)).network.digest
    assert network.digest == json.loads(said.out)["digest"]
    found = []
    for using, given in (("torch", checkpoint), ("netlist", checkpoint), ("netlist", out)):
        code, said = run(
            capsys, "eval", "--model", given, "--data", "digits", "--using", using, "--json"
        )
        assert code == 0, said.err
        found.append(json.loads(said.out)["correct"])
    assert found == found[:1] * 3
    # Of the checkpoint, `info` shows the netlist that would be built, and how it was trained.
    shown = []
    for given in (out, checkpoint):
        code, said = run(capsys, "info", "--model", given, "--json")
        assert code == 0, said.err
        shown.append(json.loads(said.out))
    own = {"name", "domain", *STREAMS}
    assert shown[1].keys() - shown[0].keys() == own
    assert {key: shown[1][key] for key in shown[0] if key != "model"} == {
        key: shown[0][key] for key in shown[0] if key != "model"
    }
    code, said = run(capsys, "info", "--model", checkpoint)
    assert code == 0, said.err
    config = load_checkpoint(checkpoint).config
    assert f"\nstreams      {config.stream_bits} bits, {config.shortcut} shortcuts, " in said.out
    assert f"\ndigest       {network.digest}\n" in said.out


def test_the_command_refuses_a_fold_that_differs(checkpoint, tmp_path, capsys, monkeypatch):
    real = Assembler.signs

    def wrong(self, name, thresholds, sums, flips=None):
        return real(self, name, thresholds + (name == "layer1_0_bn1"), sums, flips)

    monkeypatch.setattr(Assembler, "signs", wrong)
    out = tmp_path / "a.sbnn"
    code, said = run(capsys, "fold", "--model", checkpoint, "--out", out, "--data", "digits")
    assert code == 1
    assert "and its netlist differ (image " in said.err
    assert "stage layer1_0_bn1 differs at" in said.err
    assert not out.exists()


def test_own_layers_have_no_integer_streams():
    model, _, _ = random_model(random.Random(1), "resnet:4,8x1")
    with pytest.raises(ModelRejected, match=r"^The model has integer streams, which are trained"):
        check_modules(model)


def test_a_shift_below_that_of_slopes_is_refused():
    model, config, _ = random_model(random.Random(1), "reactnet18")
    model.layer1[0].bn.affine.shift.fill_(3)
    with pytest.raises(
        ModelRejected, match=r"^Layer layer1\.0: its shift of 3 is less than that of"
    ):
        fold_model(model, config.shape)


def test_a_module_that_is_not_run_is_no_agreement(monkeypatch):
    """A planted fault: a block that computes the same without calling its modules."""
    model, config, pixels = random_model(random.Random("bypass"), "resnet:4,8x1", stream_bits=6)
    folded = fold_model(model, config.shape)
    assert check_fold(model, folded, images_of(pixels)).exact
    monkeypatch.setattr(model, "forward", lambda x: run_without(model, "pool", x))
    with pytest.raises(RuntimeError, match=r"Module pool of the model was not run"):
        check_fold(model, folded, images_of(pixels))


def run_without(model, name, x):
    """Run a model, one part of it behind the back of its hooks."""
    for called, module in model.named_children():
        x = module.forward(x) if called == name else module(x)
    return x
