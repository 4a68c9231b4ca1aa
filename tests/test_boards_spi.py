# amaranth: UnusedElaboratable=no
"""The shell behind SPI: every bit at the highest rate, frames, fillers, and both drivers over it."""

import time

import numpy as np
import pytest
from c_driver import OK, Board, load_driver
from shells import CLOCK_HZ, small_network
from spi_line import make_spi_rig

from sbnn_hw.boards.clocks import SPI_DIVISOR
from sbnn_hw.boards.driver import Link
from sbnn_hw.boards.protocol import (
    ANSWER,
    IDLE,
    REQUEST,
    Answer,
    Command,
    Counters,
    Identity,
    Reason,
    pack,
)

FILL = bytes([IDLE])


@pytest.fixture(scope="module")
def rig():
    return make_spi_rig(small_network((8, 8, 1)))


@pytest.fixture
def master(rig):
    master = rig.master()
    yield master
    master.close()


def pixels_of(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 1)).astype(np.uint8)


# The line


@pytest.mark.parametrize("period", [8, 8.003, 8.13, 9.99, 12.5, 61.7])
def test_every_bit_arrives_up_to_an_eighth_of_the_clock(rig, period):
    """Whatever the phase, though pins and wires take a clock: it drifts by all of one or more."""
    assert SPI_DIVISOR == 8
    master = rig.master(period=period)
    pixels = pixels_of(16)
    (answer,) = master.ask(Command.IDENTIFY, 1)
    identity = Identity.from_bytes(answer.payload)
    assert (identity.network, identity.wire) == (rig.network.digest, rig.wire)
    assert (identity.clock_hz, identity.baud_divisor) == (CLOCK_HZ, SPI_DIVISOR)
    (answer,) = master.ask(Command.CLASSIFY, 2, pixels.tobytes())
    assert (answer.kind, answer.number) == (Answer.RESULTS, 2)
    assert answer.payload == rig.results(pixels)
    (answer,) = master.ask(Command.COUNTERS, 3)
    counters = Counters.from_bytes(answer.payload)
    assert (counters.images, counters.errors) == (16, 0)
    assert master.lights >> 1 == rig.network.compute(pixels).classes[-1] & 7
    master.close()


def test_a_faster_clock_is_too_fast(rig):
    """So the test above would notice a bit that comes late."""
    master = rig.master(period=7)
    assert master.ask(Command.IDENTIFY, 1) == []
    master.close()


def test_an_answer_has_no_filler_in_it_and_nothing_but_filler_around_it(master):
    assert not master.ready
    sent = pack(REQUEST, Command.COUNTERS, 7)
    assert master.transfer(sent) == FILL * len(sent)
    answer = pack(ANSWER, Answer.COUNTS, 7, bytes(12))
    assert master.listen() == answer
    assert not master.ready
    assert master.transfer(FILL * 5) == FILL * 5
    # In the same frame as the question.
    came = master.transfer(pack(REQUEST, Command.COUNTERS, 7) + FILL * 40)
    assert came.strip(FILL) == answer


def test_an_answer_may_be_read_in_pieces(master):
    master.transfer(pack(REQUEST, Command.COUNTERS, 7))
    master.wait(100)
    came = b""
    while master.ready:
        came += master.transfer(FILL)
        master.wait(33)
    assert came == pack(ANSWER, Answer.COUNTS, 7, bytes(12))


def test_an_answer_waits_until_it_is_read(master):
    master.transfer(pack(REQUEST, Command.IDENTIFY, 7))
    master.wait(1_000_000)
    assert master.ready
    (answer,) = master.parser.feed(master.listen())
    assert answer.kind == Answer.IDENTITY


def test_an_answer_raises_ready_once(master):
    """It can be an interrupt: it does not fall before the last byte is being read."""
    master.transfer(pack(REQUEST, Command.COUNTERS, 7))
    master.wait(100)
    for _ in range(11 + 12 - 1):
        assert master.ready
        master.transfer(FILL, bits=1, keep=True)
        assert master.ready
        master.transfer(FILL, bits=7, keep=True)
    assert master.ready
    master.transfer(FILL, bits=1, keep=True)
    assert not master.ready


def test_the_board_lets_go_of_the_wire_unless_it_is_selected(master):
    assert not master.drives
    master.transfer(FILL, keep=True)
    assert master.drives
    master.select(False)
    master.wait(2)
    assert not master.drives


def test_bits_count_from_the_selection(master):
    for bits in range(1, 8):
        master.transfer(b"\xa5", bits=bits)
        (answer,) = master.ask(Command.COUNTERS, bits)
        assert (answer.kind, answer.number) == (Answer.COUNTS, bits)


def refusal(packets, number, reason):
    (packet,) = packets
    assert packet.kind == Answer.REFUSED
    assert (packet.number, packet.payload) == (number, bytes([reason]))


@pytest.mark.parametrize("cut", [8, 20, 74])
def test_a_packet_that_is_cut_off_is_refused_at_once(rig, master, cut):
    pixels = pixels_of(1)
    whole = pack(REQUEST, Command.CLASSIFY, 5, pixels.tobytes())
    master.transfer(whole[:cut])
    refusal(master.parser.feed(master.listen(clocks=300)), 5, Reason.SILENCE)
    (answer,) = master.ask(Command.CLASSIFY, 6, pixels.tobytes())
    assert answer.payload == rig.results(pixels)
    # The very next frame counts; the refusal is read while it is sent.
    master.transfer(whole[:cut])
    refused, answer = master.parser.feed(master.transfer(whole) + master.listen())
    refusal([refused], 5, Reason.SILENCE)
    assert answer.payload == rig.results(pixels)
    counters = Counters.from_bytes(master.ask(Command.COUNTERS, 7)[0].payload)
    assert (counters.images, counters.errors) == (2, 2)


@pytest.mark.parametrize("pulse", [2, 3, 8])
def test_a_clock_too_many_spoils_one_packet_at_most(rig, master, pulse):
    """As a glitch on SCK makes it: all later bits are shifted, until the board is deselected."""
    pixels = pixels_of(1)
    whole = pack(REQUEST, Command.CLASSIFY, 5, pixels.tobytes())
    for at in range(0, len(whole), 3):
        came = master.transfer(whole[:at], keep=True)
        master.period = pulse
        master.transfer(FILL, bits=1, keep=True)
        master.period = SPI_DIVISOR
        came += master.transfer(whole[at:]) + master.listen(clocks=300)
        packets = master.parser.feed(came)
        # The refusal of a header comes in the same frame, where its bits are shifted too.
        assert [packet.kind for packet in packets] == [Answer.REFUSED] * (at > 6)
        (answer,) = master.ask(Command.CLASSIFY, 6, pixels.tobytes())
        assert answer.payload == rig.results(pixels)


@pytest.mark.parametrize("clocks", [1, 2, 5])
def test_a_board_that_is_let_go_for_a_moment_spoils_one_packet_at_most(rig, master, clocks):
    """As a glitch on CS makes it: what comes behind it is another frame."""
    pixels = pixels_of(1)
    whole = pack(REQUEST, Command.CLASSIFY, 5, pixels.tobytes())
    for at in range(1, len(whole), 3):
        came = master.transfer(whole[:at], keep=True)
        master.period = 2 * clocks
        master.select(False)
        master.period = SPI_DIVISOR
        came += master.transfer(whole[at:]) + master.listen(clocks=300)
        packets = master.parser.feed(came)
        assert packets
        assert {packet.kind for packet in packets} == {Answer.REFUSED}
        assert packets[0].payload == bytes([Reason.SILENCE])
        (answer,) = master.ask(Command.CLASSIFY, 6, pixels.tobytes())
        assert answer.payload == rig.results(pixels)


@pytest.mark.parametrize(
    "fault",
    [
        # The end of a frame is not told; or bits count on from the frame before.
        (r"o__broken <= [^;]*;", "o__broken <= 1'b0;"),
        (r"(if \(cs_n\) begin\n\s+\S+ +=) 3'h0;", r"\1 count;"),
    ],
)
def test_a_slave_that_does_not_look_at_the_selection_is_noticed(fault):
    rig = make_spi_rig(small_network((8, 8, 1)), edit=[fault])
    master = rig.master()
    whole = pack(REQUEST, Command.CLASSIFY, 5, pixels_of(1).tobytes())
    master.transfer(whole[:20])
    master.transfer(whole, bits=3)
    assert master.ask(Command.IDENTIFY, 6) == []
    master.close()


def test_the_rest_of_a_frame_after_nonsense_is_ignored(master):
    nonsense = pack(REQUEST, 0x44, 9, b"") + pack(REQUEST, Command.IDENTIFY, 10)
    came = master.transfer(nonsense + FILL * 30) + master.listen()
    refusal(master.parser.feed(came), 9, Reason.COMMAND)
    (answer,) = master.ask(Command.IDENTIFY, 11)
    assert answer.number == 11


def test_a_damaged_packet_is_refused_and_its_results_are_forgotten(rig, master):
    pixels = pixels_of(4)
    whole = bytearray(pack(REQUEST, Command.CLASSIFY, 5, pixels[:3].tobytes()))
    whole[60] ^= 4
    master.transfer(bytes(whole))
    refusal(master.parser.feed(master.listen()), 5, Reason.CHECK)
    (answer,) = master.ask(Command.CLASSIFY, 6, pixels.tobytes())
    assert answer.payload == rig.results(pixels)


# The drivers


class SpiPort:
    """What the Python driver needs of a port: what is heard while something is said counts too."""

    def __init__(self, master):
        self.master, self.timeout, self.heard = master, 0.0, bytearray()

    def write(self, data):
        self.heard += self.master.transfer(data)

    def read(self, size=1):
        until = time.monotonic() + (self.timeout or 0)
        while len(self.heard) < size and self.master.ready:
            self.heard += self.master.listen(size)
        while not self.heard and time.monotonic() < until:
            self.heard += self.master.listen(size, clocks=1000)
        data = bytes(self.heard[:size])
        del self.heard[:size]
        return data

    def close(self):
        self.master.close()


@pytest.mark.parametrize("noise", [0.0, 5e-5])
def test_the_python_driver_gets_every_image_through(rig, noise):
    pixels = pixels_of(100, seed=1)
    board = Link(SpiPort(rig.master(noise=noise, seed=2)), baud=3_000_000, timeout=0.1)
    board.check_network(rig.network, "it")
    answers = board.classify(pixels)
    outcome = rig.network.compute(pixels)
    assert not answers.failed
    np.testing.assert_array_equal(answers.classes, outcome.classes)
    np.testing.assert_array_equal(answers.scores, outcome.scores)
    assert (answers.retries > 0) == (noise > 0)
    board.close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return load_driver(tmp_path_factory.mktemp("driver"))


def over_spi(driver, master, **settings):
    """Return a board behind the C driver, whose two functions are a microcontroller's."""

    def write(data, last):
        master.transfer(data, keep=not last)

    def read(size, timeout_ms):
        # A millisecond of a simulation: long enough for any answer.
        return master.listen(size, clocks=2_000 * min(timeout_ms, 5))

    return Board(driver, write, read, timeout_ms=10, **settings)


@pytest.mark.parametrize("noise", [0.0, 5e-5])
def test_the_c_driver_gets_every_image_through(rig, driver, noise):
    pixels = pixels_of(100, seed=1)
    master = rig.master(noise=noise, seed=2)
    board = over_spi(driver, master)
    assert board.identify() == OK
    assert bytes(board.fields.model.network).hex() == rig.network.digest
    assert board.fields.clocks_per_bit == SPI_DIVISOR
    status, classes, scores = board.classify(pixels, classes=10)
    assert status == OK
    outcome = rig.network.compute(pixels)
    np.testing.assert_array_equal(classes, outcome.classes)
    np.testing.assert_array_equal(scores, outcome.scores)
    assert (board.fields.retries > 0) == (noise > 0)
    status, counters = board.count()
    assert status == OK
    assert counters.images >= 100
    assert (counters.errors > 0) <= (noise > 0)
    master.close()


@pytest.mark.parametrize("read", [0, 1, 30])
def test_what_an_earlier_host_left_unread_does_no_harm(rig, driver, read):
    master = rig.master()
    master.transfer(pack(REQUEST, Command.IDENTIFY, 99))
    master.listen(read)
    board = over_spi(driver, master)
    assert board.identify() == OK
    assert board.fields.retries == 0
    master.close()
