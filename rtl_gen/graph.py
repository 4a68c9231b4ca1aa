"""Parts, and what each of them reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from sbnn_hw.rtl_gen.parts.part import Part

__all__ = ["OUTSIDE", "Graph"]

#: The name that stands for what comes from outside; no part has it.
OUTSIDE = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """Parts that stop and start together: an island.

    Parameters
    ----------
    parts : mapping of str to Part
        By name, each after those that it reads; the last one gives what goes out.
    reads : mapping of str to tuple of str
        For each part the names of those that it reads, or :data:`OUTSIDE`. Several may read one.
    """

    parts: Mapping[str, Part]
    reads: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for name in ("parts", "reads"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @classmethod
    def chain(cls, parts: Mapping[str, Part]) -> "Graph":
        """Make a graph in which each part reads the one in front of it."""
        return cls(parts, {name: (before,) for before, name in pairwise([OUTSIDE, *parts])})

    @property
    def width_in(self) -> int:
        """Bits that come from outside together."""
        return next(self.parts[name].widths[read.index(OUTSIDE)]
                    for name, read in self.reads.items() if OUTSIDE in read)

    @property
    def width_out(self) -> int:
        """Bits that go out together."""
        *_, last = self.parts.values()
        return last.width_out
