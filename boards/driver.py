"""The host's side of the line: a board on a port, asked from Python."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.boards.clocks import BAUD_RATES
from sbnn_hw.boards.conversation import Conversation, NoProgram, Port, Sent
from sbnn_hw.boards.protocol import (
    IDENTITY_BYTES,
    VERSION,
    Command,
    Counters,
    Identity,
    OtherVersion,
    Program,
    Wire,
)
from sbnn_hw.design import OutputStream
from sbnn_hw.errors import LinkFailed, ToolMissing, UsageError
from sbnn_hw.netlist import Network
from sbnn_hw.vectors import unpack_results

__all__ = ["RATES", "Answers", "Link", "Port", "open_board"]

Array = npt.NDArray[Any]

#: Rates that a port is tried with, the fastest usual ones first.
RATES = tuple(sorted(BAUD_RATES, reverse=True))

# A packet shall not take longer than this: progress is seen, and an error costs little.
_PACKET_SECONDS = 2.0


class _OtherVersion(LinkFailed):
    """A board that is there, but speaks another version of the protocol."""


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


@dataclass
class Answers:
    """What a board said of images."""

    #: The class of each image; −1 where there was no answer.
    classes: Array
    #: The scores of each, if the board gives them.
    scores: Array
    #: Images without an answer, and why.
    failed: dict[int, str] = field(default_factory=dict)
    #: Packets that had to be sent again.
    retries: int = 0
    seconds: float = 0.0
    #: What the classes are called, if that is known.
    class_names: tuple[str, ...] = ()

    @property
    def names(self) -> list[str | None]:
        """The name of each image's class, or its number; None where there was no answer.

        Examples
        --------
        >>> Answers(np.array([1, -1, 0]), np.zeros((3, 0)), class_names=("cat", "dog")).names
        ['dog', None, 'cat']
        """
        known = self.class_names
        return [
            None if number < 0 else known[number] if known else str(number)
            for number in self.classes.tolist()
        ]


class Link:
    """The link to a board that answers on a port; ``open_board`` and ``simulate_board`` make one.

    Parameters
    ----------
    port : Port
        Anything with ``read``, ``write``, ``close`` and ``timeout``, as pyserial's ports have them.
    baud : int
        The rate of the port: a pause on the line is so many bits.
    timeout : float
        An answer is missed if it takes so many seconds more than the line itself does.
    tries : int
        How often a packet is sent before its images are given up.
    """

    def __init__(
        self, port: Port, *, baud: int = 115_200, timeout: float = 1.0, tries: int = 8
    ) -> None:
        #: How packets get through.
        self.conversation = Conversation(port, baud=baud, timeout=timeout, tries=tries)
        self._port = port
        #: What classes are called, once :meth:`check_network` was told the network.
        self._class_names: tuple[str, ...] = ()
        #: Who the board says that it is.
        self.identity = self._identify()
        self.conversation.expect(max(256, self.identity.batch * self._wire.result_bytes))

    @property
    def _wire(self) -> Wire:
        return self.identity.wire

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()

    def check_network(self, network: Network, name: str) -> None:
        """Make sure that the board holds this network, and that all it says of itself fits it."""
        program = self.identity.program
        if program is not None and not program.loaded:
            raise NoProgram
        if self.identity.network != network.digest:
            cure = f"build {name} and load it" if program is None else "load it (`sbnn-hw load`)"
            raise LinkFailed(
                f"The board has another network ({self.identity.network[:12]}…) than {name} "
                f"({network.digest[:12]}…); {cure}"
            )
        for told, ours in self._other_sizes(network):
            raise LinkFailed(
                f"The board says that it has {name}, but it reports {told}, not {ours}; build "
                f"{name} again and load the result"
            )
        self._class_names = tuple(map(network.class_name, range(network.classes)))

    def _other_sizes(self, network: Network) -> Iterator[tuple[str, int | str]]:
        """Yield what the board reports otherwise than a network has it, and what that has."""
        wire = self._wire
        scores = network.edge_from(len(network.stages) - 1).bits
        # A board without scores is as good, and so is a plan that has room for longer ones.
        if not wire.score_bits or (self.identity.program and wire.score_bits > scores):
            scores = wire.score_bits
        for what, theirs, ours in (
            ("images of {}", _size(wire.shape), _size(network.input.shape)),
            ("{} bits per pixel", wire.value_bits, network.input.bits),
            ("{:,} classes", wire.classes, network.classes),
            ("{} bits per class", wire.index_bits, max(1, (network.classes - 1).bit_length())),
            ("{} bits per score", wire.score_bits, scores),
        ):
            if theirs != ours:
                yield what.format(theirs), ours

    def require_program(self) -> Program:
        """Return what the board can be loaded with; refuse one that cannot be."""
        if self.identity.program is None:
            raise LinkFailed(
                "The board cannot be loaded: its network was not built as a program; build it with "
                "--loadable"
            )
        return self.identity.program

    def load(self, network: Network, program: bytes, name: str = "the network") -> None:
        """Put the program of a network on the board, in place of the one that is there.

        Until it is there the board classifies nothing. If this fails, it stays so, and the same can
        be tried again.

        Parameters
        ----------
        network : Network
            The network; the board reports its digest from then on.
        program : bytes
            Its program for the board's shape, which :func:`sbnn_hw.engine.compile_program` makes.
        name : str
            What errors call the network.
        """
        plan = self.require_program()
        if len(program) != plan.size:
            raise UsageError(
                f"The board takes programs of {plan.size:,} bytes, but that of {name} has "
                f"{len(program):,}; compile it for the board's shape"
            )
        for told, ours in self._other_sizes(network):
            raise UsageError(
                f"The board has {told}, but {name} has {ours}; build {name} for the board"
            )
        self._class_names = ()
        self._ask(Command.LOAD, 0, bytes.fromhex(network.digest) + program)
        self.identity = self._identify()
        self.check_network(network, name)

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
        pixels : array
            Integers (images, height, width, channels) in the range of the network's values;
            ``network.prepare`` makes them of other numbers.
        progress : callable, optional
            Called with the number of images that are done.

        Returns
        -------
        Answers
            ``names``, ``classes`` and ``scores``, one for each image.
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
        answers = Answers(
            np.zeros(0, np.int64), np.zeros((0, 0), np.int64), class_names=self._class_names
        )
        done = 0
        retries = self.conversation.retries
        for sent, payload in self.conversation.converse(self._packets(pixels)):
            rows = slice(sent.first, sent.first + sent.count)
            if payload is None:
                answers.failed |= dict.fromkeys(range(len(pixels))[rows], sent.trouble)
            else:
                words[rows] = np.frombuffer(payload, np.uint8).reshape(sent.count, -1)
            done += sent.count
            if progress is not None:
                progress(done)
        stream = OutputStream(
            width=wire.index_bits + wire.score_bits * wire.classes,
            index_bits=wire.index_bits,
            score_bits=wire.score_bits,
            classes=wire.classes,
        )
        answers.classes, answers.scores = unpack_results(words, stream)
        answers.classes[list(answers.failed)] = -1
        answers.retries = self.conversation.retries - retries
        answers.seconds = time.monotonic() - started
        return answers

    def _packets(self, pixels: Array) -> Iterator[Sent]:
        """Give images in packets; how many in each, the errors on the line decide."""
        wire, talk = self._wire, self.conversation
        kind = np.dtype("<u8")
        per_image = talk.seconds_per_byte * wire.image_bytes
        talk.most = max(1, min(self.identity.batch, int(_PACKET_SECONDS / per_image)))
        talk.count = talk.most
        first = 0
        while first < len(pixels):
            part = pixels[first : first + talk.count]
            spread = np.ascontiguousarray(part.reshape(len(part), -1), kind).view(np.uint8)
            values = spread.reshape(len(part), -1, kind.itemsize)[..., : wire.value_bytes]
            expect = len(part) * wire.result_bytes
            yield talk.packet(Command.CLASSIFY, expect, values.tobytes(), first, len(part))
            first += len(part)

    def _ask(self, kind: Command, expect: int, payload: bytes = b"") -> bytes:
        sent = self.conversation.packet(kind, expect, payload)
        for last, answer in self.conversation.converse(iter([sent])):
            if answer is not None:
                return answer
            sent = last
        raise LinkFailed(f"The board did not answer ({sent.trouble})")

    def _identify(self) -> Identity:
        """Ask who is there; the time that it takes tells how fast the line is."""
        talk = self.conversation
        talk.settle()
        for sent, payload in talk.converse(iter([talk.packet(Command.IDENTIFY, IDENTITY_BYTES)])):
            if payload is None:
                raise LinkFailed(f"No sbnn-hw board answers ({sent.trouble})")
            took = (time.monotonic() - sent.at) / sent.size
            talk.seconds_per_byte = max(took, talk.seconds_per_byte)
            try:
                return Identity.from_bytes(payload)
            except OtherVersion as error:
                raise _OtherVersion(
                    f"The board speaks another version of the protocol ({error.version}, while "
                    f"this release speaks 1 to {VERSION}); build its bitstream with this release, "
                    "or upgrade sbnn-hw"
                ) from None
            except ValueError as error:
                raise LinkFailed(f"The port cannot be used: {error}") from None
        raise AssertionError("a packet is answered, or given up")


@contextmanager
def open_board(
    port: str | Path,
    *,
    network: Network | None = None,
    baud: int | None = None,
    timeout: float = 1.0,
    tries: int = 8,
) -> Iterator[Link]:
    """Open the link to a board on a serial port; use it in a ``with`` statement.

    Parameters
    ----------
    port : str or Path
        The port, such as ``/dev/ttyUSB1`` or ``COM3``.
    network : Network, optional
        The network that the board must hold; its classes give the answers their names.
    baud : int, optional
        The rate of the line; otherwise the usual ones are tried.
    timeout : float
        Seconds to wait for an answer, beyond what the line itself takes.
    tries : int
        How often a packet is sent before its images are given up.
    """
    name = str(port)
    try:
        import serial
    except ImportError:
        raise ToolMissing(
            "Talking to a board needs pyserial (pip install 'sbnn-hw[host]')"
        ) from None
    try:
        link = _find_link(serial, name, baud, timeout, tries)
        try:
            if network is not None:
                link.check_network(network, "the network")
            yield link
        finally:
            link.close()
    except serial.SerialException as error:
        raise LinkFailed(f"Port {name} disappeared, or another program uses it: {error}") from None


def _find_link(serial: Any, name: str, baud: int | None, timeout: float, tries: int) -> Link:
    """Return the link to the board on a port, at the first rate at which it answers."""
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
            link = Link(port, baud=rate, timeout=timeout, tries=tries if baud else 1)
            link.conversation.tries = tries
            return link
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
