# amaranth: UnusedElaboratable=no
"""Loading over SPI: frames that end anywhere, and answers that are read late."""

import pytest
from loads import toy_sources
from spi_line import Master, compile_master
from test_boards_load import HEAD, IMAGES, digest_of, load_packet, other_program

from sbnn_hw.boards.clocks import SPI_DIVISOR
from sbnn_hw.boards.links import SPI
from sbnn_hw.boards.protocol import (
    ANSWER,
    IDLE,
    REQUEST,
    Answer,
    Command,
    Identity,
    Packet,
    Parser,
    Reason,
    pack,
)

SIZE = 24


def make(edit=()):
    design, program, sources = toy_sources(SIZE, divisor=SPI_DIVISOR, link=SPI, edit=edit)
    return compile_master(sources), design, program


@pytest.fixture(scope="module")
def board():
    return make()


def results(images, program):
    from loads import answer

    return b"".join(answer(program, image) for image in images)


def say(master, data):
    """Send bytes in a frame of their own; return the packets that come."""
    return master.parser.feed(master.transfer(data) + master.listen())


def test_a_frame_that_ends_anywhere_leaves_no_program_and_the_next_one_recovers(board):
    library, _, now = board
    master = Master(library)
    image = IMAGES[:1]
    for size in range(1, HEAD + 32 + SIZE + 4):
        program = other_program(size, SIZE)
        (refused,) = say(master, load_packet(3, program)[:size])
        assert refused.payload == bytes([Reason.SILENCE])
        found = master.ask(Command.CLASSIFY, 4, image.tobytes())
        if size > HEAD:
            assert found == [Packet(Answer.REFUSED, 4, bytes([Reason.PROGRAM]))]
            assert say(master, load_packet(5, program)) == [Packet(Answer.LOADED, 5)]
            now = program
            found = master.ask(Command.CLASSIFY, 4, image.tobytes())
        assert found == [Packet(Answer.RESULTS, 4, results(image, now))]


def identity_across_a_load(library, size):
    """Read some bytes of an identity, and load; return who it says that it is."""
    master = Master(library)
    came = master.transfer(pack(REQUEST, Command.IDENTIFY, 1))
    came += master.transfer(bytes([IDLE]) * size)
    came += master.transfer(load_packet(2, other_program(1, SIZE)))
    found = Parser(ANSWER, 1 << 10).feed(came + master.listen())
    (packet,) = (packet for packet in found if packet.kind == Answer.IDENTITY)
    return Identity.from_bytes(packet.payload)


def test_an_identity_with_half_a_digest_does_not_count(board):
    library, design, _ = board
    known = (design.network, digest_of(other_program(1, SIZE)).hex())
    for size in range(1, 104):
        said = identity_across_a_load(library, size)
        assert said.network in known or not said.program.loaded
