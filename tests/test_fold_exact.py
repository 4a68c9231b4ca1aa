"""Thresholds decide as rationals do: every pair of sums, ties and useless floats included."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold import exact
from sbnn_hw.fold.exact import Norm, Problem, align_scores, compare_with_root, solve


def problem_of(rng, xi, eta, *, classes=2, neurons=3, maximum=1, scale=1.0):
    """Return a random problem; half of the means lie where sums can tie."""
    shape = (classes, neurons)
    tapped = rng.integers(0, 6, shape)
    others = rng.integers(0, 7, shape)
    c_taps, c_inputs = rng.integers(0, 3, shape), rng.integers(0, 3, shape)
    taps, inputs = tapped + c_taps, tapped + others + c_taps + c_inputs
    z = rng.integers(-4, 5, neurons) * float(eta) / 2
    mean = np.where(rng.random(neurons) < 0.5, z, rng.normal(0, 3, neurons)) * scale
    norm = Norm(
        gain=rng.choice([-1.5, -1.0, 0.0, 1.0, 2.0], neurons),
        mean=mean,
        variance=rng.choice([0.0, 3.0, 8.0, 0.37], neurons),
        bias=np.where(rng.random(neurons) < 0.5, 0.0, rng.choice([-1.0, 0.5, 2.0], neurons)),
        eps=1.0,
    )
    return Problem(
        eta=eta, xi=xi, maximum=maximum, norm=norm, taps=taps, inputs=inputs,
        constant_taps=c_taps * maximum, constant_inputs=(c_taps + c_inputs) * maximum,
        most_tapped=tapped * maximum, most_others=others * maximum,
    )  # fmt: skip


def fires(p, c, n, a, b):
    """Decide one pair from the definition of the layer."""
    norm, m = p.norm, p.maximum
    tapped = a + int(p.constant_taps[c, n])
    everything = a + b + int(p.constant_inputs[c, n])
    # Σ w·x with x = (2·value − m)/m
    z_taps = Fraction(2 * tapped - m * int(p.taps[c, n]), m)
    z_all = Fraction(2 * everything - m * int(p.inputs[c, n]), m)
    z = p.eta * z_taps + p.xi * p.eta * z_all
    gain, bias = Fraction(norm.gain[n]), Fraction(norm.bias[n])
    w = Fraction(norm.variance[n]) + Fraction(norm.eps)
    left, right = gain * (z - Fraction(norm.mean[n])), -bias
    # left ≥ right·√w, without the function under test
    if right <= 0 <= left:
        return True
    if left < 0 < right:
        return False
    if left >= 0:
        return left * left >= right * right * w
    return left * left <= right * right * w


def count_differences(p, solution):
    wrong = 0
    for c in range(p.taps.shape[0]):
        for n in range(p.taps.shape[1]):
            for a in range(int(p.most_tapped[c, n]) + 1):
                for b in range(int(p.most_others[c, n]) + 1):
                    value = 2**solution.k * a + solution.xi * (a + b)
                    said = bool((value >= solution.thresholds[c, n]) ^ solution.flips[n])
                    if solution.constants[n] >= 0:
                        said = bool(solution.constants[n])
                    wrong += said != fires(p, c, n, a, b)
    return wrong


XIS = st.one_of(
    st.sampled_from([Fraction(0), Fraction(-1, 2), Fraction(-1, 8), Fraction(3, 4), Fraction(-1)]),
    st.floats(-1.5, 1.5, width=32, allow_subnormal=False)
    .filter(lambda x: abs(x) > 1e-3)
    .map(Fraction),
)
ETAS = st.sampled_from([Fraction(2), Fraction(-2), Fraction(1, 3), Fraction(-0.7), Fraction(0.1)])


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), xi=XIS, eta=ETAS)
def test_every_pair_is_decided_as_by_definition(seed, xi, eta):
    p = problem_of(np.random.default_rng(seed), xi, eta)
    assert count_differences(p, solve(p)) == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), xi=XIS, eta=ETAS)
def test_pixels_of_several_bits_too(seed, xi, eta):
    p = problem_of(np.random.default_rng(seed), xi, eta, classes=1, neurons=2, maximum=7)
    assert count_differences(p, solve(p)) == 0


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), xi=XIS, eta=ETAS)
def test_rationals_alone_and_the_float_filter_agree(seed, xi, eta):
    """With an error bound beyond all use every row is decided by rationals; nothing changes."""
    p = problem_of(np.random.default_rng(seed), xi, eta)
    filtered = solve(p)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_SLACK", 1e300)
        alone = solve(p)
    live = p.norm.gain != 0
    assert np.array_equal(filtered.thresholds[:, live], alone.thresholds[:, live])
    assert np.array_equal(filtered.constants, alone.constants)
    assert (filtered.k, filtered.xi) == (alone.k, alone.xi)
    assert alone.rationals > filtered.rationals or not alone.rationals


def test_rows_in_pieces_are_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    p = problem_of(rng, Fraction(-0.37), Fraction(2), classes=4, neurons=9)
    whole = solve(p)
    monkeypatch.setattr(exact, "_ROWS", 3)
    assert np.array_equal(solve(p).thresholds, whole.thresholds)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e20])
def test_floats_that_overflow_are_decided_by_rationals(scale):
    for seed in range(20):
        p = problem_of(np.random.default_rng(seed), Fraction(-0.3), Fraction(2), scale=scale)
        assert count_differences(p, solve(p)) == 0


def test_products_below_the_normal_numbers_are_decided_by_rationals():
    """Where g·η or b·√(v + ε) has lost its precision, the floats are not believed."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        eta = Fraction(float(10 ** rng.uniform(-155, -145)))
        p = problem_of(rng, Fraction(float(rng.choice([0.0, -0.3]))), eta, classes=1)
        # g·η has a few bits left, and θ, their quotient, still lies among the sums.
        gain = 10 ** (rng.uniform(-323, -321, 3) - np.log10(float(eta)))
        bias = rng.uniform(-8, 8, 3) * (gain * float(eta))
        norm = Norm(gain=gain, mean=np.zeros(3), variance=np.ones(3), bias=bias, eps=0.0)
        p = replace(p, norm=norm)
        assert count_differences(p, solve(p)) == 0


def test_a_xi_below_every_double():
    """Away from ties so small a ξ decides nothing, and the rationals find that."""
    p = problem_of(np.random.default_rng(2), Fraction(-1, 10**400), Fraction(2))
    norm = replace(p.norm, mean=np.full(3, 0.3), gain=np.ones(3), bias=np.zeros(3))
    p = replace(p, norm=norm)
    assert count_differences(p, solve(p)) == 0


def test_a_planted_fault_is_seen():
    """A strict comparison taken for one that is not, or a wrong Ξ, makes differences."""
    faults = {"strict": 0, "threshold": 0}
    for seed in range(40):
        p = problem_of(np.random.default_rng(seed), Fraction(-1, 2), Fraction(2))
        solver = exact._Solver(p)
        solver.strict = ~solver.strict
        faults["strict"] += count_differences(p, solver.solve()) > 0
        good = solve(p)
        moved = replace(good, thresholds=good.thresholds + 1)
        faults["threshold"] += count_differences(p, moved) > 0
    assert faults["strict"] >= 15
    assert faults["threshold"] >= 35


def test_thresholds_are_canonical():
    """C is a value that occurs; never is one above the greatest, always is the least."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = problem_of(rng, Fraction(float(rng.uniform(-0.9, 0.9))), Fraction(2))
        s = solve(p)
        for c in range(2):
            for n in range(3):
                if p.norm.gain[n] == 0:
                    continue
                values = {
                    2**s.k * a + s.xi * (a + b)
                    for a in range(int(p.most_tapped[c, n]) + 1)
                    for b in range(int(p.most_others[c, n]) + 1)
                }
                assert s.thresholds[c, n] in values | {max(values) + 1}


def test_grid_needs_no_more_than_its_own_k():
    for seed in range(30):
        p = problem_of(np.random.default_rng(seed), Fraction(-5, 32), Fraction(2))
        s = solve(p)
        assert s.k <= 5
        assert s.xi % 2 or s.k == 0


def test_a_xi_too_fine_to_be_exact_is_refused_not_rounded():
    """A hair off −1/2, with a tie at −1/2: no integer Ξ of 40 bits tells them apart."""
    norm = Norm(np.ones(1), np.zeros(1), np.ones(1), np.zeros(1), 0.0)
    one = np.ones((1, 1), np.int64)
    p = Problem(
        eta=Fraction(2), xi=Fraction(-1, 2) + Fraction(1, 2**60), maximum=1, norm=norm,
        taps=2 * one, inputs=4 * one, constant_taps=0 * one, constant_inputs=0 * one,
        most_tapped=2 * one, most_others=2 * one,
    )  # fmt: skip
    with pytest.raises(
        ModelRejected, match=r"^no k up to 40 makes ξ = -0\.5 exact; use weights whose"
    ):
        solve(p)


def test_counts_the_decisions():
    p = problem_of(np.random.default_rng(0), Fraction(-1, 4), Fraction(2))
    expected = int(((p.most_tapped + 1) * (p.most_others + 1)).sum())
    assert solve(p).decisions == expected


@pytest.mark.parametrize(
    ("d", "q", "w", "sign"),
    [(3, 1, 9, 0), (3, 1, 8, 1), (3, 1, 10, -1), (-3, -1, 9, 0), (-3, -1, 10, 1), (0, 0, 5, 0),
     (1, -1, 4, 1), (-1, 1, 4, -1), (0, 1, 4, -1), (0, -1, 4, 1), (2, 0, 4, 1)],
)  # fmt: skip
def test_comparison_with_a_root(d, q, w, sign):
    assert compare_with_root(Fraction(d), Fraction(q), Fraction(w)) == sign


SIXTEENTHS = st.integers(-40, 40).map(lambda n: Fraction(n, 16))
OFFSETS = st.lists(st.one_of(SIXTEENTHS, st.floats(-3, 3).map(Fraction)), min_size=2, max_size=4)


@settings(max_examples=150, deadline=None)
@given(offsets=OFFSETS, data=st.data())
def test_scores_keep_every_order_and_tie(offsets, data):
    reach = [data.draw(st.integers(0, 5)) for _ in offsets]
    try:
        m, rounded = align_scores(offsets, reach)
    except ModelRejected:
        return  # finer than any m that is tried; refused, not approximated
    for i in range(len(offsets)):
        for j in range(i):
            for x in range(-reach[i], reach[i] + 1, 2):
                for y in range(-reach[j], reach[j] + 1, 2):
                    exact_order = x + offsets[i] - y - offsets[j]
                    got = 2**m * (x - y) + rounded[i] - rounded[j]
                    assert (exact_order > 0) - (exact_order < 0) == (got > 0) - (got < 0)


def test_scores_take_the_least_shift():
    m, rounded = align_scores([Fraction(0), Fraction(1, 4)], [2, 2])
    # Sums differ by even numbers; a quarter breaks the tie, which m = 0 and 1 cannot say.
    assert (m, rounded) == (2, [0, 1])
    assert align_scores([Fraction(0), Fraction(1)], [2, 2])[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [np.nan]}, r"^its batch norm's mean is nan at neuron 0; train it again$"),
        ({"gain": [np.inf]}, r"^its batch norm's gain is inf at neuron 0; train it again$"),
        ({"variance": [-1.0]}, r"^its batch norm's variance is negative; train it again$"),
        ({"variance": [0.0], "eps": 0.0},
         r"^its batch norm's variance and eps are zero; train it again$"),
    ],
)  # fmt: skip
def test_refuses_numbers_that_mean_nothing(change, message):
    values = {"gain": [1.0], "mean": [0.0], "variance": [1.0], "bias": [0.0], "eps": 1e-5}
    with pytest.raises(ModelRejected, match=message):
        Norm(**(values | change))
