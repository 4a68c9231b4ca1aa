"""What an operation answers for itself; whatever walks a network asks it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import Array, Arrays, Write

__all__ = ["OPERATIONS", "Mask", "Operation", "Work"]

Mask = npt.NDArray[np.bool_]

#: All operations by their kinds. A class that names its kind is entered when it is defined.
OPERATIONS: dict[str, type["Operation"]] = {}


@dataclass(frozen=True)
class Work:
    """What a stage does for one image.

    Parameters
    ----------
    binary_macs : int
        Weights, zeros included, times evaluations, where the inputs are bits.
    sparse : int
        Binary operations: one for each connection and evaluation, and those of ``q``.
    q : int
        Inputs added up for q, over all windows.
    additions, multiplications : int
        Of values of more than one bit.
    """

    binary_macs: int = 0
    sparse: int = 0
    q: int = 0
    additions: int = 0
    multiplications: int = 0


class Operation:
    """What a stage computes. An operation is an immutable value.

    ``Any`` stands for one argument for each source: an operation of one source takes ``edge`` in
    the place of ``*edges``, and ``x, edge`` to compute.
    """

    #: Its name in files, in reports and for its hardware.
    kind: ClassVar[str]
    #: How many sources it has.
    arity: ClassVar[int] = 1
    #: Whether it sees a map through a window, so that pixels come one by one.
    windowed: ClassVar[bool] = False
    #: Properties of its description in the JSON view, as JSON Schema.
    schema: ClassVar[dict[str, Any]] = {}

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
        """Return the operation with less to do, where some channels of its output are not read."""
        return self

    def absent(self, unread: Mask, before: tuple[Array, ...]) -> Array:
        """Return the channels that need not be built.

        Parameters
        ----------
        unread : array of bool (channels)
            Channels that nothing reads.
        before : tuple of arrays
            The absent channels of each source.
        """
        return np.zeros(0, np.int64)

    # What it takes

    @property
    def connections(self) -> int:
        """Number of taps."""
        return 0

    def work(self, *edges: Any, **_: Any) -> Work:
        """Return what it does for one image."""
        return Work()

    # Its description

    def describe(self, write: Write) -> dict[str, Any]:
        """Return its parameters as plain values, arrays as ``write`` has them."""
        return {}

    @classmethod
    def read(cls, text: dict[str, Any], read: Arrays) -> Self:
        """Make the operation of its description; whatever that is, all is checked."""
        return cls()
