# amaranth: UnusedElaboratable=no
"""The host's driver, against a scripted port and against a simulated board behind a terminal."""

import contextlib
import threading
import time
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import serial
from shells import make_rig, small_network

from sbnn_hw.boards import conversation, driver
from sbnn_hw.boards.driver import Link, open_board
from sbnn_hw.boards.protocol import (
    ANSWER,
    REQUEST,
    Answer,
    Command,
    Identity,
    Parser,
    Reason,
    Wire,
    pack,
)
from sbnn_hw.errors import LinkFailed, UsageError
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import outline
from sbnn_hw.sim.serve import Terminal

WIRE = Wire((2, 2, 1), 8, 4, 0, 10)
IDENTITY = Identity("ab" * 32, WIRE, 100_000_000, 100, "0", 4)

SMALL = small_network((2, 2, 1), hidden=(2,), fan_in=2)
SMALL_WIRE = Wire.of(outline(SMALL, Options(family="generic")))


class FakePort:
    """A board in Python: the class of an image is its first pixel.

    ``faults`` says what becomes of each packet in turn, once it has said who it is.
    """

    def __init__(self, faults=(), identity=IDENTITY):
        self.timeout = 0.0
        self.faults = deque(faults)
        self.parser = Parser(REQUEST, 1 << 20)
        self.out = bytearray()
        self.asked = []
        self.closed = False
        self.identity = identity if isinstance(identity, bytes) else identity.to_bytes()

    def read(self, size=1):
        data = bytes(self.out[:size])
        del self.out[:size]
        return data

    def close(self):
        self.closed = True

    def write(self, data):
        for packet in self.parser.feed(data):
            fault = "" if packet.kind == Command.IDENTIFY or not self.faults else None
            self.answer(packet, self.faults.popleft() if fault is None else fault)
        return len(data)

    def answer(self, packet, fault):
        self.asked.append(packet)
        if packet.kind == Command.IDENTIFY:
            kind, payload = Answer.IDENTITY, self.identity
        elif packet.kind == Command.COUNTERS:
            kind, payload = Answer.COUNTS, bytes(12)
        else:
            kind, payload = Answer.RESULTS, packet.payload[::4]
        good = pack(ANSWER, kind, packet.number, payload)
        match fault:
            case "lost":
                good = b""
            case "refused":
                good = pack(ANSWER, Answer.REFUSED, packet.number, bytes([Reason.CHECK]))
            case "damaged":
                good = good[:-1] + bytes([good[-1] ^ 1])
            case "stale":
                good = pack(ANSWER, kind, packet.number ^ 0x8000, bytes(len(payload))) + good
            case "short":
                good = pack(ANSWER, kind, packet.number, payload[:-1])
            case "noise":
                good = b"\x5a\x00\x5a" + bytes(20) + good
        self.out += good


def fake_board(faults=(), **options):
    port = FakePort(faults)
    return port, Link(port, baud=10_000_000, **{"timeout": 0.02, **options})


def images(count):
    pixels = np.zeros((count, 2, 2, 1), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(count) % 10
    return pixels


@pytest.mark.parametrize("fault", ["", "lost", "refused", "damaged", "stale", "short", "noise"])
def test_every_image_gets_its_class_whatever_happens_to_a_packet(fault):
    for at in range(4):
        _, board = fake_board([""] * at + [fault])
        answers = board.classify(images(30))
        assert not answers.failed
        np.testing.assert_array_equal(answers.classes, np.arange(30) % 10)
        assert (answers.retries > 0) == (fault in ("lost", "refused", "damaged", "short"))


def test_images_that_never_get_through_are_reported_and_the_others_are_not():
    port, board = fake_board(tries=3)
    port.answer = lambda packet, _, whole=port.answer: whole(
        packet, "refused" if 7 in packet.payload[::4] else ""
    )
    answers = board.classify(images(10))
    assert answers.failed == {7: "the board refused it: its checksum was wrong"}
    assert answers.classes.tolist() == [0, 1, 2, 3, 4, 5, 6, -1, 8, 9]


def test_a_silent_board_is_given_up_after_some_tries():
    port, board = fake_board(["lost"] * 100, tries=2)
    answers = board.classify(images(2))
    assert set(answers.failed.values()) == {"there was no answer in time"}
    assert len(port.asked) < 12
    with pytest.raises(
        LinkFailed, match=r"^The board did not answer \(there was no answer in time\)$"
    ):
        board.counters()


def test_packets_become_smaller_on_a_bad_line_and_larger_again():
    port, board = fake_board(["refused"] * 3)
    board.classify(images(80))
    sizes = [len(packet.payload) // 4 for packet in port.asked if packet.kind == Command.CLASSIFY]
    assert sizes[0] == 4
    assert 1 in sizes
    assert sizes[-2] == 4


def test_a_lost_identify_does_not_make_the_line_look_slow():
    class Deaf(FakePort):
        def answer(self, packet, fault):
            super().answer(packet, "lost" if len(self.asked) < 2 else fault)

    port = Deaf()
    board = Link(port, baud=1_000_000, timeout=0.2)
    assert len(port.asked) == 3
    board.classify(images(8))
    assert [len(packet.payload) // 4 for packet in port.asked[3:]] == [4, 4]


def test_a_port_that_is_never_quiet_is_no_board(monkeypatch):
    class Chatty(FakePort):
        def read(self, size=1):
            return b"$GPGGA"[:size]

    monkeypatch.setattr(conversation, "_NEVER_QUIET", 0.2)
    with pytest.raises(
        LinkFailed, match=r"^The port is never quiet: something else is sending on it$"
    ):
        Link(Chatty(), timeout=0.05)


def test_a_board_that_dies_is_given_up_soon():
    port, board = fake_board(["", "", ""] + ["lost"] * 10_000, tries=2)
    answers = board.classify(images(4000))
    assert len(port.asked) < 60
    assert len(answers.failed) > 3900
    assert "the board fell silent" in answers.failed.values()
    good = answers.classes >= 0
    np.testing.assert_array_equal(answers.classes[good], (np.arange(4000) % 10)[good])


def board_that_says(**fields):
    """Return a board that names the network of :data:`SMALL`, and tells of it what is given."""
    wire = replace(SMALL_WIRE, **fields)
    port = FakePort(identity=replace(IDENTITY, network=SMALL.digest, wire=wire))
    return Link(port, baud=10_000_000, timeout=0.02)


def test_a_board_that_tells_the_truth_is_believed():
    board_that_says().check_network(SMALL, "x.pt")
    board_that_says(score_bits=0).check_network(SMALL, "x.pt")


@pytest.mark.parametrize(
    ("fields", "told", "true"),
    [
        ({"classes": 65_535}, "65,535 classes", "10"),
        ({"score_bits": 255}, "255 bits per score", "{score_bits}"),
        ({"index_bits": 200}, "200 bits per class", "4"),
        ({"value_bits": 16}, "16 bits per pixel", "8"),
        ({"shape": (2, 3, 1)}, "images of 2×3×1", "2×2×1"),
        ({"shape": (0,)}, "images of 0", "2×2×1"),
        # What differs first is told.
        ({"classes": 65_535, "score_bits": 255}, "65,535 classes", "10"),
    ],
)
def test_a_board_whose_geometry_is_not_the_networks_is_refused(fields, told, true):
    with pytest.raises(LinkFailed) as caught:
        board_that_says(**fields).check_network(SMALL, "x.pt")
    assert str(caught.value) == (
        f"The board says that it has x.pt, but it reports {told}, not "
        f"{true.format(score_bits=SMALL_WIRE.score_bits)}; build x.pt again and load the result"
    )


@pytest.mark.parametrize("length", [48, 80, 128])
def test_another_version_of_the_protocol_is_told_as_such(length, monkeypatch):
    head = b"SBNN\x07"
    port = FakePort(identity=head + IDENTITY.to_bytes()[5:length].ljust(length - 5, b"\0"))

    rates = []

    def opened(name, rate, **options):
        rates.append(rate)
        return port

    monkeypatch.setattr(serial, "Serial", opened)
    with pytest.raises(LinkFailed) as caught, open_board("/dev/x", timeout=0.02):
        pass
    assert str(caught.value) == (
        "The board speaks another version of the protocol (7, while this release speaks 1 to 2); "
        "build its bitstream with this release, or upgrade sbnn-hw"
    )
    # It is there: no other rate needs to be tried.
    assert len(rates) == 1
    assert port.closed


def test_another_network_is_refused():
    _, board = fake_board()
    network = small_network((2, 2, 1), hidden=(2,), fan_in=2)
    with pytest.raises(
        LinkFailed,
        match=rf"^The board has another network \(abababababab…\) than x\.pt "
        rf"\({network.digest[:12]}…\); build x\.pt and load it$",
    ):
        board.check_network(network, "x.pt")


def test_images_of_another_kind_are_refused():
    _, board = fake_board()
    with pytest.raises(UsageError, match=r"^The board takes images of 2×2×1, not of 3×2×1$"):
        board.classify(np.zeros((1, 3, 2, 1), np.uint8))
    with pytest.raises(UsageError, match=r"^Pixels must be between 0 and 255$"):
        board.classify(np.full((1, 2, 2, 1), 256))
    assert board.classify(np.zeros((0, 2, 2, 1), np.uint8)).classes.tolist() == []


def test_what_is_no_board_is_said_to_be_none():
    port = FakePort()
    port.answer = lambda packet, _: port.out.extend(
        pack(ANSWER, Answer.IDENTITY, packet.number, bytes(80))
    )
    with pytest.raises(
        LinkFailed,
        match=r"^The port cannot be used: the device that answers is not an sbnn-hw board$",
    ):
        Link(port, timeout=0.01)


def test_a_port_that_is_not_there_is_said_so():
    with (
        pytest.raises(LinkFailed, match=r"^Port /nowhere cannot be opened: .*No such file"),
        open_board("/nowhere"),
    ):
        pass


# Through a terminal


@contextlib.contextmanager
def serving(line):
    terminal = Terminal(line)
    thread = threading.Thread(target=terminal.run)
    thread.start()
    try:
        yield terminal
    finally:
        terminal.stop()
        thread.join()
        terminal.close()


@pytest.fixture(scope="module")
def rig():
    """Return the board of a small network for MNIST's images."""
    return make_rig(small_network())


@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_a_hundred_mnist_digits_through_simulated_wires(rig, mnist, noise):
    pixels = mnist.pixels[:100]
    seen = []
    line = rig.line(noise=noise, seed=3)
    with serving(line) as terminal, open_board(terminal.port, baud=1_000_000) as board:
        board.check_network(rig.network, "it")
        answers = board.classify(pixels, progress=seen.append)
        counters = board.counters()
    outcome = rig.network.compute(pixels)
    assert not answers.failed
    np.testing.assert_array_equal(answers.classes, outcome.classes)
    np.testing.assert_array_equal(answers.scores, outcome.scores)
    assert seen[-1] == 100
    assert counters.images >= 100
    assert (answers.retries > 0) == (noise > 0)


@pytest.mark.parametrize("count", [17, 33, 40])
def test_on_a_clean_line_nothing_is_dropped(count):
    # Packets of different lengths: the answer to a long one takes longer than a short one.
    rig = make_rig(small_network((8, 8, 1)))
    pixels = np.random.default_rng(count).integers(0, 256, (count, 8, 8, 1)).astype(np.uint8)
    with serving(rig.line()) as terminal, open_board(terminal.port, baud=1_000_000) as board:
        answers = board.classify(pixels)
        assert board.counters().errors == 0
    assert answers.retries == 0
    np.testing.assert_array_equal(answers.classes, rig.network.compute(pixels).classes)


@pytest.mark.parametrize(("noise", "seed"), [(2e-5, 0), (1e-4, 1)])
def test_with_noise_every_image_gets_its_answer_or_an_error(noise, seed):
    rig = make_rig(small_network((8, 8, 1)))
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (60, 8, 8, 1)).astype(np.uint8)
    with (
        serving(rig.line(noise=noise, seed=seed)) as terminal,
        open_board(terminal.port, baud=3_000_000, timeout=0.3) as board,
    ):
        answers = board.classify(pixels)
    outcome = rig.network.compute(pixels)
    good = answers.classes >= 0
    assert sorted(answers.failed) == np.flatnonzero(~good).tolist()
    np.testing.assert_array_equal(answers.classes[good], outcome.classes[good])
    np.testing.assert_array_equal(answers.scores[good], outcome.scores[good])
    assert good.sum() > 50
    if noise == 1e-4:
        assert answers.retries > 0, "the noise was not there"


def test_usual_rates_are_tried_until_one_answers(rig, monkeypatch):
    tried = []
    original = driver.Link.__init__

    def picky(self, port, **options):
        tried.append(options["baud"])
        if options["baud"] > 1_000_000:
            raise LinkFailed("nothing")
        original(self, port, **options)

    monkeypatch.setattr(driver.Link, "__init__", picky)
    with serving(rig.line()) as terminal, open_board(terminal.port) as board:
        assert board.identity.network == rig.network.digest
        assert board.conversation.tries == 8
    assert tried == [3_000_000, 2_000_000, 1_500_000, 1_000_000]


def test_a_board_sleeps_while_nobody_asks(rig):
    line = rig.line()
    with serving(line):
        deadline = time.monotonic() + 30
        cycles = -1
        while cycles != line.cycles:
            assert time.monotonic() < deadline, "the board never sleeps"
            cycles = line.cycles
            time.sleep(0.5)
        assert cycles > 0
