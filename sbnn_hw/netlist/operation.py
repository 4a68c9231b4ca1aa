"""What an operation answers for itself; whatever walks a network asks it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_type_hints

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array, Arrays, Schema, Write, plain, read_as

__all__ = ["OPERATIONS", "Constants", "Mask", "Operation", "Work", "spare"]

Mask = npt.NDArray[np.bool_]

#: All operations by their kinds. A class that names its kind is entered when it is defined.
OPERATIONS: dict[str, type["Operation"]] = {}


@dataclass(frozen=True)
class Work:
    """What a stage does for one image."""

    #: Weights, zeros included, times evaluations, where the inputs are bits.
    binary_macs: int = 0
    #: Binary operations: one for each connection and evaluation, and those of ``q``.
    sparse: int = 0
    #: Inputs added up for q, over all windows.
    q: int = 0
    #: Of values of more than one bit.
    additions: int = 0
    multiplications: int = 0


@dataclass(frozen=True, eq=False)
class Constants:
    """Which channels of an edge always have the same value."""

    known: Mask
    #: The value of each channel, where it is known.
    value: npt.NDArray[np.int64]

    @classmethod
    def none(cls, channels: int) -> "Constants":
        """Return what is known of channels that all vary."""
        return cls(np.zeros(channels, bool), np.zeros(channels, np.int64))


class Operation:
    """What a stage computes. An operation is an immutable value.

    ``Any`` stands for one argument for each source: an operation of one source takes ``edge`` in
    the place of ``*edges``, and ``x, edge`` to compute.
    """

    #: Its name in files, in reports and for its hardware.
    kind: ClassVar[str]
    #: How many sources it has. Where operations of a kind differ in that, the class has the fewest,
    #: each operation its own number, and ``most_sources`` is the most that there can be.
    arity: ClassVar[int] = 1
    most_sources: ClassVar[int] = 0
    #: Whether it sees a map through a window, so that pixels come one by one.
    windowed: ClassVar[bool] = False
    #: Whether it gives class scores, with which a network ends.
    scoring: ClassVar[bool] = False
    #: What its description holds: names of its parameters, each with its JSON Schema in the view.
    schema: ClassVar[Schema] = {}
    #: The same for parameters that are left out where they are None.
    optional: ClassVar[Schema] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            other = OPERATIONS.setdefault(cls.kind, cls)
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(f"Kind {cls.kind!r} must name one operation, not {other} too")
            # A frozen dataclass with slots would be made twice; the last one counts.
            OPERATIONS[cls.kind] = cls

    # What it computes

    def infer(self, *edges: Any, **_: Any) -> Edge:
        """Return what the operation hands on, given what it receives; refuse what does not fit.

        The edge's range is proved: nothing that the operation computes leaves it.
        """
        raise NotImplementedError

    def compute(self, *inputs_and_edges: Any, **_: Any) -> Array:
        """Compute a batch: first an array (batch, *shape) for each source, then their edges."""
        raise NotImplementedError

    def constants(self, *constants_and_edges: Any, **_: Any) -> Constants:
        """Return which outputs are constant, given which inputs are: sources first, then edges."""
        return Constants.none(self.infer(*constants_and_edges[self.arity :]).channels)

    # What it reads

    def reads(self, wanted: Mask, *edges: Any, **_: Any) -> tuple[Mask, ...]:
        """Return for each source which values matter, given which of its own are wanted.

        Masks have the shapes of edges.
        """
        return tuple(np.ones(edge.shape, bool) for edge in edges)

    @property
    def droppable(self) -> int:
        """How many outputs may be left out where nothing reads them; 0 if none may."""
        return 0

    def without(self, unread: Mask, *edges: Any, **_: Any) -> "Operation":
        """Return the operation with less to do, where some channels of its output are not read.

        Its range stays what it was: that is what complements are taken in.
        """
        return self

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the channels that need not be built; ``before`` has those of each source."""
        return np.zeros(0, np.int64)

    # What it takes

    @property
    def connections(self) -> int:
        """Number of taps."""
        return 0

    def work(self, *edges: Any, **_: Any) -> Work:
        """Return what it does for one image."""
        return Work()

    def check_counts(
        self, ones: int | None, kernels: tuple[int, ...] | None, *edges: Any, **_: Any
    ) -> None:
        """Refuse what a stage says of its weights as trained, if they cannot have been so."""

    def complements(self, *edges: Any, **_: Any) -> bool:
        """Whether it matters to it how many bits its inputs have, as it reads complements."""
        return False

    # Its one form

    def once(self, keys: Sequence[str]) -> tuple["Operation", tuple[int, ...]]:
        """Return the operation that reads each source once, and which sources it then reads.

        Sources with equal keys are the same; where their order does not matter, they come in the
        order of the keys.
        """
        return self, tuple(range(len(keys)))

    def simplified(self, *edges: Any, **_: Any) -> "Operation":
        """Return the form that stands for all operations that are this one, said otherwise."""
        return self

    def passes(self, *edges: Any, **_: Any) -> bool:
        """Whether it hands on what it receives, in its one form, and so need not be there."""
        return False

    # Its description

    def needs(self, *edges: Any, **_: Any) -> int:
        """Return the first schema of files that can say it."""
        return 1

    def describe(self, write: Write) -> dict[str, Any]:
        """Return its parameters as plain values, arrays as ``write`` has them."""
        said = [name for name in self.optional if getattr(self, name) is not None]
        return {name: plain(getattr(self, name), write) for name in (*self.schema, *said)}

    @classmethod
    def read(cls, text: dict[str, Any], read: Arrays) -> Self:
        """Make the operation of its description; whatever that is, all is checked."""
        kinds = get_type_hints(cls)
        names = (*cls.schema, *cls.optional)
        return cls(**{name: read_as(kinds[name], text, name, read) for name in names})


def spare(unread: Mask, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Mask:
    """Return the unread channels that may go: all but those that the range of all needs.

    ``low`` and ``high`` are the ends of each channel's values.
    """
    found = unread.copy()
    for ends, first in ((low, np.argmin), (high, np.argmax)):
        last = ends[first(ends)]
        if not (ends[~found] == last).any():
            found[first(ends)] = False
    return found
