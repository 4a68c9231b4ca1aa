# amaranth: UnusedElaboratable=no
"""Ways through a network that part and meet again: queues that are just long enough."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth import ResetInserter, Signal
from packed import results
from random_networks import random_images, random_taps
from simulated import simulate
from toys import Either

from sbnn_hw.families import find_family
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    MaxPool2d,
    Network,
    Scores,
    Stage,
    Taps,
    Window,
)
from sbnn_hw.rtl_gen import lower as lowering
from sbnn_hw.rtl_gen.cores import core_of
from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.rtl_gen.parts.join import Join, Queue, fit_queues, overflow_name
from sbnn_hw.rtl_gen.parts.window import Scan
from sbnn_hw.sim.agreement import check_agreement
from sbnn_hw.yosys import synthesise

GENERIC = find_family("generic")


def conv(rng, channels, window):
    taps = random_taps(rng, channels, window.size * channels)
    return Conv2d(
        taps=taps, xi=0, k=0, thresholds=np.maximum(1, taps.fan_in // 2)[None],
        flips=rng.random(channels) < 0.3, fixed=[], channels=channels, window=window,
    )  # fmt: skip


SAME = Window((3, 3), padding=(1, 1))
HALF = Window((2, 2), (2, 2))
#: The windows of each way between fork and join; the map's sides.
WAYS = {
    "skip": ([SAME, SAME], [], (5, 6)),
    "other_side": ([], [SAME], (4, 5)),
    "both": ([SAME, Window((5, 5), padding=(2, 2))], [SAME], (6, 5)),
    "half": ([Window((3, 3), (2, 2), (1, 1)), SAME], [HALF], (6, 10)),
    "tiny": ([SAME, SAME, SAME, SAME], [], (2, 2)),
    "without_padding": ([Window((3, 3))], [Window((1, 3)), Window((3, 1))], (6, 7)),
}


def forked(seed, ways):
    """Return a network in which two ways part and meet, and one of them meets the input again."""
    rng = np.random.default_rng(seed)
    left, right, sides = WAYS[ways]
    stages = [Stage("encode", Encode(np.array([[90, 170]])), (-1,))]

    def add(name, operation, *sources):
        stages.append(Stage(name, operation, sources))
        return len(stages) - 1

    ends = []
    for way, windows in (("left", left), ("right", right)):
        at = 0
        for number, window in enumerate(windows):
            pool = window == HALF
            made = MaxPool2d(window, [False, True]) if pool else conv(rng, 2, window)
            at = add(f"{way}{number}", made, at)
        ends.append(at)
    join = add("join", Either(), *ends)
    more = add("more", conv(rng, 2, Window((1, 1))), join)
    # A second join, of a way that waits for one cycle or two only.
    again = add("again", Either(), join, more)
    flat = add("flatten", Flatten(), again)
    edge = Edge.of_bits((*sides, 1), 8, scan="raster")
    size = Network(edge, (*stages, Stage("s", scores(rng, stages, edge), (flat,)))).edge_into(flat)
    return Network(edge, (*stages, Stage("scores", Scores(
        taps=random_taps(rng, 3, size.size), negative=False, shift=0, offsets=[0, 1, 0]),
        (flat,))))  # fmt: skip


def scores(rng, stages, edge):
    """Return scores that read what the last stage hands on."""
    edges = [edge]
    for stage in stages:
        edges.append(stage.operation.infer(*(edges[source + 1] for source in stage.sources)))
    return Scores(
        taps=Taps.from_dense(np.ones((2, edges[-1].size), int)), negative=False, shift=0,
        offsets=[0, 0],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ways", "family"),
    list(zip(WAYS, ["xc7", "ecp5", "ice40", "generic", "ecp5", "xc7"], strict=True)),
)
def test_ways_that_meet_say_what_the_network_computes(ways, family):
    network = forked(1, ways)
    made = generate(network, Options(family=family, levels_per_stage=2))
    pixels = random_images(np.random.default_rng(2), network, 12)
    steady = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert steady.differences == []
    assert steady.values > 0
    assert (steady.latency, steady.interval) == (made.design.latency, made.design.interval)
    for seed in range(3):
        stalled = check_agreement(
            network, made.verilog, made.design, pixels, inside=True, stalls=True, seed=seed
        )
        assert stalled.differences == []


@pytest.mark.parametrize("ways", WAYS)
def test_every_result_appears_without_further_input(ways):
    """Whole images, and any number of pixels of the next one, whether it waits or not."""
    network = forked(1, ways)
    made = generate(network, Options(levels_per_stage=2))
    pixels = random_images(np.random.default_rng(2), network, 5)
    size = made.design.input.beats
    words = [images * size + more for images in (1, 2, 3) for more in range(0, size, 1 + size // 9)]
    for odds in (1.0, 0.6, 0.1):
        found = results(made.design, made.verilog, pixels, words, odds=odds)
        assert found == [(count // size, 0) for count in words], odds
    # Without padding, or where there is time for all windows before the next image's pixels come,
    # nothing waits.
    assert (made.design.input.held == 0) == (ways in ("without_padding", "half"))


def test_a_result_that_waits_for_the_next_image_is_found_out(monkeypatch):
    """A planted fault: no image is held back."""
    network = forked(1, "skip")
    pixels = random_images(np.random.default_rng(2), network, 3)
    monkeypatch.setattr(lowering, "hold_of", lambda *_: None)
    made = generate(network, Options(levels_per_stage=2))
    size = made.design.input.beats
    assert results(made.design, made.verilog, pixels, [size, size + 1]) == [(1, 0), (0, 0)]


@pytest.mark.parametrize("cycles", [1024, 8])
def test_queues_are_long_enough_for_many_small_images(cycles, monkeypatch):
    """More images are on their way at a time than are looked at first, where that are few."""
    monkeypatch.setattr(lowering, "CYCLES", cycles)
    network = forked(1, "tiny")
    made = generate(network, Options(levels_per_stage=1))
    assert made.design.latency > 5 * made.design.input.beats
    pixels = random_images(np.random.default_rng(2), network, 40)
    assert check_agreement(network, made.verilog, made.design, pixels).differences == []


def shortened(monkeypatch, stage):
    """Make the longest queue of a stage one too short."""
    meet = lowering.meet

    def short(name, *rest):
        found = meet(name, *rest)
        if name != stage:
            return found
        ((called, join),) = found.parts.items()
        longest = max(join.queues, key=lambda queue: queue.words)
        queues = [replace(q, words=q.words - 1) if q is longest else q for q in join.queues]
        return replace(found, parts={called: Join(queues)})

    monkeypatch.setattr(lowering, "meet", short)


@pytest.mark.parametrize("ways", ["skip", "other_side", "half"])
def test_a_queue_that_is_one_too_short_is_named(ways, monkeypatch):
    network = forked(1, ways)
    pixels = random_images(np.random.default_rng(2), network, 6)
    shortened(monkeypatch, "join")
    made = generate(network, Options(levels_per_stage=2))
    found = check_agreement(network, made.verilog, made.design, pixels)
    source = {"skip": "encode", "other_side": "encode", "half": "right0"}[ways]
    assert found.overflows[0] == f"stage join for what comes from {source}"
    assert found.differences[0] == (
        f"the queue of stage join for what comes from {source} is too short"
    )


def test_a_skip_over_two_windows_is_two_rows_and_two_pixels_long():
    """And as many cycles as the windows' tables take, and one for the join."""
    width, latency = 16, 5
    pixels = np.arange(4 * width * width)
    scan = Scan(SAME, width, width)
    late = scan.times(scan.times(pixels)) + latency
    join = fit_queues([8, 8], [[pixels, late]], GENERIC)
    assert [queue.depth for queue in join.queues] == [2 * (width + 1) + latency + 1, 1]
    turned = fit_queues([8, 8], [[late, pixels]], GENERIC)
    assert [queue.depth for queue in turned.queues] == [1, 2 * (width + 1) + latency + 1]


def simulated_join(queues, arrivals, *, odds=1.0, seed=0, resets=()):
    """Send numbers through a join; return what it gives when, and which queues are too short.

    A reset comes in some cycles; numbers then start again.
    """
    core = core_of(Join(queues))
    module = core.elaborate(None)
    flags = {
        signal.name: signal for signal in module._driving
        if hasattr(signal, "name") and signal.name.endswith("overflow")
    }  # fmt: skip
    core.elaborate = lambda platform: module
    reset = Signal()
    rng = random.Random(seed)
    given, overflows = [], set()

    async def bench(ctx):
        waiting = [list(enumerate(times)) for times in arrivals]
        cycle = tick = 0
        while cycle < max(max(times) for times in arrivals) + 6:
            if tick in resets:
                ctx.set(reset, 1)
                await ctx.tick()
                ctx.set(reset, 0)
                given.clear()
                waiting, cycle = [list(enumerate(times)) for times in arrivals], 0
            tick += 1
            enable = rng.random() <= odds
            ctx.set(core.enable, enable)
            for source, left in zip(core.inputs, waiting, strict=True):
                comes = bool(left and left[0][1] == cycle)
                ctx.set(source.valid, comes)
                ctx.set(source.payload, left[0][0] % 256 if comes else rng.getrandbits(8))
                if comes and enable:
                    left.pop(0)
            if enable:
                if ctx.get(core.o.valid):
                    given.append((cycle, ctx.get(core.o.payload)))
                cycle += 1
            await ctx.tick()
        overflows.update(name for name, flag in flags.items() if ctx.get(flag))

    simulate(ResetInserter(reset)(core), bench)
    return given, overflows


def random_arrivals(rng, count, leads):
    """Return cycles in which values come, of two inputs of which either may lead."""
    first = np.cumsum(rng.choice([1, 1, 1, 2, 5], count))
    second = np.maximum(first + rng.integers(-leads, leads + 1), 0)
    ways = [np.sort(first), np.maximum.accumulate(second + rng.integers(0, 4, count))]
    # At most one in a cycle.
    return [np.maximum.accumulate(way - np.arange(count)) + np.arange(count) for way in ways]


def test_values_meet_in_order_and_in_time():
    rng = np.random.default_rng(0)
    for seed in range(12):
        arrivals = random_arrivals(rng, 30, int(rng.integers(0, 12)))
        join = fit_queues([8, 8], [arrivals], GENERIC)
        wanted = [(int(time), n | n << 8) for n, time in enumerate(join.meet(arrivals))]
        for odds, resets in ((1.0, ()), (0.5, ()), (0.6, (17, 40))):
            found = simulated_join(join.queues, arrivals, odds=odds, seed=seed, resets=resets)
            assert found == (wanted, set()), (seed, odds, resets)


def test_a_queue_holds_no_more_than_it_must():
    """One place less in any queue, and it says so."""
    rng = np.random.default_rng(1)
    tried = 0
    for seed in range(8):
        arrivals = random_arrivals(rng, 30, 10)
        join = fit_queues([8, 8], [arrivals], GENERIC)
        for number, queue in enumerate(join.queues):
            if queue.words > 1:
                short = [replace(q, words=q.words - 1) if n == number else q
                         for n, q in enumerate(join.queues)]  # fmt: skip
                _, overflows = simulated_join(short, arrivals, seed=seed)
                assert overflow_name(number) in overflows
                tried += 1
    assert tried > 3


def test_a_reset_in_mid_stream_forgets_what_waits():
    network = forked(3, "skip")
    top = Datapath(network, Options())
    reset = Signal()
    pixels = random_images(np.random.default_rng(4), network, 2)
    words = pixels.reshape(2, -1).tolist()
    outcome = network.compute(pixels)
    given = []

    async def bench(ctx):
        ctx.set(top.o.ready, 1)
        for image, cut in ((words[0], 20), (words[1], 7), (words[0], None), (words[1], None)):
            for word in image[:cut]:
                ctx.set(top.i.payload, word)
                ctx.set(top.i.valid, 1)
                _, _, valid, index = await ctx.tick().sample(top.o.valid, top.o.payload.index)
                if valid:
                    given.append(index)
            if cut:
                ctx.set(reset, 1)
                await ctx.tick()
                ctx.set(reset, 0)
        ctx.set(top.i.valid, 0)
        for _ in range(200):
            _, _, valid, index = await ctx.tick().sample(top.o.valid, top.o.payload.index)
            if valid:
                given.append(index)

    simulate(ResetInserter(reset)(top), bench)
    assert given == outcome.classes.tolist()


@pytest.mark.long
@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40"])
def test_what_a_join_takes_is_near_what_yosys_counts(family):
    from sbnn_hw.rtl_gen.verilog import to_verilog

    known = find_family(family)
    part = Join([Queue(24, 40, known), Queue(24, 0, known)])
    counts = synthesise(to_verilog(core_of(part)), family).counts
    assert known.memory.count(counts.cells) == part.cost.blocks
    assert part.cost.tables == pytest.approx(counts.luts, rel=0.4, abs=16)
    assert part.cost.registers == pytest.approx(counts.flip_flops, rel=0.2, abs=6)


def test_chains_have_no_queues():
    network = forked(1, "skip")
    assert {name for name, part in lower(network, Options()).parts.items()
            if isinstance(part, Join)} == {"join_join", "again_join"}  # fmt: skip
