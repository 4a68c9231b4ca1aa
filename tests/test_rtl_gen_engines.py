"""Engines: simulated hardware says what the netlist says, in every bit, cycle and operation."""

import re
from dataclasses import replace

import numpy as np
import pytest
from random_chains import random_chain, random_images
from simulated import simulate

from sbnn_hw.engine import compile_program, fold
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.families import find_family
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.engines.engine import Engine
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.sim.agreement import check_agreement


def check(network, options, pixels, seed=0):
    """Simulate with stalls and without; return the two verdicts."""
    made = generate(network, options)
    return [
        check_agreement(
            network, made.verilog, made.design, pixels, inside=True, stalls=stalls, seed=seed
        )
        for stalls in (False, True)
    ]


def check_random(seed, lanes):
    rng = np.random.default_rng(seed)
    network = random_chain(rng)
    options = Options(
        form="gaps", lanes=lanes, scores=bool(rng.random() < 0.7),
        family=str(rng.choice(["xc7", "ecp5", "ice40", "generic"])),
    )  # fmt: skip
    folded = fold(network, lanes=lanes)
    for verdict in check(network, options, random_images(rng, network, 12), seed):
        assert verdict.equal, (seed, verdict.differences, verdict.first)
        for layer in folded.chain.layers:
            # Connections of neurons that nothing reads are not there.
            unread = int((~layer.needed[layer.taps.neurons]).sum())
            counted = verdict.operations[layer.name]
            assert counted["measured"] == counted["static"] - unread


@pytest.mark.parametrize(("seed", "lanes"), [(0, 2), (1, 1), (7, 16), (6, 4)])
def test_hardware_computes_what_the_network_does(seed, lanes):
    check_random(seed, lanes)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 60))
def test_more_hardware_computes_what_the_network_does(seed):
    check_random(seed, (1, 2, 4, 8, 16)[seed % 5])


def first_with(wanted, lanes=4):
    """Return a random network whose engine is as wanted, and images."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        network = random_chain(rng)
        folded = fold(network, lanes=lanes)
        if wanted(folded.shape):
            return network, random_images(rng, network, 10)
    raise AssertionError("no such network")


FAULTS = {
    # An escape that counts as a tap.
    "escape": (r"(assign escape = )(.*?);", r"\g<1>1'h0;", "lane0"),
    # A start value that loses its sign.
    "start": (r"(assign results = )(.*?);", r"\g<1>~(\g<2>);", "core"),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_in_hardware_are_seen(fault):
    network, pixels = first_with(lambda s: len(s.layers) > 1 and not s.integers and s.depth < 200)
    made = generate(network, Options(form="gaps", lanes=4))
    pattern, changed, _ = FAULTS[fault]
    broken, count = re.subn(pattern, changed, made.verilog)
    assert count
    verdict = check_agreement(network, broken, made.design, pixels, inside=True)
    assert not verdict.equal


def test_a_fault_in_the_product_is_seen():
    network, pixels = first_with(
        lambda s: s.layers[0].counts and len(s.layers) == 2 and s.depth < 200
    )
    folded = fold(network, lanes=4)
    made = generate(network, Options(form="gaps", lanes=4))
    # Ξ is the first word's; the lowest slot comes last.
    row = folded.shape.header_words - 1
    broken = replace(folded.program, slots=folded.program.slots.copy())
    broken.slots[row, 0] ^= 1
    digits = -(-folded.shape.word_bits // 4)
    old, new = (
        f"[{row}] = {folded.shape.word_bits}'h{program.words[row]:0{digits}x};"
        for program in (folded.program, broken)
    )
    assert old in made.verilog
    verdict = check_agreement(
        network, made.verilog.replace(old, new, 1), made.design, pixels, inside=True
    )
    assert not verdict.equal


# Loading


def run_engine(folded, rounds):
    """Run an engine; each round is a program's bytes, if one is loaded, and images."""
    engine = Engine(folded, find_family("generic"))
    found = []

    async def bench(ctx):
        for loaded, images, cut in rounds:
            if loaded is not None:
                ctx.set(engine.program.reset, 1)
                await ctx.tick()
                ctx.set(engine.program.reset, 0)
                for byte in loaded[: len(loaded) if cut is None else cut]:
                    ctx.set(engine.program.byte, byte)
                    ctx.set(engine.program.valid, 1)
                    await ctx.tick()
                ctx.set(engine.program.valid, 0)
                await ctx.tick()
            if cut is not None:
                # Half a program computes nothing, and takes nothing.
                ctx.set(engine.i.valid, 1)
                for _ in range(3 * folded.latency):
                    assert not ctx.get(engine.i.ready)
                    assert not ctx.get(engine.o.valid)
                    await ctx.tick()
                ctx.set(engine.i.valid, 0)
                continue
            ctx.set(engine.o.ready, 1)
            for image in images:
                for value in image.ravel().tolist():
                    ctx.set(engine.i.payload, value)
                    ctx.set(engine.i.valid, 1)
                    await ctx.tick().until(engine.i.ready)
                ctx.set(engine.i.valid, 0)
                (
                    index,
                    scores,
                ) = (
                    await ctx.tick()
                    .sample(engine.o.payload.index, engine.o.payload.scores.as_value())
                    .until(engine.o.valid)
                )
                found.append((index, scores))

    simulate(engine, bench)
    return found


def wanted(network, shape, pixels):
    outcome, bits = network.compute(pixels), shape.score_bits
    packed = [
        sum((int(score) & (1 << bits) - 1) << bits * n for n, score in enumerate(row))
        for row in outcome.scores
    ]
    return list(zip(outcome.classes.tolist(), packed, strict=True))


@pytest.fixture(scope="module")
def pair():
    """Two networks of one shape, and images."""
    from test_engine_program import family_of

    for seed in range(50):
        rng = np.random.default_rng(seed)
        first, second = family_of(rng, inputs=12), family_of(rng, inputs=12)
        folded = fold(first, lanes=2, loadable=True)
        folded = replace(
            folded,
            program=replace(
                folded.program, shape=replace(folded.shape, depth=len(folded.program) + 3)
            ),
        )
        try:
            other = compile_program(second, folded.shape)
        except ModelRejected:
            continue
        return first, second, folded, other, random_images(rng, first, 5)
    raise AssertionError("no such networks")


def test_another_program_is_loaded(pair):
    first, second, folded, other, pixels = pair
    own = folded.program.to_bytes()
    found = run_engine(
        folded, [(None, pixels, None), (other.to_bytes(), pixels, None), (own, pixels, None)]
    )
    shape = folded.shape
    assert found == [
        each for network in (first, second, first) for each in wanted(network, shape, pixels)
    ]
    assert wanted(first, shape, pixels) != wanted(second, shape, pixels)


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_half_a_program_computes_nothing(pair, cut):
    _, second, folded, other, pixels = pair
    loaded = other.to_bytes()
    found = run_engine(
        folded,
        [(None, pixels[:1], None), (loaded, pixels, cut % len(loaded)), (loaded, pixels, None)],
    )
    assert found[1:] == wanted(second, folded.shape, pixels)


# What is refused


def test_options_of_programs_are_checked():
    with pytest.raises(UsageError, match="must be one of 1, 2, 4, 8, 16, 32, not 5"):
        Options(form="gaps", lanes=5)
    with pytest.raises(UsageError, match="are for programs"):
        Options(lanes=4)
