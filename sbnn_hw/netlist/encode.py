"""The encoder: bits of each value, by comparing it with constants."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import BOOLEANS, TABLE, Array, Schema, list_of
from sbnn_hw.netlist.operation import Constants, Mask, Operation
from sbnn_hw.netlist.taps import frozen_array

__all__ = ["Encode"]


@dataclass(frozen=True, eq=False)
class Encode(Operation):
    """Turn each value into bits: one for each threshold that it reaches, or does not.

    The bit of threshold t is [x ≥ t], or where it is flipped [x < t].
    """

    kind: ClassVar[str] = "encode"
    schema: ClassVar[Schema] = {"thresholds": TABLE}
    optional: ClassVar[Schema] = {"flips": list_of(BOOLEANS, minItems=1)}

    #: (channels, planes): values from which a bit is set; they do not decrease. Bit *p* of channel
    #: *c* is channel ``c·planes + p`` of the output.
    thresholds: npt.NDArray[np.int64]
    #: (channels, planes): bits that are set below the threshold; None if none is.
    flips: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        array = frozen_array(self.thresholds, np.int64, "Encoder thresholds")
        object.__setattr__(self, "thresholds", array)
        if array.ndim != 2 or not array.size or (np.diff(array, axis=1) < 0).any():
            raise ModelRejected("Encoder thresholds must be (channels, planes), not decreasing")
        if self.flips is not None:
            flips = frozen_array(self.flips, np.bool_, "Encoder flips")
            if flips.shape != array.shape:
                raise ModelRejected(
                    f"Encoder flips must be {array.shape!r}, as its thresholds, not {flips.shape!r}"
                )
            object.__setattr__(self, "flips", flips if flips.any() else None)

    def _plain(self, edge: Edge) -> bool:
        """Whether it is the encoder of pixels: all bits differ, and are set from a value on."""
        least, most = int(self.thresholds.min()), int(self.thresholds.max())
        rises = bool((np.diff(self.thresholds, axis=1) > 0).all())
        return (
            rises and not edge.signed and self.flips is None and 1 <= least <= most <= edge.maximum
        )

    def infer(self, edge: Edge) -> Edge:
        """Return the edge of bits."""
        if edge.channels != len(self.thresholds):
            raise ModelRejected(
                f"It takes {len(self.thresholds)} channels, but receives {edge.shape!r}"
            )
        low, high = int(self.thresholds.min()), int(self.thresholds.max())
        if not (self._plain(edge) or edge.low <= low <= high <= edge.high + 1):
            raise ModelRejected(
                f"Encoder thresholds must lie between {edge.low} and {edge.high + 1}, not "
                f"{low if low < edge.low else high}"
            )
        return Edge((*edge.shape[:-1], self.thresholds.size), scan=edge.scan)

    def needs(self, edge: Edge) -> int:
        """Return the first schema of files that can say it: 2 with signs, flips or constants."""
        return 1 if self._plain(edge) else 2

    def compute(self, x: Array, edge: Edge) -> Array:
        """Compute the bits of a batch (batch, …, channels)."""
        # A type that has every value, and every threshold.
        wide = Edge((1,), edge.low, edge.high + 1).dtype if not self._plain(edge) else edge.dtype
        bits = x[..., None] >= self.thresholds.astype(wide)
        if self.flips is not None:
            bits ^= self.flips
        return bits.reshape(*x.shape[:-1], self.thresholds.size).view(np.uint8)

    def constants(self, before: Constants, edge: Edge) -> Constants:
        """Return the bits of constant values, and those whose thresholds nothing crosses."""
        flips = np.zeros(self.thresholds.shape, bool) if self.flips is None else self.flips
        low = np.where(before.known, before.value, edge.low)[:, None]
        high = np.where(before.known, before.value, edge.high)[:, None]
        always: Mask = low >= self.thresholds
        known: Mask = always | (high < self.thresholds)
        return Constants(known.ravel(), (always ^ flips).astype(np.int64).ravel())

    def reads(self, wanted: Mask, edge: Edge) -> tuple[Mask]:
        """Return the values of which a bit is wanted that is not always the same."""
        varies = (self.thresholds > edge.low) & (self.thresholds <= edge.high)
        bits = wanted.reshape(*edge.shape, self.thresholds.shape[1])
        values: Mask = np.any(bits & varies, axis=-1)
        return (values,)

    def simplified(self, edge: Edge) -> Self:
        """Return the form with thresholds within reach, in which no constant bit is flipped.

        Where thresholds would decrease, constant bits stay flipped.
        """
        if self._plain(edge):
            return self
        thresholds = np.clip(self.thresholds, edge.low, edge.high + 1)
        if self.flips is None:
            return replace(self, thresholds=thresholds)
        always, never = thresholds == edge.low, thresholds == edge.high + 1
        turned = self.flips & (always | never)
        ends = np.where(always, edge.high + 1, edge.low)
        found = np.where(turned, ends, thresholds)
        if (np.diff(found, axis=1) < 0).any():
            return replace(self, thresholds=thresholds)
        return replace(self, thresholds=found, flips=self.flips & ~turned)

    @property
    def ignored_bits(self) -> int:
        """Bits below the lowest one of any threshold."""
        common = int(np.gcd.reduce(self.thresholds, axis=None))
        return max(0, (common & -common).bit_length() - 1)
