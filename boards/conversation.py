"""Packets that get through a line with errors, or are given up."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from sbnn_hw.boards.protocol import (
    ANSWER,
    OVERHEAD,
    PATIENCE,
    REQUEST,
    Answer,
    Command,
    Packet,
    Parser,
    Reason,
    pack,
)
from sbnn_hw.errors import LinkFailed

__all__ = ["Conversation", "NoProgram", "Port", "Sent"]

# Times in a row that images are given up, and no sign of life between, before all others are.
_SILENT = 2

# A line that is never quiet is not a board's.
_NEVER_QUIET = 5.0

# A line that says nothing may be slow, but not slower than this many times what was measured.
_SLOWER = 8


class NoProgram(LinkFailed):
    """A board that classifies nothing until it is loaded."""

    def __init__(self) -> None:
        super().__init__(
            "The board has no program, since its last load did not finish; load one with "
            "`sbnn-hw load`"
        )


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
class Sent:
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
        """Bytes on the line, there and back."""
        return len(self.payload) + self.expect + 2 * OVERHEAD

    def is_answered_by(self, answer: Packet) -> bool:
        """Whether the answer is to this packet, and as long as it should be."""
        if (answer.number, answer.kind) != (self.number, self.kind | 0x80):
            return False
        # In another version of the protocol an identity may have another length.
        return len(answer.payload) == self.expect or self.kind == Command.IDENTIFY


class Conversation:
    """Says packets to a board, and hears its answers.

    Two packets are under way at a time. What is refused, or not answered in time, is said again,
    in smaller pieces.

    ``baud``, ``timeout`` and ``tries`` are as in :class:`sbnn_hw.boards.driver.Link`.
    """

    def __init__(self, port: Port, *, baud: int, timeout: float, tries: int) -> None:
        if tries < 1:
            raise ValueError(f"Tries must be 1 or more, not {tries!r}")
        self._port, self._timeout, self.tries = port, timeout, tries
        self._heard: deque[Packet] = deque()
        self._number = 0
        self.expect(1 << 16)
        #: How slow the line is.
        self.seconds_per_byte = 10 / baud
        #: Images in a packet: the most that make sense, and as many as get through.
        self.most = self.count = 1
        #: Packets that were sent again, since the port was opened.
        self.retries = 0

    def expect(self, most: int) -> None:
        """Set the longest payload of an answer."""
        self._parser = Parser(ANSWER, most)

    def packet(
        self, kind: Command, expect: int, payload: bytes = b"", first: int = 0, count: int = 1
    ) -> Sent:
        """Return a packet with a number of its own, whose answer is so long."""
        self._number = (self._number + 1) & 0xFFFF
        return Sent(self._number, kind, payload, expect, first, count)

    def _parts(self, sent: Sent) -> list[Sent]:
        """Return what to send in place of a packet that failed: two halves, or itself."""
        if sent.count == 1:
            return [replace(sent, tries=sent.tries + 1)]
        one, half = len(sent.payload) // sent.count, sent.count // 2
        result = sent.expect // sent.count
        return [
            replace(
                self.packet(sent.kind, result * count, sent.payload[one * at : one * (at + count)],
                            sent.first + at, count),
                trouble=sent.trouble,
            )
            for at, count in ((0, half), (half, sent.count - half))
        ]

    def _send(self, sent: Sent, ahead: int) -> None:
        """Send a packet; ``ahead`` bytes of others are still on the line."""
        sent.at = time.monotonic()
        self._port.write(pack(REQUEST, sent.kind, sent.number, sent.payload))
        line = self.seconds_per_byte * (sent.size + ahead)
        sent.due = time.monotonic() + self._timeout + _SLOWER * line

    def converse(self, packets: Iterator[Sent]) -> Iterator[tuple[Sent, bytes | None]]:
        """Send packets, two at a time; yield each with its answer, or None if it has none."""
        waiting: deque[Sent] = deque()
        again: deque[Sent] = deque()
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
                        self.count = min(self.most, self.count + 1)
                        lost = 0
                        yield sent, answer.payload
                        break
                continue
            blamed = self._blame(waiting, answer)
            if answer is not None:
                lost = 0
                if answer.payload == bytes([Reason.PROGRAM]):
                    raise NoProgram
            # Something went wrong: let the board become quiet, then say all that is open again,
            # in smaller pieces.
            self.settle(2 if waiting[0].tries > 2 else 1)
            self.count = max(1, self.count // 2)
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

    def _blame(self, waiting: deque[Sent], refusal: Packet | None) -> list[Sent]:
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

    def settle(self, times: int = 1) -> None:
        """Wait until the line has been quiet for long enough that the board listens again."""
        pause = 0.02 + times * self.seconds_per_byte * PATIENCE / 10
        quiet_since = started = time.monotonic()
        while time.monotonic() - quiet_since < pause:
            if self._read(0.01):
                quiet_since = time.monotonic()
                if quiet_since - started > _NEVER_QUIET + 4 * pause:
                    raise LinkFailed("The port is never quiet: something else is sending on it")
        self._heard.clear()
        self._parser.clear()
