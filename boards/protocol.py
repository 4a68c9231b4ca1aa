"""What host and board say to each other over the wire: packets, and what is in them.

A packet is

=======  =====  ======================================================================
bytes    name   what it is
=======  =====  ======================================================================
1        start  ``A5`` from the host, ``5A`` from the board
1        kind   a :class:`Command`, or an :class:`Answer`
2        number chosen by the host; the answer bears the number of what it answers
3        length of the payload, in bytes
length   payload
4        check  CRC-32 (that of zlib and Ethernet) of all from the kind to the payload
=======  =====  ======================================================================

Numbers of several bytes have the lowest first. Each value of an image is one byte, or as many as
its bits need, row by row, channels together. A result is the word that the network gives: the
class in the lowest bits, scores above, padded to whole bytes.

A board never answers what did not arrive whole: the check covers the images and their number. What
is refused is answered by :data:`Answer.REFUSED`, if the board is not saying something else just
then. A packet whose bytes stop coming for :data:`PATIENCE` bits is given up, and after one that
makes no sense the board listens again only once the line has been quiet for as long.

A board whose network is a program can be loaded with another one: the digest of a network, and the
bytes of its program. From the first of these bytes to the end of a packet that arrived whole the
board has no program, and classifies nothing.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from sbnn_hw.design import Design

__all__ = [
    "ANSWER", "DIGEST_AT", "DIGEST_BYTES", "IDENTITY_BYTES", "IDLE", "LOADED_AT", "MOST_PAYLOAD",
    "OVERHEAD", "PATIENCE", "REQUEST", "VERSION", "Answer", "Command", "Counters", "Identity",
    "OtherVersion", "Packet", "Parser", "Program", "Reason", "Wire", "pack",
]

#: The version of all that is said here. A board that cannot be loaded speaks version 1, which is
#: the same without all that is about programs.
VERSION = 2

REQUEST, ANSWER = 0xA5, 0x5A

#: Bytes of a packet that are not its payload.
OVERHEAD = 11

#: The longest payload, in bytes.
MOST_PAYLOAD = (1 << 24) - 1

#: How long a line is quiet, in bits, before a packet is given up.
PATIENCE = 4096

#: What is sent on SPI by a side that has nothing to say: no packet starts with it, and no byte that
#: one starts with differs from it in fewer than four bits.
IDLE = 0xFF

#: The most images in one packet.
BATCH = 16

_HEAD = struct.Struct("<BBH3s")


class Command(IntEnum):
    """What a host asks for."""

    IDENTIFY = 1
    CLASSIFY = 2
    COUNTERS = 3
    LOAD = 4


class Answer(IntEnum):
    """What a board says."""

    IDENTITY = 0x81
    RESULTS = 0x82
    COUNTS = 0x83
    LOADED = 0x84
    REFUSED = 0xFF


class Reason(IntEnum):
    """Why a packet was refused."""

    CHECK = 1
    LENGTH = 2
    COMMAND = 3
    SILENCE = 4
    FRAMING = 5
    PROGRAM = 6

    @property
    def words(self) -> str:
        """The reason as the end of a sentence."""
        return {
            Reason.CHECK: "its checksum was wrong",
            Reason.LENGTH: "its length was wrong",
            Reason.COMMAND: "it was not a known command",
            Reason.SILENCE: "it was cut off",
            Reason.FRAMING: "a byte had no stop bit",
            Reason.PROGRAM: "no program is loaded",
        }[self]


@dataclass(frozen=True)
class Packet:
    """A packet that arrived whole."""

    kind: int
    number: int
    payload: bytes = b""


def pack(start: int, kind: int, number: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a packet.

    Examples
    --------
    >>> pack(REQUEST, Command.IDENTIFY, 7).hex(" ")
    'a5 01 07 00 00 00 00 16 ae be c8'
    """
    head = _HEAD.pack(start, kind, number, len(payload).to_bytes(3, "little"))
    return head + payload + zlib.crc32(payload, zlib.crc32(head[1:])).to_bytes(4, "little")


class Parser:
    """Finds packets in a stream of bytes that may have errors, and forgets all else.

    ``start`` is the byte that packets start with, ``most`` the longest payload that can be meant.
    """

    def __init__(self, start: int, most: int) -> None:
        self._start, self._most = start, most
        self._bytes = bytearray()
        #: Bytes that belonged to no packet.
        self.dropped = 0

    def feed(self, data: bytes) -> list[Packet]:
        """Take bytes; return the packets that are complete with them."""
        self._bytes += data
        found = []
        while (packet := self._next()) is not None:
            found.append(packet)
        return found

    def clear(self) -> None:
        """Forget what has come of a packet so far."""
        self._drop(len(self._bytes))

    def _drop(self, count: int) -> None:
        self.dropped += count
        del self._bytes[:count]

    def _next(self) -> Packet | None:
        while True:
            at = self._bytes.find(self._start)
            self._drop(len(self._bytes) if at < 0 else at)
            if len(self._bytes) < _HEAD.size:
                return None
            _, kind, number, raw = _HEAD.unpack_from(self._bytes)
            length = int.from_bytes(raw, "little")
            if length <= self._most:
                if len(self._bytes) < length + OVERHEAD:
                    return None
                whole = bytes(self._bytes[: length + OVERHEAD])
                payload = whole[_HEAD.size : -4]
                if pack(self._start, kind, number, payload) == whole:
                    del self._bytes[: len(whole)]
                    return Packet(kind, number, payload)
            # Not a packet: it may start at the next byte that looks so.
            self._drop(1)


@dataclass(frozen=True)
class Wire:
    """How images and results of a design look on the wire."""

    #: Of an image: height, width and channels, or one length.
    shape: tuple[int, ...]
    #: Bits of each value.
    value_bits: int
    #: Of a result: bits of the class, bits of each score (zero if there are none), scores.
    index_bits: int
    score_bits: int
    classes: int

    @classmethod
    def of(cls, design: Design) -> "Wire":
        """Return that of a generated design."""
        i, o = design.input, design.output
        return cls(i.shape, i.value_bits, o.index_bits, o.score_bits, o.classes)

    @property
    def value_bytes(self) -> int:
        """Bytes of each value."""
        return -(-self.value_bits // 8)

    @property
    def image_bytes(self) -> int:
        """Bytes of an image."""
        size = self.value_bytes
        for length in self.shape:
            size *= length
        return size

    @property
    def result_bytes(self) -> int:
        """Bytes of a result."""
        return -(-(self.index_bits + self.score_bits * self.classes) // 8)

    @property
    def batch(self) -> int:
        """The most images in a packet; none where an image is longer than a packet can be."""
        return min(BATCH, MOST_PAYLOAD // self.image_bytes)


_IDENTITY = struct.Struct("<4sBBBBHHIIIII32s16s")
_PROGRAM = struct.Struct("<B8sI")
_MAGIC = b"SBNN"

#: Bytes of the longest identity; one without a program is shorter.
IDENTITY_BYTES = _IDENTITY.size + _PROGRAM.size

#: Where in an identity the digest of the network is, how long it is, and where it is said whether
#: one is loaded.
DIGEST_AT, DIGEST_BYTES, LOADED_AT = 32, 32, _IDENTITY.size


class OtherVersion(ValueError):
    """The identity of a board that speaks another version of the protocol.

    Every version starts an identity with the same four letters and the number of the version.
    """

    def __init__(self, version: int) -> None:
        super().__init__(
            f"the board speaks version {version}, but this release speaks 1 to {VERSION}"
        )
        self.version = version


@dataclass(frozen=True)
class Program:
    """What a board can be loaded with."""

    #: Digest of the shape that a program must have, in 16 hexadecimal digits.
    shape: str
    #: Bytes of each.
    size: int
    #: Whether one is loaded.
    loaded: bool = True


@dataclass(frozen=True)
class Identity:
    """Who a board is."""

    #: Digest of the network, in hexadecimal digits; it means nothing if none is loaded.
    network: str
    #: How its images and results look.
    wire: Wire
    #: The clock, and clocks a bit.
    clock_hz: int
    baud_divisor: int
    #: The version of sbnn-hw that made it.
    version: str
    #: The most images in a packet.
    batch: int
    #: The programs that it takes; None if it cannot be loaded.
    program: Program | None = None

    def to_bytes(self) -> bytes:
        """Return the payload of the answer."""
        shape = (*self.wire.shape, 0, 0)[:3]
        payload = _IDENTITY.pack(
            _MAGIC, 1 if self.program is None else VERSION, self.wire.value_bits,
            self.wire.index_bits, self.wire.score_bits, self.wire.classes, self.batch, *shape,
            self.clock_hz, self.baud_divisor, bytes.fromhex(self.network),
            self.version.encode()[:16],
        )
        if self.program is None:
            return payload
        program = self.program
        return payload + _PROGRAM.pack(program.loaded, bytes.fromhex(program.shape), program.size)

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Identity":
        """Read the payload of the answer; ValueError if it is no such thing."""
        spoken = payload[4] if payload[:4] == _MAGIC and len(payload) > 4 else 0
        sizes = {1: _IDENTITY.size, VERSION: IDENTITY_BYTES}
        if payload[:4] == _MAGIC and len(payload) > 4 and spoken not in sizes:
            raise OtherVersion(spoken)
        if len(payload) != sizes.get(spoken):
            raise ValueError("the device that answers is not an sbnn-hw board")
        (_, _, value_bits, index_bits, score_bits, classes, batch, height, width, channels,
         clock_hz, divisor, network, made_by) = _IDENTITY.unpack_from(payload)
        shape = (height, width, channels) if width else (height,)
        wire = Wire(shape, value_bits, index_bits, score_bits, classes)
        name = made_by.rstrip(b"\0").decode(errors="replace")
        program = None
        if spoken == VERSION:
            loaded, plan, size = _PROGRAM.unpack_from(payload, LOADED_AT)
            program = Program(plan.hex(), size, bool(loaded))
        return cls(network.hex(), wire, clock_hz, divisor, name, batch, program)


_COUNTERS = struct.Struct("<III")


@dataclass(frozen=True)
class Counters:
    """What a board has done since it was reset; each wraps at 2^32."""

    #: Images that were answered.
    images: int
    #: Cycles in which one or more were under way.
    busy: int
    #: Packets that were refused or dropped.
    errors: int

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Counters":
        """Read the payload of the answer."""
        if len(payload) != _COUNTERS.size:
            raise ValueError(f"counters must be {_COUNTERS.size} bytes, not {len(payload)}")
        return cls(*_COUNTERS.unpack(payload))
