"""What an IP core is: its name, its ports, and how images and results lie on its streams."""

import re
from dataclasses import dataclass

from sbnn_hw.design import Design
from sbnn_hw.errors import UsageError

__all__ = ["ADDRESS_BITS", "LIBRARY", "VENDOR", "VERSION", "CoreOptions", "IpDescription", "Port"]

#: What the core is called in catalogues, besides its name. The version is that of its ports and
#: registers.
VENDOR, LIBRARY, VERSION = "sbnn_hw", "sbnn", "1.0"

#: Of the register bus: 4 KiB, the smallest range that tools give to a slave.
ADDRESS_BITS = 12

#: Bits of a stream's word where none are asked for and a pixel or result needs more, and the most
#: that Vivado's interface takes.
_USUAL, _MOST = 64, 4096

_NAME = r"[a-z0-9]+(_[a-z0-9]+)*"


@dataclass(frozen=True)
class Port:
    """A port of a core."""

    bus: str  # The interface that it belongs to: its name without what follows ``bus_``.
    signal: str  # What the interface's standard calls it, as ``TDATA``.
    output: bool
    width: int

    @property
    def name(self) -> str:
        """Its name in the core, as ``s_axis_tdata``."""
        return self.bus if self.bus in ("aclk", "aresetn") else f"{self.bus}_{self.signal.lower()}"


@dataclass(frozen=True)
class IpDescription:
    """An IP core of a design, as :meth:`CoreOptions.describe` makes it."""

    design: Design
    module: str  # The top module; those within begin with the same name.
    s_width: int  # Bits of a word of images.
    m_width: int  # Bits of a word of results.

    @property
    def network(self) -> str:
        """The module of the network."""
        return f"{self.module}_network"

    @property
    def image_words(self) -> int:
        """Words that make an image."""
        return self.design.input.beats * -(-self.design.input.width // self.s_width)

    @property
    def result_words(self) -> int:
        """Words that make a result."""
        return -(-self.design.output.width // self.m_width)

    @property
    def image_bytes(self) -> int:
        """Bytes that make an image, padding included."""
        return self.image_words * self.s_width // 8

    @property
    def result_bytes(self) -> int:
        """Bytes that make a result, padding included."""
        return self.result_words * self.m_width // 8

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return f"Sparse binary neural network {self.design.network[:8]}"

    @property
    def ports(self) -> tuple[Port, ...]:
        """All ports, with the standard's names in lower case."""
        return (
            Port("aclk", "CLK", False, 1),
            Port("aresetn", "RST", False, 1),
            *_stream("s_axis", self.s_width, source=False),
            *_stream("m_axis", self.m_width, source=True),
            *(Port("s_axi", signal, output, width) for signal, output, width in _LITE),
        )


def _stream(bus: str, width: int, *, source: bool) -> tuple[Port, ...]:
    return (
        Port(bus, "TDATA", source, width),
        Port(bus, "TVALID", source, 1),
        Port(bus, "TREADY", not source, 1),
        Port(bus, "TLAST", source, 1),
    )


_LITE = (
    ("AWADDR", False, ADDRESS_BITS), ("AWPROT", False, 3), ("AWVALID", False, 1),
    ("AWREADY", True, 1),
    ("WDATA", False, 32), ("WSTRB", False, 4), ("WVALID", False, 1), ("WREADY", True, 1),
    ("BRESP", True, 2), ("BVALID", True, 1), ("BREADY", False, 1),
    ("ARADDR", False, ADDRESS_BITS), ("ARPROT", False, 3), ("ARVALID", False, 1),
    ("ARREADY", True, 1),
    ("RDATA", True, 32), ("RRESP", True, 2), ("RVALID", True, 1), ("RREADY", False, 1),
)  # fmt: skip


@dataclass(frozen=True)
class CoreOptions:
    """What can be chosen of a core.

    Parameters
    ----------
    name : str, optional
        Its module is ``sbnn_`` and this; the first digits of the network's digest if it is not
        given. With that beginning it is no keyword of any language.
    width : int, optional
        Bits of a word on both streams. If it is not given, a stream is as wide as a pixel, image
        or result rounded up to bytes, but 64 bits at most.
    """

    name: str | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not re.fullmatch(_NAME, self.name) or len(self.name) > 40):
            raise UsageError(
                "The name of a core must be of a–z, 0–9 and single underscores between them, 40 "
                f"characters at most, not {self.name!r:.60}"
            )
        if self.width is not None and (self.width % 8 or not 8 <= self.width <= _MOST):
            raise UsageError(
                f"The width of AXI streams must be 8, 16, 24 … {_MOST} bits, not {self.width!r}"
            )

    def describe(self, design: Design) -> IpDescription:
        """Return the core of a design."""
        return IpDescription(
            design,
            f"sbnn_{self.name or design.network[:8]}",
            self._word(design.input.width),
            self._word(design.output.width),
        )

    def _word(self, bits: int) -> int:
        return self.width or min(8 * -(-bits // 8), _USUAL)
