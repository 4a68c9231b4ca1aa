"""The lines that a host can talk to a board on; all carry the same packets."""

from dataclasses import dataclass

from sbnn_hw.errors import UsageError

__all__ = ["LINKS", "SPI", "UART", "Link", "find_link"]


@dataclass(frozen=True)
class Link:
    """A line."""

    #: The name in commands.
    name: str
    #: Bits on the line for each byte.
    byte_bits: int


UART = Link("uart", 10)
SPI = Link("spi", 8)

LINKS = {link.name: link for link in (UART, SPI)}


def find_link(name: str) -> Link:
    """Return the line of a name."""
    if name not in LINKS:
        raise UsageError(f"Link must be one of {', '.join(LINKS)}, not {name!r}")
    return LINKS[name]
