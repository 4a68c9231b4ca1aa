# amaranth: UnusedElaboratable=no
"""Loading, simulated: a board has a whole program, or it classifies nothing.

Toys answer by every byte of their program, so half a program gives a wrong answer. The small engine
is the real thing.
"""

import hashlib
import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth import ClockDomain, Module
from conftest import ROOT
from loads import Toy, identity, make_toy, toy_design
from shells import DIVISOR, Talk, make_rig, small_network
from simulated import simulate, stub

from sbnn_hw.boards.protocol import (
    DIGEST_BYTES,
    OVERHEAD,
    PATIENCE,
    REQUEST,
    Answer,
    Command,
    Counters,
    Identity,
    Packet,
    Reason,
    pack,
)
from sbnn_hw.boards.shell import Shell
from sbnn_hw.boards.shell.loader import Loader
from sbnn_hw.engine import compile_program, fold
from sbnn_hw.errors import ModelRejected
from sbnn_hw.images import random_images
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Linear, Taps

#: Cycles after which a line is quiet enough for the board to listen again.
QUIET = PATIENCE * DIVISOR + 2000

#: Bytes of a packet in front of its payload.
HEAD = OVERHEAD - 4

IMAGES = np.random.default_rng(0).integers(0, 256, (16, 8, 4, 1)).astype(np.uint8)


@pytest.fixture(scope="module")
def toy():
    return make_toy(40)


def digest_of(program):
    """Return the digest that a toy's network has."""
    return hashlib.sha256(program).digest()


def load_packet(number, program, digest=None):
    return pack(REQUEST, Command.LOAD, number, (digest or digest_of(program)) + program)


def other_program(seed, size=40):
    return random.Random(seed).randbytes(size)


def refusals(found):
    return [Reason(packet.payload[0]) for packet in found if packet.kind == Answer.REFUSED]


def test_answers_are_right_before_and_after_each_load(toy):
    talk = Talk(toy.line())
    part = IMAGES.tobytes()
    assert identity(talk).network == toy.network
    assert talk.ask(Command.CLASSIFY, 1, part) == [Packet(Answer.RESULTS, 1, toy.results(IMAGES))]
    # Two in a row, and the first one again.
    for number, program in enumerate([other_program(1), other_program(2), toy.program], 2):
        assert talk.send(load_packet(number, program), 5000) == [Packet(Answer.LOADED, number)]
        said = identity(talk)
        assert (said.network, said.program.loaded) == (digest_of(program).hex(), True)
        found = talk.ask(Command.CLASSIFY, 9, part)
        assert found == [Packet(Answer.RESULTS, 9, toy.results(IMAGES, program))]
    (packet,) = talk.ask(Command.COUNTERS, 8)
    counts = Counters.from_bytes(packet.payload)
    assert (counts.images, counts.errors) == (64, 0)


def test_loads_back_to_back_leave_the_last_one(toy):
    talk = Talk(toy.line())
    stream = b"".join(load_packet(n, other_program(n)) for n in range(4))
    assert talk.send(stream, QUIET) == [Packet(Answer.LOADED, n) for n in range(4)]
    found = talk.ask(Command.CLASSIFY, 9, IMAGES[:3].tobytes())
    assert found == [Packet(Answer.RESULTS, 9, toy.results(IMAGES[:3], other_program(3)))]


def has_none(talk, image):
    """Return whether a board tells all that ask that it has no program, and answers the rest."""
    refused = talk.ask(Command.CLASSIFY, 77, image.tobytes())
    (counts,) = talk.ask(Command.COUNTERS, 78)
    return (
        not identity(talk).program.loaded
        and refused == [Packet(Answer.REFUSED, 77, bytes([Reason.PROGRAM]))]
        and counts.kind == Answer.COUNTS
    )


class Swap:
    """A board that is loaded with one of two networks and then with the other.

    ``programs`` and ``digests`` are theirs, and ``results`` the answers for ``images``. The board
    was built with the first.
    """

    def __init__(self, line, programs, digests, images, results):
        self.talk = Talk(line)
        self.programs, self.digests = programs, digests
        self.images, self.results = images, results
        self.now = 0

    def packet(self, which):
        return load_packet(300, self.programs[which], self.digests[which])

    def is_right(self):
        """Return whether the board has the network that it should have, and answers so."""
        said = identity(self.talk)
        found = self.talk.ask(Command.CLASSIFY, 5, self.images.tobytes())
        return (said.program.loaded, bytes.fromhex(said.network), found) == (
            *(True, self.digests[self.now]),
            [Packet(Answer.RESULTS, 5, self.results[self.now])],
        )

    def try_to(self, data, begun):
        """Send a load that is not whole. If its payload has ``begun``, recover by another one."""
        found = self.talk.send(data, QUIET)
        assert Answer.LOADED not in [packet.kind for packet in found]
        if begun:
            assert has_none(self.talk, self.images[:1])
            self.now = 1 - self.now
            found = self.talk.send(self.packet(self.now), 5000)
            assert found == [Packet(Answer.LOADED, 300)]
        assert self.is_right()


def swap_toys(toy):
    programs = [toy.program, other_program(5, len(toy.program))]
    return Swap(
        toy.line(), programs, [bytes.fromhex(toy.network), digest_of(programs[1])], IMAGES[:2],
        [toy.results(IMAGES[:2], program) for program in programs],
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    """Return the board of an engine for small images."""
    network = small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4)
    return make_rig(network, form="gaps", lanes=4, loadable=True)


def swap_engines(rig, other):
    shape = fold(rig.network, lanes=4, loadable=True).shape
    networks = [rig.network, other]
    images = random_images(rig.network, 8)
    outcomes = []
    for network in networks:
        rig.network = network
        outcomes.append(rig.results(images))
    rig.network = networks[0]
    programs = [compile_program(network, shape).to_bytes() for network in networks]
    digests = [bytes.fromhex(network.digest) for network in networks]
    return Swap(rig.line(), programs, digests, images, outcomes)


@pytest.fixture
def swap(engine):
    other = small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4, seed=7)
    return swap_engines(engine, other)


def test_an_engine_answers_for_both_of_its_networks(swap):
    assert swap.results[0] != swap.results[1]
    assert len(swap.programs[0]) <= 200
    for _ in range(2):
        assert swap.is_right()
        swap.now = 1 - swap.now
        swap.talk.send(swap.packet(swap.now), 5000)
    assert swap.is_right()


def test_a_load_that_is_cut_off_anywhere_leaves_no_program_and_the_next_one_recovers(swap):
    for size in range(1, len(swap.packet(0))):
        swap.try_to(swap.packet(1 - swap.now)[:size], begun=size > HEAD)


def test_a_load_that_is_damaged_anywhere_leaves_no_program_and_the_next_one_recovers(swap):
    for at in range(len(swap.packet(0))):
        data = bytearray(swap.packet(1 - swap.now))
        data[at] ^= 1 << at % 8
        # Without its start it is no packet, and one of another kind or length is refused at once.
        swap.try_to(bytes(data), begun=at in (2, 3) or at >= HEAD)


def test_bytes_too_many_or_too_few_leave_no_program(swap):
    rng = random.Random(0)
    for _ in range(6):
        data = swap.packet(1 - swap.now)
        at = rng.randrange(HEAD + 1, len(data) - 4)
        swap.try_to(data[:at] + data[at + 1 :], begun=True)
        data = swap.packet(1 - swap.now)
        swap.try_to(data[:at] + bytes([rng.randrange(256)]) + data[at:], begun=True)


def test_another_length_is_refused_and_the_program_stays(toy):
    swap = swap_toys(toy)
    program = other_program(3)
    for wrong in (program[:-1], program + b"x", b"", program * 2, bytes(1 << 16)):
        found = swap.talk.send(load_packet(7, wrong), QUIET)
        assert refusals(found) == [Reason.LENGTH]
        assert swap.is_right()
    assert refusals(swap.talk.send(pack(REQUEST, Command.LOAD, 7), QUIET)) == [Reason.LENGTH]
    assert swap.is_right()


def test_images_under_way_are_answered_rightly_or_refused():
    # A result takes longer than the head of the next packet.
    toy = make_toy(40, pace=30)
    talk = Talk(toy.line())
    now, kinds = toy.program, set()
    for number in range(60):
        program = other_program(number)
        images = IMAGES[: 1 + number % 3]
        stream = pack(REQUEST, Command.CLASSIFY, number, images.tobytes())
        # The load begins at any moment of the answer.
        first = talk.send(stream, 37 * number)
        found = first + talk.send(load_packet(500, program), 5000)
        assert found[-1] == Packet(Answer.LOADED, 500)
        assert found[:-1] in (
            [Packet(Answer.RESULTS, number, toy.results(images, now))],
            [Packet(Answer.REFUSED, number, bytes([Reason.PROGRAM]))],
        )
        kinds.add(found[0].kind)
        now = program
        found = talk.ask(Command.CLASSIFY, 501, IMAGES[:2].tobytes())
        assert found == [Packet(Answer.RESULTS, 501, toy.results(IMAGES[:2], now))]
    assert kinds == {Answer.RESULTS, Answer.REFUSED}


def fuzz(toy, seed, rounds):
    """Load and classify, well and badly, at any pace; return wrong answers, how many were right.

    A load that was not answered may have arrived all the same.
    """
    rng = random.Random(seed)
    talk = Talk(toy.line(seed=seed))
    digests = {bytes.fromhex(toy.network): toy.program}
    possible, allowed = [toy.program], {}
    wrong, right, loaded = [], 0, {}
    for number in range(rounds):
        kind = rng.choice([Command.LOAD, Command.CLASSIFY, Command.CLASSIFY, Command.IDENTIFY])
        if kind == Command.LOAD:
            program = rng.randbytes(len(toy.program))
            digests[digest_of(program)] = loaded[number] = program
            data = bytearray(load_packet(number, program))
            possible.append(program)
        elif kind == Command.CLASSIFY:
            part = IMAGES[rng.randrange(8) :][: rng.randrange(1, 6)]
            data = bytearray(pack(REQUEST, kind, number, part.tobytes()))
            allowed[number] = [toy.results(part, program) for program in possible if program]
        else:
            data = bytearray(pack(REQUEST, kind, number))
        match rng.randrange(9):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                at = rng.randrange(len(data))
                data[at:at] = rng.randbytes(rng.randrange(1, 4))
        pause = rng.choice([0, 500, 5_000, QUIET, QUIET])
        for packet in talk.send(bytes(data), pause):
            if packet.kind == Answer.LOADED:
                wrong += [packet] * (packet.number not in loaded)
                possible = [loaded.get(packet.number)]
            elif packet.kind == Answer.RESULTS:
                good = packet.payload in allowed.get(packet.number, ())
                right += good
                wrong += [packet] * (not good)
            elif packet.kind == Answer.IDENTITY:
                said = Identity.from_bytes(packet.payload)
                known = digests.get(bytes.fromhex(said.network))
                wrong += [packet] * (said.program.loaded and known not in possible)
    talk.line.run(b"", QUIET)
    talk.parser.clear()
    alive = identity(talk).wire == toy.wire
    return wrong, right, alive


@pytest.mark.parametrize("seed", range(2))
def test_whatever_comes_no_answer_is_of_half_a_program(toy, seed):
    wrong, right, alive = fuzz(toy, seed, 300)
    assert alive
    assert not wrong
    assert right > 30


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_whatever_comes_for_long(toy, seed):
    wrong, right, alive = fuzz(toy, seed, 3000)
    assert alive
    assert not wrong
    assert right > 300


#: Faults in the text of a shell.
FAULTS = {
    "loaded too early": (r"loaded <= (\\\$\d+ );", r"loaded <= \1 | program__valid;"),
    "never unloaded": (r"loaded <= (\\\$\d+ );", "loaded <= 1'b1;"),
    "digest not changed": (r"assign named = .*;", "assign named = 1'b0;"),
    "not reset": (r"\.program__reset\(program__reset\)", ".program__reset(1'b0)"),
    "no check": (r"assign match_detected = .*==.*;", "assign match_detected = 1'b1;"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_shell_with_a_fault_is_found_out(fault):
    wrong, _, alive = fuzz(make_toy(40, edit=[FAULTS[fault]]), 0, 300)
    assert wrong or not alive


def test_a_reset_of_the_board_does_not_make_half_a_program_a_whole_one():
    """The memories of a board keep what they have, and so does what is known of them."""
    m = Module()
    m.domains.sync = domain = ClockDomain()
    listener = stub(load=1, byte=8, accepted=1, refused=1, command=8, loaded=1)
    core = stub(reset=1, valid=1, byte=8)
    loader = Loader()
    loader.add_to(m, listener, type("Core", (), {"program": core}))
    seen = []

    async def bench(ctx):
        async def reset():
            ctx.set(domain.rst, 1)
            await ctx.tick()
            ctx.set(domain.rst, 0)
            await ctx.tick()

        async def send(count):
            ctx.set(listener.load, 1)
            await ctx.tick().repeat(count)
            ctx.set(listener.load, 0)
            await ctx.tick()

        await reset()
        seen.append((ctx.get(loader.loaded), ctx.get(core.reset)))
        await send(DIGEST_BYTES + 5)
        seen.append((ctx.get(loader.loaded), ctx.get(core.reset)))
        await reset()
        seen.append((ctx.get(loader.loaded), ctx.get(core.reset)))
        await send(DIGEST_BYTES + 8)
        ctx.set(listener.accepted, 1)
        ctx.set(listener.command, Command.LOAD)
        await ctx.tick()
        ctx.set(listener.accepted, 0)
        await reset()
        seen.append((ctx.get(loader.loaded), ctx.get(core.reset)))

    simulate(m, bench)
    assert seen == [(1, 0), (0, 0), (0, 1), (1, 0)]


def test_a_program_that_no_packet_holds_is_refused():
    with pytest.raises(
        ModelRejected,
        match=r"^A program of 16,777,184 bytes is too long for the board's packets; build without "
        r"--loadable$",
    ):
        Shell(toy_design((1 << 24) - 32, pace=0), divisor=8, clock_hz=1)


def test_toys_are_told_apart_by_every_byte(toy):
    assert isinstance(toy, Toy)
    for at in range(len(toy.program)):
        changed = bytearray(toy.program)
        changed[at] ^= 1
        assert toy.results(IMAGES[:1], bytes(changed)) != toy.results(IMAGES[:1])


@pytest.mark.long
def test_a_load_of_a_shipped_plan_that_is_cut_off_leaves_no_program_and_the_next_one_recovers():
    network = open_network(ROOT / "models/mnist_sfc_98.pt")
    # Another network of the same plan: classes in another order, and a layer turned round.
    stages = list(network.stages)
    first = next(n for n, stage in enumerate(stages) if isinstance(stage.operation, Linear))
    layer, scores = stages[first].operation, stages[-1].operation
    taps = scores.taps
    dense = np.zeros((len(taps), network.edge_from(len(stages) - 2).size), np.int8)
    dense[len(taps) - 1 - taps.neurons, taps.indices] = np.where(taps.inverted, -1, 1)
    stages[first] = replace(stages[first], operation=replace(layer, flips=~layer.flips))
    turned = replace(scores, taps=Taps.from_dense(dense), offsets=scores.offsets[::-1].copy())
    stages[-1] = replace(stages[-1], operation=turned)
    other = replace(network, stages=tuple(stages))
    swap = swap_engines(make_rig(network, form="gaps", lanes=4, loadable=True), other)
    assert swap.results[0] != swap.results[1]
    assert swap.is_right()
    whole = len(swap.packet(0))
    rng = random.Random(0)
    for size in sorted({HEAD + 1, whole - 4, whole - 1, *rng.sample(range(HEAD + 1, whole), 47)}):
        swap.try_to(swap.packet(1 - swap.now)[:size], begun=True)
