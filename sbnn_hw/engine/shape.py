"""Everything that an engine's hardware is built from, and nothing of what its program says."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

__all__ = ["MIN_CODES", "LayerShape", "Shape", "bits_for"]

#: Code words that a group has at least: its header must not change before they have all been
#: added up (see ``rtl_gen/engines/gaps.py``).
MIN_CODES = 3


def bits_for(count: int) -> int:
    """Return the bits that tell so many values apart; one value takes none."""
    return (count - 1).bit_length()


@dataclass(frozen=True)
class LayerShape:
    """A layer as the hardware knows it."""

    inputs: int  # Places that it reads.
    groups: int  # Groups of lanes, each of which gives a word.
    neurons: int  # Neurons, or classes, of the layer in the network.
    counts: bool  # Whether the sum of all inputs is counted for it.


@dataclass(frozen=True)
class Shape:
    """What an engine is built from: plain values."""

    form: str  # "gaps".
    lanes: int  # Neurons that are computed at a time.
    gap_bits: int  # Bits of a code, polarity apart.
    signed: bool  # Whether each code has a bit that tells its polarity.
    sum_bits: int  # Bits of an accumulator, and of a start value.
    unit: int  # log2 of what a tap adds.
    count_bits: int  # Bits that tell how many code words a group has.
    depth: int  # Words that the program memory holds.
    loadable: bool  # Whether it can be written.
    # What comes in: values of an image, the bits of each, and the encoder's thresholds for each
    # channel, with the bits that are set below them; none where values are taken as they are.
    values: int
    value_bits: int
    thresholds: tuple[tuple[int, ...], ...]
    flips: tuple[tuple[bool, ...], ...]
    fixed: tuple[int, ...]  # Inputs that are not counted.
    layers: tuple[LayerShape, ...]  # The last one gives the scores.
    # What goes out.
    score_bits: int
    shift: int  # Of the scores.
    negative: bool  # Whether the scores' taps read complements.

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all of it: a program fits no other shape."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    # What comes in

    @property
    def integers(self) -> bool:
        """Whether the first layer reads integers of several bits."""
        return not self.thresholds and self.value_bits > 1

    @property
    def planes(self) -> int:
        """Inputs that are made of a value."""
        return len(self.thresholds[0]) if self.thresholds else 1

    @property
    def inputs(self) -> int:
        """Inputs of the first layer."""
        return self.values * self.planes

    @property
    def counts(self) -> bool:
        """Whether any layer's inputs are counted."""
        return any(layer.counts for layer in self.layers)

    # The program

    @property
    def slot_bits(self) -> int:
        """Bits of a program word for each lane."""
        return self.gap_bits + self.signed

    @property
    def word_bits(self) -> int:
        """Bits of a program word."""
        return self.lanes * self.slot_bits

    @property
    def word_bytes(self) -> int:
        """Bytes of a program word as it is loaded."""
        return -(-self.word_bits // 8)

    @property
    def spare_bits(self) -> int:
        """Bits of a header, for each lane, that tell a part of the group's count."""
        return -(-self.count_bits // self.lanes)

    @property
    def header_words(self) -> int:
        """Words in front of a group's codes: start, flip, and the count."""
        return -(-(self.sum_bits + 1 + self.spare_bits) // self.slot_bits)

    # The memory of activations

    @property
    def regions(self) -> tuple[int, int, int, int]:
        """First words of the two halves of the input, and of what layers hand on in turn.

        A region begins at a multiple of its size, a power of two, so that an address within it has
        only to be joined to its first word.
        """
        sizes = [
            0 if self.integers else self._words(self.inputs),
            0 if self.integers else self._words(self.inputs),
            max((layer.groups for layer in self.layers[:-1:2]), default=0),
            max((layer.groups for layer in self.layers[1:-1:2]), default=0),
        ]
        found, end = [0] * 4, 0
        for n in sorted(range(4), key=lambda n: -_rounded(sizes[n])):
            found[n] = end
            end += _rounded(sizes[n])
        return found[0], found[1], found[2], found[3]

    @property
    def activation_words(self) -> int:
        """Words of the memory of activations; each has a bit for each lane."""
        return max(
            [self.regions[1] + self._words(self.inputs)] * (not self.integers)
            + [self.regions[2 + n % 2] + layer.groups for n, layer in enumerate(self.layers[:-1])],
            default=0,
        )

    def _words(self, inputs: int) -> int:
        return -(-inputs // self.lanes)

    @property
    def position_bits(self) -> int:
        """Bits of a position in a layer's inputs."""
        return max(1, max(bits_for(layer.inputs) for layer in self.layers))

    @property
    def q_bits(self) -> int:
        """Bits of the greatest sum of all inputs that is counted."""
        most = [
            layer.inputs * ((1 << self.value_bits) - 1 if self.integers and not n else 1)
            for n, layer in enumerate(self.layers) if layer.counts
        ]  # fmt: skip
        return max(most, default=0).bit_length()

    @property
    def score_drop(self) -> int:
        """Lowest bits of an accumulator that no score has."""
        return self.unit - self.shift - 1

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.layers[-1].neurons

    @property
    def index_bits(self) -> int:
        """Bits of a class's number."""
        return max(1, bits_for(self.classes))


def _rounded(size: int) -> int:
    return 1 << bits_for(size) if size else 0
