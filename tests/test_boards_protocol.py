import random

import pytest

from sbnn_hw.boards.protocol import (
    ANSWER,
    OVERHEAD,
    REQUEST,
    Command,
    Counters,
    Identity,
    Packet,
    Parser,
    Reason,
    Wire,
    pack,
)

WIRE = Wire((28, 28, 1), 8, 4, 9, 10)


def test_packets_are_found_in_any_pieces():
    rng = random.Random(0)
    packets = [Packet(rng.randrange(256), n, rng.randbytes(rng.randrange(40))) for n in range(50)]
    stream = b"".join(pack(ANSWER, p.kind, p.number, p.payload) for p in packets)
    parser = Parser(ANSWER, 100)
    found = []
    while stream:
        size = rng.randrange(1, 30)
        found += parser.feed(stream[:size])
        stream = stream[size:]
    assert found == packets
    assert parser.dropped == 0


def test_every_flipped_bit_loses_one_packet_and_makes_none():
    one, two = pack(ANSWER, 0x82, 7, b"results"), pack(ANSWER, 0x82, 8, b"others!")
    for bit in range(8 * len(one)):
        damaged = bytearray(one)
        damaged[bit // 8] ^= 1 << bit % 8
        parser = Parser(ANSWER, 100)
        assert parser.feed(bytes(damaged) + two + two) in (
            [Packet(0x82, 8, b"others!")] * 2,
            # A length that became longer swallows what follows.
            [Packet(0x82, 8, b"others!")],
            [],
        )


def test_packets_are_found_between_noise():
    rng = random.Random(1)
    packet = pack(ANSWER, 0x83, 1, bytes(12))
    for _ in range(200):
        parser = Parser(ANSWER, 64)
        noise = rng.randbytes(rng.randrange(60))
        # What noise can look like the head of is over after 64 bytes more.
        found = parser.feed(noise + packet + bytes(64 + OVERHEAD) + packet + bytes(80))
        assert Packet(0x83, 1, bytes(12)) in found


def test_identity_comes_back_as_it_was():
    for wire in (WIRE, Wire((300,), 12, 1, 0, 2)):
        identity = Identity("5a" * 32, wire, 100_000_000, 33, "0.1.0", 16)
        assert Identity.from_bytes(identity.to_bytes()) == identity


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "the device that answers is not an sbnn-hw board"),
        (bytes(80), "the device that answers is not an sbnn-hw board"),
        (
            b"SBNN\x07" + Identity("00" * 32, WIRE, 1, 8, "", 1).to_bytes()[5:],
            "the board speaks version 7, but this release speaks 1 to 2",
        ),
    ],
)
def test_other_identities_are_refused(payload, words):
    with pytest.raises(ValueError, match=f"^{words}$"):
        Identity.from_bytes(payload)


def test_counters_and_reasons_have_words():
    assert Counters.from_bytes(bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])) == Counters(1, 2, 3)
    with pytest.raises(ValueError, match=r"^counters must be 12 bytes, not 11$"):
        Counters.from_bytes(bytes(11))
    assert all(reason.words for reason in Reason)


def test_images_that_no_packet_holds_make_no_batch():
    assert Wire((4096, 4096, 3), 8, 4, 0, 10).batch == 0
    assert Wire((224, 224, 3), 8, 10, 0, 1000).batch == 16
    assert len(pack(REQUEST, Command.CLASSIFY, 0, bytes(5))) == 5 + OVERHEAD
