"""A stage of a network: an operation and where its inputs come from."""

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.operation import Operation
from sbnn_hw.netlist.taps import frozen_array

__all__ = ["INPUT", "Stage"]

#: The source that stands for the network's own input.
INPUT = -1

_NAME = r"[a-z][a-z0-9_]{0,62}"


@dataclass(frozen=True, eq=False)
class Stage:
    """A named operation and where its input comes from."""

    #: Lower-case letters, digits and underscores; it becomes part of names in Verilog.
    name: str
    operation: Operation
    #: Numbers of the stages that it receives from, in the order in which the operation takes them;
    #: :data:`INPUT` is the network's input.
    sources: tuple[int, ...]
    #: Weights of value one as trained, before constants were propagated. Not in the digest.
    ones: int | None = None
    #: Of a 3×3 convolution as trained: how many kernels there are of each Hamming weight, 0 to 9.
    #: Not in the digest.
    kernels: tuple[int, ...] | None = None
    #: Neurons, or channels of a pool or an affine, that nothing reads, so that they are not built;
    #: a neuron hands on 0. Not in the digest.
    absent: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(_NAME, self.name):
            raise ModelRejected(
                f"A stage's name must be up to 63 lower-case letters, digits and underscores, "
                f"not {self.name!r:.80}"
            )
        object.__setattr__(self, "absent", frozen_array(self.absent, np.int64, "Absent neurons"))
        if not all(isinstance(source, int | np.integer) for source in self.sources):
            raise ModelRejected(
                f"Stage {self.name} must name its sources by numbers, not {self.sources!r:.80}"
            )
        object.__setattr__(self, "sources", tuple(map(int, self.sources)))
        if len(self.sources) != self.operation.arity:
            wanted = (
                "one source" if self.operation.arity == 1 else f"{self.operation.arity} sources"
            )
            raise ModelRejected(f"Stage {self.name} must have {wanted}, not {self.sources!r:.80}")
