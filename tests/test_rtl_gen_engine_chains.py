"""Engines of gap codes: hardware and software say the same, and faults are seen."""

from unittest.mock import patch

import numpy as np
import pytest
from amaranth import Const, Module, Mux
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from packed import Pack
from random_chains import random_chain, random_images
from random_networks import random_map_network

from sbnn_hw.engine import fold
from sbnn_hw.errors import ModelRejected, UsageError
from sbnn_hw.rtl_gen.datapath import Datapath
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.engines import gaps
from sbnn_hw.rtl_gen.engines.lane import Lane
from sbnn_hw.rtl_gen.lower import lower
from sbnn_hw.rtl_gen.options import Options
from sbnn_hw.sim.agreement import check_agreement

LANES = (1, 2, 4, 8, 16)


def random_engine(seed):
    """Return a random chain, and a random engine for it."""
    rng = np.random.default_rng(seed)
    options = Options(
        family=str(rng.choice(["xc7", "ecp5", "ice40", "generic"])), form="gaps",
        lanes=int(rng.choice(LANES)), scores=bool(rng.random() < 0.8),
    )  # fmt: skip
    return random_chain(rng, largest=20), options


def find(wish, *, largest=12, **how):
    """Return the first random chain whose shape is as wished, its options and some images."""
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        network = random_chain(rng, largest=largest)
        options = Options(form="gaps", **how)
        shape = fold(network, lanes=options.lanes).shape
        if shape.depth < 300 and shape.inputs < 80 and wish(shape):
            return network, options, random_images(rng, network, 12)
    raise AssertionError("no such chain")


class Buffered(wiring.Component):
    """A network with a register in front: engines look at a word before they take it."""

    def __init__(self, network):
        self.network = network
        self.lowered, self.options = network.lowered, network.options
        self.beats, self.latency = network.beats, network.latency
        super().__init__(network.signature)

    def elaborate(self, platform):
        m = Module()
        inner = m.submodules.network = self.network
        m.d.comb += self.i.ready.eq(~inner.i.valid | inner.i.ready)
        with m.If(self.i.ready):
            m.d.sync += [inner.i.valid.eq(self.i.valid), inner.i.payload.eq(self.i.payload)]
        wiring.connect(m, inner.o, wiring.flipped(self.o))
        return m


def packed(pairs, hardware=None):
    """Return engines side by side."""
    found = hardware or [Datapath(network, options) for network, options in pairs]
    return Pack(pairs, hardware=[Buffered(each) for each in found])


def differing(seeds):
    """Return the seeds whose hardware does not say what the network does, with or without stalls."""
    pack = packed([random_engine(seed) for seed in seeds])
    wrong = {*pack.differing(), *pack.differing(ready_odds=0.6, valid_odds=0.7, seed=1)}
    return [seeds[n] for n in sorted(wrong)]


def test_random_chains_agree_with_software_with_and_without_stalls():
    assert differing(range(16)) == []


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 600, 50))
def test_hundreds_of_random_chains_agree_with_software(first):
    assert differing(range(first, first + 50)) == []


#: What each engine that is looked into has.
KINDS = {
    "counted": (lambda shape: len(shape.layers) > 2 and shape.layers[0].counts
                and shape.layers[1].counts, 4),
    "signed, one lane": (lambda shape: len(shape.layers) > 1 and shape.signed, 1),
    "integers": (lambda shape: shape.integers and len(shape.layers) > 1, 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_inside_and_every_cycle_is_as_computed(kind):
    wish, lanes = KINDS[kind]
    network, options, pixels = find(wish, lanes=lanes)
    made = generate(network, options)
    plain = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert plain.equal
    assert plain.operations_equal
    assert plain.values
    # An image alone, and images that follow each other.
    assert (plain.latency, plain.interval) == (made.design.latency, made.design.interval)
    assert check_agreement(
        network, made.verilog, made.design, pixels, inside=True, stalls=True, seed=3
    ).equal


# Faults


class Faulty(Datapath):
    """An engine with a fault in one of its methods."""

    def __init__(self, network, options, where, name, fault):
        super().__init__(network, options)
        self._fault = where, name, fault

    def elaborate(self, platform):
        where, name, fault = self._fault
        with patch.object(where, name, fault(getattr(where, name))):
            return Fragment.get(super().elaborate(platform), platform)


def without_escapes(elaborate):
    """Every code is a tap: that which only moves is read as the one below it."""

    def faulty(lane, platform):
        slot, bits = lane.slot, lane._shape.gap_bits
        lane.slot = Mux(slot[:bits].all(), slot ^ 1, slot)
        m = elaborate(lane, platform)
        lane.slot = slot
        return m

    return faulty


def other_threshold(add):
    """The start value's lowest bit of weight is lost."""

    def faulty(lane, m, found):
        head, unit = lane.head, lane._shape.unit
        lane.head = head & ~(1 << unit)
        add(lane, m, found)
        lane.head = head

    return faulty


def without_polarity(read):
    return lambda lane, m, position, inverted: read(lane, m, position, Const(0))


def without_q(count):
    return lambda *arguments: None


def always_the_first(give):
    """The class is the first one, whatever was ranked."""

    def faulty(core, m, ranking):
        index = ranking.index
        ranking.index = Const(0, len(index))
        give(core, m, ranking)
        ranking.index = index

    return faulty


FAULTS = {
    "escape": (Lane, "elaborate", without_escapes),
    "threshold": (Lane, "_add", other_threshold),
    "polarity": (Lane, "_read", without_polarity),
    "q": (gaps.GapsCore, "_count", without_q),
    "argmax": (gaps.GapsCore, "_give", always_the_first),
}


def test_each_fault_is_seen_and_nothing_else():
    network, options, _ = find(
        lambda shape: len(shape.layers) > 1 and shape.signed and shape.layers[0].counts, lanes=2
    )
    program = fold(network, lanes=2).program
    escape = (1 << program.shape.gap_bits) - 1
    assert (program.slots & escape == escape).any()
    hardware = [Datapath(network, options)]
    hardware += [Faulty(network, options, *fault) for fault in FAULTS.values()]
    pack = packed([(network, options)] * len(hardware), hardware)
    assert pack.differing() == list(range(1, len(hardware)))


# Behind what is unrolled


def heads(seeds):
    """Yield networks with windows whose last stages are an engine's, and options."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        network = random_map_network(rng)
        options = Options(form="gaps", lanes=int(rng.choice(LANES)))
        if lower(network, options).chosen:
            yield network, options, random_images(rng, network, 6)


@pytest.mark.parametrize(("network", "options", "pixels"), [*heads(range(2))])
def test_windows_in_front_of_an_engine(network, options, pixels):
    made = generate(network, options)
    plain = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert plain.equal
    assert plain.operations_equal
    assert (plain.latency, plain.interval) == (made.design.latency, made.design.interval)
    assert check_agreement(
        network, made.verilog, made.design, pixels, inside=True, stalls=True, seed=3
    ).equal


@pytest.mark.long
@pytest.mark.parametrize("first", range(10, 50, 10))
def test_many_windows_in_front_of_engines(first):
    for network, options, pixels in heads(range(first, first + 10)):
        made = generate(network, options)
        for stalls in (False, True):
            assert check_agreement(
                network, made.verilog, made.design, pixels, inside=True, stalls=stalls
            ).equal


def test_folding_from_an_unknown_stage_is_refused():
    network = random_map_network(np.random.default_rng(0))
    with pytest.raises(UsageError, match="has no stage 'other' to fold from"):
        lower(network, Options(form="gaps", lanes=4, folded="other"))
    first = network.stages[1].name
    with pytest.raises(ModelRejected, match="an engine computes linear layers and scores"):
        lower(network, Options(form="gaps", lanes=4, folded=first))
