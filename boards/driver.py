"""The host's side of the line: a board on a port, asked from Python."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sbnn_hw.boards.clocks import BAUD_RATES
from sbnn_hw.boards.protocol import (
    ANSWER,
    IDENTITY_BYTES,
    OVERHEAD,
    PATIENCE,
    REQUEST,
    VERSION,
    Answer,
    Command,
    Counters,
    Identity,
    OtherVersion,
    Packet,
    Parser,
    Reason,
    Wire,
    pack,
)
from sbnn_hw.errors import LinkFailed, ToolMissing, UsageError
from sbnn_hw.netlist import Network
from sbnn_hw.sim.vectors import unpack_results

__all__ = ["RATES", "Answers", "Board", "Port", "open_board"]

Array = npt.NDArray[Any]

#: Rates that a port is tried with, the fastest usual ones first.
RATES = tuple(sorted(BAUD_RATES, reverse=True))

# A packet shall not take longer than this: progress is seen, and an error costs little.
_PACKET_SECONDS = 2.0

# Times in a row that images are given up, and no sign of life between, before all others are.
_SILENT = 2

# A line that is never quiet is not a board's.
_NEVER_QUIET = 5.0

# A line that says nothing may be slow, but not slower than this many times what was measured.
_SLOWER = 8


class _OtherVersion(LinkFailed):
    """A board that is there, but speaks another version of the protocol."""


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


class Port(Protocol):
    """What is needed of a serial port; a :class:`serial.Serial` is one."""

    timeout: float | None

    def read(self, size: int = 1) -> bytes:
        """Return up to ``size`` bytes, fewer if the time-out is over."""
        ...

    def write(self, data: bytes) -> int | None:
        """Send bytes."""
        ...

    def close(self) -> None:
        """Let go of the port."""
        ...


@dataclass
class Answers:
    """What a board said of images.

    Parameters
    ----------
    classes : array of int
        The class of each image; −1 where there was no answer.
    scores : array of int
        The scores of each, if the board gives them.
    failed : dict of int to str
        Images without an answer, and why.
    retries : int
        Packets that had to be sent again.
    seconds : float
        How long it took.
    """

    classes: Array
    scores: Array
    failed: dict[int, str] = field(default_factory=dict)
    retries: int = 0
    seconds: float = 0.0


@dataclass
class _Sent:
    """A packet that is not answered yet: the images from ``first`` on."""

    number: int
    kind: Command
    payload: bytes
    expect: int
    first: int = 0
    count: int = 1
    tries: int = 1
    at: float = 0.0
    due: float = 0.0
    trouble: str = "there was no answer in time"

    @property
    def size(self) -> int:
        return len(self.payload) + self.expect + 2 * OVERHEAD

    def is_answered_by(self, answer: Packet) -> bool:
        if (answer.number, answer.kind) != (self.number, self.kind | 0x80):
            return False
        # In another version of the protocol an identity may have another length.
        return len(answer.payload) == self.expect or self.kind == Command.IDENTIFY


class Board:
    """A board that answers on a port.

    Parameters
    ----------
    port : Port
        An open serial port.
    baud : int
        Its rate: a pause on the line is so many bits.
    timeout : float
        Seconds beyond what the line itself takes before an answer is missed.
    tries : int
        How often a packet is sent before its images are given up.
    """

    def __init__(
        self, port: Port, *, baud: int = 115_200, timeout: float = 1.0, tries: int = 8
    ) -> None:
        if tries < 1:
            raise ValueError(f"Tries must be 1 or more, not {tries!r}")
        self._port, self._timeout, self.tries = port, timeout, tries
        self._parser = Parser(ANSWER, 1 << 16)
        self._heard: deque[Packet] = deque()
        self._number = 0
        self._seconds_per_byte = 10 / baud
        # Images in a packet: the most that make sense, and as many as get through.
        self._most = self._count = 1
        #: Packets that were sent again, since the port was opened.
        self.retries = 0
        self.identity = self._identify()
        self._parser = Parser(ANSWER, max(256, self.identity.batch * self._wire.result_bytes))

    @property
    def _wire(self) -> Wire:
        return self.identity.wire

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()

    def check_network(self, network: Network, name: str) -> None:
        """Make sure that the board holds this network, and that all it says of itself fits it."""
        if self.identity.network != network.digest:
            raise LinkFailed(
                f"The board has another network ({self.identity.network[:12]}…) than {name} "
                f"({network.digest[:12]}…); build {name} and load it"
            )
        wire = self._wire
        scores = network.edge_from(len(network.stages) - 1).bits
        for what, theirs, ours in (
            ("images of {}", _size(wire.shape), _size(network.input.shape)),
            ("{} bits per pixel", wire.value_bits, network.input.bits),
            ("{:,} classes", wire.classes, network.classes),
            ("{} bits per class", wire.index_bits, max(1, (network.classes - 1).bit_length())),
            # A board without scores is as good.
            ("{} bits per score", wire.score_bits, scores if wire.score_bits else 0),
        ):
            if theirs != ours:
                raise LinkFailed(
                    f"The board says that it has {name}, but it reports {what.format(theirs)}, "
                    f"not {ours}; build {name} again and load the result"
                )

    def counters(self) -> Counters:
        """Ask what the board has done since it was reset."""
        return Counters.from_bytes(self._ask(Command.COUNTERS, 12))

    def classify(
        self, pixels: Array, *, progress: Callable[[int], None] | None = None
    ) -> Answers:
        """Ask for the class and scores of images.

        The next packet is on its way while the board answers the last one. What is refused, or not
        answered in time, is sent again.

        Parameters
        ----------
        pixels : array (images, …)
            Of the network's shape, in the range of its values.
        progress : callable, optional
            Called with the number of images that are done.
        """
        wire = self._wire
        if tuple(pixels.shape[1:]) != wire.shape:
            raise UsageError(
                f"The board takes images of {_size(wire.shape)}, not of {_size(pixels.shape[1:])}"
            )
        if len(pixels) and not 0 <= int(pixels.min()) <= int(pixels.max()) < 1 << wire.value_bits:
            raise UsageError(f"Pixels must be between 0 and {(1 << wire.value_bits) - 1}")
        started = time.monotonic()
        words = np.zeros((len(pixels), wire.result_bytes), np.uint8)
        answers = Answers(np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        done = 0
        retries = self.retries
        for sent, payload in self._converse(self._packets(pixels)):
            rows = slice(sent.first, sent.first + sent.count)
            if payload is None:
                answers.failed |= dict.fromkeys(range(len(pixels))[rows], sent.trouble)
            else:
                words[rows] = np.frombuffer(payload, np.uint8).reshape(sent.count, -1)
            done += sent.count
            if progress is not None:
                progress(done)
        stream = {
            "index_bits": wire.index_bits,
            "score_bits": wire.score_bits,
            "classes": wire.classes,
            "width": wire.index_bits + wire.score_bits * wire.classes,
        }
        answers.classes, answers.scores = unpack_results(words, {"output": stream})
        answers.classes[list(answers.failed)] = -1
        answers.retries = self.retries - retries
        answers.seconds = time.monotonic() - started
        return answers

    # Packets out

    def _packets(self, pixels: Array) -> Iterator[_Sent]:
        """Give images in packets; how many in each, the errors on the line decide."""
        wire = self._wire
        kind = np.dtype("<u8")
        per_image = self._seconds_per_byte * wire.image_bytes
        self._most = max(1, min(self.identity.batch, int(_PACKET_SECONDS / per_image)))
        self._count = self._most
        first = 0
        while first < len(pixels):
            part = pixels[first : first + self._count]
            spread = np.ascontiguousarray(part.reshape(len(part), -1), kind).view(np.uint8)
            values = spread.reshape(len(part), -1, kind.itemsize)[..., : wire.value_bytes]
            expect = len(part) * wire.result_bytes
            yield self._sent(Command.CLASSIFY, expect, values.tobytes(), first, len(part))
            first += len(part)

    def _sent(
        self, kind: Command, expect: int, payload: bytes = b"", first: int = 0, count: int = 1
    ) -> _Sent:
        self._number = (self._number + 1) & 0xFFFF
        return _Sent(self._number, kind, payload, expect, first, count)

    def _parts(self, sent: _Sent) -> list[_Sent]:
        """Return what to send in place of a packet that failed: two halves, or itself."""
        if sent.count == 1:
            return [replace(sent, tries=sent.tries + 1)]
        one, half = len(sent.payload) // sent.count, sent.count // 2
        result = sent.expect // sent.count
        return [
            replace(
                self._sent(sent.kind, result * count, sent.payload[one * at : one * (at + count)],
                           sent.first + at, count),
                trouble=sent.trouble,
            )
            for at, count in ((0, half), (half, sent.count - half))
        ]

    def _send(self, sent: _Sent, ahead: int) -> None:
        """Send a packet; ``ahead`` bytes of others are still on the line."""
        sent.at = time.monotonic()
        self._port.write(pack(REQUEST, sent.kind, sent.number, sent.payload))
        line = self._seconds_per_byte * (sent.size + ahead)
        sent.due = time.monotonic() + self._timeout + _SLOWER * line

    def _ask(self, kind: Command, expect: int) -> bytes:
        sent = self._sent(kind, expect)
        for last, payload in self._converse(iter([sent])):
            if payload is not None:
                return payload
            sent = last
        raise LinkFailed(f"The board did not answer ({sent.trouble})")

    def _converse(self, packets: Iterator[_Sent]) -> Iterator[tuple[_Sent, bytes | None]]:
        """Send packets, two at a time; yield each with its answer, or None if it has none."""
        waiting: deque[_Sent] = deque()
        again: deque[_Sent] = deque()
        lost = 0
        while True:
            while len(waiting) < 2:
                sent = again.popleft() if again else next(packets, None)
                if sent is None:
                    break
                # The board cannot listen to the end of a packet while it still speaks: one that is
                # shorter than the answer before waits for that.
                if waiting and len(sent.payload) <= waiting[-1].expect:
                    again.appendleft(sent)
                    break
                self._send(sent, sum(each.size for each in waiting))
                waiting.append(sent)
            if not waiting:
                return
            answer = self._hear(waiting[0].due)
            if answer is not None and answer.kind != Answer.REFUSED:
                for sent in waiting:
                    if sent.is_answered_by(answer):
                        # Those before it that are not answered yet were dropped, and will be due.
                        waiting.remove(sent)
                        self._count = min(self._most, self._count + 1)
                        lost = 0
                        yield sent, answer.payload
                        break
                continue
            blamed = self._blame(waiting, answer)
            if answer is not None:
                lost = 0
            # Something went wrong: let the board become quiet, then say all that is open again,
            # in smaller pieces.
            self._settle(2 if waiting[0].tries > 2 else 1)
            self._count = max(1, self._count // 2)
            failed = [sent for sent in blamed if sent.count == 1 and sent.tries >= self.tries]
            for sent in reversed(waiting):
                if sent not in failed:
                    parts = self._parts(sent) if sent in blamed else [sent]
                    again.extendleft(reversed(parts))
                    self.retries += len(parts)
            waiting.clear()
            lost += bool(failed) and answer is None
            for sent in failed:
                yield sent, None
            # Nothing at all comes back any more: the rest would wait for hours.
            if lost >= _SILENT:
                for sent in (*again, *packets):
                    yield replace(sent, trouble="the board fell silent"), None
                return

    def _blame(self, waiting: "deque[_Sent]", refusal: Packet | None) -> list[_Sent]:
        """Return the packets that failed, and note why.

        Without an answer it is the one that was due. A refusal bears a number that may be damaged
        itself: if it is nobody's, it was any of them.
        """
        if refusal is None:
            return [waiting[0]]
        code = refusal.payload[0] if refusal.payload else 0
        words = Reason(code).words if code in list(Reason) else f"for reason {code}"
        blamed = [sent for sent in waiting if sent.number == refusal.number] or list(waiting)
        for sent in blamed:
            sent.trouble = f"the board refused it: {words}"
        return blamed

    # Packets in

    def _hear(self, due: float) -> Packet | None:
        """Return the next packet of the board, or None if none comes in time."""
        while not self._heard:
            left = due - time.monotonic()
            if left <= 0:
                return None
            self._heard += self._parser.feed(self._read(min(left, 0.1)))
        return self._heard.popleft()

    def _read(self, timeout: float) -> bytes:
        """Return what has come; wait for it, but not longer than this."""
        self._port.timeout = timeout
        data = self._port.read(1)
        if data:
            self._port.timeout = 0
            data += self._port.read(65536)
        return data

    def _settle(self, times: int = 1) -> None:
        """Wait until the line has been quiet for long enough that the board listens again."""
        pause = 0.02 + times * self._seconds_per_byte * PATIENCE / 10
        quiet_since = started = time.monotonic()
        while time.monotonic() - quiet_since < pause:
            if self._read(0.01):
                quiet_since = time.monotonic()
                if quiet_since - started > _NEVER_QUIET + 4 * pause:
                    raise LinkFailed("The port is never quiet: something else is sending on it")
        self._heard.clear()
        self._parser.clear()

    def _identify(self) -> Identity:
        """Ask who is there; the time that it takes tells how fast the line is."""
        self._settle()
        for sent, payload in self._converse(iter([self._sent(Command.IDENTIFY, IDENTITY_BYTES)])):
            if payload is None:
                raise LinkFailed(f"No sbnn-hw board answers ({sent.trouble})")
            took = (time.monotonic() - sent.at) / sent.size
            self._seconds_per_byte = max(took, self._seconds_per_byte)
            try:
                return Identity.from_bytes(payload)
            except OtherVersion as error:
                raise _OtherVersion(
                    f"The board speaks another version of the protocol ({error.version}, while "
                    f"this release speaks {VERSION}); build its bitstream with this release, or "
                    "upgrade sbnn-hw"
                ) from None
            except ValueError as error:
                raise LinkFailed(f"The port cannot be used: {error}") from None
        raise AssertionError("a packet is answered, or given up")


@contextmanager
def open_board(
    name: str, *, baud: int | None = None, timeout: float = 1.0, tries: int = 8
) -> Iterator[Board]:
    """Open the board on a port, at a rate, or at whichever of the usual rates it answers.

    Parameters
    ----------
    name : str
        The port, such as ``/dev/ttyUSB1`` or ``COM3``.
    baud : int, optional
        Bits a second.
    timeout, tries
        As in :class:`Board`.
    """
    try:
        import serial
    except ImportError:
        raise ToolMissing(
            "Talking to a board needs pyserial (pip install 'sbnn-hw[host]')"
        ) from None
    try:
        board = _find_board(serial, name, baud, timeout, tries)
        try:
            yield board
        finally:
            board.close()
    except serial.SerialException as error:
        raise LinkFailed(f"Port {name} disappeared, or another program uses it: {error}") from None


def _find_board(serial: Any, name: str, baud: int | None, timeout: float, tries: int) -> Board:
    """Return the board on a port, at the first rate at which it answers."""
    for rate in (baud,) if baud else RATES:
        try:
            # Two programs on one line would take each other's answers.
            port = serial.Serial(name, rate, timeout=timeout, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            reason = str(error)
            if baud is None and rate != RATES[-1] and "baud" in reason.lower():
                continue
            if "exclusively lock" in reason:
                raise LinkFailed(f"Port {name} is used by another program; wait for it") from None
            if number := getattr(error, "errno", None):
                reason = os.strerror(number)
            raise LinkFailed(
                f"Port {name} cannot be opened: {reason} (is the board plugged in, or is `sbnn-hw "
                f"serve` running?)"
            ) from None
        try:
            # While rates are tried, a board that is there answers the first time.
            board = Board(port, baud=rate, timeout=timeout, tries=tries if baud else 1)
            board.tries = tries
            return board
        except LinkFailed as error:
            port.close()
            if isinstance(error, _OtherVersion):
                raise
        except BaseException:
            port.close()
            raise
    rates = f"at {baud:,} baud" if baud else "at any usual rate"
    raise LinkFailed(
        f"No sbnn-hw board answers on {name} {rates}; is the bitstream loaded, and is this the "
        "board's port?"
    )
