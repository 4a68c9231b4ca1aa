"""The registers of a core, written down once: hardware, documents and catalogues follow them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sbnn_hw.ip.core import VERSION, IpDescription

__all__ = ["REGISTERS", "Field", "Register"]


@dataclass(frozen=True)
class Field:
    """A bit of a register."""

    name: str
    bit: int
    text: str


@dataclass(frozen=True)
class Register:
    """A register of 32 bits.

    Its value never changes if ``value`` gives it for a core; hardware keeps all others.
    """

    name: str
    offset: int  # In bytes.
    access: Literal["read-only", "write-only", "read-write"]
    text: str  # What it is, for people: a sentence without its end.
    value: Callable[[IpDescription], int] | None = None
    fields: tuple[Field, ...] = field(default=())

    @property
    def readable(self) -> bool:
        """Whether it can be read; zero is read elsewhere."""
        return self.access != "write-only"

    @property
    def writable(self) -> bool:
        """Whether it can be written; elsewhere that is an error."""
        return self.access != "read-only"

    def bit(self, name: str) -> int:
        """Return the number of a field's bit."""
        return next(each.bit for each in self.fields if each.name == name)


def _version(core: IpDescription) -> int:
    major, minor = map(int, VERSION.split("."))
    return major << 16 | minor


def _digest(number: int) -> Callable[[IpDescription], int]:
    return lambda core: int(core.design.network[8 * number : 8 * number + 8], 16)


_WRAPS = "counts on from 0 after 2³² − 1"

REGISTERS = (
    Register("ID", 0x00, "read-only", "the letters SBNN", lambda core: 0x53424E4E),
    Register("VERSION", 0x04, "read-only", "of these registers: major in the upper half", _version),
    Register(
        "CONTROL", 0x08, "write-only", "what to do now; reads as zero",
        fields=(
            Field("CLEAR", 0, "set all counters to zero"),
            Field("RESET", 1, "forget all images that are inside, and MISFRAMED; the next word "
                  "is the first of an image; BUSY falls when m_axis has no result left"),
        ),
    ),
    Register(
        "STATUS", 0x0C, "read-only", "what is so now",
        fields=(
            Field("MISFRAMED", 0, "a TLAST was missing or out of place since the last reset"),
            Field("BUSY", 1, "an image has begun to arrive whose result has not been taken"),
        ),
    ),
    Register("SCRATCH", 0x10, "read-write", "keeps what is written, and does nothing"),
    Register("IMAGE_WORDS", 0x14, "read-only", "words of s_axis that make an image",
             lambda core: core.image_words),
    Register("IMAGE_BYTES", 0x18, "read-only", "the same in bytes", lambda core: core.image_bytes),
    Register("CLASSES", 0x1C, "read-only", "the number of classes",
             lambda core: core.design.output.classes),
    Register("CLASS_BITS", 0x20, "read-only", "bits of a class's number, the lowest of a result",
             lambda core: core.design.output.index_bits),
    Register("SCORE_BITS", 0x24, "read-only", "bits of each score above it, or 0 without scores",
             lambda core: core.design.output.score_bits),
    Register("RESULT_WORDS", 0x28, "read-only", "words of m_axis that make a result",
             lambda core: core.result_words),
    Register("RESULT_BYTES", 0x2C, "read-only", "the same in bytes",
             lambda core: core.result_bytes),
    Register("IMAGES_IN", 0x30, "read-only", f"images whose last word was taken; {_WRAPS}"),
    Register("RESULTS_OUT", 0x34, "read-only", f"results whose last word was taken; {_WRAPS}"),
    Register("BUSY_CYCLES", 0x38, "read-only", f"cycles in which BUSY was set; {_WRAPS}"),
    Register("STALL_CYCLES", 0x3C, "read-only",
             f"cycles in which a word waited at m_axis for TREADY; {_WRAPS}"),
    *(
        Register(f"NETWORK{number}", 0x40 + 4 * number, "read-only",
                 f"digits {8 * number + 1} to {8 * number + 8} of the network's digest, "
                 "a SHA-256", _digest(number))
        for number in range(8)
    ),
)  # fmt: skip
