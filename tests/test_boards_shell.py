# amaranth: UnusedElaboratable=no
"""The shell, simulated: every packet gets its answer, or an error, or silence; never another's."""

import hashlib
import random

import numpy as np
import pytest
from designs import described
from random_networks import random_images, random_map_network, random_vector_network
from shells import CLOCK_HZ, DIVISOR, Talk, make_rig, small_network

from sbnn_hw.boards.protocol import (
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
from sbnn_hw.errors import ModelRejected
from sbnn_hw.images import random_images as noise_images
from sbnn_hw.rtl_gen.verilog import to_verilog

#: Cycles after which a line is quiet enough for the board to listen anew.
QUIET = PATIENCE * DIVISOR + 2000


@pytest.fixture(scope="module")
def rig():
    """Return a board for small images: packets are short, and tests fast."""
    return make_rig(small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4))


@pytest.fixture(scope="module")
def images(rig):
    return noise_images(rig.network, 64)


@pytest.fixture
def talk(rig):
    line = rig.line()
    yield Talk(line)
    line.close()


def counters(talk):
    (packet,) = talk.ask(Command.COUNTERS, 999)
    assert (packet.kind, packet.number) == (Answer.COUNTS, 999)
    return Counters.from_bytes(packet.payload)


def test_says_who_it_is(rig, talk):
    (packet,) = talk.ask(Command.IDENTIFY, 0xBEEF)
    assert (packet.kind, packet.number) == (Answer.IDENTITY, 0xBEEF)
    identity = Identity.from_bytes(packet.payload)
    assert identity.network == rig.network.digest
    assert identity.wire == rig.wire
    assert (identity.clock_hz, identity.baud_divisor, identity.batch) == (CLOCK_HZ, DIVISOR, 16)


@pytest.mark.parametrize("count", [1, 2, 15, 16])
def test_classifies_one_and_many(rig, talk, images, count):
    part = images[:count]
    (packet,) = talk.ask(Command.CLASSIFY, count, part.tobytes())
    assert packet == Packet(Answer.RESULTS, count, rig.results(part))
    assert counters(talk).images == count
    # Lights: life first, then the class, lowest bits first.
    assert talk.line.lights >> 1 == int(rig.network.compute(part).classes[-1])


def test_packets_back_to_back_are_answered_in_order(rig, talk, images):
    starts = [0, 5, 6, 20, 33, 34, 35, 49]
    stream = b"".join(
        pack(REQUEST, Command.CLASSIFY, n, images[a:b].tobytes())
        for n, (a, b) in enumerate(zip(starts, [*starts[1:], 64], strict=True))
    )
    found = talk.send(stream, 60_000)
    answers = {packet.number: packet for packet in found}
    done = 0
    for n, (a, b) in enumerate(zip(starts, [*starts[1:], 64], strict=True)):
        if n in answers:
            assert answers[n] == Packet(Answer.RESULTS, n, rig.results(images[a:b]))
            done += b - a
    counts = counters(talk)
    assert (counts.images, counts.errors) == (done, len(starts) - len(found))
    assert len(found) >= 4


def test_long_images_leave_time_for_every_answer(images):
    rig = make_rig(small_network((8, 8, 1), hidden=(8,), classes=4, fan_in=5))
    talk = Talk(rig.line())
    pixels = noise_images(rig.network, 40)
    stream = b"".join(
        pack(REQUEST, Command.CLASSIFY, n, pixels[n : n + 1].tobytes()) for n in range(40)
    )
    found = talk.send(stream, 60_000)
    assert found == [Packet(Answer.RESULTS, n, rig.results(pixels[n : n + 1])) for n in range(40)]
    assert counters(talk) == Counters(40, counters(talk).busy, 0)


def test_busy_counts_the_cycles_in_which_images_are_under_way(rig, talk, images):
    talk.ask(Command.CLASSIFY, 1, images[:1].tobytes())
    one = counters(talk).busy
    talk.ask(Command.CLASSIFY, 2, images[:3].tobytes())
    assert counters(talk).busy == 4 * one
    least = rig.design.latency + 2 * rig.wire.image_bytes
    assert least <= one <= least + rig.wire.result_bytes + 10


def test_every_damaged_byte_is_refused_and_the_next_packet_answered(rig, images):
    good = pack(REQUEST, Command.CLASSIFY, 7, images[:2].tobytes())
    after = pack(REQUEST, Command.CLASSIFY, 8, images[2:3].tobytes())
    talk = Talk(rig.line())
    errors = 0
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1 << at % 8
        found = talk.send(bytes(damaged), QUIET)
        # The first byte lost is no packet at all; the others are refused, one way or other.
        assert [packet.kind for packet in found] == ([] if at == 0 else [Answer.REFUSED])
        errors += bool(found)
        assert talk.send(after, 20_000) == [Packet(Answer.RESULTS, 8, rig.results(images[2:3]))]
    counts = counters(talk)
    assert (counts.images, counts.errors) == (len(good), errors)


def reasons(found):
    return [Reason(p.payload[0]) for p in found if p.kind == Answer.REFUSED]


def test_each_reason_is_told(rig, talk, images):
    one = images[:1].tobytes()
    wrong = bytearray(pack(REQUEST, Command.CLASSIFY, 1, one))
    wrong[-1] ^= 1
    for data, reason in [
        (bytes(wrong), Reason.CHECK),
        (pack(REQUEST, Command.CLASSIFY, 2), Reason.LENGTH),
        (pack(REQUEST, Command.CLASSIFY, 3, one + b"x"), Reason.LENGTH),
        (pack(REQUEST, Command.CLASSIFY, 4, 17 * one), Reason.LENGTH),
        (pack(REQUEST, Command.CLASSIFY, 5, bytes(1 << 16)), Reason.LENGTH),
        (pack(REQUEST, Command.IDENTIFY, 6, b"x"), Reason.LENGTH),
        (pack(REQUEST, 9, 7), Reason.COMMAND),
        (pack(REQUEST, Command.CLASSIFY, 8, one)[:-1], Reason.SILENCE),
        (pack(REQUEST, Command.CLASSIFY, 9, one)[:3], Reason.SILENCE),
    ]:
        found = talk.send(data, QUIET)
        assert reasons(found) == [reason], data[:12]
        # Before its number has come, a packet has none.
        assert len(data) < 7 or found[0].number == data[2]
    assert talk.ask(Command.CLASSIFY, 10, one)[0].payload == rig.results(images[:1])


def test_nothing_but_broken_bytes_and_the_board_comes_back(rig, images):
    line = rig.line(noise=1.0)  # Every bit turned round: nothing but broken bytes.
    noisy = Talk(line)
    noisy.send(pack(REQUEST, Command.CLASSIFY, 1, images[:1].tobytes()), QUIET)
    line.noise = 0.0
    line.run(b"", QUIET)
    noisy.parser.clear()
    assert noisy.ask(Command.CLASSIFY, 2, images[:1].tobytes()) == [
        Packet(Answer.RESULTS, 2, rig.results(images[:1]))
    ]


def fuzz(rig, images, seed, rounds):
    """Send packets good and bad, at any pace; return wrong answers, how many, whether it lives."""
    rng = random.Random(seed)
    talk = Talk(rig.line(seed=seed))
    sent, wrong = {}, []
    answered = 0
    for number in range(rounds):
        first, count = rng.randrange(48), rng.randrange(1, 17)
        part = images[first : first + count]
        data = bytearray(pack(REQUEST, Command.CLASSIFY, number, part.tobytes()))
        sent[number] = rig.results(part)
        match rng.randrange(6):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                data[0:0] = rng.randbytes(rng.randrange(30))
            case 3:
                at = rng.randrange(len(data))
                data[at:at] = rng.randbytes(rng.randrange(1, 4))
        pause = rng.choice([0, 0, 500, 5_000, QUIET])
        for packet in talk.send(bytes(data), pause):
            if packet.kind == Answer.RESULTS:
                answered += 1
                if packet.payload != sent.get(packet.number):
                    wrong.append(packet)
    talk.line.run(b"", QUIET)
    talk.parser.clear()
    found = talk.ask(Command.IDENTIFY, 77)
    return wrong, answered, [packet.number for packet in found] == [77]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_nothing_is_answered_wrongly_and_nothing_hangs(rig, images, seed):
    wrong, answered, alive = fuzz(rig, images, seed, 250)
    assert alive
    assert not wrong
    assert answered > 60


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_whatever_comes_for_long(rig, images, seed):
    wrong, answered, alive = fuzz(rig, images, seed, 2000)
    assert alive
    assert not wrong
    assert answered > 500


def test_a_shell_that_does_not_look_at_the_check_is_found_out(images):
    network = small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4)
    rig = make_rig(
        network, edit=[(r"assign match_detected = .*==.*;", "assign match_detected = 1'b1;")]
    )
    assert fuzz(rig, images, 0, 250)[0]


def test_a_shell_that_forgets_nothing_is_found_out(images):
    # Results of a packet that was refused then answer for the next one.
    network = small_network((3, 4, 1), hidden=(6,), classes=4, fan_in=4)
    rig = make_rig(network, edit=[(r"forget <= [^;]*;", "forget <= 1'b0;")])
    wrong, _, alive = fuzz(rig, images, 0, 250)
    assert wrong or not alive


@pytest.mark.parametrize("seed", range(4))
def test_networks_of_all_kinds_answer_as_their_software(seed):
    rng = np.random.default_rng(seed)
    make = random_map_network if seed % 2 else random_vector_network
    for _ in range(20):
        network = make(rng)
        try:
            rig = make_rig(network, input="pixel" if seed == 2 else "auto")
            break
        except ModelRejected:
            continue
    talk = Talk(rig.line())
    pixels = random_images(rng, network, 12)
    for first in range(0, 12, 4):
        part = pixels[first : first + 4]
        found = talk.ask(Command.CLASSIFY, first, part.tobytes(), 60_000)
        assert found == [Packet(Answer.RESULTS, first, rig.results(part))]


def test_values_of_more_than_a_byte_take_two():
    from sbnn_hw.netlist import Edge, Encode, Network, Stage

    plain = small_network((2, 2, 1), hidden=(4,), classes=2, fan_in=2)
    encode = Stage("encode", Encode(np.array([[700]])), (-1,))
    network = Network(Edge.of_bits((2, 2, 1), 10, scan="raster"), (encode, *plain.stages[1:]))
    rig = make_rig(network)
    assert rig.wire.image_bytes == 8
    pixels = np.random.default_rng(0).integers(0, 1024, (6, 2, 2, 1))
    found = Talk(rig.line()).ask(Command.CLASSIFY, 3, pixels.astype("<u2").tobytes())
    assert found == [Packet(Answer.RESULTS, 3, rig.results(pixels))]


def test_the_text_of_a_shell_on_a_uart_is_pinned(monkeypatch):
    """Another line beside it must not change a byte of it; a change that is meant to changes this."""
    monkeypatch.setattr("sbnn_hw.boards.shell.shell.__version__", "0")
    shell = Shell(described((28, 28, 1), score_bits=10), divisor=33, clock_hz=10**8, leds=4)
    digest = hashlib.sha256(to_verilog(shell, "shell").encode()).hexdigest()
    assert digest == "74b9ca76ec57a8ed3f19ad355d00b4e72aabbfbe9ef2420bcccb5089489212c9"


def test_what_a_shell_cannot_serve_is_refused():
    with pytest.raises(
        ModelRejected,
        match=r"^An image of 50,331,648 bytes is too long for the board's packets; build for a part "
        r"\(--part\), and use its AXI4-Stream interface$",
    ):
        Shell(described((4096, 4096, 3)), divisor=8, clock_hz=1)
    with pytest.raises(
        ModelRejected,
        match=r"^Results of 126 bytes after 10 cycles, for images of 1 bytes, are more than the board's shell can handle; build without scores \(--no-scores\), or for a part "
        r"\(--part\)$",
    ):
        Shell(described((1, 1, 1), classes=100, score_bits=10), divisor=8, clock_hz=1)
    with pytest.raises(ModelRejected, match=r"^Results of 1 bytes after 9,999 cycles, for images"):
        Shell(described((4, 4, 1), latency=9999), divisor=8, clock_hz=1)
    Shell(described((4, 4, 1), latency=999), divisor=8, clock_hz=1)
