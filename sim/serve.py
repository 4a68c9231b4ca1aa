"""Put a simulated board behind a pseudo-terminal, so that a host's driver can talk to it."""

import contextlib
import os
import pty
import select
import tty
from collections.abc import Iterator

from sbnn_hw.sim.line import GO, Line

__all__ = ["Terminal"]

# Seconds between two goes while the line is idle.
_PACE = 0.01

# A board that has heard and said nothing for this many bits changes nothing any more.
_ASLEEP = 20_000


class Terminal:
    """A simulated board behind a pseudo-terminal; ``port`` is its name, for the host's driver."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._ours, theirs = pty.openpty()
        self.port = os.ttyname(theirs)
        tty.setraw(theirs)
        # Kept open, so that a host may come and go.
        self._theirs = theirs
        os.set_blocking(self._ours, False)
        self._wake, self._stop = os.pipe()

    def close(self) -> None:
        """Take the terminal away."""
        for file in (self._ours, self._theirs, self._wake, self._stop):
            with contextlib.suppress(OSError):
                os.close(file)
        self._line.close()

    def stop(self) -> None:
        """Let :meth:`run` come to an end; may be called from another thread."""
        os.write(self._stop, b".")

    def run(self) -> None:
        """Serve until :meth:`stop` is called."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[bool]:
        """Serve; yield after every step whether the board is awake."""
        sent, back = bytearray(), bytearray()
        idle = 0
        asleep_at = self._line.cycles + _ASLEEP * self._line.divisor
        while True:
            awake = bool(sent or back) or self._line.cycles < asleep_at
            watch = [self._ours, self._wake] if len(sent) < 65536 else [self._wake]
            wanted = [self._ours] if back else []
            # While nothing is said, simulated time shall not run away from the host's: a pause of
            # its program would look like one on the line.
            wait = (_PACE if idle > 1 else 0) if awake else None
            ready, writable, _ = select.select(watch, wanted, [], wait)
            if self._wake in ready:
                return
            if self._ours in ready:
                with contextlib.suppress(BlockingIOError):
                    sent += os.read(self._ours, 65536)
            taken, heard = self._line.run(bytes(sent[:4096]), GO)
            del sent[:taken]
            back += heard
            idle = 0 if sent or taken or heard else idle + 1
            if taken or heard:
                asleep_at = self._line.cycles + _ASLEEP * self._line.divisor
            if writable:
                with contextlib.suppress(BlockingIOError):
                    del back[: os.write(self._ours, back)]
            yield awake
