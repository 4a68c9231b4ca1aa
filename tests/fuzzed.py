"""Files of networks, changed at random: what a hostile or damaged file may hold."""

import hashlib
import json
import struct

from sbnn_hw.netlist.file import MAGIC

#: What a value becomes: numbers at the ends of types, other kinds, what JSON lets through.
WILD = (
    0, 1, -1, 2, 3, 7, 53, 64, 99, 255, 1 << 16, (1 << 16) - 1, 1 << 24, (1 << 24) - 1, 1 << 31,
    -(1 << 31), 1 << 32, 1 << 40, 1 << 52, -(1 << 53), (1 << 62) - 1, 1 << 62, 1 << 63,
    -(1 << 63), 1 << 64, 10**30, True, False, None, 0.5, 1e300, float("nan"), float("inf"), "", "x",
    "minus", "zero", [], [0], [[]], [[0, 1]], [None], {}, {"array": 0},
)  # fmt: skip


def places(value, path=()):
    """Return the ways to all values that a description holds."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            found += places(inner, (*path, key))
    return found


def change(rng, text):
    """Change a value of a description somewhere: it is another, is gone, or comes twice."""
    ways = places(text)
    *way, last = ways[int(rng.integers(len(ways)))]
    at = text
    for key in way:
        at = at[key]
    what = rng.random()
    if what < 0.75:
        near = at[last] if isinstance(at[last], int) else 0
        at[last] = (*WILD, near + 1, near - 1, -near)[int(rng.integers(len(WILD) + 3))]
    elif what < 0.85:
        del at[last]
    elif isinstance(at, list):
        at[last:last] = [at[last]] * int(rng.choice([1, 2, 1000]))
    else:
        *other, end = ways[int(rng.integers(len(ways)))]
        found = text
        for key in (*other, end):
            found = found[key]
        at[last] = json.loads(json.dumps(found))


def split(content):
    """Return the description of a file's content, and its arrays."""
    length = struct.unpack_from("<Q", content, 8)[0]
    return json.loads(content[16 : 16 + length]), content[16 + length : -32]


def join(text, arrays):
    """Return the content of a file whose checksum is right."""
    description = text if isinstance(text, bytes) else json.dumps(text).encode("ascii")
    content = MAGIC + struct.pack("<Q", len(description)) + description + arrays
    return content + hashlib.sha256(content).digest()


def changed_file(rng, content):
    """Return a file's content with other fields, or other bytes, and the right checksum."""
    text, arrays = split(content)
    if rng.random() < 0.6:
        for _ in range(int(rng.choice([1, 1, 2]))):
            change(rng, text)
        return join(text, arrays)
    where, given = (text, arrays) if rng.random() < 0.2 else (None, arrays)
    given = bytearray(json.dumps(text).encode("ascii") if where else arrays)
    for _ in range(int(rng.choice([1, 1, 3]))):
        if given:
            given[int(rng.integers(len(given)))] = int(rng.integers(256))
    return join(bytes(given), arrays) if where else join(text, bytes(given))
