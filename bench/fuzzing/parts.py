"""What the parts of unrolled hardware compute, in numpy: nothing is compiled or simulated.

Words that pass between parts are arrays of bits: (images, words of an image, bits of a word).
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.rtl_gen.parts.accumulate import Accumulate, Number, Repeat
from sbnn_hw.rtl_gen.parts.best import Best
from sbnn_hw.rtl_gen.parts.dot import Dot
from sbnn_hw.rtl_gen.parts.gather import Gather
from sbnn_hw.rtl_gen.parts.part import Part
from sbnn_hw.rtl_gen.parts.tables import Tables
from sbnn_hw.rtl_gen.parts.window import Windows

__all__ = ["run_parts", "to_bits", "to_numbers"]

Bits = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]


def to_bits(values: npt.NDArray[Any], bits: int) -> Bits:
    """Return the bits of the numbers along the last axis, one behind the other, lowest first."""
    found = values[..., None].astype(np.int64) >> np.arange(bits) & 1
    return found.astype(np.uint8).reshape(*values.shape[:-1], values.shape[-1] * bits)


def to_numbers(words: Bits, bits: int, signed: bool = False) -> Int:
    """Return numbers of so many bits each."""
    weights = np.int64(1) << np.arange(bits)
    if signed:
        weights[-1] *= -1
    parted = words.reshape(*words.shape[:-1], words.shape[-1] // bits, bits)
    found: Int = parted.astype(np.int64) @ weights
    return found


def run_parts(parts: Iterable[Part], words: Bits) -> Bits:
    """Return what parts in a chain give."""
    for part in parts:
        if words.shape[-1] != part.width_in:
            kind = type(part).__name__
            raise ValueError(f"{kind} must take {part.width_in} bits, not {words.shape[-1]}")
        words = _RUN[type(part)](part, words)
    return words


def _tables(part: Tables, words: Bits) -> Bits:
    images, count, _ = words.shape
    cases = images * count
    packed = np.packbits(words.reshape(cases, -1), axis=0, bitorder="little")
    inputs = [int.from_bytes(column.tobytes(), "little") for column in packed.T]
    found = part.logic.evaluate(inputs, part.outputs, cases)
    size = -(-cases // 8)
    every = b"".join(word.to_bytes(size, "little") for word in found)
    columns = np.frombuffer(every, np.uint8).reshape(len(found), size)
    bits = np.unpackbits(columns, axis=1, count=cases, bitorder="little")
    return np.ascontiguousarray(bits.T).reshape(images, count, len(found))


def _gather(part: Gather, words: Bits) -> Bits:
    return words.reshape(-1, 1, part.width_out)


def _number(part: Number, words: Bits) -> Bits:
    return _beside(words, np.arange(part.pixels), part.width_out - part.width_in)


def _repeat(part: Repeat, words: Bits) -> Bits:
    cycles, beats = part.cycles, part.pixels * part.cycles
    which = np.tile(np.arange(cycles), part.pixels)
    words = _beside(np.repeat(words, cycles, axis=1), which, (cycles - 1).bit_length())
    return _beside(words, np.arange(beats), (beats - 1).bit_length())


def _beside(words: Bits, numbers: Int, bits: int) -> Bits:
    """Put a number behind each word of an image."""
    more = np.broadcast_to(to_bits(numbers[:, None], bits), (len(words), len(numbers), bits))
    return np.concatenate([words, more], axis=2)


def _accumulate(part: Accumulate, words: Bits) -> Bits:
    sums, at = [], 0
    for count, size in zip(part.counts, part.sums, strict=True):
        numbers = to_numbers(words[..., at : at + count], count, part.signed)
        sums.append(to_bits(numbers.sum(axis=1), size))
        at += count
    return np.concatenate(sums, axis=1)[:, None]


def _dot(part: Dot, words: Bits) -> Bits:
    parted = words.reshape(len(words), part.values, part.bits, part.lanes).astype(np.int64)
    values = (parted << np.arange(part.bits)[:, None]).sum(axis=2)
    sums = part.offsets + np.einsum("ivl,lvs->is", values, part.weights)
    return to_bits(sums, part.sum_bits)[:, None]


def _best(part: Best, words: Bits) -> Bits:
    first = to_numbers(words, part.bits, signed=True).argmax(axis=2)
    index = to_bits(first[..., None], max(1, (part.classes - 1).bit_length()))
    return np.concatenate([index, words], axis=2) if part.scores else index


def _windows(part: Windows, words: Bits) -> Bits:
    scan, window = part.scan, part.scan.window
    rows, columns = scan.output
    position, bit = np.array(part.taps).T
    down, across = np.divmod(position, window.kernel[1])
    y = (np.arange(rows) * window.stride[0] - window.padding[0])[:, None, None] + down
    x = (np.arange(columns) * window.stride[1] - window.padding[1])[None, :, None] + across
    y, x = np.broadcast_arrays(y, x)
    inside = (y >= 0) & (y < scan.height) & (x >= 0) & (x < scan.width)
    pixel = np.where(inside, y * scan.width + x, 0)
    read = words[:, pixel, bit]
    # Without padding, what lies outside holds anything: here the complement of the first pixel.
    outside = np.array(part.fill, np.uint8) if part.padded else 1 - read
    found = np.where(inside, read, outside).reshape(len(words), rows * columns, len(part.taps))
    if part.classes is not None:
        found = _beside(found, part.classes.ravel(), part.class_bits)
    return found


#: What each kind of part computes.
_RUN: dict[type[Part], Callable[[Any, Bits], Bits]] = {
    Accumulate: _accumulate,
    Best: _best,
    Dot: _dot,
    Gather: _gather,
    Number: _number,
    Repeat: _repeat,
    Tables: _tables,
    Windows: _windows,
}
