"""Images as the words of a design's streams, and its answers as numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sbnn_hw.design import InputStream, OutputStream

__all__ = ["pack_images", "pack_results", "pack_values", "unpack_results"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


def pack_values(values: Array, bits: int) -> Bytes:
    """Pack rows of unsigned values, the first in the lowest bits, into rows of bytes."""
    places = np.arange(bits)
    spread = (values[..., None].astype(np.uint64) >> places.astype(np.uint64)) & np.uint64(1)
    flat = spread.reshape(len(values), -1).astype(np.uint8)
    return np.packbits(flat, axis=1, bitorder="little")


def pack_images(pixels: Array, stream: InputStream) -> Bytes:
    """Return the words that bring images into a design: one row each."""
    rows, bits = pixels.reshape(len(pixels) * stream.beats, -1), stream.value_bits
    if bits == 8:
        return np.ascontiguousarray(rows.astype(np.uint8))
    return pack_values(rows, bits)


def unpack_results(words: Bytes, stream: OutputStream) -> tuple[Array, Array]:
    """Return the classes that a design gave, and the scores (none if it gives none)."""
    index_bits, score_bits = stream.index_bits, stream.score_bits
    flat = np.unpackbits(words, axis=1, bitorder="little")[:, : stream.width]
    classes = flat[:, :index_bits].astype(np.int64) @ (1 << np.arange(index_bits))
    if not score_bits:
        return classes, np.zeros((len(words), 0), np.int64)
    weights = (1 << np.arange(score_bits, dtype=np.int64)) * np.where(
        np.arange(score_bits) == score_bits - 1, -1, 1
    )
    each = flat[:, index_bits:].reshape(len(words), stream.classes, score_bits)
    scores = each.astype(np.int64) @ weights
    return classes, scores


def pack_results(classes: Array, scores: Array, stream: OutputStream) -> Bytes:
    """Return the words that a design should give for classes and scores."""
    index_bits, score_bits = stream.index_bits, stream.score_bits
    parts = [(classes[:, None] >> np.arange(index_bits)) & 1]
    if score_bits:
        parts.append(((scores[..., None] >> np.arange(score_bits)) & 1).reshape(len(scores), -1))
    return np.packbits(np.concatenate(parts, axis=1).astype(np.uint8), axis=1, bitorder="little")
