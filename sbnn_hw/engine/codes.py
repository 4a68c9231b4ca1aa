"""Gap codes: the places that a neuron reads, as steps from one to the next."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Gaps", "group_lengths", "take_steps"]

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Gaps:
    """The taps of a layer as steps: neuron by neuron, in the order of their places."""

    neurons: int
    neuron: Int  # Whose tap it is.
    steps: Int  # From the tap in front of it, or from one place before the first: 1 or more.
    inverted: Bool

    @classmethod
    def of(cls, neurons: int, neuron: Int, places: Int, inverted: Bool) -> "Gaps":
        """Make steps of places."""
        order = np.lexsort((places, neuron))
        neuron, places = neuron[order], places[order]
        before = np.empty_like(places)
        before[1:] = places[:-1]
        firsts = np.ones(len(places), bool)
        firsts[1:] = neuron[1:] != neuron[:-1]
        before[firsts] = -1
        return cls(neurons, neuron, places - before, inverted[order])

    def lengths(self, bits: int) -> Int:
        """Return how many codes each neuron takes."""
        each = 1 + (self.steps - 1) // _escape(bits)
        return np.bincount(self.neuron, each, self.neurons).astype(np.int64)

    def write(self, bits: int, rows: Int, columns: Int, slots: npt.NDArray[np.uint32]) -> None:
        """Write the codes of each neuron into a column, from a row on."""
        escape = _escape(bits)
        each = 1 + (self.steps - 1) // escape
        ends = np.cumsum(each)
        codes = np.full(int(ends[-1]) if len(ends) else 0, escape, np.uint32)
        codes[ends - 1] = (self.steps - 1) % escape | self.inverted.astype(np.int64) << bits
        neuron = np.repeat(self.neuron, each)
        begins = np.concatenate([[0], np.cumsum(self.lengths(bits))])
        row = rows[neuron] + np.arange(len(codes)) - begins[neuron]
        slots[row, columns[neuron]] = codes


def take_steps(slots: npt.NDArray[np.uint32], bits: int) -> tuple[Int, Bool, Bool]:
    """Return the place after each code of each lane, whether it is a tap, and its polarity."""
    codes = slots.astype(np.int64) & _escape(bits)
    taps = codes != _escape(bits)
    return np.cumsum(codes + taps, axis=0) - 1, taps, (slots >> bits).astype(bool)


def group_lengths(lengths: Int, lanes: int, least: int) -> Int:
    """Return the code words of each group of neurons, given how many codes each one takes."""
    padded = np.zeros(-(-len(lengths) // lanes) * lanes, np.int64)
    padded[: len(lengths)] = lengths
    found: Int = np.maximum(padded.reshape(-1, lanes).max(axis=1), least)
    return found


def _escape(bits: int) -> int:
    return (1 << bits) - 1
