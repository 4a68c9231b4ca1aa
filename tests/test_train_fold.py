"""The fold is exact: random models, ties and borders included, against rational arithmetic."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import DOMAINS, random_convnet, random_mlp, random_pixels
from torch import nn

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Layer, Network
from sbnn_hw.train import fold_model
from sbnn_hw.train.fold import flat_modules
from sbnn_hw.train.fold_check import check_fold
from sbnn_hw.train.layers import (
    InputEncoder,
    SignActivation,
    SparseBinaryConv2d,
    SparseBinaryLinear,
    SparseBinaryScores,
)
from sbnn_hw.train.norm import BatchNorm


def differences(model, network, modules, pixels):
    """Count the hidden bits and classes on which the network and the oracle differ."""
    outcome = network.compute(pixels, keep=tuple(modules))
    absent = {stage.name: set(stage.absent.tolist()) for stage in network.stages}
    wrong = 0
    names = [name for name, _ in flat_modules(model)]
    for image in range(len(pixels)):
        signs, scores = oracle.run(model, pixels[image])
        for name, module in modules.items():
            index = names.index(module)
            if index not in signs:
                continue
            want = signs[index]
            if want.ndim == 3:
                want = want.transpose(1, 2, 0)
            got = outcome.values[name][image].astype(bool)
            kept = [c for c in range(got.shape[-1]) if c not in absent[name]]
            wrong += int((got[..., kept] != want[..., kept]).sum())
        best = next(i for i, score in enumerate(scores) if score == max(scores))
        wrong += int(outcome.classes[image] != best)
        wrong += order_of(scores) != order_of(outcome.scores[image].tolist())
    return wrong


def order_of(scores):
    """Return how every pair of scores compares."""
    return [[(a > b) - (a < b) for a in scores] for b in scores]


@pytest.mark.parametrize("drop_unread", [True, False])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("kind", [random_mlp, random_convnet])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_equals_rational_arithmetic(kind, domain, drop_unread, seed):
    rng = np.random.default_rng(seed)
    model, shape = kind(rng, domain, density=float(rng.choice([0.05, 0.3, 0.6, 1.0])))
    folded = fold_model(model, shape, drop_unread=drop_unread)
    pixels = random_pixels(rng, shape, 3)
    assert differences(model, folded.network, folded.modules, pixels) == 0


@pytest.mark.long
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("kind", [random_mlp, random_convnet])
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_equals_rational_arithmetic_at_length(kind, domain, seed):
    rng = np.random.default_rng(seed)
    model, shape = kind(rng, domain, density=float(rng.choice([0.05, 0.3, 0.6, 1.0])))
    folded = fold_model(model, shape)
    assert differences(model, folded.network, folded.modules, random_pixels(rng, shape, 3)) == 0


def test_planted_faults_are_seen():
    """A threshold off by one must show, where some input reaches it."""
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model, shape = random_mlp(rng, "zero", density=0.6)
        folded = fold_model(model, shape)
        pixels = random_pixels(rng, shape, 8)
        stages = list(folded.network.stages)
        for number, stage in enumerate(stages):
            layer = stage.operation
            if isinstance(layer, Layer) and layer.connections:
                low, high = layer.reach(folded.network.edge_into(number))
                moved = np.where(layer.thresholds <= high, layer.thresholds + 1, low)
                stages[number] = replace(stage, operation=replace(layer, thresholds=moved))
                break
        faulty = Network(folded.network.input, tuple(stages))
        seen += differences(model, faulty, folded.modules, pixels) > 0
    assert seen >= 6


def hidden(layer, norm):
    """Return a model of one hidden layer behind a threshold encoder, for images of 1×1×inputs."""
    inputs = layer.weight.shape[1]
    scores = SparseBinaryScores(len(layer.weight), 2, domain="bnn")
    model = nn.Sequential(
        InputEncoder("threshold", [128]), nn.Flatten(), layer, norm, SignActivation(), scores
    )
    return model.eval(), (1, 1, inputs)


def wired(weights, domain="bnn", **options):
    """Return a linear layer with the given signs."""
    weights = torch.tensor(weights, dtype=torch.float32)
    layer = SparseBinaryLinear(weights.shape[1], weights.shape[0], domain=domain, **options)
    with torch.no_grad():
        layer.weight.copy_(weights)
    return layer


def norm_of(gain, mean, var, bias, eps=0.0):
    norm = BatchNorm(len(gain), eps=eps)
    with torch.no_grad():
        for name, values in (
            ("weight", gain), ("running_mean", mean), ("running_var", var), ("bias", bias),
        ):  # fmt: skip
            getattr(norm, name).copy_(torch.tensor(values))
    return norm


def all_bits(inputs):
    """Return every input of so many bits, as images."""
    bits = (np.arange(2**inputs)[:, None] >> np.arange(inputs)) & 1
    return (bits * 255).astype(np.uint8).reshape(-1, 1, 1, inputs)


@pytest.mark.parametrize("gain", [1.0, -1.0])
@pytest.mark.parametrize("tau", [1.0, -1.0])
def test_ties_fire_whatever_the_signs(gain, tau):
    """At y = 0 exactly a neuron fires, for either sign of g and of η."""
    layer = wired([[1, 1, 1, -1]], domain="symmetric")
    with torch.no_grad():
        layer.domain.tau.fill_(tau)
    # z takes the values −4, −2, 0, 2, 4; the mean lies on one of them.
    model, shape = hidden(layer, norm_of([gain], [2.0 * tau], [1.0], [0.0]))
    folded = fold_model(model, shape, drop_unread=False)
    pixels = all_bits(4)
    assert differences(model, folded.network, folded.modules, pixels) == 0
    fired = folded.network.compute(pixels, keep=["linear0"]).values["linear0"].sum()
    # Of the sixteen sums, those ≥ 2 number 5 and those ≤ 2 number 15.
    assert fired == (5 if gain * tau > 0 else 15)


def test_a_tie_through_the_root_fires():
    """g·(z − μ) + b·√(v + ε) = 0 is decided by squaring, not by floats."""
    # √(v + ε) = √2·something is irrational; with v + ε = 9 it is 3, and z = μ − 3b/g ties.
    model, shape = hidden(
        wired([[1, 1, 1]], domain="bnn"), norm_of([1.0], [0.0], [9.0], [-1.0])
    )  # z ≥ 3, which only all ones reach, exactly
    folded = fold_model(model, shape, drop_unread=False)
    fired = folded.network.compute(all_bits(3), keep=["linear0"]).values["linear0"]
    assert fired.ravel().tolist() == [0] * 7 + [1]
    assert sum(report.rationals for report in folded.reports) > 0


def test_zero_gain_is_a_constant():
    layer = wired([[1, -1], [-1, 1], [1, 1]])
    model, shape = hidden(layer, norm_of([0.0, 0.0, 1.0], [0.0] * 3, [1.0] * 3, [0.5, -0.5, 0.0]))
    folded = fold_model(model, shape, drop_unread=False)
    assert folded.reports[0].constants == 2
    values = folded.network.compute(all_bits(2), keep=["linear0"]).values["linear0"]
    assert values[:, 0].all()
    assert not values[:, 1].any()
    first = folded.network.stages[2].operation
    assert first.taps.fan_in.tolist()[:2] == [0, 0]


def test_constants_are_propagated_but_untapped_inputs_still_count_in_q():
    """A constant-1 input lowers C by Ξ, and by 2^k more where tapped; others stay in pc_N."""
    first = wired([[1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    second = wired([[1, 1, -1], [-1, 1, -1]])
    scores = SparseBinaryScores(2, 2, domain="bnn")
    model = nn.Sequential(
        InputEncoder("threshold", [128]), nn.Flatten(),
        first, norm_of([0.0, 1.0, 1.0], [0.0] * 3, [1.0] * 3, [1.0, 0.0, 0.0]), SignActivation(),
        second, norm_of([1.0, 1.0], [0.5, 0.5], [1.0, 1.0], [0.0, 0.0]), SignActivation(), scores,
    ).eval()  # fmt: skip
    folded = fold_model(model, (1, 1, 3), drop_unread=False)
    layer = folded.network.stages[3].operation
    assert layer.fixed.tolist() == [0]
    assert layer.taps.indices.tolist() == [1, 1]
    assert (layer.xi, layer.k) == (-1, 1)
    # Input 2 is tapped by nobody, yet the sum over all inputs holds it.
    assert layer.counted_inputs(folded.network.edge_into(3)) == 2
    assert differences(model, folded.network, folded.modules, all_bits(3)) == 0


def test_reports_the_least_k_off_the_grid_and_its_proofs():
    layer = wired([[1, 1, -1, -1, -1, -1]], domain="learned")
    with torch.no_grad():
        layer.domain.tau.fill_(0.7)
        layer.domain.phi.fill_(0.63)
    model, shape = hidden(layer, norm_of([1.0], [0.1], [1.0], [0.0]))
    report = fold_model(model, shape, drop_unread=False).reports[0]
    assert report.decisions == 3 * 5  # pc_S in 0…2, the others in 0…4
    layer_xi = layer.domain.exact().xi
    assert round(layer_xi * 2**report.k) == report.xi
    # No smaller k decides the same: checked by brute force over all thresholds.
    fires = {}
    for a in range(3):
        for b in range(5):
            z = 2 * Fraction(layer.domain.tau.item()) * (
                (2 * a - 2) + layer_xi * (2 * (a + b) - 6)
            )  # fmt: skip
            fires[a, b] = z >= Fraction(torch.tensor(0.1).item())
    for k in range(report.k):
        xi = round(layer_xi * 2**k)
        inside = [2**k * a + xi * (a + b) for (a, b), f in fires.items() if f]
        outside = [2**k * a + xi * (a + b) for (a, b), f in fires.items() if not f]
        assert max(outside) >= min(inside)


def test_unread_neurons_are_not_built():
    """With ξ = 0 a neuron that nobody taps is dropped, and said so."""
    first = wired([[1, -1], [1, 1]], domain="zero")
    scores = wired([[1, -1], [1, -1]], domain="zero")
    model = nn.Sequential(
        InputEncoder("threshold", [128]), nn.Flatten(), first,
        norm_of([1.0, 1.0], [0.5, 0.5], [1.0, 1.0], [0.0, 0.0]), SignActivation(), scores,
    ).eval()  # fmt: skip
    folded = fold_model(model, (1, 1, 2))
    assert folded.reports[0].absent == 1
    assert folded.network.stages[2].absent.tolist() == [1]
    assert folded.network.connections == 1 + 2
    assert fold_model(model, (1, 1, 2), drop_unread=False).network.connections == 3 + 2


def test_border_classes_of_zero_padding():
    """3×3 with zero padding on a large map has nine classes, with padding −1 one."""
    for value, classes in ((0, 9), (-1, 1)):
        conv = SparseBinaryConv2d(1, 2, 3, padding=1, padding_value=value, domain="bnn")
        model = nn.Sequential(
            InputEncoder(), conv, BatchNorm(2), SignActivation(), nn.Flatten(),
            SparseBinaryScores(2 * 25, 2, domain="bnn"),
        ).eval()  # fmt: skip
        layer = fold_model(model, (5, 5, 1)).network.stages[1].operation
        assert layer.thresholds.shape == (classes, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m[2].weight.data.fill_(float("nan")),
         r"^Layer 2: its weights are not finite; train it again$"),
        (lambda m: m[2].domain.tau.data.fill_(0.0),
         r"^Layer 2: η is zero, so all its weights are equal; train it again$"),
        (lambda m: m[2].domain.phi.data.fill_(float("inf")),
         r"^Layer 2: φ is inf; train it again with a lower learning rate$"),
        (lambda m: m[3].running_var.fill_(float("nan")),
         r"^Layer 2: its batch norm's variance is nan at neuron 0; train it again$"),
        (lambda m: m[3].bias.data.fill_(float("inf")),
         r"^Layer 2: its batch norm's bias is inf at neuron 0; train it again$"),
        (lambda m: m[3].running_var.fill_(-1.0),
         r"^Layer 2: its batch norm's variance is negative; train it again$"),
        (lambda m: m[5].offset.data.fill_(float("nan")),
         r"^Layer 5: its offsets are not finite; train it again$"),
    ],
)  # fmt: skip
def test_names_the_layer_that_cannot_be_folded(change, message):
    model = nn.Sequential(
        InputEncoder(), nn.Flatten(), SparseBinaryLinear(4, 3), BatchNorm(3), SignActivation(),
        SparseBinaryScores(3, 2),
    ).eval()  # fmt: skip
    change(model)
    with pytest.raises(ModelRejected, match=message):
        fold_model(model, (2, 2, 1))


def test_refuses_unknown_layers_and_orders_by_name():
    def refuse(match, *modules):
        with pytest.raises(ModelRejected, match=match):
            fold_model(nn.Sequential(*modules).eval(), (2, 2, 1))

    refuse(r"^Layer 2 is a ReLU, which cannot be folded here; use the layers of sbnn_hw\.train$",
           InputEncoder(), nn.Flatten(), nn.ReLU())  # fmt: skip
    refuse(r"^Layer 2 is a real-valued linear layer, for which no hardware is generated yet ",
           InputEncoder(), nn.Flatten(), nn.Linear(4, 2))  # fmt: skip
    refuse(r"^The first layer must be an InputEncoder, not Flatten$", nn.Flatten())
    refuse(r"^Layer 3, a ReLU, is between 2 and its sign, where only",
           InputEncoder(), nn.Flatten(), SparseBinaryLinear(4, 3), nn.ReLU())  # fmt: skip
    refuse(r"^Layer 3 gives the scores of 2 a different scale for each class, which cannot",
           InputEncoder(), nn.Flatten(), SparseBinaryLinear(4, 3), BatchNorm(3))  # fmt: skip
    refuse(r"^Layer 2: it takes 5 inputs, but receives \(4,\)$",
           InputEncoder(), nn.Flatten(), SparseBinaryLinear(5, 3), SignActivation(),
           SparseBinaryScores(3, 2))  # fmt: skip
    with pytest.raises(ModelRejected, match=r"^The model must be an nn\.Sequential to be folded"):
        fold_model(nn.Linear(2, 2), (2, 2, 1))


def test_same_model_same_bytes_and_names_outside_the_digest():
    from sbnn_hw.netlist import to_bytes

    model, shape = random_mlp(np.random.default_rng(5), "learned")
    one, two = fold_model(model, shape).network, fold_model(model, shape).network
    assert to_bytes(one) == to_bytes(two)
    renamed = [replace(stage, name=f"x_{stage.name}") for stage in one.stages]
    assert Network(one.input, tuple(renamed)).digest == one.digest


def test_complements_have_one_form():
    """A signed neuron and the flipped one with all its taps inverted are one netlist."""
    one = wired([[1.0, -1.0, 1.0]], domain="signed")
    other = wired([[-1.0, 1.0, -1.0]], domain="signed")
    for layer in (one, other):
        layer.cut.fill_(0.5)
    a, shape = hidden(one, norm_of([1.0], [0.0], [1.0], [0.0]))
    b, _ = hidden(other, norm_of([-1.0], [0.0], [1.0], [0.0]))
    b[-1].load_state_dict(a[-1].state_dict())
    assert fold_model(a, shape).network.digest == fold_model(b, shape).network.digest


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("kind", [random_mlp, random_convnet])
def test_agreement_check_lists_close_calls_and_finds_no_difference(kind, domain):
    """The check that users run agrees with the oracle, ties decided by rationals."""
    close = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        model, shape = kind(rng, domain)
        folded = fold_model(model, shape)
        result = check_fold(model, folded, random_pixels(rng, shape, 20))
        assert result.exact, (seed, result.first)
        close += len(result.close)
    assert close > 0


def test_tied_classes_are_decided_by_rationals():
    """Two classes with the same taps and offsets always tie; the first wins, and it is listed."""
    scores = wired([[1.0, -1.0], [1.0, -1.0], [-1.0, -1.0]])
    model = nn.Sequential(InputEncoder("threshold", [128]), nn.Flatten(), scores).eval()
    result = check_fold(model, fold_model(model, (1, 1, 2)), all_bits(2))
    assert result.exact
    assert {stage for stage, *_ in result.close} == {"scores"}


def test_agreement_counts_only_what_it_compares():
    first = wired([[1, -1], [1, 1]], domain="zero")
    scores = wired([[1, -1], [1, -1]], domain="zero")
    norm = norm_of([1.0, 1.0], [0.5, 0.5], [1.0, 1.0], [0.0, 0.0])
    model = nn.Sequential(
        InputEncoder("threshold", [128]), nn.Flatten(), first, norm, SignActivation(), scores
    ).eval()
    for drop, neurons in ((True, 1), (False, 2)):
        folded = fold_model(model, (1, 1, 2), drop_unread=drop)
        assert check_fold(model, folded, all_bits(2)).bits == 4 * neurons


def test_agreement_check_turns_red_on_a_planted_fault():
    rng = np.random.default_rng(3)
    model, shape = random_mlp(rng, "zero", density=0.6)
    folded = fold_model(model, shape)
    stages = list(folded.network.stages)
    number = next(n for n, s in enumerate(stages) if isinstance(s.operation, Layer))
    layer = stages[number].operation
    flipped = replace(layer, flips=~layer.flips)
    stages[number] = replace(stages[number], operation=flipped)
    faulty = replace(folded, network=Network(folded.network.input, tuple(stages)))
    result = check_fold(model, faulty, random_pixels(rng, shape, 20))
    assert not result.exact
    assert result.first.startswith(f"image 0: stage {stages[number].name} differs at ")
