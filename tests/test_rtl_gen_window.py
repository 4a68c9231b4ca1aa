"""Windows of a map: which bits, in which order, and when."""

import numpy as np
import pytest
from simulated import restless, run_core, run_part

from sbnn_hw.errors import ModelRejected
from sbnn_hw.families.generic import GENERIC
from sbnn_hw.netlist import Window
from sbnn_hw.rtl_gen.parts.window import SHORT, Scan, Windows

#: Window, height and width; the last ones are wider than what is kept in registers.
CASES = [
    (Window((1, 1)), 1, 1),
    (Window((2, 2)), 2, 2),
    (Window((3, 2)), 4, 5),
    (Window((3, 3), padding=(1, 1)), 4, 3),
    (Window((5, 3), padding=(2, 1)), 5, 6),
    (Window((2, 2), (2, 2)), 5, 4),
    (Window((3, 3), (2, 3), (1, 0)), 6, 8),
    (Window((1, 3), (1, 2), (0, 1)), 3, 5),
    (Window((2, 1), (3, 1)), 7, 2),
    (Window((3, 3), (2, 2), (1, 1)), 4, SHORT + 3),
    (Window((2, 3)), 3, SHORT + 1),
]

cases = pytest.mark.parametrize(("window", "height", "width"), CASES)


def spread(window, map_, fill=0):
    """Return for each window its values, positions by channels; padding is ``fill``."""
    (above, left), (rows, columns) = window.padding, window.kernel
    padded = np.pad(map_, ((above, above), (left, left), (0, 0)), constant_values=fill)
    down, across = window.output(*map_.shape[:2])
    return np.array([
        padded[r * window.stride[0] :, c * window.stride[1] :][:rows, :columns].reshape(
            window.size, -1
        )
        for r in range(down)
        for c in range(across)
    ])  # fmt: skip


def word(bits):
    return sum(int(bit) << n for n, bit in enumerate(bits))


def make(window, height, width, *, bits=2, seed=0, maps=3):
    """Return windows of some taps, the words of some maps, and the words that must come out."""
    rng = np.random.default_rng(seed)
    every = [(position, bit) for position in range(window.size) for bit in range(bits)]
    count = int(rng.integers(1, len(every) + 1))
    taps = [every[n] for n in rng.choice(len(every), count, replace=False)]
    fill = rng.integers(0, 2, len(taps))
    dut = Windows(Scan(window, height, width), bits, taps, fill=fill.tolist(), family=GENERIC)
    pixels = rng.integers(0, 2, (maps, height, width, bits))
    inside = spread(window, np.ones((height, width, 1), int))[..., 0]
    wanted = []
    for map_ in pixels:
        for values, there in zip(spread(window, map_), inside, strict=True):
            wanted.append(
                word(values[p, b] if there[p] else f for (p, b), f in zip(taps, fill, strict=True))
            )
    return dut, [word(pixel) for pixel in pixels.reshape(-1, bits)], wanted


@cases
def test_windows_are_those_of_numpy_in_order(window, height, width):
    for seed, odds in enumerate((1.0, 0.5, 0.3)):
        dut, words, wanted = make(window, height, width, seed=seed)
        given, _, _ = run_part(dut, words, odds=odds, seed=seed, drain=3 * width + 9)
        assert given == wanted, odds


@cases
@pytest.mark.parametrize("apart", [1, 3])
def test_a_map_by_itself_gives_its_windows_when_it_says(window, height, width, apart):
    dut, words, _ = make(window, height, width, maps=1)
    _, times, arrivals = run_part(dut, words, apart=apart, drain=3 * width + 9)
    assert times == dut.times(np.array(arrivals)).tolist()


@cases
@pytest.mark.parametrize("apart", [1, 3])
def test_windows_are_never_closer_than_the_gap(window, height, width, apart):
    dut, words, _ = make(window, height, width)
    _, times, _ = run_part(dut, words, apart=apart, drain=3 * width + 9)
    assert min(np.diff(times)) == dut.gap(apart)


def test_a_scan_counts_pixels_from_the_first():
    # A window over each pixel of 2×2: complete with the pixel below and to the right of its own.
    scan = Scan(Window((3, 3), padding=(1, 1)), 2, 2)
    assert (scan.first, scan.last, scan.output) == (3, 6, (2, 2))
    assert scan.whens.tolist() == [3, 4, 5, 6]
    # Those over the lower border come by themselves, one in each cycle.
    assert scan.times(np.array([0, 10, 20, 30])).tolist() == [30, 31, 32, 33]
    assert scan.gap(10) == 1


@cases
def test_classes_are_given_behind_the_bits(window, height, width):
    inside = spread(window, np.ones((height, width, 1), int))[..., 0]
    _, classes = np.unique(inside, axis=0, return_inverse=True)
    shape = window.output(height, width)
    classes = classes.reshape(shape)
    dut = Windows(Scan(window, height, width), 1, [(0, 0)], classes=classes, family=GENERIC)
    given, _, _ = run_part(dut, [1] * height * width * 2, odds=0.6, drain=3 * width + 9)
    assert [each >> 1 for each in given] == 2 * classes.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("window", "height", "width"),
    [(Window((3, 3), padding=(2, 2)), 1, 1), (Window((3, 3), padding=(2, 2)), 5, 6)],
)
def test_maps_smaller_than_their_border_are_refused(window, height, width):
    with pytest.raises(
        ModelRejected, match=r"^a window of .* cannot be streamed at one pixel per clock; use less "
    ):
        Scan(window, height, width)


@pytest.mark.parametrize("case", [3, 9])
def test_windows_that_do_not_stop_are_found_out(case):
    dut, words, wanted = make(*CASES[case])
    assert run_core(restless(dut), words, odds=0.5, drain=60)[0] != wanted


def test_padding_that_reads_as_something_else_is_found_out():
    dut, words, wanted = make(*CASES[3])
    dut.fill = [1 - bit for bit in dut.fill]
    assert run_part(dut, words, drain=60)[0] != wanted
