r"""The netlist file, ``.sbnn``: a JSON description, then arrays, then a SHA-256 over both.

::

    offset  size  what
    0       8     b"SBNN\r\n\x1a\n": a transfer in text mode breaks it at once
    8       8     length of the description, little-endian
    16      …     the description: JSON in ASCII, keys sorted
    …       …     the arrays, in the order of the description, little-endian
    -32     32    SHA-256 of all before it

The same network gives the same bytes, on any machine. Nothing in it can run.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from sbnn_hw.errors import ModelRejected
from sbnn_hw.files import opened_model, write_atomically
from sbnn_hw.netlist.edges import Edge
from sbnn_hw.netlist.form import ARRAY, Array, Arrays, Damaged, Write, get
from sbnn_hw.netlist.meaning import Meaning
from sbnn_hw.netlist.network import Network
from sbnn_hw.netlist.operation import OPERATIONS, Operation
from sbnn_hw.netlist.stage import Stage

__all__ = ["MAGIC", "SCHEMAS", "describe", "encode", "load", "read_network", "save", "to_bytes"]

MAGIC = b"SBNN\r\n\x1a\n"
#: 2 has integer streams; a network that 1 can say is written in 1.
SCHEMAS = (1, 2)

_DTYPES = ("|b1", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")


def _smallest(array: Array) -> Array:
    """Return the array in the smallest type that holds it, so that the bytes are canonical."""
    if array.dtype == bool:
        return np.packbits(array)
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for name in ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4"):
        info = np.iinfo(name)
        if info.min <= low and high <= info.max:
            return array.astype(name)
    return array.astype("<i8")


class _Writer:
    """Collects arrays; the description refers to them by number."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def __call__(self, array: Array) -> dict[str, Any]:
        self.arrays.append(np.ascontiguousarray(_smallest(array)))
        kind = "bits" if array.dtype == bool else self.arrays[-1].dtype.str
        return {"array": len(self.arrays) - 1, "type": kind, "shape": list(array.shape)}


def describe(network: Network, write: Write, *, names: bool) -> dict[str, Any]:
    """Return the input and the stages of a network as plain values, arrays as ``write`` has it."""
    stages = []
    for stage in network.stages:
        text: dict[str, Any] = {"sources": list(stage.sources)}
        operation = stage.operation
        text["operation"] = {"kind": operation.kind, **operation.describe(write)}
        if names:
            text |= {"name": stage.name, "ones": stage.ones, "absent": write(stage.absent)}
            text["kernels"] = None if stage.kernels is None else list(stage.kernels)
        stages.append(text)
    edge = network.input
    if edge != Edge.of_bits(edge.shape, edge.bits, edge.signed, edge.scan):
        raise ModelRejected(
            f"A network's input must take the whole range of its bits, not from {edge.low} to "
            f"{edge.high}"
        )
    meaning = network.meaning if names else None
    return {
        # Networks without it are written as before there was such a thing.
        **({} if meaning is None else {"meaning": meaning.to_dict()}),
        "input": {
            "shape": list(edge.shape),
            "bits": edge.bits,
            "signed": edge.signed,
            "scan": edge.scan,
        },
        "stages": stages,
    }


def encode(network: Network, *, names: bool) -> tuple[bytes, list[Array]]:
    """Return the description of a network and its arrays; without names for the digest."""
    write = _Writer()
    description = {
        "format": "sbnn-hw netlist",
        "schema": network.schema,
        **describe(network, write, names=names),
    }
    if names:
        description["digest"] = network.digest
    canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return canonical.encode("ascii"), write.arrays


def to_bytes(network: Network) -> bytes:
    """Return the content of the file of a network."""
    description, arrays = encode(network, names=True)
    parts = [MAGIC, struct.pack("<Q", len(description)), description]
    parts += [array.tobytes() for array in arrays]
    content = b"".join(parts)
    return content + hashlib.sha256(content).digest()


def save(network: Network, path: str | Path) -> None:
    """Write the file of a network, whole or not at all."""
    content = to_bytes(network)
    write_atomically(path, lambda file: file.write(content))


# Reading: every value is checked before it is used; the rest is checked by the values themselves.


class _Reader:
    """Hands out the arrays, which must follow each other to the very end."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._offset, self._next = content, 0, 0

    def __call__(self, text: Any) -> Array:
        kind, shape = get(text, "type", str), get(text, "shape", list)
        if get(text, "array", int) != self._next:
            raise Damaged("an array is out of order")
        if not all(type(size) is int and 0 <= size < 1 << 40 for size in shape) or (
            not 1 <= len(shape) <= 4
        ):
            raise Damaged("an array's shape is wrong")
        count = 1
        for size in shape:
            count *= size
        if kind != "bits" and kind not in _DTYPES:
            raise Damaged(f"an array has type {kind!r}")
        dtype = np.dtype("u1" if kind == "bits" else kind)
        items = -(-count // 8) if kind == "bits" else count
        end = self._offset + items * dtype.itemsize
        if end > len(self._content):
            raise Damaged("its arrays are cut short")
        array = np.frombuffer(self._content[self._offset : end], dtype)
        self._offset, self._next = end, self._next + 1
        if kind == "bits":
            array = np.unpackbits(array, count=count).astype(bool)
        return array.reshape(shape)

    def close(self) -> None:
        if self._offset != len(self._content):
            raise Damaged("bytes are left over")


def _read_operation(text: Any, read: Arrays) -> Operation:
    kind = get(text, "kind", str)
    if kind not in OPERATIONS:
        raise Damaged(f"no operation is called {kind!r:.80}")
    return OPERATIONS[kind].read(text, read)


def read_network(text: Any, read: Arrays) -> Network:
    """Make a network of its description; whatever that is, all is checked."""
    edge = get(text, "input", dict)
    shape = get(edge, "shape", list)
    if not all(type(size) is int and 0 < size < 1 << 24 for size in shape):
        raise Damaged("the input's shape is wrong")
    stages = []
    for item in get(text, "stages", list):
        sources = get(item, "sources", list)
        if not all(type(source) is int for source in sources):
            raise Damaged("a stage's sources are not numbers")
        operation = _read_operation(get(item, "operation", dict), read)
        absent = read(get(item, "absent", ARRAY)).astype(np.int64)
        if absent.ndim != 1 or not ((absent >= 0) & (absent < operation.droppable)).all():
            raise Damaged("a stage's absent neurons are not its own")
        ones = get(item, "ones", (int, type(None)))
        kernels = get(item, "kernels", (list, type(None)))
        if kernels is not None and not all(type(number) is int for number in kernels):
            raise Damaged("a stage's kernels are not numbers")
        stages.append(
            Stage(
                get(item, "name", str),
                operation,
                tuple(sources),
                ones=ones,
                kernels=None if kernels is None else tuple(kernels),
                absent=absent,
            )
        )
    read.close()
    meaning = get(text, "meaning", dict) if "meaning" in text else None
    return Network(
        Edge.of_bits(
            tuple(shape), get(edge, "bits", int), get(edge, "signed", bool), get(edge, "scan", str)
        ),
        tuple(stages),
        None if meaning is None else Meaning.from_dict(meaning),
    )


def load(path: str | Path) -> Network:
    """Read the file of a network and check all of it."""
    with opened_model(path, "netlist", "make one with `sbnn-hw fold`") as file:
        content = memoryview(file.read())
    if content[:8] != MAGIC:
        raise ModelRejected(f"{path} is not a netlist (make one with `sbnn-hw fold`)")
    if len(content) < 48 or hashlib.sha256(content[:-32]).digest() != content[-32:]:
        raise ModelRejected(f"{path} is damaged or cut short; fold the checkpoint again")
    try:
        length = struct.unpack_from("<Q", content, 8)[0]
        if length > len(content) - 48:
            raise Damaged("its description is cut short")
        text = json.loads(bytes(content[16 : 16 + length]).decode("ascii"))
        if get(text, "format", str) != "sbnn-hw netlist":
            raise Damaged("it is something else")
        if (schema := get(text, "schema", int)) not in SCHEMAS:
            raise ModelRejected(
                f"it has schema {schema}, but this sbnn-hw reads {SCHEMAS[0]} to {SCHEMAS[-1]}; "
                f"fold the checkpoint again"
            )
        network = read_network(text, _Reader(content[16 + length : -32]))
        if schema != network.schema:
            raise Damaged(f"its schema must be {network.schema}, not {schema}")
        if get(text, "digest", str) != network.digest:
            raise Damaged("its digest does not match its content")
    except (Damaged, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise ModelRejected(f"{path} is not a netlist ({error})") from None
    except ModelRejected as error:
        raise ModelRejected(f"{path}: {error}") from None
    return network
